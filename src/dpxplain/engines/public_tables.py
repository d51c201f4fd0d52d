"""Reads a schema's public dimension tables. Their values are public, so types may be inferred from them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpxplain.errors import SchemaError, SourceError
from dpxplain.model.column import read_dates
from dpxplain.model.schema import PublicRows, Schema

LARGEST_PUBLIC_TABLE = 100_000  # rows
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})")  # 007 is a code, not a number
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def with_public_tables(
    schema: Schema, folder: Path, replacements: Mapping[str, object] | None = None
) -> Schema:
    """The schema with the columns of its public tables. `replacements` are used in place of declared sources.

    A table whose key column must still be discovered is read after the discovery. The returned schema looks
    for the files of private tables in `folder`.
    """
    unknown = [name for name in replacements or {} if name not in {**schema.tables, **schema.private}]
    if unknown:
        raise SchemaError(
            f"The schema does not declare a table {unknown[0]!r}.",
            remedy=f'Add [tables.{unknown[0]}] with key = "..." and public = true.',
        )
    schema = schema.with_private_in(folder)
    ready = [name for name in schema.unread_tables if not schema.awaited_by(name)]
    if not ready:
        return schema
    contents = {name: _rows(schema, name, folder, replacements or {}) for name in ready}
    return schema.with_public(contents)


def _rows(schema: Schema, name: str, folder: Path, replacements: Mapping[str, object]) -> PublicRows:
    source = replacements.get(name)
    if source is None:
        declared = schema.tables[name].source
        if declared is None:
            raise SchemaError(
                f"tables.{name}.source is missing.",
                remedy=f'Set it to the table\'s file or address, or pass tables={{"{name}": DataFrame}} to '
                "connect.",
            )
        source = folder / declared
    return _read(name, source, schema.tables[name].key)


def _read(name: str, source: object, key: str) -> PublicRows:

    from dpxplain.engines.duckdb_source import open_connection, open_source, quiet

    connection = open_connection()
    unreadable = SourceError(
        f"The public table {name} could not be read completely.", remedy="Is the file damaged?"
    )
    with closing(connection), quiet(unreadable):
        opened = open_source(connection, source, name)
        opened.check_rows()
        rows = opened.relation.limit(LARGEST_PUBLIC_TABLE + 1).to_arrow_table()
        if rows.num_rows > LARGEST_PUBLIC_TABLE:
            raise SchemaError(
                f"tables.{name}: has more than {LARGEST_PUBLIC_TABLE:,} rows.",
                remedy="Use a smaller table that has only the declared keys.",
            )
        return {
            column: _typed(
                rows.column(column).to_pylist(), is_text=column in opened.untyped and column != key
            )
            for column in rows.column_names
        }


def _typed(values: list[Any], *, is_text: bool) -> list[Any]:
    """Values in the types of expressions. Texts that are all numbers, dates or true/false are converted."""
    plain = [_plain(value) for value in values]
    if not is_text:
        return plain
    texts = [value for value in plain if value is not None]
    for read in (_whole, _number, _boolean, _date):
        if texts and all(read(text) is not None for text in texts):
            return [None if value is None else read(value) for value in plain]
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    is_known = value is None or isinstance(value, str | bool | int | date)
    return value if is_known else str(value)


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def _number(text: str) -> float | None:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number if math.isfinite(number) else None


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _date(text: str) -> date | None:
    read = read_dates([text])
    return None if read is None else read[0]
