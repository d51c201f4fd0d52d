"""What a table is called: conditions are said to matter most only where nothing else may."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.render.ranking import doubt_of, headline

SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"


def explained(rho: float, k: int) -> dpx.Explanation:
    answer = dpx.example("adult", insecure_seed=1).query(SQL, rho=0.5)
    answer.prepare(rho=rho)
    return answer.why("Married-civ-spouse", "Never-married").explain(k=k)


def test_one_condition_whose_rank_is_open_is_not_said_to_matter_most() -> None:
    table = explained(0.02, 1)
    low, high = table[0].rank
    assert low < high
    assert headline(table) == f"May not matter most: its rank is {low} to {high} of 103."
    assert doubt_of(table) == headline(table)


@pytest.mark.parametrize(
    ("k", "title"), [(1, "The condition that matters most"), (2, "The 2 conditions that")]
)
def test_conditions_with_certain_ranks_are(tmp_path: Path, k: int, title: str) -> None:
    jobs = {"a": {"miner": 600, "baker": 300, "clerk": 100}, "b": {"miner": 100, "baker": 200, "clerk": 300}}
    rows = [(group, job) for group, counts in jobs.items() for job, n in counts.items() for _ in range(n)]
    schema = {
        "table": {"name": "people"},
        "privacy": {"rho": 1e4},
        "columns": {"team": {"values": ["a", "b"]}, "job": {"values": ["miner", "baker", "clerk"]}},
    }
    data = pd.DataFrame(rows, columns=["team", "job"])
    with dpx.connect(data, schema=schema, workspace=tmp_path, insecure_seed=1) as session:
        answer = session.query("SELECT team, COUNT(*) FROM people GROUP BY team", rho=1000)
        answer.prepare(rho=1000)
        table = answer.why("a", "b").explain(k=k)
    assert [row.rank for row in table] == [(place, place) for place in range(1, k + 1)]
    assert headline(table).startswith(title)
    assert doubt_of(table) == ""
