"""kill -9 at any moment: nothing delivered is lost, nothing is charged twice, the limit holds."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from ledger_contract import start_worker
from ledger_worker import LIMIT, LOOP_RHO, charge

from dpxplain.errors import BudgetExhausted
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.ledger.protocol import Ledger


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    with start_worker("nursery") as nursery:
        assert nursery.stdout.readline() == "ready\n"
        yield nursery
        nursery.stdin.close()


def run_and_kill(
    nursery: subprocess.Popen[str], address: str, seconds: float, *, at_work: bool = False
) -> list[list[str]]:
    """Let a worker charge and release for so long, kill it, and return what it had said.

    The time runs from its start or, if `at_work`, from its first word: a busy computer starts slowly.
    """
    nursery.stdin.write(f"{address}\n")
    nursery.stdin.flush()
    born, process = nursery.stdout.readline().split()
    assert born == "born"
    said = [nursery.stdout.readline().split()] if at_work else []
    time.sleep(seconds)
    os.kill(int(process), signal.SIGKILL)
    while (words := nursery.stdout.readline().split()) != ["dead"]:
        said.append(words)
    return said


def assert_sound(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def assert_delivered(ledger: Ledger, released: set[int]) -> None:
    assert all(ledger.get("adult", entry)[1] == f'"answer {entry}"' for entry in released)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("address", ["file", "postgres"], indirect=True)
def test_killed_loop_loses_no_release_and_never_exceeds_the_limit(address, nursery):
    moments = random.Random(20221101)
    in_file = not address.startswith("postgresql:")
    reserved: set[int] = set()
    released: set[int] = set()
    for kills in range(1, 26 if in_file else 11):
        newly_released: set[int] = set()
        for words in run_and_kill(nursery, address, moments.uniform(0.01, 0.2), at_work=kills % 3 > 0):
            if words[0] == "reserved":
                reserved.add(int(words[1]))
            elif words[0] == "released":
                newly_released.add(int(words[1]))
        with closing(open_ledger(address)) as ledger:
            ledger.open_dataset("adult", LIMIT, 1e-6)
            history = {line.id: line for line in ledger.history("adult")}
            budget = ledger.budget("adult")
            assert budget.spent <= budget.limit == LIMIT
            assert budget.spent == pytest.approx(len(history) * LOOP_RHO, abs=1e-13)
            # Each kill may cut off one charge before it was said, and one release.
            assert reserved <= history.keys()
            assert len(history) <= len(reserved) + kills
            assert sum(line.state == "reserved" for line in history.values()) <= kills
            assert_delivered(ledger, newly_released)
            assert ledger.verify_audit().problems == []
        released |= newly_released
        if in_file:
            assert_sound(address)
    assert released
    with closing(open_ledger(address)) as ledger:
        assert_delivered(ledger, released)
        if left := ledger.budget("adult").remaining:
            charge(ledger, left)
        assert ledger.budget("adult").spent == LIMIT
        with pytest.raises(BudgetExhausted):
            charge(ledger, 1e-12)


@pytest.mark.process
@pytest.mark.parametrize("address", ["file", "postgres"], indirect=True)
def test_ledger_killed_while_it_is_made_opens_afterwards(address, nursery):
    for milliseconds in range(0, 60, 10):
        # A file is made anew each time; a database is made by whoever gets that far.
        place = address if address.startswith("postgresql:") else f"{address}-{milliseconds}"
        run_and_kill(nursery, place, milliseconds / 1000)
        with closing(open_ledger(place)) as ledger:
            ledger.open_dataset("adult", LIMIT, 1e-6)
            assert ledger.budget("adult").spent <= LIMIT
            assert ledger.verify_audit().problems == []
            if place == address:
                drop_everything(ledger)


def drop_everything(ledger: SQLLedger) -> None:
    with ledger.store.updating() as connection:
        connection.exec_driver_sql("DROP SCHEMA dpxplain CASCADE")
