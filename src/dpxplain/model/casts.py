"""What values a cast, a part of a date (EXTRACT) or a truncated date (DATE_TRUNC) can have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from fractions import Fraction

from dpxplain.model.expression import Part, Target, Unit, Value
from dpxplain.model.moments import midnight
from dpxplain.model.value_domain import MOST_VALUES, Kind, ValueDomain, as_timestamp, listed, mapped, monotone

_KINDS: dict[Target, Kind] = {
    "DOUBLE": "number",
    "BIGINT": "number",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*\Z")
_WHOLE_LIMIT = 2.0**62  # beyond it a cast to BIGINT is NULL


def cast_domain(domain: ValueDomain, target: Target) -> ValueDomain | None:
    """The domain after a cast; None if it cannot be known. What does not fit the target is NULL."""
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
    """Rounded to the nearest whole number, half to even."""
    low, high = domain.ends
    if domain.values is None and max(abs(low), abs(high)) >= _WHOLE_LIMIT:
        return listed("number", ())
    return monotone(domain, round, Fraction(1))


def _number(value: Value) -> float | None:
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, str) and _NUMBER.match(value) else None


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
    """EXTRACT: a whole number; of a year, those from the first to the last."""
    if domain.values is not None:
        return mapped(domain, "number", lambda moment: _PARTS[part](midnight(moment)))
    if part == "year":
        return listed("number", range(domain.low.year, domain.high.year + 1))
    first, last = _RANGES[part]
    return listed("number", range(first, last + 1))


def truncated_domain(domain: ValueDomain, unit: Unit) -> ValueDomain | None:
    """DATE_TRUNC: the beginnings of all units in the range; None if they are too many."""
    is_timestamp = unit in SUBDAY_UNITS
    kind: Kind = "timestamp" if is_timestamp else "date"

    def shown(moment: datetime) -> date:
        return moment if is_timestamp else moment.date()

    if domain.values is not None:
        return mapped(domain, kind, lambda moment: shown(truncated(midnight(moment), unit)))
    beginnings = []
    for moment in _beginnings(midnight(domain.low), midnight(domain.high), unit):
        beginnings.append(shown(moment))
        if len(beginnings) > MOST_VALUES:
            return None
    return listed(kind, beginnings)


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
        moment = _next(moment, unit)


def _next(moment: datetime, unit: Unit) -> datetime:
    match unit:
        case "year" | "quarter" | "month":
            months = {"year": 12, "quarter": 3, "month": 1}[unit] + moment.month - 1
            return moment.replace(year=moment.year + months // 12, month=months % 12 + 1)
        case "week":
            return moment + timedelta(days=7)
        case "day":
            return moment + timedelta(days=1)
    return moment + (timedelta(hours=1) if unit == "hour" else timedelta(minutes=1))
