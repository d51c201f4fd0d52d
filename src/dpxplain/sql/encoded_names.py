"""The names of the encoded table, and of declared columns and expressions in it; a statement's parameters.

Apart from `render`, so that whoever only encodes rows need not load the SQL parser.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import dataclass, field
from typing import Any

from dpxplain.model.schema import Schema

ENCODED = "encoded"
CONDENSED = "condensed"
PERSON = "person_hash"  # of the privacy unit, where it is not the row
UNIT = "person_text"  # the privacy unit itself, only where tables are still to be joined by it
CELLS = "cells"  # of a pass that counts by texts
NAMED_CELLS = "named_cells"  # the same cells, whose texts were encoded
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
    """The position of a declared column, or a hash that stands for the column of a query's expression.

    The whole hash: an analyst who found two expressions with one name would have the sensitivity of one
    charged for the other. In base 32: PostgreSQL cuts names after 63 bytes.
    """
    if name in schema.columns:
        return str(list(schema.columns).index(name))
    return "x" + b32encode(hashlib.sha256(name.encode()).digest()).decode().rstrip("=").lower()
