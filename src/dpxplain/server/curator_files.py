"""The files of data sets at a server: schemas, read from the TOML text that a curator sent, and data files
beside them.

A schema may point only at allowed files and databases. For a data file only names and types are shown, never
a value: a Parquet file declares both, a CSV file has only names, in its first line. A file is written under a
new plain name inside one folder, completely or not at all. A hidden mark beside it says that a curator
uploaded it; only such a file can be removed through the server.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import tomllib
from collections.abc import AsyncIterator, Hashable, Sequence
from pathlib import Path

from anyio.to_thread import run_sync
from typing_extensions import TypedDict

from dpxplain.engines.file_formats import declared_columns
from dpxplain.engines.opening import database_identities, is_listed
from dpxplain.engines.source_kinds import find_files
from dpxplain.errors import BadRequest, SchemaError, SourceError
from dpxplain.model.joined_schema import all_parts
from dpxplain.model.schema import Schema, is_database
from dpxplain.server.problems import Problem, not_found, too_large

_MOST_DEPTH, _MOST_TABLES = 32, 5_000
_NOT_PART_OF_KEYS = str.maketrans("", "", " \t\"'")
_SCHEMA_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_WORD = re.compile(r"[\w.-]+")
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
            place=_place(text, position),
        ) from None
    schema = Schema.load(raw)
    check_source(schema)
    return schema


def _place(text: str, position: re.Match[str] | None) -> tuple[int, int]:
    """The line and column where tomllib stopped; the end of the text if it names none."""
    if position is not None and position[2]:
        return int(position[2]), int(position[3])
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _check_toml_size(text: str) -> None:
    """Raises if tomllib would be slow: its time grows with the square of the depth and number of tables."""
    squeezed = text.translate(_NOT_PART_OF_KEYS)
    deep = any(sum(map(bool, word.split("."))) > _MOST_DEPTH for word in _WORD.findall(squeezed))
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
            raise _exists(name)
        draft = self._folder  # a placeholder until there is a draft
        try:
            handle, draft = await run_sync(_new_draft, self._folder)
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
            await run_sync(lambda: os.link(draft, path))  # unlike a rename, a link replaces no file
            await run_sync(self._mark(name).write_text, str(path.stat().st_ino))
        except FileExistsError:
            raise _exists(name) from None
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise BadRequest(
                f"The server cannot store the file: {reason}.",
                remedy="Give the server permission to write to its data folder.",
            ) from None
        finally:
            if draft != self._folder:
                await run_sync(lambda: draft.unlink(missing_ok=True))

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


def _exists(name: str) -> Problem:
    return Problem(
        409, "file_exists", f"There is already a file {name}.", "Use that file, or choose another name."
    )
