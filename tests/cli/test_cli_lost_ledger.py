"""Commands on a ledger that is missing, broken or put back begin no other one and hide nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest


def _remove_ledger(folder: Path) -> None:
    for file in (folder / ".dpxplain").glob("ledger.sqlite*"):
        if file.suffix != ".anchor":
            file.unlink()


@pytest.mark.parametrize("backup", ["missing.sqlite", "people.csv", "empty.sqlite"])
def test_a_restore_that_fails_begins_no_ledger(dpxplain: Any, folder: Path, backup: str) -> None:
    assert dpxplain("ledger", "create", "--ledger", "empty.sqlite").code == 0
    assert dpxplain("ledger", "restore", backup, "--ledger", "typo/ledger.sqlite").code == 2
    assert not (folder / "typo").exists()


def test_a_dry_run_tells_the_loss_of_a_ledger_that_is_gone_and_begins_none(asked: Any, folder: Path) -> None:
    _remove_ledger(folder)
    before = sorted((folder / ".dpxplain").iterdir())
    outcome = asked("ledger", "declare-loss", "--reason", "disk failed", "--dry-run", "--json")
    assert outcome.json["lost"] == [{"dataset": "people", "analyst": "", "rho": 0.5}]
    assert sorted((folder / ".dpxplain").iterdir()) == before
    assert (
        asked("ledger", "declare-loss", "--reason", "disk failed", "--json").json["lost"]
        == outcome.json["lost"]
    )


def test_a_backup_tells_that_the_ledger_is_behind_also_if_it_is_broken(asked: Any, folder: Path) -> None:
    with closing(sqlite3.connect(folder / ".dpxplain" / "ledger.sqlite")) as ledger:
        for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            ledger.execute(f'DROP TRIGGER "{name}"')
        ledger.execute("UPDATE log SET hash = 'x' || substr(hash, 2)")
        ledger.commit()
    outcome = asked("ledger", "backup", "copy.sqlite")
    assert outcome.code == 2
    words = " ".join((outcome.out + outcome.err).split())
    assert "than its anchor" in words
    assert "BROKEN" in words


READING = (("budget",), ("history",), ("data", "status"))
BY_SEX = "SELECT sex, AVG(pay) FROM people GROUP BY sex"


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("way", ["variable", "configuration", "beside"])
def test_a_ledger_that_is_gone_is_never_shown_or_begun_as_unspent(
    asked: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str, is_damaged: bool
) -> None:
    (anchor,) = (folder / ".dpxplain").glob("*.anchor")
    if way != "beside":
        (folder / "safe").mkdir()
        anchor = anchor.rename(folder / "safe" / "x.anchor")
    if way == "variable":
        monkeypatch.setenv("DPXPLAIN_ANCHOR", str(anchor))
    elif way == "configuration":
        (folder / "server.toml").write_text(
            '[server]\ndatasets = "dpxplain.toml"\nanchor = "safe/x.anchor"\n'
        )
    assert asked("budget", "--json").json["rho"]["spent"] == 0.5
    _remove_ledger(folder)
    if is_damaged:
        anchor.write_text("no anchor\n")
    for words in (*READING, ("query", BY_SEX, "--rho", "0.1")):
        outcome = asked(*words)
        assert (outcome.code, outcome.out) == (2, "")
        assert "is gone" in outcome.err
    assert not (folder / ".dpxplain" / "ledger.sqlite").exists()


@pytest.mark.parametrize("words", [("audit", "verify"), ("ledger", "status"), ("token", "list")])
def test_nobody_is_advised_to_begin_a_ledger_where_the_anchor_tells_of_one(
    asked: Any, folder: Path, words: tuple[str, ...]
) -> None:
    _remove_ledger(folder)
    outcome = asked(*words)
    assert (outcome.code, outcome.out) == (2, "")
    said = " ".join(outcome.err.split())
    assert "its anchor" in said
    assert "dpxplain ledger declare-loss" in said
    assert "create" not in said


@pytest.mark.parametrize("content", [b"", b"no database, but long enough to look at" * 50])
def test_a_ledger_that_cannot_be_opened_is_restored_as_its_refusal_says(
    asked: Any, folder: Path, content: bytes
) -> None:
    assert asked("ledger", "backup", "copy.sqlite").code == 0
    _remove_ledger(folder)
    ledger = folder / ".dpxplain" / "ledger.sqlite"
    ledger.write_bytes(content)
    refusal = asked("ledger", "restore", "copy.sqlite", "--replace")
    assert refusal.code == 2
    assert "away" in refusal.err
    assert ledger.read_bytes() == content
    ledger.rename(folder / "damaged")
    assert asked("ledger", "restore", "copy.sqlite").code == 0
    assert asked("budget", "--json").json["rho"]["spent"] == 0.5
    assert asked("audit", "verify").code == 0
