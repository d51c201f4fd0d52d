"""The numbers of a story: the gap among the rows that meet a condition, and among the rows that do not.

Post-processing of released marginals, at no cost in privacy. Which condition a step takes depends on the same
noise, so its statements hold for all conditions that it might have taken (docs/proofs/story.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpxplain.privacy.intervals import Interval, NoisyMean, NoisyMeans
from dpxplain.privacy.marginals.estimates import Estimates, FloatArray, IntArray
from dpxplain.privacy.marginals.inference import cautious_influence, noisy_means, weighted_means
from dpxplain.privacy.normal import normal_quantile

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
    if e.total is None:
        return RowsOfGroups(e.count.total, e.count.total_scale)
    return RowsOfGroups(e.count.total, e.count.total_scale, e.total.total, e.total.total_scale)


def rows_with(e: Estimates, predicate: int) -> RowsOfGroups:
    scale = float(e.count.cell_scale[predicate])
    if e.total is None:
        return RowsOfGroups(e.count.cell[:, predicate], scale)
    own = e.total
    return RowsOfGroups(
        e.count.cell[:, predicate], scale, own.cell[:, predicate], float(own.cell_scale[predicate])
    )


def rows_without(e: Estimates, predicate: int) -> RowsOfGroups:
    """All other rows of the groups, from estimates of one level, whose noises are not independent."""
    scale = float(e.count.rest_scale[predicate])
    if e.total is None:
        return RowsOfGroups(e.count.rest[:, predicate], scale)
    own = e.total
    return RowsOfGroups(
        e.count.rest[:, predicate], scale, own.rest[:, predicate], float(own.rest_scale[predicate])
    )


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
    z = -normal_quantile(failure / 2.0)
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
