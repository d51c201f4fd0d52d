"""A table in memory as a source. Its digest covers the columns' names, kinds and values, however chunked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from dpxplain.engines.source_state import DIGESTING
from dpxplain.model.confidential import ContentDigest

_ROWS_AT_ONCE = 1 << 20


class TableSource:
    """A table in memory. The engine holds an encoded copy, so later changes of the table do not affect it."""

    def __init__(self, table: object) -> None:
        self._table = _arrow_table(table)  # None once it was read
        self._digest: ContentDigest | None = None

    def check_readable(self) -> None:
        """Nothing to check: the table was read when it was opened."""

    def state(self) -> None:
        return None

    def digest(self) -> ContentDigest | None:
        return self._digest

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        return False

    def present_state(self) -> None:
        return None

    def holds_same(self, table: object, digest: Callable[[object], ContentDigest]) -> bool:
        """Whether the table still has the content that was read; by `digest`, if it is not an Arrow table."""
        arrow = _arrow_table(table)
        return (digest(table) if arrow is None else table_digest(arrow)) == self._digest

    @contextmanager
    def reading(self, digest: Callable[[], ContentDigest]) -> Iterator[None]:
        """Digests the table while the block reads it; if it is not an Arrow table, before, with `digest`."""
        table, self._table = self._table, None
        if table is None:
            self._digest = digest()
            yield
            return
        with ThreadPoolExecutor(1, DIGESTING) as thread:
            digesting = thread.submit(table_digest, table)
            yield
            self._digest = digesting.result()


def _arrow_table(source: object) -> pa.Table | None:
    """The source as an Arrow table, if that needs hardly any copying; None otherwise."""
    if isinstance(source, pa.Table):
        return source
    library = type(source).__module__.partition(".")[0]
    frame: Any = source
    try:
        if library == "pandas" and "object" not in map(str, frame.dtypes):
            return pa.Table.from_pandas(frame, preserve_index=False)
        if library == "polars" and type(source).__name__ == "DataFrame":
            table: pa.Table = frame.to_arrow()
            return table
    except Exception:  # Arrow cannot hold some column; DuckDB may still read it
        return None
    return None


def table_digest(table: pa.Table | pa.RecordBatchReader) -> ContentDigest:
    """The digest of a table. The order of columns does not matter; the order of rows does."""
    columns = {name: _ColumnDigest(name) for name in table.schema.names}
    for batch in table.to_batches(_ROWS_AT_ONCE) if isinstance(table, pa.Table) else table:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            columns[name].add(column)
    return ContentDigest.of_parts([column.sha256() for column in columns.values()])


class _ColumnDigest:
    """Digests of one column's values and lengths, each continued from batch to batch."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kinds: set[str] = set()
        self._rows = 0
        self._dictionary: pa.Array[Any] | None = None
        self._values = hashlib.sha256()
        self._lengths = hashlib.sha256()  # for texts, -1 if NULL; for other values, whether they are NULL

    def add(self, column: pa.Array[Any]) -> None:
        if pa.types.is_dictionary(column.type):
            self._add_dictionary(column)
            return
        if _is_view(column.type):
            column = column.cast(
                pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary()
            )
        self._rows += len(column)
        if _is_text(column.type):
            self._kinds.add("text" if "string" in str(column.type) else "bytes")
            self._add_texts(column)
        else:
            self._kinds.add(str(column.type))
            self._add_values(column)

    def _add_dictionary(self, column: Any) -> None:
        """Adds the positions in the dictionary, and the dictionary itself whenever it changes."""
        if self._dictionary is None or not self._dictionary.equals(column.dictionary):
            self._dictionary = column.dictionary
            self.add(column.dictionary)
        self._kinds.add("dictionary")
        self._rows += len(column)
        self._add_values(column.indices)

    def sha256(self) -> bytes:
        head = repr((self._name, sorted(self._kinds), self._rows)).encode()
        return hashlib.sha256(head + self._values.digest() + self._lengths.digest()).digest()

    def _add_texts(self, column: Any) -> None:
        from pyarrow.compute import binary_length  # only here: it takes longer to import than pyarrow itself

        lengths = binary_length(column)
        if column.null_count:
            lengths = lengths.fill_null(-1)
            column = column.fill_null("" if "string" in str(column.type) else b"")
        self._lengths.update(_fixed(lengths.cast(pa.int32()), 4))
        _, offsets, text = column.buffers()
        if text is None or not len(column):
            return
        wide = 8 if "large" in str(column.type) else 4
        positions = memoryview(offsets).cast("B").cast("q" if wide == 8 else "i")
        start, end = positions[column.offset], positions[column.offset + len(column)]
        self._values.update(text[start:end])

    def _add_values(self, column: Any) -> None:
        if column.null_count:
            self._lengths.update(_fixed(column.is_null().cast(pa.uint8()), 1))
        else:
            self._lengths.update(bytes(len(column)))
        if pa.types.is_null(column.type):
            return
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.uint8())
        if not (pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type)):
            self._values.update(repr(column.to_pylist()).encode())  # lists, structs: rare, and slow
            return
        if column.null_count:  # the bytes under a NULL are arbitrary
            column = column.drop_null()
        self._values.update(_fixed(column, column.type.bit_width // 8))


def _is_view(kind: Any) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _fixed(column: Any, width: int) -> Any:
    """The bytes of a column whose values all have `width` bytes."""
    buffer = column.buffers()[1]
    start = column.offset * width
    return b"" if buffer is None else buffer[start : start + len(column) * width]
