"""Formulas at the edge of what they are defined for, and where a too wide interval would still cover."""

from __future__ import annotations

import numpy as np
import pytest

from dpxplain.privacy.calibration import normal_cdfs, normal_quantiles
from dpxplain.privacy.mechanisms.ranking import search_reach
from dpxplain.privacy.population_intervals import count_ends


@pytest.mark.parametrize("total", [100.0, 5_000.0])
def test_rows_in_a_group_are_as_uncertain_as_the_rows_outside_it(total: float) -> None:
    inside = total * np.array([0.35, 0.5, 0.6])
    low, high = count_ends(inside, 0.5, 0.05, total=total)
    low_outside, high_outside = count_ends(total - inside, 0.5, 0.05, total=total)
    assert low == pytest.approx(total - high_outside, rel=1e-12)
    assert high == pytest.approx(total - low_outside, rel=1e-12)


def test_normal_functions_of_no_values_are_no_values() -> None:
    for function in (normal_cdfs, normal_quantiles):
        values = function(np.array([]))
        assert (values.shape, values.dtype) == ((0,), np.float64)


def test_the_rank_of_a_single_condition_needs_no_search() -> None:
    settings = {"rows": 1, "rho": 0.1, "confidence": 0.95, "lower_share": 0.5}
    assert search_reach(1, 1, **settings) == 1  # type: ignore[arg-type]
    assert search_reach(2, 1, **settings) > 1  # type: ignore[arg-type]
