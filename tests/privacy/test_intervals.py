"""The intervals of averages: coverage, width, and manners on any input. docs/ has the full grid."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpxplain.errors import BadRequest
from dpxplain.model.release import FloatArray
from dpxplain.privacy.intervals import (
    DEFAULT_METHOD,
    METHODS,
    NoisyMean,
    NoisyMeans,
    check_confidence,
    gaussian_interval,
    mean_interval,
    weighted_means_interval,
    weighted_means_intervals,
    weighted_sum_interval,
)

DIFFERENCE = (1.0, -1.0)
LEVELS = (0.8, 0.9, 0.95, 0.99)
# Sizes from empty to thousands, means at the edges and in the middle, ρ from 0.01 to 1.
SITUATIONS = [
    *product(
        [(0, 0), (0, 50), (5, 5), (20, 20), (50, 50), (50, 2000)], [(0.0, 1.0), (0.5, 1.0)], [0.01, 0.1, 1.0]
    ),
    *product([(1000, 1000)], [(0.0, 1.0), (1.0, 1.0), (0.5, 0.5)], [0.01, 1.0]),
]


def release(sizes, means, rho, *, runs=20_000, seed=1) -> NoisyMeans:
    """AVG over [0, 1] as Phase 1 releases it; an empty group's mean is the convention given."""
    seeded = np.random.default_rng(seed)
    rows, ones = np.array(sizes, dtype=float), np.ones(len(sizes))
    sum_noise, count_noise = seeded.standard_normal((2, runs, len(rows))) / math.sqrt(rho)
    return NoisyMeans(
        rows * (np.array(means) - 0.5) + sum_noise / 2,
        rows + count_noise,
        ones / 2 / math.sqrt(rho),
        ones / math.sqrt(rho),
        0 * ones,
        ones,
    )


def coverage(low: FloatArray, high: FloatArray, truth: float) -> float:
    return float(np.mean((low <= truth + 1e-12) & (truth <= high + 1e-12)))


def holds(covered: float, confidence: float, *, runs: int) -> bool:
    """Could an interval that holds with probability `confidence` be covering so rarely by chance (4 SE)?"""
    return covered >= confidence - 4 * math.sqrt(confidence * (1 - confidence) / runs)


def mean_width(sizes, means, rho, method) -> float:
    low, high = weighted_means_intervals(
        release(sizes, means, rho, runs=500), np.array(DIFFERENCE), 0.95, method
    )
    return float(np.mean(high - low))


@pytest.mark.slow
@pytest.mark.parametrize("confidence", LEVELS)
def test_mover_covers_the_difference_within_half_a_percent_of_the_level(confidence):
    for seed, (sizes, means, rho) in enumerate(SITUATIONS):
        parts = release(sizes, means, rho, runs=50_000, seed=seed)
        ends = weighted_means_intervals(parts, np.array(DIFFERENCE), confidence, "mover")
        covered = coverage(*ends, means[0] - means[1])
        assert covered >= confidence - 0.005, (sizes, means, rho, covered)


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("method", ["fieller", "image"])
def test_provable_methods_cover_the_difference_at_the_level_itself(method, confidence):
    for sizes, means, rho in SITUATIONS:
        parts = release(sizes, means, rho)
        ends = weighted_means_intervals(parts, np.array(DIFFERENCE), confidence, method)
        covered = coverage(*ends, means[0] - means[1])
        assert covered >= confidence, (sizes, means, rho, covered)


@pytest.mark.parametrize("method", ["mover", "fieller", "image"])
def test_weighted_questions_over_three_groups_are_covered(method):
    weights = np.array([1.0, -0.5, -2.0])
    for sizes, rho, confidence in product(
        [(5, 20, 50), (50, 1000, 20), (900, 2000, 400)], [0.01, 0.3], [0.8, 0.95]
    ):
        means = (0.0, 1.0, 0.5)
        low, high = weighted_means_intervals(release(sizes, means, rho), weights, confidence, method)
        assert holds(coverage(low, high, float(weights @ means)), confidence, runs=20_000), (sizes, rho)


@pytest.mark.parametrize("method", ["mover", "fieller", "image"])
def test_the_mean_of_one_group_is_covered_however_small_it_is(method):
    for size, mean, rho in product([0, 5, 50, 1000], [0.0, 0.4, 1.0], [0.01, 0.3]):
        low, high = weighted_means_intervals(release([size], [mean], rho), np.ones(1), 0.9, method)
        assert holds(coverage(low, high, mean), 0.9, runs=20_000), (size, mean, rho)


@pytest.mark.slow
def test_bootstrap_is_near_nominal_for_large_groups():
    for means in [(0.0, 1.0), (0.5, 0.25)]:
        parts = release((1000, 3000), means, 0.1, runs=1000)
        low, high = weighted_means_intervals(parts, np.array(DIFFERENCE), 0.95, "bootstrap")
        assert holds(coverage(low, high, means[0] - means[1]), 0.95, runs=1000)


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize(("sizes", "rho"), [((1000, 1000), 0.1), ((50, 50), 1.0)])
def test_the_coverage_check_would_notice_an_interval_a_fifth_too_narrow(sizes, rho, confidence):
    low, high = weighted_means_intervals(release(sizes, (0.5, 0.25), rho), np.array(DIFFERENCE), confidence)
    middle, half = (low + high) / 2, (high - low) / 2
    assert holds(coverage(middle - half, middle + half, 0.25), confidence, runs=20_000)
    assert not holds(coverage(middle - 0.8 * half, middle + 0.8 * half, 0.25), confidence, runs=20_000)


def test_mover_needs_its_fallback_when_counts_are_near_zero():
    """Without it the squares of two cut intervals are added: an empty group's extremes are then missed."""
    parts = release((0, 0), (1.0, 0.0), 0.1)
    means = parts.estimates
    naive = np.sqrt(np.sum(np.maximum(means, 1 - means) ** 2, axis=-1))
    assert coverage(means @ DIFFERENCE - naive, means @ DIFFERENCE + naive, 1.0) < 0.9
    assert coverage(*weighted_means_intervals(parts, np.array(DIFFERENCE), 0.95), 1.0) > 0.95


@pytest.mark.parametrize(
    ("sizes", "means", "rho"), [((1000, 1000), (0.95, 0.05), 0.04), ((40, 40), (0.5, 0.5), 0.04)]
)
def test_fieller_takes_about_six_tenths_and_mover_four_tenths_of_the_papers_width(sizes, means, rho):
    image, fieller, mover = (mean_width(sizes, means, rho, m) for m in ("image", "fieller", "mover"))
    assert fieller / image == pytest.approx(0.64, abs=0.03)
    assert mover / image == pytest.approx(0.40, abs=0.03)


@pytest.mark.parametrize("sizes", [(20, 20), (20, 2000), (1000, 1000)])
def test_mover_makes_use_of_bounds_that_the_means_touch(sizes):
    assert mean_width(sizes, (0.0, 0.0), 0.1, "mover") < 1.1 * mean_width(sizes, (0.0, 0.0), 0.1, "fieller")


def test_large_groups_get_the_widths_the_formulas_predict():
    """Means in the middle, where noise in the count does not matter: z per sum, added or in quadrature."""
    unit = 0.5 / math.sqrt(0.04) / 100_000
    width = {m: mean_width((100_000, 100_000), (0.5, 0.5), 0.04, m) / (2 * unit) for m in METHODS}
    assert width["image"] == pytest.approx(2 * 2.497705, rel=1e-3)  # Φ⁻¹(1 − 0.05/8)
    assert width["fieller"] == pytest.approx(2 * 2.236477, rel=1e-3)  # Φ⁻¹((1 + √0.95)/2)
    assert width["mover"] == pytest.approx(math.sqrt(2) * 1.959964, rel=1e-3)
    assert width["bootstrap"] == pytest.approx(math.sqrt(2) * 1.959964, rel=0.05)


def test_intervals_of_large_groups_agree_with_the_delta_method():
    low, high = mean_interval(NoisyMean(-400_000.0, 1_000_000.0, 1.5, 3.0, 0.0, 1.0), 0.95)
    half = 1.959964 * math.hypot(1.5, 0.4 * 3.0) / 1_000_000
    assert low == pytest.approx(0.1 - half, abs=1e-9)
    assert high == pytest.approx(0.1 + half, abs=1e-9)


@pytest.mark.parametrize("noisy_sum", [-3.0, 0.0, 25.0])
def test_fieller_ends_solve_its_equation(noisy_sum):
    z, count, sum_scale, count_scale = 1.6448536, 60.0, 4.0, 8.0
    ends = mean_interval(NoisyMean(noisy_sum, count, sum_scale, count_scale, -0.5, 0.5), 0.9, "fieller")
    for end in ends:
        if abs(end) < 0.5:
            assert abs(noisy_sum - end * count) == pytest.approx(z * math.hypot(sum_scale, end * count_scale))


@pytest.mark.parametrize("method", METHODS)
def test_a_count_that_is_not_positive_leaves_everything_the_bounds_allow(method):
    lost, sound = NoisyMean(3.0, -1.0, 1.0, 1.0, -2.0, 2.0), NoisyMean(0.0, 500.0, 1.0, 1.0, -2.0, 2.0)
    assert lost.estimate == 0.0
    assert mean_interval(lost, 0.95, method) == (-2.0, 2.0)
    low, high = weighted_means_interval([lost, sound], [1, -1], 0.95, method)
    assert low <= -2.0
    assert high >= 2.0


@pytest.mark.parametrize("method", METHODS)
def test_an_interval_beyond_the_bounds_collapses_onto_the_nearer_one(method):
    assert mean_interval(NoisyMean(900.0, 1000.0, 1.0, 1.0, 0.0, 1.0), 0.95, method) == (1.0, 1.0)
    assert mean_interval(NoisyMean(-900.0, 1000.0, 1.0, 1.0, 0.0, 1.0), 0.95, method) == (0.0, 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_groups_without_weight_are_ignored(method):
    one, other = NoisyMean(40.0, 200.0, 1.0, 2.0, 0.0, 1.0), NoisyMean(-9.0, 80.0, 1.0, 2.0, 0.0, 1.0)
    alone = weighted_means_interval([one], [2.5], 0.9, method)
    assert weighted_means_interval([other, one, other], [0, 2.5, 0], 0.9, method) == alone
    assert weighted_means_interval([one, other], [0, 0], 0.9, method) == (0.0, 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_negating_the_weights_mirrors_the_interval(method):
    pair = [NoisyMean(40.0, 200.0, 1.0, 2.0, 0.0, 1.0), NoisyMean(-9.0, 80.0, 1.0, 2.0, 0.0, 1.0)]
    low, high = weighted_means_interval(pair, [1, -1], 0.9, method)
    # The bootstrap's order statistics are not quite symmetric.
    tolerance = 0.002 if method == "bootstrap" else 1e-12
    assert weighted_means_interval(pair, [-1, 1], 0.9, method) == pytest.approx((-high, -low), abs=tolerance)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_release_always_gets_the_same_interval(method):
    mean = NoisyMean(7.0, 30.0, 2.0, 4.0, 0.0, 1.0)
    assert mean_interval(mean, 0.95, method) == mean_interval(mean, 0.95, method)


finite = st.floats(allow_nan=False, allow_infinity=False)
scales = st.floats(1e-6, 1e6)
bounds = st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e6)).map(lambda b: (b[0], b[0] + b[1]))
noisy_means = st.builds(
    lambda s, c, u, v, b: NoisyMean(s, c, u, v, *b), finite, finite, scales, scales, bounds
)
groups = st.lists(st.tuples(noisy_means, st.floats(-1e3, 1e3)), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(groups, st.floats(0, 1, exclude_min=True, exclude_max=True), st.sampled_from(METHODS))
@example([(NoisyMean(0.0, 0.0, 1.0, 1.0, 0.0, 1.0), 1.0)], 0.95, "bootstrap")
@example([(NoisyMean(0.0, 5.0, 0.0, 1.0, 3.0, 3.0), -1.0)], 0.95, "mover")
@example([(NoisyMean(1e308, 1e-308, 1e-6, 1e-6, 0.0, 1.0), 1.0)] * 2, 0.95, "image")
@example([(NoisyMean(3.0, 9.0, 1.0, 1.0, 0.0, 1.0), 1.0)] * 2, 1e-300, "mover")
def test_any_release_gets_an_ordered_interval_around_its_estimate_inside_the_bounds(
    groups, confidence, method
):
    means, weights = zip(*groups, strict=True)
    low, high = weighted_means_interval(means, weights, confidence, method)
    ends = [sorted((w * m.low, w * m.high)) for m, w in groups]
    estimate = sum(w * m.estimate for m, w in groups)
    rounding = 1e-12 * sum(abs(e) for pair in ends for e in pair)
    assert sum(e[0] for e in ends) - rounding <= low <= estimate + rounding
    assert estimate - rounding <= high <= sum(e[1] for e in ends) + rounding
    assert low <= high


def test_counts_and_sums_get_the_exact_gaussian_interval():
    assert gaussian_interval(10.0, 2.0, 0.95) == pytest.approx((10 - 3.919928, 10 + 3.919928), abs=1e-6)
    low, high = weighted_sum_interval([50.0, 20.0, 7.0], [1, -2, 0.5], 3.0, 0.9)
    half = 1.6448536 * 3.0 * math.sqrt(1 + 4 + 0.25)
    assert (low, high) == pytest.approx((13.5 - half, 13.5 + half), abs=1e-6)


def test_counts_and_sums_are_covered_at_exactly_the_level():
    noise = np.random.default_rng(7).normal(0.0, 4.0, (100_000, 2))
    low, high = weighted_sum_interval([0.0, 0.0], DIFFERENCE, 4.0, 0.9)
    assert np.mean((low <= noise @ DIFFERENCE) & (noise @ DIFFERENCE <= high)) == pytest.approx(
        0.9, abs=0.004
    )


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.1, 1.5, 95, math.nan, math.inf, "0.9", None, True])
def test_a_confidence_outside_zero_and_one_is_refused_everywhere(confidence):
    mean = NoisyMean(1.0, 10.0, 1.0, 1.0, 0.0, 1.0)
    for refused in (
        lambda: check_confidence(confidence),
        lambda: gaussian_interval(0.0, 1.0, confidence),
        lambda: weighted_sum_interval([1.0], [1.0], 1.0, confidence),
        lambda: mean_interval(mean, confidence),
        lambda: weighted_means_interval([mean], [0.0], confidence),
    ):
        with pytest.raises(BadRequest, match="between 0 and 1"):
            refused()


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_an_unknown_method_is_refused_and_the_choices_are_named(weight):
    mean = NoisyMean(1.0, 10.0, 1.0, 1.0, 0.0, 1.0)
    with pytest.raises(BadRequest, match=", ".join(METHODS)):
        weighted_means_interval([mean], [weight], 0.95, "guess")


def test_the_default_method_is_one_of_those_offered():
    assert DEFAULT_METHOD in METHODS
