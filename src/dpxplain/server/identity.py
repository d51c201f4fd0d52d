"""Who is asking: a bearer token of ours or of the OIDC issuer, a browser's session, or the one local user.

A header that is shown decides alone: a wrong bearer token is never made up for by a good cookie.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from anyio import CapacityLimiter
from starlette.datastructures import Headers

from dpxplain.ledger.validation import FOREIGN, LOCAL_OWNER
from dpxplain.server.oidc import Issuer
from dpxplain.server.problems import Problem

if TYPE_CHECKING:
    from dpxplain.ledger.tokens import Tokens

ANALYST, CURATOR = "analyst", "curator"
_MOST_CHARACTERS = 8_000
_LONGEST_NAME = 200
_MOST_UNPROVEN = 2
_PORT = re.compile(r":([0-9]{1,5})$")


@dataclass(frozen=True)
class Caller:
    """One request's author."""

    name: str
    """As the ledger knows them; "" is the local owner of a single-user server."""
    role: str
    id: str
    """For logs and limits."""
    by_cookie: bool = False
    """Whether a browser sent the credential by itself, which another site's page can make it do."""
    session: str | None = None
    """The browser session's own token id."""
    parent: str | None = None
    """The token that a browser session was made from."""

    @property
    def is_curator(self) -> bool:
        return self.role == CURATOR


def unauthorized() -> Problem:
    """The same for every reason: unknown, expired, revoked, forged."""
    return Problem(
        401,
        "unauthorized",
        "This needs a valid token.",
        "Sign in, or send the header Authorization: Bearer TOKEN; the curator makes tokens.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def proper_name(name: str) -> bool:
    """Whether someone may be called that. Nobody may be called "" or "local owner", or "*".

    >>> proper_name("alice@example.org"), proper_name(""), proper_name("*")
    (True, False, False)
    """
    reserved = name in ("*", LOCAL_OWNER)
    return 0 < len(name) <= _LONGEST_NAME and name.strip() == name and name.isprintable() and not reserved


class Identifier:
    """Reads credentials from headers. Blocks: it asks the ledger, and now and then the issuer."""

    def __init__(self, tokens: Tokens | None, issuer: Issuer | None, *, secure: bool) -> None:
        self._tokens = tokens  # None: the one local user
        self._issuer = issuer
        self._secure = secure
        self.unproven = CapacityLimiter(_MOST_UNPROVEN)  # a crowd of guesses leaves the other threads alone
        self.key = secrets.token_urlsafe(32)  # lets the one local user in: other local users have none

    @property
    def single_user(self) -> bool:
        return self._tokens is None

    def cookie(self, headers: Headers) -> str:
        """Its name. Browsers tell servers of one machine apart by name only, whatever their ports."""
        if self._secure:
            return "__Host-dpxplain"
        port = _PORT.search(headers.get("host", ""))
        return f"dpxplain-{port[1]}" if port is not None else "dpxplain"

    def fits(self, text: str) -> bool:
        """Whether it is the key of a single user's server."""
        return self.single_user and hmac.compare_digest(text.encode(), self.key.encode())

    def shown(self, headers: Headers) -> str | None:
        """What the request shows as its credential, if anything."""
        if "authorization" in headers:
            return headers["authorization"]
        return self._cookie(headers)

    def identify(self, headers: Headers) -> Caller | None:
        """The caller, or None if nothing valid is shown."""
        if "authorization" in headers:
            kind, _, text = headers["authorization"].partition(" ")
            return self.bearer(text.strip()) if kind.lower() == "bearer" else None
        cookie = self._cookie(headers)
        if cookie is None:
            return None
        if self._tokens is None:
            return Caller("", CURATOR, "local", by_cookie=True) if self.fits(cookie) else None
        identity = self._tokens.authenticate(cookie)
        if identity is None or identity.parent is None:  # a token itself does not belong into a cookie
            return None
        return Caller(identity.name, identity.role, identity.parent, True, identity.token, identity.parent)

    def bearer(self, text: str) -> Caller | None:
        if not 0 < len(text) <= _MOST_CHARACTERS:
            return None
        if self._tokens is None:
            return Caller("", CURATOR, "local") if self.fits(text) else None
        if text.startswith("dpx_"):
            identity = self._tokens.authenticate(text)
            if identity is None or identity.parent is not None:  # a session serves its browser only
                return None
            return Caller(identity.name, identity.role, identity.token)
        verified = self._issuer.verify(text) if self._issuer is not None else None
        if verified is None:
            return None
        said, role = verified
        name = f"{FOREIGN}{said}"  # an issuer's names are not ours: its "carol" is not our curator
        if not (proper_name(said) and proper_name(name)):
            return None
        return Caller(name, role, id=name)

    def _cookie(self, headers: Headers) -> str | None:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")[:_MOST_CHARACTERS]).get(self.cookie(headers))
        except CookieError:
            return None
        return morsel.value or None if morsel is not None else None
