"""What the provable intervals allow for an unclear minimum or maximum, against values by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpxplain.privacy.marginals.estimates import (
    Boxes,
    CellEstimates,
    Ends,
    Estimates,
    Kind,
    Layout,
    largest_allowance,
    tie_allowance,
)


def _estimates(kind: Kind, total: Any, cell: Any, value_low: float = 0, value_high: float = 1) -> Estimates:
    """The estimates whose totals and cells are given. No allowance depends on their scales."""
    cells = np.array(cell, dtype=float)
    layout = Layout.of([cells.shape[-1] + 1])
    count = CellEstimates(np.array(total, dtype=float), 1.0, cells, 1.0, layout)
    return Estimates(kind, count, None if kind == "count" else count, value_low, value_high, 0.0)


def _ends(low: Any, high: Any) -> Ends:
    return np.array(low, dtype=float), np.array(high, dtype=float)


def _boxes(**parts: Ends | None) -> Boxes:
    unused = _ends(np.nan, np.nan)
    return Boxes(**dict.fromkeys("nacSUVx", unused) | parts)  # type: ignore[arg-type]


# Three groups and three conditions. The remaining rows are estimated as
#     90 60 90
#     79 94 79
#     35 70 10    so the group estimated to remain smallest is the third, the first and the third.
THREE = _estimates("count", [100, 99, 80], [[10, 40, 10], [20, 5, 20], [45, 10, 70]])
THREE_BOXES = _boxes(
    n=_ends([[95], [96], [70]], [[106], [103], [88]]),
    c=_ends([[37, 51, 85], [74, 50, 73], [30, 52, 5]], [[99, 58, 95], [84, 99, 85], [41, 88, 15]]),
    x=_ends([-48, 96, 96], [192, 288, 192]),
)


def test_counts_allow_for_a_remainder_that_may_be_smaller_than_the_one_taken() -> None:
    """δ is 41 − 37, 58 − 50 and 0 (15 lies below 73); the largest group has at least 95 rows, n_H + 1 is 96.

    m − c_h lies in [−δ, 0], and the change per row in [−48, 192]/96, [96, 288]/96 and [96, 192]/96.
    """
    low, high = tie_allowance(THREE, np.ones(3), THREE_BOXES)
    assert low.tolist() == [-4 * 2.0, -8 * 3.0, 0]
    assert high.tolist() == [4 * 0.5, 0, 0]


def test_with_a_fixed_maximum_it_is_the_estimated_one() -> None:
    low, high = tie_allowance(THREE, np.ones(3), THREE_BOXES, fixed=True)
    assert low == pytest.approx([-4 * 192 / 101, -8 * 288 / 101, 0])
    assert high == pytest.approx([4 * 48 / 101, 0, 0])


@pytest.mark.parametrize("fixed", [True, False])
def test_a_largest_group_without_rows_divides_by_1(fixed: bool) -> None:
    none_left = _estimates("count", [-7, -3], [[-4], [-2]])
    box = _boxes(n=_ends([[-9], [-5]], [[0], [0]]), c=_ends([[0], [0]], [[3], [2]]), x=_ends([-6], [5]))
    low, high = tie_allowance(none_left, np.ones(2), box, fixed=fixed)
    assert (low.tolist(), high.tolist()) == ([-3 * 5], [3 * 6])


def test_averages_allow_for_it_by_the_change_of_each_mean() -> None:
    """Values from −5 to 5. The mean of the first group is in [1.6, 2.5], of the second in [−2.5, −0.8].

    First condition: δ = 33 − 30. Without it the means are in [−1, 2] and [−2.5, 0.5], so they change by
    [−0.4, 3.5] and [−3, 1.7], cut to ±10·10/(10 + 30) and ±10·4/(4 + 16). Weights of 2 and −1 give
    2·[−0.4, 2.5] − [−2, 1.7] = [−2.5, 7].

    Second: δ = 18 − 16. The first group may be empty without it, so its mean changes by [1.6 − 5, 2.5 + 5]
    and 2·[−3.4, 7.5] − [−2, 1.7] = [−8.5, 17].

    Third: δ = 18 − 0. The second group has no rows with or without it: 2·[−3.4, 7.5] − [−7.5, 4.2] is
    [−11, 22.5].
    """
    e = _estimates("avg", [45, 22], [[8, 40, 45], [4, 3, 22]], -5, 5)
    box = _boxes(
        n=_ends([[40], [20]], [[50], [25]]),
        a=_ends([[5, 30, 30], [4, 2, 0]], [[10, 50, 50], [4, 4, 0]]),
        c=_ends([[30, 0, 0], [16, 16, 0]], [[40, 18, 18], [33, 20, 0]]),
        S=_ends([[80], [-50]], [[100], [-20]]),
        V=_ends([[-30, -7, -7], [-40, -40, 0]], [[60, 9, 9], [8, 8, 0]]),
        U=None,
    )
    low, high = tie_allowance(e, np.array([2.0, -1.0]), box)
    assert low == pytest.approx([-3 * 7, -2 * 17, -18 * 22.5])
    assert high == pytest.approx([3 * 2.5, 2 * 8.5, 18 * 11])


def test_the_largest_allowance_shrinks_by_the_rows_that_another_group_may_have_more() -> None:
    """Two releases. In the first, the group estimated largest has at least 95 rows, another at most 103.

    So the factor is 96/104, and 13 becomes 12. In the second the third group is the largest for certain.
    """
    e = _estimates("count", [[100, 99, 80], [50, 60, 120]], np.zeros((2, 3, 4)))
    box = _boxes(
        n=_ends([[[95], [96], [70]], [[45], [55], [110]]], [[[106], [103], [88]], [[58], [70], [130]]])
    )
    interval = _ends([[-13, 26, -39, 0]] * 2, [[26, 39, -26, 13]] * 2)
    low, high = largest_allowance(e, box, interval)
    assert low == pytest.approx(np.array([[-13, 24, -39, 0], [-13, 26, -39, 0]]))
    assert high == pytest.approx(np.array([[26, 39, -24, 13], [26, 39, -26, 13]]))
