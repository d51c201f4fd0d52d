"""Our own numerics against SciPy's, which the library does without."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse, special
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import studentized_range

from dpxplain.privacy.accounting import _at_order, epsilon
from dpxplain.privacy.calibration import (
    normal_cdf,
    normal_cdfs,
    normal_quantile,
    normal_quantiles,
    range_quantile,
)
from dpxplain.privacy.marginals.estimates import Layout


def test_the_distribution_function_is_scipys_far_into_both_tails():
    x = np.concatenate([np.linspace(-37.0, 37.0, 20_001), [-1e-300, 0.0, 1e-12]])
    assert normal_cdfs(x) == pytest.approx(special.ndtr(x), rel=1e-12, abs=0.0)
    assert (normal_cdf(-math.inf), normal_cdf(math.inf)) == (0.0, 1.0)


def test_quantiles_are_scipys_from_the_smallest_floats_to_the_last_below_one():
    p = np.concatenate([np.logspace(-307, -0.01, 20_001), np.linspace(0.001, 0.999, 9_999), [1.0 - 2.0**-53]])
    ours, theirs = normal_quantiles(p), special.ndtri(p)
    assert ours == pytest.approx(theirs, rel=1e-13, abs=1e-15)
    assert normal_quantile(0.975) == pytest.approx(special.ndtri(0.975), rel=1e-15)


def test_quantiles_at_the_ends_are_infinite_and_beyond_them_refused():
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError):
            normal_quantile(p)


@pytest.mark.parametrize("number", [2, 3, 103, 20_000])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_quantile_of_a_range_has_its_probability_by_adaptive_integration(confidence, number):
    q = range_quantile(confidence, number)

    def density(x: float) -> float:
        inside = special.ndtr(x + q) - special.ndtr(x)
        return number * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * inside ** (number - 1)

    probability, _ = quad(
        density, -10.0, 5.0, epsabs=1e-12, epsrel=1e-12, limit=500, points=[-6.0, -3.0, 0.0]
    )
    assert probability == pytest.approx(confidence, abs=1e-9)


@pytest.mark.parametrize("number", [103, 1_000_000])
@pytest.mark.parametrize("failure", [1e-6, 1e-9])
def test_the_quantile_of_a_range_of_a_million_fails_as_rarely_as_it_says(failure, number):
    q = range_quantile(1.0 - failure, number)

    def density(x: float) -> float:
        above, beyond = special.ndtr(-x), special.ndtr(-x - q)
        both = -math.expm1((number - 1) * math.log1p(-beyond / above))
        return number * math.exp(-(x**2) / 2 + (number - 1) * special.log_ndtr(-x)) * both

    total, _ = quad(density, -14.0, 6.0, epsabs=0.0, epsrel=1e-10, limit=2000, points=[-8, -6, -5, -4, -2])
    assert total / math.sqrt(2 * math.pi) == pytest.approx(failure, rel=1e-5)


def test_the_quantile_of_a_range_is_the_studentized_one_with_a_known_scale():
    assert range_quantile(0.95, 10) == pytest.approx(studentized_range.ppf(0.95, 10, np.inf), rel=1e-6)


@pytest.mark.parametrize("rho", [1e-12, 1e-6, 0.01, 0.5, 5.0, 1e3, 1e6])
@pytest.mark.parametrize("delta", [1e-15, 1e-6, 0.1])
def test_epsilon_is_at_the_minimum_that_scipy_finds(rho, delta):
    middle = 0.5 * math.log(math.log(1.0 / delta) / rho)
    bounds = (middle - 6.0, middle + 6.0)
    best = minimize_scalar(
        _at_order, bounds=bounds, args=(rho, delta), method="bounded", options={"xatol": 1e-9}
    )
    assert epsilon(rho, delta) == pytest.approx(max(0.0, best.fun), rel=1e-11, abs=1e-15)


def test_sums_and_overlaps_of_cells_are_those_of_an_incidence_matrix():
    rng = np.random.default_rng(3)  # seeded: test data
    sizes = [4, 7, 3]
    starts = [0, 4, 11]
    unions = [
        (s, sorted(rng.choice(sizes[s], rng.integers(0, sizes[s]), replace=False))) for s in [0, 1, 2] * 9
    ]
    for predicates in (None, unions):
        layout = Layout.of(sizes, predicates)
        each = predicates or [(s, [cell]) for s in range(3) for cell in range(sizes[s] - 1)]
        matrix = sparse.lil_array((len(each), sum(sizes)))
        for row, (s, cells) in enumerate(each):
            for cell in cells:
                matrix[row, starts[s] + cell] = 1.0
        values = rng.normal(size=(2, 5, sum(sizes)))
        assert layout.add_up(values) == pytest.approx(values @ matrix.toarray().T)
        same = layout.subset[:, None] == layout.subset
        expected = matrix.toarray() @ matrix.toarray().T - same * (layout.joined[:, None] * layout.share)
        assert layout.own(np.arange(layout.size)) == pytest.approx(expected)
