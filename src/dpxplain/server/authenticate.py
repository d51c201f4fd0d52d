"""What every request passes before any route: the right host, a known caller, no forgery, not too often.

Closed by default: under /api/ only the few addresses in `PUBLIC` are open to strangers, and each route says
besides which role it is for.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from typing import Annotated

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpxplain.server.headers import API
from dpxplain.server.identity import Caller, Identifier, unauthorized
from dpxplain.server.middleware import Buckets, address_of
from dpxplain.server.problems import Problem, respond, too_many

PREFIX = "/api/v1"
PUBLIC = frozenset(
    {
        ("GET", f"{PREFIX}/health"),
        ("GET", f"{PREFIX}/me"),
        ("POST", f"{PREFIX}/session"),
        ("GET", f"{PREFIX}/openapi.json"),
        ("GET", f"{PREFIX}/docs"),
    }
)
_NAMELESS = (f"{PREFIX}/health", f"{PREFIX}/openapi.json", f"{PREFIX}/docs")  # who asks makes no difference
_READING = ("GET", "HEAD", "OPTIONS")
_MOST_KNOWN = 4_096
_MOST_FOREIGN = 8
_SIGN_IN = ("POST", f"{PREFIX}/session")
_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)


class Gate:
    """Puts the caller into the request's state, or answers in its place."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        identifier: Identifier,
        hosts: frozenset[str],
        origin: str | None,
        per_minute: int,
        anonymous_per_minute: int,
    ) -> None:
        self._app = app
        self._identifier = identifier
        self._hosts = hosts
        self._origin = origin
        self._callers = Buckets(per_minute)
        self._strangers = Buckets(anonymous_per_minute)
        self._slow = CapacityLimiter(_MOST_FOREIGN)  # an issuer that hangs keeps nobody else waiting
        self._welcome: OrderedDict[bytes, None] = OrderedDict()  # hashes of credentials that were good

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await self._admit(scope)
            except Problem as problem:
                await respond(problem)(scope, receive, send)
                return
            if (scope["method"], scope["path"]) == _SIGN_IN:
                send = self._forgiving(address_of(scope), send)
        await self._app(scope, receive, send)

    def _forgiving(self, address: str, send: Send) -> Send:
        """Signing in with a good token was no guess."""

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                self._strangers.give_back(address)
            await send(message)

        return noted

    async def _admit(self, scope: Scope) -> None:
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        self._check_host(headers)
        scope.setdefault("state", {})["caller"] = None
        if not path.startswith(API) or path.startswith(_NAMELESS):
            return
        public = (method, path) in PUBLIC
        address = address_of(scope)
        if public and method != "GET":  # signing in: nobody may do it for somebody else's browser
            self._check_origin(headers)
            _hold_back(self._strangers.take(address))
        caller = await self._identify(headers, address, public=public)
        if caller is None:
            return
        scope["state"]["caller"] = caller
        _hold_back(self._callers.take(caller.id))
        if caller.by_cookie and not public:
            self._check_origin(headers, required=method not in _READING)

    async def _identify(self, headers: Headers, address: str, *, public: bool) -> Caller | None:
        """The caller; a stranger only where strangers are welcome, and not too often."""
        shown = self._identifier.shown(headers)
        if shown is None:
            if public:
                return None
            _hold_back(self._strangers.take(address))
            raise unauthorized()
        mark = hashlib.sha256(shown.encode()).digest()
        # Guessing is slowed down per address, without locking out who is known to be good there. What is
        # not known to be good is paid for before it is looked at: a crowd of guesses comes all at once.
        known = mark in self._welcome
        if not known:
            _hold_back(self._strangers.take(address))
        unproven = self._identifier.unproven if _is_ours(shown) else self._slow
        caller = await run_sync(self._identifier.identify, headers, limiter=None if known else unproven)
        if caller is None:
            if known:
                self._welcome.pop(mark, None)
                _hold_back(self._strangers.take(address))
            if public:
                return None
            raise unauthorized()
        if not known:
            self._strangers.give_back(address)
        self._welcome[mark] = None
        while len(self._welcome) > _MOST_KNOWN:
            self._welcome.popitem(last=False)
        return caller

    def _check_host(self, headers: Headers) -> None:
        """Against DNS rebinding: a page of another name that resolves to us does not reach us."""
        host = _HOST.fullmatch(headers.get("host", ""))
        if host is None or host[1].lower().strip("[]") not in self._hosts:
            raise Problem(
                400,
                "host_refused",
                "The server does not answer under this name.",
                "Use the address it was started with; the curator lists names in trusted_hosts.",
            )

    def _check_origin(self, headers: Headers, *, required: bool = False) -> None:
        """Refuses what another site's page made the browser send (threat T17).

        Every browser of today names the origin of a request that may change something. With `required`, one
        that names none is refused too, rather than trusting an old browser's SameSite alone.
        """
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        ours = {f"{scheme}://{headers.get('host', '')}" for scheme in ("http", "https")} | {self._origin}
        foreign_site = site is not None and site not in ("same-origin", "none")
        foreign_origin = origin is not None and origin not in ours
        if foreign_site or foreign_origin or (required and site is None and origin is None):
            raise Problem(
                403,
                "foreign_origin",
                "The request does not come from the server's own page.",
                "Use the server's page, or send a token in the header Authorization.",
            )


def _is_ours(shown: str) -> bool:
    """Whether the ledger alone can tell who it is."""
    return shown.removeprefix("Bearer ").startswith("dpx_")


def _hold_back(seconds: int) -> None:
    if seconds:
        raise too_many(seconds)


# Dependencies that only look something up are coroutines: FastAPI would run a function in another thread, and
# under load every change of threads is a wait for the interpreter.


async def any_caller(request: Request) -> Caller:
    """For analysts and curators."""
    caller: Caller | None = request.state.caller
    if caller is None:
        raise unauthorized()
    return caller


async def curator_only(request: Request) -> Caller:
    caller = await any_caller(request)
    if not caller.is_curator:
        raise Problem(403, "curator_only", "This is for the curator only.", "Ask the curator.")
    return caller


AnyCaller = Annotated[Caller, Depends(any_caller)]
Curator = Annotated[Caller, Depends(curator_only)]
