"""Identical requests at several processes pay once: the second waits for the first, unless that is gone."""

from __future__ import annotations

import queue
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa
from ledger_contract import restored

import dpxplain as dpx
from dpxplain.errors import (
    BudgetExhausted,
    ChargeTakenOver,
    DataChanged,
    LedgerBehind,
    LedgerUnavailable,
)
from dpxplain.ledger import audit, single_flight
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import FLIGHTS, PROCESSES
from dpxplain.model.charge import Charge, DataState, Ending, Request
from dpxplain.model.confidential import ContentDigest
from dpxplain.model.process import Stop, stoppable
from opened import dataset_of

CHARGE = Charge("query", "k", Request("SELECT COUNT(*) FROM adult"), 0.6)
AGES_AGO = "2020-01-01T00:00:00+00:00"
SQL = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
SCHEMA = {
    "table": {"name": "people"},
    "privacy": {"rho": 1.0},
    "columns": {"sex": {"values": ["F", "M"]}},
}
CHARGE_AND_HANG = """
import sys, time
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Request
ledger = open_ledger(sys.argv[1])
entry = ledger.reserve_once("adult", Charge("query", "k", Request("SELECT COUNT(*) FROM adult"), 0.4))
print(entry.id, flush=True)
time.sleep(600)
"""


@pytest.fixture
def pair(address):
    """The same ledger as two processes have it open."""
    with closing(open_ledger(address)) as here, closing(open_ledger(address)) as there:
        here.open_dataset("adult", 1.0, 1e-6)
        yield here, there


def make_silent(ledger) -> None:
    """As if the processes of all flights had died long ago."""
    with ledger.store.updating() as connection:
        connection.execute(sa.update(FLIGHTS).values(heard=AGES_AGO))


def heard(ledger) -> str:
    with ledger.store.reading() as connection:
        return str(connection.execute(sa.select(FLIGHTS.c.heard)).scalar_one())


def has_heartbeats() -> bool:
    """Whether this runs in the thread that gives signs of life."""
    return threading.current_thread().name == "dpxplain-single-flight"


def wait_until_heart_ends(ledger) -> None:
    while ledger.flights._heartbeat_thread is not None:
        time.sleep(0.01)


def test_second_process_is_not_charged_while_the_first_measures_or_once_it_has_released(pair):
    here, there = pair
    entry = here.reserve_once("adult", CHARGE)
    assert there.reserve_once("adult", CHARGE) is here.reserve_once("adult", CHARGE) is None
    assert there.is_measured("adult", "k")
    here.release(entry.row, "{}")
    assert not there.is_measured("adult", "k")
    assert there.reserve_once("adult", CHARGE) is None
    assert there.find("adult", "k")[0].id == entry.id
    assert there.budget("adult").spent == 0.6
    assert there.verify_audit().problems == []


def test_abandoned_request_is_charged_again_as_it_was_before(pair):
    here, there = pair
    here.abandon(here.reserve_once("adult", CHARGE).id)
    assert not there.is_measured("adult", "k")
    with pytest.raises(BudgetExhausted):  # the first charge stays
        there.reserve_once("adult", CHARGE)
    assert there.budget("adult").spent == 0.6


def test_analysts_do_not_wait_for_each_other_and_so_do_not_notice_each_other(pair):
    here, there = pair
    for name in ("ann", "ben"):
        here.grant("adult", name, 0.5, reason="study", by="carol")
    charge = Charge("query", "k", Request("q"), 0.1)
    assert here.account("ann").reserve_once("adult", charge) is not None
    assert not there.account("ben").is_measured("adult", "k")
    assert there.account("ben").reserve_once("adult", charge) is not None
    assert there.account("ann").reserve_once("adult", charge) is None


def test_silent_process_is_said_to_be_gone_and_nobody_waits_for_it(pair):
    here, there = pair
    charge = Charge("query", "k", Request("q"), 0.4)
    lost = here.reserve_once("adult", charge)
    make_silent(there)
    assert not there.is_measured("adult", "k")
    again = there.reserve_once("adult", charge)
    assert again.row == lost.row
    [record] = [record for record in there.audit() if record.action == "interrupted"]
    ending = {"analyst": "", "ending": "process died", "process": here.flights.process}
    assert (record.dataset, record.details) == ("adult", {"entry": lost.row} | ending)
    with pytest.raises(ChargeTakenOver):  # it was not gone after all: the charge is the other's by now
        here.release(lost.row, "{}")
    here.abandon(lost.row)
    assert here.is_measured("adult", "k")
    there.release(again.row, "{}")
    assert there.budget("adult").spent == 0.4
    assert there.verify_audit().problems == []


def test_a_process_does_not_take_over_a_charge_that_it_still_measures_itself(pair):
    """Another process took it for dead, but it was only silent."""
    here, there = pair
    charge = Charge("query", "k", Request("q"), 0.1)
    entry = here.reserve_once("adult", charge)
    make_silent(there)
    there.flights.record_deaths()
    assert here.reserve_once("adult", charge).row != entry.row
    here.release(entry.row, "{}")
    assert there.verify_audit().problems == []


def test_a_heartbeat_that_comes_while_silent_flights_are_ended_keeps_its_flight(pair, monkeypatch):
    here, there = pair
    entry = here.reserve_once("adult", CHARGE)
    make_silent(there)
    with there.store.writing() as connection:

        def is_own(_flight):
            connection.execute(sa.update(FLIGHTS).values(heard=audit.now()))
            return False

        monkeypatch.setattr(there.flights, "_is_own", is_own)
        assert list(there.flights.end_silent(connection)) == [("adult", "", "k")]
    here.release(entry.row, "{}")
    assert "interrupted" not in [record.action for record in there.audit()]


def reserve_while_the_connection_breaks(ledger, monkeypatch, is_committed=True) -> None:
    charging = ledger.store.charging

    @contextmanager
    def broken():
        with charging() as connection:
            yield connection
            if not is_committed:
                raise LedgerUnavailable("away")
        raise LedgerUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(ledger.store, "charging", broken)
        with pytest.raises(LedgerUnavailable):
            ledger.reserve_once("adult", CHARGE)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_charge_that_broke_while_it_was_committed_is_taken_over_only_from_oneself(
    pair, monkeypatch, is_committed
):
    """If it was not committed, another process may have made the same charge since, under the same row."""
    here, there = pair
    reserve_while_the_connection_breaks(here, monkeypatch, is_committed)
    if is_committed:
        assert here.reserve_once("adult", CHARGE).row == there.history("adult")[0].row
    else:
        assert there.reserve_once("adult", CHARGE) is not None
        assert here.reserve_once("adult", CHARGE) is None
    assert there.budget("adult").spent == 0.6


def test_a_charge_for_which_nothing_was_read_is_no_failure_and_any_process_takes_it_over(pair, monkeypatch):
    here, there = pair
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    reserve_while_the_connection_breaks(here, monkeypatch)
    wait_until_heart_ends(here)
    there.flights.record_deaths()
    assert there.failures.counted("adult", "") == {}
    assert there.reserve_once("adult", CHARGE).row == there.history("adult")[0].row
    assert there.budget("adult").spent == 0.6


def test_another_charge_for_the_request_ends_the_one_for_which_nothing_was_read(pair, monkeypatch):
    here, there = pair
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    reserve_while_the_connection_breaks(here, monkeypatch)
    wait_until_heart_ends(here)
    other = there.reserve_once("adult", replace(CHARGE, rho=0.1))
    assert other.row != there.history("adult")[0].row
    there.release(other.row, "{}")
    assert not there.is_measured("adult", "k")
    assert there.failures.endings("adult") == {Ending.LEDGER_LOST: 1}


@pytest.mark.parametrize("data", ["the same", "other"])
def test_a_kept_charge_is_taken_over_only_for_the_data_of_its_version(pair, data):
    here, there = pair

    def charge(content: bytes) -> Charge:
        return replace(CHARGE, data=DataState("1", ContentDigest.of(content)))

    entry = here.reserve_once("adult", charge(b"the same"))
    here.abandon(entry.row, Ending.STOPPED)
    if data == "other":
        with pytest.raises(DataChanged):
            there.reserve_once("adult", charge(b"other"))
    else:
        assert there.reserve_once("adult", charge(b"the same")).row == entry.row


@pytest.mark.process
def test_request_of_a_killed_process_is_waited_for_only_until_it_is_silent(pair, address, monkeypatch):
    here, _ = pair
    command = [sys.executable, "-c", CHARGE_AND_HANG, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            entry = int(process.stdout.readline())
            assert here.is_measured("adult", "k")
        finally:
            process.send_signal(signal.SIGKILL)
    assert here.is_measured("adult", "k")  # nobody can know yet
    monkeypatch.setattr(single_flight, "SILENCE", timedelta(0))
    assert not here.is_measured("adult", "k")
    other = here.reserve_once("adult", Charge("query", "k", Request("q"), 0.4))
    assert other.row != entry  # its words differ: it is not the same charge
    here.abandon(other.row)
    charge = Charge("query", "k", Request("SELECT COUNT(*) FROM adult"), 0.4)
    assert here.reserve_once("adult", charge).row == entry
    assert "interrupted" in [record.action for record in here.audit()]


def test_living_process_is_heard_of_while_it_measures_and_its_thread_ends_with_it(pair, monkeypatch):
    here, there = pair
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    entry = here.reserve_once("adult", CHARGE)
    make_silent(there)
    while heard(there) == AGES_AGO:
        time.sleep(0.01)
    assert there.is_measured("adult", "k")
    here.release(entry.row, "{}")
    wait_until_heart_ends(here)


def test_time_far_ahead_is_no_sign_of_life_of_a_flight_or_a_process(pair):
    here, there = pair
    charge = Charge("query", "k", Request("q"), 0.4)
    lost = here.reserve_once("adult", charge)
    process = there.processes.enter()
    here.processes.enter()
    with there.store.updating() as connection:
        ahead = {"heard": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
        connection.execute(sa.update(FLIGHTS).values(**ahead))
        connection.execute(sa.update(PROCESSES).where(PROCESSES.c.id != process).values(**ahead))
    assert not there.is_measured("adult", "k")
    assert there.reserve_once("adult", charge).row == lost.row
    assert there.processes.count(process) == 1


def test_nothing_is_charged_if_no_thread_can_be_started(pair, monkeypatch):
    here, there = pair

    def fail(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            here.reserve_once("adult", CHARGE)
    assert here.budget("adult").spent == 0
    assert not there.is_measured("adult", "k")
    assert here.flights._own == {}
    assert here.reserve_once("adult", CHARGE) is not None
    assert here.flights._heartbeat_thread.is_alive()


def test_flight_whose_charge_was_not_committed_is_let_go(pair, monkeypatch):
    here, _ = pair
    begin, begun = here.flights.begin, []

    def fail(connection, request, entry):
        begin(connection, request, entry)
        begun.append((entry, here.flights.measures(entry)))
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(here.flights, "begin", fail)
        with pytest.raises(MemoryError):
            here.reserve_once("adult", CHARGE)
    [(entry, was_measured)] = begun
    assert was_measured
    assert not here.flights.measures(entry)
    assert here.budget("adult").spent == 0


def test_heart_beats_on_after_any_error(pair, monkeypatch, caplog):
    here, there = pair
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    failed, updating = threading.Event(), here.store.updating

    def fail_once():
        if failed.is_set() or not has_heartbeats():
            return updating()
        failed.set()
        raise ValueError("what was sent")

    monkeypatch.setattr(here.store, "updating", fail_once)
    entry = here.reserve_once("adult", CHARGE)
    assert failed.wait(120)
    make_silent(there)
    while heard(there) == AGES_AGO:
        time.sleep(0.01)
    assert "A heartbeat failed: ValueError" in caplog.text
    assert "what was sent" not in caplog.text
    here.release(entry.row, "{}")
    wait_until_heart_ends(here)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_heart_that_stopped_is_started_again_by_the_next_flight(pair, monkeypatch):
    here, there = pair
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.01)

    hearts, updating = queue.SimpleQueue(), here.store.updating

    def stop():
        if has_heartbeats():
            hearts.put(threading.current_thread())
            raise SystemExit
        return updating()

    with monkeypatch.context() as patch:
        patch.setattr(here.store, "updating", stop)
        entries = [here.reserve_once("adult", CHARGE)]
        hearts.get(timeout=120).join()
    entries.append(here.reserve_once("adult", Charge("query", "other", Request("q"), 0.1)))
    make_silent(there)
    while not (there.is_measured("adult", "k") and there.is_measured("adult", "other")):
        time.sleep(0.01)
    for entry in entries:
        here.release(entry.row, "{}")
    wait_until_heart_ends(here)


def test_release_and_charge_are_all_that_is_written(tmp_path):
    with closing(open_ledger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        commits = []
        transaction = ledger.store.transaction

        def counted(begin: str):
            commits.append(begin)
            return transaction(begin)

        ledger.store.transaction = counted
        ledger.release(ledger.reserve_once("adult", CHARGE).id, "{}")
        assert commits == ["BEGIN IMMEDIATE"] * 2


def test_a_repeated_request_finds_its_release_and_waits_for_nobody(tmp_path: Path):
    """A release that was not stored would be waited for as long as its process lives; the timer ends that."""
    stop = Stop()
    end = threading.Timer(10.0, stop.request)
    end.daemon = True
    end.start()
    table = pa.table({"sex": ["F", "M", "M"]})
    with dpx.connect(table, SCHEMA, workspace=tmp_path) as session, stoppable(stop):
        values = [session.query(SQL, rho=0.1).to_pandas().to_dict() for _ in range(2)]
        end.cancel()
        assert values[0] == values[1]
        assert session.budget.spent == 0.1


def test_two_sessions_on_one_workspace_pay_once(tmp_path: Path):
    table = pa.table({"sex": ["F", "M"] * 20})
    with (
        dpx.connect(table, SCHEMA, workspace=tmp_path) as here,
        dpx.connect(table, SCHEMA, workspace=tmp_path) as there,
    ):
        dataset = dataset_of(here)
        entered, go, grouped = threading.Event(), threading.Event(), dataset.engine.grouped

        def slowly(query, subsets, *, rehearsed=False):
            if not rehearsed:
                entered.set()
                assert go.wait(120)
            return grouped(query, subsets, rehearsed=rehearsed)

        dataset.engine.grouped = slowly
        answers = {}
        first = threading.Thread(target=lambda: answers.update(here=here.query(SQL, rho=0.6)))
        first.start()
        assert entered.wait(120)
        second = threading.Thread(target=lambda: answers.update(there=there.query(SQL, rho=0.6)))
        second.start()
        while not dataset_of(there).releaser._locks:  # until it is about to charge
            time.sleep(0.01)
        go.set()
        first.join()
        second.join()
        assert answers["here"].id == answers["there"].id
        assert answers["there"].free
        assert here.budget.spent == 0.6


CHARGE_THREE_AND_HANG = """
import sys, time
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Request
account = open_ledger(sys.argv[1]).account("ann", default_limit=1.0)
for key in "abc":
    account.reserve_once("adult", Charge("query", key, Request(key), 0.1))
print("charged", flush=True)
time.sleep(600)
"""


@pytest.mark.process
def test_requests_of_one_killed_process_count_once_and_are_taken_over(pair, address, monkeypatch):
    here, _ = pair
    command = [sys.executable, "-c", CHARGE_THREE_AND_HANG, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "charged\n"
        finally:
            process.send_signal(signal.SIGKILL)
    monkeypatch.setattr(single_flight, "SILENCE", timedelta(0))
    assert here.failures.counted("adult", "ann") == {Ending.DIED: 1}  # before anybody has recorded it
    here.flights.record_deaths()
    assert [record.action for record in here.audit()].count("interrupted") == 3
    assert here.failures.counted("adult", "ann") == {Ending.DIED: 1}
    ann = here.account("ann", default_limit=1.0)
    for key in "abc":
        entry = ann.reserve_once("adult", Charge("query", key, Request(key), 0.1))
        ann.release(entry.row, "{}")
    assert here.budget("adult").spent == pytest.approx(0.3)
    assert here.failures.counted("adult", "ann") == {Ending.DIED: 1}  # a release does not undo it
    here.failures.forgive("adult", "ann", reason="a kill", by="carol")
    assert here.failures.counted("adult", "ann") == {}
    assert here.verify_audit().problems == []


@pytest.mark.parametrize("ending", list(Ending), ids=str)
def test_identical_request_pays_again_only_if_the_data_may_have_decided_the_ending(pair, ending):
    here, there = pair
    ann = here.account("ann", default_limit=1.0)
    charge = Charge("query", "k", Request("q"), 0.1)
    first = ann.reserve_once("adult", charge)
    ann.abandon(first.row, ending)
    again = there.account("ann", default_limit=1.0).reserve_once("adult", charge)
    assert (again.row == first.row) == (ending not in (Ending.FAILED, Ending.CANCELLED))
    assert there.failures.kept("adult") == frozenset()  # what was kept is measured again
    counts = ending not in (Ending.STOPPED, Ending.DATABASE_LOST, Ending.LEDGER_LOST)
    assert there.failures.counted("adult", "ann") == ({ending: 1} if counts else {})
    other = Charge("query", "k", Request("q"), 0.2)
    there.account("ann").abandon(again.row, Ending.STOPPED)
    assert ann.reserve_once("adult", other).row not in (first.row, again.row)  # not the same charge


def test_failures_are_forgiven_for_one_analyst_and_up_to_now(pair):
    here, there = pair
    ann, ben = (here.account(name, default_limit=1.0) for name in ("ann", "ben"))
    for account in (ann, ben):
        account.abandon(account.reserve_once("adult", Charge("query", "k", Request("q"), 0.1)).row)
    there.failures.forgive("adult", "ann", reason="a bug", by="carol")
    assert here.failures.counted("adult", "ann") == {}
    assert here.failures.counted("adult", "ben") == {Ending.FAILED: 1}
    ann.abandon(ann.reserve_once("adult", Charge("query", "l", Request("q"), 0.1)).row)
    there.failures.forgive("adult", "ben", reason="a bug", by="carol")
    assert here.failures.counted("adult", "ann") == {Ending.FAILED: 1}


def test_a_forgiven_failure_is_not_counted_when_it_is_found_later(pair):
    here, there = pair
    ann = here.account("ann", default_limit=1.0)
    ann.reserve_once("adult", Charge("query", "k", Request("q"), 0.1))
    make_silent(there)
    there.failures.forgive("adult", "ann", reason="a power cut", by="carol")
    there.flights.record_deaths()
    assert there.failures.counted("adult", "ann") == {}


def test_the_newest_charge_without_a_trace_of_its_ending_can_be_forgiven(pair):
    here, _ = pair
    here.account("ann", default_limit=1.0).reserve("adult", Charge("query", "k", Request("q"), 0.1))
    assert here.failures.counted("adult", "ann") == {Ending.FAILED: 1}
    here.failures.forgive("adult", "ann", reason="an old version", by="carol")
    assert here.failures.counted("adult", "ann") == {}


def test_one_release_is_stored_for_a_charge_however_two_processes_race(pair):
    here, there = pair
    barrier = threading.Barrier(2)
    for number in range(20):
        charge = Charge("query", f"race {number}", Request("q"), 0.01)
        entry = here.reserve_once("adult", charge)
        make_silent(there)
        outcomes: dict[str, object] = {}

        def first(row: int = entry.row, seen: dict[str, object] = outcomes) -> None:
            barrier.wait(60)
            try:
                here.release(row, '"first"')
                seen["first"] = True
            except ChargeTakenOver:
                here.abandon(row)

        def second(asked: Charge = charge, seen: dict[str, object] = outcomes) -> None:
            barrier.wait(60)
            taken = there.reserve_once("adult", asked)
            if taken is not None:
                seen["row"] = taken.row
                there.release(taken.row, '"second"')
                seen["second"] = True

        threads = [threading.Thread(target=first), threading.Thread(target=second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ("first" in outcomes) != ("second" in outcomes)
        assert outcomes.get("row", entry.row) == entry.row
        winner = '"first"' if "first" in outcomes else '"second"'
        assert here.find("adult", charge.key)[1] == there.find("adult", charge.key)[1] == winner
    assert here.budget("adult").spent == pytest.approx(0.2)
    assert here.verify_audit().problems == []


def test_process_that_was_silent_during_an_outage_corrects_that_it_died(pair, monkeypatch):
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    here, there = pair
    ann = here.account("ann", default_limit=1.0)
    entry = ann.reserve_once("adult", Charge("query", "k", Request("q"), 0.1))
    writing = here.store.writing

    def away():
        raise LedgerUnavailable("away")

    monkeypatch.setattr(here.store, "writing", away)
    ann.abandon(entry.row, Ending.LEDGER_LOST)
    make_silent(there)
    there.flights.record_deaths()
    assert there.failures.counted("adult", "ann") == {Ending.DIED: 1}
    monkeypatch.setattr(here.store, "writing", writing)
    wait_until_heart_ends(here)
    assert there.failures.counted("adult", "ann") == {}
    assert there.verify_audit().problems == []


def test_charge_from_before_a_declared_loss_is_not_taken_over(pair):
    here, there = pair
    ann = here.account("ann", default_limit=1.0)
    charge = Charge("query", "k", Request("q"), 0.1)
    first = ann.reserve_once("adult", charge)
    ann.abandon(first.row, Ending.STOPPED)
    there.recovery.declare_loss(reason="an old copy", by="carol", everything=True)
    there.top_up("adult", 1.0, reason="more", by="carol")
    assert ann.reserve_once("adult", charge).row != first.row


def test_a_process_that_was_silent_stores_no_second_release_after_a_restore(pair, tmp_path):
    """The release of who took over the charge was seen, and is among what the restore has lost."""
    here, there = pair
    entry = here.reserve_once("adult", CHARGE)
    here.recovery.backup(tmp_path / "backup.sqlite")
    make_silent(there)
    taken = there.reserve_once("adult", CHARGE)
    assert taken.row == entry.row
    there.release(taken.row, "{}")
    restored(there, tmp_path / "backup.sqlite", by="carol")
    with pytest.raises(LedgerBehind):
        here.release(entry.row, "{}")
    assert there.find("adult", "k") is None


def test_a_process_that_was_silent_stores_no_second_release_in_an_older_copy(tmp_path):
    """The copy still says that it measures; only the anchor knows that its charge was taken over."""
    path, copy = tmp_path / "ledger.sqlite", tmp_path / "copy.sqlite"
    with closing(open_ledger(path)) as here, closing(open_ledger(path)) as there:
        here.open_dataset("adult", 1.0, 1e-6)
        entry = here.reserve_once("adult", CHARGE)
        overwrite(copy, path)
        make_silent(there)
        there.release(there.reserve_once("adult", CHARGE).row, "{}")
        overwrite(path, copy)
        with pytest.raises(LedgerBehind):
            here.release(entry.row, "{}")
        there.recovery.declare_loss(reason="an older copy", by="carol")  # a take-over is no charge to declare
        with pytest.raises(LedgerBehind):
            here.release(entry.row, "{}")
        assert there.failures.counted("adult", "") == {}


def overwrite(target: Path, source: Path) -> None:
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as written:
        read.backup(written)


def test_an_ending_that_is_reported_after_a_restore_does_not_keep_the_charge(pair, tmp_path):
    here, there = pair
    entry = here.reserve_once("adult", CHARGE)
    make_silent(there)
    there.flights.record_deaths()
    there.recovery.backup(tmp_path / "backup.sqlite")
    there.release(there.reserve_once("adult", CHARGE).row, "{}")
    restored(there, tmp_path / "backup.sqlite", by="carol")
    if there.recovery.anchor_problem():
        there.recovery.declare_loss(reason="restored", by="carol")
    here.abandon(entry.row, Ending.LEDGER_LOST)
    with pytest.raises(BudgetExhausted):  # as it would be charged again
        there.reserve_once("adult", CHARGE)


@pytest.mark.parametrize("ending", [None, Ending.FAILED, Ending.STOPPED, Ending.LEDGER_LOST], ids=str)
def test_a_process_whose_charge_another_took_over_and_ended_asks_anew(pair, ending):
    """The ledger is not said to be behind: nothing was put back."""
    here, there = pair
    entry = here.reserve_once("adult", CHARGE)
    make_silent(there)
    taken = there.reserve_once("adult", CHARGE)
    if ending is None:
        there.release(taken.row, "{}")
    else:
        there.abandon(taken.row, ending)
    with pytest.raises(ChargeTakenOver):
        here.release(entry.row, "{}")


def test_a_release_whose_commit_broke_is_checked_again_when_it_is_repeated(pair, tmp_path, monkeypatch):
    here, there = pair
    entry = here.reserve_once("adult", CHARGE)
    here.recovery.backup(tmp_path / "backup.sqlite")
    writing = here.store.writing

    @contextmanager
    def broken():
        with writing() as connection:
            yield connection
            raise LedgerUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(here.store, "writing", broken)
        with pytest.raises(LedgerUnavailable):
            here.release(entry.row, "{}")
    restored(there, tmp_path / "backup.sqlite", by="carol")
    with pytest.raises(LedgerBehind):
        here.release(entry.row, "{}")


def test_the_last_budget_is_enough_for_a_charge_of_a_process_that_is_silent(pair):
    _, there = pair
    ann, again = (ledger.account("ann", default_limit=0.1) for ledger in pair)
    charge = Charge("query", "k", Request("q"), 0.1)
    entry = ann.reserve_once("adult", charge)
    with pytest.raises(BudgetExhausted):
        again.check_affordable("adult", 0.1, "k")
    make_silent(there)
    with pytest.raises(BudgetExhausted):  # who measures it knows that it is not gone
        ann.check_affordable("adult", 0.1, "k")
    again.check_affordable("adult", 0.1, "k")
    assert again.reserve_once("adult", charge).row == entry.row
