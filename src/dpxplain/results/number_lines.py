"""How a schema check writes numbers and dates, and rounds them outwards: both lie on a line of numbers."""

from __future__ import annotations

import math
from typing import Any

from dpxplain.model.dates import at_position, position

_DAY = 86_400_000_000.0  # microseconds


class NumberLine:
    """Numbers as they are."""

    def position(self, declared: Any) -> float:
        """Where a declared edge or bound lies."""
        return float(declared)

    def text(self, place: float) -> str:
        return f"{place:.6g}"

    def literal(self, place: float) -> int | float | str:
        """What TOML has for it."""
        return int(place) if place == int(place) and abs(place) < 2**53 else float(f"{place:.12g}")

    def step(self, first: float, second: float) -> float:
        """How far below the lowest edge another one would lie, so that its value is in a bin."""
        return min(1.0, second - first)

    def round_out(self, place: float, direction: int) -> float:
        """The next number of two digits: upwards for a positive direction, else downwards.

        >>> line = NumberLine()
        >>> line.round_out(1301, 1), line.round_out(-43, -1), line.round_out(0.137, 1), line.round_out(17, -1)
        (1400.0, -43.0, 0.14, 17.0)
        """
        if place == 0:
            return 0.0
        unit = 10.0 ** (math.floor(math.log10(abs(place))) - 1)
        steps = place / unit
        rounded = (math.ceil if direction > 0 else math.floor)(round(steps, 9)) * unit
        return float(f"{rounded:.12g}")


class DateLine(NumberLine):
    """Dates and timestamps, by their microseconds since 1970; rounded to days.

    >>> line = DateLine()
    >>> line.text(86_400_000_000.0), line.literal(3_600_000_000.0), line.round_out(3_600_000_000.0, 1) == _DAY
    ('1970-01-02', '1970-01-01 01:00:00', True)
    """

    def position(self, declared: Any) -> float:
        return position(declared)

    def text(self, place: float) -> str:
        return str(at_position(place))

    def literal(self, place: float) -> str:
        return self.text(place)

    def step(self, first: float, second: float) -> float:
        return _DAY

    def round_out(self, place: float, direction: int) -> float:
        return (math.ceil if direction > 0 else math.floor)(place / _DAY) * _DAY
