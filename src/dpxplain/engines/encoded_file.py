"""Encoded rows in a DuckDB file of their own: for one session, or kept so that the next one opens faster.

Only where the curator's schema says `[table] storage = "file"` or `cache = true`: the file holds every row's
codes and numbers. It is readable by its owner alone. A kept one is used only if the digest that it is named
by fits its content, the declarations and the source as it is; otherwise it is written anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dpxplain.engines.source_files import file_states, settled_state
from dpxplain.errors import SourceError
from dpxplain.model.schema import Schema

STORE = "store"
"""The name under which DuckDB knows the attached file."""
_FORMAT = 2  # raise it when sources are read differently; how they are encoded is part of the key
_KEPT = ".encoded"
_PART = ".part"
_SPILL = ".spill"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class EncodedFile:
    """The encoded rows of one source under one schema."""

    folder: Path
    schema: Schema
    encoding: str  # SQL of the encoded rows
    source: str | None  # the path or glob that a kept file belongs to; None if it is not to be kept

    def attach(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Attaches the kept file, if it is whole and the source is unchanged."""
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
    def written(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Attaches a new file for the block to write; afterwards it is attached for reading only.

        Without `source`, or if that changed meanwhile, the file loses its name at once where the system
        allows it: its rows are gone with the process, however that ends.
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
            for left in (part, part.with_name(f"{part.name}.wal")):
                with contextlib.suppress(
                    OSError
                ):  # where open files cannot be deleted, the next session does
                    left.unlink(missing_ok=True)

    def _keep(self, part: Path, before: str | None) -> Path:
        identity = self.identity()
        if before is None or identity != before:
            return part
        kept = self.folder / self._name(part, identity)
        for stale in _kept_files(self.folder, self.schema):
            stale.unlink(missing_ok=True)
        os.replace(part, kept)
        return kept

    def identity(self) -> str | None:
        """What the source's files are like now; None if one changed just now, or if nothing is to be kept."""
        return None if self.source is None else settled_state(file_states([self.source]))

    def _name(self, file: Path, identity: str | None) -> str:
        """By a digest of key and content: it differs for a damaged file and for another source alike."""
        key = [_FORMAT, duckdb.__version__, self.schema.fingerprint(), self.encoding, identity]
        digest = hashlib.sha256(json.dumps(key).encode() + b"\0")
        with open(file, "rb") as content:
            for chunk in iter(lambda: content.read(_CHUNK), b""):
                digest.update(chunk)
        return f"{_stem(self.schema)}.{digest.hexdigest()}{_KEPT}"


def private_folder(folder: Path) -> Path:
    """Makes the folder, which its owner alone may enter; refuses one of others, who could swap its files."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(folder):
        raise SourceError(
            f"Encoded rows cannot be written to {folder}.",
            remedy="It has to be a folder that you own and that nobody else may enter (chmod 700).",
        )
    return folder


def temporary_folder() -> Path:
    """This user's own folder among the system's temporary files."""
    user = os.getuid() if os.name == "posix" else "user"
    return Path(tempfile.gettempdir()) / f"dpxplain-{user}"


@contextlib.contextmanager
def spill_folder(folder: Path, schema: Schema) -> Iterator[Path]:
    """A private folder for what does not fit into memory while the block runs; deleted afterwards."""
    spill = private_folder(folder) / f"{_stem(schema)}.{_unique()}{_SPILL}"
    spill.mkdir(mode=0o700)
    try:
        yield spill
    finally:
        shutil.rmtree(spill, ignore_errors=True)


def discard(folder: Path, schema: Schema) -> None:
    """Deletes the kept file of a data set, and what writing it may have left behind."""
    delete_abandoned(folder, schema)
    for file in _kept_files(folder, schema):
        file.unlink(missing_ok=True)


def delete_abandoned(folder: Path, schema: Schema) -> None:
    """Deletes temporary files of processes that ended before they could rename or delete them."""
    for left in folder.glob(f"{_stem(schema)}.*"):
        if not any(suffix in left.name for suffix in (_PART, _SPILL)):
            continue
        with contextlib.suppress(OSError, ValueError):
            if not _is_running(int(left.name.split(".")[1])):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _stem(schema: Schema) -> str:
    return hashlib.sha256(schema.table.name.encode()).hexdigest()[:32]


def _unique() -> str:
    return f"{os.getpid()}.{time.monotonic_ns()}"


def _kept_files(folder: Path, schema: Schema) -> list[Path]:
    return list(folder.glob(f"{_stem(schema)}*{_KEPT}"))


def _attach(connection: duckdb.DuckDBPyConnection, file: Path, mode: str) -> None:
    path = str(file).replace("'", "''")
    connection.execute(f"ATTACH '{path}' AS {STORE} ({mode})")


def _is_private(folder: Path) -> bool:
    """Whether the folder belongs to this user, who alone may enter it."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    if os.name != "posix":  # no owners and modes to look at
        return True
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


def _is_running(process: int) -> bool:
    if os.name != "posix":  # there, the call would end the process
        return True
    try:
        os.kill(process, 0)  # signal 0 only asks
    except (ProcessLookupError, PermissionError):  # somebody else's has taken over the number
        return False
    return True
