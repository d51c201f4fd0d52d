"""Identical requests at several processes pay once: the second waits for the first, unless that is gone."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

import dpxplain as dpx
from dpxplain.errors import BudgetExhausted
from dpxplain.ledger import single_flight
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import FLIGHTS, PROCESSES
from dpxplain.model.charge import Charge, Request

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
    with ledger._store.updating() as connection:
        connection.execute(sa.update(FLIGHTS).values(heard=AGES_AGO))


def heard(ledger) -> str:
    with ledger._store.reading() as connection:
        return str(connection.execute(sa.select(FLIGHTS.c.heard)).scalar_one())


def is_heart() -> bool:
    """Whether this runs in the thread that gives signs of life."""
    return threading.current_thread().name == "dpxplain-single-flight"


def wait_until_heart_ends(ledger) -> None:
    while ledger._flights._heart is not None:
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
    assert again.id == lost.id + 1
    [record] = [record for record in there.audit() if record.action == "interrupted"]
    assert (record.dataset, record.details) == ("adult", {"entry": lost.id})
    here.release(lost.row, "{}")  # it was not gone after all: both have paid, and the flight is the other's
    assert here.is_measured("adult", "k")
    there.release(again.row, "{}")
    assert there.budget("adult").spent == 0.8
    assert there.verify_audit().problems == []


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
    assert here.reserve_once("adult", Charge("query", "k", Request("q"), 0.4)).id == entry + 1
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
    with there._store.updating() as connection:
        ahead = {"heard": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
        connection.execute(sa.update(FLIGHTS).values(**ahead))
        connection.execute(sa.update(PROCESSES).where(PROCESSES.c.id != process).values(**ahead))
    assert not there.is_measured("adult", "k")
    assert there.reserve_once("adult", charge).id == lost.id + 1
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
    assert here._flights._own == {}
    assert here.reserve_once("adult", CHARGE) is not None
    assert here._flights._heart.is_alive()


def test_flight_whose_charge_was_not_committed_is_let_go(pair, monkeypatch):
    here, _ = pair
    begin = here._flights.begin

    def fail(*arguments):
        begin(*arguments)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(here._flights, "begin", fail)
        with pytest.raises(MemoryError):
            here.reserve_once("adult", CHARGE)
    assert here._flights._own == {}
    assert here.budget("adult").spent == 0


def test_heart_beats_on_after_any_error(pair, monkeypatch, caplog):
    here, there = pair
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.01)
    failed, updating = threading.Event(), here._store.updating

    def fail_once():
        if failed.is_set() or not is_heart():
            return updating()
        failed.set()
        raise ValueError("what was sent")

    monkeypatch.setattr(here._store, "updating", fail_once)
    entry = here.reserve_once("adult", CHARGE)
    assert failed.wait(120)
    make_silent(there)
    while heard(there) == AGES_AGO:
        time.sleep(0.01)
    assert "A heartbeat has failed: ValueError" in caplog.text
    assert "what was sent" not in caplog.text
    here.release(entry.row, "{}")
    wait_until_heart_ends(here)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_heart_that_stopped_is_started_again_by_the_next_flight(pair, monkeypatch):
    here, there = pair
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.01)

    hearts, updating = queue.SimpleQueue(), here._store.updating

    def stop():
        if is_heart():
            hearts.put(threading.current_thread())
            raise SystemExit
        return updating()

    with monkeypatch.context() as patch:
        patch.setattr(here._store, "updating", stop)
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
        transaction = ledger._store.transaction

        def counted(begin: str):
            commits.append(begin)
            return transaction(begin)

        ledger._store.transaction = counted
        ledger.release(ledger.reserve_once("adult", CHARGE).id, "{}")
        assert commits == ["BEGIN IMMEDIATE"] * 2


def test_two_sessions_on_one_workspace_pay_once(tmp_path: Path):
    table = pa.table({"sex": ["F", "M"] * 20})
    with (
        dpx.connect(table, SCHEMA, workspace=tmp_path) as here,
        dpx.connect(table, SCHEMA, workspace=tmp_path) as there,
    ):
        dataset = here._dataset
        entered, go, grouped = threading.Event(), threading.Event(), dataset.engine.grouped

        def slowly(query, subsets):
            entered.set()
            assert go.wait(120)
            return grouped(query, subsets)

        dataset.engine.grouped = slowly
        answers = {}
        first = threading.Thread(target=lambda: answers.update(here=here.query(SQL, rho=0.6)))
        first.start()
        assert entered.wait(120)
        second = threading.Thread(target=lambda: answers.update(there=there.query(SQL, rho=0.6)))
        second.start()
        while there._dataset.releaser._locks._locks == {}:  # until it is about to charge
            time.sleep(0.01)
        go.set()
        first.join()
        second.join()
        assert answers["here"].id == answers["there"].id
        assert answers["there"].free
        assert here.budget.spent == 0.6
