"""Influences of a few cells, with values by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpxplain.explanation.influence import (
    Cells,
    QuestionCells,
    Totals,
    influences,
    question_cells,
    scores,
    values_without,
)


def _array(numbers: Any) -> Any:
    return np.array(numbers, dtype=np.int64)


# Two groups of 10 and 6 rows with sums of 60 and 12, and four conditions. Rows without each of them:
#     6 10  5 5     m is 5; 0, because the second group is empty without it; 5 in both groups; 4
#     5  0  5 4
TWO = QuestionCells(
    active=_array([2, 3, 5, 7]),
    count=_array([10, 6]),
    total=_array([60, 12]),
    predicate_count=_array([[4, 0, 5, 5], [1, 6, 1, 2]]),
    predicate_total=_array([[30, 0, 10, 45], [4, 12, -3, 2]]),
)
WEIGHTS = (1.0, -2.0)


@pytest.mark.parametrize(
    ("kind", "weights", "expected"),
    [
        # Rows lost times m / (10 + 1).
        ("count", WEIGHTS, [(4 - 2) * 5, 0, (5 - 2) * 5, (5 - 4) * 4]),
        ("count", (-0.5, 3), [(-2 + 3) * 5, 0, (-2.5 + 3) * 5, (-2.5 + 6) * 4]),
        # Sums lost times the same.
        ("sum", WEIGHTS, [(30 - 8) * 5, 0, (10 + 6) * 5, (45 - 4) * 4]),
        ("sum", (-0.5, 3), [(-15 + 12) * 5, 0, (-5 - 9) * 5, (-22.5 + 6) * 4]),
    ],
)
def test_counts_and_sums_lose_rows_and_sums(
    kind: Any, weights: tuple[float, ...], expected: list[float]
) -> None:
    assert influences(kind, weights, TWO) == pytest.approx([value / 11 for value in expected])


@pytest.mark.parametrize("middle", [0, 10, -7])
@pytest.mark.parametrize("weights", [WEIGHTS, (-0.5, 3)])
def test_averages_change_by_those_of_the_rows_that_remain(weights: tuple[float, float], middle: int) -> None:
    """From 6 and 2 to 5 and 1.6, to an empty group, to 10 and 3, and to 3 and 2.5; times m."""
    changes = [(1, 0.4, 5), (0, 0, 0), (-4, -1, 5), (3, -0.5, 4)]
    expected = [(weights[0] * one + weights[1] * two) * m for one, two, m in changes]
    assert influences("avg", weights, TWO, middle) == pytest.approx(expected)


def test_averages_far_from_zero_are_as_exact_as_near_it() -> None:
    """The bounds are 0 and 10, or both higher by 2^40, where sums have more digits than floats."""
    near = QuestionCells(
        active=_array([0]),
        count=_array([30_001, 20_003]),
        total=_array([150_017, 40_009]),
        predicate_count=_array([[10_007], [9_001]]),
        predicate_total=_array([[80_021], [8_009]]),
    )
    far = QuestionCells(
        near.active,
        near.count,
        near.total + 2**40 * near.count,
        near.predicate_count,
        near.predicate_total + 2**40 * near.predicate_count,
    )
    remaining = [19_994, 11_002]
    change = Fraction(150_017, 30_001) - Fraction(150_017 - 80_021, remaining[0])
    change -= Fraction(40_009, 20_003) - Fraction(40_009 - 8_009, remaining[1])
    [expected] = influences("avg", (1, -1), near, middle=10)
    assert expected == pytest.approx(float(change * remaining[1]), rel=1e-12)
    assert influences("avg", (1, -1), far, middle=10 + 2 * 2**40).tolist() == [expected]


@pytest.mark.parametrize("kind", ["count", "sum", "avg"])
@pytest.mark.filterwarnings("error")
def test_no_condition_has_influence_on_a_question_with_an_empty_group(kind: Any) -> None:
    with_empty = QuestionCells(
        _array([0, 1]),
        _array([10, 0]),
        _array([60, 0]),
        _array([[4, 10], [0, 0]]),
        _array([[30, 60], [0, 0]]),
    )
    assert influences(kind, WEIGHTS, with_empty, middle=10).tolist() == [0, 0]


@pytest.mark.filterwarnings("error")
def test_values_without_the_rows_are_those_of_the_rows_that_remain() -> None:
    assert values_without("count", WEIGHTS, TWO).tolist() == [6 - 10, 10, 5 - 10, 5 - 8]
    assert values_without("sum", WEIGHTS, TWO).tolist() == [30 - 16, 60, 50 - 30, 15 - 20]
    averages = values_without("avg", WEIGHTS, TWO)
    assert averages == pytest.approx([5 - 3.2, np.nan, 10 - 6, 3 - 5], nan_ok=True)
    one_row_left = QuestionCells(*map(_array, ([0], [3], [21], [[2]], [[13]])))
    assert values_without("avg", (1.0,), one_row_left).tolist() == [8]


def test_the_cells_of_a_question_are_those_of_its_groups_in_its_order() -> None:
    """Condition 4 meets rows of other groups only, condition 6 none at all."""
    totals = Totals(_array([10, 20, 30, 40]), _array([1, 2, 3, 4]))
    cells = Cells(
        group=_array([0, 0, 1, 2, 3, 3]),
        predicate=_array([5, 9, 4, 9, 0, 5]),
        count=_array([7, 8, 9, 11, 12, 13]),
        total=_array([-7, -8, -9, -11, -12, -13]),
    )
    data = question_cells(totals, cells, (3, 0, 2))
    assert data.active.tolist() == [0, 5, 9]
    assert (data.count.tolist(), data.total.tolist()) == ([40, 10, 30], [4, 1, 3])
    assert data.predicate_count.tolist() == [[12, 13, 0], [0, 7, 8], [0, 0, 11]]
    assert data.predicate_total.tolist() == [[-12, -13, 0], [0, -7, -8], [0, 0, -11]]


def test_scores_are_whole_multiples_of_a_millionth_of_the_sensitivity() -> None:
    """A score is 2^20 per sensitivity of 4, rounded half to even, and never leaves the range of integers."""
    influence = np.array([4, -1, 1.4 / 2**18, 1.6 / 2**18, 2.5 / 2**18, np.nan, 2.0**60, -np.inf])
    assert scores(influence, 4.0).tolist() == [2**20, -(2**18), 1, 2, 2, 0, 2**52, -(2**52)]
    assert scores(influence, 4.0).dtype == np.int64
