"""The names of the encoded table and its columns, and the parameters of a statement.

They are not in `render`, so that code that only encodes rows need not load the SQL parser.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import dataclass, field
from typing import Any

from dpxplain.model.schema import Schema

ENCODED = "encoded"
CONDENSED = "condensed"
PERSON = "person_hash"  # a hash of the privacy unit, if it is not the row
UNIT = "person_text"  # the privacy unit itself, only while tables must still be joined by it
CELLS = "cells"  # the cells of a pass that counts by texts
NAMED_CELLS = "named_cells"  # the same cells with the texts encoded
ROW_CELLS = "row_cells"  # each row once per subset of a wide pass, with the number of its cell
DERIVED = "with_derived"  # the encoded table with the columns of a query's own expressions


@dataclass
class Parameters:
    """The values of one statement, each referred to by its number from 1, as often as needed."""

    values: list[Any] = field(default_factory=list)

    def bind(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values)


def code_column(schema: Schema, name: str) -> str:
    return f"code_{column_number(schema, name)}"


def units_column(schema: Schema, name: str) -> str:
    return f"units_{column_number(schema, name)}"


def value_column(schema: Schema, name: str) -> str:
    return f"value_{column_number(schema, name)}"


def column_number(schema: Schema, name: str) -> str:
    """The position of a declared column; for a query's own expression, a hash of its name.

    The hash is not shortened: an analyst who found two expressions with the same hash could have one charged
    by the other's sensitivity. It is in base 32, because PostgreSQL cuts names after 63 bytes.
    """
    if name in schema.columns:
        return str(list(schema.columns).index(name))
    return "x" + b32encode(hashlib.sha256(name.encode()).digest()).decode().rstrip("=").lower()
