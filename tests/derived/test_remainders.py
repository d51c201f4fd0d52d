"""Remainders: the range that follows from the declarations, and the sum, against DuckDB itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.errors import QueryRefused
from dpxplain.model.derivation import infer
from dpxplain.model.expression import read_expression
from dpxplain.model.schema import Schema

# The declaration of x, that of y or None, the expression, and the ends of its values, all by hand.
CASES: dict[str, tuple[Any, Any, str, tuple[float, float]]] = {
    "positive": ([3, 10], None, "x % 5", (0, 5)),
    "smaller than the divisor": ([3, 4], None, "x % 5", (0, 4)),
    "negative": ([-10, -3], None, "x % 5", (-5, 0)),
    "negative and smaller": ([-4, -3], None, "x % 5", (-4, 0)),
    "negative divisor": ([-10, 2], None, "x % -5", (-5, 2)),
    "both signs": ([-2, 10], None, "x % 5", (-2, 5)),
    "fractions": ([0.25, 7.75], None, "x % 1.5", (0, 1.5)),
    "fractional divisor of both signs": ([-0.7, 3], None, "x % -0.5", (-0.5, 0.5)),
    "divisors of both signs": ([-9, 20], [-4, 2.5], "x % y", (-4, 4)),
    "positive divisors": ([-9, 20], [0.5, 6], "x % y", (-6, 6)),
    "negative divisors": ([1, 20], [-7, -2], "x % y", (0, 7)),
    "divided constant": ([1, 20], None, "30 % x", (0, 20)),
}


def _frame(x: tuple[float, float], y: tuple[float, float] | None) -> pd.DataFrame:
    """Every pair of 41 numbers from each column, among them the bounds.

    The others are random: rounding a number to a multiple of the divisor would make its remainder jump.
    """
    rng = np.random.default_rng(seed=3)
    xs = np.append(rng.uniform(*x, 39), x)
    ys = np.append(rng.uniform(*y, 39), y) if y else np.array([1.0])
    return pd.DataFrame({"x": np.repeat(xs, len(ys)), "y": np.tile(ys, len(xs))})


def _schema(x: Any, y: Any) -> Schema:
    columns = {"x": {"bounds": list(x)}} | ({"y": {"bounds": list(y)}} if y else {})
    return Schema.load({"table": {"name": "t"}, "privacy": {"rho": 100.0}, "columns": columns})


def _computed(frame: pd.DataFrame, expression: str) -> np.ndarray:
    """The remainders in DuckDB."""
    with duckdb.connect() as connection:
        connection.register("t", frame.astype(float))
        values: np.ndarray = connection.execute(f"SELECT {expression} AS value FROM t").fetchnumpy()["value"]
        return values


@pytest.mark.parametrize(("x", "y", "expression", "ends"), CASES.values(), ids=CASES)
def test_remainders_lie_between_the_ends_and_their_sum_is_that_of_duckdb(
    x: Any, y: Any, expression: str, ends: tuple[float, float], tmp_path: Path
) -> None:
    schema, frame = _schema(x, y), _frame(x, y)
    values = _computed(frame, expression)
    assert infer(read_expression(expression, schema.columns), schema.columns).ends == ends
    assert ends[0] <= values.min() <= values.max() <= ends[1]
    with dpx.connect(frame, schema, workspace=tmp_path, curator=True) as session:
        [record] = session.query(f"SELECT SUM({expression}) FROM t", rho=0.1).truth().records()
    # Each row's value is rounded to a grid of at most a millionth of its range.
    assert record["true"] == pytest.approx(values.sum(), abs=1e-6 * len(values) * (ends[1] - ends[0]))


@pytest.mark.parametrize("expression", ["x % 5", "x % -5", "x % 2.5", "x % y"])
def test_whole_multiples_have_few_remainders(expression: str) -> None:
    columns = {"x": {"bounds": [-3, 10], "step": 0.5}, "y": {"values": [0, 2, -3]}}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})
    domain = infer(read_expression(expression, schema.columns), schema.columns)
    multiples = np.arange(-6, 21) / 2
    frame = pd.DataFrame({"x": np.repeat(multiples, 2), "y": np.tile([2, -3], len(multiples))})
    values = _computed(frame, expression)
    assert domain.step == 0.5
    assert domain.low <= values.min() <= values.max() <= domain.high
    assert domain.ends == {"x % y": (-3, 3), "x % 2.5": (-2.5, 2.5)}.get(expression, (-3, 5))


def test_remainders_of_lists_are_a_list() -> None:
    columns = {"x": {"values": [-7, 1, 4, 9]}, "y": {"values": [0, 2, -3]}}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})
    domain = infer(read_expression("x % y", schema.columns), schema.columns)
    frame = pd.DataFrame([(x, y) for x in columns["x"]["values"] for y in (2, -3)], columns=["x", "y"])
    assert domain.values == (-1, 0, 1)
    assert {*_computed(frame, "x % y")} == {*domain.values}


@pytest.mark.parametrize("dividend", ["x", "CAST(x AS BIGINT)", "k"])
def test_a_remainder_that_is_always_null_is_refused(dividend: str, tmp_path: Path) -> None:
    columns = {"x": {"bounds": [3, 10]}, "k": {"values": [1, 2]}}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})
    frame = pd.DataFrame({"x": [3.0], "k": [1]})
    with dpx.connect(frame, schema, workspace=tmp_path) as session:
        with pytest.raises(QueryRefused, match="The remainder of a division by 0 is NULL"):
            session.query(f"SELECT SUM({dividend} % 0) FROM t", rho=0.1)
        assert session.budget.spent == 0
