"""The normal distribution function and its quantiles, to the precision of a float.

From Python's standard library: SciPy gives the same numbers, but importing it takes longer than most
commands run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

_STANDARD = NormalDist()


def normal_cdf(x: float) -> float:
    """Φ(x); erfc keeps the digits of a small tail, where 1 + erf would lose them.

    >>> normal_cdf(0.0), f"{normal_cdf(-30.0):.3g}"
    (0.5, '4.91e-198')
    """
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def normal_quantile(p: float) -> float:
    """Φ⁻¹(p) by Wichura's algorithm AS 241, whose relative error is about 1e-16; infinite at 0 and 1.

    >>> round(normal_quantile(0.975), 3), round(normal_quantile(1e-300), 2), normal_quantile(0.0)
    (1.96, -37.05, -inf)
    """
    if p in (0.0, 1.0):
        return math.inf if p else -math.inf
    return _STANDARD.inv_cdf(p)


# The same functions for every element of an array.
normal_cdfs: Callable[[ArrayLike], NDArray[np.float64]] = np.vectorize(normal_cdf, otypes=[np.float64])
normal_quantiles: Callable[[ArrayLike], NDArray[np.float64]] = np.vectorize(
    normal_quantile, otypes=[np.float64]
)
