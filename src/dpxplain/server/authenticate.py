"""Who sends a request: identified by our bearer token, an OIDC issuer's, a session cookie or a single user's
key. Middleware checks Host, caller, Origin and rate limits.

Closed by default: under /api/ only the addresses in `PUBLIC` work without a credential, and each route
declares the role that it needs.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import jwt
from anyio import CapacityLimiter, fail_after
from anyio.to_thread import run_sync
from fastapi import Depends, Request
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpxplain.errors import LedgerUnavailable
from dpxplain.ledger.protocol import LOCAL_OWNER, OIDC_PREFIX, Identity
from dpxplain.server.config import Oidc, is_loopback
from dpxplain.server.limits import RateLimits, check_rate
from dpxplain.server.metrics import LedgerHealth, Metrics
from dpxplain.server.problems import (
    FORM,
    LOG,
    NONE,
    SESSION,
    TOKEN,
    Problem,
    Refusal,
    ledger_unavailable,
    respond,
)

if TYPE_CHECKING:
    from dpxplain.ledger.credentials import BrowserSessions, Tokens

# -- Issuer's tokens ---------------------------------------------------------------------------------------
#
# Verified against the published keys of an OpenID Connect issuer.
#
# Only asymmetric signatures of the allowed kinds count, so a token signed with `none`, or with a public key
# used as a shared secret, is refused before its claims are read.

_KEPT_SECONDS = 600.0  # after this, keys are fetched again; they are trusted ten times as long
_SECONDS_BETWEEN_FETCHES = 10.0  # also when tokens name unknown keys
_FETCH_SECONDS = 3.0
_MOST_DOCUMENT_BYTES = 1_000_000
_LEEWAY_SECONDS = 30
_KEY_TYPES = {"RS256": "RSA", "ES256": "EC"}
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "expiry"),
    (jwt.ImmatureSignatureError, "not_yet"),
    (jwt.InvalidAudienceError, "audience"),
    (jwt.InvalidIssuerError, "issuer"),
    (jwt.MissingRequiredClaimError, "claim"),
    (jwt.InvalidSignatureError, "signature"),
    (jwt.InvalidAlgorithmError, "algorithm"),
)


class Issuer:
    """Verifies an OIDC issuer's tokens."""

    def __init__(self, settings: Oidc) -> None:
        self._settings = settings
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched = self._tried = -float("inf")
        self._fetching = threading.Lock()

    @property
    def address(self) -> str:
        return self._settings.issuer

    def verify(self, token: str) -> Identity | Refusal:
        """The person that the token identifies, or why it is refused."""
        try:
            return self._verify_or_raise(token)
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, OSError) as error:
            return Refusal(
                next((reason for kind, reason in _REASONS if isinstance(error, kind)), "malformed")
            )

    def _verify_or_raise(self, token: str) -> Identity | Refusal:
        header = jwt.get_unverified_header(token)
        kind = header.get("alg")
        if kind not in self._settings.algorithms:
            return Refusal("algorithm")
        key = self._key(header.get("kid"))
        if key is None:
            return Refusal(self._reason_without_key(token))
        if key.key_type != _KEY_TYPES[kind]:
            return Refusal("algorithm")
        claims = jwt.decode(
            token,
            key.key,
            algorithms=[kind],
            issuer=self._settings.issuer,
            audience=self._settings.audience,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud", self._settings.name_claim]},
        )
        expires = datetime.fromtimestamp(int(claims["exp"]), UTC)
        name, role = claims.get(self._settings.name_claim), self._role(claims)
        if not isinstance(name, str):
            return Refusal("name")
        if role is None:
            return Refusal("role")
        account = f"{OIDC_PREFIX}{name}"  # an issuer's names are not ours: its "carol" is not our curator
        if not (is_account_name(name) and is_account_name(account)):
            return Refusal("name")
        return Identity(account, role, expires, token=None, issuer=self.address)

    def _reason_without_key(self, token: str) -> str:
        """Why the token's key is unknown. Reads the token's issuer unverified, only to choose the reason."""
        if not self._keys or self._is_expired:
            return "keys"
        claimed = jwt.decode(token, options={"verify_signature": False}).get("iss")
        return "kid" if claimed == self._settings.issuer else "issuer"

    def _role(self, claims: Mapping[str, Any]) -> str | None:
        claim: Any = claims
        for part in self._settings.role_claim.split("."):  # such as realm_access.roles
            claim = claim.get(part) if isinstance(claim, Mapping) else None
        listed = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
        roles = set(listed) if all(isinstance(role, str) for role in listed) else set()
        if roles & set(self._settings.curator_values):
            return "curator"
        allowed = self._settings.analyst_values
        return "analyst" if allowed is None or roles & set(allowed) else None

    def _key(self, kid: object) -> jwt.PyJWK | None:
        if not isinstance(kid, str):
            return None
        # One thread asks the issuer. The others continue with the present keys, or wait for the first keys.
        if self._is_due(kid) and self._fetching.acquire(timeout=0.0 if self._keys else 2 * _FETCH_SECONDS):
            try:
                if self._is_due(kid):
                    self._tried = time.monotonic()
                    self._fetch()
            finally:
                self._fetching.release()
        return None if self._is_expired else self._keys.get(kid)

    @property
    def _is_expired(self) -> bool:
        """Whether the keys were fetched too long ago to be trusted."""
        return time.monotonic() - self._fetched > 10 * _KEPT_SECONDS

    def _is_due(self, kid: str) -> bool:
        now = time.monotonic()
        stale = now - self._fetched > _KEPT_SECONDS or kid not in self._keys
        return stale and now - self._tried > _SECONDS_BETWEEN_FETCHES

    def _fetch(self) -> None:
        try:
            address = self._settings.jwks_url or self._discovered_address()
            published = _fetch_json(address).get("keys", [])
        except (
            httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, TypeError, AttributeError, KeyError
        ) as error:  # fmt: skip
            LOG.warning("cannot fetch the keys of the OIDC issuer: %s", type(error).__name__)
            return
        keys = {}
        for key in published if isinstance(published, list) else []:
            try:
                if key.get("kty") in _KEY_TYPES.values() and key.get("use", "sig") == "sig" and "kid" in key:
                    keys[str(key["kid"])] = jwt.PyJWK(key, algorithm=key.get("alg"))
            except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
                continue  # an unknown kind of key
        self._keys, self._fetched = keys, time.monotonic()

    def _discovered_address(self) -> str:
        """The address of the keys, from the issuer's configuration document."""
        document = _fetch_json(self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if document.get("issuer") != self._settings.issuer:
            raise ValueError
        address = str(document["jwks_uri"])
        # Only an issuer on this machine may name an http address.
        if not (
            address.startswith("https://") or is_loopback(urlsplit(self._settings.issuer).hostname or "")
        ):
            raise ValueError
        Oidc(issuer=self._settings.issuer, audience="-", jwks_url=address)  # raises for other addresses
        return address


def _fetch_json(address: str) -> dict[str, Any]:
    """The JSON document at an address. Raises TimeoutError if it has not arrived completely in time.

    The time limit does not cover the lookup of the host's name.
    """
    return asyncio.run(asyncio.wait_for(_fetch_document(address), _FETCH_SECONDS))


async def _fetch_document(address: str) -> dict[str, Any]:
    """Fetches a JSON document. Follows no redirect, which could lead to another source of keys.

    httpx only limits the wait for each part, so it could read for hours if an issuer sends byte by byte.
    """
    local = is_loopback(urlsplit(address).hostname or "")  # a proxy would ask its own machine instead
    async with (
        httpx.AsyncClient(timeout=_FETCH_SECONDS, trust_env=not local) as client,
        client.stream("GET", address) as response,
    ):
        response.raise_for_status()
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > _MOST_DOCUMENT_BYTES:
                raise ValueError
    document: dict[str, Any] = json.loads(content)
    return document


# -- Callers -----------------------------------------------------------------------------------------------
#
# The header Authorization takes precedence: with a wrong bearer token, a valid cookie does not count.

CURATOR = "curator"
_MOST_TOKEN_CHARACTERS = 8_000
_MOST_COOKIES = 64_000  # characters, for all applications on this host
_LONGEST_NAME = 200
_THREADS, _ISSUER_THREADS = 16, 8
_PORT = re.compile(r":([0-9]{1,5})$")


@dataclass(frozen=True)
class Caller:
    """Who sent a request."""

    name: str
    """The name in the ledger; "" is the local owner of a single-user server."""
    role: str
    id: str
    """The id that logs and rate limits use."""
    by_cookie: bool = False
    """Whether a browser sent the credential by itself, which another site's page can make it do."""
    session: str | None = None
    """The browser session's id."""
    token: str | None = None
    """The token of ours that was sent, or that the browser session was opened with."""
    expires: datetime | None = None
    """When the credential ends; None for a single user's key."""
    issuer: str | None = None
    """The OIDC issuer whose token was sent."""

    @property
    def is_curator(self) -> bool:
        return self.role == CURATOR

    @property
    def logged_name(self) -> str:
        """How the audit log and the access log name the caller."""
        return self.name or LOCAL_OWNER

    @classmethod
    def of(cls, identity: Identity) -> Caller:
        """The caller whom the ledger, or the issuer, has authenticated."""
        return cls(
            identity.name,
            identity.role,
            id=identity.token or identity.name,
            by_cookie=identity.session is not None,
            session=identity.session,
            token=identity.token,
            expires=identity.expires,
            issuer=identity.issuer,
        )


def is_account_name(name: str) -> bool:
    """Whether an account may have this name; "", "*" and "local owner" are reserved.

    >>> is_account_name("alice@example.org"), is_account_name(""), is_account_name("*")
    (True, False, False)
    """
    reserved = name in ("*", LOCAL_OWNER)
    return 0 < len(name) <= _LONGEST_NAME and name.strip() == name and name.isprintable() and not reserved


class Authenticator:
    """Verifies the credentials in headers. Calls block: they ask the ledger, and sometimes the issuer."""

    def __init__(
        self,
        tokens: Tokens | None,
        issuer: Issuer | None,
        *,
        secure: bool,
        sessions: BrowserSessions | None = None,
    ) -> None:
        self._tokens, self._sessions = tokens, sessions  # None for a single-user server
        self._issuer = issuer
        self._secure = secure
        # Separate threads: authentication keeps its threads if requests hang elsewhere, and an issuer that
        # hangs blocks only the threads for its unverified tokens.
        self.threads, self.issuer_threads = CapacityLimiter(_THREADS), CapacityLimiter(_ISSUER_THREADS)
        self.key = secrets.token_urlsafe(32)  # a single user's key, against other users of this machine

    @property
    def single_user(self) -> bool:
        return self._tokens is None

    def cookie_name(self, headers: Headers) -> str:
        """The cookie's name, with the port in it: browsers send one host's cookies to all its ports."""
        if self._secure:
            return "__Host-dpxplain"
        port = _PORT.search(headers.get("host", ""))
        return f"dpxplain-{port[1]}" if port is not None else "dpxplain"

    def is_key(self, text: str) -> bool:
        """Whether a text is the key of this single-user server."""
        return self.single_user and hmac.compare_digest(text.encode(), self.key.encode())

    def threads_for(self, credential: str) -> CapacityLimiter:
        """The threads that verify a credential which was not verified before.

        Our own tokens and cookies have no dot, and only the ledger verifies them.
        """
        return self.issuer_threads if "." in credential else self.threads

    def credential(self, headers: Headers) -> str | None:
        """The request's credential as it was sent, if there is any."""
        if "authorization" in headers:
            return headers["authorization"]
        return self._cookie(headers)

    def identify(self, headers: Headers) -> Caller | Refusal:
        """The caller, or why the credential is refused."""
        if "authorization" in headers:
            kind, _, text = headers["authorization"].partition(" ")
            return self.bearer(text.strip()) if kind.lower() == "bearer" else FORM
        cookie = self._cookie(headers)
        if cookie is None:
            return NONE
        if self._sessions is None:
            return Caller("", CURATOR, "local", by_cookie=True) if self.is_key(cookie) else SESSION
        # A session that an issuer's token opened is valid only while that issuer is trusted. A token itself
        # is not accepted in a cookie.
        issuer = None if self._issuer is None else self._issuer.address
        identity = self._sessions.authenticate(cookie, issuer=issuer)
        if identity is None or (identity.token is None and issuer is None):
            return SESSION
        return Caller.of(identity)

    def bearer(self, text: str) -> Caller | Refusal:
        """The caller whom a bearer token stands for."""
        if not 0 < len(text) <= _MOST_TOKEN_CHARACTERS:
            return FORM
        if self._tokens is None:
            return Caller("", CURATOR, "local") if self.is_key(text) else TOKEN
        if text.startswith("dpx_"):
            identity = self._tokens.authenticate(text)  # a browser session's secret is refused here
            return TOKEN if identity is None else Caller.of(identity)
        if self._issuer is None:
            return Refusal("oidc_off" if text.count(".") == 2 else "token")
        verified = self._issuer.verify(text)
        return verified if isinstance(verified, Refusal) else Caller.of(verified)

    def _cookie(self, headers: Headers) -> str | None:
        # Not SimpleCookie, which drops all cookies if one, perhaps another application's, is malformed.
        return cookie_parser(headers.get("cookie", "")[:_MOST_COOKIES]).get(self.cookie_name(headers)) or None


# -- Authentication ----------------------------------------------------------------------------------------

API = "/api/"
PREFIX = f"{API}v1"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
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
_OUTAGE_SECONDS = 900.0  # in an outage, a credential that was valid this long ago can still read metrics
_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)


class _Verification(NamedTuple):
    """The last successful verification of a credential."""

    caller: Caller
    time: float  # of time.monotonic()


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
        # By the credential's SHA-256; the one that was verified last stands last.
        self._verifications: OrderedDict[bytes, _Verification] = OrderedDict()

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
        self, scope: Scope, headers: Headers, address: str, *, public: bool, for_metrics: bool
    ) -> Caller | None:
        """The caller, or None if the address is public. Invalid credentials count per address.

        While the ledger is away, callers whom it verified recently can still read metrics.

        A new credential is counted before it is verified, since guesses may come all at once, and is refunded
        if it is valid. A credential that was verified before is not counted, so that guesses from the same
        address do not lock its holder out.
        """
        authenticator = self._authenticator
        credential = authenticator.credential(headers)
        if credential is None:
            if public:
                return None
            check_rate(self._rates.anonymous, address)
            note_refusal(scope, NONE, self._metrics)
            raise NONE.problem()
        digest = hashlib.sha256(credential.encode()).digest()
        verified_before = digest in self._verifications
        recent_caller = self._recently_verified(digest) if for_metrics else None
        if not verified_before:
            check_rate(self._rates.anonymous, address)
        elif recent_caller is not None and not self._health.is_up:
            return recent_caller
        limiter = authenticator.threads if verified_before else authenticator.threads_for(credential)
        try:
            with fail_after(_METRICS_SECONDS if for_metrics else None):
                caller = await run_sync(
                    authenticator.identify, headers, limiter=limiter, abandon_on_cancel=for_metrics
                )
        except (LedgerUnavailable, TimeoutError) as error:
            if recent_caller is None:
                raise ledger_unavailable() if isinstance(error, TimeoutError) else error from None
            return recent_caller
        if isinstance(caller, Refusal):
            note_refusal(scope, caller, self._metrics)
            if verified_before:
                self._verifications.pop(digest, None)
                check_rate(self._rates.anonymous, address)
            if public:
                return None
            raise caller.problem()
        if not verified_before:
            self._rates.anonymous.refund(address)
        self._verifications[digest] = _Verification(caller, time.monotonic())
        self._verifications.move_to_end(digest)
        while len(self._verifications) > _MOST_VERIFIED:
            self._verifications.popitem(last=False)
        return caller

    def _recently_verified(self, digest: bytes) -> Caller | None:
        """The caller whose credential was valid when it was last verified, a short time ago.

        Only the ledger knows whether the credential was revoked since; the time limit bounds how long a
        revoked one is still accepted.
        """
        verification = self._verifications.get(digest)
        if verification is None or time.monotonic() - verification.time > _OUTAGE_SECONDS:
            return None
        caller = verification.caller
        is_expired = caller.expires is not None and caller.expires <= datetime.now(UTC)
        return None if is_expired else caller

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
