"""A few threads that serve callers in turn: nobody's requests keep all of them busy."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Waiting:
    who: str
    call: Callable[[], Any]
    future: Future[Any]


class Workers:
    """Runs calls in the order they came, but of one caller at most `each` at a time.

    The threads are daemons: one that never ends does not keep the process from ending.
    """

    def __init__(self, number: int, each: int, name: str) -> None:
        self._each = each
        self._waiting: list[_Waiting] = []
        self._running: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._closed = False
        for at in range(number):
            threading.Thread(target=self._serve, name=f"{name}-{at}", daemon=True).start()

    def submit(self, who: str, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("closed")
            self._waiting.append(_Waiting(who, call, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Cancel what waits; what runs goes on."""
        with self._changed:
            self._closed = True
            cancelled, self._waiting = self._waiting, []
            self._changed.notify_all()
        for one in cancelled:
            one.future.cancel()

    def _serve(self) -> None:
        while (one := self._next()) is not None:
            try:
                if one.future.set_running_or_notify_cancel():
                    self._run(one)
            finally:
                with self._changed:
                    self._running[one.who] -= 1
                    self._running += Counter()  # drops those at zero
                    self._changed.notify_all()
            del one

    def _run(self, one: _Waiting) -> None:
        try:
            result = one.call()
        except BaseException as error:  # handed on to whoever waits for it
            one.future.set_exception(error)
        else:
            one.future.set_result(result)

    def _next(self) -> _Waiting | None:
        with self._changed:
            while True:
                for at, one in enumerate(self._waiting):
                    if self._running[one.who] < self._each:
                        self._running[one.who] += 1
                        return self._waiting.pop(at)
                if self._closed:
                    return None
                self._changed.wait()
