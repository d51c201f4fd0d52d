"""Counts how the rows of a source fit the declarations, for the curator. The figures are NOT private.

No code that an analyst can reach calls this. The source is read once; all counts are taken from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import duckdb

from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.duckdb_source import open_connection, open_source, quiet
from dpxplain.engines.encoding import Encoding, Rows, check_columns
from dpxplain.errors import SourceError
from dpxplain.model.cancellation import interruptible
from dpxplain.model.dates import position
from dpxplain.model.fit import ColumnFigures, NumberFigures, SourceFigures
from dpxplain.model.schema import Column, Schema
from dpxplain.sql.encoded_names import code_column

_MOST_TEXTS = 500  # undeclared values that are looked at, the most frequent first


def source_figures(source: object, schema: Schema, *, memory: str | None = None) -> SourceFigures:
    """The figures of a source; refuses one whose columns contradict the schema."""
    connection = open_connection(memory)
    try:
        opened = open_source(connection, source, schema.table.name)
        check_columns(schema, opened.kinds, opened.untyped)
        unreadable = SourceError(
            f"The source of {schema.table.name} could not be read to its end.",
            remedy="Is it damaged, or does a line of it have too few or too many values?",
        )
        with quiet(unreadable), interruptible(connection.interrupt):
            opened.check_rows()
            opened.relation.create_view("source")
            encoding = Encoding(schema, opened.kinds, DuckDBDialect(connection))
            connection.execute(f"CREATE TABLE checked AS {_rows(encoding).sql}", encoding.parameters.values)
            return _figures(connection, schema)
    finally:
        connection.close()


def _rows(encoding: Encoding) -> Rows:
    """What is counted: codes, numbers, and the texts that do not fit.

    The names of what is counted end in the column's place in the schema, as those of encoded columns do.
    """
    schema, encoded = encoding.schema, encoding.columns()
    derived = [name for name, column in schema.columns.items() if column.expression is not None]
    parts = encoded if derived else {name: sql for name, sql in encoded.items() if name.startswith("code_")}
    for number, (name, column) in enumerate(schema.columns.items()):
        if column.expression is None:
            # The code is repeated, not named: the source may have a column of that name.
            code, source = encoded.get(code_column(schema, name), ""), encoding.dialect.quote(name)
            value = encoding.number(name) if column.is_numeric else ""
            parts = parts | _fit_of(number, column, source, value, code)
    if schema.privacy.unit != "row":
        unit = encoding.unit()
        parts["person"] = f"CASE WHEN {encoding.dialect.known_text(unit)} THEN {unit} END"
    listed = ", ".join(f"{sql} AS {name}" for name, sql in parts.items())
    rows = Rows(f"SELECT {listed} FROM source", tuple(parts))
    for name in derived:
        column, number = schema.columns[name], list(schema.columns).index(name)
        value, code = encoding.derived_number(column), f"code_{number}"
        figures = _fit_of(number, column, "derived", value, code)
        rows = encoding.with_one_derived(name, rows, figures)
    return rows


def _fit_of(number: int, column: Column, source: str, value: str, code: str) -> dict[str, str]:
    """Whether a value is NULL, its number if it has one, and its text if it does not fit."""
    if column.is_numeric:
        odd = f"{source} IS NOT NULL AND {value} IS NULL"
        parts = {
            f"number_{number}": f"CASE WHEN NOT isnan({value}) THEN {value} END",
            f"null_{number}": f"{source} IS NULL OR COALESCE(isnan({value}), FALSE)",
        }
    else:
        odd = f"{source} IS NOT NULL AND {code} = 0"
        parts = {f"null_{number}": f"{source} IS NULL"}
    return parts | {f"odd_{number}": f"CASE WHEN {odd} THEN CAST({source} AS VARCHAR) END"}


def _figures(connection: duckdb.DuckDBPyConnection, schema: Schema) -> SourceFigures:
    counts = {"rows": "count(*)"}
    for number, column in enumerate(schema.columns.values()):
        counts |= {f"{key}_{number}": sql for key, sql in _counts(number, column).items()}
    has_unit = schema.privacy.unit != "row"
    if has_unit:
        counts["units"] = "count(person)"
    listed = ", ".join(f"{sql} AS {name}" for name, sql in counts.items())
    row = connection.execute(f"SELECT {listed} FROM checked").fetchall()[0]
    figures = dict(zip(counts, row, strict=True))
    units = (
        "SELECT n, count(*) FROM "
        "(SELECT count(*) AS n FROM checked WHERE person IS NOT NULL GROUP BY person) GROUP BY n ORDER BY n"
    )
    return SourceFigures(
        rows=figures["rows"],
        without_unit=figures["rows"] - figures["units"] if has_unit else 0,
        rows_per_unit=dict(connection.execute(units).fetchall()) if has_unit else {},
        columns={
            name: _column(connection, number, column, figures)
            for number, (name, column) in enumerate(schema.columns.items())
        },
    )


def _counts(number: int, column: Column) -> dict[str, str]:
    """Aggregates over one column."""
    counts = {"nulls": f"count_if(null_{number})", "odd": f"count(odd_{number})"}
    if column.domain is not None:
        counts["codes"] = f"histogram(code_{number})"
    if not column.is_numeric:
        return counts
    value = f"number_{number}"
    finite = f"CASE WHEN isfinite({value}) THEN {value} END"
    counts |= {"low": f"min({finite})", "high": f"max({finite})", "mean": f"avg({finite})"}
    if column.bounds is not None:
        low, high = (_double(_place(bound)) for bound in column.bounds)
        counts |= {
            "below": f"count_if({value} < {low})",
            "above": f"count_if({value} > {high})",
            "clamped_mean": f"avg(least(greatest({value}, {low}), {high}))",
        }
    if column.edges is not None:
        first, last = (_double(_place(edge)) for edge in (column.edges[0], column.edges[-1]))
        counts |= {
            "under_edges": f"count_if({value} <= {first})",
            "at_lowest_edge": f"count_if({value} = {first})",
            "over_edges": f"count_if({value} > {last})",
        }
    return counts


def _column(
    connection: duckdb.DuckDBPyConnection, number: int, column: Column, figures: Mapping[str, Any]
) -> ColumnFigures:
    def of(name: str) -> Any:
        return figures.get(f"{name}_{number}")

    texts: list[tuple[str, int]] = []
    if of("odd"):
        texts = connection.execute(
            f"SELECT odd_{number}, count(*) FROM checked WHERE odd_{number} IS NOT NULL "
            f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {_MOST_TEXTS}"
        ).fetchall()
    numbers = None
    if column.is_numeric:
        numbers = NumberFigures(
            low=of("low"),
            high=of("high"),
            mean=of("mean"),
            below=of("below") or 0,
            above=of("above") or 0,
            clamped_mean=of("clamped_mean"),
            under_edges=of("under_edges") or 0,
            at_lowest_edge=of("at_lowest_edge") or 0,
            over_edges=of("over_edges") or 0,
        )
    return ColumnFigures(
        rows=figures["rows"],
        nulls=of("nulls"),
        codes=of("codes") or {},
        odd=of("odd"),
        odd_texts=tuple((text, rows) for text, rows in texts),
        numbers=numbers,
    )


def _place(end: Any) -> float:
    """A declared edge or bound on the number line."""
    return position(end) if isinstance(end, date) else end


def _double(value: float) -> str:
    return f"CAST('{value!r}' AS DOUBLE)"
