"""Verifying since an anchor: new records and rows are checked as in a full verification, old ones are not."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from ledger_contract import reserve, store

from dpxplain.ledger.ledger import SQLLedger

WHY = {"reason": "study 7", "by": "carol"}


def alter(ledger: SQLLedger, statement: str) -> None:
    """Behind the ledger's back, with the triggers put back afterwards."""
    from dpxplain.ledger.tables import create_triggers, drop_triggers

    with ledger._store.writing() as connection:
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
    report = ledger.verify_audit(anchor=anchor, full=False)
    assert report == ledger.verify_audit(anchor=anchor)
    assert report.problems == []
    assert ledger.verify_audit(anchor=ledger.anchor(), full=False).problems == []


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
        "INSERT INTO releases (entry, payload) SELECT id, '1' FROM entries WHERE key = 'without a release'",
    ],
)
def test_what_a_full_verification_finds_in_new_rows_and_small_tables_is_found(anchored, statement):
    ledger, anchor = anchored
    alter(ledger, statement)
    assert ledger.verify_audit(anchor=anchor, full=False).problems


def test_an_old_entry_that_was_altered_takes_a_full_verification(anchored):
    ledger, anchor = anchored
    alter(ledger, "UPDATE entries SET description = 'other' WHERE key = 'old'")
    assert ledger.verify_audit(anchor=anchor, full=False).problems == []
    assert ledger.verify_audit(anchor=anchor).problems


def test_budget_that_came_back_is_found_also_in_old_rows(anchored):
    ledger, _ = anchored
    anchor = ledger.anchor()
    alter(ledger, "UPDATE entries SET total_units = 0 WHERE id = (SELECT max(id) FROM entries)")
    assert ledger.verify_audit(anchor=anchor, full=False).problems
