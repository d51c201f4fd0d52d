"""ASGI middleware around every route: security headers, the access log and the limit on body size."""

from __future__ import annotations

import ipaddress
import logging
import time

from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpxplain.ledger.protocol import LOCAL_OWNER
from dpxplain.server.metrics import Metrics
from dpxplain.server.problems import respond, too_large

API = "/api/"
PREFIX = f"{API}v1"
UPLOADS = f"{PREFIX}/admin/files/"
ACCESS = logging.getLogger("dpxplain.server.access")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# 'unsafe-inline' is only for charts and the API's documentation, which set styles on elements.

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
    """Adds the headers to every response, including errors. Keeps a header that a route has set."""

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
    """Writes one log line and one count per request. Also answers exceptions that nothing else has caught.

    It logs the method, the route's template, the status, the time, the person, the id of their credential and
    the data set, if it is one of ours. It never logs an address with its values, a body, SQL or the text of
    an exception.
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
        except Exception as error:  # otherwise Uvicorn would print its text
            response = respond(error)
            if not status:
                await response(scope, receive, send_and_note_status)
        seconds = time.monotonic() - started
        method, route = method_of(scope), route_of(scope)
        state = scope.get("state", {})
        caller, dataset = state.get("caller"), state.get("dataset", "-")
        self._metrics.observe(method, route, status, seconds)
        person, credential = (caller.name or LOCAL_OWNER, caller.id) if caller else ("-", "-")
        ACCESS.info(
            "%s %s %d %.0fms person=%s credential=%s dataset=%s",
            method,
            route,
            status,
            seconds * 1000,
            person,
            credential,
            dataset,
        )


class BodyLimit:
    """Refuses bodies beyond the limit, including those sent without a Content-Length."""

    def __init__(self, app: ASGIApp, *, most: int, most_uploaded: int) -> None:
        self._app = app
        self._most = most
        self._most_uploaded = max(most, most_uploaded)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = scope["method"] == "PUT" and scope["path"].startswith(UPLOADS)
        most = self._most_uploaded if is_upload else self._most
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > most:
            await respond(too_large())(scope, receive, send)
            return
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413)  # FastAPI would turn any other exception into its own
            return message

        await self._app(scope, receive_limited, send)


def method_of(scope: Scope) -> str:
    """The method, or "other" for an unusual one: a client may send any text."""
    return scope["method"] if scope["method"] in _METHODS else "other"


def route_of(scope: Scope) -> str:
    """The template of a request's route, even for a request that was refused before routing."""
    route = scope.get("route")
    if route is None:
        routes = (route for route in scope["app"].routes if isinstance(route, APIRoute))
        route = next((route for route in routes if route.matches(scope)[0] is Match.FULL), None)
    return getattr(route, "path", "unmatched").removeprefix(PREFIX)


def address_of(scope: Scope) -> str:
    """The client's address for rate limits; for IPv6 its /64 network, which belongs to one subscriber."""
    client = scope.get("client")
    host = str(client[0]) if client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 6:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host
