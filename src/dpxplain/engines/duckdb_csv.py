"""CSV files for DuckDB, without its guessing.

DuckDB sniffs the delimiter, quotes, comment marks and types from the rows, so that one row could change
how all others are read. Here the header line alone decides, and every value comes as text.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

import duckdb

from dpxplain.errors import SourceError

_DELIMITERS = (",", ";", "\t", "|")


def read_csv(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str]
) -> tuple[duckdb.DuckDBPyRelation, frozenset[str]]:
    """A lazy relation over files with the same header, and its columns, none of which has a type."""
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
    # Moved into the CSV reader, a TRY_CAST fails on text that does not fit instead of giving NULL
    # (https://github.com/duckdb/duckdb/issues/23818): one row could keep the whole file from opening.
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
