"""Groups of values: a column of many values is declared by a few public groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.errors import SchemaError

STATES = pd.DataFrame({"state": ["NY", "NJ", "CA", "NY", "TX", None], "size": [1, 2, 3, 4, 5, 6]})
GROUPS = {"East": ["NY", "NJ"], "West": ["CA", "OR"]}


def schema(**columns: Any) -> dict[str, Any]:
    return {"table": {"name": "t"}, "privacy": {"rho": 1e6}, "columns": columns}


def true_values(answer: Any) -> dict[str, float]:
    return {
        row.group[0]: record["true"]
        for row, record in zip(answer.rows, answer.truth().records(), strict=True)
    }


def test_a_column_is_declared_by_groups_of_its_values(tmp_path: Path) -> None:
    declared = schema(state={"groups": GROUPS})
    session = dpx.connect(STATES, declared, workspace=tmp_path, curator=True)
    answer = session.query("SELECT state, COUNT(*) FROM t GROUP BY state", rho=1)
    assert true_values(answer) == {"East": 3, "West": 1}
    again = dpx.Schema.load(session.schema.model_dump(mode="json"))
    assert again.fingerprint() == session.schema.fingerprint()


def test_groups_of_a_declared_column_are_a_column_of_their_own(tmp_path: Path) -> None:
    declared = schema(
        state={"values": ["NY", "NJ", "CA", "TX"]},
        region={"expression": "state", "groups": {"East": ["NY", "NJ"], "West": ["CA"]}},
        size={"values": [1, 2, 3, 4, 5, 6], "null": True},
        kind={"expression": "size", "groups": {"small": [1, 2], "large": [5, 6]}},
    )
    session = dpx.connect(STATES, declared, workspace=tmp_path, curator=True)
    assert true_values(session.query("SELECT region, COUNT(*) FROM t GROUP BY region", rho=1)) == {
        "East": 3,
        "West": 1,
    }
    assert true_values(session.query("SELECT kind, COUNT(*) FROM t GROUP BY kind", rho=1)) == {
        "small": 2,
        "large": 2,
    }
    assert (
        session.query("SELECT COUNT(*) FROM t WHERE region = 'East'", rho=1).truth().records()[0]["true"] == 3
    )


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ({"groups": {"a": ["x"], "b": ["x"]}}, "one group only"),
        ({"groups": {"a": "x"}}, "give each group its values"),
        ({"groups": {"a": ["x"]}, "values": ["x"]}, "delete the line with values"),
        ({"groups": {"a": ["x", 1]}}, "one type"),
    ],
)
def test_wrong_groups_are_refused_in_words(column: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        dpx.Schema.load(schema(state=column))
