"""Limits on what anybody may send: how often, and how much at once. Counted per server process."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpxplain.server.problems import respond, too_large

_MOST_KEYS = 20_000


class Buckets:
    """A token bucket for everyone: a minute's worth at once, then as many as flow in.

    >>> now = 0.0
    >>> buckets = Buckets(60, clock=lambda: now)
    >>> [buckets.take("a") for _ in range(61)][-2:]  # the last one has to wait a second
    [0, 1]
    >>> buckets.take("b")
    0
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = float(per_minute)
        self._rate = per_minute / 60
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, key: str) -> int:
        """0, or how many whole seconds to wait."""
        with self._lock:
            level = self._level(key)
            if level < 1:
                return max(1, math.ceil((1 - level) / self._rate))
            if len(self._levels) >= _MOST_KEYS and key not in self._levels:
                self._forget_full()
            self._levels[key] = (level - 1, self._clock())
            return 0

    def give_back(self, key: str) -> None:
        """What was taken for somebody who need not have been counted."""
        with self._lock:
            self._levels[key] = (min(self._size, self._level(key) + 1), self._clock())

    def _level(self, key: str) -> float:
        level, seen = self._levels.get(key, (self._size, 0.0))
        return min(self._size, level + (self._clock() - seen) * self._rate)

    def _forget_full(self) -> None:
        """Who has not asked for a while starts afresh; if all have, the oldest do."""
        for key in [key for key in self._levels if self._level(key) >= self._size]:
            del self._levels[key]
        for key in list(self._levels)[: max(0, len(self._levels) - _MOST_KEYS // 2)]:
            del self._levels[key]


def address_of(scope: Scope) -> str:
    """Who is at the other end, for counting; a whole IPv6 network of one subscriber counts as one."""
    client = scope.get("client")
    host = str(client[0]) if client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 6:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host


class BodyLimit:
    """Refuses bodies beyond the limit, also those that do not say beforehand how long they are."""

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        said = Headers(scope=scope).get("content-length", "0")
        if not said.isdecimal() or len(said) > 18 or int(said) > self._most:
            await respond(too_large())(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most:
                raise HTTPException(413)  # the one kind that passes through FastAPI's reading of bodies
            return message

        await self._app(scope, counted, send)
