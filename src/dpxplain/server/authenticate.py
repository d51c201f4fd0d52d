"""ASGI middleware around every route: security headers, the access log, the limit on body size, and the
checks of Host, caller, Origin and rate limits.

Closed by default: under /api/ only the addresses in `PUBLIC` work without a credential, and each route
declares the role that it needs.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import math
import re
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Annotated

from anyio import CapacityLimiter, fail_after
from anyio.to_thread import run_sync
from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpxplain.errors import LedgerUnavailable
from dpxplain.ledger.protocol import LOCAL_OWNER
from dpxplain.server.limits import RateLimits, check_rate
from dpxplain.server.metrics import LedgerHealth, Metrics
from dpxplain.server.oidc import Authenticator, Caller
from dpxplain.server.problems import LOG, NONE, Problem, Refusal, ledger_unavailable, respond, too_large

# -- Headers, log and body size ----------------------------------------------------------------------------

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


# -- Authentication ----------------------------------------------------------------------------------------

PUBLIC = frozenset(
    {
        ("GET", f"{PREFIX}/health"),
        ("GET", f"{PREFIX}/ready"),
        ("GET", f"{PREFIX}/me"),
        ("POST", f"{PREFIX}/session"),
        ("GET", f"{PREFIX}/openapi.json"),
        ("GET", f"{PREFIX}/docs"),
    }
)
_SAME_FOR_EVERYBODY = (f"{PREFIX}/health", f"{PREFIX}/ready", f"{PREFIX}/openapi.json", f"{PREFIX}/docs")
_READING_METHODS = ("GET", "HEAD", "OPTIONS")
_MOST_VERIFIED = 4_096
_SIGN_IN = ("POST", f"{PREFIX}/session")
_METRICS = f"{PREFIX}/metrics"
_METRICS_SECONDS = 2.0
_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)


class Authentication:
    """Puts the caller into the request's state, or answers with a problem."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        hosts: frozenset[str],
        origin: str | None,
        rates: RateLimits,
        health: LedgerHealth,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._hosts = hosts
        self._origin = origin
        self._rates = rates
        self._health = health
        self._metrics = metrics
        self._verified_credentials: OrderedDict[bytes, Caller] = OrderedDict()  # by their SHA-256

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await self._authenticate(scope)
            except Problem as problem:
                await respond(problem)(scope, receive, send)
                return
            if (scope["method"], scope["path"]) == _SIGN_IN:
                send = self._refund_successful_sign_in(address_of(scope), send)
        await self._app(scope, receive, send)

    def _refund_successful_sign_in(self, address: str, send: Send) -> Send:
        """A successful sign-in does not count against the anonymous rate limit, but has one of its own."""

        async def send_and_refund(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                self._rates.anonymous.refund(address)
            await send(message)

        return send_and_refund

    async def _authenticate(self, scope: Scope) -> None:
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        self._check_host(headers)
        scope.setdefault("state", {})["caller"] = None
        if not path.startswith(API) or path.startswith(_SAME_FOR_EVERYBODY):
            return
        public = (method, path) in PUBLIC
        address = address_of(scope)
        if public and method != "GET":  # a sign-in, which another site's page must not start in this browser
            self._check_origin(headers)
            check_rate(self._rates.anonymous, address)
        caller = await self._identify(scope, headers, address, public=public, for_metrics=path == _METRICS)
        if caller is None:
            return
        scope["state"]["caller"] = caller
        check_rate(self._rates.callers, caller.id)
        if caller.by_cookie and not public:
            self._check_origin(headers, required=method not in _READING_METHODS)

    async def _identify(
        self, scope: Scope, headers: Headers, address: str, *, public: bool, for_metrics: bool = False
    ) -> Caller | None:
        """The caller, or None if the address is public. Invalid credentials count per address.

        While the ledger is away, callers whom it verified before can still read metrics.

        A new credential is counted before it is verified, since guesses may come all at once, and is refunded
        if it is valid. A credential that was verified before is not counted, so that guesses from the same
        address do not lock its holder out.
        """
        credential = self._authenticator.credential(headers)
        if credential is None:
            if public:
                return None
            check_rate(self._rates.anonymous, address)
            note_refusal(scope, NONE, self._metrics)
            raise NONE.problem()
        digest = hashlib.sha256(credential.encode()).digest()
        verified_before = digest in self._verified_credentials
        if not verified_before:
            check_rate(self._rates.anonymous, address)
        elif for_metrics and not self._health.is_up and (known := self._known_caller(digest)) is not None:
            return known
        authenticator = self._authenticator
        limiter = authenticator.threads if verified_before else authenticator.threads_for(credential)
        try:
            caller = await self._verify(headers, limiter, _METRICS_SECONDS if for_metrics else math.inf)
        except (LedgerUnavailable, TimeoutError) as error:
            known = self._known_caller(digest) if for_metrics else None
            if known is None:
                raise ledger_unavailable() if isinstance(error, TimeoutError) else error from None
            return known
        if isinstance(caller, Refusal):
            note_refusal(scope, caller, self._metrics)
            if verified_before:
                self._verified_credentials.pop(digest, None)
                check_rate(self._rates.anonymous, address)
            if public:
                return None
            raise caller.problem()
        if not verified_before:
            self._rates.anonymous.refund(address)
        self._verified_credentials[digest] = caller
        while len(self._verified_credentials) > _MOST_VERIFIED:
            self._verified_credentials.popitem(last=False)
        return caller

    async def _verify(self, headers: Headers, limiter: CapacityLimiter, seconds: float) -> Caller | Refusal:
        """The caller or the refusal. Raises TimeoutError after `seconds`; the thread continues on its own."""
        with fail_after(seconds):
            limited = seconds < math.inf
            return await run_sync(
                self._authenticator.identify, headers, limiter=limiter, abandon_on_cancel=limited
            )

    def _known_caller(self, digest: bytes) -> Caller | None:
        """The caller of a credential that was verified before, unless it has expired since."""
        caller = self._verified_credentials.get(digest)
        if caller is None or (caller.expires is not None and caller.expires <= datetime.now(UTC)):
            return None
        return caller

    def _check_host(self, headers: Headers) -> None:
        """Raises for foreign host names, against DNS rebinding: a page whose name resolves to our address."""
        host = _HOST.fullmatch(headers.get("host", ""))
        if host is None or host[1].lower().strip("[]") not in self._hosts:
            raise Problem(
                400,
                "host_refused",
                "The server does not accept requests under this host name.",
                "Use the server's own address. The curator can add host names to trusted_hosts.",
            )

    def _check_origin(self, headers: Headers, *, required: bool = False) -> None:
        """Raises if another site's page made the browser send the request (threat T17).

        Today's browsers send the origin with every request that may change something. With `required`, a
        request without an origin is refused too, so that an old browser's SameSite is not the only
        protection.
        """
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        host = headers.get("host", "")
        own_origins = {f"http://{host}", f"https://{host}", self._origin}
        foreign_site = site is not None and site not in ("same-origin", "none")
        foreign_origin = origin is not None and origin not in own_origins
        if foreign_site or foreign_origin or (required and site is None and origin is None):
            raise Problem(
                403,
                "foreign_origin",
                "The request came from another website's page.",
                "Use the server's own page, or send a token in the Authorization header.",
            )


def note_refusal(scope: Scope, refusal: Refusal, metrics: Metrics) -> None:
    """Logs and counts a refused credential: route, address and reason, but no part of the credential.

    Rate limits bound the number of log lines per address.
    """
    metrics.authentication_failures.labels(refusal.reason).inc()
    client = scope.get("client")
    LOG.log(
        logging.INFO if refusal is NONE else logging.WARNING,
        "authentication refused: %s %s from %s: %s",
        method_of(scope),
        route_of(scope),
        client[0] if client else "-",
        refusal.reason,
    )


# Dependencies that only look something up are coroutines, because FastAPI runs plain functions in another
# thread, and under load every change of threads waits for the interpreter lock.


async def any_caller(request: Request) -> Caller:
    """For analysts and curators."""
    caller: Caller | None = request.state.caller
    if caller is None:
        raise NONE.problem()
    return caller


async def curator_only(request: Request) -> Caller:
    caller = await any_caller(request)
    if not caller.is_curator:
        raise Problem(403, "curator_only", "Only the curator can do this.", "Ask the curator.")
    return caller


AnyCaller = Annotated[Caller, Depends(any_caller)]
Curator = Annotated[Caller, Depends(curator_only)]
