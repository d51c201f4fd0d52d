"""Answers to a question from released marginals: influences, ranks, gaps, shares removed and stories; and how
precise they will be, before marginals are released.

Post-processing, at no cost in privacy (docs/specification.md, marginals). Proofs of the intervals:
docs/proofs/marginals.md; their measured coverage: docs/marginal-coverage.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpxplain.model.release import BoolArray, FloatArray, IntArray, ReleasedLine
from dpxplain.privacy.calibration import failure_quantile, gaussian_scale
from dpxplain.privacy.intervals import (
    DEFAULT_METHOD,
    Ends,
    Estimated,
    Interval,
    NoisyMean,
    NoisyMeans,
    check_confidence,
    failure_of_each,
    weighted_means_intervals_failing,
)
from dpxplain.privacy.marginals.estimates import (
    CellEstimates,
    Estimates,
    Kind,
    PreparedGroups,
    UnionOfCells,
    boxes,
    difference_variances,
    estimate,
    estimated,
    largest_allowance,
    provable,
    simultaneous_quantile,
    slope_at,
    smooth_interval,
    tie_allowance,
    variances,
)

# -- Influences, ranks and gaps ----------------------------------------------------------------------------

Item = TypeVar("Item", bound=np.generic)
Choose = Callable[[IntArray], Sequence[int]]

# How the failure probability is shared: nine tenths for first-order intervals, a tenth for the boxes, which
# are the fallback and the allowance for the minimum in the definition. This split makes the boxes about an
# eighth and the first-order intervals 1% wider than either would be alone.
SMOOTH_SHARE = 0.9
# The first order is trusted where every group's remainder exceeds this many half-widths of its own
# simultaneous interval: Fieller's g is then below 1/4 (docs/proofs/marginals.md, section 6).
CLEARANCE = 2.0


@dataclass(frozen=True)
class ExplainedMarginals:
    """The k predicates with the largest estimated influence, in that order, and the gap they explain."""

    lines: tuple[ReleasedLine, ...]
    gap: float  # Σ w·value from Phase 1 and marginals together
    gap_interval: Interval


@dataclass(frozen=True)
class MarginalInference:
    """The table of `infer` as arrays, for one release or for many (leading axes)."""

    influence: FloatArray  # (..., predicates)
    influence_low: FloatArray
    influence_high: FloatArray
    is_trusted: BoolArray
    selected: IntArray  # (..., k), by descending estimated influence
    rank_low: IntArray
    rank_high: IntArray
    without: FloatArray  # the gap without the rows of each selected predicate
    without_low: FloatArray
    without_high: FloatArray
    share: FloatArray  # of the gap that the rows of each selected predicate remove; NaN where unknown
    share_low: FloatArray  # -inf and inf where unknown
    share_high: FloatArray
    gap: FloatArray  # (...)
    gap_low: FloatArray
    gap_high: FloatArray


def infer(
    groups: PreparedGroups,
    weights: ArrayLike,
    at_least: float,
    confidence: float,
    k: int,
    predicates: Sequence[UnionOfCells] | None = None,
    choose: Choose | None = None,
) -> ExplainedMarginals:
    """The explanation table of one question. No privacy budget: `groups` has been paid for.

    `choose` picks the table's lines from all predicates, which it gets in order of descending influence.

    A predicate is one declared cell, numbered through the subsets in order, unless `predicates` lists unions
    of cells. Influence and rank intervals, those of the gap without a predicate's rows, and those of the
    share of the gap that the rows remove, each hold together for all predicates, because the k shown are
    chosen on the same noise.

    >>> rows = np.array([[400.0, 600.0, 0.0], [500.0, 500.0, 0.0]])
    >>> groups = PreparedGroups("count", 0, 1, rows.sum(axis=1), 2.0, None, None, (rows,), 3.0)
    >>> table = infer(groups, [1, -1], 0.0, 0.95, 1)
    >>> table.lines[0].predicate, round(table.lines[0].influence, 1), table.lines[0].rank
    (1, 40.0, (1, 1))
    """
    inference = infer_arrays(groups, weights, confidence, k, predicates, choose, at_least)
    lines = tuple(
        ReleasedLine(
            predicate=int(p),
            influence=float(inference.influence[p]),
            influence_interval=(float(inference.influence_low[p]), float(inference.influence_high[p])),
            rank=(int(inference.rank_low[i]), int(inference.rank_high[i])),
            gap_without=float(inference.without[i]),
            gap_without_interval=(float(inference.without_low[i]), float(inference.without_high[i])),
            share_removed=float(inference.share[i]) if is_known else None,
            share_removed_interval=(float(inference.share_low[i]), float(inference.share_high[i]))
            if is_known
            else None,
        )
        for i, (p, is_known) in enumerate(zip(inference.selected, np.isfinite(inference.share), strict=True))
    )
    gap = (float(inference.gap_low), float(inference.gap_high))
    return ExplainedMarginals(lines, float(inference.gap), gap)


def combined_gap(
    groups: PreparedGroups, weights: ArrayLike, confidence: float, method: str = DEFAULT_METHOD
) -> tuple[float, Interval]:
    """Q(D) from Phase 1 and the marginals together, as in `infer`: estimate and interval.

    `method` matters for averages only.
    """
    level, signed = check_confidence(confidence), np.asarray(weights, dtype=np.float64)
    gap, low, high = _gap(estimate(groups), signed, level, method)
    return float(gap), (float(low), float(high))


def infer_arrays(
    groups: PreparedGroups,
    weights: ArrayLike,
    confidence: float,
    k: int,
    predicates: Sequence[UnionOfCells] | None = None,
    choose: Choose | None = None,
    at_least: float = 0.0,
) -> MarginalInference:
    """`infer` for one release, or for many at once where the released arrays have leading axes."""
    level = check_confidence(confidence)
    signed = np.asarray(weights, dtype=np.float64)
    e = estimate(groups, predicates)
    size = e.count.layout.size
    # The statements about influences and about ranks may each fail with probability 1 − γ: a part of it
    # through the boxes, the rest through the first-order intervals.
    smooth = 1.0 - SMOOTH_SHARE * (1.0 - level)
    box = boxes(e, signed, 1.0 - (1.0 - SMOOTH_SHARE) * (1.0 - level))
    z = simultaneous_quantile(smooth, size)
    clear = (e.count.rest > CLEARANCE * z * e.count.rest_scale) & (box.c[0] > 0.0)
    lower, upper, steady = smooth_interval(e, signed, z)
    all_clear = np.all(clear, axis=-2)
    trusted = all_clear & steady

    provable_ends = provable(e, signed, box)
    ties = tie_allowance(e, signed, box)
    first_order = lower + ties[0], upper + ties[1]
    if e.kind != "avg":
        first_order = largest_allowance(e, box, first_order)
    low, high = _where(trusted, first_order, provable_ends)
    plain = slope_at(e, signed, estimated(e)).influence
    influence = np.clip(np.where(trusted, plain, cautious_influence(e, signed)), low, high)

    order = np.argsort(-influence, axis=-1, kind="stable")
    selected = order[..., :k] if choose is None else np.array(choose(order), dtype=np.int64)
    comparable = provable(e, signed, box, fixed=True)
    common_ties = tie_allowance(e, signed, box, fixed=True)
    rank_low, rank_high = _ranks(e, signed, trusted, common_ties, comparable, selected, smooth)
    without, without_low, without_high = _gap_without(e, signed, level, selected)
    gap, gap_low, gap_high = _gap(e, signed, level)
    share_low, share_high = _share_ends(e, signed, at_least, level, selected, all_clear)
    share, share_low, share_high = _agreeing_shares(
        (without - at_least, without_low - at_least, without_high - at_least),
        tuple(part[..., None] - at_least for part in (gap, gap_low, gap_high)),
        (share_low, share_high),
    )
    return MarginalInference(
        influence, low, high, trusted, selected, rank_low, rank_high,
        without, without_low, without_high, share, share_low, share_high, gap, gap_low, gap_high,
    )  # fmt: skip


def _where(trusted: BoolArray, first_order: Ends, provable_ends: Ends) -> Ends:
    """The first-order interval where trusted, cut to the provable one, since both hold at the same level."""
    low, high = np.maximum(first_order[0], provable_ends[0]), np.minimum(first_order[1], provable_ends[1])
    use = trusted & (low <= high)
    return np.where(use, low, provable_ends[0]), np.where(use, high, provable_ends[1])


def cautious_influence(e: Estimates, weights: FloatArray) -> FloatArray:
    """Plug-in influence with every part clamped to its possible values; for parts lost in noise."""
    c = np.maximum(e.count.rest, 0.0)
    n = np.maximum(e.count.total[..., None], 0.0)
    m = c.min(axis=-2)
    if e.total is None or e.kind == "sum":
        low, high = (0.0, 1.0) if e.total is None else (e.value_low, e.value_high)
        a = np.maximum(e.count.cell, 0.0)
        removed = np.clip(e.removed.cell, a * low, a * high)
        change = np.einsum("g,...gp->...p", weights, removed)
        return np.asarray(change * m / (n.max(axis=-2) + 1.0))
    before = _mean(e.total.total[..., None], n, e)
    change = np.einsum("g,...gp->...p", weights, before - _mean(e.total.rest, c, e))
    return np.asarray(m * change)


def _mean(total: FloatArray, count: FloatArray, e: Estimates) -> FloatArray:
    safe = np.where(count > 0.0, count, 1.0)
    return np.where(count > 0.0, np.clip(total / safe, e.value_low, e.value_high), 0.0)


def _ranks(
    e: Estimates,
    weights: FloatArray,
    trusted: BoolArray,
    ties: Ends,
    provable_ends: Ends,
    selected: IntArray,
    smooth: float,
) -> tuple[IntArray, IntArray]:
    """Simultaneous rank intervals: a rank's ends count the predicates certainly above and certainly below.

    All differences and all single influences are bounded together, so the level holds despite the selection.
    M is a common factor and cancels. The order of a pair is decided by its difference if both are trusted, or
    by disjoint intervals; an undecided pair may have either order, ties included.
    """
    size = e.count.layout.size
    z = simultaneous_quantile(smooth, size * (size + 1) // 2)
    slope = slope_at(e, weights, estimated(e), fixed=True)
    score = slope.influence
    reach = z * np.sqrt(variances(e, slope))
    low, high = _where(trusted, (score - reach + ties[0], score + reach + ties[1]), provable_ends)

    def of_selected(values: NDArray[Item]) -> NDArray[Item]:
        return np.take_along_axis(values, selected, axis=-1)[..., None]

    both_trusted = of_selected(trusted) & trusted[..., None, :]
    margin = z * np.sqrt(difference_variances(e, slope, selected))
    difference = of_selected(score) - score[..., None, :]
    ahead = (high[..., None, :] < of_selected(low)) | (
        both_trusted & (difference - margin + of_selected(ties[0]) - ties[1][..., None, :] > 0.0)
    )
    behind = (low[..., None, :] > of_selected(high)) | (
        both_trusted & (difference + margin + of_selected(ties[1]) - ties[0][..., None, :] < 0.0)
    )
    return 1 + behind.sum(axis=-1), size - ahead.sum(axis=-1)


def _gap_without(e: Estimates, weights: FloatArray, confidence: float, selected: IntArray) -> Estimated:
    """Q(¬p(D)) of the selected: a Gaussian for COUNT and SUM, weighted means for AVG."""
    size = e.count.layout.size
    if e.kind != "avg":
        rest, scale = _remaining(e.removed, selected)
        value = np.einsum("g,...gk->...k", weights, rest)
        reach = simultaneous_quantile(confidence, size) * math.hypot(*weights) * scale
        return value, value - reach, value + reach
    return _mean_gap_without(e, weights, failure_of_each(1.0 - confidence, size), selected)


def _mean_gap_without(
    e: Estimates, weights: FloatArray, failure: float, selected: IntArray, method: str = DEFAULT_METHOD
) -> Estimated:
    rest, scale = _remaining(e.removed, selected)
    count, count_scale = _remaining(e.count, selected)
    rest, count = np.swapaxes(rest, -1, -2), np.swapaxes(count, -1, -2)
    means = noisy_means(e, rest, count, scale[..., None], count_scale[..., None])
    return weighted_means(means, weights, failure, method)


def _gap(e: Estimates, weights: FloatArray, confidence: float, method: str = DEFAULT_METHOD) -> Estimated:
    """Q(D) from the combined totals; one statement, so no correction for selection."""
    part = e.removed
    if e.kind != "avg":
        value = np.asarray(part.total @ weights)
        reach = simultaneous_quantile(confidence, 1) * math.hypot(*weights) * part.total_scale
        return value, value - reach, value + reach
    return _mean_gap(e, weights, 1.0 - confidence, method)


def _mean_gap(e: Estimates, weights: FloatArray, failure: float, method: str) -> Estimated:
    total, total_scale = e.removed.total, np.array(e.removed.total_scale)
    means = noisy_means(e, total, e.count.total, total_scale, np.array(e.count.total_scale))
    return weighted_means(means, weights, failure, method)


def _share_ends(
    e: Estimates,
    weights: FloatArray,
    at_least: float,
    confidence: float,
    selected: IntArray,
    all_clear: BoolArray,
) -> Ends:
    """1 − Q(¬p(D))/Q(D) of the selected, by Fieller's set: exact for COUNT and SUM, of first order for AVG.

    For AVG a predicate that leaves a group near 0 rows gets the provable interval: the gap without the rows
    divided by the gap, end by end. The failure probability is split as for influences; each of the two gaps
    gets half of the boxes' part.
    """
    size, failure = e.count.layout.size, 1.0 - confidence
    if e.kind != "avg":
        return exact_shares(e, weights, at_least, selected, simultaneous_quantile(confidence, size))
    z = simultaneous_quantile(1.0 - SMOOTH_SHARE * failure, size)
    first_order = first_order_shares(e, weights, at_least, selected, z)
    half = (1.0 - SMOOTH_SHARE) * failure / 2.0
    _, without_low, without_high = _mean_gap_without(
        e, weights, failure_of_each(half, size), selected, "fieller"
    )
    _, gap_low, gap_high = _mean_gap(e, weights, half, "fieller")
    provable_ends = divided_shares(
        (without_low - at_least, without_high - at_least),
        (gap_low[..., None] - at_least, gap_high[..., None] - at_least),
    )
    use = np.take_along_axis(all_clear, selected, axis=-1)
    return np.where(use, first_order[0], provable_ends[0]), np.where(use, first_order[1], provable_ends[1])


def _agreeing_shares(without: tuple[FloatArray, ...], gap: tuple[FloatArray, ...], ends: Ends) -> Estimated:
    """Shares and intervals that agree with the two gaps shown beside them; only ever wider than `ends`.

    Unknown where the gap may be 0. Where the gap without the rows may be 0, the interval includes share 1.
    """
    known = ((gap[1] > 0.0) | (gap[2] < 0.0)) & np.isfinite(ends[0]) & np.isfinite(ends[1])
    share = np.where(known, 1.0 - without[0] / np.where(known, gap[0], 1.0), np.nan)
    low, high = np.fmin(ends[0], share), np.fmax(ends[1], share)
    none_left = (without[1] <= 0.0) & (without[2] >= 0.0)
    low = np.where(none_left, np.minimum(low, 1.0), low)
    high = np.where(none_left, np.maximum(high, 1.0), high)
    return share, np.where(known, low, -np.inf), np.where(known, high, np.inf)


def _remaining(part: CellEstimates, selected: IntArray) -> tuple[FloatArray, FloatArray]:
    return np.take_along_axis(part.rest, selected[..., None, :], axis=-1), part.rest_scale[selected]


def noisy_means(
    e: Estimates, total: FloatArray, count: FloatArray, total_scale: FloatArray, count_scale: FloatArray
) -> NoisyMeans:
    """Means whose parts are estimates with known scales; the last axis is the group."""
    spread = np.ones(count.shape[-1])
    return NoisyMeans(
        noisy_sum=total,
        noisy_count=count,
        sum_scale=total_scale * spread,
        count_scale=count_scale * spread,
        low=(e.middle + e.value_low) * spread,
        high=(e.middle + e.value_high) * spread,
    )


def weighted_means(
    means: NoisyMeans, weights: FloatArray, failure: float, method: str = DEFAULT_METHOD
) -> Estimated:
    """Σ w·mean with the ends of its interval."""
    weighted = weights != 0.0  # a group of weight 0 has no part in the sum
    low, high = weighted_means_intervals_failing(means[..., weighted], weights[weighted], failure, method)
    return np.asarray(means.estimates @ weights), low, high


# -- Shares removed ----------------------------------------------------------------------------------------
#
# The share of a gap that a condition's rows remove is 1 − Q(¬p(D))/Q(D). The gap and the gap without the
# rows carry mostly the same noise, so their quotient is known much better than the two intervals suggest.
# Fieller's set makes use of that (docs/proofs/marginals.md, section 9).


@dataclass(frozen=True)
class Fieller:
    """Two Gaussian estimates whose quotient is wanted: a gap, and the gap without some rows."""

    gap: FloatArray
    without: FloatArray
    gap_variance: FloatArray
    without_variance: FloatArray
    covariance: FloatArray

    def shares(self, z: float) -> Ends:
        """All shares s with |without − (1 − s)·gap| at most z of its own standard deviations.

        Infinite ends where the gap itself is within z of 0: then no share is excluded.

        >>> pair = Fieller(*(np.array([number]) for number in (100.0, 40.0, 4.0, 4.0, 4.0)))
        >>> [round(float(end[0]), 3) for end in pair.shares(2.0)]
        [0.577, 0.625]
        """
        G, v = self.gap, self.gap_variance
        with np.errstate(divide="ignore", invalid="ignore"):
            # without = slope·gap + rest, and the noise of the rest is independent of the gap's.
            slope = np.where(v > 0.0, self.covariance / v, 0.0)
            rest = self.without - slope * G
            own = np.maximum(self.without_variance - slope * self.covariance, 0.0)
            clear = G**2 - z**2 * v
            reach = z * np.sqrt(np.maximum(G**2 * own + rest**2 * v - z**2 * own * v, 0.0))
            low, high = (1.0 - slope - (rest * G + side * reach) / clear for side in (1.0, -1.0))
        known = clear > 0.0
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def exact_shares(e: Estimates, weights: FloatArray, at_least: float, selected: IntArray, z: float) -> Ends:
    """COUNT and SUM: both gaps are Gaussian with known covariance, so Fieller's set is exact."""
    part = _Part.of(e.removed, selected)
    scale = float(weights @ weights)
    kept = 1.0 - part.share
    pair = Fieller(
        np.sum(weights[:, None] * part.total, axis=-2) - at_least,
        np.sum(weights[:, None] * (part.total - part.cell), axis=-2) - at_least,
        np.asarray(scale * part.total_variance),
        (scale * (kept**2 * part.total_variance + part.own_variance))[..., 0, :],
        (scale * kept * part.total_variance)[..., 0, :],
    )
    return pair.shares(z)


def first_order_shares(
    e: Estimates, weights: FloatArray, at_least: float, selected: IntArray, z: float
) -> Ends:
    """AVG: the range of the share within z standard errors of the estimates.

    Fieller's set of the linearised gaps gives each end, and the direction of the point where it is reached. A
    second gradient, taken at that point, corrects the direction. The share at the corrected point is the end,
    so it follows the curvature of the means. Only meaningful where every group's remainder exceeds its noise.
    """
    count, total = _Part.of(e.count, selected), _Part.of(e.removed, selected)
    origin = e.middle * float(weights.sum()) - at_least
    start = _MeanGaps(count, total, weights, origin)
    by_gap, by_without = start.derivatives(0.0, -1.0), start.derivatives(1.0, 0.0)
    pairs = ((by_gap, by_gap), (by_without, by_without), (by_gap, by_without))
    linear = Fieller(start.gap, start.without, *(start.covariance(*pair) for pair in pairs)).shares(z)
    ends = []
    for end in linear:
        kept = np.where(np.isfinite(end), 1.0 - end, 0.0)
        step = -z * np.sign(start.without - kept * start.gap)
        point = start.moved(kept, step, start)
        point = start.moved(kept, step, point)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 1.0 - point.without / point.gap
        ends.append(np.where(point.gap * start.gap > 0.0, share, np.nan))
    known = np.isfinite(linear[0]) & np.isfinite(ends[0]) & np.isfinite(ends[1])
    low, high = np.fmin(*ends), np.fmax(*ends)
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def divided_shares(without: Ends, gap: Ends) -> Ends:
    """All 1 − q/g with q and g inside their intervals; infinite ends where g may be 0.

    >>> [float(end) for end in divided_shares((np.array(1.0), np.array(3.0)), (np.array(4.0), np.array(5.0)))]
    [0.25, 0.8]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = [q / g for q in without for g in gap]
    known = (gap[0] > 0.0) | (gap[1] < 0.0)
    low, high = 1.0 - np.maximum.reduce(quotients), 1.0 - np.minimum.reduce(quotients)
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


@dataclass(frozen=True)
class _Part:
    """Counts or sums of the selected conditions: a cell is share·total plus noise of its own."""

    total: FloatArray  # (..., groups, 1 or k)
    cell: FloatArray  # (..., groups, k)
    total_variance: float
    share: FloatArray  # (..., 1, k)
    own_variance: FloatArray

    @classmethod
    def of(cls, part: CellEstimates, selected: IntArray) -> _Part:
        return cls(
            part.total[..., None],
            np.take_along_axis(part.cell, selected[..., None, :], axis=-1),
            part.total_variance,
            part.layout.share[selected][..., None, :],
            part.own_variance[selected][..., None, :],
        )

    def moved(self, pace: FloatArray, by: _Derivatives) -> _Part:
        """The estimates moved by pace · Σ · by."""
        shift = pace * self.total_variance * (by.total + self.share * by.cell)
        own = pace * self.own_variance * by.cell
        return replace(self, total=self.total + shift, cell=self.cell + self.share * shift + own)

    def covariance(self, left: _Derivatives, right: _Derivatives) -> FloatArray:
        load = (left.total + self.share * left.cell) * (right.total + self.share * right.cell)
        by_group = self.total_variance * load + self.own_variance * left.cell * right.cell
        return np.asarray(np.sum(by_group, axis=-2))


@dataclass(frozen=True)
class _Derivatives:
    """By every group's total and by its cell."""

    total: FloatArray
    cell: FloatArray


class _MeanGaps:
    """The two gaps of averages, and their derivatives, at a point."""

    def __init__(self, count: _Part, total: _Part, weights: FloatArray, origin: float) -> None:
        self.count, self.total, self._weights, self._origin = count, total, weights, origin
        w = weights[:, None]
        # Results with counts near 0 are not trusted; this only avoids a division by 0.
        self._n, self._c = np.maximum(count.total, 1.0), np.maximum(count.total - count.cell, 1.0)
        self._mean, self._mean_without = total.total / self._n, (total.total - total.cell) / self._c
        self.gap = np.asarray(np.sum(w * self._mean, axis=-2) + origin)
        self.without = np.asarray(np.sum(w * self._mean_without, axis=-2) + origin)

    def moved(self, kept: FloatArray, step: FloatArray, slope: _MeanGaps) -> _MeanGaps:
        """The point `step` standard errors away, in the direction where without − kept·gap rises fastest.

        The direction is taken at `slope`.
        """
        by = slope.derivatives(1.0, kept)
        scale = np.sqrt(self.covariance(by, by))
        pace = (step / np.where(scale > 0.0, scale, np.inf))[..., None, :]
        count, total = (part.moved(pace, own) for part, own in zip(self._parts, by, strict=True))
        return _MeanGaps(count, total, self._weights, self._origin)

    def derivatives(self, without: float, kept: FloatArray | float) -> tuple[_Derivatives, _Derivatives]:
        """By counts and by sums, of `without` times the gap without the rows, minus `kept` times the gap."""
        w, kept = self._weights[:, None], np.asarray(kept)[..., None, :] if np.ndim(kept) else kept
        at_gap, at_without = w / self._n, w / self._c
        by_c, by_n = -without * at_without * self._mean_without, kept * at_gap * self._mean
        by_V = without * at_without
        return _Derivatives(by_c + by_n, -by_c), _Derivatives(by_V - kept * at_gap, -by_V)

    def covariance(
        self, left: tuple[_Derivatives, _Derivatives], right: tuple[_Derivatives, _Derivatives]
    ) -> FloatArray:
        """The covariance of two numbers with these derivatives, by counts and by sums."""
        by_part = zip(self._parts, left, right, strict=True)
        return np.asarray(sum(part.covariance(first, second) for part, first, second in by_part))

    @property
    def _parts(self) -> tuple[_Part, _Part]:
        return self.count, self.total


# -- Stories -----------------------------------------------------------------------------------------------
#
# The gap among the rows that meet a condition, and among the rows that do not. Which condition a step takes
# depends on the same noise, so its statements hold for all conditions that it might have taken
# (docs/proofs/story.md).

_MEANS_FAIL_MORE_OFTEN = 10.0
"""Intervals of weighted means are nominal: at failures of 1e-5 and 1e-6, up to 5.5 times as many failed."""


@dataclass(frozen=True)
class RowsOfGroups:
    """Estimated rows, and their sums, in each group of a question; noise has one scale for all groups."""

    count: FloatArray  # (groups,)
    count_scale: float
    total: FloatArray | None = None  # None for COUNT
    total_scale: float = 0.0

    def without(self, part: RowsOfGroups) -> RowsOfGroups:
        """The other rows; the noises of the two estimates must be independent."""
        total = None
        if self.total is not None and part.total is not None:
            total = self.total - part.total
        return RowsOfGroups(
            self.count - part.count,
            math.hypot(self.count_scale, part.count_scale),
            total,
            math.hypot(self.total_scale, part.total_scale),
        )


@dataclass(frozen=True)
class Gap:
    """The question's value among some rows, and the number of these rows in all its groups together."""

    estimate: float
    interval: Interval
    rows: Interval


def all_rows(e: Estimates) -> RowsOfGroups:
    return _rows(e, lambda part: (part.total, part.total_scale))


def rows_with(e: Estimates, predicate: int) -> RowsOfGroups:
    return _rows(e, lambda part: (part.cell[:, predicate], float(part.cell_scale[predicate])))


def rows_without(e: Estimates, predicate: int) -> RowsOfGroups:
    """All other rows of the groups, from estimates of one level, whose noises are not independent."""
    return _rows(e, lambda part: (part.rest[:, predicate], float(part.rest_scale[predicate])))


def _rows(e: Estimates, values: Callable[[CellEstimates], tuple[FloatArray, float]]) -> RowsOfGroups:
    """The `values` of the counts and of the sums, each with the scale of its noise."""
    return RowsOfGroups(*values(e.count), *(() if e.total is None else values(e.total)))


def estimated_influences(
    e: Estimates, weights: FloatArray, among: RowsOfGroups, predicates: IntArray
) -> FloatArray:
    """The estimated influence of each predicate's rows on the question's value among the given rows."""
    count = replace(e.count, total=among.count, cell=e.count.cell[:, predicates])
    total = e.total
    if total is not None and among.total is not None:
        total = replace(total, total=among.total, cell=total.cell[:, predicates])
    return cautious_influence(replace(e, count=count, total=total), weights)


def gap_among(e: Estimates, weights: FloatArray, rows: RowsOfGroups, failure: float) -> Gap:
    """The gap and the number of rows, with intervals that each fail with probability at most `failure`."""
    z = failure_quantile(failure)
    number, reach = float(rows.count.sum()), z * rows.count_scale * math.sqrt(len(rows.count))
    row_bounds = (max(0.0, number - reach), max(0.0, number + reach))
    if e.kind == "avg":
        assert rows.total is not None
        scales = np.array(rows.total_scale), np.array(rows.count_scale)
        means = noisy_means(e, rows.total, rows.count, *scales)
        value, low, high = weighted_means(means, weights, failure / _MEANS_FAIL_MORE_OFTEN)
        return Gap(float(value), (float(low), float(high)), row_bounds)
    values, scale = (rows.count, rows.count_scale) if rows.total is None else (rows.total, rows.total_scale)
    gap, reach = float(values @ weights), z * math.hypot(*weights) * scale
    return Gap(gap, (gap - reach, gap + reach), row_bounds)


def expected_mean_gap_margin(weights: FloatArray, group: NoisyMean, failure: float) -> float:
    """The expected half-width of a gap of averages whose groups are all like the given one."""
    means = NoisyMeans.of([group] * len(weights))
    _, low, high = weighted_means(means, weights, failure / _MEANS_FAIL_MORE_OFTEN)
    return float(high - low) / 2.0


# -- Forecast ----------------------------------------------------------------------------------------------
#
# The split of ρ over counts and sums, the noise scales that follow, and the margins to expect, from public
# quantities only (docs/proofs/marginals.md, sections 1 and 8).

# SUM: counts only enter through m/(M + 1), multiplied by what one predicate removes per row of the largest
# group, typically a quarter of A or less. AVG without Phase-1 means: a centred mean of R/3.
_SUM_COUNT_SHARE = 0.2
_AVG_COUNT_SHARE = 0.4


def split_rho(kind: Kind, centred_means: Sequence[float] | None = None, half_width: float = 1.0) -> float:
    """The share of ρ for counts; the rest goes to sums.

    An AVG influence has variance σ_U² + v²·σ_a² up to a factor, v being the centred mean that remains. With
    v in units of R/2 (`half_width`) the best share is v/(1 + v). `centred_means` may come from Phase 1.

    >>> split_rho("count"), split_rho("sum"), round(split_rho("avg", [-0.05, -0.45], 0.5), 2)
    (1.0, 0.2, 0.39)
    """
    if kind == "count":
        return 1.0
    if kind == "sum":
        return _SUM_COUNT_SHARE
    if centred_means is None or not len(centred_means) or half_width <= 0.0:
        return _AVG_COUNT_SHARE
    typical = float(np.sqrt(np.mean(np.square(centred_means)))) / half_width
    share = typical / (1.0 + typical)
    return min(max(share, 0.2), 0.5)  # a mean is never beyond its bounds; and counts are always needed


@dataclass(frozen=True)
class MarginalCells:
    """The numbers measured in each cell: its count and, except for COUNT, its sum within two bounds."""

    kind: Kind
    low: float
    high: float
    overlap: int  # cells that one row is in
    max_rows: int = 1  # of one privacy unit, which moves cells that many times as far

    def scales(self, rho: float, count_share: float) -> tuple[float, float | None]:
        """σ of every cell's count and sum: one row moves `overlap` cells, each by 1 and by at most Δ_U.

        >>> MarginalCells("count", 0, 1, 8).scales(1.0, 1.0)
        (2.0, None)
        >>> MarginalCells("avg", 0, 2, 8).scales(2.0, 0.5)
        (2.0, 2.0)
        """
        moved = self.max_rows * math.sqrt(self.overlap)
        rows = gaussian_scale(moved, rho * count_share)
        if self.kind == "count":
            return rows, None
        largest = self.half_width if self.kind == "avg" else max(abs(self.low), abs(self.high))
        return rows, gaussian_scale(moved * largest, rho * (1.0 - count_share))

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2.0


@dataclass(frozen=True)
class ComparedGroups:
    """The values that Phase 1 released of the groups that a question compares."""

    counts: ArrayLike | None = None  # None for SUM, whose answers release no counts
    weights: Sequence[float] | None = None  # all 1 or −1 unless given
    centred_means: Sequence[float] | None = None  # around the middle of the bounds; R/3 unless given
    count_scale: float = 0.0
    total_scale: float = 0.0


@dataclass(frozen=True)
class MarginalForecast:
    """Expected half-widths for a predicate of few rows; they differ somewhat for predicates of many rows."""

    influence_margin: float
    rank_margin: float  # influences further apart than this are ranked with confidence
    gap_margin: float  # of the gap without a predicate's rows
    change_margin: float  # of the gap's change when they are left out: a smaller change is not clear
    count_scale: float
    total_scale: float | None
    is_trusted: bool  # False: a group is so small that the intervals will be the wide provable ones


def predict(
    cells: MarginalCells,
    groups: ComparedGroups,
    *,
    family_size: int,
    rho: float,
    confidence: float,
    count_share: float,
) -> MarginalForecast:
    """Margins of a release with the given ρ, for a question on groups of the given released sizes.

    Without counts m/(M + 1) is taken as 1, its upper limit. The scales of Phase 1 matter for the gap only,
    whose totals carry that noise.

    >>> means = [-0.05, -0.45]
    >>> share = split_rho("avg", means, 0.5)
    >>> cells, groups = MarginalCells("avg", 0, 1, 8), ComparedGroups([22379, 16117], centred_means=means)
    >>> f = predict(cells, groups, family_size=103, rho=0.02, confidence=0.95, count_share=share)
    >>> round(f.influence_margin), round(f.rank_margin), round(f.gap_margin, 4), f.is_trusted
    (53, 95, 0.0033, True)
    >>> round(f.change_margin, 4)
    0.0033
    """
    level, means = check_confidence(confidence), groups.centred_means
    counts = None if groups.counts is None else np.maximum(np.asarray(groups.counts, dtype=np.float64), 1.0)
    number = 2 if counts is None else len(counts)
    w = np.ones(number) if groups.weights is None else np.asarray(groups.weights, dtype=np.float64)
    half = cells.half_width
    rows, sums = cells.scales(rho, count_share)
    z = simultaneous_quantile(1.0 - SMOOTH_SHARE * (1.0 - level), family_size)
    z_pair = simultaneous_quantile(1.0 - SMOOTH_SHARE * (1.0 - level), family_size * (family_size + 1) // 2)
    smallest, largest = (1.0, 0.0) if counts is None else (counts.min(), counts.max())
    if cells.kind == "avg":
        assert sums is not None
        assert counts is not None, "AVG releases its counts in Phase 1"
        mean = np.full(number, 2 * half / 3) if means is None else np.asarray(means)
        own = np.hypot(sums, mean * rows) / counts
        first = np.hypot(groups.total_scale, mean * groups.count_scale) / counts
        change = z * math.hypot(*(w * own))
        spread = smallest * math.hypot(*(w * own))
        without = math.hypot(*(w * own), *(w * first))
    else:
        noise, first_noise = (rows, groups.count_scale) if sums is None else (sums, groups.total_scale)
        without = math.hypot(*w) * math.hypot(noise, first_noise)
        change = simultaneous_quantile(level, family_size) * math.hypot(*w) * noise
        spread = math.hypot(*w) * noise * (smallest / (largest + 1.0))
    return MarginalForecast(
        influence_margin=z * spread,
        rank_margin=z_pair * math.sqrt(2.0) * spread,
        gap_margin=simultaneous_quantile(level, family_size) * without,
        change_margin=change,
        count_scale=rows,
        total_scale=sums,
        is_trusted=bool(counts is None or smallest > CLEARANCE * z * rows),
    )
