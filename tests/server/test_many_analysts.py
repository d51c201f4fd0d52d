"""Many analysts at once: a limit for exactly N answers gives exactly N, to the last digit, on both databases.

`make load` does the same with tokens at their full price.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))  # for benchmarks

from benchmarks import load_crowd

ANALYSTS, ANSWERS = 100, 20


def check(crowd: load_crowd.Crowd) -> None:
    assert crowd.statuses == {200: ANSWERS, 409: ANALYSTS - ANSWERS}
    assert crowd.spent_units == crowd.limit_units == ANSWERS * 10**11
    assert crowd.releases == ANSWERS
    assert crowd.changed == 0  # everybody's answer is the same, and free, the second time
    assert crowd.problems == []


@pytest.mark.process
@pytest.mark.slow
def test_100_analysts_on_sqlite_get_exactly_the_answers_there_are(tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.sqlite")
    check(load_crowd.run(tmp_path, ledger, analysts=ANALYSTS, answers=ANSWERS))


@pytest.mark.process
@pytest.mark.slow
def test_100_analysts_on_two_servers_with_postgres_get_exactly_the_answers_there_are(
    tmp_path: Path, postgres_address: str
) -> None:
    check(load_crowd.run(tmp_path, postgres_address, analysts=ANALYSTS, answers=ANSWERS, processes=2))
