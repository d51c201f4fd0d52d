"""The names that declared columns, and expressions of queries, have in the encoded table."""

from __future__ import annotations

import hashlib

from dpxplain.model.schema import Schema


def code_column(schema: Schema, name: str) -> str:
    return f"code_{column_number(schema, name)}"


def units_column(schema: Schema, name: str) -> str:
    return f"units_{column_number(schema, name)}"


def value_column(schema: Schema, name: str) -> str:
    return f"value_{column_number(schema, name)}"


def column_number(schema: Schema, name: str) -> str:
    """The position of a declared column, or a hash that stands for the column of a query's expression.

    The whole hash: an analyst who found two expressions with one name would have the sensitivity of one
    charged for the other.
    """
    if name in schema.columns:
        return str(list(schema.columns).index(name))
    return "x" + hashlib.sha256(name.encode()).hexdigest()
