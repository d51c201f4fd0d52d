"""Every command, the library and the server find the same ledger, and none is begun by mistake."""

from __future__ import annotations

import ast
import json
import logging
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.main import get_command

import dpxplain as dpx
from dpxplain.cli.command_line import app
from dpxplain.errors import BadRequest, SourceError
from dpxplain.ledger.address import configured_ledger, find_ledger
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Request
from dpxplain.server.app import create_app
from dpxplain.server.config import Config, Serving

BY_SEX = "SELECT sex, AVG(pay) FROM people GROUP BY sex"
SOURCE = Path(dpx.__file__).parent
WHY = ("--reason", "study")
BEGINNING = ("ledger create", "ledger restore")  # the commands that may begin a ledger
COMMANDS: dict[str, tuple[str, ...]] = {
    "query": (BY_SEX, "--rho", "0.1"),
    "why": ("Male", "Female"),
    "prepare": ("--rho", "0.1"),
    "explain": ("Male", "Female", "--rho", "0.1"),
    "preview": (BY_SEX, "--rho", "0.1"),
    "compute": ("a / b",),
    "ratio": ("Male", "Female"),
    "story": ("Male", "Female", "--rho", "0.1"),
    "quality": ("--rho", "0.1"),
    "discover": ("sex", "--rho", "0.1"),
    "schema tune": ("--rho", "0.1"),
    "budget": (),
    "history": (),
    "serve": ("--schema", "dpxplain.toml", "--port", "0"),
    "data status": (),
    "data accept": (),
    "token create": ("ann",),
    "token list": (),
    "token revoke": ("0123456789ab",),
    "allow set": ("people", "ann", "--rho", "1", *WHY),
    "allow top-up": ("people", "--rho", "1", *WHY),
    "allow forgive": ("people", "ann", *WHY),
    "allow list": ("people",),
    "allow share": ("people", "ann", "ben", *WHY),
    "ledger create": (),
    "ledger backup": ("copy.sqlite",),
    "ledger restore": ("copy.sqlite",),
    "ledger status": (),
    "ledger declare-loss": WHY,
    "audit show": (),
    "audit verify": (),
    "audit anchor": ("people.anchor", "--key", "anchor.key"),
}

CONFIGURATION = '[server]\ndatasets = "dpxplain.toml"\n'


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPXPLAIN_LEDGER", raising=False)


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))
    if path and not hasattr(command, "commands"):
        yield " ".join(path), {option for parameter in command.params for option in parameter.opts}


def test_every_command_that_opens_a_ledger_is_tested_here() -> None:
    opening = {name for name, options in _commands(get_command(app)) if options & {"--ledger", "--workspace"}}
    assert opening == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_an_unknown_scheme_without_repeating_the_address(
    dpxplain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("DPXPLAIN_LEDGER", "postgressql://carol:s3cret@db.example.org/budgets")
    before = sorted(folder.iterdir())
    outcome = dpxplain(*command.split(), *COMMANDS[command])
    assert outcome.code == 2
    assert "postgressql:// is not an address" in outcome.err
    assert "Did you mean postgresql://" in outcome.err
    for secret in ("carol", "s3cret", "example", "budgets"):
        assert secret not in outcome.out + outcome.err
    assert [path for path in sorted(folder.iterdir()) if path.name != "anchor.key"] == before


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in BEGINNING])
def test_no_command_begins_a_ledger_that_is_named_and_missing(
    dpxplain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("DPXPLAIN_LEDGER", str(folder / "mistyped" / "ledger.sqlite"))
    outcome = dpxplain(*command.split(), *COMMANDS[command])
    assert (outcome.code, "does not exist" in outcome.err, "--create" in outcome.err) == (2, True, True)
    assert not (folder / "mistyped").exists()
    assert not (folder / ".dpxplain").exists()


@pytest.mark.parametrize(
    ("place", "problem", "remedy"),
    [
        ("mysql://ann:s3cret@host/db", "mysql:// is not", "path of a file"),
        ("sqlite:///s3cret.sqlite", "sqlite:// is not", "without sqlite://"),
        ("postgressql://ann:s3cret@host/db", "postgressql:// is not", "Did you mean postgresql://"),
        ("postgresql+psycopg2://ann:s3cret@host/db", r"postgresql\+psycopg2:// is", "Did you mean"),
        ("postgresql:/ann:s3cret@host/db", "needs two slashes", "postgresql://"),
        ("'postgresql://ann:s3cret@host/db'", "needs two slashes", "postgresql://"),
        ("ann:s3cret@host/db", "looks like", "postgresql://"),
        ("host=h dbname=d password=s3cret", "looks like", "postgresql://"),
        ("https://ann:s3cret@host/db", "https:// is not", "path of a file"),
        ("postgresql//ann:s3cret@host/db", "needs two slashes", "postgresql://"),
        ("postgres:ann:s3cret@host/db", "needs two slashes", "postgresql://"),
        ("postgresql:host/s3cret", "needs two slashes", "postgresql://"),
        ("jdbc:postgresql://host/db?user=ann&password=s3cret", "jdbc:// is not", "path of a file"),
        ("//ann:s3cret@host/db", "looks like", "postgresql://"),
        ("ann:s3c/s3cret@host/db", "looks like", "postgresql://"),
        ("/ann:s3cret@host/db", "looks like", "postgresql://"),
        ("ann%3As3cret%40host/db", "looks like", "postgresql://"),
        ("sslmode=require host=h password=s3cret", "looks like", "postgresql://"),
        ("host/db?user=ann&password=s3cret", "looks like", "postgresql://"),
        ("/db?user=ann&PASSWORD = s3cret", "looks like", "postgresql://"),
        ("postgresql://ann:s3c/s3cret@host/db", "looks like", "%40"),
        ("postgresql://ann:s3c@s3cret@host/db", "looks like", "%40"),
        ("postgresql://ann:s3c?s3cret@host/db", "looks like", "%40"),
    ],
)
def test_what_is_no_ledgers_address_is_refused_by_its_scheme_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, problem: str, remedy: str
) -> None:
    monkeypatch.chdir(tmp_path)
    create = not place.startswith("/")  # should this ever fail, nothing is made outside of the test's folder
    attempts = [
        lambda: open_ledger(place, create=create),
        lambda: open_ledger(Path(place), create=create),
        lambda: find_ledger(workspace=place),
        lambda: Config.load({"server": {"datasets": "d", "ledger": place}}),
        lambda: configured_ledger(place, tmp_path),
    ]
    for attempt in attempts:
        with pytest.raises(BadRequest) as refusal:
            attempt()
        assert "s3cret" not in str(refusal.value)
    with pytest.raises(BadRequest, match=problem) as refusal:
        open_ledger(place, create=create)
    assert remedy in refusal.value.remedy
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "ledger",
    [
        *("postgresql:/ann:s3cret@host/db", "ann:s3cret@host/db", "host=db password=s3cret"),
        *("postgresql://ann:s3cret@host/db", "postgresql://host/db?password=s3cret"),
    ],
)
def test_a_password_in_the_configuration_is_neither_repeated_nor_made_a_folder(
    dpxplain: Any, folder: Path, ledger: str
) -> None:
    (folder / "server.toml").write_text(f'{CONFIGURATION}ledger = "{ledger}"\n')
    before = sorted(folder.iterdir())
    for words in (("serve", "server.toml", "--create"), ("token", "list"), ("ledger", "create")):
        outcome = dpxplain(*words)
        assert (outcome.code, "s3cret" in outcome.out + outcome.err) == (2, False)
    assert sorted(folder.iterdir()) == before


def test_neither_the_configuration_nor_its_errors_show_the_ledgers_address() -> None:
    config = Config.load({"server": {"datasets": "d", "ledger": "postgresql://host/s3cret"}})
    assert "s3cret" not in repr(config)
    with pytest.raises(ValidationError) as refusal:
        Serving(datasets=(Path("d"),), ledger="ann:s3cret@host/db")
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    "place",
    [
        *(
            "ledger.sqlite",
            "a@b/ledger.sqlite",
            "a:b/ledger.sqlite",
            "12:30/ledger.sqlite",
            "a@b:c/ledger.sqlite",
        ),
        *(
            "data//ledger.sqlite",
            "postgres-data//ledger.sqlite",
            "./ann:x/ledger.sqlite",
            "a b=c/ledger.sqlite",
        ),
    ],
)
def test_paths_with_a_colon_or_an_at_sign_are_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    open_ledger(place).close()
    open_ledger(tmp_path / place, create=False).close()
    assert Path(configured_ledger(place, tmp_path).place) == tmp_path / place


def test_a_folder_that_exists_may_look_like_an_address(tmp_path: Path) -> None:
    home = tmp_path / "ann:home@work password=x"
    home.mkdir()
    open_ledger(home / "new" / "ledger.sqlite").close()
    (home / "server.toml").write_text(CONFIGURATION + 'ledger = "new/ledger.sqlite"\n')
    open_ledger(Config.load(home / "server.toml").ledger_address.place, create=False).close()
    with pytest.raises(BadRequest, match="looks like"):
        open_ledger(home / "ann:s3cret@host" / "db")


def _ledger(place: str) -> str:
    """A ledger in which 0.25 was spent and that knows one token; returns its head."""
    with closing(open_ledger(place)) as ledger:
        ledger.open_dataset("people", 5.0, 1e-6)
        entry = ledger.reserve("people", Charge("query", "k", Request("SELECT 1"), 0.25))
        ledger.release(entry.row, "{}")
        ledger.grant("people", "ann", 1.0, reason="study", by="carol")
        return ledger.head()[1]


def _heads(dpxplain: Any, *ledger: str) -> set[str]:
    """The heads of all ledgers that commands, library and server find."""
    verified = dpxplain("audit", "verify", "--json", *ledger).json["head"]
    assert dpxplain("audit", "show", "--json", *ledger).json["records"][-1]["hash"] == verified
    assert dpxplain("allow", "list", "people", "--json", *ledger).json["rho"]["spent"] == 0.25
    assert dpxplain("data", "status", "--json", *ledger).json["kind"] == "data-status"
    assert dpxplain("token", "list", "--json", *ledger).json["tokens"] == []
    heads = {verified}
    if not ledger:
        assert dpxplain("budget", "--json").json["rho"]["spent"] == 0.25
        assert len(dpxplain("history", "--json").json["entries"]) == 2
        with closing(open_ledger(find_ledger().place, create=False)) as opened:
            heads.add(opened.head()[1])
        with dpx.connect("people.csv", "dpxplain.toml") as session:
            assert session.budget.spent == 0.25
    return heads


@pytest.mark.parametrize("way", ["option", "variable", "configuration", "default", "postgres"])
def test_all_find_the_same_ledger(
    dpxplain: Any,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    request: pytest.FixtureRequest,
) -> None:
    place = str(folder / "elsewhere" / "budgets.sqlite")
    configuration = CONFIGURATION
    if way == "default":
        place = ".dpxplain/ledger.sqlite"
    elif way == "postgres":
        place = request.getfixturevalue("postgres_address")
    if way in ("variable", "postgres"):
        monkeypatch.setenv("DPXPLAIN_LEDGER", place)
    if way == "configuration":
        configuration += 'ledger = "elsewhere/budgets.sqlite"\n'
    (folder / "server.toml").write_text(configuration)
    head = _ledger(place)
    if way == "configuration":
        monkeypatch.chdir("/")
        elsewhere = dpxplain("audit", "verify", "--json", "--ledger", f"{folder}/server.toml")
        assert elsewhere.json["head"] == head
        monkeypatch.chdir(folder)
    if way != "option":
        with closing(
            open_ledger(Config.load(folder / "server.toml").ledger_address.place, create=False)
        ) as ledger:
            assert ledger.head()[1] == head
    assert _heads(dpxplain, *(["--ledger", place] if way == "option" else [])) == {head}


@pytest.mark.parametrize("database", ["SQLite", "PostgreSQL"])
def test_commands_compare_the_ledger_with_the_servers_anchor_however_it_is_named(
    dpxplain: Any,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
    request: pytest.FixtureRequest,
) -> None:
    if database == "SQLite":
        configured, place, same_place = "l.sqlite", "./l.sqlite", str(folder / "l.sqlite")
        ways = [(), ("--ledger", place), ("--ledger", same_place), ("--ledger", "server.toml")]
    else:
        place = request.getfixturevalue("postgres_address")
        configured, same_place = re.sub(r":[^:@]*@", "@", place), f"{place}&application_name=x"
        ways = [("--ledger", place), ("--ledger", same_place)]  # the configuration has no password
    (folder / "safe").mkdir()
    (folder / "server.toml").write_text(f'{CONFIGURATION}ledger = "{configured}"\nanchor = "safe/x.anchor"\n')
    servers_anchor = str(folder / "safe" / "x.anchor")
    assert Config.load(folder / "server.toml").ledger_address.anchor == servers_anchor
    open_ledger(place, anchor=servers_anchor).close()

    def anchor(*words: str) -> str:
        status = dpxplain("ledger", "status", "--json", *words)
        assert status.code == 0
        return str(status.json["anchor"])

    assert {anchor(*words) for words in ways} == {servers_anchor}
    for variable in (place, same_place):
        monkeypatch.setenv("DPXPLAIN_LEDGER", variable)
        assert {anchor(*words) for words in [(), *ways]} == {servers_anchor}
        assert Config.load(folder / "server.toml").ledger_address.anchor == servers_anchor
    open_ledger(folder / "other.sqlite").close()
    assert anchor("--ledger", "other.sqlite") != servers_anchor


def test_a_variable_that_names_another_ledger_than_the_configuration_takes_its_anchor(
    dpxplain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "server.toml").write_text(CONFIGURATION + 'ledger = "l.sqlite"\nanchor = "x.anchor"\n')
    open_ledger(folder / "other.sqlite").close()
    monkeypatch.setenv("DPXPLAIN_LEDGER", "other.sqlite")
    assert Config.load(folder / "server.toml").ledger_address.anchor == str(folder / "x.anchor")
    for words in ((), ("--ledger", "other.sqlite")):
        assert dpxplain("ledger", "status", "--json", *words).json["anchor"] == str(folder / "x.anchor")


def test_a_file_of_another_program_named_server_toml_is_not_minded(folder: Path, dpxplain: Any) -> None:
    for text in ("[server]\nport = 1\n", "not TOML", "server = 3\n"):
        (folder / "server.toml").write_text(text)
        assert dpxplain("budget").code == 0
    outcome = dpxplain("audit", "show", "--ledger", "server.toml")
    assert (outcome.code, "not a server's configuration" in outcome.err) == (2, True)


def test_a_workspace_begins_with_its_first_charge_and_says_so(
    folder: Path, dpxplain: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert dpxplain("budget", "--json").json["rho"]["spent"] == 0
    assert dpxplain("history", "--json").json["entries"] == []
    assert dpxplain("preview", BY_SEX, "--rho", "0.1").code == 0
    assert not (folder / ".dpxplain").exists(), "reading begins no ledger"
    first, second = (dpxplain("query", BY_SEX, "--rho", rho, "--json") for rho in ("0.1", "0.2"))
    notes = [json.loads(line) for line in first.err.splitlines()]
    assert [line["message"] for line in notes if "is new" in line.get("message", "")] == [
        "The ledger '.dpxplain/ledger.sqlite' is new: nothing was spent in it before."
    ]
    assert "is new" not in second.err
    caplog.clear()
    with caplog.at_level(logging.WARNING), dpx.connect("people.csv", "dpxplain.toml", workspace="other"):
        assert "The ledger 'other/ledger.sqlite' is new" in caplog.text


def test_reading_where_a_ledger_was_removed_does_not_say_that_nothing_was_spent(
    asked: Any, folder: Path
) -> None:
    for file in (folder / ".dpxplain").glob("ledger.sqlite*"):
        file.unlink()
    assert (folder / ".dpxplain" / "ledger.anchor").exists()
    for words in (("budget",), ("history",), ("data", "status"), ("query", BY_SEX, "--rho", "0.1")):
        outcome = asked(*words)
        assert (outcome.code, outcome.out) == (2, "")


def test_an_application_of_ones_own_begins_the_default_ledger_only(folder: Path) -> None:
    (folder / "server.toml").write_text(CONFIGURATION + 'ledger = "named.sqlite"\n')
    with pytest.raises(SourceError, match=r"named\.sqlite' does not exist"):
        create_app(Config.load(folder / "server.toml"))
    assert not (folder / "named.sqlite").exists()


def test_a_database_is_made_a_ledger_only_by_saying_so(
    dpxplain: Any, monkeypatch: pytest.MonkeyPatch, postgres_address: str
) -> None:
    monkeypatch.setenv("DPXPLAIN_LEDGER", postgres_address)
    refused = dpxplain("token", "create", "ann")
    assert (refused.code, "does not exist" in refused.err) == (2, True)
    with pytest.raises(SourceError, match="does not exist"):
        open_ledger(postgres_address, create=False)
    made = dpxplain("token", "create", "ann", "--create")
    assert (made.code, "is new" in made.err) == (0, True)
    assert dpxplain("token", "create", "ben").code == 0
    again = dpxplain("ledger", "create")
    assert (again.code, "exists, with 2 records" in again.err) == (2, True)


def test_every_place_that_opens_a_ledger_says_whether_it_may_begin() -> None:
    silent = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open_ledger":
                in_memory = isinstance(node.args[0], ast.Constant) and node.args[0].value is None
                if not in_memory and "create" not in {keyword.arg for keyword in node.keywords}:
                    silent.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert silent == []


def test_a_workspace_that_is_named_counts_before_the_variable_even_if_it_is_the_usual_one(
    folder: Path, dpxplain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ledger(folder / "other.sqlite").close()
    monkeypatch.setenv("DPXPLAIN_LEDGER", "other.sqlite")
    assert find_ledger().place == "other.sqlite"
    assert find_ledger(workspace=".dpxplain").place == str(Path(".dpxplain", "ledger.sqlite"))
    monkeypatch.setenv("DPXPLAIN_WORKSPACE", "elsewhere")
    assert find_ledger(workspace="elsewhere").place == str(Path("elsewhere", "ledger.sqlite"))
    sql = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    assert dpxplain("query", sql, "--rho", "0.1", "--yes").code == 0
    assert dpxplain("budget", "--json").json["rho"]["spent"] > 0
    assert dpxplain("budget", "--json", "--workspace", ".dpxplain").json["rho"]["spent"] == 0
    assert (folder / "elsewhere" / "last.json").exists()


def test_a_workspace_of_the_variable_has_the_servers_anchor_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "server.toml").write_text(CONFIGURATION + 'anchor = "x.anchor"\n')
    assert find_ledger().anchor == find_ledger(workspace=".dpxplain").anchor == "x.anchor"
    monkeypatch.setenv("DPXPLAIN_WORKSPACE", ".dpxplain")
    assert find_ledger().anchor == "x.anchor"
