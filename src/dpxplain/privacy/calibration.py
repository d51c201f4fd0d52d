"""Noise scales and expected errors, from public sensitivities and budgets (zCDP).

These formulas plan and predict. OpenDP's privacy map decides what a release costs. The mechanisms check it
against the plan when they run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

# -- The normal distribution -------------------------------------------------------------------------------
#
# From Python's standard library: SciPy gives the same numbers, but importing it takes longer than most
# commands run.

_STANDARD = NormalDist()


def normal_cdf(x: float) -> float:
    """Φ(x); erfc keeps the digits of a small tail, where 1 + erf would lose them.

    >>> normal_cdf(0.0), f"{normal_cdf(-30.0):.3g}"
    (0.5, '4.91e-198')
    """
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(p: float) -> float:
    """Φ⁻¹(p) by Wichura's algorithm AS 241, whose relative error is about 1e-16; infinite at 0 and 1.

    >>> round(normal_quantile(0.975), 3), round(normal_quantile(1e-300), 2), normal_quantile(0.0)
    (1.96, -37.05, -inf)
    """
    if p in (0.0, 1.0):
        return math.inf if p else -math.inf
    return _STANDARD.inv_cdf(p)


# The same functions for every element of an array.
normal_cdfs: Callable[[ArrayLike], NDArray[np.float64]] = np.vectorize(normal_cdf, otypes=[np.float64])
normal_quantiles: Callable[[ArrayLike], NDArray[np.float64]] = np.vectorize(
    normal_quantile, otypes=[np.float64]
)


# -- Noise scales and errors -------------------------------------------------------------------------------

LARGEST_SCALE = 2.0**50
"""The largest noise scale, in lattice units. It is far inside the 64-bit range. OpenDP saturates at the ends
of that range: noise that reached them would reveal the value it is added to, or fail on it."""


def rounded_up(sensitivity: float) -> float:
    """A sensitivity raised by more than the few roundings of floats that it was computed with."""
    return sensitivity * (1.0 + 2.0**-50)


def gaussian_scale(sensitivity: float, rho: float) -> float:
    """σ of the Gaussian mechanism: ρ = Δ²/(2σ²) (paper, Gaussian mechanism).

    >>> gaussian_scale(1.0, 0.5)
    1.0
    """
    return sensitivity / math.sqrt(2.0 * rho)


def top_k_scale(sensitivity: float, k: int, rho: float) -> float:
    """Gumbel scale of the one-shot top-k: 2Δ·√(k/(8ρ)) (paper, algorithm Noisy Top-k).

    >>> top_k_scale(1.0, 8, 1.0)
    2.0
    """
    return 2.0 * sensitivity * math.sqrt(k / (8.0 * rho))


def rank_probes(family_size: int) -> int:
    """N = ⌊log2 |P|⌋: the probes of one binary search over the ranks (docs/proofs/rank-bounds.md).

    >>> rank_probes(103), rank_probes(1)
    (6, 0)
    """
    return family_size.bit_length() - 1


def rank_slack(scale: float, probes: int, confidence: float) -> float:
    """The margin above zero at which all probes of one search are right with probability `confidence`.

    The exact Gaussian quantile Φ⁻¹(1 − (1−β)/N) instead of the paper's Chernoff bound
    (docs/specification.md, slack of a rank probe).
    """
    return scale * -normal_quantile((1.0 - confidence) / probes)


def two_sided_quantile(confidence: float) -> float:
    """z such that a Gaussian lies within ±zσ with probability `confidence`.

    >>> round(two_sided_quantile(0.95), 3)
    1.96
    """
    return failure_quantile(1.0 - confidence)


def failure_quantile(failure: float) -> float:
    """z such that a Gaussian lies beyond ±zσ with probability `failure`, which may be tiny."""
    return -normal_quantile(failure / 2.0)


def gumbel_shortfall(confidence: float, number: int, k: int) -> float:
    """The most, in noise scales, that a chosen score is below the true k-th highest of `number` scores.

    Holds for all k scores chosen by Gumbel noise at once. Let A be the k highest of n scores. One of the
    n − k others, x or more below, is chosen only if its noise exceeds that of a score in A by x. With
    probability ∏ j/(j + (n − k)·e^−x), j = 1, …, k, none does (docs/proofs/utility.md, theorem 1).

    >>> round(gumbel_shortfall(0.95, 103, 5), 2), round(gumbel_shortfall(0.95, 103, 1), 2)
    (8.37, 7.57)
    >>> gumbel_shortfall(0.95, 5, 5)
    0.0
    """
    if number <= k:
        return 0.0
    low, high = -60.0, 60.0  # bounds on the logarithm of (n − k)·e^−x
    while high - low > 1e-12 * max(1.0, abs(low)):
        middle = (low + high) / 2.0
        failure = -math.expm1(-math.fsum(np.log1p(math.exp(middle) / np.arange(1, k + 1))))
        low, high = (low, middle) if failure > 1.0 - confidence else (middle, high)
    return max(0.0, math.log(number - k) - low)


@lru_cache(maxsize=256)
def gaussian_shortfall(confidence: float, number: int, k: int) -> float:
    """Like `gumbel_shortfall` for Gaussian noise: a quantile of max of k + max of n − k standard Gaussians.

    >>> round(gaussian_shortfall(0.95, 103, 5), 2), round(gaussian_shortfall(0.95, 2, 1), 3)
    (5.03, 2.326)
    """
    if number <= k:
        return 0.0
    x = np.linspace(-12.0, 12.0, 1921)
    below = normal_cdfs(x)
    with np.errstate(divide="ignore"):  # log 0 where x is certainly not the highest
        highest = k * np.exp((k - 1) * np.log(below) - x**2 / 2) / math.sqrt(2 * math.pi)

    def failure(reach: float) -> float:
        with np.errstate(divide="ignore"):
            beyond = -np.expm1((number - k) * np.log1p(-normal_cdfs(x - reach)))
        return float(np.trapezoid(highest * beyond, x))

    return _least_reach(failure, 1.0 - confidence)


@lru_cache(maxsize=256)
def range_quantile(confidence: float, number: int) -> float:
    """q such that `number` independent standard Gaussians all lie within q of each other at `confidence`.

    With x the least of them, P(range > q) = n·∫ φ(x)·(A^(n−1) − (A − T)^(n−1)) dx, where A = Φ(−x) and
    T = Φ(−x − q), solved for q. The difference is written as a product: near a confidence of 1, subtracting
    a probability from 1 would lose its digits.

    >>> round(range_quantile(0.95, 2), 3), round(range_quantile(0.95, 103), 2)
    (2.772, 6.1)
    """
    if number < 2:
        return 0.0
    x = np.linspace(-12.0, 12.0, 961)  # the trapezoid rule is exact to the last digits from 200 points on
    above = normal_cdfs(-x)
    least = number * np.exp((number - 1) * np.log(above) - x**2 / 2) / math.sqrt(2 * math.pi)

    def failure(q: float) -> float:
        beyond = normal_cdfs(-x - q) / above
        with np.errstate(divide="ignore"):  # where all is beyond, it fails for certain: −expm1(−∞) = 1
            fails = -np.expm1((number - 1) * np.log1p(-beyond))
        return float(np.trapezoid(least * fails, x))

    return _least_reach(failure, 1.0 - confidence)


def _least_reach(failure: Callable[[float], float], allowed: float) -> float:
    """The least reach, in standard deviations, at which `failure` is at most `allowed`; by bisection."""
    low, high = 0.0, 40.0
    while high - low > 1e-10:
        middle = (low + high) / 2.0
        low, high = (middle, high) if failure(middle) > allowed else (low, middle)
    return high
