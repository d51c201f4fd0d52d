"""Whether released numbers betray the floating-point numbers they were made of.

Noise drawn in floating point and added to a true value reaches only some of the numbers nearby, and which
ones depends on the true value (Mironov, CCS 2012). Exact samplers release multiples of one public step, far
coarser than floating point, all of which every true value can reach.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_COARSER = 2**8  # the step must be so many times the distance of neighbouring floating-point numbers


def finest_step(numbers: NDArray[np.float64]) -> float:
    """The largest power of two of which all the numbers are multiples.

    >>> finest_step(np.array([1.5, 2.25])), finest_step(np.array([6.0, 4.0]))
    (0.25, 2.0)
    """
    step = math.inf
    for number in numbers[numbers != 0.0].tolist():
        numerator, denominator = float(number).as_integer_ratio()
        step = min(step, (numerator & -numerator) / denominator)
    return step


def lattice_problem(numbers: NDArray[np.float64]) -> str:
    """What is wrong with the numbers, as a sentence; empty if a coarse step contains them all.

    >>> lattice_problem(np.array([3.0, 1.5])), lattice_problem(np.array([3.0, 0.1])) != ""
    ('', True)
    """
    if not np.isfinite(numbers).all():
        return "a released number is not finite"
    largest = float(np.abs(numbers).max(initial=0.0))
    step, spacing = finest_step(numbers), float(np.spacing(max(largest, 1e-300)))
    if step >= _COARSER * spacing:
        return ""
    return (
        f"released numbers are multiples of no step coarser than 2^{math.log2(step):.0f}, as fine as "
        "floating point itself: which of them can occur depends on the true value"
    )
