"""Opens a curator's source in DuckDB: files, globs, DataFrames, Arrow tables. Reads no values by itself.

Errors of DuckDB, Arrow and pandas can quote values, so none of their text is passed on.
"""

from __future__ import annotations

import contextlib
import csv
import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from dpxplain.errors import DPXPlainError, InternalError, SourceError

_DELIMITERS = (",", ";", "\t", "|")


def open_source(
    connection: duckdb.DuckDBPyConnection, source: object
) -> tuple[duckdb.DuckDBPyRelation, frozenset[str]]:
    """A lazy relation over the source, and the names of its columns that have no declared type."""
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
            return _read_csv(connection, files)
    raise SourceError(
        f"{path} is neither Parquet nor CSV.", remedy="Use a .parquet or .csv file, or a DataFrame."
    )


def _read_csv(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str]
) -> tuple[duckdb.DuckDBPyRelation, frozenset[str]]:
    """A lazy relation over CSV files with the same header, and its column names; all columns are text.

    DuckDB would sniff the delimiter, quotes, comment marks and types from the rows, so that one row could
    change how all others are read. Here the header line alone decides.
    """
    headers = {_header(file) for file in files}
    delimiter, names = next(iter(headers))
    if len(headers) > 1:
        raise SourceError(
            f"The {len(files)} CSV files have different header lines.",
            remedy="Give them the same columns in the same order.",
        )
    if not names or not all(names) or len(set(names)) < len(names):
        raise SourceError(
            f"{files[0]} has no usable header line.", remedy="Name every column once in its first line."
        )
    relation = connection.read_csv(
        list(files),  # type: ignore[arg-type]  # the stubs know single files only
        header=True,
        auto_detect=False,
        columns=dict.fromkeys(names, "VARCHAR"),
        sep=delimiter,
        quotechar='"',
        escapechar='"',
    )
    # If the optimizer moves a TRY_CAST into the CSV reader, it fails on text that does not fit instead of
    # giving NULL (https://github.com/duckdb/duckdb/issues/23818): one row could keep the file from opening.
    connection.execute("SET disabled_optimizers = 'type_pushdown'")
    return relation, frozenset(names)


def _header(file: str) -> tuple[str, tuple[str, ...]]:
    """The delimiter that splits the header line into the most names, and the names."""
    with open(file, encoding="utf-8-sig", newline="") as text:
        readings = []
        for delimiter in _DELIMITERS:
            text.seek(0)
            readings.append((delimiter, tuple(next(csv.reader(text, delimiter=delimiter), ()))))
    return max(readings, key=lambda reading: len(reading[1]))


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
