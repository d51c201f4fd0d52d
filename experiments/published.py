"""The paper's mechanisms as published, for comparison only: their constants are loose, their loop overspends.

docs/proofs says what is wrong with them and what the product does instead. Noise comes from a seeded NumPy
generator: nothing here is private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpxplain.privacy.calibration import gaussian_scale, top_k_scale, two_sided_quantile

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LOWER_SHARE = 0.1  # η
MOST_PROBES = 20  # times N; the published loop need not end


@dataclass(frozen=True)
class Drawn:
    """A drawn table: the chosen predicates with the ends of their intervals."""

    chosen: IntArray
    low: FloatArray
    high: FloatArray
    first: IntArray
    last: IntArray
    overspent: float = 0.0  # share of rank searches that probed more often than they paid for


def top_k(
    influence: FloatArray, sensitivity: float, k: int, rho: float, seeded: np.random.Generator
) -> IntArray:
    """One-shot top-k: Gumbel noise of scale 2Δ√(k/(8ρ)) on every influence."""
    noisy = influence + seeded.gumbel(0.0, top_k_scale(sensitivity, k, rho), len(influence))
    return np.argsort(-noisy)[:k]


def draw(
    influence: FloatArray,
    sensitivity: float,
    k: int,
    rhos: tuple[float, float, float],
    confidence: float,
    seeded: np.random.Generator,
) -> Drawn:
    """Phase 3 of the paper: select, measure, bound the ranks."""
    rho_top_k, rho_influence, rho_rank = rhos
    chosen = top_k(influence, sensitivity, k, rho_top_k, seeded)
    scale = gaussian_scale(sensitivity, rho_influence / k)
    centre = influence[chosen] + seeded.normal(0.0, scale, k)
    margin = two_sided_quantile(confidence) * scale
    descending = -np.sort(-influence)
    beta = (1 + confidence) / 2
    ends, probes = [], []
    for share, direction in ((LOWER_SHARE, -1), (1 - LOWER_SHARE, 1)):
        searches = [
            rank_bound(influence[p], descending, sensitivity, rho_rank / k * share, beta, direction, seeded)
            for p in chosen
        ]
        ends.append(np.array([bound for bound, _ in searches]))
        probes.extend(used for _, used in searches)
    paid = math.ceil(math.log2(len(influence)))
    return Drawn(chosen, centre - margin, centre + margin, *ends, float(np.mean(np.array(probes) > paid)))


def rank_bound(
    influence: float,
    descending: FloatArray,
    sensitivity: float,
    rho: float,
    beta: float,
    direction: int,
    seeded: np.random.Generator,
) -> tuple[int, int]:
    """RankBound of the appendix: the bound, and how many noisy probes it used. The budget pays for N."""
    size = len(descending)
    paid = math.ceil(math.log2(size))
    scale = gaussian_scale(2 * sensitivity, rho / paid)
    slack = scale * math.sqrt(2 * math.log(paid / (1 - beta))) * direction  # the Chernoff bound
    low, high, probes = 1, size, 0
    while high >= low and probes < MOST_PROBES * paid:
        middle = (low + high) // 2
        probes += 1
        if influence - descending[middle - 1] + seeded.normal(0.0, scale) >= slack:
            high = max(middle - 1, 1)
        else:
            low = min(middle + 1, size)
    return high, probes


def question_intervals(
    counts: FloatArray,
    sums: FloatArray,
    largest: float,
    rho: float,
    confidence: float,
    runs: int,
    seeded: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """`runs` intervals of the paper's Phase 2 for averages of two groups: the image of four intervals.

    Sums are not centred. Where a count's interval contains 0, the result is the whole line.
    """
    scale = 1 / math.sqrt(rho)
    reach = two_sided_quantile(1 - (1 - confidence) / 4) * scale
    noisy_sum = sums + seeded.normal(0.0, largest * scale, (runs, 2))
    noisy_count = counts + seeded.normal(0.0, scale, (runs, 2))
    least, most = noisy_count - reach, noisy_count + reach
    lowest, highest = noisy_sum - largest * reach, noisy_sum + largest * reach
    with np.errstate(all="ignore"):
        low = np.minimum(lowest / least, lowest / most)
        high = np.maximum(highest / least, highest / most)
    unbounded = np.any(least <= 0, axis=1)
    return (
        np.where(unbounded, -np.inf, low[:, 0] - high[:, 1]),
        np.where(unbounded, np.inf, high[:, 0] - low[:, 1]),
    )
