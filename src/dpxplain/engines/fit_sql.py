"""SQL that counts how rows fit the declarations, over the same chosen rows as every answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpxplain.engines.encoding import Encoding
from dpxplain.model.dates import position
from dpxplain.model.schema_fit import FitCounts, FitQuestion, Partition
from dpxplain.model.unknown_column import ValueCounts, is_declarable
from dpxplain.sql.encoded_names import code_column

_MOST_COUNTS = 1_000  # in one statement; PostgreSQL returns 1,664 columns at most
Execute = Callable[[str, list[Any]], Sequence[int]]
"""Runs a statement whose result is one row, and returns the row."""
Fetch = Callable[[str, list[Any]], Sequence[tuple[Any, ...]]]
"""Runs a statement, and returns all its rows."""


def fit_counts(encoding: Encoding, asked: FitQuestion, execute: Execute) -> FitCounts:
    """Counts the rows of each category, and the units by the number of all their rows."""
    parts, sizes = asked.partitions, asked.sizes
    # Only if needed: PostgreSQL refuses parameters that a statement does not use.
    encoded = encoding.columns() if any(part.domain == "values" for part in parts) else {}
    # The SQL is repeated, because a column of the source may have the name of any encoded column.
    categories = {f"fit_{number}": _category(encoding, part, encoded) for number, part in enumerate(parts)}
    counted = [
        f"count(CASE WHEN fit_{number} = {category} THEN 1 END)"
        for number, part in enumerate(parts)
        for category in range(len(part.categories))
    ]
    rows: list[int] = []
    if counted:
        kept_rows = encoding.rows(categories)
        for start in range(0, len(counted), _MOST_COUNTS):
            some = ", ".join(counted[start : start + _MOST_COUNTS])
            sql = f"SELECT {some} FROM ({kept_rows.sql}) AS kept"
            rows += execute(sql, encoding.parameters.values)
    units: Sequence[int] = execute(_units(encoding, sizes), []) if sizes else ()
    return FitCounts(np.array(rows, dtype=np.int64), np.array(units, dtype=np.int64))


def value_counts(encoding: Encoding, column: str, longest: int, fetch: Fetch) -> ValueCounts:
    """How many privacy units have each value of a text column, counting at most max_rows values of each unit.

    Which of a unit's values count depends on that unit's values alone (docs/proofs/discovery.md).
    """
    d, privacy = encoding.dialect, encoding.schema.privacy
    text = d.valid_text(d.exact_text(d.quote(column), encoding.kinds[column]))
    fits = f"{text} IS NOT NULL AND length({text}) <= {longest}"
    rows = f"SELECT {text} AS value FROM {encoding.source} WHERE {fits}"
    if privacy.unit != "row":
        unit = encoding.unit()
        selected = f"SELECT DISTINCT {unit} AS person, {text} AS value FROM {encoding.source}"
        pairs = f"{selected} WHERE {d.known_text(unit)} AND {fits}"
        hashed = d.md5("person || ',' || value")
        place = f"row_number() OVER (PARTITION BY person ORDER BY {hashed}, value) AS place"
        placed = f"SELECT value, {place} FROM ({pairs}) AS pairs"
        rows = f"SELECT value FROM ({placed}) AS placed WHERE place <= {privacy.max_rows}"
    counted = fetch(f"SELECT value, count(*) AS units FROM ({rows}) AS kept GROUP BY value", [])
    declarable = [(str(value), units) for value, units in counted if is_declarable(str(value))]
    values = tuple(value for value, _ in declarable)
    return ValueCounts(values, np.array([units for _, units in declarable], dtype=np.int64))


def _category(encoding: Encoding, part: Partition, encoded: dict[str, str]) -> str:
    column, source = encoding.schema.column(part.column), encoding.dialect.quote(part.column)
    if part.domain == "values":
        code = encoded[code_column(encoding.schema, part.column)]
        return f"CASE WHEN {source} IS NULL THEN 2 WHEN ({code}) > 0 THEN 0 ELSE 1 END"
    number = encoding.number(part.column)
    if part.domain == "bins":
        return _bin(encoding, part, number)
    ends = column.edges if part.domain == "edges" else column.bounds
    assert ends is not None
    low, high = (
        encoding.dialect.number_literal(position(end) if column.is_temporal else end)
        for end in (ends[0], ends[-1])
    )
    below = f"{number} {'<=' if part.domain == 'edges' else '<'} {low}"
    return (
        f"CASE WHEN {encoding.missing(number)} THEN 3 WHEN {below} THEN 1 "
        f"WHEN {number} > {high} THEN 2 ELSE 0 END"
    )


def _bin(encoding: Encoding, part: Partition, number: str) -> str:
    """SQL of the category: 0 below the first edge, one per bin, one above the last edge; -1 if missing."""
    first, *others = map(encoding.dialect.number_literal, part.edges)
    steps = " ".join(f"WHEN {number} <= {edge} THEN {place}" for place, edge in enumerate(others, 1))
    # NaN is tested first, because engines sort it in different places.
    return (
        f"CASE WHEN {encoding.missing(number)} THEN -1 WHEN {number} < {first} THEN 0 "
        f"{steps} ELSE {len(part.edges)} END"
    )


def _units(encoding: Encoding, sizes: tuple[int, ...]) -> str:
    """SQL that counts units by their number of rows: one bin up to each size, and one beyond the last."""
    ends = zip((0, *sizes[:-1]), sizes, strict=True)
    bins = [f"n > {low} AND n <= {high}" for low, high in ends] + [f"n > {sizes[-1]}"]
    # Not count_if, which is NULL where there is no row at all.
    counts = ", ".join(f"count(CASE WHEN {condition} THEN 1 END)" for condition in bins)
    unit = encoding.unit()
    is_known_unit = encoding.dialect.known_text(unit)
    rows = f"SELECT count(*) AS n FROM {encoding.source} WHERE {is_known_unit} GROUP BY {unit}"
    return f"SELECT {counts} FROM ({rows}) AS sizes"
