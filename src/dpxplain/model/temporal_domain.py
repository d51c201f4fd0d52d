"""Domains of expressions on dates and timestamps: parts, truncation, differences and shifts."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from fractions import Fraction

from dpxplain.model.dates import midnight
from dpxplain.model.expression import IntervalUnit, Part, SpanUnit, Unit
from dpxplain.model.value_domain import (
    MOST_VALUES,
    Kind,
    ValueDomain,
    as_timestamp,
    between,
    listed,
    mapped,
)

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
    beginnings = []
    for moment in _beginnings(midnight(domain.low), midnight(domain.high), unit):
        beginnings.append(typed(moment))
        if len(beginnings) > MOST_VALUES:
            return None
    return listed(kind, beginnings)


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
