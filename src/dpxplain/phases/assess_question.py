"""Phase 2: is a gap, ratio or share real, or could it be privacy noise? Post-processing, no budget.

See docs/specification.md, intervals and verdicts.

A ratio r is tested by the weighted sum A − r·B, whose interval is computed as for any question. The interval
of the ratio holds all r for which that interval contains 0 (Fieller's principle, docs/proofs/ratio.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from dpxplain.errors import QuestionError
from dpxplain.model.contrast import Contrast, Ratio, Verdict, judge
from dpxplain.model.query import VARIANCES, Quantile, Query
from dpxplain.model.release import AnswerRelease
from dpxplain.model.schema import Schema
from dpxplain.privacy.aggregate_intervals import NoisyHistogram, NoisyMoments, quantiles, variances
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.privacy.intervals import (
    METHODS,
    Interval,
    NoisyMean,
    NoisyMeans,
    gaussian_intervals,
    mean_intervals,
    weighted_means_interval,
    weighted_sum_interval,
)


@dataclass(frozen=True)
class Assessment:
    """What the released answer says about a question."""

    estimate: float
    interval: Interval
    verdict: Verdict


def group_estimates(
    release: AnswerRelease, query: Query, schema: Schema, confidence: float
) -> list[tuple[float, Interval, float]]:
    """Every group's value, its interval and the scale of its noise.

    For an average the scale is the first-order noise of its sum divided by its count; the interval does not
    rely on it. For a variance or quantile it is the scale of a Gaussian with an interval of the same width.
    """
    groups = range(len(release.noisy_sum or release.noisy_count or ()))
    if query.aggregate.kind == "avg":
        means = NoisyMeans.of([noisy_mean(release, query, schema, group) for group in groups])
        estimates = means.estimates
        spread = np.sqrt(means.sum_scale**2 + ((estimates - means.mid) * means.count_scale) ** 2)
        scales = spread / np.maximum(means.noisy_count, 1.0)
        intervals = mean_intervals(means, confidence)
        return list(zip(estimates.tolist(), intervals, scales.tolist(), strict=True))
    z = two_sided_quantile(confidence)
    if isinstance(query.aggregate, Quantile):
        ends = quantiles(noisy_histogram(release), query.aggregate.level, confidence)
    elif query.aggregate.kind in VARIANCES:
        ends = variances(noisy_moments(release, query, schema), query.aggregate.kind, confidence)
    if not query.aggregate.has_influence and query.aggregate.kind != "persons":
        return [
            (value, (low, high), (high - low) / (2 * z))
            for value, low, high in zip(*(part.tolist() for part in ends), strict=True)
        ]
    values, scale = _plain_values(release)
    intervals = gaussian_intervals(values, scale, confidence)
    return [(value, ends, scale) for value, ends in zip(values, intervals, strict=True)]


def assess(
    release: AnswerRelease, query: Query, schema: Schema, contrast: Contrast, confidence: float, method: str
) -> Assessment:
    """Estimate and interval of Σ w·value, and what they say about the constant.

    The method matters for averages only; an unknown one is always refused.
    """
    if method not in METHODS:
        raise QuestionError(
            f"There is no interval method {method!r}.", remedy=f"Choose one of: {', '.join(METHODS)}."
        )
    if query.aggregate.kind == "avg":
        means = [noisy_mean(release, query, schema, group) for group in contrast.groups]
        estimate = sum(w * mean.estimate for w, mean in zip(contrast.weights, means, strict=True))
        interval = weighted_means_interval(means, contrast.weights, confidence, method)
    else:
        every, scale = _plain_values(release)
        values = [every[group] for group in contrast.groups]
        estimate = sum(w * value for w, value in zip(contrast.weights, values, strict=True))
        interval = weighted_sum_interval(values, contrast.weights, scale, confidence)
    return Assessment(float(estimate), interval, judge(interval, contrast.at_least))


def noisy_mean(release: AnswerRelease, query: Query, schema: Schema, group: int) -> NoisyMean:
    assert query.aggregate.column is not None
    assert release.noisy_sum is not None
    assert release.noisy_count is not None
    assert release.sum_scale is not None
    assert release.count_scale is not None
    grid = schema.column(query.aggregate.column).grid
    return NoisyMean(
        noisy_sum=release.noisy_sum[group],
        noisy_count=release.noisy_count[group],
        sum_scale=release.sum_scale,
        count_scale=release.count_scale,
        low=grid.low * grid.unit,
        high=grid.high * grid.unit,
    )


def noisy_moments(release: AnswerRelease, query: Query, schema: Schema) -> NoisyMoments:
    """The released parts of a variance, for all groups."""
    assert query.aggregate.column is not None
    assert release.count_scale is not None
    assert release.sum_scale is not None
    assert release.squares_scale is not None
    grid = schema.column(query.aggregate.column).grid
    # A value is at most half a coarse step from the one that was squared.
    step = 0.0 if grid.coarseness == 1 else grid.unit * grid.coarseness / 4
    half_range = grid.range * grid.unit / 2
    return NoisyMoments(
        count=np.array(release.noisy_count),
        count_scale=release.count_scale,
        total=np.array(release.noisy_sum),
        total_scale=release.sum_scale,
        squares=np.array(release.noisy_squares),
        squares_scale=release.squares_scale,
        half_range=half_range,
        square_reach=grid.square_reach * grid.square_unit,
        rounding=(2 * half_range + step) * step,
    )


def noisy_histogram(release: AnswerRelease) -> NoisyHistogram:
    assert release.noisy_bins is not None
    assert release.bin_edges is not None
    assert release.bins_scale is not None
    counts = np.array(release.noisy_bins).reshape(-1, len(release.bin_edges) - 1)
    return NoisyHistogram(counts, release.bins_scale, np.array(release.bin_edges))


def _plain_values(release: AnswerRelease) -> tuple[Sequence[float], float]:
    """The released COUNT or SUM of every group, and the scale of their noise."""
    if release.noisy_sum is not None and release.sum_scale is not None:
        return release.noisy_sum, release.sum_scale
    assert release.noisy_count is not None
    assert release.count_scale is not None
    return release.noisy_count, release.count_scale


Weigh = Callable[[Sequence[float]], Interval]
"""The interval of the weighted sum of a ratio's groups."""

_DOUBLINGS, _HALVINGS = 200, 32
_LEAST_WEIGHT = 1e-9  # groups with less are left out: no explanation takes less


def assess_ratio(ratio: Ratio, estimates: Sequence[float], weigh: Weigh, limits: Interval) -> Assessment:
    """Estimate, interval and verdict of a ratio; `limits` are public, say 0 to 1 for a share of counts."""
    above, below = (
        math.fsum(w * value for w, value in zip(weights, estimates, strict=True))
        for weights in (ratio.numerator, ratio.denominator)
    )
    low, high = limits
    value = min(max(above / below, low), high) if below else min(max(0.0, low), high)
    sign = divisor_sign(ratio, weigh)
    if sign:
        ends = _ends(ratio, value, weigh, sign)
        low, high = min(max(ends[0], low), value), max(min(ends[1], high), value)
    return Assessment(value, (low, high), judge((low, high), ratio.at_least))


def divisor_sign(ratio: Ratio, weigh: Weigh) -> int:
    """The divisor's sign by its interval: 1 if all of it is above 0, -1 if below, else 0."""
    least, most = weigh(ratio.denominator)
    return 1 if least > 0.0 else -1 if most < 0.0 else 0


def known_divisor(ratio: Ratio, weigh: Weigh, name: str, possible: Collection[int] = (1, -1)) -> int:
    """The sign of the divisor; raises if it may be 0, since the ratio could then be anything.

    Also raises if the sign is not `possible`, such as that of a count below 0: this is noise around 0.
    """
    sign = divisor_sign(ratio, weigh)
    if sign not in possible:
        raise QuestionError(
            f"{name} may be 0, so the result of dividing by it could be anything.",
            remedy="Repeat the query with a larger ρ, divide by a larger group, or ask about the difference.",
        )
    return sign


def linear_question(ratio: Ratio, value: float, sign: int) -> Contrast:
    """The weighted question that explains the ratio: what lifts A above `value` times B."""
    pairs = zip(ratio.groups, ratio.weights(value), strict=True)
    weighted_groups = [(group, sign * weight) for group, weight in pairs if abs(weight) > _LEAST_WEIGHT]
    return Contrast(
        tuple(g for g, _ in weighted_groups), tuple(w for _, w in weighted_groups), ratio.at_least
    )


def _ends(ratio: Ratio, value: float, weigh: Weigh, sign: int) -> Interval:
    def is_above(r: float) -> bool:
        """Whether the true ratio surely lies above r."""
        return weigh([sign * weight for weight in ratio.weights(r)])[0] > 0.0

    def is_below(r: float) -> bool:
        return weigh([sign * weight for weight in ratio.weights(r)])[1] < 0.0

    return _edge(value, -1.0, is_above), _edge(value, 1.0, is_below)


def _edge(start: float, direction: float, is_out: Callable[[float], bool]) -> float:
    """The point from which values beyond `start` are out, by bisection; infinite if none is found."""
    if is_out(start):
        return start
    inner, step = start, max(abs(start), 1e-12) * 1e-3
    for _ in range(_DOUBLINGS):
        outer = start + direction * step
        if not math.isfinite(outer):
            return direction * math.inf
        if is_out(outer):
            break
        inner, step = outer, step * 2.0
    else:
        return direction * math.inf
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2.0
        inner, outer = (inner, middle) if is_out(middle) else (middle, outer)
    return outer
