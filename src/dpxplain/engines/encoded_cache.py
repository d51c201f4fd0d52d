"""The encoded table on disk, so that an unchanged file opens without being encoded again.

Only where the curator's schema says `[table] cache = true`: the file holds every row's codes and numbers. It
is readable by its owner alone, and is ignored and written anew unless its digest fits the source as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dpxplain.engines.source_files import file_states, settled_state
from dpxplain.model.schema import Schema
from dpxplain.sql.render import ENCODED

_FORMAT = 1  # raise it when sources are read differently; how they are encoded is part of the key
_DIGEST = hashlib.sha256().digest_size
_TEMPORARY = ".part"


def cache_file(folder: Path, schema: Schema) -> Path:
    """Where the encoded table of a data set is kept: one file, whichever source it had last."""
    return folder / f"{hashlib.sha256(schema.table.name.encode()).hexdigest()[:32]}.encoded"


def discard(file: Path) -> None:
    """Deletes a cached table, and what writing it may have left behind."""
    _delete_abandoned(file)
    file.unlink(missing_ok=True)


@dataclass(frozen=True)
class EncodedCache:
    """The cached table of one source under one schema."""

    file: Path
    source: str  # a path or a glob
    schema: Schema
    encoding: str  # SQL of the encoded rows

    def load(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Creates the encoded table from the cache, if the cache is whole and the source is unchanged."""
        import pyarrow as pa
        from pyarrow import parquet

        if not _is_private(self.file.parent):
            return False
        _delete_abandoned(self.file)
        try:
            content = memoryview(self.file.read_bytes())
            if bytes(content[:_DIGEST]) != self._digest(_identity(self.source), content[_DIGEST:]):
                return False
            rows = parquet.read_table(pa.BufferReader(content[_DIGEST:]))
        except (OSError, pa.ArrowException):
            return False
        connection.register("cached", rows)
        connection.execute(f"CREATE TABLE {ENCODED} AS SELECT * FROM cached")
        connection.unregister("cached")
        return True

    def store(self, connection: duckdb.DuckDBPyConnection, before: str | None) -> None:
        """Writes the encoded table, unless the source changed since its identity was taken `before`."""
        import pyarrow as pa
        from pyarrow import parquet

        identity = _identity(self.source)
        if before is None or identity != before:
            return
        content = pa.BufferOutputStream()
        parquet.write_table(connection.sql(f"SELECT * FROM {ENCODED}").to_arrow_table(), content)
        payload = memoryview(content.getvalue())
        temporary = self.file.with_suffix(f".{os.getpid()}.{time.monotonic_ns()}{_TEMPORARY}")
        with contextlib.suppress(OSError):  # without a cache the next session only opens more slowly
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(self.file.parent):
                return
            try:
                opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(opened, "wb") as file:
                    file.write(self._digest(identity, payload))
                    file.write(payload)
                os.replace(temporary, self.file)
            finally:
                temporary.unlink(missing_ok=True)

    def identity(self) -> str | None:
        """What the source is like now; None if it has been changed too recently to tell a change."""
        return _identity(self.source)

    def _digest(self, identity: str | None, payload: memoryview) -> bytes:
        """Of the key and the content together: it fails for a damaged file and for another source alike."""
        key = [_FORMAT, duckdb.__version__, self.schema.fingerprint(), self.encoding, identity]
        return hashlib.sha256(json.dumps(key).encode() + b"\0" + payload).digest()


def _is_private(folder: Path) -> bool:
    """Whether the folder belongs to this user, who alone may enter it: others could swap what is cached."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    if os.name != "posix":  # no owners and modes to look at
        return True
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077


def _delete_abandoned(file: Path) -> None:
    """Deletes temporary files of processes that ended before they could rename or delete them."""
    for temporary in file.parent.glob(f"{file.stem}.*{_TEMPORARY}"):
        with contextlib.suppress(OSError, ValueError):
            if not _is_running(int(temporary.name.split(".")[1])):
                temporary.unlink()


def _is_running(process: int) -> bool:
    if os.name != "posix":  # there, the call would end the process
        return True
    try:
        os.kill(process, 0)  # signal 0 only asks
    except (ProcessLookupError, PermissionError):  # somebody else's has taken over the number
        return False
    return True


def _identity(source: str) -> str | None:
    """What the source's files are like now; None if one changed just now."""
    return settled_state(file_states([source]))
