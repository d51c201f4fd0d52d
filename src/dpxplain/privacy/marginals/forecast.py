"""Noise scales and expected margins of a release of marginals, from public quantities only.

The split of ρ over counts and sums, the noise scales that follow, and the margins to expect
(docs/proofs/marginals.md, sections 1 and 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpxplain.privacy.calibration import gaussian_scale
from dpxplain.privacy.intervals import check_confidence
from dpxplain.privacy.marginals.estimates import Kind, simultaneous_quantile
from dpxplain.privacy.marginals.inference import CLEARANCE, SMOOTH_SHARE

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
    """What is measured in each cell: its count and, except for COUNT, its sum within two bounds."""

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
    """What Phase 1 released about the groups that a question compares."""

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
    trusted: bool  # False: a group is so small that the intervals will be the wide provable ones


def predict(
    cells: MarginalCells,
    groups: ComparedGroups,
    *,
    family_size: int,
    rho: float,
    confidence: float,
    count_share: float | None = None,
) -> MarginalForecast:
    """Margins of a release with the given ρ, for a question on groups of the given released sizes.

    Without counts m/(M + 1) is taken as 1, its upper limit. The scales of Phase 1 matter for the gap only,
    whose totals carry that noise.

    >>> groups = ComparedGroups([22379, 16117], centred_means=[-0.05, -0.45])
    >>> f = predict(MarginalCells("avg", 0, 1, 8), groups, family_size=103, rho=0.02, confidence=0.95)
    >>> round(f.influence_margin), round(f.rank_margin), round(f.gap_margin, 4), f.trusted
    (53, 95, 0.0033, True)
    >>> round(f.change_margin, 4)
    0.0033
    """
    level, means = check_confidence(confidence), groups.centred_means
    counts = None if groups.counts is None else np.maximum(np.asarray(groups.counts, dtype=np.float64), 1.0)
    number = 2 if counts is None else len(counts)
    w = np.ones(number) if groups.weights is None else np.asarray(groups.weights, dtype=np.float64)
    half = cells.half_width
    share = split_rho(cells.kind, means, half) if count_share is None else count_share
    rows, sums = cells.scales(rho, share)
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
        trusted=bool(counts is None or smallest > CLEARANCE * z * rows),
    )
