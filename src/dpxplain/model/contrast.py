"""A question about an answer: why is a weighted sum of group values at least a constant?

"Why is A above B?" is the weights (1, −1) on A and B and the constant 0.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """Whether the interval of the question's value lies above the constant, around it or below."""

    REAL = "real"  # the interval lies above the constant
    UNCLEAR = "unclear"  # it contains the constant: noise alone may explain what was seen
    REVERSED = "reversed"  # it lies below


def judge(interval: tuple[float, float], at_least: float) -> Verdict:
    """The verdict of an interval.

    >>> judge((0.1, 0.2), 0.0), judge((-0.1, 0.2), 0.0)
    (<Verdict.REAL: 'real'>, <Verdict.UNCLEAR: 'unclear'>)
    """
    if interval[0] > at_least:
        return Verdict.REAL
    if interval[1] < at_least:
        return Verdict.REVERSED
    return Verdict.UNCLEAR


@dataclass(frozen=True)
class Contrast:
    """The weighted groups of a question, by their position among the declared groups."""

    groups: tuple[int, ...]
    weights: tuple[float, ...]
    at_least: float = 0.0
