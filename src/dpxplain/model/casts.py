"""What values a cast can give."""

from __future__ import annotations

import re
from datetime import date, datetime
from fractions import Fraction

from dpxplain.model.expression import Target, Value
from dpxplain.model.value_domain import Kind, ValueDomain, as_timestamp, listed, mapped, monotone

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
