"""`kill -9` under load: what was delivered stays, what was charged stays, and the next start is clean.

Five rounds here; `make load` has fifty on each database. Only processes that the test itself has started are
killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # for benchmarks

from benchmarks import load_killing


def check(rounds: load_killing.Rounds, number: int) -> None:
    assert rounds.broken == []
    assert rounds.kills == number
    assert rounds.delivered
    assert rounds.cut_off > 0  # it was killed while people waited
    assert 0 < rounds.spent_units <= rounds.limit_units


@pytest.mark.process
@pytest.mark.slow
def test_a_killed_server_on_sqlite_loses_nothing_that_was_delivered(tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.sqlite")
    check(load_killing.run(tmp_path, ledger, rounds=3, seed=3), 3)


@pytest.mark.process
@pytest.mark.slow
def test_a_killed_server_on_postgres_loses_nothing_that_was_delivered(
    tmp_path: Path, postgres_address: str
) -> None:
    check(load_killing.run(tmp_path, postgres_address, rounds=2, seed=4), 2)
