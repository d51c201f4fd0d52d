"""The audit's own statistics: exact bounds, the curve of ρ, likelihood ratios and lattices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpxplain.audit.privacy_audit import (
    LikelihoodRatio,
    Sample,
    beta_cdf,
    delta_allowed,
    epsilon_allowing,
    finest_step,
    lattice_problem,
    lower_mean,
    lower_probability,
    rho_of_event,
    upper_mean,
    upper_probability,
    weigh,
)
from dpxplain.privacy.accounting import epsilon


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (10, 10), (300, 1_000), (49_990, 50_000)])
@pytest.mark.parametrize("level", [0.05, 1e-9])
def test_bounds_of_probabilities_are_those_of_clopper_and_pearson(
    hits: int, trials: int, level: float
) -> None:
    low = stats.beta.ppf(level, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.isf(level, hits + 1, trials - hits) if hits < trials else 1.0
    assert lower_probability(hits, trials, level) == pytest.approx(low, rel=1e-6, abs=1e-12)
    assert upper_probability(hits, trials, level) == pytest.approx(high, rel=1e-6, abs=1e-12)


def test_the_beta_distribution_is_scipys() -> None:
    for a, b, x in ((0.5, 3.0, 0.1), (400.0, 9_000.0, 0.04), (9_000.0, 2.0, 0.9999)):
        assert beta_cdf(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), rel=1e-8)


def test_bounds_of_means_hold_as_often_as_they_say() -> None:
    """Of 500 bounds at level 0.1 about a tenth may be wrong; that 90 are is a chance below 1e-6."""
    random = np.random.default_rng(7)
    wrong = [0, 0]
    for _ in range(500):
        values = random.beta(0.3, 0.7, size=100)
        wrong[0] += lower_mean(values, 0.0, 0.1, (0.3, 0.3)) > 0.3
        wrong[1] += upper_mean(values, 1.0, 0.1, (0.3, 0.3)) < 0.3
    assert max(wrong) < 90


def test_bounds_of_means_are_as_narrow_as_the_spread_allows() -> None:
    values = np.random.default_rng(3).normal(0.5, 0.01, size=1_000).clip(0.0, 1.0)
    low, high = (bound(values, end, 1e-6, (0.5, 0.01)) for bound, end in ((lower_mean, 0), (upper_mean, 1)))
    assert 0.48 < low < 0.5 < high < 0.52
    assert lower_mean(np.zeros(10), 0.0, 0.05, (0.0, 0.0)) == pytest.approx(0.0, abs=1e-12)


def test_the_curve_is_the_one_that_budgets_are_shown_by() -> None:
    for rho, delta in ((0.01, 1e-6), (0.5, 0.1), (2.0, 0.01)):
        assert epsilon_allowing(rho, delta) == pytest.approx(epsilon(rho, delta), rel=1e-3)
    assert delta_allowed(2.0, 0.0) <= 1.0


def test_no_event_of_a_gaussian_costs_more_than_its_shift() -> None:
    for shift in (0.5, 2.0, 4.0):
        costs = [
            rho_of_event(float(stats.norm.sf(t - shift)), float(stats.norm.sf(t)))
            for t in np.linspace(-4.0, 9.0, 200)
        ]
        assert 0.6 * shift**2 / 2 < max(costs) < shift**2 / 2
    assert rho_of_event(0.2, 0.3) == 0.0
    assert math.isinf(rho_of_event(0.2, 0.0))


def _gaussians(shift: float, number: int, seed: int) -> tuple[Sample, Sample]:
    random = np.random.default_rng(seed)
    names = [""] * number
    return (
        Sample(names, random.normal(0.0, 1.0, (number, 1))),
        Sample(names, random.normal(shift, 1.0, (number, 1))),
    )


@pytest.mark.parametrize("rho", [0.5, 2.0])
def test_evidence_is_close_to_the_true_cost_and_below_it(rho: float) -> None:
    evidence = weigh(*_gaussians(math.sqrt(2 * rho), 20_000, 5), rho, 1e-7)
    assert 0.75 < evidence.reached < 1.0
    assert evidence.sure_rho < evidence.rho
    assert evidence.violation == ""
    assert all(0.0 <= point.delta <= point.allowed for point in evidence.curve)


def test_evidence_of_more_than_was_promised_is_a_violation() -> None:
    evidence = weigh(*_gaussians(2.0, 20_000, 5), 1.0, 1e-7)
    assert 1.0 < evidence.sure_rho < 2.0
    assert evidence.violation == (f"it costs at least ρ = {evidence.sure_rho:.4g}, more than the 1 promised")


def test_equal_tables_cost_nothing() -> None:
    evidence = weigh(*_gaussians(0.0, 4_000, 5), 0.1, 1e-7)
    assert evidence.rho <= 0.01
    assert evidence.violation == ""


def test_the_likelihood_ratio_sees_choices_and_values_that_come_back() -> None:
    random = np.random.default_rng(2)
    number = 1_000
    table = Sample(["u"] * number, np.zeros((number, 1)))
    neighbour = Sample(["u"] * (number // 2) + ["v"] * (number // 2), random.normal(0, 1, (number, 1)))
    model = LikelihoodRatio.fit(table, neighbour)
    assert model.score(Sample(["v"], np.array([[0.3]])))[0] > 3.0
    assert model.score(Sample(["u"], np.array([[0.0]])))[0] < -3.0


def test_a_lattice_is_recognised() -> None:
    random = np.random.default_rng(2)
    fine = random.integers(-(2**20), 2**20, size=500) / 2**14
    assert finest_step(fine) == 2.0**-14
    assert lattice_problem(fine) == ""
    assert "floating point" in lattice_problem(random.normal(0.0, 1.0, 500))
    assert "not finite" in lattice_problem(np.array([math.inf]))
