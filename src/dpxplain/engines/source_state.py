"""The state of an engine's source, of any kind: a digest of the content read, and whether it changed since.

Files are read again only if size and times cannot tell. For a table in a database the curator names the
state in `table.version`, because no cheap and certain test shows that a live table's rows are unchanged
(ADR 20 and 28). Several private tables of a data set are one source, whose version covers all of them.
Otherwise a change of one table would go unnoticed until that table is joined.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from dpxplain.engines.engine import DataSource, Engine, Recognised
from dpxplain.engines.source_kinds import file_and_table, find_files
from dpxplain.errors import DataChanged, DPXPlainError, SchemaError, SourceError
from dpxplain.model.confidential import ContentDigest
from dpxplain.model.schema import Schema

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


@contextmanager
def quiet(
    replacement: DPXPlainError, only: type[Exception] | tuple[type[Exception], ...] = Exception
) -> Iterator[None]:
    """Replaces an error of a driver, whose text may quote data or secrets, with one that quotes nothing."""
    try:
        yield
    except DPXPlainError:
        raise
    except only:  # the source's own code may raise anything, and quote values
        failed = True
    else:
        failed = False
    if failed:
        try:
            raise replacement
        finally:
            # Inside a `with`, Python attaches the original error even here, and a traceback would print it.
            replacement.__context__ = None


class WithoutState:
    """The part of a source whose content was copied, or is declared, so that no change can be noticed."""

    def state(self) -> None:
        return None

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        return False

    def present_state(self) -> None:
        return None


class LiveTable(WithoutState):
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

    def digest(self) -> ContentDigest:
        """The digest of the declared version and the table's place, not of its rows."""
        return self._digest


class PrivateSources:
    """Several private tables as one source."""

    def __init__(self, sources: Mapping[str, DataSource]) -> None:
        """`sources` maps each table's name to its source. Their order counts in the digest."""
        self.sources = dict(sources)

    def check_readable(self) -> None:
        for source in self.sources.values():
            source.check_readable()

    def state(self) -> str | None:
        return _together([source.state() for source in self.sources.values()])

    def digest(self) -> ContentDigest | None:
        return self._digest({})

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        return any(self._is_replaced(name, fits) for name in self.sources)

    def present_state(self) -> str | None:
        return _together([source.present_state() for source in self.sources.values()])

    def check_same(self, engine: Engine, dataset: str) -> None:
        """Raises if the engine has read other content of these tables than this source has."""
        joined = engine.source
        if not isinstance(joined, PrivateSources):
            return  # a live table: the schema declares its version
        for name, source in joined.sources.items():
            if source.digest() is None or source.digest() != self.sources[name].digest():
                raise DataChanged.of(dataset, charged=True)

    def _is_replaced(self, name: str, fits: Callable[[ContentDigest], bool]) -> bool:
        def all_fit(digest: ContentDigest) -> bool:
            digest_of_all = self._digest({name: digest})
            return digest_of_all is not None and fits(digest_of_all)

        return self.sources[name].is_replaced(all_fit)

    def _digest(self, known: Mapping[str, ContentDigest]) -> ContentDigest | None:
        """The digest of all tables, in their order; None if one table has changed meanwhile."""
        digests = [known.get(name) or source.digest() for name, source in self.sources.items()]
        known_digests = [digest for digest in digests if digest is not None]
        return ContentDigest.of_all(known_digests) if len(known_digests) == len(digests) else None


def _together(states: list[str | None]) -> str | None:
    """All states as one text; None if a state is unknown."""
    return None if None in states else json.dumps(states)
