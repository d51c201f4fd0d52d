"""What importing, printing and each command load, and the processor time that the lightest of them takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

NEVER = {"altair", "vl_convert", "scipy", "pandas", "polars", "fastapi", "uvicorn", "jwt", "psycopg"}
MEASURING = {"duckdb", "opendp"}
LOADED = "import sys, json; print('\\n' + json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
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


def loaded(code: str, folder: Path) -> set[str]:
    """The packages in memory after the code."""
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


def test_looking_at_the_budget_loads_only_the_ledger(tmp_path):
    looks = [["budget"], ["budget", "--json"], ["history"], ["history", "--json"]]
    packages = loaded("\n".join(command(*words, "-e", "adult") for words in looks), tmp_path)
    assert not packages & (NEVER | MEASURING | {"numpy", "pyarrow", "sqlglot"})


def test_why_reads_what_is_stored_without_the_parts_that_measure(tmp_path):
    loaded(command("query", "-e", "adult", "--rho", "0.1", "--yes", SQL), tmp_path)
    assert not loaded(command("why", "-e", "adult", *PAIR), tmp_path) & (NEVER | MEASURING)


def test_the_budget_takes_little_more_than_importing_what_it_stands_on(tmp_path):
    """In calls of Python functions, which are as many on every machine, busy or not."""

    def calls(code: str) -> int:
        out = subprocess.run(
            [sys.executable, "-c", COUNTED.format(code=code)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        return int(out.splitlines()[-1])

    loaded(command("budget", "-e", "adult"), tmp_path)  # makes the ledger, and compiles what was not yet
    assert calls(command("budget", "-e", "adult")) < 2.5 * calls("import duckdb, numpy, sqlalchemy")
