"""Phase 2: is a gap, ratio or share real, or could it be privacy noise, or chance in how rows were drawn?

Post-processing, no budget. See docs/specification.md, intervals and verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.errors import QuestionError
from dpxplain.model.column import Grid
from dpxplain.model.contrast import Contrast, Ratio, Verdict, judge
from dpxplain.model.query import VARIANCES, Aggregate, Quantile, Query
from dpxplain.model.release import AnswerRelease, FloatArray
from dpxplain.model.schema import Schema
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.privacy.intervals import (
    METHODS,
    Interval,
    NoisyHistogram,
    NoisyMean,
    NoisyMeans,
    NoisyMoments,
    gaussian_intervals,
    mean_intervals,
    quantiles,
    variances,
    weighted_means_interval,
    weighted_sum_interval,
)
from dpxplain.privacy.population_intervals import (
    Spread,
    WeightedCounts,
    WeightedMeans,
    count_ends,
    mean_ends,
    spread_ends,
    sum_ends,
)

# -- Questions ---------------------------------------------------------------------------------------------
#
# A ratio r is tested by the weighted sum A − r·B, whose interval is computed as for any question. The
# interval of the ratio holds all r for which that interval contains 0 (Fieller's principle,
# docs/proofs/ratio.md).


@dataclass(frozen=True)
class Assessment:
    """A question's number by the released answer, its interval and the verdict on it."""

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
    if isinstance(query.aggregate, Quantile):
        estimated = quantiles(noisy_histogram(release), query.aggregate.level, confidence)
    elif query.aggregate.kind in VARIANCES:
        estimated = variances(noisy_moments(release, query, schema), query.aggregate.kind, confidence)
    else:
        values, scale = _plain_values(release)
        intervals = gaussian_intervals(values, scale, confidence)
        return [(value, interval, scale) for value, interval in zip(values, intervals, strict=True)]
    z = two_sided_quantile(confidence)
    return [
        (value, (low, high), (high - low) / (2 * z))
        for value, low, high in zip(*(part.tolist() for part in estimated), strict=True)
    ]


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
        ends = _fieller_interval(ratio, value, weigh, sign)
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


def _fieller_interval(ratio: Ratio, value: float, weigh: Weigh, sign: int) -> Interval:
    """All r around `value` for which the interval of A − r·B contains 0."""

    def is_above(r: float) -> bool:
        """Whether the true ratio surely lies above r."""
        return weigh([sign * weight for weight in ratio.weights(r)])[0] > 0.0

    def is_below(r: float) -> bool:
        """Whether it surely lies below r."""
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


# -- Population --------------------------------------------------------------------------------------------
#
# What a released answer says beyond the rows that it was computed from. docs/proofs/population.md states the
# assumptions about how the rows were drawn.

_KNOWN_TOTAL = 100.0  # rows; the size of a smaller table is not known well enough to be taken as fixed


@dataclass(frozen=True)
class PopulationReading:
    """One aggregate's released values, read as a sample; `moments` is its column's variance, if released."""

    release: AnswerRelease
    query: Query
    schema: Schema
    moments: AnswerRelease | None = None

    @property
    def refusal(self) -> str:
        """A sentence that says why there is no result for the population; empty if there is one."""
        aggregate = self.query.aggregate
        if aggregate.kind not in ("count", "sum", "avg"):
            return f"{aggregate} cannot be extended to the population. Only COUNT, SUM and AVG can."
        if aggregate.kind == "sum" and self._grid.low < 0 < self._grid.high:
            return (
                f"{aggregate} cannot be extended to the population, because both negative and positive "
                f"values are declared. Ask for AVG({aggregate.column}) and COUNT(*) instead."
            )
        return ""

    @property
    def basis(self) -> str:
        """The assumption about how much values vary from draw to draw, as a sentence."""
        kind, column, cluster = self.query.aggregate.kind, self.query.aggregate.column, self._cluster
        together = ""
        if cluster > 1:
            unit = self.schema.privacy.unit
            together = f" The calculation assumes that up to {cluster:,} rows of one {unit} vary together."
        if kind == "count":
            left_out = ", without the rows in unlisted groups" if self.query.group_by else ""
            return f"Counts vary as in a multinomial draw{left_out}.{together}"
        if kind == "sum":
            return (
                "Sums are assumed to vary as much as possible: like a multinomial count of the "
                f"largest value.{together}"
            )
        if self._grid.range == 1:
            return (
                "How much a share varies follows from the share itself, so no assumption is "
                f"needed.{together}"
            )
        if self.moments is not None:
            return f"The released variance limits how much {column} varies.{together}"
        return (
            f"The variance of {column} is not released, so it is assumed to be as large as the average and "
            "the bounds allow, at most (high - low)²/4. To get narrower intervals for large groups, add "
            f"VARIANCE({column}) to the same SELECT.{together}"
        )

    def intervals(self, confidence: float) -> list[Interval]:
        """Every group's interval in the population."""
        failure, cluster = 1.0 - confidence, self._cluster
        if self.query.aggregate.kind == "avg":
            means, failure, spread = self._means(range(self._groups), confidence)
            low, high = mean_ends(means, failure, cluster=cluster, spread=spread)
        else:
            values, scale = np.array(self.estimates(range(self._groups))), self._scale
            if self.query.aggregate.kind == "sum":
                low, high = sum_ends(values, scale, self._largest, failure, cluster=cluster)
            else:
                total = self._total(confidence)
                low, high = count_ends(values, scale, failure, cluster=cluster, total=total)
        return list(zip(low.tolist(), high.tolist(), strict=True))

    def assess(self, contrast: Contrast, confidence: float) -> Assessment:
        """Estimate and interval of Σ w·value in the population, and what they say about the constant."""
        estimates = self.estimates(contrast.groups)
        low, high = self.weigh(contrast.groups, confidence)(contrast.weights)
        estimate = math.fsum(w * value for w, value in zip(contrast.weights, estimates, strict=True))
        interval = min(low, estimate), max(high, estimate)
        return Assessment(estimate, interval, judge(interval, contrast.at_least))

    def weigh(self, groups: Sequence[int], confidence: float) -> Callable[[Sequence[float]], Interval]:
        """A function from weights to the interval of the weighted sum; shared parts are computed once."""
        if self.query.aggregate.kind == "avg":
            means, failure, spread = self._means(groups, confidence)
            return WeightedMeans(means, failure, cluster=self._cluster, spread=spread)
        total = self._total(confidence) if len(groups) == 1 else None
        largest = self._largest * self._cluster
        values = self.estimates(groups)
        return WeightedCounts(values, self._scale, 1.0 - confidence, largest=largest, total=total)

    def _means(
        self, groups: Sequence[int], confidence: float
    ) -> tuple[list[NoisyMean], float, FloatArray | None]:
        """The released averages, the error probability left for them, and upper bounds of their spread."""
        means = [noisy_mean(self.release, self.query, self.schema, group) for group in groups]
        spread = self._spread(confidence)
        if spread is None:
            return means, 1.0 - confidence, None
        return means, 1.0 - confidence - spread.failure, spread.most[list(groups)]

    @property
    def _scale(self) -> float:
        release = self.release
        scale = release.count_scale if self.query.aggregate.kind == "count" else release.sum_scale
        assert scale is not None
        return scale

    @property
    def _largest(self) -> float:
        """The value of largest size that one row can add to a group."""
        if self.query.aggregate.kind == "count":
            return 1.0
        grid = self._grid
        return float((grid.high if abs(grid.high) >= abs(grid.low) else grid.low) * grid.unit)

    def estimates(self, groups: Sequence[int]) -> list[float]:
        release = self.release
        if self.query.aggregate.kind == "avg":
            return [noisy_mean(release, self.query, self.schema, group).estimate for group in groups]
        values = release.noisy_count if self.query.aggregate.kind == "count" else release.noisy_sum
        assert values is not None
        return [values[group] for group in groups]

    def _spread(self, confidence: float) -> Spread | None:
        if self.moments is None or self._grid.range == 1:
            return None
        varied = replace(self.query, aggregate=Aggregate("var_samp", self.query.aggregate.column))
        moments = noisy_moments(self.moments, varied, self.schema)
        return spread_ends(moments, confidence, cluster=self._cluster)

    def _total(self, confidence: float) -> float | None:
        """The most rows that all groups may have together; None if the rows drawn are not fixed or not known.

        A filter leaves rows out, and so may a query without groups: how many were drawn is not released. If
        a privacy unit may have several rows, the number of rows is not fixed.
        """
        release = self.release
        if self._cluster > 1:
            return None
        if self.query.where is not None or self.query.aggregate.column is not None or self._groups < 2:
            return None
        assert release.noisy_count is not None
        assert release.count_scale is not None
        reach = two_sided_quantile(confidence) * release.count_scale * math.sqrt(self._groups)
        total = math.fsum(release.noisy_count)
        return total + reach if total - reach >= _KNOWN_TOTAL else None

    @property
    def _groups(self) -> int:
        return len(self.release.noisy_sum or self.release.noisy_count or ())

    @property
    def _cluster(self) -> int:
        """Rows that may vary together: those of one privacy unit."""
        return self.schema.privacy.max_rows

    @property
    def _grid(self) -> Grid:
        assert self.query.aggregate.column is not None
        return self.schema.column(self.query.aggregate.column).grid
