"""Looks for true values in anything a server says, logs or stores.

Every number in a text is compared with every true one: whole numbers of six digits or more as they are,
others to as many digits as are shown, if those are at least eight. Data are such that chance finds none.
"""

from __future__ import annotations

import bisect
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path

# Not inside a word or a hash; thousands may be separated.
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,_\u202f\u2009 ]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)")
_WHOLE_DIGITS, _DIGITS = 6, 8


class TruthSearch:
    def __init__(self, values: Iterable[float]) -> None:
        numbers = {abs(float(value)) for value in values if value is not None and value == value}
        self.whole = {int(n) for n in numbers if n.is_integer() and n >= 10 ** (_WHOLE_DIGITS - 1)}
        self.other = sorted(n for n in numbers if not n.is_integer())

    def found_in(self, text: str) -> list[str]:
        """The true values in a text, as they stand there."""
        return [shown for shown in _numbers(text) if self._is_true(shown)]

    def _is_true(self, shown: str) -> bool:
        number = abs(float(shown))
        digits = len(re.sub(r"[eE].*|\D", "", shown).lstrip("0"))
        if number.is_integer() and digits >= _WHOLE_DIGITS and int(number) in self.whole:
            return True
        if digits < _DIGITS:
            return False
        near = number * 10.0 ** (1 - min(digits, 15)) / 2  # half of the last digit shown
        at = bisect.bisect_left(self.other, number - near)
        return at < len(self.other) and self.other[at] <= number + near


def _numbers(text: str) -> Iterable[str]:
    for match in _NUMBER.finditer(text):
        # A list of numbers may look like one number with separated thousands: both readings count.
        parts = re.split(r"[,_\u202f\u2009 ]+", match[0])
        joined = "".join(parts)
        yield from (part for part in {*parts, joined} if re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", part))


def stored_rows(ledger: Path) -> str:
    """Every row of a SQLite ledger, as text."""
    connection = sqlite3.connect(ledger)
    try:
        return "\n".join(connection.iterdump())
    finally:
        connection.close()
