"""The share of a gap that a condition's rows remove, 1 − Q(¬p(D))/Q(D), with its interval.

The gap and the gap without the rows carry mostly the same noise, so their quotient is known much better
than the two intervals suggest. Fieller's set makes use of that (docs/proofs/marginals.md, section 9).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpxplain.privacy.marginals.boxes import Ends
from dpxplain.privacy.marginals.estimates import Estimates, FloatArray, IntArray, Measured


@dataclass(frozen=True)
class Fieller:
    """Two Gaussian estimates whose quotient is wanted: a gap, and the gap without some rows."""

    gap: FloatArray
    without: FloatArray
    gap_variance: FloatArray
    without_variance: FloatArray
    covariance: FloatArray

    def shares(self, z: float) -> Ends:
        """All shares s with |without − (1 − s)·gap| at most z of its own standard deviations.

        Infinite ends where the gap itself is within z of 0: then no share is excluded.

        >>> pair = Fieller(*(np.array([number]) for number in (100.0, 40.0, 4.0, 4.0, 4.0)))
        >>> [round(float(end[0]), 3) for end in pair.shares(2.0)]
        [0.577, 0.625]
        """
        G, v = self.gap, self.gap_variance
        with np.errstate(divide="ignore", invalid="ignore"):
            # without = slope·gap + rest, and the noise of the rest is independent of the gap's.
            slope = np.where(v > 0.0, self.covariance / v, 0.0)
            rest = self.without - slope * G
            own = np.maximum(self.without_variance - slope * self.covariance, 0.0)
            clear = G**2 - z**2 * v
            reach = z * np.sqrt(np.maximum(G**2 * own + rest**2 * v - z**2 * own * v, 0.0))
            low, high = (1.0 - slope - (rest * G + side * reach) / clear for side in (1.0, -1.0))
        known = clear > 0.0
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def exact_shares(e: Estimates, weights: FloatArray, at_least: float, selected: IntArray, z: float) -> Ends:
    """COUNT and SUM: both gaps are Gaussian with known covariance, so Fieller's set is exact."""
    part = _Part.of(e.removed, selected)
    scale = float(weights @ weights)
    kept = 1.0 - part.share
    pair = Fieller(
        np.sum(weights[:, None] * part.total, axis=-2) - at_least,
        np.sum(weights[:, None] * (part.total - part.cell), axis=-2) - at_least,
        np.asarray(scale * part.total_variance),
        (scale * (kept**2 * part.total_variance + part.own_variance))[..., 0, :],
        (scale * kept * part.total_variance)[..., 0, :],
    )
    return pair.shares(z)


def first_order_shares(
    e: Estimates, weights: FloatArray, at_least: float, selected: IntArray, z: float
) -> Ends:
    """AVG: the range of the share within z standard errors of the estimates.

    Fieller's set of the linearised gaps gives each end, and the direction of the point where it is reached. A
    second gradient, taken at that point, corrects the direction. The share at the corrected point is the end,
    so it follows the curvature of the means. Only meaningful where every group's remainder exceeds its noise.
    """
    count, total = _Part.of(e.count, selected), _Part.of(e.removed, selected)
    origin = e.middle * float(weights.sum()) - at_least
    start = _MeanGaps(count, total, weights, origin)
    covariances = [start.covariance(*pair) for pair in ((1, 1), (0, 0), (1, 0))]
    linear = Fieller(start.gap, start.without, *covariances).shares(z)
    ends = []
    for end in linear:
        kept = np.where(np.isfinite(end), 1.0 - end, 0.0)
        step = -z * np.sign(start.without - kept * start.gap)
        there = start.moved(kept, step, start)
        there = start.moved(kept, step, there)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 1.0 - there.without / there.gap
        ends.append(np.where(there.gap * start.gap > 0.0, share, np.nan))
    known = np.isfinite(linear[0]) & np.isfinite(ends[0]) & np.isfinite(ends[1])
    low, high = np.fmin(*ends), np.fmax(*ends)
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def divided_shares(without: Ends, gap: Ends) -> Ends:
    """All 1 − q/g with q and g inside their intervals; infinite ends where g may be 0.

    >>> [float(end) for end in divided_shares((np.array(1.0), np.array(3.0)), (np.array(4.0), np.array(5.0)))]
    [0.25, 0.8]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = [q / g for q in without for g in gap]
    known = (gap[0] > 0.0) | (gap[1] < 0.0)
    low, high = 1.0 - np.maximum.reduce(quotients), 1.0 - np.minimum.reduce(quotients)
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


@dataclass(frozen=True)
class _Part:
    """Counts or sums of the selected conditions: a cell is share·total plus noise of its own."""

    total: FloatArray  # (..., groups, 1 or k)
    cell: FloatArray  # (..., groups, k)
    total_variance: float
    share: FloatArray  # (..., 1, k)
    own_variance: FloatArray

    @classmethod
    def of(cls, part: Measured, selected: IntArray) -> _Part:
        return cls(
            part.total[..., None],
            np.take_along_axis(part.cell, selected[..., None, :], axis=-1),
            part.total_variance,
            part.layout.share[selected][..., None, :],
            part.own_variance[selected][..., None, :],
        )

    def moved(self, pace: FloatArray, by: _By) -> _Part:
        """The estimates moved by pace · Σ · by."""
        shift = pace * self.total_variance * (by.total + self.share * by.cell)
        own = pace * self.own_variance * by.cell
        return _Part(
            self.total + shift,
            self.cell + self.share * shift + own,
            self.total_variance,
            self.share,
            self.own_variance,
        )

    def covariance(self, left: _By, right: _By) -> FloatArray:
        load = (left.total + self.share * left.cell) * (right.total + self.share * right.cell)
        both = self.total_variance * load + self.own_variance * left.cell * right.cell
        return np.asarray(np.sum(both, axis=-2))


@dataclass(frozen=True)
class _By:
    """Derivatives by every group's total and by its cell."""

    total: FloatArray
    cell: FloatArray


class _MeanGaps:
    """The two gaps of averages, and their derivatives, at a point."""

    def __init__(self, count: _Part, total: _Part, weights: FloatArray, origin: float) -> None:
        self.count, self.total, self._weights, self._origin = count, total, weights, origin
        w = weights[:, None]
        # Results with counts near 0 are not trusted; this only avoids a division by 0.
        self._n, self._c = np.maximum(count.total, 1.0), np.maximum(count.total - count.cell, 1.0)
        self._mean, self._mean_without = total.total / self._n, (total.total - total.cell) / self._c
        self.gap = np.asarray(np.sum(w * self._mean, axis=-2) + origin)
        self.without = np.asarray(np.sum(w * self._mean_without, axis=-2) + origin)

    def moved(self, kept: FloatArray, step: FloatArray, slope: _MeanGaps) -> _MeanGaps:
        """The point `step` standard errors away, in the direction where without − kept·gap rises fastest.

        The direction is taken at `slope`.
        """
        by = slope.by(1.0, kept)
        variance = sum(part.covariance(own, own) for part, own in zip(self._parts, by, strict=True))
        scale = np.sqrt(variance)
        pace = (step / np.where(scale > 0.0, scale, np.inf))[..., None, :]
        count, total = (part.moved(pace, own) for part, own in zip(self._parts, by, strict=True))
        return _MeanGaps(count, total, self._weights, self._origin)

    def by(self, without: float, gap: FloatArray | float) -> tuple[_By, _By]:
        """The derivatives of without·(gap without) − gap·gap, by counts and by sums."""
        w, gap = self._weights[:, None], np.asarray(gap)[..., None, :] if np.ndim(gap) else gap
        at_gap, at_without = w / self._n, w / self._c
        by_c, by_n = -without * at_without * self._mean_without, gap * at_gap * self._mean
        by_V = without * at_without
        return _By(by_c + by_n, -by_c), _By(by_V - gap * at_gap, -by_V)

    def covariance(self, left: int, right: int) -> FloatArray:
        """The covariance of two of the gaps: 1 the gap itself, 0 the one without the rows."""
        first, second = (self.by(0.0, -1.0) if gap else self.by(1.0, 0.0) for gap in (left, right))
        pairs = zip(self._parts, first, second, strict=True)
        return np.asarray(sum(part.covariance(one, other) for part, one, other in pairs))

    @property
    def _parts(self) -> tuple[_Part, _Part]:
        return self.count, self.total
