"""The differences between the engines' SQL: how a database casts, compares, hashes and dates.

The rules, which are the same for all, are in `encoding`, `expression_sql` and `fit_sql`.

Every text of a dialect is an expression that never raises an error: a value that does not fit becomes NULL.
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
    "nothing",  # a column of NULL only, without a type
    "other",
]

NUMBERS: tuple[Kind, ...] = ("whole", "decimal", "long decimal", "float")
MOMENTS: tuple[Kind, ...] = ("date", "timestamp", "zoned")
WORDS: dict[Kind, str] = dict.fromkeys(NUMBERS, "numbers") | {
    "boolean": "true or false", "text": "text", "date": "text", "timestamp": "timestamps",
    "zoned": "timestamps", "nothing": "nothing", "other": "values of another type",
}  # fmt: skip
"""What columns of a kind hold; a date is a text too."""

# Added before it is cut off, this rounds half up; 0.5 itself would take the number before 0.5 up as well.
_ALMOST_HALF = 0.49999999999999994


def nearest(number: float, low: float, high: float) -> int:
    """The same as `Dialect.nearest`, computed in Python."""
    is_up = number >= 0 if low < 0 < high else low >= 0
    return math.floor(number + _ALMOST_HALF) if is_up else math.ceil(number - _ALMOST_HALF)


class Dialect(ABC):
    """One database's SQL."""

    name: str
    """As sqlglot calls it."""
    double = "DOUBLE"
    text = "VARCHAR"
    moment = "TIMESTAMP"
    """The type of timestamps, which have no time zone."""
    inlined = "AS"
    """The keyword that stops the engine from materialising a CTE (NOT MATERIALIZED), or plain AS."""
    compares_whole = False
    """Whether whole numbers of any width are compared with a literal as they are, without an error."""
    counts_clamped = False
    """Whether a clamped number is computed once for its count and its sum, so that both may read it."""
    numbers_cells = False
    """Whether a pass over many subsets counts numbered cells, not GROUPING SETS."""

    # -- Names, values, types ------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    @abstractmethod
    def placeholder(self, number: int) -> str:
        """How a statement refers to a parameter."""

    def number_literal(self, value: float) -> str:
        """A float to its last digit; a bare 0.1 may be a decimal, whose conversion can be off by one."""
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
        """The type in which expressions have a value like this one."""
        types = {bool: "BOOLEAN", int: self.double, float: self.double, date: "DATE", datetime: self.moment}
        return types.get(type(value), self.text)

    # -- The source's values -------------------------------------------------------------------------------

    @abstractmethod
    def number(self, source: str, kind: Kind) -> str:
        """A double, exactly rounded; TRUE is 1; infinities beyond its range."""

    @abstractmethod
    def whole(self, source: str, kind: Kind) -> str:
        """A 64-bit integer, where the value is one."""

    @abstractmethod
    def truth(self, source: str, kind: Kind) -> str:
        """TRUE or FALSE; 1 and 0 count as these, other numbers do not."""

    @abstractmethod
    def text_of(self, source: str, kind: Kind) -> str:
        """A text that is compared by its bytes; without the padding of CHAR."""

    def exact_text(self, source: str, kind: Kind) -> str:
        """The text of a value that is grouped and partitioned by its bytes, whatever its collation."""
        return self.text_of(source, kind)

    def valid_text(self, text: str) -> str:
        """The text; NULL if its bytes are no UTF-8, where a table can hold such ones."""
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
        """What COUNT(DISTINCT unit) tells persons apart by: 128 bits of the unit's text."""
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
        """A number that is multiplied or divided; where underflow is an error, it must be kept out."""
        return number

    def remainder(self, left: str, right: str, is_whole: bool) -> str:
        """The rest of a division, with the sign of the dividend."""
        return f"({left} % {right})"

    def function(self, name: str, arguments: Sequence[str]) -> str:
        """A call of a function; those of numbers have a double for every double."""
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
        """The timestamp at a place of the number line, a double."""

    def date_part(self, name: str, moment: str) -> str:
        """A whole number, as a double."""
        return f"CAST(date_part('{name}', {moment}) AS {self.double})"

    def date_trunc(self, unit: str, moment: str) -> str:
        return f"date_trunc('{unit}', {moment})"

    @abstractmethod
    def span_number(self, moment: str, micros: int) -> str:
        """How many spans of so many microseconds lie between 1970 and the beginning of one."""
