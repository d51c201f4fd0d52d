"""Names and values as SQL text."""

from __future__ import annotations

import re
from datetime import date, datetime

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_RESERVED = re.compile(
    "(?:and|as|between|by|case|cast|distinct|end|else|extract|false|from|group|having|ilike|in|interval|is|join"
    r"|like|limit|not|null|on|or|order|select|then|true|union|when|where|with)\Z"
)


def sql_name(name: str) -> str:
    """An identifier as SQL, quoted only where it must be.

    >>> sql_name("native_country"), sql_name("hours per week")
    ('native_country', '"hours per week"')
    >>> sql_name("order")
    '"order"'
    """
    is_plain = _PLAIN_NAME.match(name) and not _RESERVED.match(name)
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def sql_literal(value: str | int | float | bool | date) -> str:
    """A value as SQL.

    >>> sql_literal("it's"), sql_literal(0.5), sql_literal(date(2025, 7, 1))
    ("'it''s'", '0.5', "DATE '2025-07-01'")
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return str(value) if isinstance(value, int) else f"{value:.15g}"
