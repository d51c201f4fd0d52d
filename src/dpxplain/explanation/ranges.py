"""Arithmetic on ranges: what a formula can become while its counts move.

A formula evaluated on ranges contains its value for all numbers inside them, and wider ranges give wider
results. The second property, not the first, is what privacy rests on (docs/proofs/custom-influence.md),
and it holds to the last bit in float64: rounding to nearest never reverses an order, and every end below is
the least or greatest of correctly rounded results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Range:
    """All numbers from `low` to `high`, elementwise.

    >>> x, y = Range.of(2, 3), Range.of(-1, 4)
    >>> x + y, x - y, x * y, y / x, 1 / y
    ([1, 7], [-2, 4], [-3, 12], [-0.5, 2], [-inf, inf])
    """

    low: FloatArray
    high: FloatArray
    __array_ufunc__ = None  # a NumPy number on the left leaves the operation to us

    def __post_init__(self) -> None:
        """An end that no arithmetic can tell is an open end: a wider input never makes a narrower range."""
        for name, open_end in (("low", -np.inf), ("high", np.inf)):
            end = getattr(self, name)
            if np.isnan(end).any():
                object.__setattr__(self, name, np.where(np.isnan(end), open_end, end))

    @classmethod
    def of(cls, low: float, high: float) -> Range:
        return cls(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))

    def __add__(self, other: Range | float) -> Range:
        other = _range(other)
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range | float) -> Range:
        other = _range(other)
        return Range(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Range | float) -> Range:
        # 0 · ∞ is 0 here: an infinite end stands for numbers that are as large as one likes, yet finite.
        return self._corners(other, lambda x, y: np.where((x == 0) | (y == 0), 0.0, x * y))

    def __truediv__(self, other: Range | float) -> Range:
        other = _range(other)
        quotient = self._corners(other, np.divide)
        # Nothing is known of a quotient by a range around zero, nor of one of two unbounded ranges.
        unbounded = ~(np.isfinite(self.low) & np.isfinite(self.high))
        endless = ~(np.isfinite(other.low) & np.isfinite(other.high))
        undefined = ((other.low <= 0) & (other.high >= 0)) | (unbounded & endless)
        return Range(np.where(undefined, -np.inf, quotient.low), np.where(undefined, np.inf, quotient.high))

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Range:
        return _range(other) - self

    def __rtruediv__(self, other: float) -> Range:
        return _range(other) / self

    def at_least(self, floor: float) -> Range:
        """The larger of each number and `floor`."""
        if not math.isfinite(floor):
            raise ValueError("at_least needs a finite number")
        return Range(np.maximum(self.low, floor), np.maximum(self.high, floor))

    def where_positive(self, condition: Range) -> Range:
        """This where `condition` is above zero, 0 elsewhere: how a formula leaves out an empty divisor."""
        never, always = condition.high <= 0, condition.low > 0
        low = np.where(always, self.low, np.minimum(self.low, 0.0))
        high = np.where(always, self.high, np.maximum(self.high, 0.0))
        return Range(np.where(never, 0.0, low), np.where(never, 0.0, high))

    def _corners(self, other: Range | float, operation: Callable[..., FloatArray]) -> Range:
        other = _range(other)
        with np.errstate(all="ignore"):
            ends = [operation(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        return Range(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def __repr__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]" if self.low.ndim == 0 else f"<Range of {self.low.shape}>"


def _range(value: Range | float) -> Range:
    if isinstance(value, Range):
        return value
    if not math.isfinite(value):
        raise ValueError("a formula may use finite numbers only")
    return Range.of(value, value)
