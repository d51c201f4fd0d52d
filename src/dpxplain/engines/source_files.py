"""What an engine has read of its source: a digest of the content, and whether the source changed since."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from dpxplain.engines.engine import Recognised
from dpxplain.engines.source_kinds import find_files
from dpxplain.errors import SourceError
from dpxplain.model.confidential import ContentDigest

_SETTLED_NS = 2_000_000_000  # a file changed so recently may change again within one tick of its clock
DIGESTING = "dpxplain-digest"
"""The name of threads that digest."""

FileStates = tuple[tuple[str | int, ...], ...]


class FileSource:
    """Files, by the paths or globs that name them; where there are none yet, their states are empty.

    Content is read only where size and times cannot tell: unchanged ones mean unchanged files, and another
    size means another content.
    """

    def __init__(self, patterns: str | Path | Sequence[str | Path]) -> None:
        given = [patterns] if isinstance(patterns, str | Path) else patterns
        self._patterns = [str(pattern) for pattern in given]
        self._states = file_states(self._patterns)
        self._state = settled_state(self._states)
        self._digest: ContentDigest | None = None
        self._replacement: tuple[FileStates, ContentDigest | None] = (), None  # what was digested last
        self._lock = threading.RLock()  # `fits` may ask for the digest

    @property
    def exists(self) -> bool:
        return bool(self._states)

    def check_readable(self) -> None:
        """It was read when it was opened."""

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
            # The same content was written again, or moved.
            self._digest, self._states, self._state = digest, states, settled_state(states)
            return False

    def present_state(self) -> str | None:
        states = file_states(self._patterns)
        return settled_state(states) if states else None

    @contextmanager
    def reading(self, recognised: Recognised) -> Iterator[None]:
        """Digests the files while the block reads them, unless they are recognised.

        Refuses files that change meanwhile: the digest is of what the block has read. Times cannot tell that
        of files written just now, so those are digested again afterwards.
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
        """The states of the files, if their content is the one that was read; None if it may not be.

        Times tell nothing about files that were changed just now, so those are digested again.
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
        """Whether the files are still those that were read; to be asked after they were read once more."""
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
    """Path, device, inode, size and times of every file, in the order of their paths; () if one is missing.

    The time of the last change of the inode (ctime) also differs where somebody set the time of modification
    back.
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
        states += [
            (os.path.abspath(name), s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev)
            for name, s in zip(names, stats, strict=True)
        ]
    return tuple(sorted(set(states), key=str))


def settled_state(states: FileStates) -> str | None:
    """The states as a text; None if a file changed just now."""
    now = time.time_ns()
    # A copy can bring its time of modification along; only the inode's own tells when it was written.
    if any(now - max(int(modified), int(changed)) < _SETTLED_NS for _, _, modified, changed, *_ in states):
        return None
    return json.dumps(states)


def _sizes(states: FileStates) -> list[int]:
    return sorted(int(size) for _, size, *_ in states)


def _digest_of(states: FileStates) -> ContentDigest:
    """Of the files' contents, whatever their names: a moved file is the same data."""
    digests = []
    for name, *_ in states:
        with open(name, "rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").digest())
    return ContentDigest.of_parts(digests)


def _changed_meanwhile() -> SourceError:
    return SourceError(
        "The source was changed while it was read.", remedy="Open it again when it is written to its end."
    )
