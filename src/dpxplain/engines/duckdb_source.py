"""Opening what a curator points at: files, globs, DataFrames, Arrow tables. Reads no values by itself.

Errors of DuckDB, Arrow and pandas can quote values, so none of their text is passed on.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from dpxplain.engines.duckdb_csv import read_csv
from dpxplain.errors import DPXPlainError, InternalError, SourceError


def open_source(
    connection: duckdb.DuckDBPyConnection, source: object
) -> tuple[duckdb.DuckDBPyRelation, frozenset[str]]:
    """A lazy relation over the source, and which of its columns come without a type of their own."""
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
        return connection.table("given"), untyped


def _open_files(
    connection: duckdb.DuckDBPyConnection, path: str
) -> tuple[duckdb.DuckDBPyRelation, frozenset[str]]:
    files = sorted(glob.glob(path))
    if not files:
        raise SourceError(
            f"There is no file {path}.", remedy="Check the path; globs such as data/*.parquet work."
        )
    suffixes = {Path(file).suffix.lower() for file in files}
    with quiet(SourceError(f"{path} cannot be read.", remedy="Is it a whole Parquet or CSV file?")):
        if suffixes <= {".parquet", ".pq"}:
            return connection.read_parquet(files), frozenset()
        if suffixes <= {".csv", ".tsv"}:
            return read_csv(connection, files)
    raise SourceError(
        f"{path} is neither Parquet nor CSV.", remedy="Use a .parquet or .csv file, or a DataFrame."
    )


def _untyped_columns(source: object) -> frozenset[str]:
    """pandas' object columns: their type would have to be guessed from values."""
    dtypes = getattr(source, "dtypes", None)
    if not type(source).__module__.startswith("pandas") or dtypes is None:
        return frozenset()
    return frozenset(
        name for name, dtype in dtypes.items() if isinstance(name, str) and str(dtype) == "object"
    )


def _with_text(frame: Any, columns: frozenset[str]) -> Any:
    """The DataFrame with every object as text, each by itself, so that no row decides how others are read."""

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
    except Exception:  # whatever a source's own code raises may quote values too
        failed = True
    else:
        failed = False
    if failed:
        try:
            raise replacement
        finally:
            # Inside a `with`, Python attaches the original even here; it would be printed with the rest.
            replacement.__context__ = None
