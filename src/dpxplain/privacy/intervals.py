"""Confidence intervals of released answers and of weighted sums of them.

Definitions: docs/specification.md, intervals and verdicts.
Post-processing: reads no data and spends no budget. The intervals cover privacy noise only, not sampling.
Measured coverage of every method: docs/interval-coverage.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from dpxplain.errors import BadRequest
from dpxplain.model.arrays import FloatArray
from dpxplain.privacy.normal import normal_cdfs, normal_quantile, normal_quantiles

Interval = tuple[float, float]
_Ends = tuple[FloatArray, FloatArray]
Loadings = tuple[tuple[Hashable, float], ...]
"""Independent standard Gaussians, each with the factor by which a released value carries it."""

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
    reach = scale * _quantile(1.0 - check_confidence(confidence))
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
    each = NoisyMeans(*(np.asarray(getattr(means, part.name))[:, None] for part in fields(means)))
    low, high = weighted_means_intervals(each, np.ones(1), confidence)
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
) -> _Ends:
    """`weighted_means_interval` for many releases at once; no weight may be zero."""
    return weighted_means_intervals_failing(means, weights, 1.0 - check_confidence(confidence), method)


def weighted_means_intervals_failing(
    means: NoisyMeans, weights: FloatArray, failure: float, method: str = DEFAULT_METHOD
) -> _Ends:
    """`weighted_means_intervals` for a failure probability so small that 1 − failure may round to 1."""
    rule = _rule(method)
    # Extreme but finite releases may overflow in between; the clip to the bounds at the end undoes it.
    with np.errstate(all="ignore"):
        low, high = rule(means, weights, failure)
        estimate = np.sum(weights * means.estimates, axis=-1)
        least, most = _weighted(means.low, means.high, weights)
        # Clamping each mean to its bounds can move the estimate past an end of the interval: include it.
        # An interval stays inside what the bounds allow, and one beyond them collapses onto the nearer end
        # (docs/specification.md, intervals of averages).
        low = np.clip(np.minimum(low, estimate), least, most)
        high = np.clip(np.maximum(high, estimate), least, most)
    return low, high


def _rule(method: str) -> Callable[[NoisyMeans, FloatArray, float], _Ends]:
    try:
        return _RULES[method]
    except KeyError:
        raise BadRequest(
            "There is no interval method with this name.", remedy=f"Choose one of: {', '.join(METHODS)}."
        ) from None


def _quantile(failure: float) -> float:
    """z such that a Gaussian leaves ±zσ with probability `failure`."""
    return -normal_quantile(failure / 2.0)


def _weighted(low: FloatArray, high: FloatArray, weights: FloatArray) -> _Ends:
    """Interval arithmetic: the ends of Σ w·[low, high]."""
    at_low, at_high = weights * low, weights * high
    return np.minimum(at_low, at_high).sum(axis=-1), np.maximum(at_low, at_high).sum(axis=-1)


def _image(means: NoisyMeans, weights: FloatArray, failure: float) -> _Ends:
    """The paper's method: a Gaussian interval for every sum and count (union bound), divided end by end.

    A count whose interval reaches zero says nothing about its mean, which may be anything the bounds allow.
    """
    z = _quantile(failure / (2 * len(weights)))
    sum_reach, count_reach = z * means.sum_scale, z * means.count_scale
    least, most = means.noisy_sum - sum_reach, means.noisy_sum + sum_reach
    fewest, fullest = means.noisy_count - count_reach, means.noisy_count + count_reach
    low = means.mid + np.minimum(least / fewest, least / fullest)
    high = means.mid + np.maximum(most / fewest, most / fullest)
    useful = fewest > 0.0
    return _weighted(
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


def _fieller_means(means: NoisyMeans, failure: float) -> _Ends:
    """Per group, the span of the part of Fieller's set that lies inside the bounds.

    If the noisy count is not positive, the mean may be anything inside the bounds.
    """
    angle, spread = _directions(means, _quantile(failure))
    edge = np.arctan2((means.high - means.low) / 2.0 * means.count_scale, np.maximum(means.sum_scale, _TINY))
    start, end = angle - spread, angle + spread
    # Modulo π: a set that runs past the vertical comes back in at the other bound.
    open_below = (start <= -edge) | (end >= np.pi - edge) | (means.noisy_count <= 0.0)
    open_above = (end >= edge) | (start <= edge - np.pi) | (means.noisy_count <= 0.0)
    low = np.clip(_slope(means, start), means.low, means.high)
    high = np.clip(_slope(means, end), means.low, means.high)
    return np.where(open_below, means.low, low), np.where(open_above, means.high, high)


def _fieller(means: NoisyMeans, weights: FloatArray, failure: float) -> _Ends:
    """Each mean at level γ^(1/groups): the noise of groups is independent, so all hold together at γ."""
    return _weighted(*_fieller_means(means, failure_of_each(failure, len(weights))), weights)


def _mover(means: NoisyMeans, weights: FloatArray, failure: float) -> _Ends:
    """Each mean at level γ, the distances from estimate to end added as squares (MOVER).

    The bounds of x enter only afterwards: cut intervals would make the distances too short. The provable
    interval takes over where a noisy count is too near zero (_MOVER_CLEARANCE) or where it is clearly the
    narrower one (_MOVER_MARGIN).
    """
    z = _quantile(failure)
    angle, spread = _directions(means, z)
    centre = _slope(means, angle)
    below, above = _weighted_reach(
        centre, _slope(means, angle - spread), _slope(means, angle + spread), weights
    )
    estimate = np.sum(weights * centre, axis=-1)
    clear = np.all(means.noisy_count > _MOVER_CLEARANCE * z * means.count_scale, axis=-1)
    low, high = _fieller(means, weights, failure)
    least, most = _weighted(means.low, means.high, weights)
    lower, upper = np.clip(estimate - below, least, most), np.clip(estimate + above, least, most)
    trusted = clear & (high - low >= _MOVER_MARGIN * (upper - lower))
    return np.where(trusted, lower, low), np.where(trusted, upper, high)


def _weighted_reach(centre: FloatArray, low: FloatArray, high: FloatArray, weights: FloatArray) -> _Ends:
    """How far Σ w·mean may lie below and above its estimate; a negative weight swaps a mean's two sides."""
    down, up = weights * (centre - low), weights * (high - centre)
    below = np.where(weights > 0.0, down, up)
    above = np.where(weights > 0.0, up, down)
    return np.sqrt(np.sum(below**2, axis=-1)), np.sqrt(np.sum(above**2, axis=-1))


def _bootstrap(means: NoisyMeans, weights: FloatArray, failure: float) -> _Ends:
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
    z = _quantile(failure)
    first = np.ceil(RESAMPLES * normal_cdfs(2.0 * bias - z)) - 1.0
    last = np.floor(RESAMPLES * normal_cdfs(2.0 * bias + z))

    def pick(position: FloatArray) -> FloatArray:
        index = np.clip(position, 0, RESAMPLES - 1).astype(np.intp)
        return np.take_along_axis(resampled, index[..., None], axis=-1)[..., 0]

    known = np.all(means.noisy_count > 0.0, axis=-1)
    least, most = _weighted(means.low, means.high, weights)
    return np.where(known, pick(first), least), np.where(known, pick(last), most)


_RULES = {"mover": _mover, "fieller": _fieller, "image": _image, "bootstrap": _bootstrap}
