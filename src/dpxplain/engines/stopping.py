"""Stopping a pass over the data: an engine wraps each pass in `interruptible` (see model/cancellation.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpxplain.model.cancellation import current_stop


@contextmanager
def interruptible(interrupt: Callable[[], None]) -> Iterator[None]:
    """One pass; `interrupt` ends it from another thread."""
    stop = current_stop()
    if stop is None:
        yield
    else:
        with stop.interrupting(interrupt):
            yield
