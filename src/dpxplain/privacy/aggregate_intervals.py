"""Intervals of shares, variances and quantiles from noisy counts, sums and histograms. Post-processing.

They hold for groups of any size. Proof for shares: docs/proofs/quality.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpxplain.model.arrays import FloatArray
from dpxplain.model.query import VarianceKind
from dpxplain.privacy.calibration import gaussian_scale, two_sided_quantile
from dpxplain.privacy.intervals import NoisyMeans, check_confidence, weighted_means_intervals

_OF_COUNT = 0.9  # the count's share of the error probability; the total is known far better
_FEWEST, _MOST = 64, 1024  # bins
_TYPICAL_GROUP = 5_000  # rows; the number of bins is chosen for such a group


@dataclass(frozen=True)
class NoisyCount:
    """A released count and the σ of its noise."""

    value: float
    scale: float


def pooled_total(partitions: Sequence[Sequence[NoisyCount]]) -> NoisyCount:
    """The number of all rows, from several partitions of them, weighted by inverse variance.

    >>> pooled_total([[NoisyCount(6.0, 1.0), NoisyCount(4.0, 1.0)]])
    NoisyCount(value=10.0, scale=1.414213562373095)
    """
    sums = [math.fsum(count.value for count in part) for part in partitions]
    variances = [math.fsum(count.scale**2 for count in part) for part in partitions]
    precision = math.fsum(1 / variance for variance in variances)
    value = math.fsum(s / variance for s, variance in zip(sums, variances, strict=True)) / precision
    return NoisyCount(value, 1 / math.sqrt(precision))


def share_interval(count: NoisyCount, total: NoisyCount, confidence: float) -> tuple[float, float]:
    """An interval of count/total that holds with at least `confidence`, independent noises or not.

    >>> low, high = share_interval(NoisyCount(500, 5.0), NoisyCount(10_000, 20.0), 0.95)
    >>> 0.0487 < low < 0.05 < high < 0.0513
    True
    """
    error = 1 - confidence
    few, many = _ends(count, error * _OF_COUNT)
    least, most = _ends(total, error * (1 - _OF_COUNT))
    if least <= 0:
        return 0.0, 1.0
    return min(1.0, max(0.0, few) / most), min(1.0, max(0.0, many) / least)


def bin_bounds(counts: Sequence[NoisyCount], confidence: float) -> list[tuple[int, int]]:
    """Whole-number bounds that hold for all true counts at once with at least `confidence` (union bound)."""
    ends = (_ends(count, (1 - confidence) / len(counts)) for count in counts)
    return [(max(0, math.ceil(few)), max(0, math.floor(many))) for few, many in ends]


def _ends(count: NoisyCount, error: float) -> tuple[float, float]:
    reach = two_sided_quantile(1 - error) * count.scale
    return count.value - reach, count.value + reach


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
    """Estimate, lower and upper end of every group's variance or standard deviation.

    Fieller's intervals of the mean and of the mean square, both at once by the union bound
    (docs/proofs/shared-measurement.md, section 5).
    """
    is_sample, is_deviation = kind.endswith("samp"), kind.startswith("stddev")
    level = 1.0 - (1.0 - check_confidence(confidence)) / (3 if is_sample else 2)
    low, high = _population(moments, level)
    estimate = _plain_variance(moments)
    if is_sample:
        fewest, most = _correction(moments, level)
        # The most: n/(n − 1) for n of at least 2 rows, times a variance of at most (R/2)².
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


def _plain_variance(m: NoisyMoments) -> FloatArray:
    count = np.maximum(m.count, 1.0)
    return np.asarray((m.squares / count + m.square_reach) / 2.0 - (m.total / count) ** 2)


@dataclass(frozen=True)
class NoisyHistogram:
    """Released counts, (groups, bins); bin j holds the values in (edges[j], edges[j + 1]]."""

    counts: FloatArray
    scale: float
    edges: FloatArray


def bin_number(rho: float, rows: int) -> int:
    """The number of bins for a column's range: a power of two from 64 to 1024, from public quantities.

    A bin's width is weighed against the rank error of the noise, z·σ·√bins/2 rows, in a group of 5,000 rows
    spread evenly; they are equal where bins^1.5 = 2·5000/(z·σ).

    >>> bin_number(0.1, 1), bin_number(10.0, 1), bin_number(0.001, 1)
    (128, 1024, 64)
    """
    balanced = (2 * _TYPICAL_GROUP / (2.0 * gaussian_scale(rows, rho))) ** (2 / 3)
    return int(min(max(2 ** round(math.log2(balanced)), _FEWEST), _MOST))


def quantiles(
    histogram: NoisyHistogram, level: float, confidence: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimate, lower and upper end of every group's quantile.

    Each end is found by testing the edges in order and stopping at the first that is not certain, so only one
    of the tests can fail (docs/proofs/quantiles.md).
    """
    z = two_sided_quantile(check_confidence(confidence))
    lead, spread = _leads(histogram, level)
    is_above = np.cumprod(lead + z * spread <= -level, axis=1).sum(axis=1)  # edges surely exceeded
    is_below = np.cumprod((lead - z * spread >= 2.0 - level)[:, ::-1], axis=1).sum(axis=1)
    bins = histogram.counts.shape[1]
    low, high = histogram.edges[is_above], histogram.edges[bins - is_below]
    return np.clip(_crossing(histogram, lead, level), low, high), low, high


def _leads(histogram: NoisyHistogram, level: float) -> tuple[FloatArray, FloatArray]:
    """At every inner edge, the rows up to it minus the share `level` of all rows, and its σ."""
    bins = histogram.counts.shape[1]
    below = np.cumsum(histogram.counts, axis=1)[:, :-1]
    places = np.arange(1, bins)
    spread = np.sqrt(places * (1.0 - level) ** 2 + (bins - places) * level**2)
    return below - level * histogram.counts.sum(axis=1, keepdims=True), histogram.scale * spread


def _crossing(histogram: NoisyHistogram, lead: FloatArray, level: float) -> FloatArray:
    """Where the rising lead crosses 0, interpolated inside its bin."""
    total = np.maximum(histogram.counts.sum(axis=1), 1.0)[:, None]
    whole = np.concatenate([-level * total, lead, (1.0 - level) * total], axis=1)
    rising = np.maximum.accumulate(whole, axis=1)
    return np.array([float(np.interp(0.0, steps, histogram.edges)) for steps in rising])


def shares_up_to(
    counts: FloatArray, scale: float, confidence: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Estimate, lower and upper end of the share of values up to each edge of a noisy histogram.

    All intervals hold at once with at least `confidence`, so they may be used to choose an edge. At the first
    edge the share is 0 and at the last one 1. Fieller's intervals and the union bound: docs/proofs/tuning.md.
    """
    bins, total = counts.size, float(counts.sum())
    places, below = np.arange(1, bins), np.cumsum(counts)[:-1]
    variance = two_sided_quantile(1 - (1 - check_confidence(confidence)) / max(1, bins - 1)) ** 2 * scale**2
    # Between the roots in s of (below − s·total)² = variance·(places·(1 − s)² + (bins − places)·s²).
    leading = total**2 - variance * bins
    if total <= 0.0 or leading <= 0.0:
        estimate, low, high = np.full(bins - 1, 0.5), np.zeros(bins - 1), np.ones(bins - 1)
    else:
        middle = below * total - variance * places
        # The discriminant with its largest terms, which cancel, left out.
        spread = places * (total - below) ** 2 + (bins - places) * below**2
        root = np.sqrt(variance * np.maximum(spread - variance * places * (bins - places), 0.0))
        estimate = np.clip(below / total, 0.0, 1.0)
        low, high = (np.clip((middle + side * root) / leading, 0.0, 1.0) for side in (-1.0, 1.0))
    ends = [np.concatenate([[0.0], part, [1.0]]) for part in (estimate, low, high)]
    # The true shares rise, so a low end holds for later edges too, and a high end for earlier ones.
    return ends[0], np.maximum.accumulate(ends[1]), np.minimum.accumulate(ends[2][::-1])[::-1]
