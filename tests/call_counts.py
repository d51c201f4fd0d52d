"""How much work a function does, as a number that is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


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
