"""The anchor file beside a ledger, and the guard that compares the two: it refuses charges on a ledger that
has lost records.

A charge is committed, then the anchor is written, then data are read. A crash in between can leave the anchor
behind the ledger, which is harmless, but never ahead of it.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa

from dpxplain.errors import LedgerBehind, LedgerUnavailable, SourceError
from dpxplain.ledger import OFF, audit
from dpxplain.ledger.balances import own_spent
from dpxplain.ledger.protocol import UNREADABLE
from dpxplain.ledger.tables import ENTRIES, LOG

# -- Durability --------------------------------------------------------------------------------------------


def sync_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Makes new names in the folder durable, if the system can."""
    with suppress(OSError):
        sync_file(folder)


def create_synced(file: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Creates the file, synced to disk. Raises FileExistsError if it exists; leaves no partial file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        file.unlink(missing_ok=True)
        raise


# -- Anchor file -------------------------------------------------------------------------------------------
#
# The file is outside of the ledger. After each charge it gets the log's last record and the amounts spent.
#
# After a header, each line is a JSON object that is appended and synced. A line that a crash has cut short is
# ignored. Processes that share a file lock it to write.

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
class AnchorContent:
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

    def read(self) -> AnchorContent | None:
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
            return AnchorContent(list(self._heads), self._entry, self._time, spent)

    def append(self, mark: Mark) -> None:
        """Writes and syncs a line, unless another process has already written its content."""
        self._write(lambda stream: self._append_to(stream, mark))

    def replace(self, mark: Mark, earlier: Sequence[Head] = (), *, last_read: Head | None) -> None:
        """Starts the file anew with the `earlier` heads and this mark; totals never fall.

        `last_read` is the last head when the caller read the file; None if it could not be read. If another
        process has written to the file since, the mark is only appended: otherwise that process's lines would
        be lost.
        """
        self._write(lambda stream: self._replace_in(stream, mark, earlier, last_read))

    def _write(self, change: Callable[[BinaryIO | None], None]) -> None:
        """Changes the file under its lock. Tries again if another process has just created it."""
        with self._lock:
            for _ in range(_MOST_TRIES):
                with _opened_exclusively(self.path) as stream, suppress(FileExistsError):
                    change(stream)
                    return
            raise OSError(errno.EEXIST, "a link or folder has this name")

    def _replace_in(
        self, stream: BinaryIO | None, mark: Mark, earlier: Sequence[Head], last_read: Head | None
    ) -> None:
        """Raises FileExistsError like `_append_to`."""
        try:
            if stream is not None:
                self._catch_up(stream)
        except AnchorDamaged:
            self._forget()
        if self._heads and self._heads[-1] != last_read:
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
        except UNREADABLE:
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
            create_synced(draft, text)
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


# -- Anchor guard ------------------------------------------------------------------------------------------

LOGGER = logging.getLogger("dpxplain.ledger")

_ANCHORED_ENTRY = sa.select(ENTRIES.c.id).where(ENTRIES.c.id == sa.bindparam("entry")).scalar_subquery()
_RECORD_AND_ENTRY = sa.select(LOG.c.hash, _ANCHORED_ENTRY.label("entry")).where(
    LOG.c.id == sa.bindparam("id")
)
_SPENT = (ENTRIES.c.id, ENTRIES.c.dataset, ENTRIES.c.analyst, ENTRIES.c.own_units)
_MOST_SINCE = 1_000
"""Above this number of new entries, only the newest entry of each analyst is read."""


def _entries_since() -> sa.Select[Any]:
    """The entries after a given one, each with the log's last record: one statement, one round trip."""
    last = audit.LAST_RECORD.subquery()
    with_head = sa.select(*_SPENT, last.c.id.label("records"), last.c.hash).join(last, sa.true())
    later = with_head.where(ENTRIES.c.id > sa.bindparam("entry")).order_by(ENTRIES.c.id)
    return later.limit(_MOST_SINCE + 1)


_SINCE = _entries_since()
_NEWEST_OF_LAST_ANALYST: sa.Select[Any] = (
    sa.select(*_SPENT)
    .order_by(ENTRIES.c.dataset.desc(), ENTRIES.c.analyst.desc(), ENTRIES.c.id.desc())
    .limit(1)
)
# Not as one comparison of pairs: SQLite would then read all entries of the previous analyst.
_ANALYST_BEFORE = _NEWEST_OF_LAST_ANALYST.where(
    ENTRIES.c.dataset == sa.bindparam("dataset"), ENTRIES.c.analyst < sa.bindparam("analyst")
)
_DATASET_BEFORE = _NEWEST_OF_LAST_ANALYST.where(ENTRIES.c.dataset < sa.bindparam("dataset"))


class AnchorGuard:
    """The anchor of one ledger: checked before each charge, and written after it."""

    def __init__(self, path: Path, name: str) -> None:
        self.file = AnchorFile(path)
        self._name = name
        self._logged: str | None = None
        self._unwritten: Mark | None = None

    def check(self, connection: sa.Connection) -> None:
        """Raises unless the ledger holds the anchored record and the anchor can be written.

        The transaction must hold the writers' lock, so that everything in the anchor is already committed.
        """
        problem = self.problem(connection)
        if problem is not None:
            self._log_once(problem)
            raise LedgerBehind.of()
        self.check_writable()
        self._logged = None
        unwritten = self._unwritten
        if unwritten is not None:
            # If the log has lost this charge, it was not measured, and a loss was declared for the others.
            if is_in_log(connection, unwritten.head):
                self._write(unwritten, "Nothing was charged.")
            self._unwritten = None

    def check_spent(self, dataset: str, analyst: str, spent: int, own: int) -> None:
        """Raises if the ledger shows less spent than the anchor.

        The log may be intact while the entries are not: if a SQLite file was overwritten in place, a process
        that has it open sees some old pages and some new ones.
        """
        anchor = self._read()
        totals = {} if anchor is None else anchor.spent.get(dataset, {})
        if spent < sum(totals.values()) or own < totals.get(analyst, 0):
            self._log_once(self._less_spent(dataset))
            raise LedgerBehind.of()

    def check_writable(self) -> None:
        """Raises if the file, or a new one in its folder, could not be written."""
        file = self.file.path
        if not (os.access(file.parent, os.W_OK) and (not file.exists() or os.access(file, os.W_OK))):
            self._log_once(f"the anchor file {file} cannot be written")
            raise _unwritable("Nothing was charged.")

    def problem(self, connection: sa.Connection, *, with_totals: bool = False) -> str | None:
        """Why nothing may be charged, for the curator; None if the ledger continues from its anchor.

        `with_totals` also compares each analyst's spending; for a charge, `check_spent` does this.

        The file must be read before the ledger's snapshot begins, or the snapshot could lack charges that the
        file has. So without the writers' lock, call this first in the transaction.
        """
        try:
            anchor = self.file.read()
        except (AnchorDamaged, OSError):
            return f"The anchor file {str(self.file.path)!r} cannot be read."
        if anchor is None:
            return None
        head = anchor.head
        record = connection.execute(
            _RECORD_AND_ENTRY, {"id": head.records, "entry": anchor.entry}
        ).one_or_none()
        if record is not None and record.hash == head.hash:
            if anchor.entry not in (0, record.entry):
                return (
                    f"{self._name} has lost entry {anchor.entry}, which is in its anchor. The file was "
                    "altered, or overwritten while it was open."
                )
            return self._lower_total(connection, anchor) if with_totals else None
        last, _ = audit.head(connection)
        written_at = f"its anchor was written at record {head.records} ({_minute(anchor.time)} UTC)"
        if last == 0:
            return f"{self._name} is empty, but {written_at}. It is not the ledger that was charged."
        if last < head.records:
            return f"{self._name} ends at record {last}, but {written_at}. An older copy was put back."
        return (
            f"{self._name} has a different record {head.records} than its anchor ({_minute(anchor.time)} "
            "UTC). It continued from an older copy, was rewritten, or is a different ledger."
        )

    def _lower_total(self, connection: sa.Connection, anchor: AnchorContent) -> str | None:
        for dataset, totals in sorted(anchor.spent.items()):
            if any(own_spent(connection, dataset, analyst) < units for analyst, units in totals.items()):
                return self._less_spent(dataset)
        return None

    def _less_spent(self, dataset: str) -> str:
        return (
            f"{self._name} shows less spent on {dataset!r} than its anchor. The file was altered, or "
            "overwritten while it was open."
        )

    def check_not_empty(self, connection: sa.Connection) -> None:
        """Raises if the ledger is empty but its anchor is not. Any other problem is only logged."""
        problem = self.problem(connection)
        if problem is None:
            return
        if audit.head(connection)[0] == 0:
            raise SourceError(problem, remedy=REMEDY)
        LOGGER.error("new queries are blocked: %s", problem)
        self._logged = problem

    def mark(self, connection: sa.Connection) -> Mark | None:
        """The mark to write to the anchor now; None if the log has no new record."""
        anchor = self._read()
        if anchor is None:
            return full_mark(connection)
        rows = connection.execute(_SINCE, {"entry": anchor.entry}).all()
        if not rows:
            last = Head(*audit.head(connection))
            if last.records <= anchor.head.records:
                return None
            return Mark(last, anchor.entry, audit.now(), {})
        if len(rows) > _MOST_SINCE:
            return full_mark(connection)
        spent: dict[str, dict[str, int]] = {}
        for row in rows:
            spent.setdefault(row.dataset, {})[row.analyst] = row.own_units
        return Mark(Head(rows[-1].records, rows[-1].hash), rows[-1].id, audit.now(), spent)

    def mark_of_change(self, connection: sa.Connection) -> Mark | None:
        """Like `mark`, after a change that is not a charge; None without a readable anchor.

        Also None if the ledger is behind its anchor: the ledger may change, but the anchor must not.
        """
        if self.readable() is None or self.problem(connection) is not None:
            return None
        return self.mark(connection)

    def keep(self, mark: Mark | None) -> None:
        """Writes the mark. Call it after its charge is committed and before anything is measured for it."""
        if mark is None:
            return
        try:
            self._write(mark, "The charge stays.")
        except LedgerUnavailable:
            self._unwritten = mark  # the next charge must write it first
            raise

    def readable(self) -> AnchorContent | None:
        """The anchor's content; None if the anchor does not exist or cannot be read."""
        try:
            return self.file.read()
        except (AnchorDamaged, OSError):
            return None

    def renew(self, mark: Mark, earlier: Sequence[Head], read: AnchorContent | None) -> None:
        """Starts the anchor anew with the `earlier` heads and this mark, after the curator declared a loss.

        `read` is the anchor for which the loss was declared. Lines written to it since then are kept.
        """
        try:
            self.file.replace(mark, earlier, last_read=None if read is None else read.head)
        except (OSError, AnchorDamaged):
            raise _unwritable("The loss was charged. Declare it again to write the anchor.") from None
        self._logged = self._unwritten = None

    def _log_once(self, problem: str) -> None:
        """Logs a problem unless it was the last one logged, so that many refusals do not fill the log."""
        if problem != self._logged:
            LOGGER.error("new queries are blocked: %s", problem)
        self._logged = problem

    def _write(self, mark: Mark, consequence: str) -> None:
        try:
            self.file.append(mark)
        except (OSError, AnchorDamaged):
            LOGGER.error("the anchor file %s cannot be written", self.file.path)
            raise _unwritable(consequence) from None

    def _read(self) -> AnchorContent | None:
        """The anchor's content. Raises, so that nothing is charged, if it cannot be read."""
        try:
            return self.file.read()
        except (AnchorDamaged, OSError):
            raise LedgerBehind.of() from None


def anchor_path(ledger: Path | None, anchor: str | Path | None) -> Path | None:
    """The anchor file: as named, or beside a SQLite ledger; None if there is none.

    Symbolic links are followed, so that a ledger has the same anchor under every name.

    >>> print(anchor_path(Path("/srv/ledger.sqlite"), None), anchor_path(Path("/srv/ledger.sqlite"), "off"))
    /srv/ledger.anchor None
    """
    if anchor == OFF:
        return None
    if anchor is not None:
        return Path(anchor).resolve()
    if ledger is None:
        return None
    file = ledger.resolve()
    return file.with_name(f"{file.name.removesuffix('.sqlite')}.anchor").resolve()


def check_not_gone(ledger: Path, anchor: Path) -> None:
    """Raises if the anchor shows that a charged ledger was here, so that no new ledger is created."""
    if ledger.exists():
        return
    try:
        content = AnchorFile(anchor).read()
    except NotADirectoryError:
        return  # the folder is a file, so there is neither ledger nor anchor
    except (AnchorDamaged, OSError):
        raise SourceError(
            f"The ledger {str(ledger)!r} is gone, and its anchor {str(anchor)!r} cannot be read.",
            remedy=REMEDY,
        ) from None
    if content is not None:
        raise SourceError(
            f"The ledger {str(ledger)!r} is gone, but its anchor was written at record "
            f"{content.head.records} ({_minute(content.time)} UTC).",
            remedy=REMEDY,
        )


REMEDY = (
    "Restore the newest backup (dpxplain ledger restore). If there is none, charge the lost amount: dpxplain "
    "ledger declare-loss"
)


def is_in_log(connection: sa.Connection, head: Head) -> bool:
    """Whether the log has this record."""
    return audit.record_hash(connection, head.records) == head.hash


def full_mark(connection: sa.Connection) -> Mark | None:
    """A mark with the totals of everyone; None if the log is empty."""
    last = Head(*audit.head(connection))
    if last.records == 0:
        return None
    spent: dict[str, dict[str, int]] = {}
    newest = 0
    for row in _newest_of_each_analyst(connection):
        spent.setdefault(row.dataset, {})[row.analyst] = row.own_units
        newest = max(newest, row.id)
    return Mark(last, newest, audit.now(), spent)


def _newest_of_each_analyst(connection: sa.Connection) -> Iterator[sa.Row[Any]]:
    """The newest entry of each analyst, from the last name to the first, each by one step of an index."""
    row = connection.execute(_NEWEST_OF_LAST_ANALYST).one_or_none()
    while row is not None:
        yield row
        analyst = {"dataset": row.dataset, "analyst": row.analyst}
        row = (
            connection.execute(_ANALYST_BEFORE, analyst).one_or_none()
            or connection.execute(_DATASET_BEFORE, {"dataset": row.dataset}).one_or_none()
        )


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _unwritable(consequence: str) -> LedgerUnavailable:
    return LedgerUnavailable(
        f"The ledger's anchor cannot be written, so new queries are blocked. {consequence}",
        remedy="Only the curator can fix this: check the disk and the permissions of the file that the "
        "server's log names.",
        kind="disk",
    )
