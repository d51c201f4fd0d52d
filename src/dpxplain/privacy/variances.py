"""Variances and standard deviations from a noisy count, centred sum and centred sum of squares.

Post-processing. The intervals are provable at every size of group: Fieller's for the mean and for the mean
square, both at once by the union bound (docs/proofs/shared-measurement.md, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.query import VarianceKind
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.privacy.intervals import NoisyMeans, check_confidence, weighted_means_intervals

FloatArray = NDArray[np.float64]


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


def variances(
    moments: NoisyMoments, kind: VarianceKind, confidence: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimate, lower and upper end of every group's variance or standard deviation."""
    is_sample, is_deviation = kind.endswith("samp"), kind.startswith("stddev")
    level = 1.0 - (1.0 - check_confidence(confidence)) / (3 if is_sample else 2)
    low, high = _population(moments, level)
    estimate = _plain(moments)
    if is_sample:
        fewest, most = _correction(moments, level)
        # With n of at least 2 rows, n/(n − 1) times a variance of at most (R/2)².
        low, high = low * most, np.minimum(high * fewest, 2.0 * moments.half_range**2)
        estimate = estimate * moments.count / np.maximum(moments.count - 1.0, 1.0)
    estimate = np.where(moments.count > 1.0, np.clip(estimate, low, high), (low + high) / 2.0)
    if is_deviation:
        return np.sqrt(estimate), np.sqrt(low), np.sqrt(high)
    return estimate, low, high


def _population(m: NoisyMoments, level: float) -> tuple[FloatArray, FloatArray]:
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


def _mean_ends(
    m: NoisyMoments, total: FloatArray, scale: float, reach: float, level: float
) -> tuple[FloatArray, FloatArray]:
    ones = np.ones_like(total)
    means = NoisyMeans(total, m.count, scale * ones, m.count_scale * ones, -reach * ones, reach * ones)
    each = NoisyMeans(*(np.asarray(part)[:, None] for part in vars(means).values()))
    return weighted_means_intervals(each, np.ones(1), level, "fieller")


def _correction(m: NoisyMoments, level: float) -> tuple[FloatArray, FloatArray]:
    """n/(n − 1) at the fewest and at the most rows that the group may have, at least 2 each."""
    reach = two_sided_quantile(level) * m.count_scale
    fewest, most = np.maximum(m.count - reach, 2.0), np.maximum(m.count + reach, 2.0)
    return fewest / (fewest - 1.0), most / (most - 1.0)


def _plain(m: NoisyMoments) -> FloatArray:
    count = np.maximum(m.count, 1.0)
    return np.asarray((m.squares / count + m.square_reach) / 2.0 - (m.total / count) ** 2)
