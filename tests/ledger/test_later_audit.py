"""Verifying since an anchor: new records and rows are checked as in a full verification, old ones are not."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_contract import reserve, restored, store

from dpxplain.cli import run
from dpxplain.ledger import anchor, audit
from dpxplain.ledger import ledger as ledger_module
from dpxplain.ledger.ledger import SQLLedger, open_ledger

WHY = {"reason": "study 7", "by": "carol"}


def test_a_new_release_that_was_deleted_is_named(anchored):
    ledger, anchor = anchored
    alter(ledger, "DELETE FROM releases WHERE entry = (SELECT max(entry) FROM releases)")
    problems = " ".join(ledger.verify_audit(since=anchor, full=False).problems)
    assert re.search(r"The release \d+ was deleted", problems)


def alter(ledger: SQLLedger, statement: str) -> None:
    """Behind the ledger's back, with the triggers put back afterwards."""
    from dpxplain.ledger.tables import create_triggers, drop_triggers

    with ledger.store.writing() as connection:
        drop_triggers(connection)
        connection.execute(sa.text(statement))
        create_triggers(connection)


@pytest.fixture
def anchored(ledger):
    """A ledger with an anchor in the middle of its history."""
    ledger.grant("adult", "ann", 0.5, **WHY)
    store(ledger, "query", "old")
    open_charge = reserve(ledger.account("ann"), 0.1, key="released later")
    anchor = ledger.anchor()
    ledger.account("ann").release(open_charge, "{}")
    store(ledger, "query", "new")
    reserve(ledger.account("ann"), 0.1, key="without a release")
    ledger.grant("adult", "ben", 0.1, **WHY)
    return ledger, anchor


def test_an_untouched_ledger_is_intact_and_has_the_same_head(anchored):
    ledger, anchor = anchored
    report = ledger.verify_audit(since=anchor, full=False)
    assert report == ledger.verify_audit(anchor=anchor)
    assert report.problems == []
    assert ledger.verify_audit(since=ledger.anchor(), full=False).problems == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET description = 'other' WHERE key = 'new'",
        "UPDATE entries SET total_units = 0 WHERE key = 'without a release'",
        "UPDATE releases SET payload = '[]' WHERE entry = (SELECT max(entry) FROM releases)",
        "UPDATE releases SET payload = '[]' WHERE entry = "
        "(SELECT id FROM entries WHERE key = 'released later')",
        "UPDATE log SET details = '{}' WHERE id = (SELECT max(id) FROM log)",
        "DELETE FROM log WHERE id = (SELECT max(id) - 1 FROM log)",
        "UPDATE grants SET limit_units = 999 WHERE analyst = 'ann'",
        "UPDATE limits SET top_up_units = 999",
        "DELETE FROM limits",
        "INSERT INTO releases (entry, payload) SELECT id, '1' FROM entries WHERE key = 'without a release'",
    ],
)
def test_what_a_full_verification_finds_in_new_rows_and_small_tables_is_found(anchored, statement):
    ledger, anchor = anchored
    alter(ledger, statement)
    assert ledger.verify_audit(since=anchor, full=False).problems


def test_an_old_entry_that_was_altered_takes_a_full_verification(anchored):
    ledger, anchor = anchored
    alter(ledger, "UPDATE entries SET description = 'other' WHERE key = 'old'")
    assert ledger.verify_audit(since=anchor, full=False).problems == []
    assert ledger.verify_audit(anchor=anchor).problems


def test_budget_that_came_back_is_found_also_in_old_rows(anchored):
    ledger, _ = anchored
    anchor = ledger.anchor()
    alter(ledger, "UPDATE entries SET total_units = 0 WHERE id = (SELECT max(id) FROM entries)")
    assert ledger.verify_audit(since=anchor, full=False).problems


def test_a_long_log_is_verified_from_where_it_was_last_found_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command remembers it beside the key; altered old rows are then found with --full only."""
    place, key = tmp_path / "ledger.sqlite", tmp_path / "curator" / "key"
    words = ["audit", "verify", "--ledger", str(place), "--key", str(key)]
    with closing(open_ledger(place, create=True)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
    assert run(words) == 0
    assert not key.exists(), "a short log is verified in full, and nothing is remembered"
    monkeypatch.setattr(anchor, "LONG_LOG", 1)
    monkeypatch.setattr(ledger_module, "LONG_LOG", 1)
    assert run(words) == 0
    with closing(open_ledger(place, create=False)) as ledger:
        ledger.note("curator", "looked")
    whole = Counter[str]()
    monkeypatch.setattr(audit, "verify", lambda *_: whole.update(["in full"]))
    capsys.readouterr()
    assert run(words) == 0
    assert "were verified" in capsys.readouterr().err
    assert not whole


def test_an_older_copy_of_a_long_log_is_not_said_to_be_verified_up_to_a_record_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, older = tmp_path / "ledger.sqlite", tmp_path / "older.sqlite"
    words = ["audit", "verify", "--ledger", str(place), "--key", str(tmp_path / "key")]
    monkeypatch.setattr(anchor, "LONG_LOG", 1)
    monkeypatch.setattr(ledger_module, "LONG_LOG", 1)
    with closing(open_ledger(place, anchor="off")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        ledger.note("curator", "looked")
        ledger.recovery.backup(older)
        for _ in range(3):
            ledger.note("curator", "looked")
        assert run(words) == 0
        restored(ledger, older, by="carol")
    capsys.readouterr()
    assert run(words) == 0  # no anchor was kept, and the curator may have restored it
    said = " ".join(capsys.readouterr().err.split())
    assert "verified up to record 5 just now, but no longer continues" in said
    assert "were verified" not in said
