"""What a ρ means in the more familiar (ε, δ); only for showing.

The conversion is the tight one of Canonne, Kamath and Steinke (2020, proposition 12), which is OpenDP's too,
not the textbook bound ε = ρ + 2·√(ρ·ln(1/δ)), which is up to a third larger. OpenDP takes some milliseconds
for each value and overflows beyond a ρ of 40,000; a server shows three values with every answer.
"""

from __future__ import annotations

import math
from functools import lru_cache

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_STEPS = 60  # each narrows the search by a third: far below a float's own precision
_REACH = 6.0  # in logarithms, to either side of the textbook bound's best α − 1
_ROUNDING = 1e-12  # relative, upwards: never shown as less than it is


@lru_cache(maxsize=256)
def epsilon(rho: float, delta: float) -> float:
    """The ε of (ε, δ)-differential privacy that ρ-zCDP implies.

    >>> 0.4 < epsilon(0.01, 1e-6) < 0.8
    True
    >>> epsilon(0.0, 1e-6)
    0.0
    """
    if rho <= 0.0:
        return 0.0
    middle = 0.5 * math.log(math.log(1.0 / delta) / rho)
    low, high = middle - _REACH, middle + _REACH
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = _at_order(left, rho, delta), _at_order(right, rho, delta)
    for _ in range(_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _at_order(left, rho, delta)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _at_order(right, rho, delta)
    return max(0.0, min(at_left, at_right) * (1.0 + _ROUNDING))


def _at_order(log_beyond_one: float, rho: float, delta: float) -> float:
    """What the Rényi divergence of order α promises, for α − 1 = exp(log_beyond_one). Any α is valid."""
    beyond_one = math.exp(log_beyond_one)
    order = 1.0 + beyond_one
    return order * rho - math.log(order * delta) / beyond_one + math.log(beyond_one / order)
