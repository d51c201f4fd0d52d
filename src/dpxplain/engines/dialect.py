"""The differences between the engines' SQL: how a database casts, compares, hashes and dates.

The rules that all engines share are in `encoding`, `expression_sql` and `fit_sql`.

Every SQL expression of a dialect is safe for every value: one that does not fit becomes NULL, not an error.
`kind` is a column's type in the source's catalog. It never depends on the rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal

from dpxplain.sql.encoded_names import Parameters

Kind = Literal[
    "whole",
    "decimal",
    "long decimal",  # more digits than a double holds
    "float",
    "boolean",
    "text",
    "date",
    "timestamp",
    "zoned",  # a timestamp with a time zone
    "nothing",  # a column without a type, all NULL
    "other",
]

NUMBERS: tuple[Kind, ...] = ("whole", "decimal", "long decimal", "float")
MOMENTS: tuple[Kind, ...] = ("date", "timestamp", "zoned")
WORDS: dict[Kind, str] = dict.fromkeys(NUMBERS, "numbers") | {
    "boolean": "true or false", "text": "text", "date": "text", "timestamp": "timestamps",
    "zoned": "timestamps", "nothing": "nothing", "other": "values of another type",
}  # fmt: skip
"""What a column of each kind holds, in words; a date counts as text."""

# Adding this before floor() rounds halves up. Adding 0.5 would also round up the largest double below 0.5.
_ALMOST_HALF = 0.49999999999999994


def nearest(number: float, low: float, high: float) -> int:
    """The same as `Dialect.nearest`, computed in Python."""
    is_up = number >= 0 if low < 0 < high else low >= 0
    return math.floor(number + _ALMOST_HALF) if is_up else math.ceil(number - _ALMOST_HALF)


class Dialect(ABC):
    """One database's SQL."""

    name: str
    """The dialect's name in sqlglot."""
    double = "DOUBLE"
    text = "VARCHAR"
    moment = "TIMESTAMP"
    """The type of timestamps, which have no time zone."""
    inlined = "AS"
    """The keyword that stops the engine from materialising a CTE (NOT MATERIALIZED), or plain AS."""
    compares_whole = False
    """Whether a whole number of any width can be compared with a literal directly, without an error."""
    counts_clamped = False
    """Whether the engine computes a clamped number only once if both the count and the sum read it."""
    numbers_cells = False
    """Whether a pass over many subsets counts numbered cells, not GROUPING SETS."""

    # -- Names, values, types ------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    @abstractmethod
    def placeholder(self, number: int) -> str:
        """How a statement refers to a parameter."""

    def number_literal(self, value: float) -> str:
        """A float to its last digit. A bare 0.1 may be a decimal, whose conversion can be off by one."""
        return f"CAST('{float(value)!r}' AS {self.double})"

    @abstractmethod
    def code_type(self, size: int) -> str:
        """The smallest type for codes from 0 to `size`."""

    @abstractmethod
    def array(self, values: Sequence[Any], parameters: Parameters) -> str:
        """Values of one type, as an array; numbers are doubles."""

    @abstractmethod
    def element(self, array: str, place: str) -> str:
        """The element at a place from 1; NULL for 0 and outside."""

    def type_of(self, value: Any) -> str:
        """The SQL type of such a value in expressions."""
        types = {bool: "BOOLEAN", int: self.double, float: self.double, date: "DATE", datetime: self.moment}
        return types.get(type(value), self.text)

    # -- The source's values -------------------------------------------------------------------------------

    @abstractmethod
    def number(self, source: str, kind: Kind) -> str:
        """The value as a correctly rounded double. TRUE is 1; a number beyond the range is infinite."""

    @abstractmethod
    def whole(self, source: str, kind: Kind) -> str:
        """The value as a 64-bit integer; NULL if it is not one."""

    @abstractmethod
    def truth(self, source: str, kind: Kind) -> str:
        """TRUE or FALSE. 1 counts as TRUE and 0 as FALSE; other numbers are neither."""

    @abstractmethod
    def text_of(self, source: str, kind: Kind) -> str:
        """The value as a text that is compared by its bytes, without the padding of CHAR."""

    def exact_text(self, source: str, kind: Kind) -> str:
        """The value as a text that GROUP BY and PARTITION BY compare by its bytes, whatever the collation."""
        return self.text_of(source, kind)

    def valid_text(self, text: str) -> str:
        """The text; NULL if its bytes are not UTF-8, in an engine whose tables can hold such text."""
        return text

    @abstractmethod
    def micros(self, source: str, kind: Kind, zone: str) -> str:
        """Microseconds since 1970 as a 64-bit integer, local to the zone if the value has one."""

    def is_nan(self, number: str) -> str:
        return f"isnan({number})"

    def for_texts(self, number: int, columns: int) -> Dialect:
        """The dialect for a statement that encodes `columns` columns with `number` declared texts in all."""
        return self

    @abstractmethod
    def code(self, key: str, codes: Mapping[Any, int], parameters: Parameters) -> str:
        """The code of a text (compared by its bytes) or whole number; NULL if it has none."""

    def is_among(self, text: str, values: Sequence[str], parameters: Parameters) -> str:
        """Whether a text, compared by its bytes, is one of the values."""
        return f"{text} IN ({', '.join(self.placeholder(parameters.bind(value)) for value in values)})"

    def known_text(self, text: str) -> str:
        """Whether a text names a privacy unit: '' and 'nan' do not."""
        return f"({text} IS NOT NULL AND lower({text}) NOT IN ('', 'nan'))"

    # -- Choosing and counting persons ---------------------------------------------------------------------

    def md5(self, text: str) -> str:
        """32 hexadecimal digits that are ordered by their bytes."""
        return f"md5({text})"

    def person(self, text: str) -> str:
        """The hash by which COUNT(DISTINCT unit) tells persons apart: 128 bits, from the unit's text."""
        return f"md5({text})"

    # -- Expressions over declared values ------------------------------------------------------------------

    def nearest(self, number: str, low: float, high: float) -> str:
        """The nearest whole number, halves away from zero; the number lies between `low` and `high`."""
        half = self.number_literal(_ALMOST_HALF)
        up, down = f"floor({number} + {half})", f"ceil({number} - {half})"
        if low >= 0 or high <= 0:
            return up if low >= 0 else down
        return f"CASE WHEN {number} >= 0 THEN {up} ELSE {down} END"

    def integer(self, number: str) -> str:
        """A whole number as a 32-bit integer."""
        return f"CAST({number} AS INTEGER)"

    def factor(self, number: str) -> str:
        """A number as an operand of * or /. Where underflow is an error, the dialect prevents it here."""
        return number

    def remainder(self, left: str, right: str, is_whole: bool) -> str:
        """The remainder of a division, with the sign of the dividend."""
        return f"({left} % {right})"

    def function(self, name: str, arguments: Sequence[str]) -> str:
        """A call of a function. A numeric function returns a double for every double."""
        return f"{name}({', '.join(arguments)})"

    @abstractmethod
    def like(self, text: str, pattern: str, ignores_case: bool) -> str:
        """LIKE without an escape character."""

    @abstractmethod
    def half_even(self, number: str) -> str:
        """The nearest whole number as a 64-bit integer, halves to even; NULL beyond 64 bits."""

    @abstractmethod
    def cast(self, value: str, target: str, kind: str) -> str:
        """A cast of a declared value of some kind ("number", "boolean", ...); NULL where it does not fit."""

    @abstractmethod
    def timestamp(self, micros: str) -> str:
        """The timestamp at a place on the number line (a double)."""

    def date_part(self, name: str, moment: str) -> str:
        """A part of a date or timestamp, such as the year: a whole number as a double."""
        return f"CAST(date_part('{name}', {moment}) AS {self.double})"

    def date_trunc(self, unit: str, moment: str) -> str:
        return f"date_trunc('{unit}', {moment})"

    @abstractmethod
    def span_number(self, moment: str, micros: int) -> str:
        """The number of spans of `micros` microseconds from 1970 to `moment`, the beginning of a span."""
