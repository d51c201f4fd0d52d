"""kill -9 at any moment: nothing delivered is lost, nothing is charged twice, the limit holds."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from ledger_contract import start_worker
from ledger_worker import LIMIT, LOOP_RHO, charge, open_ledger

from dpxplain.errors import BudgetExhausted
from dpxplain.ledger.base import Ledger


def run_and_kill(path: Path, seconds: float) -> list[list[str]]:
    """Let a worker charge and release for so long, kill it, and return what it had said."""
    with start_worker("loop", str(path)) as worker:
        assert worker.stdout.readline() == "ready\n"
        worker.stdin.write("go\n")
        worker.stdin.flush()
        time.sleep(seconds)
        worker.kill()
        said, _ = worker.communicate(timeout=60)
    # A line cut off by the kill was not said.
    return [line.split() for line in said.splitlines(keepends=True) if line.endswith("\n")]


def assert_delivered(ledger: Ledger, released: set[int]) -> None:
    assert all(ledger.get("adult", entry)[1] == f'"answer {entry}"' for entry in released)


def test_killed_loop_loses_no_release_and_never_exceeds_the_limit(tmp_path):
    path = tmp_path / "ledger.db"
    moments = random.Random(20221101)
    reserved: set[int] = set()
    released: set[int] = set()
    for kills in range(1, 26):
        newly_released: set[int] = set()
        for words in run_and_kill(path, moments.uniform(0.01, 0.2)):
            if words[0] == "reserved":
                reserved.add(int(words[1]))
            elif words[0] == "released":
                newly_released.add(int(words[1]))
        with closing(open_ledger(str(path))) as ledger:
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
        released |= newly_released
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert released
    with closing(open_ledger(str(path))) as ledger:
        assert_delivered(ledger, released)
        if left := ledger.budget("adult").remaining:
            charge(ledger, left)
        assert ledger.budget("adult").spent == LIMIT
        with pytest.raises(BudgetExhausted):
            charge(ledger, 1e-12)


def test_ledger_killed_while_it_is_made_opens_afterwards(tmp_path):
    for milliseconds in range(0, 20, 2):
        path = tmp_path / str(milliseconds) / "ledger.db"
        run_and_kill(path, milliseconds / 1000)
        with closing(open_ledger(str(path))) as ledger:
            ledger.open_dataset("adult", LIMIT, 1e-6)
            assert ledger.budget("adult").spent <= LIMIT
