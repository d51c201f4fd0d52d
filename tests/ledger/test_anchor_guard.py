"""The anchor neither refuses a ledger that is in order, nor lets budget come back by a way around it."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_contract import reserve, restored

from dpxplain.errors import BadRequest, BudgetExhausted, LedgerBehind, LedgerUnavailable, SourceError
from dpxplain.ledger import anchor_guard
from dpxplain.ledger.anchor_guard import AnchorFile, AnchorGuard, Head, Mark
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import drop_triggers
from dpxplain.model.charge import Charge, Request

LATER = datetime.now(UTC) + timedelta(days=1)


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

    @sa.event.listens_for(ledger.store.engines[0], "after_cursor_execute")
    def write_late(_connection, _cursor, statement, *_):
        if late and "WHERE log.id =" in statement:
            ledger.store.anchor.keep(late.pop())

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


def test_everything_charges_nothing_to_a_data_set_that_has_nothing_left(opened):
    ledger = opened()
    ledger.open_dataset("census", 2.0, 1e-6)
    spend(ledger, 1.0)
    losses = ledger.recovery.declare_loss(reason="disk failed", by="carol", everything=True)
    assert charged(losses) == [("census", "", 2.0)]


def test_everything_charges_no_less_than_the_lost_charges_if_the_limit_was_raised_since(opened, tmp_path):
    ledger = opened()
    spend(ledger, 0.25)
    ledger.recovery.backup(tmp_path / "older.sqlite")
    ledger.open_dataset("adult", 5.0, 1e-6)
    spend(ledger, 4.0, "second", "ann")
    restored(ledger, tmp_path / "older.sqlite", by="carol")
    losses = ledger.recovery.declare_loss(reason="disk failed", by="carol", everything=True)
    assert charged(losses) == [("adult", "ann", 4.0)]
    ledger.open_dataset("adult", 5.0, 1e-6)
    assert ledger.budget("adult").spent == 4.25
    assert ledger.verify_audit().problems == []


def test_everything_charges_the_lost_charges_to_their_analysts_and_the_rest_to_the_owner(opened, tmp_path):
    ledger = opened()
    ledger.recovery.backup(tmp_path / "older.sqlite")
    spend(ledger, 0.25, "first", "ann")
    restored(ledger, tmp_path / "older.sqlite", by="carol")
    losses = ledger.recovery.declare_loss(reason="disk failed", by="carol", everything=True)
    assert charged(losses) == [("adult", "ann", 0.25), ("adult", "", 0.75)]
    with pytest.raises(BudgetExhausted):
        reserve(ledger, 0.01)


def test_everything_is_refused_where_neither_ledger_nor_anchor_knows_a_data_set(opened, tmp_path):
    anchor = tmp_path / "people.anchor"
    anchor.write_text("nonsense\n")
    ledger = opened(limit=None, anchor=anchor, is_recovery=True)
    with pytest.raises(BadRequest, match="has no data sets"):
        ledger.recovery.declare_loss(reason="disk failed", by="carol", everything=True)
    assert ledger.head()[0] == 0
    assert anchor.read_text() == "nonsense\n"


def test_anchor_of_a_machine_that_charges_nothing_learns_what_others_charge(opened, tmp_path):
    idle, busy = opened(anchor=tmp_path / "idle.anchor"), opened(anchor=tmp_path / "busy.anchor")
    spend(idle, 0.1, "first")
    idle.recovery.backup(tmp_path / "older.sqlite")
    spend(busy, 0.8, "second")
    assert idle.recovery.keep_anchor() is None  # as the server does every ten seconds, and at each probe
    restored(idle, tmp_path / "older.sqlite", by="carol")
    assert "older copy" in idle.recovery.keep_anchor()
    with pytest.raises(LedgerBehind):
        reserve(idle, 0.1, "third")
    assert charged(idle.recovery.losses()) == [("adult", "", 0.8)]


@pytest.mark.parametrize(
    "content", [b"", b'{"format": "dpxpl', b'{"format": "dpxplain-heads-1", "id": "1"}\n']
)
def test_anchor_that_was_emptied_or_cut_is_not_taken_for_a_new_one(opened, tmp_path, content):
    ledger = opened()
    spend(ledger, 0.1)
    ledger.close()
    anchor = tmp_path / "ledger.anchor"
    anchor.write_bytes(content)
    again = opened(is_recovery=True)
    assert "cannot be read" in again.recovery.anchor_problem()
    with pytest.raises(LedgerBehind):
        reserve(again, 0.1, "second")
    assert anchor.read_bytes() == content
    again.close()
    remove(tmp_path / "ledger.sqlite")
    with pytest.raises(SourceError, match="cannot be read"):
        opened()
    assert not (tmp_path / "ledger.sqlite").exists()


def test_anchor_emptied_under_a_running_ledger_is_written_again(opened, tmp_path):
    ledger = opened()
    spend(ledger, 0.1, "first")
    anchor = tmp_path / "ledger.anchor"
    anchor.write_bytes(b"")
    spend(ledger, 0.1, "second")
    assert AnchorFile(anchor).read().spent == {"adult": {"": 200_000_000_000}}


def test_anchor_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    file = AnchorFile(tmp_path / "people.anchor")

    def full(_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(anchor_guard.os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        file.append(Mark(Head(1, f"{1:064}"), 1, "2030-01-01T00:00:00+00:00", {}))
    assert list(tmp_path.iterdir()) == []


def test_process_that_makes_the_anchor_at_the_same_time_loses_no_mark(tmp_path, monkeypatch):
    path = tmp_path / "people.anchor"
    marks = [
        Mark(Head(n, f"{n:064}"), n, "2030-01-01T00:00:00+00:00", {"adult": {str(n): n}}) for n in (1, 2)
    ]
    link = anchor_guard.os.link

    def link_late(draft, target):
        monkeypatch.setattr(anchor_guard.os, "link", link)
        AnchorFile(path).append(marks[0])
        link(draft, target)

    monkeypatch.setattr(anchor_guard.os, "link", link_late)
    AnchorFile(path).append(marks[1])
    assert AnchorFile(path).read().heads == [mark.head for mark in marks]
    assert list(tmp_path.iterdir()) == [path]


def test_ledger_opened_by_a_symbolic_link_has_the_same_anchor(opened, tmp_path):
    ledger = opened()
    ledger.recovery.backup(tmp_path / "older.sqlite")
    spend(ledger, 0.1)
    restored(ledger, tmp_path / "older.sqlite", by="carol")
    link = tmp_path / "other.sqlite"
    link.symlink_to(tmp_path / "ledger.sqlite")
    other = opened(link)
    assert other.recovery.anchor_file == ledger.recovery.anchor_file
    with pytest.raises(LedgerBehind):
        reserve(other, 0.1)


def test_anchor_that_is_a_symbolic_link_stays_one(opened, tmp_path):
    target, link = tmp_path / "elsewhere.anchor", tmp_path / "ledger.anchor"
    link.symlink_to(target)
    for number in range(2):
        spend(opened(), 0.1, str(number))
    assert link.is_symlink()
    assert AnchorFile(target).read().spent == {"adult": {"": 200_000_000_000}}


def test_ledgers_whose_names_differ_after_a_dot_have_anchors_of_their_own(opened, tmp_path):
    for year in (2026, 2027):
        spend(opened(tmp_path / f"people.{year}"), 0.1)
    names = {file.name for file in tmp_path.glob("*.anchor")}
    assert names == {"people.2026.anchor", "people.2027.anchor"}


@pytest.mark.parametrize("change", ["revocation", "grant", "limit", "share"])
def test_change_of_rights_after_the_last_charge_is_not_undone_by_an_older_copy(opened, tmp_path, change):
    ledger = opened()
    token, _ = ledger.tokens.create("ann", "analyst", expires=LATER, by="carol")
    spend(ledger, 0.1, "first", "ann")
    ledger.recovery.backup(tmp_path / "older.sqlite")
    if change == "revocation":
        ledger.tokens.revoke(token, "carol")
    elif change == "grant":
        ledger.grant("adult", "ann", 0.0, reason="has left", by="carol")
    elif change == "limit":
        ledger.open_dataset("adult", 0.5, 1e-6)
    else:
        ledger.share("adult", "ann", "bob", reason="same team", by="carol")
    restored(ledger, tmp_path / "older.sqlite", by="carol")
    with pytest.raises(LedgerBehind):
        reserve(ledger, 0.1, "second")
    assert ledger.recovery.declare_loss(reason="looked", by="carol") == []
    reserve(ledger, 0.1, "second")


def test_changes_of_a_ledger_that_is_behind_leave_its_anchor_as_it_is(opened, tmp_path):
    ledger = opened()
    ledger.recovery.backup(tmp_path / "older.sqlite")
    spend(ledger, 0.1)
    restored(ledger, tmp_path / "older.sqlite", by="carol")
    kept = AnchorFile(tmp_path / "ledger.anchor").read()
    ledger.grant("adult", "ann", 0.5, reason="approved", by="carol")
    assert AnchorFile(tmp_path / "ledger.anchor").read() == kept
    with pytest.raises(LedgerBehind):
        reserve(ledger, 0.1)


def test_change_of_rights_stays_if_the_anchor_cannot_be_written_and_then_nothing_is_charged(
    opened, tmp_path, monkeypatch
):
    ledger = opened()
    spend(ledger, 0.1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _full)
        ledger.grant("adult", "ann", 0.5, reason="approved", by="carol")
        with pytest.raises(LedgerUnavailable, match="Nothing was charged"):
            reserve(ledger, 0.1, "second")
    reserve(ledger, 0.1, "third")
    assert ledger.budget("adult").spent == 0.2


def _full(*_):
    raise OSError(errno.ENOSPC, "full")


def test_copy_from_before_a_charge_was_taken_over_is_not_measured_again(opened, tmp_path, monkeypatch):
    ledger = opened()
    spend(ledger, 0.1)
    charge = Charge("query", "broken off", Request("q"), 0.25)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _full)
        with pytest.raises(LedgerUnavailable):
            ledger.reserve_once("adult", charge)
    ledger.flights._report()  # the heartbeat, which marks the flight as untouched
    ledger.recovery.keep_anchor()  # so that only what follows can tell the copy from the ledger
    copy = tmp_path / "copy"
    copy.mkdir()
    files = [file for file in tmp_path.glob("ledger.sqlite*") if not file.name.endswith("-shm")]
    for file in files:
        shutil.copyfile(file, copy / file.name)
    entry = ledger.reserve_once("adult", charge)
    ledger.release(entry.row, "{}")
    assert ledger.audit()[-2].action == "taken over"
    assert ledger.verify_audit().problems == []
    ledger.close()
    remove(tmp_path / "ledger.sqlite")
    for file in files:
        shutil.copyfile(copy / file.name, file)
    again = opened()
    with pytest.raises(LedgerBehind):
        again.reserve_once("adult", charge)


def test_mark_of_a_charge_that_was_declared_lost_elsewhere_is_not_written(opened, tmp_path, monkeypatch):
    ledger = opened()
    spend(ledger, 0.1, "first")
    ledger.recovery.backup(tmp_path / "older.sqlite")
    for number in range(8):
        spend(ledger, 0.01, str(number))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", _full)
        with pytest.raises(LedgerUnavailable):
            reserve(ledger, 0.1, "unwritten")
    with closing(open_ledger(tmp_path / "ledger.sqlite", is_recovery=True)) as other:
        restored(other, tmp_path / "older.sqlite", by="carol")
        other.recovery.declare_loss(reason="disk failed", by="carol")
    spend(ledger, 0.1, "next")
    assert ledger.recovery.anchor_problem() is None


def test_restoring_the_same_backup_again_charges_the_same_loss_again(opened, tmp_path):
    ledger = opened(limit=5.0)
    spend(ledger, 1.0, "first")
    ledger.recovery.backup(tmp_path / "older.sqlite")
    spend(ledger, 0.5, "second")
    for _ in range(3):
        restored(ledger, tmp_path / "older.sqlite", by="carol")
        losses = ledger.recovery.declare_loss(reason="disk failed", by="carol")
        assert charged(losses) == [("adult", "", 0.5)]
        assert ledger.budget("adult").spent == 1.5
    assert ledger.verify_audit().problems == []


def test_anchor_kept_locked_by_a_process_that_hangs_is_not_waited_for_for_ever(opened, tmp_path, monkeypatch):
    ledger = opened()
    spend(ledger, 0.1)
    monkeypatch.setattr(anchor_guard, "LOCK_SECONDS", 0.0)
    failures = []

    class Observer:
        def failed(self, error, *, writing):
            failures.append(error)

        def succeeded(self, *, writing):
            pass

    ledger.store.observer = Observer()
    with (tmp_path / "ledger.anchor").open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(LedgerUnavailable, match="The charge stays") as refusal:
            reserve(ledger, 0.1, "second")
    assert failures == [refusal.value]  # counted and logged by a server
    reserve(ledger, 0.1, "third")


def test_probes_of_an_anchor_that_cannot_be_written_fail_and_log_it_once(opened, tmp_path, caplog):
    ledger = opened(anchor=tmp_path / "not mounted" / "people.anchor")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            with pytest.raises(LedgerUnavailable):
                ledger.recovery.keep_anchor()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("lost", ["the entry", "its amounts"])
def test_entries_that_went_while_the_log_stayed_give_no_budget_back(address, opened, tmp_path, lost):
    ledger = opened(address, anchor=tmp_path / "people.anchor")
    spend(ledger, 0.25, "first", "ann")
    spend(ledger, 0.5, "second", "ann")
    with ledger.store.writing() as connection:
        drop_triggers(connection)
        if lost == "the entry":
            for name in ("releases", "unreleased"):
                connection.exec_driver_sql(f"DELETE FROM {name} WHERE entry = 2")
            connection.exec_driver_sql("DELETE FROM entries WHERE id = 2")
        else:
            units = 25 * 10**10
            connection.exec_driver_sql(
                f"UPDATE entries SET total_units = {units}, own_units = {units} WHERE id = 2"
            )
    ledger.grant("adult", "ann", 1.0, reason="adds an entry with the total that it finds", by="carol")
    for analyst in ("ann", "bob"):
        with pytest.raises(LedgerBehind):
            spend(ledger, 0.5, "third", analyst)
    assert "altered, or overwritten while it was open" in ledger.recovery.anchor_problem()
    losses = ledger.recovery.declare_loss(reason="the file was overwritten", by="carol")
    assert charged(losses) == [("adult", "ann", 0.5)]
    assert ledger.budget("adult").spent == 0.75
    spend(ledger, 0.25, "third", "bob")
