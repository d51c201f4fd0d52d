"""Noise scales from sensitivities and budgets (zCDP).

These formulas plan and predict. What a release costs is decided by OpenDP's own privacy map, which the
mechanisms assert against the plan when they run.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpxplain.privacy.normal import normal_cdfs, normal_quantile

LARGEST_SCALE = 2.0**50
"""The largest noise scale, in lattice units. Far inside 64 bits, at whose ends OpenDP saturates: noise that
reached them would reveal the value it is added to, or fail on it."""


def gaussian_scale(sensitivity: float, rho: float) -> float:
    """σ of the Gaussian mechanism: ρ = Δ²/(2σ²) (paper, Gaussian mechanism).

    >>> gaussian_scale(1.0, 0.5)
    1.0
    """
    return sensitivity / math.sqrt(2.0 * rho)


def top_k_scale(sensitivity: float, k: int, rho: float) -> float:
    """Gumbel scale of the one-shot top-k: 2Δ·√(k/(8ρ)) (SPEC section 6, paper algorithm Noisy Top-k).

    >>> top_k_scale(1.0, 8, 1.0)
    2.0
    """
    return 2.0 * sensitivity * math.sqrt(k / (8.0 * rho))


def rank_probes(family_size: int) -> int:
    """N = ⌈log2 |P|⌉: the most probes one binary search over the ranks may make.

    >>> rank_probes(103), rank_probes(1)
    (7, 0)
    """
    return (family_size - 1).bit_length()


def rank_slack(scale: float, probes: int, confidence: float) -> float:
    """The margin above zero at which all probes of one search are right with probability `confidence`.

    The exact Gaussian quantile Φ⁻¹(1 − (1−β)/N) instead of the paper's Chernoff bound (SPEC 2, item 4).
    """
    return scale * -normal_quantile((1.0 - confidence) / probes)


def two_sided_quantile(confidence: float) -> float:
    """z such that a Gaussian lies within ±zσ with probability `confidence`.

    >>> round(two_sided_quantile(0.95), 3)
    1.96
    """
    return -normal_quantile((1.0 - confidence) / 2.0)


@lru_cache(maxsize=256)
def range_quantile(confidence: float, number: int) -> float:
    """q such that `number` independent standard Gaussians all lie within q of each other.

    P(range ≤ q) = n·∫ φ(x)·(Φ(x + q) − Φ(x))^(n−1) dx, solved for q.

    >>> round(range_quantile(0.95, 2), 3), round(range_quantile(0.95, 103), 2)
    (2.772, 6.1)
    """
    if number < 2:
        return 0.0
    x = np.linspace(-10.0, 10.0, 801)  # the trapezoid rule is exact to the last digits from 200 points on
    below = normal_cdfs(x)

    def probability(q: float) -> float:
        # In logarithms: with many Gaussians the power underflows long before the sum does.
        inside = np.log(np.maximum(normal_cdfs(x + q) - below, 1e-300))
        density = np.exp(-(x**2) / 2 + (number - 1) * inside) / math.sqrt(2 * math.pi)
        return float(number * np.trapezoid(density, x))

    low, high = 0.0, 40.0
    while high - low > 1e-10:
        middle = (low + high) / 2.0
        low, high = (middle, high) if probability(middle) < confidence else (low, middle)
    return high
