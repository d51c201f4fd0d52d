"""Best linear estimates from released marginals: group totals and consistent cells, with exact covariances.

Pure maths on released values and their noise scales (docs/proofs/marginals.md, section 2). Arrays may carry
leading axes of repeated releases; their last axes are group and predicate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpxplain.model.arrays import FloatArray, IntArray

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
        some = self.joined > 0.0  # `reduceat` has no empty sums
        starts = (np.cumsum(self.joined) - self.joined).astype(np.int64)[some]
        sums = np.zeros((*cells.shape[:-1], self.size))
        sums[..., some] = np.add.reduceat(cells[..., self.columns], starts, axis=-1)
        return sums


@dataclass(frozen=True)
class Measured:
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
    count: Measured
    total: Measured | None  # None for COUNT
    value_low: float  # what one row may add to a sum
    value_high: float
    middle: float  # the value on which sums are centred

    @property
    def removed(self) -> Measured:
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
) -> Measured:
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
    return Measured(total, variance, cell, noise, layout)
