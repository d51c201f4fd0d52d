"""One log line and one count per request, and a last net under everything that goes wrong.

Logged are the method, the route's template, the status, the time and the caller's id; never an address with
its values, a body, SQL or the text of an exception.
"""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpxplain.server.metrics import Metrics
from dpxplain.server.problems import respond

ACCESS = logging.getLogger("dpxplain.server.access")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class Observer:
    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:  # outside this net, its text would be printed
            response = respond(error)
            if not status:
                await response(scope, receive, noted)
        seconds = time.monotonic() - started
        route = getattr(scope.get("route"), "path", None) or "unmatched"
        method = scope["method"] if scope["method"] in _METHODS else "other"
        caller = scope.get("state", {}).get("caller")
        self._metrics.observe(method, route, status, seconds)
        ACCESS.info("%s %s %d %.0fms %s", method, route, status, seconds * 1000, caller.id if caller else "-")
