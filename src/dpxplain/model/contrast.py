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


@dataclass(frozen=True)
class Ratio:
    """A group's value divided by another's, or by the total of all groups: then it is a share.

    "Is A/B above r?" is the question whether A − r·B is above 0, if B is positive (docs/proofs/ratio.md).

    >>> Ratio(0, (1,), 1.0).weights(2.5), Ratio(0, (0, 1), 0.5).weights(0.25)
    ((1.0, -2.5), (0.75, -0.25))
    """

    group: int
    divisor: tuple[int, ...]
    at_least: float

    @property
    def is_share(self) -> bool:
        return self.group in self.divisor

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups concerned, the divided one first."""
        return (self.group, *(group for group in self.divisor if group != self.group))

    @property
    def numerator(self) -> tuple[float, ...]:
        """The weights of the groups that are divided."""
        return tuple(float(group == self.group) for group in self.groups)

    @property
    def denominator(self) -> tuple[float, ...]:
        """The weights of the groups that are the divisor."""
        return tuple(float(group in self.divisor) for group in self.groups)

    def weights(self, value: float) -> tuple[float, ...]:
        """The weights of a sum that is 0 if the ratio is `value`."""
        pairs = zip(self.numerator, self.denominator, strict=True)
        return tuple(above - value * below for above, below in pairs)
