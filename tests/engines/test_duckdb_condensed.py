"""Rows that agree in all codes are kept once: every pass gives the same as over all rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpxplain.engines import duckdb
from dpxplain.engines.duckdb import DuckDBEngine, suits_dense
from dpxplain.model.query import (
    CONDENSED,
    Aggregate,
    And,
    Comparison,
    Filter,
    IsNull,
    Membership,
    Not,
    Query,
)
from dpxplain.model.schema import Schema
from opened import connection_of

SCHEMA = Schema.load(
    {
        "table": {"name": "t"},
        "privacy": {"rho": 1.0},
        "columns": {
            "g": {"values": ["A", "B"], "null": True},
            "a": {"values": [1, 2, 3]},
            "age": {"edges": [0, 30, 60]},
            "pay": {"bounds": [-5, 100], "step": 0.5},
            "both": {"edges": [0, 5, 10], "bounds": [0, 10]},
        },
    }
)
FILTERS: dict[str, Filter | None] = {
    "no filter": None,
    "categories": And((Comparison("a", "<", 3), Not(IsNull("g")))),
    "one of": Membership("a", (1, 3)),
    "a numeric column": Comparison("pay", ">", 20),
    "bins": Comparison("age", "<=", 40),
}


def _frame(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "g": rng.choice(["A", "B", None, "?"], rows),
            "a": rng.choice([1, 2, 3, 9], rows),
            "age": rng.choice([10.0, 45.0, 99.0, np.nan], rows),
            "pay": rng.choice([-50.0, 3.3, 20.0, 1e9, np.inf, np.nan], rows),
            "both": rng.choice([1.0, 7.0, 99.0, np.nan], rows),
        }
    )


def is_condensed(engine: DuckDBEngine) -> bool:
    return (CONDENSED,) in connection_of(engine).execute("SELECT table_name FROM duckdb_tables()").fetchall()


def _sorted(
    engine: DuckDBEngine, query: Query, subsets: tuple[tuple[str, ...], ...]
) -> list[tuple[int, ...]]:
    grouped = engine.grouped(query, subsets).reveal()
    columns = (*grouped.codes.values(), grouped.subset, grouped.count, grouped.total)
    return sorted(row for row in zip(*(column.tolist() for column in columns), strict=True) if row[-2])


@pytest.mark.slow
@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize(
    "aggregate",
    [
        Aggregate("count"),
        Aggregate("count", "g"),
        Aggregate("count", "age"),
        Aggregate("count", "pay"),
        Aggregate("sum", "pay"),
        Aggregate("avg", "both"),
    ],
    ids=str,
)
def test_a_condensed_pass_equals_a_full_one(
    aggregate: Aggregate, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DuckDBEngine(_frame(4000), SCHEMA)
    assert is_condensed(engine), "so few different rows are worth condensing"
    for group_by in ((), ("g",), ("g", "age")):
        query = Query("t", group_by, aggregate, FILTERS[where])
        for subsets in (((),), (("a",),), (("a",), ("both",), ("a", "both"))):
            condensed = _sorted(engine, query, subsets)
            with monkeypatch.context() as patch:
                patch.setattr(duckdb, "fits_condensed", lambda *_: False)
                assert _sorted(engine, query, subsets) == condensed
    engine.close()


@pytest.mark.parametrize("condensed", [True, False])
@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize(
    "aggregate",
    [Aggregate("count"), Aggregate("count", "g"), Aggregate("count", "age"), Aggregate("sum", "pay")],
    ids=str,
)
def test_counting_in_dense_arrays_equals_counting_in_the_database(
    aggregate: Aggregate, where: str, condensed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DuckDBEngine(_frame(4000), SCHEMA)
    assert is_condensed(engine)
    if not condensed:
        monkeypatch.setattr(duckdb, "fits_condensed", lambda *_: False)
    monkeypatch.setattr(duckdb, "ROWS_AT_ONCE", 700)  # several batches
    for group_by in ((), ("g",), ("g", "age")):
        query = Query("t", group_by, aggregate, FILTERS[where])
        for subsets in (((),), (("a",),), (("a",), ("both",), ("a", "both"))):
            monkeypatch.setattr(duckdb, "suits_dense", lambda *_: True)
            dense = _sorted(engine, query, subsets)
            monkeypatch.setattr(duckdb, "suits_dense", lambda *_: False)
            assert dense == _sorted(engine, query, subsets)
    engine.close()


def test_dense_arrays_are_chosen_by_declared_sizes_alone() -> None:
    five = tuple((name,) for name in "abcde")
    assert suits_dense(("g",), five, {"g": 3} | dict.fromkeys("abcde", 100))
    assert not suits_dense(("g",), five[:2], {"g": 3, "a": 100, "b": 100}), "the database groups few as fast"
    assert not suits_dense(("g",), five, {"g": 3000} | dict.fromkeys("abcde", 10_000)), "too large"


def test_a_table_of_different_rows_is_not_condensed() -> None:
    engine = DuckDBEngine(_frame(20), SCHEMA)
    assert not is_condensed(engine)
    engine.close()
