"""The anchor file, outside of the ledger: the log's last record and the amounts spent, after each charge.

After a header, each line is a JSON object that is appended and synced. A line that a crash has cut short is
ignored. Processes that share a file lock it to write.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dpxplain.ledger.file_sync import sync_folder

try:
    import fcntl
except ImportError:  # Windows: there one process at a time can use an anchor
    fcntl = None  # type: ignore[assignment]

_FORMAT = "dpxplain-heads-1"
LOCK_SECONDS = 10.0
"""How long to wait for another process that writes the file."""
_SECONDS_BETWEEN_TRIES = 0.002
_MOST_TRIES = 20
"""Attempts to create the file while other processes create and remove it, or a broken link has its name."""
_BYTES_BEFORE_COMPACTION = 1_000_000
_NEWEST_HEADS = 2_000
"""The newest heads, all of which a compaction keeps. It drops every second one of the older heads."""

Totals = Mapping[str, Mapping[str, int]]
"""The amount that each analyst spent on each data set, in the ledger's units: totals[dataset][analyst]."""


class AnchorDamaged(Exception):
    """The file has a line that the ledger cannot have written."""


@dataclass(frozen=True)
class Head:
    """The last record of a log: its number and its hash."""

    records: int
    hash: str


@dataclass(frozen=True)
class Mark:
    """One line: the log's last record, its newest entry, and the totals that changed since the last line."""

    head: Head
    entry: int
    time: str
    spent: Totals


@dataclass(frozen=True)
class KeptAnchor:
    """The content of the whole file."""

    heads: list[Head]
    """Oldest first; the log must have reached the last one."""
    entry: int
    time: str
    spent: Totals

    @property
    def head(self) -> Head:
        return self.heads[-1]


class AnchorFile:
    """One anchor file. Remembers what it has read, so a charge reads only the new lines."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._lock = threading.Lock()
        self._compact_at = _BYTES_BEFORE_COMPACTION
        self._forget()

    def read(self) -> KeptAnchor | None:
        """The file's content; its content when last read, if it is gone; None if there never was a file."""
        with self._lock:
            try:
                with self.path.open("rb") as stream:
                    self._catch_up(stream)
            except FileNotFoundError:
                pass
            if not self._heads:
                return None
            # Copies, because other threads may read and write the file while the caller compares.
            spent = {dataset: dict(totals) for dataset, totals in self._spent.items()}
            return KeptAnchor(list(self._heads), self._entry, self._time, spent)

    def append(self, mark: Mark) -> None:
        """Writes and syncs a line, unless another process has already written its content."""
        self._write(lambda stream: self._append_to(stream, mark))

    def replace(self, mark: Mark, earlier: Sequence[Head] = (), *, seen: Head | None) -> None:
        """Starts the file anew with the `earlier` heads and this mark; totals never fall.

        `seen` is the last head when the caller read the file; None if it could not be read. If another
        process has written to the file since, the mark is only appended: otherwise that process's lines would
        be lost.
        """
        self._write(lambda stream: self._replace_in(stream, mark, earlier, seen))

    def _write(self, change: Callable[[BinaryIO | None], None]) -> None:
        """Changes the file under its lock. Tries again if another process has just created it."""
        with self._lock:
            for _ in range(_MOST_TRIES):
                with _opened_exclusively(self.path) as stream, suppress(FileExistsError):
                    change(stream)
                    return
            raise OSError(errno.EEXIST, "a link or folder has this name")

    def _replace_in(
        self, stream: BinaryIO | None, mark: Mark, earlier: Sequence[Head], seen: Head | None
    ) -> None:
        """Raises FileExistsError like `_append_to`."""
        try:
            if stream is not None:
                self._catch_up(stream)
        except AnchorDamaged:
            self._forget()
        if self._heads and self._heads[-1] != seen:
            self._append_to(stream, mark)
            return
        self._heads[:] = earlier
        self._add(_line_of(mark))
        try:
            self._rewrite(is_new=stream is None)
        except BaseException:
            self._forget()
            raise

    def _append_to(self, stream: BinaryIO | None, mark: Mark) -> None:
        """Raises FileExistsError if the file was missing and another process has just created it."""
        if stream is not None:
            self._catch_up(stream)
        if self._heads and mark.head.records <= self._heads[-1].records:
            # The totals are usually known, but may be new if a restore removed the charge before its mark
            # came.
            mark = Mark(self._heads[-1], self._entry, self._time, mark.spent)
        is_known = bool(self._heads) and mark.head == self._heads[-1] and self._has_totals(mark.spent)
        if is_known and stream is not None:
            return
        try:
            is_short = stream is None or os.fstat(stream.fileno()).st_size < self._offset
            if stream is None or is_short or self._offset > self._compact_at:
                if not is_known:
                    self._add(_line_of(mark))
                self._rewrite(is_new=stream is None)
            else:
                line = _encoded(_line_of(mark))
                _write_at(stream, self._offset, line)
                self._add(_line_of(mark))
                self._offset += len(line)
        except BaseException:
            self._forget()  # nobody knows what was written, so the file is read anew
            raise

    def _has_totals(self, spent: Totals) -> bool:
        return all(
            units <= self._spent.get(dataset, {}).get(analyst, 0)
            for dataset, analysts in spent.items()
            for analyst, units in analysts.items()
        )

    def _forget(self) -> None:
        self._id = ""
        self._offset = 0
        self._heads: list[Head] = []
        self._spent: dict[str, dict[str, int]] = {}
        self._entry = 0
        self._time = ""

    def _catch_up(self, stream: BinaryIO) -> None:
        """Reads the lines that were added since the last read; all lines if the file was written anew."""
        stream.seek(0)
        header = stream.readline()
        if not header.endswith(b"\n"):
            if self._heads:
                return  # the file was emptied since it was read; its earlier content still counts
            raise AnchorDamaged  # a file is created with its header and first line at once
        try:
            fields = json.loads(header)
            if fields["format"] != _FORMAT:
                raise AnchorDamaged
            if fields["id"] != self._id:
                self._forget()
                self._id, self._offset = fields["id"], len(header)
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                self._add(json.loads(line))
                self._offset += len(line)
            if not self._heads:
                raise AnchorDamaged
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise AnchorDamaged from None

    def _add(self, line: Mapping[str, Any]) -> None:
        heads = [Head(int(records), str(hash)) for records, hash in line.get("earlier", [])]
        heads.append(Head(int(line["records"]), str(line["head"])))
        entry, moment = int(line["entry"]), str(line["time"])
        for dataset, analysts in line["spent"].items():
            totals = self._spent.setdefault(dataset, {})
            for analyst, units in analysts.items():  # an altered ledger may report less than before
                totals[analyst] = max(totals.get(analyst, 0), int(units))
        self._heads += heads
        self._entry, self._time = entry, moment

    def _rewrite(self, *, is_new: bool = False) -> None:
        """Replaces the file with a short one that has the same content, except for some of the older heads.

        If `is_new`, raises FileExistsError if another process has created the file meanwhile.
        """
        self._heads = self._heads[:-_NEWEST_HEADS][::2] + self._heads[-_NEWEST_HEADS:]
        id = secrets.token_hex(8)
        summary = {
            "earlier": [(head.records, head.hash) for head in self._heads[:-1]],
            **_line_of(Mark(self._heads[-1], self._entry, self._time, self._spent)),
        }
        text = _encoded({"format": _FORMAT, "id": id}) + _encoded(summary)
        draft = self.path.with_name(f".{self.path.name}.{id}")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            if is_new:
                _link(draft, self.path)
            else:
                draft.replace(self.path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync_folder(self.path.parent)
        self._id, self._offset = id, len(text)
        self._compact_at = _BYTES_BEFORE_COMPACTION + 2 * len(text)


def is_anchor_file(path: Path) -> bool:
    """Whether the file begins like an anchor file. A curator's signed anchor does not."""
    try:
        with path.open("rb") as stream:
            return stream.readline(200).startswith(_encoded({"format": _FORMAT})[:-2])
    except OSError:
        return False


@contextmanager
def _opened_exclusively(path: Path) -> Iterator[BinaryIO | None]:
    """The file while no other process writes it; None if it is missing."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            yield None
            return
        with open(descriptor, "r+b") as stream:
            _lock(stream, deadline)
            if _is_at(stream, path):  # otherwise another process has just replaced it
                yield stream
                return


def _lock(stream: BinaryIO, deadline: float) -> None:
    """Waits for other writers until the deadline: the process that holds the lock may hang."""
    while fcntl is not None:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError(errno.ETIMEDOUT, "another process has locked the anchor file") from None
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _link(draft: Path, path: Path) -> None:
    """Gives the draft its name, unless a file has it. On systems without hard links, replaces that file."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        draft.replace(path)
    else:
        draft.unlink()


def _write_at(stream: BinaryIO, offset: int, line: bytes) -> None:
    """Writes and syncs a line at `offset`. Replaces all that follows: a line that was cut short, if any."""
    descriptor = stream.fileno()  # bypasses the buffer of `stream`, which could write again when closed
    os.ftruncate(descriptor, offset)
    try:
        os.lseek(descriptor, offset, os.SEEK_SET)
        if os.write(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, "only part of the line was written")
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, offset)  # a line that may not be on the disk must not be read
        raise


def _is_at(stream: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _line_of(mark: Mark) -> dict[str, Any]:
    return {
        "records": mark.head.records,
        "head": mark.head.hash,
        "entry": mark.entry,
        "time": mark.time,
        "spent": mark.spent,
    }


def _encoded(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
