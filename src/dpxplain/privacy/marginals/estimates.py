"""Group totals and cells estimated from released marginals, and what they say about influences: provable
ranges and first-order intervals.

Pure maths on released values and their noise scales (docs/proofs/marginals.md). Arrays may carry leading
axes of repeated releases; their last axes are group and predicate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpxplain.model.release import BoolArray, FloatArray, IntArray
from dpxplain.privacy.calibration import failure_quantile
from dpxplain.privacy.intervals import Ends

# -- Estimates ---------------------------------------------------------------------------------------------
#
# Best linear estimates of group totals and consistent cells, with exact covariances (section 2 of the proof).

Kind = Literal["count", "sum", "avg"]
UnionOfCells = tuple[int, Sequence[int]]  # a subset and the cells of it that a predicate joins

_LEAST_SCALE = 1e-100  # stands in for 0, the scale of a column whose bounds coincide


@dataclass(frozen=True)
class PreparedGroups:
    """Everything released about the groups of one question, in the unit of the column.

    A subset's cells partition each group: the last cell holds the rows with an undeclared value. Sums are
    centred on the middle of the bounds for AVG. Phase 1 has counts for COUNT and AVG, sums for SUM and AVG.
    """

    kind: Kind
    low: float  # declared bounds of x; COUNT ignores them
    high: float
    count: FloatArray | None  # Phase 1, (groups,)
    count_scale: float | None
    total: FloatArray | None
    total_scale: float | None
    cell_count: tuple[FloatArray, ...]  # one array per subset, (groups, cells + 1)
    cell_count_scale: float
    cell_total: tuple[FloatArray, ...] | None = None  # None for COUNT
    cell_total_scale: float | None = None

    @property
    def value_low(self) -> float:
        """The least a row adds to a released sum."""
        return (self.low - self.high) / 2.0 if self.kind == "avg" else self.low

    @property
    def value_high(self) -> float:
        """The most a row adds to a released sum."""
        return (self.high - self.low) / 2.0 if self.kind == "avg" else self.high


@dataclass(frozen=True)
class Layout:
    """Which released cells make up each predicate.

    >>> Layout.of([3, 4]).size  # two values and three values, and the rows outside
    5
    >>> Layout.of([3, 4], [(1, [0, 1]), (1, [1, 2])]).joined.tolist()
    [2.0, 2.0]
    """

    subset: IntArray  # per predicate
    joined: FloatArray  # cells it joins
    cells: FloatArray  # cells of its subset, the outside one included
    columns: IntArray  # the cells of each predicate, among the cells of all subsets, one after the other

    @classmethod
    def of(cls, sizes: Sequence[int], predicates: Sequence[UnionOfCells] | None = None) -> Layout:
        """One predicate per declared cell, or the given unions of cells of one subset each."""
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if predicates is None:
            subset = np.repeat(np.arange(len(sizes)), np.asarray(sizes) - 1)
            columns = np.concatenate([np.arange(b, e - 1) for b, e in itertools.pairwise(start)])
            joined = np.ones(len(columns), dtype=np.int64)
        else:
            subset = np.array([s for s, _ in predicates], dtype=np.int64)
            columns = np.concatenate([start[s] + np.asarray(chosen) for s, chosen in predicates])
            joined = np.array([len(chosen) for _, chosen in predicates], dtype=np.int64)
        return cls(
            subset=subset.astype(np.int64),
            joined=joined.astype(np.float64),
            cells=np.asarray(sizes, dtype=np.float64)[subset],
            columns=columns.astype(np.int64),
        )

    @property
    def size(self) -> int:
        """The number of predicates."""
        return len(self.subset)

    @property
    def share(self) -> FloatArray:
        """u/B: the fraction of a change of the total by which a consistent cell changes."""
        return self.joined / self.cells

    def own(self, chosen: IntArray) -> FloatArray:
        """Covariance of the cells' own noise, in σ²: |p ∩ q| − u_p·u_q/B within a subset, else 0."""
        rows, position = np.unique(chosen, return_inverse=True)
        ends = np.cumsum(self.joined).astype(np.int64)
        contains = np.zeros((len(rows), int(self.columns.max(initial=-1)) + 1))
        for line, row in zip(contains, rows, strict=True):
            np.add.at(line, self.columns[ends[row] - int(self.joined[row]) : ends[row]], 1.0)
        shared = self.add_up(contains)
        same_subset = self.subset[rows][:, None] == self.subset
        shared -= same_subset * (self.joined[rows][:, None] * self.share)
        return shared[position.reshape(chosen.shape)]

    def add_up(self, cells: FloatArray) -> FloatArray:
        """The sums over each predicate's cells, of an array whose last axis is the cells of all subsets."""
        if self.size == len(self.columns) and np.all(self.joined == 1.0):
            return cells[..., self.columns]
        nonempty = self.joined > 0.0  # `reduceat` has no empty sums
        starts = (np.cumsum(self.joined) - self.joined).astype(np.int64)[nonempty]
        sums = np.zeros((*cells.shape[:-1], self.size))
        sums[..., nonempty] = np.add.reduceat(cells[..., self.columns], starts, axis=-1)
        return sums


@dataclass(frozen=True)
class CellEstimates:
    """Estimates of one kind of number, counts or sums, per group and per predicate of a group.

    A consistent cell is share·total plus noise of its own, which is independent of the total and of the
    cells of other subsets: two numbers describe every covariance.
    """

    total: FloatArray  # (..., groups)
    total_variance: float
    cell: FloatArray  # (..., groups, predicates)
    cell_noise: float  # σ of a released cell
    layout: Layout

    @property
    def own_variance(self) -> FloatArray:
        """The variance of a predicate's own noise: σ²·(u − u²/B)."""
        return self.cell_noise**2 * (self.layout.joined * (1.0 - self.layout.share))

    @property
    def total_scale(self) -> float:
        """σ of a total."""
        return math.sqrt(self.total_variance)

    @property
    def cell_scale(self) -> FloatArray:
        """σ of a predicate's part of a group."""
        return np.sqrt(self.layout.share**2 * self.total_variance + self.own_variance)

    @property
    def rest(self) -> FloatArray:
        """Each group's total without the predicate's rows."""
        return self.total[..., None] - self.cell

    @property
    def rest_scale(self) -> FloatArray:
        """σ of `rest`."""
        return np.sqrt((1.0 - self.layout.share) ** 2 * self.total_variance + self.own_variance)


@dataclass(frozen=True)
class Estimates:
    """Estimated rows and sums of every (group, predicate)."""

    kind: Kind
    count: CellEstimates
    total: CellEstimates | None  # None for COUNT
    value_low: float  # what one row may add to a sum
    value_high: float
    middle: float  # the value on which sums are centred

    @property
    def removed(self) -> CellEstimates:
        """The part that the question's value is made of: counts for COUNT, sums for SUM and AVG."""
        return self.count if self.total is None else self.total

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.count.total.shape[-1])


def estimate(groups: PreparedGroups, predicates: Sequence[UnionOfCells] | None = None) -> Estimates:
    """Combines Phase 1 and every subset into one total per group, and adjusts the cells to add up to it.

    >>> cells = np.array([[30.0, 50.0, 2.0]])
    >>> both = PreparedGroups("count", 0, 1, np.array([100.0]), 1.0, None, None, (cells,), 1.0)
    >>> count = estimate(both).count
    >>> count.total.round(1).tolist(), count.cell.round(1).tolist(), round(count.total_variance, 2)
    ([95.5], [[34.5, 54.5]], 0.75)
    """
    layout = Layout.of([cells.shape[-1] for cells in groups.cell_count], predicates)
    count = _measure(groups.cell_count, groups.cell_count_scale, groups.count, groups.count_scale, layout)
    total = None
    if groups.cell_total is not None and groups.cell_total_scale is not None:
        total = _measure(groups.cell_total, groups.cell_total_scale, groups.total, groups.total_scale, layout)
    middle = (groups.low + groups.high) / 2.0 if groups.kind == "avg" else 0.0
    return Estimates(groups.kind, count, total, groups.value_low, groups.value_high, middle)


def _measure(
    subsets: tuple[FloatArray, ...],
    noise: float,
    first: FloatArray | None,
    first_scale: float | None,
    layout: Layout,
) -> CellEstimates:
    """Generalised least squares under "each subset's cells add up to the total" (proof, theorem 2)."""
    noise = max(noise, _LEAST_SCALE)
    sums = [cells.sum(axis=-1) for cells in subsets]
    precision = [1.0 / (cells.shape[-1] * noise**2) for cells in subsets]
    if first is not None and first_scale is not None:
        sums.append(first)
        precision.append(1.0 / max(first_scale, _LEAST_SCALE) ** 2)
    variance = 1.0 / math.fsum(precision)
    total = np.asarray(sum(p * value for p, value in zip(precision, sums, strict=True)) * variance)
    consistent = [
        cells + ((total - added) / cells.shape[-1])[..., None]
        for cells, added in zip(subsets, sums, strict=False)
    ]
    cell = layout.add_up(np.concatenate(consistent, axis=-1))
    return CellEstimates(total, variance, cell, noise, layout)


# -- Provable ranges ---------------------------------------------------------------------------------------
#
# By interval arithmetic on simultaneous boxes around all released parts. The boxes contain rows and sums of
# all groups, with and without every predicate, at once. They give the interval where the first-order one is
# not trusted, and bound the effect of the minimum and maximum in the definition of influence
# (docs/proofs/marginals.md, sections 4 and 5).


def simultaneous_quantile(confidence: float, number: int) -> float:
    """z such that `number` Gaussians, however correlated, all lie within ±zσ at `confidence` (Šidák).

    >>> round(simultaneous_quantile(0.95, 1), 3), round(simultaneous_quantile(0.95, 103), 3)
    (1.96, 3.482)
    """
    return failure_quantile(-math.expm1(math.log(confidence) / number))


@dataclass(frozen=True)
class Boxes:
    """Ranges of the parts of all (group, predicate), simultaneous, cut to what bounds and signs allow."""

    n: Ends  # rows of the group, (..., groups, 1)
    a: Ends  # rows with the predicate, (..., groups, predicates)
    c: Ends  # rows without it
    S: Ends | None  # sums over the same
    U: Ends | None
    V: Ends | None
    x: Ends  # Σ w·(sum over p), (..., predicates): what COUNT and SUM lose

    @property
    def smallest(self) -> Ends:
        """m, the rows of the smallest remaining group."""
        return self.c[0].min(axis=-2), self.c[1].min(axis=-2)

    @property
    def largest(self) -> Ends:
        """M, the rows of the largest group."""
        return self.n[0].max(axis=-2), self.n[1].max(axis=-2)


def boxes(e: Estimates, weights: FloatArray, confidence: float) -> Boxes:
    """Gaussian boxes by Šidák's inequality, cut to a + c = n, U + V = S, rows ≥ 0, sums within bounds."""
    kinds = 1 if e.total is None else 2
    number = kinds * e.groups * (2 * e.count.layout.size + 1) + e.count.layout.size
    z = simultaneous_quantile(confidence, number)
    n, a, c = _box(e.count, z)
    n, a, c = ((np.maximum(low, 0.0), np.maximum(high, 0.0)) for low, high in (n, a, c))
    a, c = _meet(a, _minus(n, c)), _meet(c, _minus(n, a))
    removed = e.removed
    x = np.einsum("g,...gp->...p", weights, removed.cell)
    reach = z * math.hypot(*weights) * removed.cell_scale
    around = (x - reach, x + reach)
    if e.total is None:
        return Boxes(n, a, c, None, None, None, _meet(around, _weighted(a, weights)))
    S, U, V = _box(e.total, z)
    value = np.array(e.value_low), np.array(e.value_high)
    S, U, V = _meet(S, _times(n, value)), _meet(U, _times(a, value)), _meet(V, _times(c, value))
    U, V = _meet(U, _minus(S, V)), _meet(V, _minus(S, U))
    return Boxes(n, a, c, S, U, V, _meet(around, _weighted(U, weights)))


def _box(part: CellEstimates, z: float) -> tuple[Ends, Ends, Ends]:
    """Total, with the predicate, without it."""
    total, cell, rest = part.total[..., None], part.cell, part.rest
    total_reach, cell_reach, rest_reach = z * part.total_scale, z * part.cell_scale, z * part.rest_scale
    return (
        (total - total_reach, total + total_reach),
        (cell - cell_reach, cell + cell_reach),
        (rest - rest_reach, rest + rest_reach),
    )


def provable(e: Estimates, weights: FloatArray, box: Boxes, *, fixed: bool = False) -> Ends:
    """The range of every predicate's influence over the boxes (proof, theorem 5).

    `fixed` puts the estimated M in place of the true one, a common factor that no rank depends on.
    """
    m = box.smallest
    if e.kind != "avg":
        if fixed:
            scale = 1.0 / (np.maximum(e.count.total.max(axis=-1), 0.0)[..., None] + 1.0)
            share = m[0] * scale, m[1] * scale
        else:  # m ≤ M, so the share is largest at M = max(its lower end, m)
            share = m[0] / (box.largest[1] + 1.0), m[1] / (np.maximum(box.largest[0], m[1]) + 1.0)
        return _times(box.x, share)
    assert box.S is not None
    assert box.U is not None
    R = e.value_high - e.value_low
    a, c = box.a, box.c
    m = m[0][..., None, :], m[1][..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        # m·T = (m/c)·Y with Y = U − a·S/n = (a·c/n)·(mean with p − mean without p): |Y| ≤ R·a·c/(a + c).
        largest = R * np.nan_to_num(a[1] * c[1] / (a[1] + c[1]))
        relative = np.nan_to_num(m[0] / c[1]), np.where(c[0] > 0, np.minimum(m[1] / c[0], 1.0), 1.0)
    mean = _ratio(box.S, box.n, e)
    by_rows = _times(relative, _meet(_minus(box.U, _times(a, mean)), (-largest, largest)))
    by_means = _times(m, _change(e, box))
    return _weighted(_meet(by_rows, by_means), weights)


def _change(e: Estimates, box: Boxes) -> Ends:
    """T, the change of each group's mean: |T| ≤ R·a/n."""
    assert box.S is not None
    assert box.V is not None
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(box.a[1] / (box.a[1] + box.c[0]), nan=1.0)
    largest = (e.value_high - e.value_low) * share
    return _meet(_minus(_ratio(box.S, box.n, e), _ratio(box.V, box.c, e)), (-largest, largest))


def _ratio(total: Ends, count: Ends, e: Estimates) -> Ends:
    """The range of a mean, within the bounds of x; the bounds themselves where the count may be zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.minimum(total[0] / count[0], total[0] / count[1])
        high = np.maximum(total[1] / count[0], total[1] / count[1])
    positive = count[0] > 0.0
    least, most = e.value_low, e.value_high
    low, high = np.clip(low, least, most), np.clip(high, least, most)
    return np.where(positive, low, least), np.where(positive, high, most)


def tie_allowance(e: Estimates, weights: FloatArray, box: Boxes, *, fixed: bool = False) -> Ends:
    """How far the influence may differ from the one that takes m from group h, estimated to remain smallest.

    c_h − δ ≤ m ≤ c_h, where δ = 0 once the boxes of the other groups' remainders lie above that of h.
    For COUNT and SUM it is divided by n_H + 1, at least the lower end of its box plus 1. With `fixed` the
    estimated M takes its place, as in `provable`.
    """
    smallest = e.count.rest.argmin(axis=-2)[..., None, :]
    up = np.take_along_axis(box.c[1], smallest, axis=-2)
    others = np.where(np.arange(e.groups)[:, None] == smallest, np.inf, box.c[0])
    gap = np.maximum(up - others.min(axis=-2, keepdims=True), 0.0)[..., 0, :]
    if e.kind == "avg":
        change = _weighted(_change(e, box), weights)
    else:
        size = e.count.total.max(axis=-1)[..., None] if fixed else _largest_size(e, box)
        most = np.maximum(size, 0.0) + 1.0
        change = box.x[0] / most, box.x[1] / most
    return _times((-gap, np.zeros_like(gap)), change)


def _largest_size(e: Estimates, box: Boxes) -> FloatArray:
    """The lower end of the size of H, the group that is estimated to be largest."""
    return np.take_along_axis(box.n[0][..., 0], e.count.total.argmax(axis=-1)[..., None], axis=-1)


def largest_allowance(e: Estimates, box: Boxes, interval: Ends) -> Ends:
    """COUNT and SUM: widens an interval that took M from the group H of largest estimated size.

    The true factor is smaller by (n_H + 1)/(M + 1) ≥ 1/(1 + δ/(n_H + 1)) with δ ≥ M − n_H.
    """
    largest = e.count.total.argmax(axis=-1)[..., None]
    low = _largest_size(e, box)
    others = np.where(np.arange(e.groups) == largest, -np.inf, box.n[1][..., 0]).max(axis=-1, keepdims=True)
    factor = (low + 1.0) / (np.maximum(others, low) + 1.0)
    return np.minimum(interval[0], interval[0] * factor), np.maximum(interval[1], interval[1] * factor)


def _meet(left: Ends, right: Ends) -> Ends:
    """The intersection of two ranges; `left` where it is empty, which happens only if the boxes failed."""
    low, high = np.maximum(left[0], right[0]), np.minimum(left[1], right[1])
    empty = low > high
    return np.where(empty, left[0], low), np.where(empty, left[1], high)


def _minus(left: Ends, right: Ends) -> Ends:
    return left[0] - right[1], left[1] - right[0]


def _times(left: Ends, right: Ends) -> Ends:
    corners = [p * q for p in left for q in right]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _weighted(ends: Ends, weights: FloatArray) -> Ends:
    """Interval arithmetic: Σ w·[low, high] over the groups."""
    at_low, at_high = weights[:, None] * ends[0], weights[:, None] * ends[1]
    return np.minimum(at_low, at_high).sum(axis=-2), np.maximum(at_low, at_high).sum(axis=-2)


# -- First-order intervals ---------------------------------------------------------------------------------
#
# Plug-in influences, their gradients, and the exact covariances of their parts. An interval is the range
# of the influence within z standard errors of the estimates. Unlike a symmetric interval it follows the
# curvature of the influence (docs/proofs/marginals.md, section 3).

# How much the gradient may turn, in units of the noise, between the estimate and z standard errors away.
STEADY_COSINE = 0.8


@dataclass(frozen=True)
class Parts:
    """Rows n and sum S of each group, rows a and sum U of each predicate in it; or derivatives by them."""

    n: FloatArray  # (..., groups, predicates), or 1 in place of predicates
    a: FloatArray
    S: FloatArray | None = None  # None for COUNT
    U: FloatArray | None = None


@dataclass(frozen=True)
class Slope:
    """Influences at some point and their derivatives there."""

    influence: FloatArray  # (..., predicates)
    by: Parts


def smooth_interval(e: Estimates, weights: FloatArray, z: float) -> tuple[FloatArray, FloatArray, BoolArray]:
    """The least and largest influence within z standard errors of the estimates, and whether it is steady.

    Two gradient steps lead to the extreme point: the first finds the direction, the second corrects it. That
    suffices where the gradient hardly turns in between. Elsewhere the influence is not steady: COUNT of one
    group peaks where half of its rows match, and near the peak the first order is useless.
    """
    start = slope_at(e, weights, estimated(e))
    ends, steady = [], np.asarray(True)
    for step in (-z, z):
        first = slope_at(e, weights, _moved(e, start, step))
        ends.append(slope_at(e, weights, _moved(e, first, step)).influence)
        lengths = np.sqrt(variances(e, start) * variances(e, first))
        steady = steady & (_covariances(e, start, first) >= STEADY_COSINE * lengths)
    return ends[0], ends[1], steady


def estimated(e: Estimates) -> Parts:
    """The estimates as a point."""
    if e.total is None:
        return Parts(e.count.total[..., None], e.count.cell)
    return Parts(e.count.total[..., None], e.count.cell, e.total.total[..., None], e.total.cell)


def _moved(e: Estimates, slope: Slope, step: float) -> Parts:
    """The point `step` standard errors from the estimates in the steepest direction: Σg·step/√(gᵀΣg)."""
    scale = np.sqrt(variances(e, slope))
    pace = step / np.where(scale > 0.0, scale, np.inf)[..., None, :]

    def move(part: CellEstimates, by_total: FloatArray, by_cell: FloatArray) -> tuple[FloatArray, FloatArray]:
        shift = pace * part.total_variance * _load(part, by_total, by_cell)
        own = pace * part.own_variance * by_cell
        return part.total[..., None] + shift, part.cell + part.layout.share * shift + own

    return Parts(*(moved for triple in _triples(e, slope) for moved in move(*triple)))


def slope_at(e: Estimates, weights: FloatArray, point: Parts, *, fixed: bool = False) -> Slope:
    """Influence (docs/specification.md) and its derivatives, with the minimum and the maximum resolved.

    m is the remainder of the group where its estimate is smallest, M the size of the group whose estimated
    size is largest; nearby points use the same groups. `fixed` makes M a constant. Only meaningful where
    remainders exceed their noise.
    """
    w = weights[:, None]
    smallest, largest = _indicator(-e.count.rest), _indicator(e.count.total[..., None])
    n, c = np.maximum(point.n, 1.0), np.maximum(point.n - point.a, 1.0)
    m = np.sum(smallest * c, axis=-2, keepdims=True)
    if e.kind == "avg":
        assert point.S is not None
        assert point.U is not None
        S, V = point.S, point.S - point.U
        T = np.sum(w * (S / n - V / c), axis=-2, keepdims=True)
        by_a = -m * w * V / c**2 - smallest * T
        by_n = -m * w * S / n**2 - by_a
        return Slope((m * T)[..., 0, :], Parts(by_n, by_a, m * w * (1.0 / n - 1.0 / c), m * w / c))
    removed = point.a if point.U is None else point.U
    x = np.sum(w * removed, axis=-2, keepdims=True)
    M = np.sum(largest * (e.count.total[..., None] if fixed else n), axis=-2, keepdims=True)
    share = 1.0 / (np.maximum(M, 1.0) + 1.0)
    by_n = smallest * x * share - (0.0 if fixed else largest * x * m * share**2)
    by_a, by_removed = -smallest * x * share, w * m * share
    influence = (x * m * share)[..., 0, :]
    if point.U is None:
        return Slope(influence, Parts(by_n, by_a + by_removed))
    return Slope(influence, Parts(by_n, by_a, np.zeros_like(by_removed), by_removed))


def variances(e: Estimates, slope: Slope) -> FloatArray:
    """The first-order variance of every plug-in influence."""
    return _covariances(e, slope, slope)


def _covariances(e: Estimates, left: Slope, right: Slope) -> FloatArray:
    """gᵀΣg′ for every predicate (proof, section 2: a cell is share·total + noise of its own)."""
    covariance = np.zeros(())
    for (part, *first), (_, *second) in zip(_triples(e, left), _triples(e, right), strict=True):
        load = part.total_variance * _load(part, *first) * _load(part, *second)
        covariance = covariance + np.sum(load + part.own_variance * first[1] * second[1], axis=-2)
    return np.asarray(covariance)


def difference_variances(e: Estimates, slope: Slope, chosen: IntArray) -> FloatArray:
    """The variance of each chosen influence minus every influence, (..., chosen, predicates)."""
    own = e.count.layout.own(chosen)
    shared = np.zeros(())
    for part, by_total, by_cell in _triples(e, slope):
        load = _load(part, by_total, by_cell)
        chosen_load, cell = (np.take_along_axis(d, chosen[..., None, :], axis=-1) for d in (load, by_cell))
        shared = shared + part.total_variance * np.einsum("...gk,...gp->...kp", chosen_load, load)
        shared = shared + part.cell_noise**2 * own * np.einsum("...gk,...gp->...kp", cell, by_cell)
    every = variances(e, slope)
    of_chosen = np.take_along_axis(every, chosen, axis=-1)[..., None]
    return np.maximum(of_chosen + every[..., None, :] - 2.0 * shared, 0.0)


def _triples(e: Estimates, slope: Slope) -> list[tuple[CellEstimates, FloatArray, FloatArray]]:
    """Counts, then sums, each with the derivatives by total and by cell."""
    by = slope.by
    triples = [(e.count, by.n, by.a)]
    if e.total is not None and by.S is not None and by.U is not None:
        triples.append((e.total, by.S, by.U))
    return triples


def _load(part: CellEstimates, by_total: FloatArray, by_cell: FloatArray) -> FloatArray:
    """The derivative by the total when the cell changes by its share."""
    return by_total + part.layout.share * by_cell


def _indicator(values: FloatArray) -> FloatArray:
    """1 in the group where a predicate's value is largest (the first of equals), else 0."""
    first = values.argmax(axis=-2)[..., None, :]
    return np.asarray(np.arange(values.shape[-2])[:, None] == first, dtype=np.float64)
