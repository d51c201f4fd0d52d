"""How much work a function does, in numbers that are the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import sqlalchemy as sa

from dpxplain.phases.dataset import VersionCheck
from dpxplain.sql.parse import _parsed


class TooMuchWork(AssertionError):
    """A function made more calls than it may."""


def calls(function: Callable[[], object], most: int = 20_000_000) -> int:
    """The calls that a function makes, of Python and of C; raises when they exceed `most`."""
    made = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")
        if made > most:
            sys.setprofile(None)
            raise TooMuchWork(f"More than {most:,} calls.")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return made


@dataclass(frozen=True)
class Lookups:
    """What requests looked up: statements of the ledger, checks of the source, and SQL texts parsed."""

    reads: int
    writes: int
    checks: int
    parsed: int = 0


def lookups(request: Callable[[], object]) -> Lookups:
    """What a request looks up, in any thread of this process."""
    reads = writes = checks = 0

    def statement(_connection: Any, _cursor: Any, text: str, *_more: Any) -> None:
        nonlocal reads, writes
        word = text.split(maxsplit=1)[0].upper()
        reads += word in ("SELECT", "WITH")
        writes += word in ("INSERT", "UPDATE", "DELETE")

    def check(version: VersionCheck) -> None:
        nonlocal checks
        checks += 1
        check_data(version)

    check_data = VersionCheck.check
    known = _parsed.cache_info().misses
    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    VersionCheck.check = check  # type: ignore[method-assign]
    try:
        request()
    finally:
        VersionCheck.check = check_data  # type: ignore[method-assign]
        sa.event.remove(sa.Engine, "before_cursor_execute", statement)
    return Lookups(reads, writes, checks, _parsed.cache_info().misses - known)
