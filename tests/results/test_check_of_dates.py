"""`schema check` judges dates and timestamps as it does numbers."""

from __future__ import annotations

import tomllib
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dpxplain.engines.opening import source_figures
from dpxplain.model.schema import Schema
from dpxplain.results.schema_check import SchemaCheck

DAYS = [date(2013, 1, 1) + timedelta(days=n) for n in range(100)]


def checked(values: Any, **column: Any) -> SchemaCheck:
    schema = Schema.load(
        {"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": {"day": column, "x": {"bounds": [0, 1]}}}
    )
    table = pa.table({"day": values, "x": [0.5] * len(values)})
    return SchemaCheck.of(schema, table, source_figures(table, schema))


def declared_in(toml: str) -> dict[str, Any]:
    return tomllib.loads(toml)["columns"]["day"]


def test_dates_inside_their_edges_fit():
    assert checked(DAYS, edges=["2012-12-31", "2013-02-28", "2013-04-10"]).fits


def test_dates_outside_the_edges_are_counted_at_each_end_with_edges_that_hold_them():
    below, above = checked(DAYS, edges=["2013-01-11", "2013-02-28", "2013-03-31"]).warnings
    assert (below.kind, below.rows, above.kind, above.rows) == ("below_edges", 11, "above_edges", 10)
    assert "2013-01-11" in below.message
    edges = [*declared_in(below.toml)["edges"], declared_in(above.toml)["edges"][-1]]
    assert checked(DAYS, edges=edges).fits


def test_the_first_day_of_open_bins_is_named():
    (below,) = checked(DAYS, edges=["2013-01-01", "2013-02-28", "2013-04-10"]).warnings
    assert "equal the lowest edge, 2013-01-01," in below.message
    assert declared_in(below.toml)["edges"][0] == "2012-12-31"


@pytest.mark.parametrize("kind", [date, datetime, str])
def test_clamped_dates_are_counted_with_bounds_that_hold_them(kind):
    values = [datetime(d.year, d.month, d.day, 18) if kind is datetime else kind.fromisoformat(str(d))
              if kind is date else str(d) for d in DAYS]  # fmt: skip
    check = checked(values, bounds=["2013-01-11", "2013-03-31"])
    below, above = check.warnings
    assert (below.kind, above.kind) == ("clamped_below", "clamped_above")
    assert below.rows == 10
    assert "count as 2013-01-11" in below.message
    assert "mean" not in below.message
    assert check.records()[0]["clamped_low"] == pytest.approx(0.1)
    assert checked(values, **declared_in(below.toml)).fits


def test_text_that_is_no_date_is_named():
    (warning,) = checked([*map(str, DAYS), "soon", "31.1.2013"], bounds=["2013-01-01", "2013-04-10"]).warnings
    assert (warning.kind, warning.rows) == ("not_dates", 2)
    assert '"soon"' in warning.message
    assert "ISO" in warning.remedy


def test_bins_that_hold_nothing_are_joined():
    (warning,) = checked(DAYS, edges=["2012-12-31", "2013-04-10", "2020-01-01", "2021-01-01"]).warnings[:1]
    assert warning.kind == "thin_bins"


def test_dates_beyond_those_of_python_are_told_too():
    far = pa.array([-(2**60), *([10**15] * 99)], pa.timestamp("us"))
    (below,) = checked(far, bounds=["2000-01-01", "2010-01-01"]).warnings
    assert "down to 0001-01-01" in below.message
