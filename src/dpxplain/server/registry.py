"""The data sets that are open, each declared by a schema file, and the files that curators send.

An edited schema file is reloaded without a restart. Every process compares the files' times, so all processes
notice an edit made through one of them, and replaced data. If a file became invalid, the data set stays open
under its previous declarations.

Opening may take minutes, so no thread holds a lock of the registry meanwhile. A request for a data set that
is being opened waits a short time and then gets `being_opened`. Other data sets are served as before.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
import time
import tomllib
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from typing_extensions import TypedDict

from dpxplain.engines.duckdb_source import declared_columns
from dpxplain.engines.opening import (
    EngineOptions,
    OpenedTables,
    database_identities,
    is_listed,
    source_figures,
    with_public_tables,
)
from dpxplain.engines.source_kinds import find_files
from dpxplain.engines.source_state import FileSource
from dpxplain.errors import (
    BadRequest,
    DataChanged,
    DPXPlainError,
    LedgerUnavailable,
    SchemaError,
    SourceError,
)
from dpxplain.model.schema import Schema, all_parts, is_database
from dpxplain.phases.concurrency import KeyedLocks, TimeLimited
from dpxplain.phases.dataset import OpenDataset, StoredReleaser, VersionCheck, recognised_by
from dpxplain.phases.measure import is_discovered_since, with_discovered
from dpxplain.privacy.mechanisms.noise import private_noise
from dpxplain.results.schema_check import SchemaCheck
from dpxplain.server.problems import LOG, Problem, being_opened, changed, not_found, too_large, unavailable

if TYPE_CHECKING:
    from dpxplain.ledger.ledger import SQLLedger

# -- Registry ----------------------------------------------------------------------------------------------

OPENING_SECONDS = 2.0
"""How long a request waits for a data set that is being opened again."""
_MOST_WAITING = 24  # requests that wait for data sets; more would take all threads from other requests
_SECONDS_BETWEEN_SCANS = 1.0


@dataclass
class SchemaFile:
    """One schema file and the data set opened from it, or why it could not be opened."""

    file: Path
    version: FileVersion
    problem: BadRequest | None = None
    name: str = ""
    dataset: OpenDataset | None = None
    data: frozenset[Hashable] = frozenset()
    """Device and inode of each file of its source, or what identifies a database's table."""
    tried_state: str | None = None
    """The state of added or replaced data files at the last attempt to open them."""
    schema: Schema | None = None
    """The declarations of a data set whose data could not be opened so far; otherwise None."""

    @property
    def is_unavailable(self) -> bool:
        """Whether the data set is declared, but its data could not be opened so far."""
        return self.schema is not None

    @property
    def new_data(self) -> str | None:
        """The state of added or replaced data files not tried yet; None if none, or while being written."""
        if self.schema is not None:
            source = source_of(self.schema, self.file.parent)
            state = None if isinstance(source, str) else FileSource(source).present_state()
            return state if state != self.tried_state else None
        version_check = None if self.dataset is None else self.dataset.version_check
        if version_check is None or not version_check.is_replaced():
            return None
        state = version_check.present_state()
        return state if state != self.tried_state else None

    @property
    def data_problem(self) -> DataChanged | None:
        """The error if an open data set's data are not those of its declared version; otherwise None."""
        if self.dataset is None or self.dataset.version_check is None:
            return None
        try:
            self.dataset.version_check.check()
        except DataChanged as refusal:
            return refusal
        return None


class Registry:
    """Opens the data sets that the configuration names. `get` returns a data set as it is declared now."""

    def __init__(
        self,
        places: tuple[Path, ...],
        ledger: SQLLedger,
        *,
        data_folder: Path | None = None,
        databases: tuple[str, ...] = (),
        memory: str | None = None,
        time_limit: float | None = None,
        editable: bool = True,
    ) -> None:
        self._places = places
        self._ledger = ledger
        self._data_folder = data_folder
        self._databases = databases
        self._memory = memory
        self._time_limit = time_limit
        self.editable = editable
        self._schema_files: dict[Path, SchemaFile] = {}
        self._lock = threading.RLock()  # held while a data set is registered, never while one is opened
        self._openings = KeyedLocks()  # by schema file: one thread at a time opens it
        self._reloads: dict[Path, TimeLimited[SchemaFile | None]] = {}
        self._waiting = threading.BoundedSemaphore(_MOST_WAITING)
        self._swap_lock = threading.Lock()  # held while a charge is written, and while a data set is replaced
        self._last_scan = -float("inf")
        self._check_places()
        problems = []
        for file in self._files():
            schema_file = self._open_file(file)
            if schema_file is not None and schema_file.problem is not None:
                if not schema_file.is_unavailable:
                    raise schema_file.problem
                problems.append(schema_file.problem)
        if problems and len(problems) == len(self._schema_files):  # no data set can be served
            raise problems[0]

    @property
    def all(self) -> list[OpenDataset]:
        """Every open data set, sorted by name."""
        self._scan(at_once=False)
        opened = [d.dataset for d in list(self._schema_files.values()) if d.dataset is not None]
        return sorted(opened, key=lambda dataset: dataset.name)

    @property
    def unavailable(self) -> list[SchemaFile]:
        """Schema files of data sets that are declared, but whose data could not be opened so far."""
        self._scan(at_once=False)
        return [file for file in list(self._schema_files.values()) if file.is_unavailable]

    def get(self, name: str) -> OpenDataset:
        if self._find(name) is None:
            self._scan(at_once=False)
        self._reload_if_edited(name)
        schema_file = self._find(name)
        if schema_file is not None and schema_file.is_unavailable:
            raise unavailable()
        if schema_file is None or schema_file.dataset is None:
            raise not_found("data set")
        return schema_file.dataset

    @contextmanager
    def unchanged(self, dataset: OpenDataset) -> Iterator[None]:
        """Keeps the declarations unchanged while the block runs. Raises if they have changed already."""
        self._reload_if_edited(dataset.name)
        with self._swap_lock:
            schema_file = self._find(dataset.name)
            if schema_file is None or schema_file.dataset is not dataset:
                raise changed()
            yield

    def schema_files(self) -> list[SchemaFile]:
        """All schema files, including those that could not be opened."""
        self._scan(at_once=True)
        return sorted(self._schema_files.values(), key=lambda entry: (entry.name, entry.file.name))

    def file_of(self, name: str) -> Path:
        if self._find(name) is None:
            self._scan(at_once=False)
        schema_file = self._find(name)
        if schema_file is None:
            raise not_found("data set")
        return schema_file.file

    def declare(self, text: str, *, name: str | None) -> OpenDataset:
        """Declares the data set `name` again, or a new one. Opens its data before anything changes."""
        schema = schema_of(text)
        file = self._new_file(schema.table.name) if name is None else self.file_of(name)
        with self._openings.hold(file):
            if name is None:
                self._new_file(schema.table.name)  # again: another curator may have declared it meanwhile
            candidate = SchemaFile(file, (0, 0), name=schema.table.name)
            dataset = self._open_data(candidate, schema, lazily=False)
            with self._lock:
                self._record(candidate, schema, dataset)
                write_atomically(file, text)
                candidate.version = file_version(file) or (0, 0)
                self._swap(candidate)
            return dataset

    def data_files(self, most_bytes: int) -> DataFiles | None:
        """The data files that new data sets may use; None if no data set can be added."""
        schemas = self._schema_folder
        if schemas is None or not self.editable:
            return None
        return DataFiles(self._data_folder or schemas, schemas, most_bytes)

    @property
    def can_add(self) -> bool:
        """Whether data sets can be added."""
        return self.editable and self._schema_folder is not None

    @property
    def _schema_folder(self) -> Path | None:
        """The folder that new schema files are written to; None if only files are configured."""
        return next((place for place in self._places if place.is_dir()), None)

    def _new_file(self, name: str) -> Path:
        """The path of a new data set's schema file. Raises if the file exists."""
        folder = self._schema_folder
        if folder is None:
            raise BadRequest(
                "This server has a fixed list of schema files.",
                remedy="To add data sets, set datasets to a folder.",
            )
        file = folder / schema_file_name(name)
        if file.exists():
            raise BadRequest(
                "There is already a schema file with this name.", remedy="Edit it, or choose another name."
            )
        return file

    def open(self, schema: Schema, folder: Path, *, lazily: bool = False) -> OpenDataset:
        """Opens the data that a schema in `folder` points at. Registers and charges nothing.

        With `lazily`, it connects to a database when the first request needs its data.
        """
        self._check_sources(schema, folder)
        schema = with_public_tables(schema, folder)
        with suppress(BadRequest):  # a ledger that does not know the data set yet has no discoveries
            schema = with_public_tables(with_discovered(schema, self._ledger), folder)
        name, version, versions = schema.table.name, schema.table.version, self._ledger.versions
        options = EngineOptions(
            memory=self._memory,
            recognised=recognised_by(versions, name, version),
            time_limit=self._time_limit,
            lazily=lazily,
        )
        data = OpenedTables(source_of(schema, folder), schema, options)
        noise = private_noise(schema.privacy.noise)
        check = VersionCheck(versions, name, version, data.source)
        # This one cannot spend. Only a task spends, on its caller's account (`measuring_dataset`).
        dataset = OpenDataset(
            schema, data.engine, self._ledger, StoredReleaser(), noise, version_check=check, joins=data
        )
        dataset.request_key()  # hashes the declarations now, once for all the copies that callers use
        return dataset

    def review(self, schema: Schema, name: str | None) -> SchemaCheck:
        """How the rows that a schema points at fit it: NOT private. Registers and charges nothing."""
        schema_file = None if name is None else self._find(name)
        home = self._schema_folder or self._places[0].parent
        folder = home if schema_file is None else schema_file.file.parent
        self._check_sources(schema, folder)
        schema = with_public_tables(schema, folder)
        figures = source_figures(source_of(schema, folder), schema, memory=self._memory)
        return SchemaCheck.of(schema, schema.table.source, figures)

    def _check_sources(self, schema: Schema, folder: Path) -> None:
        if self.editable:  # otherwise there is only one user, who may open any file anyway
            check_allowed(schema, folder, self._data_folder or folder, self._databases)

    def _files(self) -> Iterator[Path]:
        for place in self._places:
            yield from sorted(place.glob("*.toml")) if place.is_dir() else [place]

    def _find(self, name: str) -> SchemaFile | None:
        """The schema file of the open data set with this name, or else of an unavailable one."""
        named = [file for file in list(self._schema_files.values()) if file.name == name]
        opened = [file for file in named if file.dataset is not None]
        return next(iter(opened + [file for file in named if file.is_unavailable]), None)

    def _check_places(self) -> None:
        """Raises if folders or schema files of the configuration are missing."""
        check_folders(self._places, self._data_folder)
        # A new server may start without schema files. If its ledger knows data sets, the files were lost.
        if not list(self._files()) and self._ledger.has_datasets:
            raise SchemaError(
                f"server.datasets: there is no schema file in {', '.join(map(str, self._places))}, but the "
                "ledger has data sets.",
                remedy="Correct the path, or put the files back. To draft a new one: dpxplain schema init "
                "DATA_FILE",
            )

    def _scan(self, *, at_once: bool) -> None:
        """Finds new, edited and removed files. Does not wait for a file that is being opened already."""
        with self._lock:
            if not at_once and time.monotonic() - self._last_scan < _SECONDS_BETWEEN_SCANS:
                return
            self._last_scan = time.monotonic()
            files = list(self._files())
            with self._swap_lock:
                for removed in self._schema_files.keys() - set(files):
                    del self._schema_files[removed]
                    self._reloads.pop(removed, None)
        for file in files:
            previous = self._schema_files.get(file)
            is_edited = previous is None or file_version(file) != previous.version
            has_new_data = previous is not None and previous.is_unavailable and previous.new_data
            if (is_edited or has_new_data) and not self._reloading(file).is_running:
                with suppress(Problem):  # opening takes long: the list continues without it
                    self._reload(file)

    def _reload_if_edited(self, name: str) -> None:
        for _attempt in range(2):  # the first attempt may join an opening that began before the last edit
            schema_file = self._find(name)
            if schema_file is None or not self._is_outdated(schema_file):
                return
            self._reload(schema_file.file)

    def _is_outdated(self, schema_file: SchemaFile) -> bool:
        """Whether the file was edited, its data were replaced or values were discovered since it was read."""
        if file_version(schema_file.file) != schema_file.version or schema_file.new_data:
            return True
        dataset = schema_file.dataset
        return dataset is not None and is_discovered_since(dataset.schema, self._ledger)

    def _reloading(self, file: Path) -> TimeLimited[SchemaFile | None]:
        with self._lock:
            return self._reloads.setdefault(
                file, TimeLimited(partial(self._open_file, file), "dpxplain-open")
            )

    def _reload(self, file: Path) -> None:
        """Opens an edited file in its own thread. Raises if that takes longer than a short time."""
        if not self._waiting.acquire(blocking=False):
            raise being_opened()
        try:
            self._reloading(file)(OPENING_SECONDS)
        except TimeoutError:
            raise being_opened() from None
        finally:
            self._waiting.release()

    def _open_data(self, candidate: SchemaFile, schema: Schema, *, lazily: bool) -> OpenDataset:
        """Opens the data of a schema file. This may take minutes, so it holds no lock of the registry."""
        self._check_name(candidate)
        candidate.data = identities(schema, candidate.file.parent)
        self._check_data(candidate)
        return self.open(schema, candidate.file.parent, lazily=lazily)

    def _record(self, candidate: SchemaFile, schema: Schema, dataset: OpenDataset) -> None:
        """Records an opened data set in the ledger. The caller holds the lock."""
        self._check_name(candidate)  # again: others may have been registered meanwhile
        self._check_data(candidate)
        self._ledger.privacy_units.check_and_record(candidate.name, schema.privacy)
        self._ledger.open_dataset(candidate.name, schema.privacy.rho, schema.privacy.delta)
        candidate.dataset = dataset  # only after the ledger has accepted its privacy unit and limit
        if candidate.data_problem is not None:
            LOG.warning("%s: the data do not match the declared version", candidate.file.name)

    def _swap(self, candidate: SchemaFile) -> None:
        with self._swap_lock:
            self._schema_files[candidate.file] = candidate

    def _open_file(self, file: Path) -> SchemaFile | None:
        """Opens a file that is new or was edited, or whose data were replaced."""
        with self._openings.hold(file):
            version, previous = file_version(file), self._schema_files.get(file)
            if version is None or (previous is not None and not self._is_outdated(previous)):
                return previous
            candidate = SchemaFile(file, version, tried_state=None if previous is None else previous.new_data)
            schema = None
            try:
                schema = Schema.load(file)
                candidate.name = schema.table.name
                dataset = self._open_data(candidate, schema, lazily=True)
                with self._lock:
                    self._record(candidate, schema, dataset)
                    self._swap(candidate)
                    return candidate
            except LedgerUnavailable:
                if previous is None:
                    raise
                return previous  # the next scan tries again
            except DPXPlainError as error:
                candidate.problem = (
                    error if isinstance(error, BadRequest) else SourceError("The data set cannot be opened.")
                )
                LOG.warning("%s: the changed schema file is not used: %s", file.name, type(error).__name__)
                if previous is not None and previous.dataset is not None:
                    candidate.name, candidate.data = previous.name, previous.data
                    candidate.dataset = previous.dataset
                elif schema is not None and isinstance(candidate.problem, SourceError):
                    self._ledger.open_dataset(candidate.name, schema.privacy.rho, schema.privacy.delta)
                    candidate.schema = schema
            self._swap(candidate)
            return candidate

    def _check_data(self, candidate: SchemaFile) -> None:
        """Raises if another data set uses the same data: the budgets spent on its people would add up."""
        for file, other in list(self._schema_files.items()):
            if file != candidate.file and other.dataset is not None and other.data & candidate.data:
                raise SchemaError(
                    f"table.source: the data set {other.name} already has this file or table, with its own "
                    "budget.",
                    remedy="Use that data set. Make a copy of the data only if you accept that both budgets "
                    "can be spent on the same people.",
                )

    def _check_name(self, candidate: SchemaFile) -> None:
        previous = self._schema_files.get(candidate.file)
        if previous is not None and previous.dataset is not None and previous.name != candidate.name:
            raise SchemaError(
                f"The data set {previous.name} cannot be renamed: the ledger keeps its budget under its "
                "name.",
                remedy="Keep table.name, or declare a new data set in a new file.",
            )
        others = (
            other
            for file, other in list(self._schema_files.items())
            if file != candidate.file and (other.dataset is not None or other.is_unavailable)
        )
        if any(other.name == candidate.name for other in others):
            raise SchemaError(
                f"Two schema files declare a table {candidate.name}.", remedy="Give each table its own name."
            )


def check_folders(places: Iterable[Path], data_folder: Path | None) -> None:
    """Raises if a configured folder or schema file does not exist."""
    remedy = "Create it, or correct the path. Relative paths start at the configuration's folder."
    for place in places:
        if not place.exists():
            raise SchemaError(
                f"server.datasets: there is no folder or schema file {str(place)!r}.", remedy=remedy
            )
    if data_folder is not None and not data_folder.is_dir():
        raise SchemaError(f"server.data_folder: there is no folder {str(data_folder)!r}.", remedy=remedy)


# -- Schema and data files ---------------------------------------------------------------------------------
#
# Schemas are read from the TOML text that a curator sent; data files lie beside them.
#
# A schema may point only at allowed files and databases. For a data file only names and types are shown,
# never a value: a Parquet file declares both, a CSV file has only names, in its first line. A file is
# written under a new plain name inside one folder, completely or not at all. A hidden mark beside it says
# that a curator uploaded it; only such a file can be removed through the server.

_MOST_DEPTH, _MOST_TABLES = 32, 5_000
_NOT_PART_OF_KEYS = str.maketrans("", "", " \t\"'")
_SCHEMA_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_TOML_WORD = re.compile(r"[\w.-]+")
_TOML_POSITION = re.compile(r"\(at (line (\d+), column (\d+)|end of document)\)")

FileVersion = tuple[int, int]
"""Time and size, which differ if the file was edited."""


def file_version(file: Path) -> FileVersion | None:
    """The file's present version; None if the file cannot be read."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def schema_of(text: str) -> Schema:
    """The schema in a TOML text. Raises an error that names the keys to correct."""
    _check_toml_size(text)
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        position = _TOML_POSITION.search(str(error))
        raise SchemaError(
            f"The schema is not valid TOML{f' at {position[1]}' if position else ''}.",
            remedy="Correct the TOML.",
            place=_toml_position(text, position),
        ) from None
    schema = Schema.load(raw)
    check_source(schema)
    return schema


def _toml_position(text: str, position: re.Match[str] | None) -> tuple[int, int]:
    """The line and column where tomllib stopped; the end of the text if it names none."""
    if position is not None and position[2]:
        return int(position[2]), int(position[3])
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _check_toml_size(text: str) -> None:
    """Raises if tomllib would be slow: its time grows with the square of the depth and number of tables."""
    squeezed = text.translate(_NOT_PART_OF_KEYS)
    deep = any(sum(map(bool, word.split("."))) > _MOST_DEPTH for word in _TOML_WORD.findall(squeezed))
    nested = "[" * _MOST_DEPTH in squeezed or squeezed.count("{") > _MOST_TABLES
    if deep or nested or text.count("\n[") > _MOST_TABLES:
        raise SchemaError(
            f"The schema is nested deeper than {_MOST_DEPTH} levels, or has more than {_MOST_TABLES:,} "
            "tables.",
            remedy="A schema has [table], [privacy] and one [columns.NAME] for each column.",
        )


def check_source(schema: Schema) -> None:
    if "\x00" in "".join(schema.table.source or ""):  # no path can contain it, and system calls would fail
        mistake = ("table.source", "must not contain a NUL character")
        raise SchemaError(f"{': '.join(mistake)}.", remedy="Remove it.", mistakes=[mistake])


def schema_file_name(table: str) -> str:
    """The file of a new data set's schema; only a plain name becomes part of a path."""
    if _SCHEMA_NAME.fullmatch(table) is None:
        raise SchemaError(
            "table.name: may have only letters a to z, digits, _ and -, because the server names a file "
            "after it.",
            remedy="Choose another name.",
        )
    return f"{table}.toml"


def write_atomically(file: Path, text: str) -> None:
    """Writes a file so that readers see either the old text or the new text, never a part."""
    try:
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}.", suffix=".draft")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(draft).chmod(0o644)
            os.replace(draft, file)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadRequest(
            f"The schema cannot be written: {error.strerror}.",
            remedy="Give the server permission to write to its schema folder.",
        ) from None


def check_allowed(schema: Schema, folder: Path, home: Path, databases: tuple[str, ...]) -> None:
    """Raises for files outside `home` and databases not listed, because curators edit schemas remotely."""
    source = source_of(schema, folder)
    sources = [table.source for table in schema.tables.values()]
    sources += [table.source for table in schema.private.values()]
    files = [source for source in sources if source and not is_database(source)]
    _check_inside([folder / file for file in files], home)
    if not isinstance(source, str):
        _check_inside(source, home)
    elif not is_listed(source, schema, databases):
        # The server's own password would be sent to whatever host an address names.
        raise SourceError(
            "table.source: names a database that is not in the server's configuration.",
            remedy="Add exactly this address to databases in the server's configuration.",
        )


def _check_inside(source: Path | list[Path], home: Path) -> None:
    """Raises for sources outside `home`, after following links and globs."""
    patterns = [source] if isinstance(source, Path) else source
    paths = [Path(match) for path in patterns for match in find_files(path) or [str(path)]]
    if not all(path.resolve().is_relative_to(home.resolve()) for path in paths):
        raise SourceError(
            "A source is outside the server's data folder.",
            remedy="Name a file inside that folder, relative to the schema's own folder.",
        )


def source_of(schema: Schema, folder: Path) -> str | Path | list[Path]:
    check_source(schema)
    source = schema.table.paths(folder)
    if source is None:
        raise SchemaError("table.source is missing.", remedy="Set it to the file or address of the data.")
    return source


def identities(schema: Schema, folder: Path) -> frozenset[Hashable]:
    """The device and inode of each of the source's files, under any name or link; or a table's place."""
    source = source_of(schema, folder)
    if isinstance(source, str):
        return frozenset(database_identities(source, all_parts(schema)))
    files = [folder / table.source for table in schema.private.values() if table.source]
    paths = (Path(match) for patterns in (source, files) for match in find_files(patterns))
    return frozenset((status.st_dev, status.st_ino) for status in (path.stat() for path in paths))


MOST_LISTED = 500
_DATA_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.(?:csv|parquet)")
_HEADER_NOTE = (
    "The server read only the first line, which must name the columns. A CSV file does not declare types."
)
_FOOTER_NOTE = "The file declares these names and types. The server did not read any values."


class DataFileLine(TypedDict):
    """`source` is how a schema names the file; an `uploaded` one can be removed."""

    name: str
    source: str
    uploaded: bool


class DataFileList(TypedDict):
    """`most_bytes` is the largest size of an upload; 0 means that the server accepts none."""

    files: list[DataFileLine]
    most_bytes: int


class FileColumn(TypedDict):
    """`type` is empty where the file does not declare it."""

    name: str
    type: str


class FileColumns(TypedDict):
    columns: list[FileColumn]
    note: str


class DataFiles:
    """The folder where a server keeps data. `most_bytes` is the largest size of an upload."""

    def __init__(self, folder: Path, schemas: Path, most_bytes: int) -> None:
        self._folder = folder
        self._schemas = schemas
        self.most_bytes = most_bytes

    def names(self) -> list[str]:
        """The files that a schema could name, except those in subfolders."""
        names = sorted(path.name for path in self._folder.iterdir() if _DATA_FILE_NAME.fullmatch(path.name))
        return [name for name in names if (self._folder / name).is_file()][:MOST_LISTED]

    def line(self, name: str) -> DataFileLine:
        """A file's line in the list; a new schema names it relative to the folder of schemas."""
        source = Path(os.path.relpath(self._folder / name, self._schemas)).as_posix()
        return DataFileLine(name=name, source=source, uploaded=self._is_uploaded(name))

    def identity(self, name: str) -> tuple[int, int]:
        """The device and inode of an existing file, as in `identities`."""
        status = self._existing(name).stat()
        return status.st_dev, status.st_ino

    def columns(self, name: str) -> tuple[list[tuple[str, str]], str]:
        """Names and types, and how they were found."""
        path = self._existing(name)
        try:
            columns = declared_columns(str(path))
        except (OSError, ValueError) as error:  # its text may quote the file, so it is not passed on
            raise SourceError(
                f"{name} cannot be read: {type(error).__name__}.",
                remedy="Use a CSV file in UTF-8 with a header line, or a Parquet file.",
            ) from None
        return columns, _HEADER_NOTE if name.endswith(".csv") else _FOOTER_NOTE

    async def store(self, name: str, chunks: AsyncIterator[bytes]) -> None:
        """Writes a new file, completely or not at all. Never replaces an existing file."""
        path = self._path(name)
        if self.most_bytes == 0:
            raise Problem(
                409,
                "no_uploads",
                "This server does not accept uploads.",
                "Set limits.upload_bytes, or copy the file to the data folder.",
            )
        if path.exists():
            raise _already_exists(name)
        try:
            handle, draft = await run_sync(_new_draft, self._folder)
            try:
                await self._receive(chunks, handle)
                await run_sync(path.hardlink_to, draft)  # unlike a rename, a link replaces no file
                await run_sync(self._mark(name).write_text, str(path.stat().st_ino))
            finally:
                await run_sync(partial(draft.unlink, missing_ok=True))
        except FileExistsError:
            raise _already_exists(name) from None
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise BadRequest(
                f"The server cannot store the file: {reason}.",
                remedy="Give the server permission to write to its data folder.",
            ) from None

    async def _receive(self, chunks: AsyncIterator[bytes], handle: int) -> None:
        """Writes the chunks to an open file. Raises if they are too many, or empty."""
        received = 0
        with os.fdopen(handle, "wb") as stream:
            async for chunk in chunks:
                received += len(chunk)
                if received > self.most_bytes:
                    raise too_large()
                await run_sync(stream.write, chunk)
            await run_sync(stream.flush)
            await run_sync(os.fsync, stream.fileno())
        if received == 0:
            raise BadRequest("The file is empty.", remedy="Choose another one.")

    def remove(self, name: str, users: Sequence[str]) -> None:
        """Removes an uploaded file for good. `users` are the data sets that use it."""
        path = self._existing(name)
        if users:
            data_sets = "this data set" if len(users) == 1 else "each of these data sets"
            raise Problem(
                409,
                "file_in_use",
                f"{name} cannot be removed, because it contains the data of {', '.join(users)}.",
                f"The server's operator must first remove the schema file of {data_sets}. The ledger still "
                "keeps the spent budget.",
            )
        if not self._is_uploaded(name):
            raise Problem(
                409,
                "not_uploaded",
                f"{name} was not uploaded through this server, so you cannot remove it here.",
                "The server's operator can remove it from the data folder.",
            )
        self._mark(name).unlink()  # first: a file without a mark cannot be removed
        path.unlink()

    def _existing(self, name: str) -> Path:
        path = self._path(name)
        if not path.is_file() or path.is_symlink():
            raise not_found("data file")
        return path

    def _is_uploaded(self, name: str) -> bool:
        """Whether this is the uploaded file, not another file that now has its name."""
        try:
            return self._mark(name).read_text() == str((self._folder / name).stat().st_ino)
        except OSError:
            return False

    def _mark(self, name: str) -> Path:
        return self._folder / f".{name}.uploaded"

    def _path(self, name: str) -> Path:
        """The file's path inside the folder. The name has no separator and does not begin with a dot."""
        if _DATA_FILE_NAME.fullmatch(name) is None:
            raise BadRequest(
                "A data file's name may have only letters a to z, digits, _, - and ., and must end in .csv "
                "or .parquet.",
                remedy="Rename it.",
            )
        return self._folder / name


def _new_draft(folder: Path) -> tuple[int, Path]:
    handle, name = tempfile.mkstemp(dir=folder, prefix=".upload.", suffix=".draft")
    return handle, Path(name)


def _already_exists(name: str) -> Problem:
    return Problem(
        409, "file_exists", f"There is already a file {name}.", "Use that file, or choose another name."
    )
