"""Tables in memory as sources, and the tables of DuckDB that hold the encoded rows of an open data set."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection

from dpxplain.engines.source_state import DIGESTING, FileSource, WithoutState, file_states, settled_state
from dpxplain.errors import SchemaError, SourceError
from dpxplain.model.column import Column
from dpxplain.model.confidential import ContentDigest
from dpxplain.model.expression import sql_literal
from dpxplain.model.process import bytes_of
from dpxplain.model.query import CONDENSED, ENCODED
from dpxplain.model.schema import Schema
from dpxplain.sql.render import condensed_columns

# -- Tables in memory --------------------------------------------------------------------------------------
#
# A table in memory as a source. Its digest covers the columns' names, kinds and values, however chunked.

_ROWS_AT_ONCE = 1 << 20


class TableSource(WithoutState):
    """A table in memory. The engine holds an encoded copy, so later changes of the table do not affect it."""

    def __init__(self, table: object) -> None:
        self._table = _arrow_table(table)  # None once it was read
        self._digest: ContentDigest | None = None

    def check_readable(self) -> None:
        """Nothing to check: the table was read when it was opened."""

    def digest(self) -> ContentDigest | None:
        return self._digest

    def holds_same(self, table: object, digest: Callable[[object], ContentDigest]) -> bool:
        """Whether the table still has the content that was read; by `digest`, if it is not an Arrow table."""
        arrow = _arrow_table(table)
        return (digest(table) if arrow is None else table_digest(arrow)) == self._digest

    @contextlib.contextmanager
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
        pass
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
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        if pa.types.is_binary_view(column.type):
            column = column.cast(pa.large_binary())
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


def _is_text(kind: Any) -> bool:
    types = pa.types
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


def _fixed(column: Any, width: int) -> Any:
    """The bytes of a column whose values all have `width` bytes."""
    buffer = column.buffers()[1]
    start = column.offset * width
    return b"" if buffer is None else buffer[start : start + len(column) * width]


# -- Encoded rows ------------------------------------------------------------------------------------------
#
# The encoded rows of an open data set are in memory, in a file, or not stored ("stream"). If many rows agree
# in every code, a second, condensed table has each combination of codes once.
#
# The place depends on the declarations, the sizes of the files, the number of rows that Parquet files declare
# and the memory limit. It depends on no value.
# Rows are written to a file only if the curator's schema says `[table] storage = "file"` or `cache = true`.
# The file holds every row's codes and numbers, either for one session or kept so that the next session opens
# faster. Only its owner can read it. A kept file is used only if the digest in its name fits its content, the
# declarations and the present source; otherwise it is written anew.

Place = Literal["memory", "stream", "file"]

_TEXT_GROWTH = 2  # bytes of encoded rows per byte of a text file, roughly at most
_GROWTH = 8  # the same for other files, except Parquet; more if all rows are alike


def storage_place(schema: Schema, source: object, memory: str | None) -> Place:
    """The declared place; by default memory, if the encoded rows probably take at most half of the limit.

    A table in memory is encoded in memory too, because its owner may change it between two passes.
    """
    if not isinstance(source, FileSource):
        return "memory"
    place = _place(schema, encoded_size(schema, source), bytes_of(memory))
    if place == "memory" and parquet_size(schema, source) > bytes_of(memory):
        raise too_large(schema)
    return place


def _place(schema: Schema, size: int, limit: int) -> Place:
    declared = schema.table.storage
    if declared == "stream" and schema.privacy.unit != "row":
        raise SchemaError(
            'table.storage = "stream" needs unit = "row" if the data are files. With another unit, each '
            "person's rows are chosen once, so they must be stored.",
            remedy='Set storage = "file" or "memory".',
        )
    if declared != "auto":
        return declared
    if 2 * size <= limit:
        return "memory"
    if schema.table.cache:
        return "file"
    # Only the curator can allow writing rows to disk. Rows chosen per person must be stored, so in memory.
    return "stream" if schema.privacy.unit == "row" else "memory"


def encoded_size(schema: Schema, source: FileSource) -> int:
    """About how many bytes the encoded rows would take, before any of them is read.

    A Parquet file declares its number of rows, which matters because a few bytes may stand for millions of
    equal rows. For other files only the size is known.
    """
    guessed = sum(
        size * (_TEXT_GROWTH if name.lower().endswith((".csv", ".tsv", ".jsonl", ".ndjson")) else _GROWTH)
        for name, size in source.sizes()
        if not _is_parquet(name)
    )
    return guessed + parquet_size(schema, source)


def parquet_size(schema: Schema, source: FileSource) -> int:
    """The bytes that the encoded rows of the Parquet files take, by the number of rows that these declare."""
    from pyarrow.parquet import read_metadata

    rows = 0
    for name in (name for name, _ in source.sizes() if _is_parquet(name)):
        with contextlib.suppress(OSError, pa.ArrowException):  # a damaged file is refused when it is read
            rows += read_metadata(name).num_rows
    person = 0 if schema.privacy.unit == "row" else 8
    return rows * (person + sum(map(_encoded_bytes, schema.columns.values())))


def _encoded_bytes(column: Column) -> int:
    """The bytes of a column's code and number in one encoded row; for a number, the least that it takes."""
    number = 4 if column.is_summable else 8 if column.values is None else 0
    if column.domain is None:
        return number
    return number + (1 if len(column.domain) < 2**8 else 2 if len(column.domain) < 2**16 else 4)


def _is_parquet(name: str) -> bool:
    return name.lower().endswith((".parquet", ".pq"))


def too_large(schema: Schema) -> SourceError:
    """The error for encoded rows that do not fit into memory."""
    places = '"file"' if schema.privacy.unit != "row" else '"stream" or "file"'
    return SourceError(
        f"DPXPlain's copy of {schema.table.name} needs more memory than allowed.",
        remedy=f"Raise the memory limit, or set storage = {places} in the schema's [table].",
    )


STORE = "store"
"""The attached file's name in DuckDB."""
_FORMAT = 2  # raise this when sources are read differently; the encoding's SQL is part of the key anyway
_KEPT = ".encoded"
_PART = ".part"
_SPILL = ".spill"


@dataclass(frozen=True)
class EncodedFile:
    """The encoded rows of one source under one schema."""

    folder: Path
    schema: Schema
    encoding: str  # SQL of the encoded rows
    source: str | None  # the path or glob that a kept file belongs to; None if the file is for one session

    def attach(self, connection: Connection) -> bool:
        """Attaches the kept file, if it is intact and the source is unchanged. Returns whether it did."""
        if not _is_private(self.folder):
            return False
        delete_abandoned(self.folder, self.schema)
        for file in _kept_files(self.folder, self.schema):
            with contextlib.suppress(OSError):
                if self.source is not None and file.name == self._name(file, self.identity()):
                    _attach(connection, file, "READ_ONLY")
                    return True
        return False

    @contextlib.contextmanager
    def written(self, connection: Connection) -> Iterator[None]:
        """Attaches a new file for the block to write; afterwards the file is attached for reading only.

        Without `source`, or if the source changed meanwhile, the file is unlinked at once where the system
        allows it. Its rows are then gone when the process ends, however it ends.
        """
        before = self.identity()
        private_folder(self.folder)
        part = self.folder / f"{_stem(self.schema)}.{_unique()}{_PART}"
        try:
            _attach(connection, part, "READ_WRITE")
            os.chmod(part, 0o600)
            try:
                yield
            finally:
                connection.execute(f"DETACH {STORE}")
            file = self._keep(part, before)
            _attach(connection, file, "READ_ONLY")
        finally:
            for leftover in (part, part.with_name(f"{part.name}.wal")):
                # Where open files cannot be deleted, the next session deletes them.
                with contextlib.suppress(OSError):
                    leftover.unlink(missing_ok=True)

    def _keep(self, part: Path, before: str | None) -> Path:
        identity = self.identity()
        if before is None or identity != before:
            return part
        kept_file = self.folder / self._name(part, identity)
        for stale in _kept_files(self.folder, self.schema):
            stale.unlink(missing_ok=True)
        os.replace(part, kept_file)
        return kept_file

    def identity(self) -> str | None:
        """The present state of the source's files; None if one changed just now, or if no file is kept."""
        return None if self.source is None else settled_state(file_states([self.source]))

    def _name(self, file: Path, identity: str | None) -> str:
        """The file's name, a digest of key and content: a damaged file or another source has another name."""
        key = [_FORMAT, duckdb.__version__, self.schema.fingerprint(), self.encoding, identity]
        digest = hashlib.sha256(json.dumps(key).encode() + b"\0")
        with open(file, "rb") as content:
            hashlib.file_digest(content, lambda: digest)
        return f"{_stem(self.schema)}.{digest.hexdigest()}{_KEPT}"


def private_folder(folder: Path) -> Path:
    """Creates a folder that only its owner may enter. Raises if others may enter: they could swap files."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(folder):
        raise SourceError(
            f"DPXPlain cannot store its copy of the rows in {folder}.",
            remedy="Use a folder that you own and that nobody else can enter (chmod 700).",
        )
    return folder


def temporary_folder() -> Path:
    """This user's own folder in the system's folder for temporary files."""
    user = os.getuid() if os.name == "posix" else "user"
    return Path(tempfile.gettempdir()) / f"dpxplain-{user}"


@contextlib.contextmanager
def spill_folder(folder: Path, schema: Schema) -> Iterator[Path]:
    """A private folder for rows that do not fit into memory while the block runs; deleted afterwards."""
    spill = private_folder(folder) / f"{_stem(schema)}.{_unique()}{_SPILL}"
    spill.mkdir(mode=0o700)
    try:
        yield spill
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def discard(folder: Path, schema: Schema) -> None:
    """Deletes the kept file of a data set, and any leftovers from writing it."""
    delete_abandoned(folder, schema)
    for file in _kept_files(folder, schema):
        file.unlink(missing_ok=True)


def delete_abandoned(folder: Path, schema: Schema) -> None:
    """Deletes temporary files of processes that ended before they could rename or delete them."""
    for leftover in folder.glob(f"{_stem(schema)}.*"):
        if not any(suffix in leftover.name for suffix in (_PART, _SPILL)):
            continue
        with contextlib.suppress(OSError, ValueError):
            if not _is_running(int(leftover.name.split(".")[1])):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _stem(schema: Schema) -> str:
    return hashlib.sha256(schema.table.name.encode()).hexdigest()[:32]


def _unique() -> str:
    return f"{os.getpid()}.{time.monotonic_ns()}"


def _kept_files(folder: Path, schema: Schema) -> list[Path]:
    return list(folder.glob(f"{_stem(schema)}*{_KEPT}"))


def _attach(connection: Connection, file: Path, mode: str) -> None:
    connection.execute(f"ATTACH {sql_literal(str(file))} AS {STORE} ({mode})")


def _is_private(folder: Path) -> bool:
    """Whether the folder belongs to this user and only this user may enter it."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    if os.name != "posix":  # no owners and modes to check
        return True
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


def _is_running(process: int) -> bool:
    if os.name != "posix":  # on Windows, os.kill would end the process
        return True
    try:
        os.kill(process, 0)  # signal 0 only checks that the process exists
    except (ProcessLookupError, PermissionError):  # PermissionError: another user's process now has this id
        return False
    return True


_MEMORY = "memory"
_REPEATED = 3  # from this many rows per combination of codes, a condensed table pays


def load_tables(connection: Connection, file: EncodedFile, place: Place) -> list[str]:
    """Loads the tables that an earlier session kept. Returns their names, or none if no file fits."""
    return _take_over(connection, place) if file.attach(connection) else []


def create_tables(
    connection: Connection,
    schema: Schema,
    rows: tuple[str, list[Any]],
    file: EncodedFile | None,
    place: Place,
) -> list[str]:
    """Creates the tables, and the file that keeps them. `rows` is the encoding's SQL with its parameters.

    Returns the names of the tables: `ENCODED`, and `CONDENSED` if many rows agree in every code.
    """
    if place == "file":
        assert file is not None
        # Otherwise DuckDB would hold rows in memory to keep their order, which does not matter here.
        connection.execute("SET preserve_insertion_order = false")
        with file.written(connection):
            _encode(connection, schema, rows, STORE)
        return _take_over(connection, place)
    tables = _encode(connection, schema, rows, _MEMORY)
    if file is not None and file.identity() is not None:
        # Errors do not matter: without a kept file, the next session just opens more slowly.
        with contextlib.suppress(OSError, SourceError, duckdb.Error):
            with file.written(connection):
                for name in tables:
                    connection.execute(f"CREATE TABLE {STORE}.{name} AS FROM {_MEMORY}.{name}")
            connection.execute(f"DETACH {STORE}")
    return tables


def _take_over(connection: Connection, place: Place) -> list[str]:
    """Gives the tables of the attached file their usual names: as views, or as copies in memory."""
    kind = "VIEW" if place == "file" else "TABLE"
    rows = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = ?", [STORE]
    ).fetchall()
    tables = [str(name) for (name,) in rows if name in (ENCODED, CONDENSED)]
    for name in tables:
        connection.execute(f"CREATE {kind} {_MEMORY}.{name} AS FROM {STORE}.{name}")
    if place == "memory":
        connection.execute(f"DETACH {STORE}")
    return tables


def _encode(connection: Connection, schema: Schema, rows: tuple[str, list[Any]], database: str) -> list[str]:
    sql, parameters = rows
    connection.execute(f"CREATE TABLE {database}.{ENCODED} AS {sql}", parameters)
    codes, counts = condensed_columns(schema)
    if not codes:
        return [ENCODED]
    keys = ", ".join(codes)
    number, distinct = connection.execute(
        f"SELECT COUNT(*), approx_count_distinct(hash({keys})) FROM {database}.{ENCODED}"
    ).fetchall()[0]
    if distinct * _REPEATED > number:
        return [ENCODED]
    counted = ", ".join(f"{expression} AS {name}" for name, expression in counts.items())
    connection.execute(
        f"CREATE TABLE {database}.{CONDENSED} AS SELECT {keys}, {counted} FROM {database}.{ENCODED} "
        f"GROUP BY {keys}"
    )
    return [ENCODED, CONDENSED]
