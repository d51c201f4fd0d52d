"""Noise scales and expected margins of a release of marginals, from public quantities only.

The split of ρ over counts and sums, the noise scales that follow, and the margins to expect (SPEC section 6;
docs/proofs/marginals.md, sections 1 and 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpxplain.privacy.calibration import gaussian_scale
from dpxplain.privacy.intervals import check_confidence
from dpxplain.privacy.marginals.boxes import simultaneous_quantile
from dpxplain.privacy.marginals.estimates import Kind
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


def scales(
    kind: Kind, low: float, high: float, overlap: int, rho: float, count_share: float, *, max_rows: int = 1
) -> tuple[float, float | None]:
    """σ of every cell's count and sum: one row moves `overlap` cells, each by 1 and by at most Δ_U.

    A privacy unit of up to `max_rows` rows moves them that many times as far (SPEC section 7).

    >>> scales("count", 0, 1, 8, 1.0, 1.0)
    (2.0, None)
    >>> scales("avg", 0, 2, 8, 2.0, 0.5)
    (2.0, 2.0)
    """
    moved = max_rows * math.sqrt(overlap)
    rows = gaussian_scale(moved, rho * count_share)
    if kind == "count":
        return rows, None
    largest = (high - low) / 2.0 if kind == "avg" else max(abs(low), abs(high))
    return rows, gaussian_scale(moved * largest, rho * (1.0 - count_share))


@dataclass(frozen=True)
class MarginalForecast:
    """Half-widths to expect for a predicate of few rows; those of many rows come out somewhat different."""

    influence_margin: float
    rank_margin: float  # influences further apart than this are ranked with confidence
    gap_margin: float  # of the gap without a predicate's rows
    count_scale: float
    total_scale: float | None
    trusted: bool  # False: a group is so small that the intervals will be the wide provable ones


def predict(
    kind: Kind,
    low: float,
    high: float,
    family_size: int,
    overlap: int,
    rho: float,
    confidence: float,
    group_counts: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    centred_means: Sequence[float] | None = None,
    count_share: float | None = None,
    max_rows: int = 1,
    first_count_scale: float = 0.0,
    first_total_scale: float = 0.0,
) -> MarginalForecast:
    """Margins of a release with the given ρ, for a question on groups of the given released sizes.

    `weights` are all 1 or −1 unless given. SUM answers release no counts: m/(M + 1) is then taken as 1, the
    most it can be. `centred_means` are those of Phase 1, around the middle of the bounds; R/3 if not given.
    The scales of Phase 1 matter for the gap only, whose totals carry that noise.

    >>> f = predict("avg", 0, 1, 103, 8, 0.02, 0.95, [22379, 16117], centred_means=[-0.05, -0.45])
    >>> round(f.influence_margin), round(f.rank_margin), round(f.gap_margin, 4), f.trusted
    (53, 95, 0.0033, True)
    """
    level = check_confidence(confidence)
    counts = None if group_counts is None else np.maximum(np.asarray(group_counts, dtype=np.float64), 1.0)
    number = 2 if counts is None else len(counts)
    w = np.ones(number) if weights is None else np.asarray(weights, dtype=np.float64)
    half = (high - low) / 2.0
    share = split_rho(kind, centred_means, half) if count_share is None else count_share
    rows, sums = scales(kind, low, high, overlap, rho, share, max_rows=max_rows)
    z = simultaneous_quantile(1.0 - SMOOTH_SHARE * (1.0 - level), family_size)
    z_pair = simultaneous_quantile(1.0 - SMOOTH_SHARE * (1.0 - level), family_size * (family_size + 1) // 2)
    smallest, largest = (1.0, 0.0) if counts is None else (counts.min(), counts.max())
    if kind == "avg":
        assert sums is not None
        assert counts is not None, "AVG releases its counts in Phase 1"
        mean = np.full(number, 2 * half / 3) if centred_means is None else np.asarray(centred_means)
        own = np.hypot(sums, mean * rows) / counts
        first = np.hypot(first_total_scale, mean * first_count_scale) / counts
        spread = smallest * math.hypot(*(w * own))
        without = math.hypot(*(w * own), *(w * first))
    else:
        noise, first_noise = (rows, first_count_scale) if sums is None else (sums, first_total_scale)
        without = math.hypot(*w) * math.hypot(noise, first_noise)
        spread = math.hypot(*w) * noise * (smallest / (largest + 1.0))
    return MarginalForecast(
        influence_margin=z * spread,
        rank_margin=z_pair * math.sqrt(2.0) * spread,
        gap_margin=simultaneous_quantile(level, family_size) * without,
        count_scale=rows,
        total_scale=sums,
        trusted=bool(counts is None or smallest > CLEARANCE * z * rows),
    )
