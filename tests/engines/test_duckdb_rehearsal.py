"""Engines of the same columns rehearse on the same empty tables, and each by itself."""

from __future__ import annotations

import pandas as pd
import pytest

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import InternalError
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema

SUBSETS = ((),)


def _engine(values: list[str], rows: int) -> DuckDBEngine:
    schema = {"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": {"g": {"values": values}}}
    return DuckDBEngine(pd.DataFrame({"g": [values[0]] * rows}), Schema.load(schema))


def _counts(engine: DuckDBEngine, *, rehearsed: bool) -> list[int]:
    query = Query("t", ("g",), Aggregate("count"))
    return engine.grouped(query, SUBSETS, rehearsed=rehearsed).reveal().count.tolist()


def test_a_rehearsal_counts_no_row_of_any_engine() -> None:
    engines = [_engine(["A", "B"], 5), _engine(["X", "Y", "Z"], 70)]
    for _ in range(2):
        assert [_counts(engine, rehearsed=True) for engine in engines] == [[], []]
        assert [_counts(engine, rehearsed=False) for engine in engines] == [[5], [70]]


def test_a_closed_engine_is_not_rehearsed_and_the_others_are() -> None:
    closed, other = _engine(["A", "B"], 5), _engine(["A", "B"], 7)
    _counts(closed, rehearsed=True)
    closed.close()
    with pytest.raises(InternalError):
        _counts(closed, rehearsed=True)
    assert _counts(other, rehearsed=True) == []
    assert _counts(other, rehearsed=False) == [7]
