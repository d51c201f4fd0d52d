"""Identifies the caller by our bearer token, an OIDC issuer's, a session cookie or a single user's key.

The header Authorization takes precedence: with a wrong bearer token, a valid cookie does not count.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from anyio import CapacityLimiter
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from dpxplain.ledger.protocol import FOREIGN, LOCAL_OWNER, Identity
from dpxplain.server.oidc import Issuer
from dpxplain.server.refusals import FORM, NONE, SESSION, TOKEN, Refusal

if TYPE_CHECKING:
    from dpxplain.ledger.credentials import BrowserSessions, Tokens

CURATOR = "curator"
_MOST_CHARACTERS = 8_000
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


def proper_name(name: str) -> bool:
    """Whether an account may have this name; "", "*" and "local owner" are reserved.

    >>> proper_name("alice@example.org"), proper_name(""), proper_name("*")
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
        if not 0 < len(text) <= _MOST_CHARACTERS:
            return FORM
        if self._tokens is None:
            return Caller("", CURATOR, "local") if self.is_key(text) else TOKEN
        if text.startswith("dpx_"):
            identity = self._tokens.authenticate(text)  # a browser session's secret is refused here
            return TOKEN if identity is None else Caller.of(identity)
        if self._issuer is None:
            return Refusal("oidc_off" if text.count(".") == 2 else "token")
        verified = self._issuer.verify(text)
        if isinstance(verified, Refusal):
            return verified
        name = f"{FOREIGN}{verified.name}"  # an issuer's names are not ours: its "carol" is not our curator
        if not (proper_name(verified.name) and proper_name(name)):
            return Refusal("name")
        return Caller.of(
            Identity(name, verified.role, verified.expires, token=None, issuer=self._issuer.address)
        )

    def _cookie(self, headers: Headers) -> str | None:
        # Not SimpleCookie, which drops all cookies if one, perhaps another application's, is malformed.
        return cookie_parser(headers.get("cookie", "")[:_MOST_COOKIES]).get(self.cookie_name(headers)) or None
