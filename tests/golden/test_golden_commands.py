"""The exit code and the JSON of every command."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from golden_tables import AVERAGE, COUNT, PEOPLE, chain, command, random_texts, unknown_team, write_files

from golden import check, normal

BY, REASON = ("--by", "carol"), ("--reason", "a thesis")
KEY = ("--key", "anchor.key")
LEDGER = Path(".dpxplain") / "ledger.sqlite"
COMPUTED = "SELECT sex, SUM(pay) / COUNT(*) AS rate FROM people GROUP BY sex HAVING COUNT(*) > 5"

STEPS: dict[str, tuple[str, ...]] = {
    "version": ("--version",),
    "unknown command": ("queries",),
    "unknown option": ("budget", "--colour"),
    "draft": ("schema", "init", "people.parquet", "--output", "draft.toml"),
    "draft again": ("schema", "init", "people.parquet", "--output", "draft.toml"),
    "check": ("schema", "check"),
    "no schema": ("schema", "check", "none.toml"),
    "no answer": ("why", "F", "M"),
    "price of a query": ("query", AVERAGE, "--rho", "5", "--dry-run"),
    "query": ("query", AVERAGE, "--rho", "5"),
    "query of several": ("query", COMPUTED, "--epsilon", "5"),
    "query for the population": ("query", COUNT, "--rho", "5", "--population", "--confidence", "0.9"),
    "query of the curator": ("query", COUNT, "--rho", "5", "--curator"),
    "no price": ("query", "SELECT sex, SUM(pay) FROM people GROUP BY sex"),
    "too expensive": ("query", COUNT, "--rho", "2000"),
    "wrong SQL": ("query", "SELECT agee FROM people", "--rho", "1"),
    "why": ("why", "F", "M", "--answer", "1"),
    "why of weights": ("why", "--answer", "1", "--weight", "F=1", "--weight", "M=-0.5", "--at-least", "3"),
    "why as a ratio": ("why", "F", "M", "--ratio"),
    "why as a share": ("why", "F", "--share"),
    "why of another group": ("why", "F", "X"),
    "preview of a query": ("preview", COUNT),
    "preview of an explanation": (
        "preview",
        "F",
        "M",
        "--answer",
        "1",
        "--mechanism",
        "one-shot",
        "--k",
        "2",
    ),
    "compute": ("compute", "'F' / 'M' - 1"),
    "price of a preparation": ("prepare", "--answer", "1", "--rho", "5", "--dry-run"),
    "prepare": ("prepare", "--answer", "1", "--rho", "5"),
    "explain": ("explain", "F", "M", "--answer", "1", "--k", "2", "--report", "why.html"),
    "explain one-shot": (
        *("explain", "F", "M", "--answer", "1", "--k", "2", "--rho", "0.5", "--mechanism", "one-shot"),
        *("--split", "1,2,3", "--curator"),
    ),
    "ratio": ("ratio", "F", "M", "--k", "2", "--rho", "5", "--attributes", "city"),
    "story not prepared": ("story", "F", "M", "--answer", "1", "--levels", "2"),
    "story": ("story", "F", "M", "--answer", "1", "--rho", "5", "--levels", "2", "--exclude", "joined"),
    "quality": ("quality", "--rho", "5"),
    "price of a discovery": ("discover", "team", "--rho", "100", "--dry-run"),
    "discover": ("discover", "team", "--rho", "100"),
    "tune": ("schema", "tune", "--rho", "5", "--column", "pay", "--column", "age"),
    "budget": ("budget",),
    "history": ("history", "--limit", "2"),
    "sample": ("sample", "flights.csv", "--rows", "10"),
    "serve without data": ("serve",),
    "token": ("token", "create", "ann", "--dataset", "people", "--rho", "1.5", *BY),
    "tokens": ("token", "list"),
    "revoke": ("token", "revoke", "{token}", *BY),
    "revoke an unknown token": ("token", "revoke", "none", *BY),
    "allow": ("allow", "set", "people", "bob", "--rho", "2", *REASON, *BY),
    "top up": ("allow", "top-up", "people", "--rho", "5", *REASON, *BY),
    "top up an analyst": ("allow", "top-up", "people", "--rho", "1", "--analyst", "bob", *REASON, *BY),
    "share": ("allow", "share", "people", "bob", "ann", *REASON, *BY),
    "allowances": ("allow", "list", "people"),
    "stop sharing": ("allow", "share", "people", "bob", "ann", "--stop", *REASON, *BY),
    "forgive": ("allow", "forgive", "people", "bob", *REASON, *BY),
    "log": ("audit", "show", "--after", "27", "--limit", "2"),
    "verify": ("audit", "verify"),
    "anchor": ("audit", "anchor", "anchor.json", *KEY),
    "verify from an anchor": ("audit", "verify", "--anchor", "anchor.json", *KEY),
    "designs": ("audit", "privacy", "--list"),
    "ledger again": ("ledger", "create"),
    "status": ("ledger", "status"),
    "backup": ("ledger", "backup", "copy.sqlite"),
    "query after the backup": ("query", COUNT, "--rho", "3"),
    "restore": ("ledger", "restore", "copy.sqlite", "--replace", *BY),
    "status after a loss": ("ledger", "status"),
    "query after a loss": ("query", COUNT, "--rho", "4"),
    "loss": ("ledger", "declare-loss", "--dry-run", *REASON, *BY),
    "declare the loss": ("ledger", "declare-loss", *REASON, *BY),
    "status of the data": ("data", "status"),
    "status of other data": ("data", "status"),
    "query of other data": ("query", COUNT, "--rho", "4"),
    "accept other data": ("data", "accept", "2025", *BY),
    "experiments": ("experiment", "list"),
    "demo": ("demo", "--fast"),
}


def change_the_data(folder: Path) -> None:
    parquet.write_table(PEOPLE.slice(1), folder / "people.parquet")


BEFORE: dict[str, Callable[[Path], object]] = {"status of other data": change_the_data}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the table and its schema."""
    for name in [name for name in os.environ if name.startswith("DPXPLAIN_") and name != "DPXPLAIN_GOLDEN"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, "dpxplain.toml", unknown_team)
    return tmp_path


Run = Callable[..., tuple[int, Any, list[Any]]]


@pytest.fixture
def dpxplain(folder: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with --json. Returns its exit code, its result, and its other lines but for progress."""

    def call(*words: str) -> tuple[int, Any, list[Any]]:
        capfd.readouterr()
        code = command(*words, "--json")
        out, err = capfd.readouterr()
        lines = [line for line in map(json.loads, err.splitlines()) if line["kind"] != "progress"]
        return code, json.loads(out) if out else None, lines

    return call


def test_every_command_keeps_its_exit_code_and_its_json(folder: Path, dpxplain: Run) -> None:
    outcomes, names, token = {}, {str(folder): "<folder>"}, ""
    for name, words in STEPS.items():
        BEFORE.get(name, bool)(folder)
        code, result, lines = dpxplain(*(word.replace("{token}", token) for word in words))
        if name == "token":
            token = result["id"]
            names |= {result["token"]: "<text of the token>"}
        if name == "demo":  # its parts are the results of other commands
            result = {part: type(value).__name__ for part, value in result.items()}
        outcomes[name] = [" ".join(words), code, result, *lines]
    names |= random_texts(folder / ".dpxplain")
    check("commands", without_clock(normal(outcomes, names)))
    check("audit_chain", chain(folder / ".dpxplain")[30:], "a loss")


def without_clock(value: Any) -> Any:
    """The outcomes without the time in a sentence, and without the age of an anchor in seconds."""
    text = re.sub(r'"age_seconds": \d+', '"age_seconds": 0', json.dumps(value))
    return json.loads(re.sub(r"<date> \d\d:\d\d UTC", "<date and time> UTC", text))


def test_every_command_has_its_record(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def listed(*group: str) -> list[str]:
        assert command(*group, "--help") == 0
        commands = capfd.readouterr().out.partition("─ Commands ─")[2]
        return re.findall(r"^│ ([a-z]\S*)  ", commands, re.MULTILINE)

    recorded = {words[:length] for words in STEPS.values() for length in (1, 2)}
    commands = [(name,) for name in listed()]
    groups = [name for name in commands if any(len(words) == 2 for words in recorded if words[:1] == name)]
    commands += [(*group, name) for group in groups for name in listed(*group)]
    assert len(commands) > 40
    assert [words for words in commands if words not in recorded] == []
