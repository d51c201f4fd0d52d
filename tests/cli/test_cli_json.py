"""With --json, stdout is one JSON document and stderr one JSON object per line, whatever happens."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from dpxplain.cli.command_line import app

BY_SEX = "SELECT sex, AVG(pay) FROM people GROUP BY sex"
WORDS = [
    ("query", BY_SEX, "--rho", "0.5"),
    ("query", BY_SEX, "--rho", "0.25"),
    ("query", BY_SEX, "--rho", "0.3", "--curator"),
    ("query", BY_SEX, "--rho", "0.3", "--dry-run"),
    ("query", BY_SEX, "--rho", "99"),
    ("query", BY_SEX),
    ("query", BY_SEX, "--epsilon", "1"),
    ("query", "SELECT AVG(sallary) FROM people", "--rho", "1"),
    ("why", "Male", "Female"),
    ("why", "Male", "female"),
    ("preview", "Male", "Female"),
    ("prepare", "--rho", "0.1"),
    ("explain", "Male", "Female", "--k", "2", "--report", "why.html"),
    ("explain", "Male", "Female", "--report", "why.docx"),
    ("compute", "'Male' / 'Female'"),
    ("budget",),
    ("history",),
    ("sample", "flights.csv", "--rows", "10"),
    ("schema", "init", "people.csv", "--output", "draft.toml"),
    ("schema", "init", "people.csv", "--output", "-"),
    ("schema", "check"),
    ("token", "create", "ann", "--dataset", "people", "--rho", "1"),
    ("token", "list"),
    ("token", "revoke", "none"),
    ("allow", "list", "people"),
    ("audit", "show"),
    ("audit", "verify"),
    ("serve",),
    ("serve", "none.toml"),
    ("budget", "--colour"),
    ("budgets",),
    ("query", "--help"),
    (),
]


def check_streams(outcome: Any) -> list[Any]:
    """The lines of stderr; both streams are JSON."""
    if outcome.out:
        json.loads(outcome.out)
    lines = [json.loads(line) for line in outcome.err.splitlines()]
    kinds = {"note", "warning", "price", "progress", "error", "interrupted"}
    assert {line["kind"] for line in lines} <= kinds
    return lines


@pytest.mark.parametrize("at_terminal", [False, True])
@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_both_streams_are_json(
    asked: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], at_terminal: bool
) -> None:
    monkeypatch.delenv("DPXPLAIN_LEDGER", raising=False)
    if at_terminal:
        monkeypatch.setenv("TTY_COMPATIBLE", "1")  # for Rich
        monkeypatch.setattr("dpxplain.cli.screen.ERR._color_system", 1)
    outcome = asked(*words, "--json")
    lines = check_streams(outcome)
    assert outcome.out or lines[-1]["kind"] == "error"


def test_a_price_is_a_line_of_its_own(dpxplain: Any) -> None:
    lines = check_streams(dpxplain("query", BY_SEX, "--rho", "0.5", "--format", "json"))
    [price] = (line for line in lines if line["kind"] == "price")
    assert (price["rho"], price["free"], price["remaining"], price["remaining_after"]) == (
        0.5,
        False,
        5.0,
        4.5,
    )
    stages = [line["stage"] for line in lines if line["kind"] == "progress"]
    assert "Opening people" in stages
    assert stages == list(dict.fromkeys(stages))


def test_an_interruption_is_json_too(dpxplain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpxplain.session.Session.preview", interrupt)
    outcome = dpxplain("query", BY_SEX, "--rho", "1", "--json")
    assert outcome.code == 130
    assert check_streams(outcome)[-1]["kind"] == "interrupted"


def test_the_first_mistakes_on_the_command_line_come_with_their_remedy(dpxplain: Any) -> None:
    assert "--rho 0.0243" in dpxplain("schema", "init", "x.csv", "--epsilon", "1", "--json").error["remedy"]
    assert "--dry-run" in dpxplain("quality", "--json").error["remedy"]
    assert "--epsilon" in dpxplain("query", BY_SEX, "--eps", "1", "--json").error["message"]


def test_without_json_the_next_command_speaks_plainly_again(dpxplain: Any, folder: Path) -> None:
    dpxplain("query", BY_SEX, "--rho", "0.5", "--json")
    assert dpxplain("query", BY_SEX, "--rho", "0.25").err.startswith("Price: ")


def test_every_command_takes_json() -> None:
    commands = [*app.registered_commands]
    for group in app.registered_groups:
        commands += group.typer_instance.registered_commands  # type: ignore[union-attr]
    without = [c.callback for c in commands if ("as_json") not in inspect.signature(c.callback).parameters]  # type: ignore
    assert without == []


def test_a_ledger_behind_its_anchor_is_told_of_as_json_too(dpxplain: Any, folder: Path) -> None:
    ledger = folder / ".dpxplain" / "ledger.sqlite"
    assert dpxplain("query", BY_SEX, "--rho", "0.5", "--yes").code == 0
    earlier = ledger.read_bytes()
    assert dpxplain("query", BY_SEX, "--rho", "0.25", "--yes").code == 0
    ledger.write_bytes(earlier)
    outcome = dpxplain("budget", "--json")
    assert any("blocked" in line["message"] for line in check_streams(outcome))
