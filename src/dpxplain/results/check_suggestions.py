"""Suggestions of a schema check: the declared value that an undeclared one resembles, and bounds rounded
outwards. Both numbers and dates are placed on a number line.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dpxplain.model.dates import at_position, position

_LONG_ENOUGH = 4  # codes of three letters differ by one letter on purpose


@dataclass(frozen=True)
class NearMiss:
    """An undeclared value beside the declared one that it resembles."""

    text: str
    declared: str
    difference: str


def near_misses(texts: Iterable[str], declared: Iterable[str]) -> list[NearMiss]:
    """The texts that resemble a declared value, with the likeliest reason.

    >>> misses = near_misses(["Ewr", "7.0", "Bosten"], ["EWR", "7", "Boston"])
    >>> [(miss.declared, miss.difference) for miss in misses]
    [('EWR', 'upper and lower case'), ('7', 'how the number is written'), ('Boston', 'one letter')]
    """
    values = list(declared)
    plain = _by(values, _plain)
    numbers = _by(values, _number)
    misses = []
    for text in texts:
        declared_value = plain.get(_plain(text)) or numbers.get(_number(text) or "")
        if declared_value is not None:
            misses.append(NearMiss(text, declared_value, _difference(text, declared_value)))
        else:
            typo = next((value for value in values if _is_typo(_plain(text), _plain(value))), None)
            if typo is not None:
                misses.append(NearMiss(text, typo, "one letter"))
    return misses


def _by(values: list[str], form: Callable[[str], str | None]) -> dict[str, str]:
    """Maps each form to the first value that has it. Values without a form are dropped."""
    return {key: value for value in reversed(values) if (key := form(value))}


def _plain(text: str) -> str:
    """The text without case and accents, with hyphens and underscores as spaces."""
    letters = unicodedata.normalize("NFKD", text).casefold()
    base_letters = "".join(c for c in letters if not unicodedata.combining(c))
    return " ".join(base_letters.replace("_", " ").replace("-", " ").split())


def _number(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


def _difference(text: str, declared: str) -> str:
    if text.strip() == declared.strip():
        return "spaces around it"
    if text.strip().casefold() == declared.strip().casefold():
        return "upper and lower case"
    if _number(text) is not None and _number(text) == _number(declared):
        return "how the number is written"
    folded = unicodedata.normalize("NFKD", text).casefold()
    if any(map(unicodedata.combining, folded)) != any(
        map(unicodedata.combining, unicodedata.normalize("NFKD", declared))
    ):
        return "accents"
    return "spaces, hyphens or underscores"


def _is_typo(text: str, value: str) -> bool:
    """Whether one letter was changed, added, left out, or swapped with the next."""
    if min(len(text), len(value)) < _LONG_ENOUGH or abs(len(text) - len(value)) > 1:
        return False
    if text.replace(".", "").isdigit():
        return False
    start = 0
    while start < min(len(text), len(value)) and text[start] == value[start]:
        start += 1
    a, b = text[start:], value[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[1::-1] == b[:2] and a[2:] == b[2:])


_DAY = 86_400_000_000.0  # microseconds


class NumberLine:
    """Numbers as they are."""

    def position(self, declared: Any) -> float:
        """Where a declared edge or bound lies."""
        return float(declared)

    def text(self, place: float) -> str:
        return f"{place:.6g}"

    def literal(self, place: float) -> int | float | str:
        """The value to write in TOML."""
        return int(place) if place == int(place) and abs(place) < 2**53 else float(f"{place:.12g}")

    def step(self, first: float, second: float) -> float:
        """How far below the lowest edge to add another, so that a value at the lowest edge is in a bin."""
        return min(1.0, second - first)

    def round_out(self, place: float, direction: int) -> float:
        """The next number with two significant digits: upwards for a positive direction, else downwards.

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
    """Dates and timestamps as microseconds since 1970, rounded to days.

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
