"""COUNT(DISTINCT person): what it counts, what it costs, and that nothing else is counted so."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import SharedMeasurement
from dpxplain.sql.parse import parse


def declared(rows: int = 3, neighbours: str = "unbounded", groups: str = "abcd") -> dict[str, Any]:
    return {
        "table": {"name": "t"},
        "privacy": {"rho": 1e6, "unit": "who", "max_rows": rows, "neighbours": neighbours},
        "columns": {"g": {"values": list(groups)}, "x": {"bounds": [0, 10], "step": 1}},
    }


DATA = pd.DataFrame(
    {
        "who": ["p", "p", "q", "q", "q", "r", None, None],
        "g": ["a", "a", "a", "b", "?", "b", "a", "b"],
        "x": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)
SQL = "SELECT g, COUNT(DISTINCT who) FROM t GROUP BY g"


def test_persons_with_a_row_in_the_group_are_counted(tmp_path: Path) -> None:
    with dpx.connect(DATA, declared(), workspace=tmp_path, curator=True) as owner:
        answer = owner.query(SQL, rho=1e4)
        assert [row["true"] for row in answer.truth().records()] == [2.0, 2.0, 0.0, 0.0]
        assert [round(row.estimate) for row in answer] == [2, 2, 0, 0]
        assert answer.value_name == "COUNT(DISTINCT who)"
        some = owner.query("SELECT g, COUNT(DISTINCT who) AS n FROM t WHERE x > 3 GROUP BY g", rho=1e4)
        assert [round(row.estimate) for row in some] == [0, 2, 0, 0]
        with pytest.raises(dpx.QuestionError, match="cannot be explained"):
            answer.why("a", "b")
        low, high = (answer["a"] - answer["b"]).interval
        assert low < high
        both = owner.query("SELECT g, COUNT(*), COUNT(DISTINCT who), AVG(x) FROM t GROUP BY g", rho=1e4)
        assert [round(row["COUNT(DISTINCT who)"].estimate) for row in both] == [2, 2, 0, 0]
        assert [round(row["COUNT(*)"].estimate) for row in both] == [3, 2, 0, 0]
        assert owner.answer(both.id).records() == both.records()


def test_the_scale_is_the_root_of_the_groups_a_person_can_be_in(tmp_path: Path) -> None:
    for rows, groups, reach in ((3, "abcd", 3), (9, "abcd", 4), (1, "ab", 1)):
        folder = tmp_path / f"{rows}{groups}"
        with dpx.connect(DATA, declared(rows, groups=groups), workspace=folder) as session:
            scale = session.query(SQL, rho=0.5).release.count_scale
            assert scale == pytest.approx(math.sqrt(reach))
            assert session.preview(SQL, rho=0.5).margin == pytest.approx(1.959964 * scale, rel=1e-6)


@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
@pytest.mark.parametrize("aggregates", ["COUNT(DISTINCT who)", "COUNT(*), COUNT(DISTINCT who)"])
def test_no_person_costs_more_than_rho(aggregates: str, neighbours: str) -> None:
    schema = Schema.load(declared(2, neighbours, "abc"))
    queries = parse(f"SELECT g, {aggregates} FROM t GROUP BY g", schema).queries
    measurement = SharedMeasurement(queries, 0.6, schema).measurement
    measurement.check()
    persons = []
    for places in itertools.combinations_with_replacement((None, 0, 1, 2), 2):
        rows = np.array([sum(place == group for place in places) for group in range(3)], dtype=float)
        added = {"rows": rows, "persons": np.minimum(rows, 1.0)}
        moves = [
            added[part.kind] / measurement.sensitivity(part) * math.sqrt(measurement.rhos[part.name])
            for part in measurement.parts
        ]
        persons.append(np.concatenate(moves))
    everyone = np.array(persons)
    moved = everyone[:, None] - everyone[None] if neighbours == "bounded" else everyone
    worst = (moved**2).sum(axis=-1).max()
    assert 0.3 < worst <= 0.6 * (1 + 1e-9)
    if aggregates == "COUNT(DISTINCT who)" and neighbours == "unbounded":
        assert worst == pytest.approx(0.6)


@pytest.mark.parametrize("unit", ["row", "who"])
def test_other_distinct_counts_are_refused(unit: str) -> None:
    privacy = {"rho": 1.0} | ({"unit": "who", "max_rows": 2} if unit == "who" else {})
    schema = Schema.load(declared() | {"privacy": privacy})
    for counted in ("x", "g", "who" if unit == "row" else "DISTINCT x"):
        with pytest.raises(dpx.QueryRefused):
            parse(f"SELECT g, COUNT(DISTINCT {counted}) FROM t GROUP BY g", schema)
