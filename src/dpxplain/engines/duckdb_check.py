"""Counts how the rows of a source fit the declarations, with DuckDB. The figures are NOT private.

No code that an analyst can reach calls this. The source is read once; all counts are taken from that.
"""

from __future__ import annotations

from dpxplain.engines.check_sql import checked_rows, fit_figures
from dpxplain.engines.duckdb_dialect import DuckDBDialect
from dpxplain.engines.duckdb_source import open_connection, open_source, quiet
from dpxplain.engines.encoding import Encoding, check_columns
from dpxplain.errors import SourceError
from dpxplain.model.cancellation import interruptible
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import SourceFigures


def duckdb_figures(source: object, schema: Schema, *, memory: str | None = None) -> SourceFigures:
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
            rows = checked_rows(encoding).sql
            connection.execute(f"CREATE TABLE checked AS {rows}", encoding.parameters.values)
            return fit_figures(encoding, lambda select: connection.execute(select).fetchall())
    finally:
        connection.close()
