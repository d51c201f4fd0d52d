"""Intervals for the population that the rows were drawn from: sampling error on top of privacy noise.

Post-processing of released values. The rows, or privacy units of at most `cluster` rows, are taken to be
drawn independently. What is proved and what is approximate: docs/proofs/population.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpxplain.privacy.aggregate_intervals import NoisyMoments, variances
from dpxplain.privacy.intervals import FloatArray, Interval, NoisyMean, _quantile, _weighted, _weighted_reach
from dpxplain.privacy.normal import normal_cdfs

_Ends = tuple[FloatArray, FloatArray]

# Poisson's own probabilities up to this count, unless privacy noise is so wide that their steps and skew
# vanish in it; beyond, the score interval differs by less than 1% of its width.
_EXACT_BELOW, _EXACT_NOISE = 30.0, 4.0
_TERMS = 180  # of the Poisson sum: at the largest mean that is tried the rest is below 1e-12
_LARGEST_MEAN = 100.0
_HALVINGS = 40
_OF_SPREAD = 0.1  # of the error probability, for the two bounds that the spread of a column is made of


@dataclass(frozen=True)
class Spread:
    """The most that the population's standard deviation of a column can be, group by group."""

    most: FloatArray
    failure: float  # with which it may be more


def count_ends(
    counts: FloatArray, scale: float, failure: float, *, cluster: int = 1, total: float | None = None
) -> _Ends:
    """Of each group, the count that samples like this one have on average.

    Multinomial: the variance of a count with mean λ is λ(1 − λ/N) among N rows, which `total` says; without
    it λ, its limit for groups that are a small part of all rows. Units of `cluster` rows multiply it.

    >>> low, high = count_ends(np.array([400.0]), 0.0, 0.05)
    >>> round(float(low[0])), round(float(high[0]))
    (363, 441)
    """
    low, high = _score_ends(counts, scale, failure, cluster, total)
    few = counts < (_EXACT_BELOW if cluster == 1 and scale < _EXACT_NOISE else -math.inf)
    if few.any():
        low[few], high[few] = _exact_ends(counts[few], scale, failure)
    return low, high


def _score_ends(counts: FloatArray, scale: float, failure: float, cluster: int, total: float | None) -> _Ends:
    """All λ with (count − λ)² ≤ z²(σ² + cluster·λ(1 − λ/N)), cut at 0."""
    z = _quantile(failure)
    square = 1.0 + (0.0 if total is None else z**2 * cluster / total)
    half = counts + z**2 * cluster / 2.0
    root = np.sqrt(np.maximum(half**2 - square * (counts**2 - (z * scale) ** 2), 0.0))
    return np.maximum((half - root) / square, 0.0), np.maximum((half + root) / square, 0.0)


def _exact_ends(counts: FloatArray, scale: float, failure: float) -> _Ends:
    """All λ for which neither tail of Poisson(λ) plus noise beyond the released count is below failure/2."""
    steps = np.arange(_TERMS)
    at_most = normal_cdfs((counts[:, None] - steps) / max(scale, 1e-9))

    def solved(tail: FloatArray, falls: bool) -> FloatArray:
        low, high = np.zeros(len(counts)), np.full(len(counts), _LARGEST_MEAN)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            above = (_poisson(middle, steps) * tail).sum(axis=1) > failure / 2.0
            further = above if falls else ~above
            low, high = np.where(further, middle, low), np.where(further, high, middle)
        return high if falls else low  # outwards

    return solved(1.0 - at_most, falls=False), solved(at_most, falls=True)


def _poisson(means: FloatArray, steps: NDArray[np.int64]) -> FloatArray:
    logs = np.cumsum(np.log(np.maximum(steps, 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.where(steps == 0, 0.0, steps * np.log(means)[:, None])
    return np.asarray(np.exp(powers - means[:, None] - logs))


def sum_ends(totals: FloatArray, scale: float, largest: float, failure: float, *, cluster: int = 1) -> _Ends:
    """Of each group, the sum that samples like this one have on average.

    All values have the sign of `largest` and are no larger. Such a sum varies at most as much as `largest`
    times a Poisson count of the same mean.
    """
    low, high = count_ends(totals / largest, scale / abs(largest), failure, cluster=cluster)
    ends = low * largest, high * largest
    return ends if largest > 0 else (ends[1], ends[0])


def spread_ends(moments: NoisyMoments, confidence: float, *, cluster: int = 1) -> Spread:
    """The population's standard deviations, from a released second moment (Maurer and Pontil 2009, thm 10).

    √variance of the rows + range·√(2·ln(1/δ)/(n − 1)), with the upper end of the variance and the lower of n.
    """
    failure = (1.0 - confidence) * _OF_SPREAD
    _, _, highest = variances(moments, "var_samp", 1.0 - failure / 2.0)
    fewest = (moments.count - _quantile(failure / 4.0) * moments.count_scale) / cluster
    slack = np.sqrt(2.0 * math.log(4.0 / failure) / np.maximum(fewest - 1.0, 1e-9))
    return Spread(np.sqrt(highest) + 2.0 * moments.half_range * slack, failure)


def mean_ends(
    means: Sequence[NoisyMean], failure: float, *, cluster: int = 1, spread: FloatArray | None = None
) -> _Ends:
    """Of each group, all population means m that the released sum and count do not contradict.

    (S − m·n)² ≤ z²(σ_S² + m²σ_n² + n·V(m)), with m, S and bounds ±h around the middle of the column's bounds,
    and V(m) = h² − m², the most that the variance of values with this mean can be: exactly what it is for a
    column of two values, such as 0 and 1. With `spread`, V is at most its square.
    """
    z = _quantile(failure)
    total, count, sum_scale, count_scale = (
        np.array([getattr(mean, name) for mean in means], dtype=np.float64)
        for name in ("noisy_sum", "noisy_count", "sum_scale", "count_scale")
    )
    half = np.array([(mean.high - mean.low) / 2.0 for mean in means])
    middle = np.array([(mean.high + mean.low) / 2.0 for mean in means])
    drawn = np.maximum(count, 0.0) * cluster  # what the sampling variance is multiplied by
    square = count**2 - (z * count_scale) ** 2
    low, high = _between_roots(
        square + z**2 * drawn, total * count, total**2 - z**2 * (sum_scale**2 + drawn * half**2)
    )
    if spread is not None:
        least, most = _between_roots(
            square, total * count, total**2 - z**2 * (sum_scale**2 + drawn * spread**2)
        )
        low, high = np.maximum(low, least), np.minimum(high, most)
    # A count that noise alone could have made says nothing, and neither does an empty set.
    open_ended = (count <= 0.0) | (square <= 0.0) | (low > high)
    low, high = np.where(open_ended, -half, low), np.where(open_ended, half, high)
    return middle + np.clip(low, -half, half), middle + np.clip(high, -half, half)


def _between_roots(square: FloatArray, half: FloatArray, constant: FloatArray) -> _Ends:
    """All m with square·m² − 2·half·m + constant ≤ 0; the whole line where that has no two ends."""
    discriminant = half**2 - square * constant
    bounded = (square > 0.0) & (discriminant >= 0.0)
    root = np.sqrt(np.where(bounded, discriminant, 0.0))
    divisor = np.where(bounded, square, 1.0)
    return (
        np.where(bounded, (half - root) / divisor, -np.inf),
        np.where(bounded, (half + root) / divisor, np.inf),
    )


def combined(estimates: Sequence[float], ends: _Ends, weights: Sequence[float]) -> Interval:
    """Of Σ w·value, from the ends of each: distances added as squares (MOVER), inside what the ends allow."""
    signed, centre = np.asarray(weights), np.asarray(estimates)
    low, high = np.minimum(ends[0], centre), np.maximum(ends[1], centre)
    below, above = _weighted_reach(centre, low, high, signed)
    least, most = _weighted(low, high, signed)
    middle = float(np.sum(signed * centre))
    return max(middle - float(below), float(least)), min(middle + float(above), float(most))
