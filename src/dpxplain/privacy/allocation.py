"""How ρ is shared by the parts of one measurement, from public quantities only.

The shares minimise the product of the variances of the aggregates asked for, which no change of units can
move: the gradient of Σ log V is followed by multiplicative steps, as in optimal experimental design
(Titterington 1976). docs/proofs/shared-measurement.md, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_STEPS = 400
_GRAIN = 1000  # shares are whole thousandths, so that rounding on another machine does not change them
_LEAST = 0.01  # a part that is measured gets at least this share


@dataclass(frozen=True)
class AskedColumn:
    """A column's aggregates as the objective sees them, in units of half the range of its bounds.

    `offsets` has, for each SUM and AVG, the squared distance from the middle of the bounds to the point that
    its sum is taken from: an error of one row in the count moves the result that far.
    """

    counted: bool  # COUNT(column) is asked
    offsets: tuple[float, ...]
    direct: bool = False  # only a SUM is asked, which needs no count
    squared: bool = False  # a variance or standard deviation is asked


@dataclass(frozen=True)
class Shares:
    """Shares of ρ, adding up to 1: of the rows, and of each column's count, centred sum and squares."""

    rows: float
    counts: tuple[float, ...]
    sums: tuple[float, ...]
    squares: tuple[float, ...] = ()


@lru_cache(maxsize=256)
def allocate(columns: tuple[AskedColumn, ...], *, counts_rows: bool) -> Shares:
    """The shares; `counts_rows` where COUNT(*) is asked.

    >>> allocate((AskedColumn(counted=False, offsets=(1.0,)),), counts_rows=False)  # SPEC section 4
    Shares(rows=0.0, counts=(0.5,), sums=(0.5,), squares=(0.0,))
    >>> allocate((AskedColumn(counted=False, offsets=(0.25,)),), counts_rows=True)
    Shares(rows=0.45, counts=(0.123,), sums=(0.427,), squares=(0.0,))
    """
    design = _Design(columns, counts_rows)
    shares = design.start()
    for _ in range(_STEPS):
        shares = shares * np.sqrt(design.gains(shares))
        shares = shares / shares.sum()
    return design.named(_rounded(shares))


def _rounded(shares: FloatArray) -> FloatArray:
    """In whole thousandths, none below the least unless it is 0, and the largest takes what is left."""
    used = shares > 0.0
    whole = np.where(used, np.maximum(np.rint(shares * _GRAIN), _LEAST * _GRAIN), 0.0)
    whole[int(np.argmax(whole))] += _GRAIN - whole.sum()
    return np.asarray(whole / _GRAIN)


class _Design:
    """The variances as functions of the shares: of the rows, then all counts, all sums and all squares."""

    def __init__(self, columns: Sequence[AskedColumn], counts_rows: bool) -> None:
        self.columns = columns
        self.counts_rows = counts_rows
        self.size = len(columns)

    def start(self) -> FloatArray:
        counts = [0.0 if column.direct else 1.0 for column in self.columns]
        sums = [1.0 if column.offsets or column.squared else 0.0 for column in self.columns]
        squares = [1.0 if column.squared else 0.0 for column in self.columns]
        shares = np.array([float(self.counts_rows), *counts, *sums, *squares])
        return np.asarray(shares / shares.sum())

    def covariance(self, shares: FloatArray) -> FloatArray:
        """Of the estimated rows and the columns' counts, up to the common factor 1/(2ρ).

        NULLs, rows minus values, are measured with the share of all that a row with a value pays for.
        """
        counts, sums, squares = shares[1:].reshape(3, self.size)
        precision = np.zeros((1 + self.size, 1 + self.size))
        precision[0, 0] = shares[0] if self.counts_rows else 1.0
        for place, (count, total) in enumerate(zip(counts, sums + squares, strict=True), start=1):
            precision[place, place] = count if count > 0.0 else 1.0
            if self.counts_rows:
                nulls = count + total
                precision[0, 0] += nulls
                precision[place, place] += nulls
                precision[0, place] = precision[place, 0] = -nulls
        return np.asarray(np.linalg.inv(precision))

    def gains(self, shares: FloatArray) -> FloatArray:
        """−∂/∂share of the mean log variance; at the optimum 1 wherever the share is not 0."""
        covariance = self.covariance(shares)
        slope, aggregates = np.zeros_like(shares), 0
        if self.counts_rows:
            slope += self._fall(covariance, 0) / covariance[0, 0]
            aggregates += 1
        for place, column in enumerate(self.columns, start=1):
            fall, variance = self._fall(covariance, place), covariance[place, place]
            if column.counted:
                slope += fall / variance
                aggregates += 1
            for offset in column.offsets:
                own = np.zeros_like(shares)
                own[place + self.size] = 1.0 / shares[place + self.size] ** 2
                slope += (own + offset * fall) / (1.0 / shares[place + self.size] + offset * variance)
                aggregates += 1
            if column.squared:
                total, square = shares[place + self.size], shares[place + 2 * self.size]
                own = np.zeros_like(shares)
                own[place + self.size], own[place + 2 * self.size] = 1.0 / total**2, 0.25 / square**2
                slope += (own + 0.25 * fall) / (1.0 / total + 0.25 / square + 0.25 * variance)
                aggregates += 1
        return np.where(shares > 0.0, slope / aggregates, 0.0)

    def _fall(self, covariance: FloatArray, place: int) -> FloatArray:
        """−∂ variance/∂share of one estimated count."""
        toward = covariance[:, place] ** 2
        fall = np.concatenate([toward, np.zeros(2 * self.size)])
        if self.counts_rows:
            nulls = (covariance[0, place] - covariance[1:, place]) ** 2
            fall[1:] += np.tile(nulls, 3)
        else:
            fall[0] = 0.0
        return fall

    def named(self, shares: FloatArray) -> Shares:
        counts, sums, squares = (tuple(part) for part in shares[1:].reshape(3, self.size).tolist())
        return Shares(float(shares[0]), counts, sums, squares)
