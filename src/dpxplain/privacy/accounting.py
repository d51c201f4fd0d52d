"""The (ε, δ) guarantee that ρ-zCDP implies; only for display.

The conversion is the tight one of Canonne, Kamath and Steinke (2020, proposition 12), which is OpenDP's too,
not the textbook bound ε = ρ + 2·√(ρ·ln(1/δ)), which is up to a third larger. OpenDP takes some milliseconds
for each value and overflows beyond a ρ of 40,000; a server shows three values with every answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

_REACH = 6.0  # in logarithms, to either side of the textbook bound's best α − 1
_PRECISION = 1e-9  # of log(α − 1); ε is flat at its minimum, so its own error is of the order 1e-18
_ROUNDING = 1e-12  # relative, upwards: ε is never shown as less than it is


@lru_cache(maxsize=256)
def epsilon(rho: float, delta: float) -> float:
    """The ε of (ε, δ)-differential privacy that ρ-zCDP implies.

    Proposition 12 holds for every order α > 1, so ε is the infimum of `_at_order` over α, and the value at
    any α is an upper bound of it. The result is such a value: a minimiser that stops early or in a local
    minimum makes the bound larger than necessary, never too small.

    >>> 0.4 < epsilon(0.01, 1e-6) < 0.8
    True
    >>> epsilon(0.0, 1e-6)
    0.0
    """
    if rho <= 0.0:
        return 0.0
    middle = 0.5 * math.log(math.log(1.0 / delta) / rho)
    smallest = _minimum(lambda x: _at_order(x, rho, delta), middle - _REACH, middle + _REACH)
    return max(0.0, smallest * (1.0 + _ROUNDING))


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """The least value that golden section search meets; the minimum, if there is only one valley."""
    share = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > _PRECISION:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = function(right)
    return min(at_left, at_right)


def rho_within(target: float, delta: float) -> float:
    """The largest ρ whose (ε, δ) guarantee keeps within the target ε, rounded down to three digits.

    >>> rho_within(1.0, 1e-6), epsilon(rho_within(1.0, 1e-6), 1e-6) <= 1.0
    (0.0243, True)
    """
    low, high = 0.0, target
    while epsilon(high, delta) <= target:  # only for a δ near 1
        high *= 2
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon(middle, delta) <= target else (low, middle)
    step = 10.0 ** (math.floor(math.log10(low)) - 2)
    return float(f"{math.floor(low / step) * step:.3g}")


def _at_order(log_excess: float, rho: float, delta: float) -> float:
    """The ε that the Rényi divergence of order α implies, where log_excess = log(α − 1)."""
    excess = math.exp(log_excess)
    order = 1.0 + excess
    # log1p: for a small ρ the best α is so large that the logarithm of (α − 1)/α would lose its digits.
    return order * rho - math.log(order * delta) / excess + math.log1p(-1.0 / order)
