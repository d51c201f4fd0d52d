"""Opens a curator's source in DuckDB: files, globs, DataFrames, Arrow tables. Reads no values by itself.

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

from dpxplain.engines.csv_source import check_csv, open_csv
from dpxplain.errors import DPXPlainError, InternalError, SourceError


@dataclass(frozen=True)
class OpenedSource:
    """A lazy relation over a source, and what is known of it without reading its rows."""

    relation: duckdb.DuckDBPyRelation
    files: tuple[str, ...] = ()  # none for what lives in memory
    untyped: frozenset[str] = frozenset()  # columns that have no type of their own
    check_rows: Callable[[], None] = lambda: None  # refuses rows that would be misread; may read them all

    @property
    def types(self) -> dict[str, str]:
        """DuckDB's type of each column."""
        return {
            name: str(kind) for name, kind in zip(self.relation.columns, self.relation.types, strict=True)
        }


def open_connection(memory: str | None = None) -> duckdb.DuckDBPyConnection:
    """A database in memory. What runs out of memory fails instead of writing rows to a temporary file."""
    settings: dict[str, str | bool | int | float | list[str]] = {"temp_directory": ""}
    connection = duckdb.connect(":memory:", config=settings | ({"memory_limit": memory} if memory else {}))
    connection.execute("SET enable_progress_bar = false")  # it would be drawn into results on stdout
    connection.execute("SET TimeZone = 'UTC'")  # not the computer's: answers must not depend on it
    return connection


def open_source(connection: duckdb.DuckDBPyConnection, source: object) -> OpenedSource:
    """The source, opened by what it is: a path or glob of files, or a table in memory."""
    if isinstance(source, str | Path):
        return _open_files(connection, str(source))
    with quiet(
        SourceError(
            f"A source of type {type(source).__name__} cannot be opened.",
            remedy="Pass a path, a pandas or polars DataFrame, or an Arrow table.",
        )
    ):
        untyped = _untyped_columns(source)
        connection.register("given", _with_text(source, untyped) if untyped else source)
        return OpenedSource(connection.table("given"), untyped=untyped)


def _open_files(connection: duckdb.DuckDBPyConnection, path: str) -> OpenedSource:
    files = sorted(glob.glob(path))
    if not files:
        raise SourceError(
            f"There is no file {path}.", remedy="Check the path; globs such as data/*.parquet work."
        )
    suffixes = {Path(file).suffix.lower() for file in files}
    with quiet(SourceError(f"{path} cannot be read.", remedy="Is it a whole Parquet or CSV file?")):
        if suffixes <= {".parquet", ".pq"}:
            return OpenedSource(connection.read_parquet(files), tuple(files))
        if suffixes <= {".csv", ".tsv"}:
            relation, delimiter = open_csv(connection, files)
            return OpenedSource(
                relation,
                tuple(files),
                untyped=frozenset(relation.columns),
                check_rows=lambda: check_csv(relation, files, delimiter),
            )
    raise SourceError(
        f"{path} is neither Parquet nor CSV.", remedy="Use a .parquet or .csv file, or a DataFrame."
    )


def _untyped_columns(source: object) -> frozenset[str]:
    """The names of pandas' object columns, whose type would have to be guessed from values."""
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
def quiet(replacement: SourceError | InternalError) -> Iterator[None]:
    """Replace an error of DuckDB or Arrow, whose text may quote the data, by one that carries none."""
    try:
        yield
    except DPXPlainError:
        raise
    except Exception:  # the source's own code may raise anything, and quote values
        failed = True
    else:
        failed = False
    if failed:
        try:
            raise replacement
        finally:
            # Inside a `with`, Python attaches the original even here; it would be printed with the rest.
            replacement.__context__ = None
