"""Dates and timestamps in declarations: read from ISO text or TOML, ordered, and placed on a number line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?\Z")
_EPOCH = datetime(1970, 1, 1)


def read_dates(values: Sequence[Any]) -> tuple[date, ...] | None:
    """The values as dates, or all as timestamps if one of them is a timestamp; None if any is neither.

    >>> read_dates(["2025-01-01", "2025-07-01"])
    (datetime.date(2025, 1, 1), datetime.date(2025, 7, 1))
    """
    read = [_read_date(value) for value in values]
    if not read or any(moment is None for moment in read):
        return None
    moments = [moment for moment in read if moment is not None]
    has_time = any(isinstance(moment, datetime) for moment in moments)
    return tuple(midnight(moment) if has_time else moment for moment in moments)


def midnight(day: date) -> datetime:
    """A date as a timestamp; a timestamp as it is."""
    return day if isinstance(day, datetime) else datetime.combine(day, time())


def position(moment: date) -> float:
    """Microseconds since 1970 on the number line, exact for some 285 years on either side."""
    return float(micros(moment))


def micros(moment: date) -> int:
    """Microseconds since 1970."""
    return (midnight(moment) - _EPOCH) // timedelta(microseconds=1)


def at_position(place: float) -> date:
    """The inverse of `position`: a date at midnight, else a timestamp; clipped to the first or last moment.

    >>> at_position(position(date(2025, 1, 31))), at_position(-1e30)
    (datetime.date(2025, 1, 31), datetime.date(1, 1, 1))
    """
    inside = min(max(place, position(datetime.min)), position(datetime.max))
    moment = _EPOCH + timedelta(microseconds=int(inside))
    return moment.date() if moment.time() == time() else moment


def comparable(value: Any) -> Any:
    """A value that compares with others of its column: a date as a timestamp, anything else as it is."""
    return midnight(value) if isinstance(value, date) else value


def edge_text(value: Any, separator: str = "") -> str:
    """A declared edge or bound as text for people, thousands separated if asked for.

    >>> edge_text(2.5), edge_text(2500, ","), edge_text(date(2025, 1, 31))
    ('2.5', '2,500', '2025-01-31')
    """
    return str(value) if isinstance(value, date) else f"{value:{separator}.15g}"


def _read_date(value: Any) -> date | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise ValueError("must not contain a time zone; declare time_zone for the column")
    if isinstance(value, date):
        return value
    if not isinstance(value, str) or not _ISO.match(value):
        return None
    try:
        return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
    except ValueError:
        return None
