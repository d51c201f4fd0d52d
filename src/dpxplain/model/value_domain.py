"""What values an expression can have: a short list, or everything between two ends.

Computed from declarations alone. NULL is always possible and belongs to no domain. Numbers are computed in
floats, as the engine does it; rounding is monotone, so the ends of a result are the results at the ends.
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import islice, product
from typing import Any, Literal

from dpxplain.model.column import midnight
from dpxplain.model.expression import IntervalUnit, Part, SpanUnit, Target, Unit, Value

# -- Domains of values -------------------------------------------------------------------------------------

Kind = Literal["number", "text", "boolean", "date", "timestamp", "null"]

MOST_VALUES = 1_000  # a longer list is described by its ends
_MOST_PAIRS = 20_000  # computed to find the values of an operation on two lists


def like_matcher(pattern: str, ignores_case: bool) -> Callable[[str], bool]:
    """A function that matches like SQL's LIKE: % is any characters, _ is one, and nothing escapes them.

    It follows all ways to match at once. Each bit stands for a number of pattern characters used up so far,
    so the work is one step per character of the text, whatever the pattern is.

    >>> newark = like_matcher("N%k", False)
    >>> newark("Newark"), newark("Newar"), like_matcher("new___", True)("Newark")
    (True, False, True)
    """
    wildcards, loops, used = 0, 0, 0
    places: dict[str, int] = {}
    for letter in pattern:
        if letter == "%":
            loops |= 1 << used
            continue
        if letter == "_":
            wildcards |= 1 << used
        else:
            key = _without_case(letter) if ignores_case else letter
            places[key] = places.get(key, 0) | 1 << used
        used += 1

    def matches(text: str) -> bool:
        if used > len(text):
            return False
        states = 1
        for letter in text:
            key = _without_case(letter) if ignores_case else letter
            states = (states & (places.get(key, 0) | wildcards)) << 1 | states & loops
        return bool(states >> used & 1)

    return matches


def _without_case(letter: str) -> str:
    """The same letter for all that differ only in case. ß, whose capital is two letters, stays itself."""
    capital = letter.upper()
    return (capital if len(capital) == 1 else letter).lower()[:1]


@dataclass(frozen=True)
class ValueDomain:
    """`values`, or else everything from `low` to `high`; `step` if all are whole multiples of it."""

    kind: Kind
    values: tuple[Value, ...] | None = None
    low: Any = None
    high: Any = None
    step: Fraction | None = None

    @property
    def ends(self) -> tuple[Any, Any]:
        """The least and the greatest value of a list that is not empty, or of a range."""
        return (min(self.values), max(self.values)) if self.values else (self.low, self.high)

    @property
    def multiple(self) -> Fraction | None:
        """The largest number that all values are multiples of, if it is known."""
        if self.values is None:
            return self.step
        return reduce(_common_step, (Fraction(Decimal(repr(value))) for value in self.values), Fraction(0))

    @property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers."""
        multiple = self.multiple if self.kind == "number" else None
        return multiple is not None and multiple.denominator == 1

    @property
    def is_empty(self) -> bool:
        return self.values == ()


def kind_of(value: Value) -> Kind:
    """The kind of one value."""
    kinds: dict[type, Kind] = {bool: "boolean", str: "text", int: "number", float: "number", date: "date"}
    return kinds.get(type(value), "timestamp")


def listed(kind: Kind, values: Iterable[Value]) -> ValueDomain:
    """The domain of a list, numbers and dates in order. A long one keeps only its ends."""
    distinct = dict.fromkeys(_plain_number(value) if kind == "number" else value for value in values)
    ordered: list[Any] = list(distinct) if kind in ("text", "boolean") else sorted(distinct)
    domain = ValueDomain(kind, tuple(ordered))
    if len(ordered) <= MOST_VALUES or kind in ("text", "boolean"):
        return domain
    step = domain.multiple if kind == "number" else None
    return ValueDomain(kind, None, ordered[0], ordered[-1], step)


def between(low: float, high: float, step: Fraction | None = None) -> ValueDomain:
    """All numbers from `low` to `high`; a list if they are whole numbers and few."""
    if step is not None and step.denominator == 1 and step and (high - low) / float(step) < MOST_VALUES:
        first, last = math.ceil(Fraction(low) / step), math.floor(Fraction(high) / step)
        return listed("number", (int(i * step) for i in range(first, last + 1)))
    return ValueDomain("number", None, low, high, step)


def mapped(domain: ValueDomain, kind: Kind, function: Callable[[Any], Value | None]) -> ValueDomain:
    """The results of a function on a list. Results that are None are left out."""
    assert domain.values is not None
    images = (function(value) for value in domain.values)
    return listed(kind, (image for image in images if image is not None))


def monotone(
    domain: ValueDomain, function: Callable[[float], float], step: Fraction | None = None
) -> ValueDomain:
    """The results on numbers of a function that never decreases; its values are multiples of `step`."""
    if domain.values is not None:
        return mapped(domain, "number", function)
    return between(function(domain.low), function(domain.high), step)


def combined(
    left: ValueDomain, right: ValueDomain, function: Callable[[float, float], float]
) -> ValueDomain | None:
    """The values of an operation on two short lists; None if they are too many to compute."""
    if left.values is None or right.values is None or len(left.values) * len(right.values) > _MOST_PAIRS:
        return None
    pairs = product(left.values, right.values)
    results = [function(float(a), float(b)) for a, b in pairs]  # type: ignore[arg-type]
    return listed("number", results) if all(map(math.isfinite, results)) else None


def union(domains: Iterable[ValueDomain]) -> ValueDomain | None:
    """All values of several domains; None if they are of different kinds."""
    parts = [domain for domain in domains if domain.kind != "null" and not domain.is_empty]
    if not parts:
        return ValueDomain("null", ())
    if {part.kind for part in parts} == {"date", "timestamp"}:
        parts = [as_timestamp(part) for part in parts]
    if len({part.kind for part in parts}) > 1:
        return None
    kind = parts[0].kind
    if all(part.values is not None for part in parts):
        return listed(kind, (value for part in parts for value in part.values or ()))
    ends = [end for part in parts for end in part.ends]
    if kind != "number":
        return ValueDomain(kind, None, min(ends), max(ends))
    return between(min(ends), max(ends), common_multiple(*parts))


def common_multiple(*parts: ValueDomain) -> Fraction | None:
    """The largest number that all values of all parts are multiples of; None if a part's is not known."""
    steps = [part.multiple for part in parts]
    return None if None in steps else reduce(_common_step, steps, Fraction(0))  # type: ignore[arg-type]


def as_timestamp(domain: ValueDomain) -> ValueDomain:
    """Dates as the first moment of each day."""
    if domain.kind == "timestamp":
        return domain
    if domain.values is not None:
        return listed("timestamp", (midnight(value) for value in domain.values))  # type: ignore[arg-type]
    return replace(domain, kind="timestamp", low=midnight(domain.low), high=midnight(domain.high))


def corners(
    left: ValueDomain, right: ValueDomain, function: Callable[[float, float], float], step: Fraction | None
) -> ValueDomain:
    """The range of a function that is monotone in each argument."""
    results = [function(float(a), float(b)) for a in left.ends for b in right.ends]
    return between(min(results), max(results), step)


def without_zero(domain: ValueDomain) -> list[ValueDomain]:
    """The parts of a domain on both sides of 0; none where its values can come arbitrarily near 0."""
    if domain.values is not None:
        return [listed("number", (value for value in domain.values if value))]
    low, high = domain.ends
    if low > 0 or high < 0:
        return [domain]
    if domain.step is None:
        return []
    step = float(domain.step)
    sides = [(low, -step), (step, high)]
    return [ValueDomain("number", None, a, b, domain.step) for a, b in sides if a <= b]


def rounded(number: float, digits: int) -> float:
    """The number rounded half away from zero, as by SQL's ROUND."""
    scale = 10.0**digits
    return math.copysign(math.floor(abs(number) * scale + 0.5) / scale, number)


def _common_step(a: Fraction, b: Fraction) -> Fraction:
    """The greatest common divisor; for 0 and a number, the number."""
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator)) / (
        a.denominator * b.denominator
    )


def _plain_number(value: Any) -> int | float:
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


_KINDS: dict[Target, Kind] = {
    "DOUBLE": "number",
    "BIGINT": "number",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*\Z")
WHOLE_LIMIT = 2.0**62  # from here on a cast to BIGINT is NULL
LARGEST_NUMBER = 1e100  # beyond it the cast of a text is NULL: sums and squares of it could overflow


def cast_domain(domain: ValueDomain, target: Target) -> ValueDomain | None:
    """The domain after a cast; None if it cannot be known. Values that do not fit the target become NULL."""
    kind = _KINDS[target]
    if domain.kind == "null":
        return domain
    if kind == "number" and domain.kind == "number":
        return domain if target == "DOUBLE" else _whole(domain)
    if kind == "timestamp" and domain.kind in ("date", "timestamp"):
        return as_timestamp(domain)
    if kind == domain.kind:
        return domain
    if kind == "date" and domain.kind == "timestamp":
        if domain.values is None:
            return ValueDomain("date", None, domain.low.date(), domain.high.date())
        return mapped(domain, "date", lambda moment: moment.date())
    if domain.values is None or (kind == "text" and domain.kind == "number" and not domain.is_whole):
        return None
    if kind == "number":
        numbers = mapped(domain, "number", _number)
        return numbers if target == "DOUBLE" or numbers.is_empty else _whole(numbers)
    if kind == "text":
        return mapped(domain, "text", _text)
    return mapped(domain, kind, {"boolean": _boolean, "date": _date, "timestamp": _timestamp}[kind])


def _whole(domain: ValueDomain) -> ValueDomain:
    """The domain rounded to whole numbers, half to even, without values from the limit on."""
    if domain.values is not None:
        return mapped(domain, "number", lambda value: round(value) if abs(value) < WHOLE_LIMIT else None)
    low, high = max(domain.low, -WHOLE_LIMIT), min(domain.high, WHOLE_LIMIT)
    return between(round(low), round(high), Fraction(1)) if low <= high else listed("number", ())


def _number(value: Value) -> float | None:
    if isinstance(value, bool):
        return float(value)
    number = float(value) if isinstance(value, str) and _NUMBER.match(value) else math.inf
    return number if abs(number) <= LARGEST_NUMBER else None


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _boolean(value: Value) -> bool | None:
    if isinstance(value, int | float):
        return bool(value)
    words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    return words.get(value.lower()) if isinstance(value, str) else None


def _date(value: Value) -> date | None:
    moment = _timestamp(value)
    return None if moment is None else moment.date()


def _timestamp(value: Value) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return None if moment.tzinfo is not None else moment


# -- Domains of dates --------------------------------------------------------------------------------------
#
# Parts, truncation, differences and shifts of dates and timestamps.

_RANGES: dict[Part, tuple[int, int]] = {
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
_PARTS: dict[Part, Callable[[datetime], int]] = {
    "year": lambda moment: moment.year,
    "quarter": lambda moment: (moment.month + 2) // 3,
    "month": lambda moment: moment.month,
    "week": lambda moment: moment.isocalendar().week,
    "day": lambda moment: moment.day,
    "dow": lambda moment: moment.isoweekday() % 7,
    "isodow": lambda moment: moment.isoweekday(),
    "doy": lambda moment: moment.timetuple().tm_yday,
    "hour": lambda moment: moment.hour,
    "minute": lambda moment: moment.minute,
    "second": lambda moment: moment.second,
}
SUBDAY_UNITS = ("hour", "minute")


def part_domain(domain: ValueDomain, part: Part) -> ValueDomain:
    """The domain of EXTRACT: whole numbers; for years, those from the first to the last."""
    if domain.values is not None:
        return mapped(domain, "number", lambda moment: _PARTS[part](midnight(moment)))
    if part == "year":
        return listed("number", range(domain.low.year, domain.high.year + 1))
    first, last = _RANGES[part]
    return listed("number", range(first, last + 1))


def truncated_domain(domain: ValueDomain, unit: Unit) -> ValueDomain | None:
    """The domain of DATE_TRUNC: the beginnings of all units in the range; None if there are too many."""
    is_timestamp = unit in SUBDAY_UNITS
    kind: Kind = "timestamp" if is_timestamp else "date"

    def typed(moment: datetime) -> date:
        return moment if is_timestamp else moment.date()

    if domain.values is not None:
        return mapped(domain, kind, lambda moment: typed(truncated(midnight(moment), unit)))
    moments = _beginnings(midnight(domain.low), midnight(domain.high), unit)
    beginnings = list(map(typed, islice(moments, MOST_VALUES + 1)))
    return None if len(beginnings) > MOST_VALUES else listed(kind, beginnings)


SPANS: dict[SpanUnit, timedelta] = {
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
}


def difference_domain(start: ValueDomain, end: ValueDomain, unit: SpanUnit) -> ValueDomain:
    """The domain of DATE_DIFF: it grows with the end and falls with the start."""
    if start.is_empty or end.is_empty:
        return ValueDomain("number", ())
    (first, last), (low, high) = (
        [(moment - datetime(1970, 1, 1)) // SPANS[unit] for moment in as_timestamp(domain).ends]
        for domain in (start, end)
    )
    return between(low - last, high - first, Fraction(1))


MONTHS: dict[IntervalUnit, int] = {"year": 12, "month": 1}
"""Units whose length depends on the calendar, in months."""


def shifted_kind(domain: ValueDomain, unit: IntervalUnit) -> Kind:
    """The kind after a shift: a date that is shifted by whole days stays a date."""
    return "date" if domain.kind == "date" and unit not in ("hour", "minute", "second") else "timestamp"


def shifted_domain(domain: ValueDomain, amount: int, unit: IntervalUnit) -> ValueDomain | None:
    """The moments `amount` units later; None if one can be outside the years 1 to 9999."""
    kind = shifted_kind(domain, unit)

    def typed(moment: datetime) -> date:
        return moment.date() if kind == "date" else moment

    try:
        if domain.values is not None:
            return mapped(domain, kind, lambda moment: typed(shifted(midnight(moment), amount, unit)))
        low, high = _shifted_ends(midnight(domain.low), midnight(domain.high), amount, unit)
    except (OverflowError, ValueError):
        return None
    return ValueDomain(kind, None, typed(low), typed(high))


def _shifted_ends(
    low: datetime, high: datetime, amount: int, unit: IntervalUnit
) -> tuple[datetime, datetime]:
    """The ends of the range in which all moments from `low` to `high` lie after a shift.

    A shift by months can move the 28th and later days to one day, which then has the hours of all of them.
    """
    first, last = shifted(low, amount, unit), shifted(high, amount, unit)
    if unit in MONTHS:
        if low.day > 27:
            first = datetime.combine(first, time.min)
        if high.day > 28:
            last = datetime.combine(last, time.max)
    return first, last


def shifted(moment: datetime, amount: int, unit: IntervalUnit) -> datetime:
    """The moment `amount` units later, by DuckDB's rule: a day that a month lacks becomes its last day.

    >>> shifted(datetime(2025, 1, 31, 7), 1, "month")
    datetime.datetime(2025, 2, 28, 7, 0)
    """
    if unit not in MONTHS:
        return moment + timedelta(**{f"{unit}s": amount})
    years, month = divmod(moment.month - 1 + amount * MONTHS[unit], 12)
    year = moment.year + years
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def truncated(moment: datetime, unit: Unit) -> datetime:
    """The beginning of the unit that a moment lies in; weeks begin on Monday."""
    if unit in SUBDAY_UNITS:
        return moment.replace(minute=moment.minute if unit == "minute" else 0, second=0, microsecond=0)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "year":
            return day.replace(month=1, day=1)
        case "quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return day.replace(day=1)
        case "week":
            return day - timedelta(days=day.weekday())
    return day


def _beginnings(low: datetime, high: datetime, unit: Unit) -> Iterator[datetime]:
    moment = truncated(low, unit)
    while moment <= high:
        yield moment
        moment = shifted(moment, 3, "month") if unit == "quarter" else shifted(moment, 1, unit)
