"""Counts how the rows that DuckDB opens fit the declarations, by the same choice of rows as every answer."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import numpy as np

from dpxplain.engines.duckdb_encoding import (
    known_unit,
    moment_of,
    position_of,
    quote,
    raw_number,
    unit_identity,
)
from dpxplain.model.dates import position
from dpxplain.model.fit import FitCounts, Partition, partitions, unit_sizes
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import code_column


def fit_columns(schema: Schema, encoded: Mapping[str, str]) -> dict[str, str]:
    """Per partition, the SQL expression of a row's category.

    `encoded` has the expressions of the encoded columns. They are repeated, not named: a column of the source
    may have the name of any of them.
    """
    return {
        f"fit_{number}": _category(schema, part, encoded) for number, part in enumerate(partitions(schema))
    }


def fit_counts(connection: duckdb.DuckDBPyConnection, schema: Schema, kept_rows: str) -> FitCounts:
    """Reads the view `source`; `kept_rows` selects the rows that answers are of, with their `fit_columns`."""
    counted = [
        f"count(*) FILTER (WHERE fit_{number} = {category})"
        for number, part in enumerate(partitions(schema))
        for category in range(len(part.categories))
    ]
    rows = connection.execute(f"SELECT {', '.join(counted)} FROM ({kept_rows})").fetchall()[0]
    sizes = unit_sizes(schema)
    units = _units(connection, schema.privacy.unit, sizes) if sizes else ()
    return FitCounts(np.array(rows, dtype=np.int64), np.array(units, dtype=np.int64))


def _category(schema: Schema, part: Partition, encoded: Mapping[str, str]) -> str:
    column = schema.column(part.column)
    if part.domain == "values":
        code = encoded[code_column(schema, part.column)]
        return f"CASE WHEN ({code}) > 0 THEN 0 WHEN {quote(part.column)} IS NULL THEN 2 ELSE 1 END"
    number = position_of(moment_of(part.column, column)) if column.is_temporal else raw_number(part.column)
    ends = column.edges if part.domain == "edges" else column.bounds
    assert ends is not None
    low, high = (position(end) if column.is_temporal else end for end in (ends[0], ends[-1]))
    below = f"{number} {'<=' if part.domain == 'edges' else '<'} {_double(low)}"
    missing = 0 if part.domain == "edges" and column.null else 3
    return (
        f"CASE WHEN {number} IS NULL OR isnan({number}) THEN {missing} WHEN {below} THEN 1 "
        f"WHEN {number} > {_double(high)} THEN 2 ELSE 0 END"
    )


def _units(connection: duckdb.DuckDBPyConnection, unit: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Units with at most as many rows as each size and more than the one before; the last bin has no end."""
    ends = zip((0, *sizes[:-1]), sizes, strict=True)
    bins = [f"n > {low} AND n <= {high}" for low, high in ends] + [f"n > {sizes[-1]}"]
    # Not count_if, which is NULL where there is no row at all.
    counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in bins)
    rows = f"SELECT count(*) AS n FROM source WHERE {known_unit(unit)} GROUP BY {unit_identity(unit)}"
    counted = connection.execute(f"SELECT {counts} FROM ({rows})")
    return tuple(counted.fetchall()[0])


def _double(value: float) -> str:
    return f"CAST('{value!r}' AS DOUBLE)"


def unit_values(schema: Schema, column: str, longest: int) -> str:
    """SQL of how many privacy units have each value of a column, by at most max_rows values of each.

    Values are told apart by their bytes: by a collation, one row would decide how the values of others read.
    """
    text, privacy = f"CAST({quote(column)} AS VARCHAR)", schema.privacy
    value, fits = f"encode({text})", f"{quote(column)} IS NOT NULL AND length({text}) <= {longest}"
    if privacy.unit == "row":
        rows = f"SELECT {value} AS value FROM source WHERE {fits}"
        return f"SELECT decode(value) AS value, COUNT(*) AS units FROM ({rows}) AS kept GROUP BY kept.value"
    person, known = unit_identity(privacy.unit), known_unit(privacy.unit)
    pairs = f"SELECT DISTINCT {person} AS person, {value} AS value FROM source WHERE {known} AND {fits}"
    place = "row_number() OVER (PARTITION BY person ORDER BY hash(value), value)"
    chosen = f"SELECT value FROM ({pairs}) QUALIFY {place} <= {privacy.max_rows}"
    return f"SELECT decode(value) AS value, COUNT(*) AS units FROM ({chosen}) AS kept GROUP BY kept.value"
