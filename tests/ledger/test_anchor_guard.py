"""The anchor neither refuses a ledger that is in order, nor lets budget come back by a way around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_contract import reserve

from dpxplain.errors import BadRequest, BudgetExhausted
from dpxplain.ledger.anchor_file import AnchorFile, Head, Mark
from dpxplain.ledger.anchor_guard import AnchorGuard
from dpxplain.ledger.ledger import open_ledger


@pytest.fixture
def opened(tmp_path):
    """Opens a SQLite ledger that knows "adult" with a limit of 1, and closes it after the test."""
    ledgers = []

    def open_again(place=tmp_path / "ledger.sqlite", limit=1.0, **options):
        ledger = open_ledger(place, **options)
        ledgers.append(ledger)
        if limit is not None:
            ledger.open_dataset("adult", limit, 1e-6)
        return ledger

    yield open_again
    for ledger in ledgers:
        ledger.close()


def spend(ledger, rho, key="k", analyst=""):
    account = ledger.account(analyst, default_limit=10.0)
    entry = reserve(account, rho, key)
    account.release(entry, json.dumps(key))
    return entry


def remove(place: Path) -> None:
    for file in place.parent.glob(f"{place.name}*"):
        if not file.name.endswith(".anchor"):
            file.unlink()


def charged(losses):
    return [(loss.dataset, loss.analyst, loss.units / 10**12) for loss in losses]


def test_what_was_read_of_an_anchor_stays_the_same_when_more_is_written(tmp_path):
    file = AnchorFile(tmp_path / "people.anchor")
    marks = [Mark(Head(n, f"{n:064}"), n, "2030-01-01T00:00:00+00:00", {"adult": {"": n}}) for n in (1, 2)]
    file.append(marks[0])
    kept = file.read()
    file.append(marks[1])
    assert kept.head == Head(1, f"{1:064}")
    assert kept.spent == {"adult": {"": 1}}


def test_anchor_written_by_another_thread_during_the_check_refuses_no_charge(opened, monkeypatch):
    ledger = opened()
    spend(ledger, 0.1, "first")
    late = []
    with monkeypatch.context() as patch:
        patch.setattr(AnchorGuard, "keep", lambda _, mark: late.append(mark))
        reserve(ledger, 0.1, "second")  # committed; its thread has not come to write the anchor yet

    @sa.event.listens_for(ledger._store._engine, "after_cursor_execute")
    def write_late(_connection, _cursor, statement, *_):
        if late and "WHERE log.id =" in statement:
            ledger._store.anchor.keep(late.pop())

    reserve(ledger, 0.1, "third")
    assert not late
    assert ledger.recovery.anchor_problem() is None


def test_everything_charges_what_the_anchor_knows_also_of_a_ledger_that_is_gone(opened, tmp_path):
    ledger = opened()
    spend(ledger, 0.25, "first", "ann")
    spend(ledger, 0.5, "second")
    ledger.close()
    remove(tmp_path / "ledger.sqlite")
    anew = opened(limit=None, is_recovery=True)
    losses = anew.recovery.declare_loss(reason="disk failed", by="carol", everything=True)
    assert charged(losses) == [("adult", "", 0.5), ("adult", "ann", 0.25)]
    anew.open_dataset("adult", 1.0, 1e-6)
    assert anew.budget("adult").spent == 0.75
    assert anew.account("ann", default_limit=1.0).budget("adult").spent == 0.25


def test_everything_charges_no_less_than_the_lost_charges_if_the_limit_was_raised_since(opened, tmp_path):
    ledger = opened()
    spend(ledger, 0.25)
    ledger.recovery.backup(tmp_path / "older.sqlite")
    ledger.open_dataset("adult", 5.0, 1e-6)
    spend(ledger, 4.0, "second", "ann")
    ledger.recovery.restore(tmp_path / "older.sqlite", by="carol")
    losses = ledger.recovery.declare_loss(reason="disk failed", by="carol", everything=True)
    assert charged(losses) == [("adult", "ann", 4.0)]
    ledger.open_dataset("adult", 5.0, 1e-6)
    assert ledger.budget("adult").spent == 4.25
    assert ledger.verify_audit().problems == []


def test_everything_charges_the_lost_charges_to_their_analysts_and_the_rest_to_the_owner(opened, tmp_path):
    ledger = opened()
    ledger.recovery.backup(tmp_path / "older.sqlite")
    spend(ledger, 0.25, "first", "ann")
    ledger.recovery.restore(tmp_path / "older.sqlite", by="carol")
    losses = ledger.recovery.declare_loss(reason="disk failed", by="carol", everything=True)
    assert charged(losses) == [("adult", "ann", 0.25), ("adult", "", 0.75)]
    with pytest.raises(BudgetExhausted):
        reserve(ledger, 0.01)


def test_everything_is_refused_where_neither_ledger_nor_anchor_knows_a_data_set(opened, tmp_path):
    anchor = tmp_path / "people.anchor"
    anchor.write_text("nonsense\n")
    ledger = opened(limit=None, anchor=anchor, is_recovery=True)
    with pytest.raises(BadRequest, match="knows no data set"):
        ledger.recovery.declare_loss(reason="disk failed", by="carol", everything=True)
    assert ledger.head()[0] == 0
    assert anchor.read_text() == "nonsense\n"
