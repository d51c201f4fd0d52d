"""The average of a group that may be empty is blank: in print, in exports, and last in any order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.render.views import view_of

SCHEMA: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 100},
    "columns": {"g": {"values": ["none", "low", "high"]}, "x": {"bounds": [0, 200_000]}},
}


@pytest.fixture
def session(tmp_path: Path) -> dpx.Session:
    rows = [{"g": g, "x": x} for g, x in (("low", 20_000), ("high", 60_000)) for _ in range(500)]
    return dpx.connect(pd.DataFrame(rows), schema=SCHEMA, workspace=tmp_path, insecure_seed=1)


def asked(session: dpx.Session, ending: str = "") -> dpx.Answer:
    answer = session.query(f"SELECT g, AVG(x) AS m FROM t GROUP BY g {ending}", rho=0.5)
    assert isinstance(answer, dpx.Answer)
    return answer


def test_the_average_of_an_empty_group_is_blank_wherever_it_is_shown(session: dpx.Session) -> None:
    answer = asked(session)
    assert [row.is_unknown for row in answer] == [True, False, False]
    grid = view_of(answer).grid
    assert grid is not None
    assert grid.rows[0][1].strip() == "–"
    first = answer.records()[0]
    assert (first["m"], first["low"], first["high"]) == (None, None, None)
    assert answer.to_pandas()["m"].isna().tolist() == [True, False, False]
    assert "none" not in answer.finding.headline


@pytest.mark.parametrize("order", ["DESC", "ASC"])
def test_an_empty_group_comes_last_in_any_order(session: dpx.Session, order: str) -> None:
    labels = [row.label for row in asked(session, f"ORDER BY m {order}")]
    assert labels == [*(("high", "low") if order == "DESC" else ("low", "high")), "none"]
    first = asked(session, f"ORDER BY m {order} LIMIT 1")
    assert [row.label for row in first] == labels[:1]


def test_the_count_of_an_empty_group_is_a_number(session: dpx.Session) -> None:
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5)
    assert isinstance(answer, dpx.Answer)
    assert not any(row.is_unknown for row in answer)
