"""What importing, printing and each command load, and the processor time that the lightest of them takes."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

NEVER = {
    "altair",
    "vl_convert",
    "scipy",
    "pandas",
    "polars",
    "fastapi",
    "uvicorn",
    "jwt",
    "psycopg",
    "pyspark",
}
MEASURING = {"duckdb", "opendp"}
# Packages, and modules of packages, that a command must not load. All others are needed by what it does.
SLOW = {
    "duckdb",
    "numpy",
    "numpy.ma",
    "opendp",
    "opendp.prelude",
    "pyarrow",
    "pyarrow.compute",
    "rich.markdown",
    "rich.progress",
    "sqlalchemy",
    "sqlalchemy.dialects.postgresql",
    "sqlglot",
    "tomlkit",
    "yaml",
}
LOADED = "import sys, json; print('\\n' + json.dumps(sorted(sys.modules)))"
COUNTED = """
import sys
calls = 0
def count(frame, event, argument):
    global calls
    calls += event == "call"
sys.setprofile(count)
{code}
sys.setprofile(None)
print()
print(calls)
"""
SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
PAIR = ["Married-civ-spouse", "Never-married"]
COMMANDS = [
    ["--help"],
    ["query", "-e", "adult", "--rho", "0.1", "--yes", SQL],
    ["preview", "-e", "adult", "--rho", "0.1", SQL],
    ["why", "-e", "adult", *PAIR],
    ["prepare", "-e", "adult", "--rho", "0.02", "--yes"],
    ["explain", "-e", "adult", *PAIR, "--report", "report.html"],
    ["explain", "-e", "adult", *PAIR, "--json"],
    ["budget", "-e", "adult", "--json"],
    ["history", "-e", "adult", "--json"],
    ["schema", "init", "people.csv"],
    ["schema", "check"],
    ["token", "list"],
]


NEEDED = {  # by each command, once an answer is stored and prepared
    "--version": set(),
    "--help": {"rich.markdown"},
    "budget -e adult": {"sqlalchemy"},
    "history -e adult": {"sqlalchemy"},
    "token list": {"sqlalchemy"},
    "data status -e adult": {"sqlalchemy"},
    "schema init people.csv -o draft.toml": {"duckdb", "numpy", "sqlglot", "tomlkit"},
    "schema check people.toml": {"duckdb"},
    f"preview -e adult --rho 0.2 '{SQL}'": {"numpy", "sqlalchemy", "sqlglot"},
    f"query -e adult --rho 0.1 --yes '{SQL}'": {"numpy", "sqlalchemy", "sqlglot"},
    "why -e adult Married-civ-spouse Never-married": {"numpy", "sqlalchemy", "sqlglot"},
    "explain -e adult Married-civ-spouse Never-married": {"numpy", "sqlalchemy", "sqlglot"},
    f"query -e adult --rho 0.2 --yes '{SQL}'": {
        "duckdb",
        "numpy",
        "opendp",
        "pyarrow",
        "sqlalchemy",
        "sqlglot",
    },
}


def loaded(code: str, folder: Path) -> set[str]:
    """The modules in memory after the code."""
    run = [sys.executable, "-c", f"{code}\n{LOADED}"]
    out = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True).stdout
    return set(json.loads(out.splitlines()[-1]))


def command(*words: str) -> str:
    return f"from dpxplain.cli import run; code = run({list(words)!r}); assert code in (0, 4), code"


def test_no_command_loads_a_package_that_it_does_not_need(tmp_path):
    (tmp_path / "people.csv").write_text("city,age\n" + "Graz,20\nLinz,40\n" * 200, encoding="utf-8")
    for_all = "\n".join(command(*words) for words in COMMANDS)
    packages = loaded(for_all, tmp_path)
    assert packages >= MEASURING, "the commands measured nothing"
    assert (tmp_path / "report.html").exists()
    assert not packages & NEVER


def test_the_library_prints_and_draws_without_a_charting_package(tmp_path):
    code = (
        "import dpxplain as dpx\n"
        f"answer = dpx.example('adult').query({SQL!r}, rho=0.1)\n"
        f"table = answer.why(*{PAIR!r}).explain(k=3, rho=0.5)\n"
        "print(answer, table); table._repr_html_()"
    )
    assert not loaded(code, tmp_path) & NEVER


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Path:
    """A folder where an answer about the bundled data was prepared, with a small data set beside it."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "people.csv").write_text("city,age\n" + "Graz,20\nLinz,40\n" * 200, encoding="utf-8")
    (folder / "people.toml").write_text(
        '[table]\nname = "people"\nsource = "people.csv"\n[privacy]\nrho = 1.0\n'
        '[columns.city]\nvalues = ["Graz", "Linz"]\n[columns.age]\nbounds = [0, 100]\n',
        encoding="utf-8",
    )
    asked = command("query", "-e", "adult", "--rho", "0.1", "--yes", SQL)
    loaded(asked + "\n" + command("prepare", "-e", "adult", "--rho", "0.02", "--yes"), folder)
    return folder


@pytest.mark.parametrize("words", NEEDED)
def test_each_command_loads_only_what_it_needs(workspace, tmp_path, words):
    folder = shutil.copytree(workspace, tmp_path / "own")  # some write into it
    modules = loaded(command(*shlex.split(words)), folder)
    assert modules & (SLOW | NEVER) == NEEDED[words]


@pytest.mark.parametrize("words", ["schema check people.toml", "budget -e adult"])
def test_a_command_says_nothing_but_json_when_it_ends(workspace, words):
    code = "import sys; from dpxplain.cli import main; main()"
    run = [sys.executable, "-c", code, *shlex.split(words), "--json"]
    ended = subprocess.run(run, cwd=workspace, capture_output=True, text=True, check=True)
    assert all("kind" in json.loads(line) for line in ended.stderr.splitlines())
    json.loads(ended.stdout)


def test_a_command_imports_no_other_commands(workspace):
    modules = loaded(command("budget", "-e", "adult"), workspace)
    others = {f"dpxplain.cli.{name}_commands" for name in ("schema", "admin", "ledger")}
    assert "dpxplain.cli.ask_commands" in modules
    assert not modules & others


@pytest.mark.parametrize(
    ("words", "times"),
    [
        ("--version", 1),
        ("schema check people.toml", 1.6),
        ("budget -e adult", 2),
        (f"why -e adult {shlex.join(PAIR)}", 3.5),
    ],
)
def test_a_command_takes_little_more_than_importing_what_it_stands_on(workspace, words, times):
    """In calls of Python functions, which are as many on every machine, busy or not."""

    def calls(code: str) -> int:
        out = subprocess.run(
            [sys.executable, "-c", COUNTED.format(code=code)],
            cwd=workspace,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return int(out.splitlines()[-1])

    loaded(command(*shlex.split(words)), workspace)  # compiles what was not compiled yet
    assert calls(command(*shlex.split(words))) < times * calls("import duckdb, numpy, sqlalchemy")
