"""Intervals of shares, and of counts by size, from noisy counts (docs/proofs/quality.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpxplain.privacy.calibration import two_sided_quantile

_OF_COUNT = 0.9  # of the error probability; the total is known far better, in comparison


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
    """An interval of count/total that holds with at least `confidence`, however the noises depend.

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
    """Whole numbers that hold all of the true counts at once with at least `confidence` (union bound)."""
    ends = (_ends(count, (1 - confidence) / len(counts)) for count in counts)
    return [(max(0, math.ceil(few)), max(0, math.floor(many))) for few, many in ends]


def _ends(count: NoisyCount, error: float) -> tuple[float, float]:
    reach = two_sided_quantile(1 - error) * count.scale
    return count.value - reach, count.value + reach
