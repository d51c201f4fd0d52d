"""Quantiles from a noisy histogram: an interval that holds at every size of group, and an estimate inside it.

Post-processing. Each end is found by testing one edge after the other and stops at the first that is not
certain, so that only one of the tests can fail (docs/proofs/quantiles.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpxplain.privacy.calibration import gaussian_scale, two_sided_quantile
from dpxplain.privacy.intervals import check_confidence

FloatArray = NDArray[np.float64]

_FEWEST, _MOST = 64, 1024
_TYPICAL_GROUP = 5_000  # rows


@dataclass(frozen=True)
class NoisyHistogram:
    """Released counts, (groups, bins); bin j holds the values in (edges[j], edges[j + 1]]."""

    counts: FloatArray
    scale: float
    edges: FloatArray


def bin_number(rho: float, rows: int) -> int:
    """How many bins a range of bounds is cut into: a power of two from 64 to 1024, from public quantities.

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
    """Estimate, lower and upper end of every group's quantile."""
    z = two_sided_quantile(check_confidence(confidence))
    lead, spread = _leads(histogram, level)
    is_above = np.cumprod(lead + z * spread <= -level, axis=1).sum(axis=1)  # edges that it surely exceeds
    is_below = np.cumprod((lead - z * spread >= 2.0 - level)[:, ::-1], axis=1).sum(axis=1)
    bins = histogram.counts.shape[1]
    low, high = histogram.edges[is_above], histogram.edges[bins - is_below]
    return np.clip(_plain(histogram, lead, level), low, high), low, high


def _leads(histogram: NoisyHistogram, level: float) -> tuple[FloatArray, FloatArray]:
    """At every inner edge, the rows up to it minus the share `level` of all rows, and its σ."""
    bins = histogram.counts.shape[1]
    below = np.cumsum(histogram.counts, axis=1)[:, :-1]
    places = np.arange(1, bins)
    spread = np.sqrt(places * (1.0 - level) ** 2 + (bins - places) * level**2)
    return below - level * histogram.counts.sum(axis=1, keepdims=True), histogram.scale * spread


def _plain(histogram: NoisyHistogram, lead: FloatArray, level: float) -> FloatArray:
    """Where the rising lead crosses 0, interpolated inside its bin."""
    total = np.maximum(histogram.counts.sum(axis=1), 1.0)[:, None]
    whole = np.concatenate([-level * total, lead, (1.0 - level) * total], axis=1)
    rising = np.maximum.accumulate(whole, axis=1)
    return np.array([float(np.interp(0.0, steps, histogram.edges)) for steps in rising])
