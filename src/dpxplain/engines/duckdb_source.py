"""Opens a curator's source in DuckDB: files, databases, DataFrames, Arrow tables.

Errors of DuckDB, Arrow and pandas can quote values, so none of their text is passed on.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from dpxplain.engines.dialect import Kind
from dpxplain.engines.duckdb_dialect import kind_of
from dpxplain.engines.file_formats import STATISTICS, check_csv, open_arrow, open_csv, open_json_lines
from dpxplain.engines.source_kinds import SourceFiles, is_path, source_files
from dpxplain.errors import DPXPlainError, InternalError, SourceError

_FILE_NAMES = {
    "parquet": "Parquet",
    "csv": "CSV",
    "json lines": "JSON lines",
    "arrow": "Arrow",
    "duckdb": "DuckDB",
}


@dataclass(frozen=True)
class OpenedSource:
    """A lazy relation over a source, and what is known about it without reading its rows."""

    relation: duckdb.DuckDBPyRelation
    files: tuple[str, ...] = ()  # empty for tables in memory
    untyped: frozenset[str] = frozenset()  # columns that have no type of their own
    check_rows: Callable[[], None] = lambda: None  # raises if rows would be misread; may read all rows
    release: Callable[[], None] = lambda: None  # detaches the database file, so that others can write to it
    given: Any = None  # must be registered as `given` with each cursor that reads the relation

    @property
    def types(self) -> dict[str, str]:
        """DuckDB's type of each column."""
        return {
            name: str(kind) for name, kind in zip(self.relation.columns, self.relation.types, strict=True)
        }

    @property
    def kinds(self) -> dict[str, Kind]:
        return {name: kind_of(type_name) for name, type_name in self.types.items()}


def open_connection(memory: str | None = None, spill: Path | None = None) -> duckdb.DuckDBPyConnection:
    """A database in memory. Statements that run out of memory fail, unless rows can `spill` to a folder."""
    settings: dict[str, str | bool | int | float | list[str]] = {"temp_directory": str(spill or "")}
    connection = duckdb.connect(":memory:", config=settings | ({"memory_limit": memory} if memory else {}))
    progress_bar = connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    # If it is off already, leave it alone: in a notebook without ipywidgets, setting it raises.
    if progress_bar and progress_bar[0]:
        connection.execute("SET enable_progress_bar = false")  # the bar would be drawn into results on stdout
    connection.execute("SET TimeZone = 'UTC'")  # answers must not depend on the computer's time zone
    # Parquet statistics leave out NaN. If all other rows have the same number, the optimizer would read the
    # rows with NaN as that number; one row with another number would change how all of them are read.
    connection.execute(f"SET disabled_optimizers = '{STATISTICS}'")
    return connection


def trust_statistics(connection: duckdb.DuckDBPyConnection) -> None:
    """Lets DuckDB use statistics again: encoded rows have no NaN, and known ranges make grouping faster."""
    connection.execute("SET disabled_optimizers = ''")


def lasting(source: object) -> object:
    """The source; as a table, if it could be read only once or has its rows in another order each time."""
    if type(source).__module__.startswith("pyarrow"):  # by name, so that pyarrow need not be imported
        import pyarrow as pa

        return source.read_all() if isinstance(source, pa.RecordBatchReader) else source
    return source.to_arrow_table() if isinstance(source, duckdb.DuckDBPyRelation) else source


def open_source(
    connection: duckdb.DuckDBPyConnection, source: object, table: str | None = None
) -> OpenedSource:
    """Opens a source: files, a DuckDB relation or connection, or a table in memory.

    `table` is the data set's name. It selects the table of a database if the source names none.
    """
    if is_path(source):
        return _open_files(connection, source_files(source), table)  # type: ignore[arg-type]
    if isinstance(source, duckdb.DuckDBPyConnection):
        return _open_connected(connection, source, table)
    with quiet(
        SourceError(
            f"A source of type {type(source).__name__} cannot be opened.",
            remedy="Pass a path, a pandas or polars DataFrame, an Arrow table, or a DuckDB relation.",
        )
    ):
        if isinstance(source, duckdb.DuckDBPyRelation):
            source = source.to_arrow_table()  # the relation belongs to another database
        untyped = _untyped_columns(source)
        connection.register("given", _with_text(source, untyped) if untyped else source)
        return OpenedSource(connection.table("given"), untyped=untyped, given=source)


def _open_files(
    connection: duckdb.DuckDBPyConnection, source: SourceFiles, table: str | None
) -> OpenedSource:
    name = source.files[0] if len(source.files) == 1 else f"One of {len(source.files)} files"
    unreadable = SourceError(
        f"{name} cannot be read.", remedy=f"Is it a complete {_FILE_NAMES[source.kind]} file?"
    )
    with quiet(unreadable):
        if source.kind == "parquet":
            files = [glob.escape(file) for file in source.files]  # a file's name is not a pattern
            return OpenedSource(connection.read_parquet(files), source.files)
        if source.kind == "csv":
            relation, delimiter = open_csv(connection, source.files)
            return OpenedSource(
                relation,
                source.files,
                untyped=frozenset(relation.columns),
                check_rows=lambda: check_csv(relation, source.files, delimiter),
            )
        if source.kind == "json lines":
            relation = open_json_lines(connection, source.files)
            return OpenedSource(relation, source.files, untyped=frozenset(relation.columns))
        if source.kind == "arrow":
            rows = open_arrow(source.files)
            connection.register("given", rows)
            return OpenedSource(connection.table("given"), source.files, given=rows)
        return _open_database(connection, source, table)


def _open_database(
    connection: duckdb.DuckDBPyConnection, source: SourceFiles, table: str | None
) -> OpenedSource:
    """A table of a DuckDB file, attached read-only until the source is released."""
    if Path(f"{source.files[0]}.wal").exists():
        # The .wal file holds rows that neither the size nor the content of the database file shows.
        raise SourceError(
            f"{source.files[0]} has changes that another program has not written to the file yet.",
            remedy="Close that program, or run CHECKPOINT in it.",
        )
    path = source.files[0].replace("'", "''")
    in_use = SourceError(
        f"{source.files[0]} is not a DuckDB file, or another program has it open.",
        remedy="Close the other program. If your own Python program has the file open, pass that connection "
        "or relation instead of the path.",
    )
    with quiet(in_use):
        connection.execute(f"ATTACH '{path}' AS attached (READ_ONLY)")
    tables = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'attached'"
    ).fetchall()
    views = connection.execute(
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'attached' AND NOT internal"
    ).fetchall()
    schema, name = _chosen_table(
        source.files[0], [*map(_pair, tables), *map(_pair, views)], source.table, table
    )
    if (schema, name) in map(_pair, views):
        raise _view(source.files[0], name)
    qualified = ".".join('"' + part.replace('"', '""') + '"' for part in ("attached", schema, name))

    def detach() -> None:
        connection.execute("DETACH attached")

    return OpenedSource(
        connection.sql(f"FROM {qualified}"),
        source.files,
        release=detach,
    )


def _pair(row: tuple[object, ...]) -> tuple[str, str]:
    schema, name = row
    return str(schema), str(name)


def _view(file: str, name: str) -> SourceError:
    """The refusal of a view, which may read other files, the time or random numbers unnoticed."""
    return SourceError(
        f"{name} in {file} is a view: its rows can change while the file stays the same.",
        remedy=f"Store the rows in a table (CREATE TABLE {name}_rows AS FROM {name}) and name that table. Or "
        f'pass the view from Python, as duckdb.connect("{Path(file).name}").table("{name}"), which '
        "takes a snapshot.",
    )


def _chosen_table(
    file: str, tables: list[tuple[str, str]], named: str | None, declared: str | None
) -> tuple[str, str]:
    """The table named with ::, or else the one with the data set's name, or else the only one."""
    table_name = named if named is not None else declared
    matching = [pair for pair in tables if table_name in (pair[1], ".".join(pair))]
    if len(matching) == 1:
        return matching[0]
    if named is None and len(tables) == 1:
        return tables[0]
    names = ", ".join(sorted(table for _, table in tables)) or "none"
    raise SourceError(
        f"{file} has no table {table_name}."
        if table_name is not None
        else f"{file} has {len(tables)} tables.",
        remedy=f"Name one as {Path(file).name}::TABLE. Its tables are: {names}.",
    )


def _open_connected(
    connection: duckdb.DuckDBPyConnection, source: duckdb.DuckDBPyConnection, table: str | None
) -> OpenedSource:
    """The table with the data set's name in the caller's own connection."""
    missing = SourceError(
        f"The DuckDB connection has no table or view {table}."
        if table
        else "A DuckDB connection has many tables.",
        remedy='Pass one table, as connection.table("flights"). Or give the table in the connection '
        "the name that it has in the schema.",
    )
    if table is None:
        raise missing
    with quiet(missing):
        connection.register("given", source.table('"' + table.replace('"', '""') + '"').to_arrow_table())
        return OpenedSource(connection.table("given"))


def _untyped_columns(source: object) -> frozenset[str]:
    """The names of pandas object columns, whose type could only be guessed from values."""
    dtypes = getattr(source, "dtypes", None)
    if not type(source).__module__.startswith("pandas") or dtypes is None:
        return frozenset()
    return frozenset(
        name for name, dtype in dtypes.items() if isinstance(name, str) and str(dtype) == "object"
    )


def _with_text(frame: Any, columns: frozenset[str]) -> Any:
    """The DataFrame with each object converted to text on its own, so that no row decides how others read."""

    def text(value: object) -> str | None:
        missing = value is None or value != value or str(value) == "<NA>"
        return None if missing else str(value)

    converted = frame.copy(deep=False)
    for name in columns:
        converted[name] = frame[name].map(text).astype("str")
    return converted


@contextlib.contextmanager
def quiet(replacement: SourceError | InternalError, only: type[Exception] = Exception) -> Iterator[None]:
    """Replaces an error of DuckDB or Arrow, whose text may quote the data, with one that quotes nothing."""
    try:
        yield
    except DPXPlainError:
        raise
    except only:  # the source's own code may raise anything, and quote values
        failed = True
    else:
        failed = False
    if failed:
        try:
            raise replacement
        finally:
            # Inside a `with`, Python attaches the original error even here, and a traceback would print it.
            replacement.__context__ = None
