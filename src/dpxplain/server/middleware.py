"""ASGI middleware around every route: security headers, the access log and the limit on body size.

Also the token buckets with which authenticate.py limits rates. They are counted per server process.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import threading
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpxplain.server.metrics import Metrics
from dpxplain.server.problems import respond, too_large

API = "/api/"
PREFIX = f"{API}v1"
ACCESS = logging.getLogger("dpxplain.server.access")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_MOST_KEYS = 20_000

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Charts and the API's documentation set styles on elements; that is all that 'unsafe-inline' is for.

ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()",
}
HSTS = "max-age=31536000"


class SecurityHeaders:
    """Adds the headers to every response, also to errors; a header that a route has set is kept."""

    def __init__(self, app: ASGIApp, *, secure: bool) -> None:
        self._app = app
        self._always = ALWAYS | ({"Strict-Transport-Security": HSTS} if secure else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._always.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store" if path.startswith(API) else "no-cache")
            await send(message)

        await self._app(scope, receive, send_with_headers)


class AccessLog:
    """One log line and one count per request; also answers exceptions that nothing else has caught.

    Logged are the method, the route's template, the status, the time and the caller's id; never an address
    with its values, a body, SQL or the text of an exception.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 0

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note_status)
        except Exception as error:  # Uvicorn would print its text
            response = respond(error)
            if not status:
                await response(scope, receive, send_and_note_status)
        seconds = time.monotonic() - started
        route = getattr(scope.get("route"), "path", "unmatched").removeprefix(PREFIX)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        caller = scope.get("state", {}).get("caller")
        self._metrics.observe(method, route, status, seconds)
        ACCESS.info("%s %s %d %.0fms %s", method, route, status, seconds * 1000, caller.id if caller else "-")


class BodyLimit:
    """Refuses bodies beyond the limit, also those sent without a Content-Length."""

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > self._most:
            await respond(too_large())(scope, receive, send)
            return
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most:
                raise HTTPException(413)  # FastAPI would turn any other exception into its own
            return message

        await self._app(scope, receive_limited, send)


class Buckets:
    """A token bucket per key: a minute's worth at once, then as many as flow in.

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
                self._drop_keys()
            self._levels[key] = (level - 1, self._clock())
            return 0

    def refund(self, key: str) -> None:
        """Undo one `take`."""
        with self._lock:
            self._levels[key] = (min(self._size, self._level(key) + 1), self._clock())

    def _level(self, key: str) -> float:
        level, time_of_level = self._levels.get(key, (self._size, 0.0))
        return min(self._size, level + (self._clock() - time_of_level) * self._rate)

    def _drop_keys(self) -> None:
        """Drop full buckets, which say nothing; if that is not enough, the oldest too."""
        for key in [key for key in self._levels if self._level(key) >= self._size]:
            del self._levels[key]
        for key in list(self._levels)[: max(0, len(self._levels) - _MOST_KEYS // 2)]:
            del self._levels[key]


def address_of(scope: Scope) -> str:
    """The client's address for rate limits; one subscriber's whole IPv6 network counts as one."""
    client = scope.get("client")
    host = str(client[0]) if client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 6:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host
