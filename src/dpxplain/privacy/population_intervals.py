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

from dpxplain.model.release import FloatArray
from dpxplain.privacy.calibration import failure_quantile, normal_cdfs
from dpxplain.privacy.intervals import (
    Ends,
    Estimated,
    Interval,
    NoisyMean,
    NoisyMeans,
    NoisyMoments,
    variances,
    weighted_ends,
    weighted_reach,
)

# Below this count Poisson probabilities are used directly, unless privacy noise is so wide that their steps
# and skew vanish in it. Above it the score interval differs by less than 1% of its width.
_EXACT_BELOW, _EXACT_NOISE = 30.0, 4.0
_TERMS = 180  # terms of the Poisson sum: at the largest mean that is tried, the rest is below 1e-12
_LARGEST_MEAN = 100.0
_HALVINGS = 40
_SPREAD_SHARE = 0.1  # of the error probability, for the two bounds that make up a column's spread


@dataclass(frozen=True)
class Spread:
    """The most that the population's standard deviation of a column can be, group by group."""

    most: FloatArray
    failure: float  # the probability that it is more


def count_ends(
    counts: FloatArray, scale: float, failure: float, *, cluster: int = 1, total: float | None = None
) -> Ends:
    """Ends of each group's average count over samples like this one.

    In a multinomial sample of N = `total` rows, a count with mean λ has variance λ(1 − λ/N). Without `total`
    the variance is λ, the limit for groups that are a small part of all rows. Units of `cluster` rows raise
    it to at most cluster·λ: the number of rows drawn is then itself random, so no total is known.

    >>> low, high = count_ends(np.array([400.0]), 0.0, 0.05)
    >>> round(float(low[0])), round(float(high[0]))
    (363, 441)
    """
    assert cluster == 1 or total is None
    low, high = _uncut_ends(counts / cluster, scale / cluster, failure, total)
    return np.maximum(low, 0.0) * cluster, np.maximum(high, 0.0) * cluster


def _uncut_ends(counts: FloatArray, scale: float, failure: float, total: float | None) -> Ends:
    """Ends of each Poisson mean; they go below 0 where the mean could be 0 and only the noise varies.

    Both kinds of ends pass 0 exactly where a count of ±zσ was released, so they continue without a step.
    """
    low, high = _score_ends(counts, scale, failure, total)
    is_few = counts < (_EXACT_BELOW if scale < _EXACT_NOISE else -math.inf)
    if is_few.any():
        low[is_few], high[is_few] = _exact_ends(counts[is_few], scale, failure)
    reach = failure_quantile(failure) * scale
    return np.where(counts < reach, counts - reach, low), np.where(counts < -reach, counts + reach, high)


def _score_ends(counts: FloatArray, scale: float | FloatArray, failure: float, total: float | None) -> Ends:
    """All λ with (count − λ)² ≤ z²(σ² + λ(1 − λ/N))."""
    z = failure_quantile(failure)
    square = 1.0 + (0.0 if total is None else z**2 / total)
    half = counts + z**2 / 2.0
    root = np.sqrt(np.maximum(half**2 - square * (counts**2 - (z * scale) ** 2), 0.0))
    return (half - root) / square, (half + root) / square


def _exact_ends(counts: FloatArray, scale: float, failure: float) -> Ends:
    """All λ for which neither tail of Poisson(λ) plus noise beyond the released count is below failure/2."""
    steps = np.arange(_TERMS)
    at_most = normal_cdfs((counts[:, None] - steps) / max(scale, 1e-9))

    def mean_at(tail: FloatArray, falls: bool) -> FloatArray:
        """The mean, rounded outwards, at which the chance of this tail is failure/2; by bisection."""
        low, high = np.zeros(len(counts)), np.full(len(counts), _LARGEST_MEAN)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            above = (_poisson(middle, steps) * tail).sum(axis=1) > failure / 2.0
            further = above if falls else ~above
            low, high = np.where(further, middle, low), np.where(further, high, middle)
        return high if falls else low

    return mean_at(1.0 - at_most, falls=False), mean_at(at_most, falls=True)


def _poisson(means: FloatArray, steps: NDArray[np.int64]) -> FloatArray:
    """The probability of every number of steps, for each mean."""
    logs = np.cumsum(np.log(np.maximum(steps, 1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.where(steps == 0, 0.0, steps * np.log(means)[:, None])
    return np.asarray(np.exp(powers - means[:, None] - logs))


def sum_ends(totals: FloatArray, scale: float, largest: float, failure: float, *, cluster: int = 1) -> Ends:
    """Ends of each group's average sum over samples like this one.

    All values have the sign of `largest` and are at most as large in size. Such a sum varies at most as much
    as `largest` times a Poisson count of the same mean.
    """
    low, high = count_ends(totals / largest, scale / abs(largest), failure, cluster=cluster)
    ends = low * largest, high * largest
    return ends if largest > 0 else (ends[1], ends[0])


def spread_ends(moments: NoisyMoments, confidence: float, *, cluster: int = 1) -> Spread:
    """Upper bounds of the population's standard deviations (Maurer and Pontil 2009, theorem 10).

    √variance of the rows + range·√(2·ln(1/δ)/(n − 1)), with the upper end of the released variance and the
    lower end of n.
    """
    failure = (1.0 - confidence) * _SPREAD_SHARE
    _, _, highest = variances(moments, "var_samp", 1.0 - failure / 2.0)
    fewest = (moments.count - failure_quantile(failure / 4.0) * moments.count_scale) / cluster
    slack = np.sqrt(2.0 * math.log(4.0 / failure) / np.maximum(fewest - 1.0, 1e-9))
    return Spread(np.sqrt(highest) + 2.0 * moments.half_range * slack, failure)


def mean_ends(
    means: Sequence[NoisyMean], failure: float, *, cluster: int = 1, spread: FloatArray | None = None
) -> Ends:
    """Ends, for each group, of the population means m that agree with the released sum and count.

    These m have (S − m·n)² ≤ z²(σ_S² + m²σ_n² + n·V(m)), where m, S and the bounds ±h are measured from the
    middle of the column's bounds. V(m) = h² − m² is the largest possible variance of values with mean m, and
    the exact one for a column of two values, such as 0 and 1. With `spread`, V is at most its square.
    """
    parts = NoisyMeans.of(means)
    low, high, _ = _uncut_means(parts, failure, cluster, spread)
    return np.clip(parts.mid + low, parts.low, parts.high), np.clip(parts.mid + high, parts.low, parts.high)


def _uncut_means(
    parts: NoisyMeans, failure: float, cluster: int, spread: FloatArray | None
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Ends measured from the middle, possibly beyond the bounds, and which groups may have any mean."""
    z, half = failure_quantile(failure), (parts.high - parts.low) / 2.0
    total, count = parts.noisy_sum, parts.noisy_count
    sampling_weight = np.maximum(count, 0.0) * cluster  # what the sampling variance is multiplied by
    square = count**2 - (z * parts.count_scale) ** 2
    constant = total**2 - (z * parts.sum_scale) ** 2
    low, high = _between_roots(
        square + z**2 * sampling_weight, total * count, constant - z**2 * sampling_weight * half**2
    )
    # V is 0 at the bounds, and is taken as 0 beyond them.
    least, most = _between_roots(square, total * count, constant)
    low, high = np.where(np.abs(low) > half, least, low), np.where(np.abs(high) > half, most, high)
    if spread is not None:
        least, most = _between_roots(square, total * count, constant - z**2 * sampling_weight * spread**2)
        low, high = np.maximum(low, least), np.minimum(high, most)
    # A count that noise alone could have produced says nothing about the mean, nor does an empty set.
    is_open = (count <= 0.0) | (square <= 0.0) | (low > high)
    return np.where(is_open, -half, low), np.where(is_open, half, high), is_open


def _between_roots(square: FloatArray, half: FloatArray, constant: FloatArray) -> Ends:
    """All m with square·m² − 2·half·m + constant ≤ 0; the whole line where that has no two ends."""
    discriminant = half**2 - square * constant
    bounded = (square > 0.0) & (discriminant >= 0.0)
    root = np.sqrt(np.where(bounded, discriminant, 0.0))
    divisor = np.where(bounded, square, 1.0)
    return (
        np.where(bounded, (half - root) / divisor, -np.inf),
        np.where(bounded, (half + root) / divisor, np.inf),
    )


class WeightedCounts:
    """Intervals of Σ w·value for counts, or for sums of values between 0 and `largest`.

    Groups of equal weight are merged into one Poisson count. MOVER adds counts of different weights.
    """

    def __init__(
        self,
        values: Sequence[float],
        scale: float,
        failure: float,
        *,
        largest: float = 1.0,
        total: float | None = None,
    ) -> None:
        self._counts = np.asarray(values, dtype=np.float64) / largest
        self._scale = scale / abs(largest)
        self._largest, self._failure, self._total = largest, failure, total
        self._merged_counts: dict[tuple[int, ...], Estimated] = {}

    def __call__(self, weights: Sequence[float]) -> Interval:
        signed, weight_of = np.unique(np.asarray(weights) * self._largest, return_inverse=True)
        centre, low, high = self._merged(tuple(weight_of.tolist()))
        limits = (-math.inf if (signed < 0.0).any() else 0.0), (math.inf if (signed > 0.0).any() else 0.0)
        return _mover(centre, low, high, signed, limits)

    def _merged(self, weight_of: tuple[int, ...]) -> Estimated:
        """The merged count of the groups of each weight, and its ends; `weight_of` numbers their weights."""
        if weight_of not in self._merged_counts:
            centre = np.bincount(weight_of, self._counts).astype(np.float64)
            ends = [
                _uncut_ends(centre[[i]], self._scale * math.sqrt(groups), self._failure, self._total)
                for i, groups in enumerate(np.bincount(weight_of))
            ]
            low, high = (np.concatenate(sides) for sides in zip(*ends, strict=True))
            if len(centre) > 1:  # exact ends fall steeply where noise is below 0; MOVER's distances must not
                scales = self._scale * np.sqrt(np.bincount(weight_of))
                high = np.maximum(high, _score_ends(centre, scales, self._failure, self._total)[1])
            self._merged_counts[weight_of] = centre, low, high
        return self._merged_counts[weight_of]


class WeightedMeans:
    """Intervals of Σ w·mean."""

    def __init__(
        self,
        means: Sequence[NoisyMean],
        failure: float,
        *,
        cluster: int = 1,
        spread: FloatArray | None = None,
    ) -> None:
        self._parts = parts = NoisyMeans.of(means)
        low, high, self._is_open = _uncut_means(parts, failure, cluster, spread)
        self._low, self._high = parts.mid + low, parts.mid + high
        raw = parts.mid + parts.noisy_sum / np.where(parts.noisy_count > 0.0, parts.noisy_count, np.inf)
        self._centre = np.where(self._is_open, parts.estimates, raw)

    def __call__(self, weights: Sequence[float]) -> Interval:
        signed = np.asarray(weights, dtype=np.float64)
        least, most = weighted_ends(self._parts.low, self._parts.high, signed)
        limits = float(least), float(most)
        return _mover(self._centre, self._low, self._high, signed, limits, self._is_open)


def _mover(
    centre: FloatArray,
    low: FloatArray,
    high: FloatArray,
    weights: FloatArray,
    limits: Interval,
    is_open: NDArray[np.bool_] | None = None,
) -> Interval:
    """The interval of Σ w·value: distances from centre to uncut ends, added as squares, then cut to `limits`.

    Several weights of one sign would add up the shorter sides of skewed intervals, although the skew vanishes
    in the sum. So they use their longer side. Unknown values (`is_open`) add their whole intervals.
    """
    below, above = np.maximum(centre - low, 0.0), np.maximum(high - centre, 0.0)
    for side in (weights > 0.0, weights < 0.0):
        if np.count_nonzero(side) > 1:
            longer = np.maximum(below, above)
            below, above = np.where(side, longer, below), np.where(side, longer, above)
    unknown = np.zeros(len(weights), dtype=bool) if is_open is None else is_open
    known = np.where(unknown, 0.0, weights)
    down, up = weighted_reach(centre, centre - below, centre + above, known)
    least, most = weighted_ends(low, high, np.where(unknown, weights, 0.0))
    middle = float(np.sum(known * centre))
    ends = np.clip([middle - down + least, middle + up + most], *limits)
    return float(ends[0]), float(ends[1])
