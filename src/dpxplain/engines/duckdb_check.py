"""Counts how the rows of a source fit the declarations, with DuckDB. The figures are NOT private.

No code that an analyst can reach calls this. The source is read once, and all counts come from that reading.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb

from dpxplain.engines.check_sql import checked_rows, fit_figures
from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.duckdb_profile import FEWEST_PERSONS, profile_view, quote, unit_candidates
from dpxplain.engines.duckdb_source import OpenedSource, open_connection, open_source, quiet
from dpxplain.engines.encoding import Encoding, check_columns
from dpxplain.errors import SourceError
from dpxplain.model.cancellation import interruptible
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import SourceFigures, UnitCandidate


def duckdb_figures(source: object, schema: Schema, *, memory: str | None = None) -> SourceFigures:
    """The figures of a source. Raises if its columns contradict the schema."""
    connection = open_connection(memory)
    try:
        opened = open_source(connection, source, schema.table.name)
        check_columns(schema, opened.kinds, opened.untyped)
        unreadable = SourceError(
            f"The source of {schema.table.name} could not be read completely.",
            remedy="Is the file damaged, or does a line have too few or too many values?",
        )
        with quiet(unreadable), interruptible(connection.interrupt):
            opened.check_rows()
            opened.relation.create_view("source")
            encoding = Encoding(schema, opened.kinds, DuckDBDialect(connection))
            rows = checked_rows(encoding).sql
            connection.execute(f"CREATE TABLE checked AS {rows}", encoding.parameters.values)
            figures = fit_figures(encoding, lambda select: connection.execute(select).fetchall())
            if schema.privacy.unit != "row" or not figures.rows:
                return figures
            return replace(figures, unit_candidates=_unit_candidates(connection, opened))
    finally:
        connection.close()


def _unit_candidates(
    connection: duckdb.DuckDBPyConnection, opened: OpenedSource
) -> tuple[UnitCandidate, ...]:
    """The columns of the source, declared or not, that may tell people apart."""
    names = [name for name, kind in opened.kinds.items() if kind in ("text", "whole")]
    if not names:
        return ()
    distinct = ", ".join(f"approx_count_distinct({quote(name)})" for name in names)
    counts = connection.execute(f"SELECT {distinct} FROM source").fetchall()[0]
    many = [name for name, count in zip(names, counts, strict=True) if count > FEWEST_PERSONS]
    return tuple(unit_candidates(profile_view(connection, opened, many))) if many else ()
