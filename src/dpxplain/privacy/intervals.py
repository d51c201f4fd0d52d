"""Confidence intervals of released answers: averages, weighted sums, shares, variances and quantiles.

Post-processing: reads no data and spends no budget. Definitions: docs/specification.md, intervals and
verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpxplain.errors import BadRequest
from dpxplain.model.query import VarianceKind
from dpxplain.model.release import FloatArray
from dpxplain.privacy.calibration import (
    failure_quantile,
    gaussian_scale,
    normal_cdfs,
    normal_quantiles,
    two_sided_quantile,
)

Interval = tuple[float, float]
Ends = tuple[FloatArray, FloatArray]
"""The low and the high ends of many intervals."""
Estimated = tuple[FloatArray, FloatArray, FloatArray]
"""Estimates with the low and the high ends of their intervals."""
Loadings = tuple[tuple[Hashable, float], ...]
"""Independent standard Gaussians, each with the factor by which a released value carries it."""

# -- Averages and weighted sums ----------------------------------------------------------------------------
#
# The intervals cover privacy noise only, not sampling. Measured coverage of every method:
# docs/interval-coverage.md.

METHODS = ("mover", "fieller", "image", "bootstrap")
DEFAULT_METHOD = "mover"

_TINY = float(np.finfo(np.float64).tiny)
RESAMPLES = 2000

# MOVER is trusted while every noisy count exceeds this many half-widths of its own interval, that is while
# Fieller's g = (z·σ/count)² stays below 1/4. Nearer to zero a Fieller interval is lopsided or unbounded, and
# adding squared distances understates the whole (docs/interval-coverage.md, "plain mover"). The provable
# interval, which makes full use of the bounds of x, is about as narrow there.
_MOVER_CLEARANCE = 2.0
# MOVER cannot use the bounds of x: with means at a bound the provable interval can be much narrower, and is
# then used. The margin keeps this choice from reducing coverage: without it 0.95 became 0.946.
_MOVER_MARGIN = 0.8


@dataclass(frozen=True)
class NoisyMean:
    """Released parts of one group's AVG: mean = mid + noisy_sum / noisy_count (docs/specification.md).

    >>> NoisyMean(noisy_sum=10, noisy_count=40, sum_scale=1, count_scale=2, low=0, high=1).estimate
    0.75
    """

    noisy_sum: float  # centred, Σ(x − mid), in the unit of x
    noisy_count: float
    sum_scale: float  # σ of noisy_sum
    count_scale: float  # σ of noisy_count
    low: float  # declared bounds of x
    high: float
    # The independent noises in each, as (noise, σ) pairs, where other released values share them.
    sum_noise: Loadings = field(default=(), repr=False)
    count_noise: Loadings = field(default=(), repr=False)

    @property
    def estimate(self) -> float:
        """The noisy mean, clamped to the bounds; their middle when the noisy count is not positive."""
        return float(NoisyMeans.of([self]).estimates[0])


@dataclass(frozen=True)
class NoisyMeans:
    """Released parts of several groups: the last axis is the group, earlier axes are repeated releases."""

    noisy_sum: FloatArray
    noisy_count: FloatArray
    sum_scale: FloatArray
    count_scale: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, means: Sequence[NoisyMean]) -> NoisyMeans:
        """The means as arrays, one entry per group."""
        names = [part.name for part in fields(cls)]
        rows = [[getattr(mean, name) for name in names] for mean in means]
        return cls(*np.array(rows, dtype=np.float64).T)

    def __getitem__(self, index: Any) -> NoisyMeans:
        """The same part of every array: `[..., None]` makes every group a release of its own."""
        return NoisyMeans(*(getattr(self, part.name)[index] for part in fields(self)))

    @property
    def mid(self) -> FloatArray:
        """The middle of the bounds, on which the sums are centred."""
        return (self.low + self.high) / 2.0

    @property
    def estimates(self) -> FloatArray:
        """`NoisyMean.estimate` of every group."""
        with np.errstate(all="ignore"):
            ratio = self.noisy_sum / self.noisy_count
        return np.where(self.noisy_count > 0.0, np.clip(self.mid + ratio, self.low, self.high), self.mid)


LEAST_CONFIDENCE, MOST_CONFIDENCE = 1e-6, 1.0 - 1e-9


def check_confidence(confidence: float) -> float:
    """The confidence level, or BadRequest unless it lies strictly between 0 and 1.

    >>> check_confidence(0.95)
    0.95
    """
    level = float(confidence) if isinstance(confidence, Real) else math.nan
    if not 0.0 < level < 1.0:
        raise BadRequest(
            "The confidence level must be strictly between 0 and 1.", remedy="Use 0.95, for example."
        )
    return level


def check_asked_confidence(confidence: float) -> float:
    """A request's confidence level, or BadRequest if it is so extreme that parts of it round to 0 or 1."""
    level = check_confidence(confidence)
    if not LEAST_CONFIDENCE <= level <= MOST_CONFIDENCE:
        raise BadRequest(
            f"The confidence level must be between {LEAST_CONFIDENCE:g} and 1 - 1e-9.",
            remedy="Use 0.95, for example.",
        )
    return level


def failure_of_each(failure: float, number: int) -> float:
    """The failure probability of each of `number` independent intervals; one or more fail with `failure`.

    >>> [f"{failure_of_each(*case):.6g}" for case in ((0.05, 103), (1e-9, 1_000_000))]
    ['0.000497869', '1e-15']
    """
    return 1.0 if failure >= 1.0 else -math.expm1(math.log1p(-failure) / number)


def gaussian_interval(estimate: float, scale: float, confidence: float) -> Interval:
    """The interval of a value released with Gaussian noise of the given scale.

    >>> low, high = gaussian_interval(100.0, 5.0, 0.95)
    >>> round(low, 2), round(high, 2)
    (90.2, 109.8)
    """
    return gaussian_intervals([estimate], scale, confidence)[0]


def gaussian_intervals(estimates: Sequence[float], scale: float, confidence: float) -> list[Interval]:
    """The interval of each of many values released with the same scale of Gaussian noise."""
    reach = scale * failure_quantile(1.0 - check_confidence(confidence))
    return [(float(estimate - reach), float(estimate + reach)) for estimate in estimates]


def weighted_sum_interval(values: ArrayLike, weights: ArrayLike, scale: float, confidence: float) -> Interval:
    """COUNT and SUM: Σ w·value, every value released with the same scale σ, has scale σ·√(Σw²).

    >>> low, high = weighted_sum_interval([100.0, 80.0], [1, -1], 5.0, 0.95)
    >>> round(low, 2), round(high, 2)
    (6.14, 33.86)
    """
    signed = np.asarray(weights, dtype=np.float64)
    estimate = float(signed @ np.asarray(values, dtype=np.float64))
    return gaussian_interval(estimate, scale * math.hypot(*signed), confidence)


def mean_interval(mean: NoisyMean, confidence: float, method: str = DEFAULT_METHOD) -> Interval:
    """The interval of one group's AVG, inside the bounds of x. For `mover` and `fieller` it is Fieller's.

    >>> low, high = mean_interval(NoisyMean(100.0, 1000.0, 1.6, 3.2, 0.0, 1.0), 0.95)
    >>> round(low, 4), round(high, 4)
    (0.5968, 0.6032)
    """
    return weighted_means_interval([mean], [1.0], confidence, method)


def mean_intervals(means: NoisyMeans, confidence: float) -> list[Interval]:
    """`mean_interval` for the groups of one release at once; a thousand take no longer than ten.

    >>> mean = NoisyMean(100.0, 1000.0, 1.6, 3.2, 0.0, 1.0)
    >>> mean_intervals(NoisyMeans.of([mean, mean]), 0.95) == [mean_interval(mean, 0.95)] * 2
    True
    """
    low, high = weighted_means_intervals(means[..., None], np.ones(1), confidence)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def weighted_means_interval(
    means: Sequence[NoisyMean], weights: ArrayLike, confidence: float, method: str = DEFAULT_METHOD
) -> Interval:
    """The interval of Σ w·mean, inside what the bounds allow and around the released estimate.

    >>> married = NoisyMean(-54.0, 1000.0, 1.6, 3.2, 0.0, 1.0)
    >>> single = NoisyMean(-450.0, 1000.0, 1.6, 3.2, 0.0, 1.0)
    >>> for method in METHODS:
    ...     low, high = weighted_means_interval([married, single], [1, -1], 0.95, method)
    ...     print(f"{method:9} {low:.3f} {high:.3f}")
    mover     0.391 0.401
    fieller   0.388 0.404
    image     0.384 0.408
    bootstrap 0.391 0.401
    """
    signed = np.asarray(weights, dtype=np.float64)
    weighted = [mean for mean, weight in zip(means, signed, strict=True) if weight != 0.0]
    if not weighted:
        check_confidence(confidence)
        _rule(method)
        return 0.0, 0.0
    low, high = weighted_means_intervals(NoisyMeans.of(weighted), signed[signed != 0.0], confidence, method)
    return float(low), float(high)


def weighted_means_intervals(
    means: NoisyMeans, weights: FloatArray, confidence: float, method: str = DEFAULT_METHOD
) -> Ends:
    """`weighted_means_interval` for many releases at once; no weight may be zero."""
    return weighted_means_intervals_failing(means, weights, 1.0 - check_confidence(confidence), method)


def weighted_means_intervals_failing(
    means: NoisyMeans, weights: FloatArray, failure: float, method: str
) -> Ends:
    """`weighted_means_intervals` for a failure probability so small that 1 − failure may round to 1."""
    rule = _rule(method)
    # Extreme but finite releases may overflow in between; the clip to the bounds at the end undoes it.
    with np.errstate(all="ignore"):
        low, high = rule(means, weights, failure)
        estimate = np.sum(weights * means.estimates, axis=-1)
        least, most = weighted_ends(means.low, means.high, weights)
        # Clamping each mean to its bounds can move the estimate past an end of the interval: include it.
        # An interval stays inside what the bounds allow, and one beyond them collapses onto the nearer end
        # (docs/specification.md, intervals of averages).
        low = np.clip(np.minimum(low, estimate), least, most)
        high = np.clip(np.maximum(high, estimate), least, most)
    return low, high


def _rule(method: str) -> Callable[[NoisyMeans, FloatArray, float], Ends]:
    try:
        return _RULES[method]
    except KeyError:
        raise BadRequest(
            "There is no interval method with this name.", remedy=f"Choose one of: {', '.join(METHODS)}."
        ) from None


def weighted_ends(low: FloatArray, high: FloatArray, weights: FloatArray) -> Ends:
    """Interval arithmetic: the ends of Σ w·[low, high]."""
    at_low, at_high = weights * low, weights * high
    return np.minimum(at_low, at_high).sum(axis=-1), np.maximum(at_low, at_high).sum(axis=-1)


def _image(means: NoisyMeans, weights: FloatArray, failure: float) -> Ends:
    """The paper's method: a Gaussian interval for every sum and count (union bound), divided end by end.

    A count whose interval reaches zero says nothing about its mean, which may be anything the bounds allow.
    """
    z = failure_quantile(failure / (2 * len(weights)))
    sum_reach, count_reach = z * means.sum_scale, z * means.count_scale
    least, most = means.noisy_sum - sum_reach, means.noisy_sum + sum_reach
    fewest, fullest = means.noisy_count - count_reach, means.noisy_count + count_reach
    low = means.mid + np.minimum(least / fewest, least / fullest)
    high = means.mid + np.maximum(most / fewest, most / fullest)
    useful = fewest > 0.0
    return weighted_ends(
        np.where(useful, np.clip(low, means.low, means.high), means.low),
        np.where(useful, np.clip(high, means.low, means.high), means.high),
        weights,
    )


def _directions(means: NoisyMeans, z: float) -> tuple[FloatArray, FloatArray]:
    """Fieller's set seen from the origin: the angles within `spread` of `angle`, modulo π.

    In units of its scales the point (noisy count, noisy sum) is the true one plus a standard normal pair,
    and a centred mean is the slope of a line through the origin. Fieller keeps the lines that pass within z
    of the noisy point. The true line does so with exactly the wanted probability, however small the group;
    every line does when the group is empty, so that any convention for its mean is covered as well.
    """
    count = means.noisy_count / np.maximum(means.count_scale, _TINY)
    total = means.noisy_sum / np.maximum(means.sum_scale, _TINY)
    return np.arctan2(total, count), np.arcsin(np.minimum(1.0, z / np.maximum(np.hypot(count, total), _TINY)))


def _slope(means: NoisyMeans, angle: FloatArray) -> FloatArray:
    """The mean that lies in the given direction.

    An angle beyond the vertical counts as vertical; where the result is used, only rounding causes that.
    """
    unit = means.sum_scale / np.maximum(means.count_scale, _TINY)
    return means.mid + unit * np.tan(np.clip(angle, -np.pi / 2, np.pi / 2))


def fieller_means(means: NoisyMeans, failure: float) -> Ends:
    """Per group, the span of the part of Fieller's set that lies inside the bounds.

    If the noisy count is not positive, the mean may be anything inside the bounds.
    """
    angle, spread = _directions(means, failure_quantile(failure))
    edge = np.arctan2((means.high - means.low) / 2.0 * means.count_scale, np.maximum(means.sum_scale, _TINY))
    start, end = angle - spread, angle + spread
    # Modulo π: a set that runs past the vertical comes back in at the other bound.
    open_below = (start <= -edge) | (end >= np.pi - edge) | (means.noisy_count <= 0.0)
    open_above = (end >= edge) | (start <= edge - np.pi) | (means.noisy_count <= 0.0)
    low = np.clip(_slope(means, start), means.low, means.high)
    high = np.clip(_slope(means, end), means.low, means.high)
    return np.where(open_below, means.low, low), np.where(open_above, means.high, high)


def _fieller(means: NoisyMeans, weights: FloatArray, failure: float) -> Ends:
    """Each mean at level γ^(1/groups): the noise of groups is independent, so all hold together at γ."""
    return weighted_ends(*fieller_means(means, failure_of_each(failure, len(weights))), weights)


def _mover(means: NoisyMeans, weights: FloatArray, failure: float) -> Ends:
    """Each mean at level γ, the distances from estimate to end added as squares (MOVER).

    The bounds of x enter only afterwards: cut intervals would make the distances too short. The provable
    interval takes over where a noisy count is too near zero (_MOVER_CLEARANCE) or where it is clearly the
    narrower one (_MOVER_MARGIN).
    """
    z = failure_quantile(failure)
    angle, spread = _directions(means, z)
    centre = _slope(means, angle)
    below, above = weighted_reach(
        centre, _slope(means, angle - spread), _slope(means, angle + spread), weights
    )
    estimate = np.sum(weights * centre, axis=-1)
    clear = np.all(means.noisy_count > _MOVER_CLEARANCE * z * means.count_scale, axis=-1)
    low, high = _fieller(means, weights, failure)
    least, most = weighted_ends(means.low, means.high, weights)
    lower, upper = np.clip(estimate - below, least, most), np.clip(estimate + above, least, most)
    trusted = clear & (high - low >= _MOVER_MARGIN * (upper - lower))
    return np.where(trusted, lower, low), np.where(trusted, upper, high)


def weighted_reach(centre: FloatArray, low: FloatArray, high: FloatArray, weights: FloatArray) -> Ends:
    """How far Σ w·mean may lie below and above its estimate; a negative weight swaps a mean's two sides."""
    down, up = weights * (centre - low), weights * (high - centre)
    below = np.where(weights > 0.0, down, up)
    above = np.where(weights > 0.0, up, down)
    return np.sqrt(np.sum(below**2, axis=-1)), np.sqrt(np.sum(above**2, axis=-1))


def _bootstrap(means: NoisyMeans, weights: FloatArray, failure: float) -> Ends:
    """The paper's appendix: bias-corrected percentiles after adding the noise again, many times.

    Approximate, and short of its level for small groups. If a noisy count is not positive, the interval is
    all that the bounds allow.
    """
    draws = np.random.default_rng(1985)  # seeded: post-processing of released values, not privacy noise
    sum_noise, count_noise = draws.standard_normal((2, RESAMPLES, len(weights)))
    sums = means.noisy_sum[..., None, :] + means.sum_scale * sum_noise
    counts = means.noisy_count[..., None, :] + means.count_scale * count_noise
    resampled = np.sort(np.nan_to_num(np.sum(weights * (means.mid + sums / counts), axis=-1)), axis=-1)
    estimate = np.sum(weights * (means.mid + means.noisy_sum / means.noisy_count), axis=-1)

    share = np.mean(resampled < estimate[..., None], axis=-1)
    bias = normal_quantiles(np.clip(share, 1.0 / RESAMPLES, 1.0 - 1.0 / RESAMPLES))
    z = failure_quantile(failure)
    first = np.ceil(RESAMPLES * normal_cdfs(2.0 * bias - z)) - 1.0
    last = np.floor(RESAMPLES * normal_cdfs(2.0 * bias + z))

    def pick(position: FloatArray) -> FloatArray:
        index = np.clip(position, 0, RESAMPLES - 1).astype(np.intp)
        return np.take_along_axis(resampled, index[..., None], axis=-1)[..., 0]

    known = np.all(means.noisy_count > 0.0, axis=-1)
    least, most = weighted_ends(means.low, means.high, weights)
    return np.where(known, pick(first), least), np.where(known, pick(last), most)


_RULES = {"mover": _mover, "fieller": _fieller, "image": _image, "bootstrap": _bootstrap}


# -- Shares, variances and quantiles -----------------------------------------------------------------------
#
# These intervals, from noisy counts, sums and histograms, hold for groups of any size. Proof for shares:
# docs/proofs/quality.md.

_COUNT_SHARE = 0.9  # of the error probability; the total is known far better than the count
_FEWEST_BINS, _MOST_BINS = 64, 1024
_TYPICAL_GROUP = 5_000  # rows; the number of bins is chosen for such a group


@dataclass(frozen=True)
class NoisyCount:
    """A released count and the σ of its noise."""

    value: float
    scale: float


def pooled_total(partitions: Sequence[Sequence[NoisyCount]]) -> NoisyCount:
    """The number of all rows, from several partitions of them, weighted by inverse variance.

    >>> pooled_total([[NoisyCount(6.0, 1.0), NoisyCount(4.0, 1.0)]])
    NoisyCount(value=10.0, scale=1.414213562373095)
    """
    sums = [math.fsum(count.value for count in part) for part in partitions]
    variances = [math.fsum(count.scale**2 for count in part) for part in partitions]
    precision = math.fsum(1 / variance for variance in variances)
    value = math.fsum(s / variance for s, variance in zip(sums, variances, strict=True)) / precision
    return NoisyCount(value, 1 / math.sqrt(precision))


def share_interval(count: NoisyCount, total: NoisyCount, confidence: float) -> Interval:
    """The interval of count/total that holds with at least `confidence`, independent noises or not.

    >>> low, high = share_interval(NoisyCount(500, 5.0), NoisyCount(10_000, 20.0), 0.95)
    >>> 0.0487 < low < 0.05 < high < 0.0513
    True
    """
    error = 1 - confidence
    few, many = _count_interval(count, error * _COUNT_SHARE)
    least, most = _count_interval(total, error * (1 - _COUNT_SHARE))
    if least <= 0:
        return 0.0, 1.0
    return min(1.0, max(0.0, few) / most), min(1.0, max(0.0, many) / least)


def bin_bounds(counts: Sequence[NoisyCount], confidence: float) -> list[tuple[int, int]]:
    """Whole-number bounds that hold for all true counts at once with at least `confidence` (union bound)."""
    intervals = (_count_interval(count, (1 - confidence) / len(counts)) for count in counts)
    return [(max(0, math.ceil(few)), max(0, math.floor(many))) for few, many in intervals]


def _count_interval(count: NoisyCount, error: float) -> Interval:
    reach = two_sided_quantile(1 - error) * count.scale
    return count.value - reach, count.value + reach


@dataclass(frozen=True)
class NoisyMoments:
    """Released parts of the groups of one answer; `square_reach` is the most a row's square can be."""

    count: FloatArray
    count_scale: float
    total: FloatArray  # Σ(x − mid)
    total_scale: float
    squares: FloatArray  # Σ(2(x − mid)² − square_reach)
    squares_scale: float
    half_range: float  # of the bounds
    square_reach: float
    rounding: float  # the most by which rounding can move a mean square


def variances(moments: NoisyMoments, kind: VarianceKind, confidence: float) -> Estimated:
    """Estimate, lower and upper end of every group's variance or standard deviation.

    Fieller's intervals of the mean and of the mean square, both at once by the union bound
    (docs/proofs/shared-measurement.md, section 5).
    """
    is_sample, is_deviation = kind.endswith("samp"), kind.startswith("stddev")
    level = 1.0 - (1.0 - check_confidence(confidence)) / (3 if is_sample else 2)
    low, high = _population_variances(moments, level)
    estimate = _plain_variance(moments)
    if is_sample:
        fewest, most = _correction(moments, level)
        # The most: n/(n − 1) for n of at least 2 rows, times a variance of at most (R/2)².
        low, high = low * most, np.minimum(high * fewest, 2.0 * moments.half_range**2)
        estimate = estimate * moments.count / np.maximum(moments.count - 1.0, 1.0)
    estimate = np.where(moments.count > 1.0, np.clip(estimate, low, high), (low + high) / 2.0)
    if is_deviation:
        return np.sqrt(estimate), np.sqrt(low), np.sqrt(high)
    return estimate, low, high


def _population_variances(m: NoisyMoments, level: float) -> Ends:
    """The mean square minus the square of the mean, each inside its Fieller interval."""
    least, most = _mean_ends(m, m.total, m.total_scale, m.half_range, level)
    largest = np.maximum(np.abs(least), np.abs(most))
    smallest = np.where((least <= 0.0) & (most >= 0.0), 0.0, np.minimum(np.abs(least), np.abs(most)))
    below, above = (
        (ends + m.square_reach) / 2.0
        for ends in _mean_ends(m, m.squares, m.squares_scale, m.square_reach, level)
    )
    low = np.maximum(below - m.rounding - largest**2, 0.0)
    high = np.clip(above + m.rounding - smallest**2, low, np.maximum(low, m.half_range**2))
    return low, high


def _mean_ends(m: NoisyMoments, total: FloatArray, scale: float, reach: float, level: float) -> Ends:
    """Fieller's interval of every group's `total` per row, which lies in [−reach, reach]."""
    ones = np.ones_like(total)
    means = NoisyMeans(total, m.count, scale * ones, m.count_scale * ones, -reach * ones, reach * ones)
    return weighted_means_intervals(means[..., None], np.ones(1), level, "fieller")


def _correction(m: NoisyMoments, level: float) -> Ends:
    """n/(n − 1) at the fewest and at the most rows that the group may have, at least 2 each."""
    reach = two_sided_quantile(level) * m.count_scale
    fewest, most = np.maximum(m.count - reach, 2.0), np.maximum(m.count + reach, 2.0)
    return fewest / (fewest - 1.0), most / (most - 1.0)


def _plain_variance(m: NoisyMoments) -> FloatArray:
    """The estimate of every group's population variance, possibly below 0."""
    count = np.maximum(m.count, 1.0)
    return np.asarray((m.squares / count + m.square_reach) / 2.0 - (m.total / count) ** 2)


@dataclass(frozen=True)
class NoisyHistogram:
    """Released counts, (groups, bins); bin j holds the values in (edges[j], edges[j + 1]]."""

    counts: FloatArray
    scale: float
    edges: FloatArray


def bin_number(rho: float, rows: int) -> int:
    """The number of bins for a column's range: a power of two from 64 to 1024, from public quantities.

    A bin's width is weighed against the rank error of the noise, z·σ·√bins/2 rows, in a group of 5,000 rows
    spread evenly; they are equal where bins^1.5 = 2·5000/(z·σ).

    >>> bin_number(0.1, 1), bin_number(10.0, 1), bin_number(0.001, 1)
    (128, 1024, 64)
    """
    balanced = (2 * _TYPICAL_GROUP / (2.0 * gaussian_scale(rows, rho))) ** (2 / 3)
    return int(min(max(2 ** round(math.log2(balanced)), _FEWEST_BINS), _MOST_BINS))


def quantiles(histogram: NoisyHistogram, level: float, confidence: float) -> Estimated:
    """Estimate, lower and upper end of every group's quantile.

    Each end is found by testing the edges in order and stopping at the first that is not certain, so only one
    of the tests can fail (docs/proofs/quantiles.md).
    """
    z = two_sided_quantile(check_confidence(confidence))
    lead, spread = _leads(histogram, level)
    is_above = np.cumprod(lead + z * spread <= -level, axis=1).sum(axis=1)  # edges surely exceeded
    is_below = np.cumprod((lead - z * spread >= 2.0 - level)[:, ::-1], axis=1).sum(axis=1)
    bins = histogram.counts.shape[1]
    low, high = histogram.edges[is_above], histogram.edges[bins - is_below]
    return np.clip(_crossing(histogram, lead, level), low, high), low, high


def _leads(histogram: NoisyHistogram, level: float) -> tuple[FloatArray, FloatArray]:
    """At every inner edge, the rows up to it minus the share `level` of all rows, and its σ."""
    bins = histogram.counts.shape[1]
    below = np.cumsum(histogram.counts, axis=1)[:, :-1]
    places = np.arange(1, bins)
    spread = np.sqrt(places * (1.0 - level) ** 2 + (bins - places) * level**2)
    return below - level * histogram.counts.sum(axis=1, keepdims=True), histogram.scale * spread


def _crossing(histogram: NoisyHistogram, lead: FloatArray, level: float) -> FloatArray:
    """Where the rising lead crosses 0, interpolated inside its bin."""
    total = np.maximum(histogram.counts.sum(axis=1), 1.0)[:, None]
    whole = np.concatenate([-level * total, lead, (1.0 - level) * total], axis=1)
    rising = np.maximum.accumulate(whole, axis=1)
    return np.array([float(np.interp(0.0, steps, histogram.edges)) for steps in rising])


def shares_up_to(counts: FloatArray, scale: float, confidence: float) -> Estimated:
    """Estimate, lower and upper end of the share of values up to each edge of a noisy histogram.

    All intervals hold at once with at least `confidence`, so they may be used to choose an edge. At the first
    edge the share is 0 and at the last one 1. Fieller's intervals and the union bound: docs/proofs/tuning.md.
    """
    bins, total = counts.size, float(counts.sum())
    places, below = np.arange(1, bins), np.cumsum(counts)[:-1]
    variance = two_sided_quantile(1 - (1 - check_confidence(confidence)) / max(1, bins - 1)) ** 2 * scale**2
    # Between the roots in s of (below − s·total)² = variance·(places·(1 − s)² + (bins − places)·s²).
    leading = total**2 - variance * bins
    if total <= 0.0 or leading <= 0.0:
        estimate, low, high = np.full(bins - 1, 0.5), np.zeros(bins - 1), np.ones(bins - 1)
    else:
        middle = below * total - variance * places
        # The discriminant with its largest terms, which cancel, left out.
        spread = places * (total - below) ** 2 + (bins - places) * below**2
        root = np.sqrt(variance * np.maximum(spread - variance * places * (bins - places), 0.0))
        estimate = np.clip(below / total, 0.0, 1.0)
        low, high = (np.clip((middle + side * root) / leading, 0.0, 1.0) for side in (-1.0, 1.0))
    ends = [np.concatenate([[0.0], part, [1.0]]) for part in (estimate, low, high)]
    # The true shares rise, so a low end holds for later edges too, and a high end for earlier ones.
    return ends[0], np.maximum.accumulate(ends[1]), np.minimum.accumulate(ends[2][::-1])[::-1]
