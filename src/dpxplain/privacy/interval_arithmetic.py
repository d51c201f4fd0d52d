"""Interval arithmetic with derivatives: bounds of a formula's value and gradient over a box.

Ends are extended reals, exact up to floating-point rounding, and never NaN. Where a formula is not defined
the span is unbounded: 1/[0, 2] is [1/2, ∞], 1/[−1, 2] the whole line, log [−1, 2] is [−∞, log 2].
A larger box never gives a smaller span, so more confidence never gives a narrower interval.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from dpxplain.model.arrays import FloatArray

# A low end of +∞ would exclude the finite value, too large for a float, that it stands for.
LARGEST = sys.float_info.max
_SMALLEST = math.ulp(0.0)


@dataclass(frozen=True)
class Span:
    """All values between `low` and `high`; `slopes` holds the ends of each variable's partial derivative.

    >>> x, y = variable(0, 2, 1.0, 2.0), variable(1, 2, 4.0, 5.0)
    >>> ratio = x / y
    >>> ratio.low, ratio.high, ratio.slopes.round(3).tolist()
    (0.2, 0.5, [[0.2, -0.125], [0.25, -0.04]])
    """

    low: float
    high: float
    slopes: FloatArray

    def __add__(self, other: Span) -> Span:
        return _span(self.low + other.low, self.high + other.high, _added(self.slopes, other.slopes))

    def __neg__(self) -> Span:
        return Span(-self.high, -self.low, -self.slopes[::-1])

    def __sub__(self, other: Span) -> Span:
        return self + -other

    def __mul__(self, other: Span) -> Span:
        ends = [_times(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        slopes = _added(
            _scaled(self.slopes, other.low, other.high), _scaled(other.slopes, self.low, self.high)
        )
        return _span(min(ends), max(ends), slopes)

    def __truediv__(self, other: Span) -> Span:
        low, high = _reciprocal(other.low, other.high)
        if other.low > 0.0 or other.high < 0.0:
            ends = [_over(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        else:
            ends = [_times(x, y) for x in (self.low, self.high) for y in (low, high)]
            low, high = -math.inf, math.inf  # not defined throughout, so its derivatives are unbounded
        value = _span(min(ends), max(ends), self.slopes)
        change = _added(self.slopes, -_scaled(other.slopes, value.low, value.high)[::-1])
        return Span(value.low, value.high, _scaled(change, low, high))

    def exp(self) -> Span:
        # The high end must not underflow to an exact zero, which times ∞ would be 0.
        value = _span(_exp(self.low), max(_exp(self.high), _SMALLEST), self.slopes)
        return Span(value.low, value.high, _scaled(self.slopes, value.low, value.high))

    def log(self) -> Span:
        slope = _reciprocal(self.low, self.high) if self.low > 0.0 else (-math.inf, math.inf)
        return _span(_log(self.low), _log(self.high), _scaled(self.slopes, *slope))


def variable(index: int, variables: int, low: float, high: float) -> Span:
    """One of the box's variables; `variables` = 0 computes values without derivatives."""
    slopes = np.zeros((2, variables))
    slopes[:, index : index + 1] = 1.0
    return Span(low, high, slopes)


def constant(value: float, variables: int) -> Span:
    return Span(value, value, np.zeros((2, variables)))


def _span(low: float, high: float, slopes: FloatArray) -> Span:
    """A span without NaN (∞ − ∞ gives an infinite end) and without a low end of +∞ or a high end of −∞."""
    low = -math.inf if math.isnan(low) else min(low, LARGEST)
    high = math.inf if math.isnan(high) else max(high, -LARGEST)
    return Span(low, high, slopes)


def _times(x: float, y: float) -> float:
    """x · y, where 0 × ∞ is 0: ∞ stands for arbitrarily large numbers."""
    return 0.0 if x == 0.0 or y == 0.0 else x * y


def _over(x: float, y: float) -> float:
    """x / y for y ≠ 0; 0 for ∞/∞, because the extremes are then among the other corners."""
    return 0.0 if math.isinf(x) and math.isinf(y) else x / y


def _reciprocal(low: float, high: float) -> tuple[float, float]:
    if low > 0.0 or high < 0.0:
        return 1.0 / high, 1.0 / low
    if low == 0.0 < high:
        return 1.0 / high, math.inf
    if low < 0.0 == high:
        return -math.inf, 1.0 / low
    return -math.inf, math.inf


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _added(left: FloatArray, right: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        total = left + right
    low, high = total
    return np.array([np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)])


def _scaled(slopes: FloatArray, low: float, high: float) -> FloatArray:
    """Slopes times a span, with 0 × ∞ = 0 as in `_times`."""
    if slopes.size == 0:
        return slopes
    with np.errstate(all="ignore"):
        ends = np.concatenate([slopes * low, slopes * high])
    ends[np.isnan(ends)] = 0.0
    return np.array([ends.min(axis=0), ends.max(axis=0)])
