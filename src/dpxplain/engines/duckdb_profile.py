"""Statistics of a source's columns, for the curator who drafts a schema. Their computation is NOT private.

No code that an analyst can reach calls this: drafts are made beside the data, before any budget exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from dpxplain.engines.duckdb_encoding import kind_of, quote
from dpxplain.engines.duckdb_source import open_source, quiet
from dpxplain.errors import SourceError

MOST_VALUES = 100  # a longer list is no domain that a person can review


@dataclass(frozen=True)
class ColumnProfile:
    """One column of the source; everything but its name and kind is computed from rows."""

    name: str
    kind: str  # "numbers", "text", "true or false", or a name of what cannot be declared
    rows: int
    filled: int  # rows that are not NULL; not NaN either, for numbers
    distinct: int  # exact up to MOST_VALUES, then a good estimate
    values: tuple[Any, ...] = ()  # sorted, if there are at most MOST_VALUES
    low: float | None = None
    high: float | None = None
    whole: bool = False  # only whole numbers

    @property
    def has_null(self) -> bool:
        return self.filled < self.rows


def profile(source: str | Path) -> list[ColumnProfile]:
    """Read the whole source once for its ranges, and again for each short list of values."""
    connection = duckdb.connect(":memory:")
    try:
        opened = open_source(connection, source)
        with quiet(SourceError(f"{source} could not be read to its end.")):
            opened.check_rows()
            opened.relation.create_view("source")
            return [
                _column(connection, name, kind_of(kind), name in opened.untyped)
                for name, kind in opened.types.items()
            ]
    finally:
        connection.close()


def _column(connection: duckdb.DuckDBPyConnection, name: str, kind: str, untyped: bool) -> ColumnProfile:
    column = quote(name)
    if untyped and _all_numbers(connection, column):
        kind = "numbers"
    if kind == "numbers":
        return _numbers(connection, name)
    text = f"CAST({column} AS {'BOOLEAN' if kind == 'true or false' else 'VARCHAR'})"
    rows, filled, distinct = _row(
        connection, f"SELECT count(*), count({text}), approx_count_distinct({text}) FROM source"
    )
    values = () if kind not in ("text", "true or false") else _values(connection, text, distinct)
    return ColumnProfile(name, kind, rows, filled, len(values) or distinct, values)


def _numbers(connection: duckdb.DuckDBPyConnection, name: str) -> ColumnProfile:
    number = f"TRY_CAST({quote(name)} AS DOUBLE)"
    finite = f"CASE WHEN isfinite({number}) THEN {number} END"
    rows, filled, distinct, low, high, whole = _row(
        connection,
        f"SELECT count(*), count(CASE WHEN NOT isnan({number}) THEN 1 END), approx_count_distinct({finite}),"
        f" min({finite}), max({finite}), bool_and({finite} = floor({finite})) FROM source",
    )
    values = _values(connection, finite, distinct)
    return ColumnProfile(
        name, "numbers", rows, filled, len(values) or distinct, values, low, high, bool(whole)
    )


def _all_numbers(connection: duckdb.DuckDBPyConnection, column: str) -> bool:
    """Whether a text column of a CSV file holds numbers only. A leading zero marks a code, as in 02139."""
    test = f"TRY_CAST({column} AS DOUBLE) IS NOT NULL AND NOT regexp_matches({column}, '^\\s*[+-]?0[0-9]')"
    filled, numbers = _row(connection, f"SELECT count({column}), count_if({test}) FROM source")
    return bool(filled) and filled == numbers


def _values(connection: duckdb.DuckDBPyConnection, expression: str, about: int) -> tuple[Any, ...]:
    """All distinct values in order, or none if they are too many; `about` is an estimate of their number."""
    if about > 2 * MOST_VALUES:
        return ()
    rows = connection.execute(
        f"SELECT DISTINCT {expression} AS value FROM source WHERE value IS NOT NULL "
        f"ORDER BY value LIMIT {MOST_VALUES + 1}"
    ).fetchall()
    return tuple(value for (value,) in rows) if len(rows) <= MOST_VALUES else ()


def _row(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row
