"""Sources of rows: which kind a path names, what state its content is in, and tables in memory.

Only this module lists the supported kinds of files, and the errors for other kinds.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from dpxplain.engines.engine import DataSource, Recognised
from dpxplain.errors import DataChanged, SchemaError, SourceError
from dpxplain.model.confidential import ContentDigest
from dpxplain.model.schema import Schema

if TYPE_CHECKING:
    from dpxplain.engines.engine import Engine


# -- Kinds of sources --------------------------------------------------------------------------------------
#
# Tells what kind of source a path names and which files belong to it. Opens no data file.
#
# Only this module lists the supported kinds of files, and the errors for other kinds.

FileKind = Literal["parquet", "csv", "json lines", "arrow", "duckdb"]

_KINDS: dict[str, FileKind] = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "csv", ".csv.gz": "csv", ".tsv.gz": "csv",
    ".jsonl": "json lines", ".ndjson": "json lines", ".jsonl.gz": "json lines", ".ndjson.gz": "json lines",
    ".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow",
    ".duckdb": "duckdb", ".ddb": "duckdb",
}  # fmt: skip
_TABLE_MARK = "::"  # file.duckdb::table
_SCHEME = re.compile(r"(?:^|/)([A-Za-z][A-Za-z0-9+.-]+):/{1,2}")  # joining paths gives folder/s3:/bucket
_HANDED_OVER = "Read the data with pandas, Polars or DuckDB, and pass the DataFrame or relation."
_READ = "Use Parquet, CSV, JSON lines, Feather or a DuckDB file, or pass a DataFrame."
_STORES = {
    "s3",
    "s3a",
    "gs",
    "gcs",
    "az",
    "azure",
    "abfs",
    "abfss",
    "wasbs",
    "hdfs",
    "hf",
    "r2",
    "ftp",
    "sftp",
}
_OTHER_FILES = {
    ".xlsx": "an Excel workbook", ".xls": "an Excel workbook", ".ods": "a spreadsheet",
    ".sas7bdat": "a SAS table", ".xpt": "a SAS file", ".sav": "an SPSS file", ".dta": "a Stata file",
    ".rds": "an R object", ".rdata": "an R workspace", ".json": "a JSON document, not JSON lines",
    ".orc": "an ORC file", ".avro": "an Avro file", ".db": "a database file", ".sqlite": "an SQLite database",
    ".zip": "an archive", ".gz": "a compressed file", ".pkl": "a Python pickle",
}  # fmt: skip


@dataclass(frozen=True)
class SourceFiles:
    """The files of one source, all of one kind; `table` is the table named in a DuckDB file."""

    kind: FileKind
    files: tuple[str, ...]
    table: str | None = None


def is_path(source: object) -> bool:
    """Whether a source is a path, or a list of paths."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(part, str | Path) for part in source)
    return isinstance(source, str | Path)


def local_files(source: Any) -> Any | None:
    """The paths or globs of a source that is read from files here; None for a table in memory.

    An Arrow dataset of all rows of local files counts as those files.
    """
    if is_path(source):
        return source
    system = getattr(source, "filesystem", None)
    if type(source).__module__ != "pyarrow._dataset" or getattr(system, "type_name", None) != "local":
        return None
    files = list(source.files)
    if not files or source.count_rows() < _all_rows(source, files):  # the dataset has a filter
        return None
    return files


def _all_rows(dataset: Any, files: list[str]) -> int:
    from pyarrow import dataset as arrow

    unfiltered = arrow.dataset(files, schema=dataset.schema, format=dataset.format)
    return int(unfiltered.count_rows())


def is_address(source: object) -> bool:
    """Whether the source is the address of a DPXPlain server.

    >>> is_address("https://host/adult"), is_address("adult.parquet")
    (True, False)
    """
    return isinstance(source, str) and source.lower().startswith(("https://", "http://"))


def is_spark(source: object) -> bool:
    """Whether a source is for Spark: its address, a DataFrame, a session, or a session with a table's name.

    >>> is_spark("sc://host:15002"), is_spark("spark://host:7077::db.flights"), is_spark("flights.parquet")
    (True, True, False)
    """
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], str):
        source = source[0]
    if isinstance(source, str):
        return source.lower().startswith(("spark://", "sc://"))
    return is_spark_frame(source) or _is_of_spark(source, "SparkSession")


def is_spark_frame(source: object) -> bool:
    """Whether a source is a Spark DataFrame; does not import Spark."""
    return _is_of_spark(source, "DataFrame")


def _is_of_spark(source: object, name: str) -> bool:
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == name for kind in type(source).__mro__
    )


def find_files(source: str | Path | Sequence[str | Path]) -> list[str]:
    """The files named by a path, glob or file::table, or by a list of these. Does not check their kind."""
    paths = [source] if isinstance(source, str | Path) else source
    return [file for path in paths for file in sorted(glob.glob(file_and_table(str(path))[0]))]


def source_files(source: str | Path | Sequence[str | Path]) -> SourceFiles:
    """The files of a source. Raises if a file is missing, the kinds differ, or a kind is not supported."""
    if isinstance(source, str | Path):
        return _each_once(_files_of(str(source)))
    if not all(map(find_files, source)):
        # The list may be data passed by mistake, so the message does not repeat it.
        raise SourceError(
            "One of the paths in the list does not exist.", remedy="Check each path in the list."
        )
    parts = [_files_of(str(path)) for path in source]
    kinds = {part.kind for part in parts}
    if len(kinds) > 1:
        raise SourceError(
            f"The paths name files of different kinds: {', '.join(sorted(kinds))}.",
            remedy="Give files of one kind and with the same columns.",
        )
    files = tuple(dict.fromkeys(file for part in parts for file in part.files))
    if parts[0].kind == "duckdb" and len(files) > 1:
        raise SourceError(
            "You named several DuckDB files.",
            remedy="Name one file. Put the tables that you need into it and join them there.",
        )
    return _each_once(SourceFiles(parts[0].kind, files, parts[0].table))


def _each_once(source: SourceFiles) -> SourceFiles:
    """Raises if a file is named twice, by a link or by two spellings: each row would count twice."""
    identities = {(status.st_dev, status.st_ino) for status in map(os.stat, source.files)}
    if len(identities) < len(source.files):
        raise SourceError(
            "The source names the same file twice, through a link or in two spellings.",
            remedy="Name each file once.",
        )
    return source


def _files_of(path: str) -> SourceFiles:
    name, table = file_and_table(path)
    files = find_files(path)
    scheme = _SCHEME.search(path)
    if not files and scheme is not None:
        raise _unsupported_scheme(scheme[1].lower())
    if not files:
        raise SourceError(
            f"There is no file {name}.", remedy="Check the path. Patterns such as data/*.parquet work too."
        )
    suffixes = {_suffix(file) for file in files}
    kinds = {_KINDS.get(suffix) for suffix in suffixes}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        raise _unread(name, suffixes)
    return SourceFiles(kind, tuple(files), table)


def file_and_table(path: str) -> tuple[str, str | None]:
    """The file and the table of file.duckdb::table."""
    name, mark, table = path.rpartition(_TABLE_MARK)
    return (name, table) if mark and _KINDS.get(_suffix(name)) == "duckdb" else (path, None)


def _suffix(file: str) -> str:
    """The file name's ending that tells the kind, such as .csv.gz rather than .gz."""
    suffixes = Path(file).suffixes[-2:]
    return next(
        (s for s in ("".join(suffixes).lower(), *reversed(suffixes)) if s.lower() in _KINDS), ""
    ).lower() or (suffixes[-1].lower() if suffixes else "")


def _unread(path: str, suffixes: set[str]) -> SourceError:
    suffix = next(iter(suffixes)) if len(suffixes) == 1 else None
    if suffix is None:
        return SourceError(f"{path} names files of different kinds.", remedy="Name files of one kind.")
    if suffix in _OTHER_FILES:
        return SourceError(f"{path} is {_OTHER_FILES[suffix]}, which is not supported.", remedy=_HANDED_OVER)
    return SourceError(f"{path} is not a supported kind of file.", remedy=_READ)


def _unsupported_scheme(scheme: str) -> SourceError:
    if scheme in ("http", "https"):
        return SourceError(
            "DPXPlain does not open files at a web address.",
            remedy="Download the file first. Only a DPXPlain server has an address such as "
            "https://host/data-set.",
        )
    if scheme in _STORES:
        return SourceError(
            f"Object storage ({scheme}://) is not supported.",
            remedy="Copy the files to this computer, or read them with pandas, Polars or DuckDB and pass "
            "the DataFrame or relation.",
        )
    if scheme == "file":
        return SourceError("Name a file by its path alone, without file://.", remedy="Remove file://.")
    return SourceError(f"Databases at {scheme}:// are not supported.", remedy=_HANDED_OVER)


# -- The state of a source ---------------------------------------------------------------------------------
#
# The state of an engine's source, of any kind: a digest of the content read, and whether it changed since.
#
# Files are read again only if size and times cannot tell. For a table in a database the curator names the
# state in `table.version`, because no cheap and certain test shows that a live table's rows are unchanged
# (ADR 20 and 28). Several private tables of a data set are one source, whose version covers all of them.
# Otherwise a change of one table would go unnoticed until that table is joined.

_SETTLED_NS = 2_000_000_000  # a file changed so recently may change again within one clock tick
DIGESTING = "dpxplain-digest"
"""The name prefix of the threads that compute digests."""

FileStates = tuple[tuple[str | int, ...], ...]


class FileSource:
    """Files, by the paths or globs that name them. If a file is missing, the states are empty.

    Content is read only if size and times cannot tell. Unchanged size and times mean unchanged content, and a
    changed size means changed content.
    """

    def __init__(self, patterns: str | Path | Sequence[str | Path]) -> None:
        names = [patterns] if isinstance(patterns, str | Path) else patterns
        self._patterns = [str(pattern) for pattern in names]
        self._states = file_states(self._patterns)
        self._state = settled_state(self._states)
        self._digest: ContentDigest | None = None
        self._replacement: tuple[FileStates, ContentDigest | None] = (), None  # the change digested last
        self._lock = threading.RLock()  # `fits` may ask for the digest

    @property
    def exists(self) -> bool:
        return bool(self._states)

    def check_readable(self) -> None:
        """Nothing to check: files were read when they were opened."""

    def state(self) -> str | None:
        return self._state

    def digest(self) -> ContentDigest | None:
        with self._lock:
            if self._digest is None:
                self._digest = self._digest_now(self._states)
            return self._digest

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        states = file_states(self._patterns)
        with self._lock:
            if states == self._states:
                return False
            if _sizes(states) != _sizes(self._states):
                return True
            if self._replacement[0] != states:
                self._replacement = states, self._digest_now(states)
            digest = self._replacement[1]
            if digest is None or not fits(digest):
                return True
            # The file was moved, or the same content was written again.
            self._digest, self._states, self._state = digest, states, settled_state(states)
            return False

    def present_state(self) -> str | None:
        states = file_states(self._patterns)
        return settled_state(states) if states else None

    @contextmanager
    def reading(self, recognised: Recognised) -> Iterator[None]:
        """Digests the files while the block reads them, unless they are recognised.

        Raises if the files change meanwhile, so that the digest is of what the block has read. For files
        written just now, times cannot show a change, so these files are digested again afterwards.
        """
        if self._state is not None and recognised(self._state):
            yield
        else:
            with ThreadPoolExecutor(1, DIGESTING) as thread:
                digesting = thread.submit(_digest_of, self._states)
                yield
                self._digest = digesting.result()
            if self._state is None and _digest_of(self._states) != self._digest:
                raise _changed_meanwhile()
        if file_states(self._patterns) != self._states:
            raise _changed_meanwhile()

    def sizes(self) -> list[tuple[str, int]]:
        """Path and bytes of every file."""
        return [(str(name), int(size)) for name, size, *_ in self._states]

    def verified(self) -> FileStates | None:
        """The states of the files, if they still have the content that was read; None if they may not.

        For files changed just now, times cannot show another change, so these files are digested again.
        """
        states = file_states(self._patterns)
        with self._lock:
            if states != self._states:
                return None
            if self._state is None:
                settled = settled_state(states)
                if self._digest is None or self._digest_now(states) != self._digest:
                    return None
                self._state = settled  # any later change shows in the times
            return states

    def holds_same(self, _files: object, _digest: Callable[[object], ContentDigest]) -> bool:
        """Whether the files still have the content that was read. Call it after reading them once more."""
        if file_states(self._patterns) != self._states:
            return False
        return self._state is not None or self._digest is None or _digest_of(self._states) == self._digest

    def _digest_now(self, states: FileStates) -> ContentDigest | None:
        try:
            digest = _digest_of(states)
        except OSError:
            return None
        return digest if file_states(self._patterns) == states else None


def file_states(patterns: Sequence[str]) -> FileStates:
    """Path, size, times, inode and device of every file, sorted by path; () if one is missing.

    For a database file the name of the chosen table comes last: another table is other content. The inode's
    change time (ctime) is included because it shows a change even if someone set the modification time back.
    """
    states: list[tuple[str | int, ...]] = []
    for pattern in patterns:
        try:
            names = find_files(pattern)
            stats = [os.stat(name) for name in names]
        except OSError:
            return ()
        if not names:
            return ()
        table = file_and_table(pattern)[1]
        of_table = () if table is None else (table,)
        states += [
            (os.path.abspath(name), s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev, *of_table)
            for name, s in zip(names, stats, strict=True)
        ]
    return tuple(sorted(set(states), key=str))


def settled_state(states: FileStates) -> str | None:
    """The states as a text; None if a file changed just now."""
    now = time.time_ns()
    # A copy can keep the original's modification time; only the inode's time tells when it was written.
    if any(now - max(int(modified), int(changed)) < _SETTLED_NS for _, _, modified, changed, *_ in states):
        return None
    return json.dumps(states)


def _sizes(states: FileStates) -> list[int]:
    return sorted(int(size) for _, size, *_ in states)


def _digest_of(states: FileStates) -> ContentDigest:
    """The digest of the files' contents. Names do not count: a moved file has the same data."""
    digests = []
    for name, _size, _modified, _changed, _inode, _device, *table in states:
        with open(name, "rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        for of_table in table:
            digest.update(f"::{of_table}".encode())
        digests.append(digest.digest())
    return ContentDigest.of_parts(digests)


def _changed_meanwhile() -> SourceError:
    return SourceError(
        "The source changed while DPXPlain read it.",
        remedy="Open it again when the other program has finished writing.",
    )


class LiveTable:
    """The source of an engine that reads a table in its database or in Spark."""

    def __init__(self, schema: Schema, place: str, check_readable: Callable[[], None]) -> None:
        """`place` is the table's lasting name: the kind of database and the table, without a host."""
        if not schema.table.version:
            raise SchemaError(
                "table.version is missing. The rows of a database table can change at any time, so the "
                "schema must name their state.",
                remedy='Set version, such as "2026-11", and change it whenever the rows change.',
                mistakes=[("table.version", "is missing")],
            )
        self._digest = ContentDigest.of(json.dumps([place, schema.table.version]).encode())
        self._check_readable = check_readable

    def check_readable(self) -> None:
        """Raises if the table does not fit the schema. An analyst reads the error, so it has no details."""
        try:
            self._check_readable()
        except SchemaError:
            raise SourceError(
                "The data do not fit the schema. Nothing was charged.",
                remedy="Ask the curator, who can see the reason with: dpxplain schema check",
            ) from None

    def state(self) -> None:
        return None

    def digest(self) -> ContentDigest:
        """The digest of the declared version and the table's place, not of its rows."""
        return self._digest

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        return False

    def present_state(self) -> None:
        return None


class PrivateSources:
    """Several private tables as one source, by the names of the tables."""

    def __init__(self, sources: Mapping[str, DataSource]) -> None:
        self._sources = dict(sources)

    def check_readable(self) -> None:
        for source in self._sources.values():
            source.check_readable()

    def state(self) -> str | None:
        return _together([source.state() for source in self._sources.values()])

    def digest(self) -> ContentDigest | None:
        return self._digest({})

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        return any(self._is_replaced(name, fits) for name in self._sources)

    def present_state(self) -> str | None:
        return _together([source.present_state() for source in self._sources.values()])

    def check_same(self, engine: Engine, dataset: str) -> None:
        """Raises if the engine has read other content of these tables than this source has."""
        read = engine.source
        if not isinstance(read, PrivateSources):
            return  # a live table: the schema declares its version
        for name, source in read._sources.items():
            if source.digest() is None or source.digest() != self._sources[name].digest():
                raise DataChanged.of(dataset, charged=True)

    def _is_replaced(self, name: str, fits: Callable[[ContentDigest], bool]) -> bool:
        def all_fit(digest: ContentDigest) -> bool:
            digest_of_all = self._digest({name: digest})
            return digest_of_all is not None and fits(digest_of_all)

        return self._sources[name].is_replaced(all_fit)

    def _digest(self, known: Mapping[str, ContentDigest]) -> ContentDigest | None:
        """The digest of all tables, in their order; None if one table has changed meanwhile."""
        digests = [known.get(name) or source.digest() for name, source in self._sources.items()]
        known_digests = [digest for digest in digests if digest is not None]
        return ContentDigest.of_all(known_digests) if len(known_digests) == len(digests) else None


def _together(states: list[str | None]) -> str | None:
    """All states as one text; None if a state is unknown."""
    return None if None in states else json.dumps(states)


# -- Tables in memory --------------------------------------------------------------------------------------
#
# A table in memory as a source. Its digest covers the columns' names, kinds and values, however chunked.

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
