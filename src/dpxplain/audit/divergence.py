"""What ρ-zCDP allows: the divergence of two probabilities, and the (ε, δ) curve."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_ORDERS = 1.0 + np.logspace(-3.0, 3.0, 121)  # Rényi orders α


def rho_of_event(p: float, q: float) -> float:
    """The least ρ under which an event may have probability p in one table and q in its neighbour.

    ρ-zCDP bounds the Rényi divergence of every order α by α·ρ, and no divergence grows when only one event
    is looked at; so ρ is at least D_α(p ‖ q)/α for every α. Each α gives a valid bound, so a grid of them
    makes it smaller than it could be, never too large.

    >>> rho_of_event(0.5, 0.5), round(rho_of_event(0.9, 0.1), 3)
    (0.0, 1.757)
    """
    if p <= q:
        return 0.0
    if q <= 0.0:
        return math.inf
    hit = _ORDERS * math.log(p) + (1.0 - _ORDERS) * math.log(q)
    missed = np.full_like(hit, -np.inf)
    if p < 1.0:
        missed = _ORDERS * math.log1p(-p) + (1.0 - _ORDERS) * math.log1p(-q)
    return max(0.0, float((np.logaddexp(hit, missed) / (_ORDERS * (_ORDERS - 1.0))).max()))


def delta_allowed(rho: float, epsilon: float) -> float:
    """The δ at which ρ-zCDP implies (ε, δ)-differential privacy (Canonne, Kamath and Steinke 2020, prop. 12).

    >>> round(delta_allowed(0.5, 1.0), 3), delta_allowed(0.5, 0.0) <= 1.0
    (0.247, True)
    """
    log_delta = (
        (_ORDERS - 1.0) * (_ORDERS * rho - epsilon)
        - np.log(_ORDERS - 1.0)
        + _ORDERS * np.log1p(-1.0 / _ORDERS)
    )
    return min(1.0, math.exp(min(0.0, float(log_delta.min()))))


def epsilon_allowing(rho: float, delta: float) -> float:
    """The ε at which the curve of ρ has come down to δ.

    >>> round(delta_allowed(0.5, epsilon_allowing(0.5, 0.01)), 6)
    0.01
    """
    low, high = 0.0, 1.0 + 2.0 * rho + 10.0 * math.sqrt(rho * math.log(1.0 / delta))
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if delta_allowed(rho, middle) > delta else (low, middle)
    return high
