"""Data files beside the schemas: which there are, how their columns are called, and new ones from a curator.

Only names and types are told, never a value: a Parquet file declares both, a CSV file has names alone, in its
first line. A file is written under a new plain name inside the one folder, whole or not at all, and a hidden
mark beside it says that it came from a curator: no other file can be removed from afar.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from anyio.to_thread import run_sync
from typing_extensions import TypedDict

from dpxplain.engines.file_formats import declared_columns
from dpxplain.errors import BadRequest, SourceError
from dpxplain.server.problems import Problem, not_found, too_large

MOST_LISTED = 500
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.(?:csv|parquet)")
_HEADER_NOTE = "Only the first line was read, which must name the columns; a CSV file does not tell types."
_FOOTER_NOTE = "Names and types are those that the file declares; none of its values was read."


class DataFileLine(TypedDict):
    """`source` is how a schema names the file; an `uploaded` one can be removed."""

    name: str
    source: str
    uploaded: bool


class DataFileList(TypedDict):
    """`most_bytes` is what one upload may have; 0: none is taken."""

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
    """The folder where a server keeps data; `most_bytes` is what one upload may have."""

    def __init__(self, folder: Path, schemas: Path, most_bytes: int) -> None:
        self._folder = folder
        self._schemas = schemas
        self.most_bytes = most_bytes

    def names(self) -> list[str]:
        """Files that a schema could name, without those in folders of their own."""
        found = sorted(path.name for path in self._folder.iterdir() if _NAME.fullmatch(path.name))
        return [name for name in found if (self._folder / name).is_file()][:MOST_LISTED]

    def line(self, name: str) -> DataFileLine:
        """Its source as a new schema names it: relative to the folder of schemas."""
        source = Path(os.path.relpath(self._folder / name, self._schemas)).as_posix()
        return DataFileLine(name=name, source=source, uploaded=self._is_uploaded(name))

    def identity(self, name: str) -> tuple[int, int]:
        """Device and inode of a file that is there, as `allowed_sources.identities` has them."""
        status = self._existing(name).stat()
        return status.st_dev, status.st_ino

    def columns(self, name: str) -> tuple[list[tuple[str, str]], str]:
        """Names and types, and how they were found."""
        path = self._existing(name)
        try:
            columns = declared_columns(str(path))
        except (OSError, ValueError) as error:  # never its text, which may quote the file
            raise SourceError(
                f"{name} cannot be read: {type(error).__name__}.",
                remedy="Give a CSV file in UTF-8 with a header line, or a Parquet file.",
            ) from None
        return columns, _HEADER_NOTE if name.endswith(".csv") else _FOOTER_NOTE

    async def store(self, name: str, chunks: AsyncIterator[bytes]) -> None:
        """Writes a new file, whole or not at all; one that is there is never replaced."""
        path = self._path(name)
        if self.most_bytes == 0:
            raise Problem(
                409,
                "no_uploads",
                "This server takes no uploads.",
                "Set limits.upload_bytes, or copy the file.",
            )
        if path.exists():
            raise _exists(name)
        draft = self._folder
        try:
            handle, draft = await run_sync(_new_draft, self._folder)
            received = 0
            with os.fdopen(handle, "wb") as opened:
                async for chunk in chunks:
                    received += len(chunk)
                    if received > self.most_bytes:
                        raise too_large()
                    await run_sync(opened.write, chunk)
                await run_sync(opened.flush)
                await run_sync(os.fsync, opened.fileno())
            if received == 0:
                raise BadRequest("The file is empty.", remedy="Choose another one.")
            await run_sync(lambda: os.link(draft, path))  # unlike a rename, it replaces nothing
            await run_sync(self._mark(name).write_text, str(path.stat().st_ino))
        except FileExistsError:
            raise _exists(name) from None
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
            raise BadRequest(
                f"The file cannot be kept: {reason}.", remedy="Let the server write to its data folder."
            ) from None
        finally:
            if draft != self._folder:
                await run_sync(lambda: draft.unlink(missing_ok=True))

    def remove(self, name: str, users: Sequence[str]) -> None:
        """Removes an uploaded file for good; `users` are the data sets that are declared on it."""
        path = self._existing(name)
        if users:
            raise Problem(
                409,
                "file_in_use",
                f"{name} holds the data of {', '.join(users)}.",
                "Whoever runs the server removes the schema file first; what was spent stays recorded.",
            )
        if not self._is_uploaded(name):
            raise Problem(
                409,
                "not_uploaded",
                f"{name} was not uploaded here.",
                "Whoever runs the server may remove it from its data folder.",
            )
        self._mark(name).unlink()  # first: a file without its mark is one that is left alone
        path.unlink()

    def _existing(self, name: str) -> Path:
        path = self._path(name)
        if not path.is_file() or path.is_symlink():
            raise not_found("data file")
        return path

    def _is_uploaded(self, name: str) -> bool:
        """Whether the file is the very one that was uploaded, and not one that took its name since."""
        try:
            return self._mark(name).read_text() == str((self._folder / name).stat().st_ino)
        except OSError:
            return False

    def _mark(self, name: str) -> Path:
        return self._folder / f".{name}.uploaded"

    def _path(self, name: str) -> Path:
        """Inside the folder: the name has no separator and does not begin with a dot."""
        if _NAME.fullmatch(name) is None:
            raise BadRequest(
                "A data file's name has plain letters, digits, _, - and ., and ends in .csv or .parquet.",
                remedy="Rename it.",
            )
        return self._folder / name


def _new_draft(folder: Path) -> tuple[int, Path]:
    handle, name = tempfile.mkstemp(dir=folder, prefix=".upload.", suffix=".draft")
    return handle, Path(name)


def _exists(name: str) -> Problem:
    return Problem(409, "file_exists", f"There is a file {name} already.", "Choose it, or give another name.")
