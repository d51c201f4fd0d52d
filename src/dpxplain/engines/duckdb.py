"""The embedded engine: DuckDB over Parquet, CSV, or a table in memory.

Opening encodes the declared columns once, so that every later pass groups small integers. Errors of
DuckDB can quote values, so none of their text is passed on.
"""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpxplain.engines.base import Grouped
from dpxplain.engines.duckdb_encoding import check_columns, encoding, quote
from dpxplain.errors import InternalError, SourceError
from dpxplain.model.confidential import Confidential
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.sql.render import ENCODED, code_column, grouped_select


class DuckDBEngine:
    """One data set, encoded in memory.

    >>> import pyarrow as pa
    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...                       "columns": {"sex": {"values": ["F", "M"]}}})
    >>> DuckDBEngine(pa.table({"sex": ["F", "M", "?"]}), schema)
    <DuckDBEngine t>
    """

    def __init__(self, source: object, schema: Schema) -> None:
        self.schema = schema
        self._connection = duckdb.connect(":memory:")
        try:
            self._encode(source)
        except BaseException:
            self._connection.close()
            raise

    def __repr__(self) -> str:
        return f"<DuckDBEngine {self.schema.table.name}>"

    def close(self) -> None:
        self._connection.close()

    def grouped(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Confidential[Grouped]:
        rendered = grouped_select(query, self.schema, subsets)
        with _quiet(InternalError("The grouped pass over the data failed.")):
            cursor = self._connection.cursor()  # a connection serves one thread at a time
            table = cursor.sql(rendered.sql("duckdb"), params=rendered.parameters).to_arrow_table()
            cursor.close()
            return Confidential(self._columns(table, query, subsets))

    def _columns(self, table: Any, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Grouped:
        def numbers(name: str) -> NDArray[np.int64]:
            return np.asarray(table.column(name).fill_null(0).to_numpy(), dtype=np.int64)

        attributes = list(dict.fromkeys(name for subset in subsets for name in subset))
        columns = {name: numbers(code_column(self.schema, name)) for name in (*query.group_by, *attributes)}
        columns["count"] = numbers("count")
        summed = "total" in table.column_names
        columns["total"] = numbers("total") if summed else np.zeros_like(columns["count"])
        columns["subset"] = np.zeros_like(columns["count"])
        if len(subsets) > 1:
            columns["subset"] = _subset_numbers(numbers("missing"), attributes, subsets)
        return columns

    def _encode(self, source: object) -> None:
        relation, untyped = _open(self._connection, source)
        types = {name: str(kind) for name, kind in zip(relation.columns, relation.types, strict=True)}
        check_columns(self.schema, types, untyped)
        columns = ", ".join(encoding(self.schema, self._connection))
        with _quiet(SourceError(f"The source of {self.schema.table.name} could not be read to its end.")):
            relation.create_view("source")
            self._connection.execute(f"CREATE TABLE {ENCODED} AS SELECT {columns} FROM {self._rows()}")
            self._connection.execute("DROP VIEW source")
            self._connection.execute("SET enable_external_access = false")

    def _rows(self) -> str:
        """All rows, or at most max_rows per person, picked by the person's own rows (SPEC section 7)."""
        privacy = self.schema.privacy
        if privacy.unit == "row":
            return "source"
        content = ", ".join(quote(name) for name in self.schema.columns)
        order = f"row_number() OVER (PARTITION BY {quote(privacy.unit)} ORDER BY hash({content}))"
        return f"(SELECT * FROM source QUALIFY {order} <= {privacy.max_rows})"


def _subset_numbers(
    missing: NDArray[np.int64], attributes: list[str], subsets: tuple[tuple[str, ...], ...]
) -> NDArray[np.int64]:
    """GROUPING() sets the bit of every attribute that is not part of the row's subset."""
    bit = {name: 1 << position for position, name in enumerate(reversed(attributes))}
    number_of = {
        sum(value for name, value in bit.items() if name not in subset): number
        for number, subset in enumerate(subsets)
    }
    masks, positions = np.unique(missing, return_inverse=True)
    return np.array([number_of[int(mask)] for mask in masks], dtype=np.int64)[positions]


def _open(connection: duckdb.DuckDBPyConnection, source: object) -> tuple[duckdb.DuckDBPyRelation, bool]:
    """A lazy relation over the source, and whether its columns come as text without types (CSV)."""
    if isinstance(source, str | Path):
        path = str(source)
        if not glob.glob(path):
            raise SourceError(
                f"There is no file {path}.", remedy="Check the path; globs such as data/*.parquet work."
            )
        suffixes = {Path(p).suffix.lower() for p in glob.glob(path)}
        with _quiet(SourceError(f"{path} cannot be read.", remedy="Is it a whole Parquet or CSV file?")):
            if suffixes <= {".parquet", ".pq"}:
                return connection.read_parquet(path), False
            if suffixes <= {".csv", ".tsv"}:
                # Types guessed from values would depend on the data, so everything is read as text.
                return connection.read_csv(path, all_varchar=True, header=True), True
        raise SourceError(
            f"{path} is neither Parquet nor CSV.", remedy="Use a .parquet or .csv file, or a DataFrame."
        )
    with _quiet(
        SourceError(
            f"A source of type {type(source).__name__} cannot be opened.",
            remedy="Pass a path, a pandas or polars DataFrame, or an Arrow table.",
        )
    ):
        connection.register("given", source)
        return connection.table("given"), False


@contextlib.contextmanager
def _quiet(replacement: SourceError | InternalError) -> Iterator[None]:
    """Replace an error of DuckDB or Arrow, whose text may quote the data, by one that carries none."""
    try:
        yield
    except (duckdb.Error, ValueError, TypeError, OSError, KeyError, OverflowError):
        failed = True
    else:
        failed = False
    if failed:  # raised outside the handler so that no traceback context keeps the original
        raise replacement
