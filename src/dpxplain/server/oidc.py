"""Bearer tokens of an OpenID Connect issuer, verified against its published keys.

Only asymmetric signatures of the allowed kinds count, so a token signed with `none`, or with a public key
used as a shared secret, is refused before its claims are read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import jwt

from dpxplain.server.config import Oidc, is_loopback
from dpxplain.server.refusals import Refusal

LOG = logging.getLogger("dpxplain.server")
_KEPT_SECONDS = 600.0  # after this, keys are fetched again; they are trusted ten times as long
_BETWEEN_FETCHES = 10.0  # seconds, also when tokens name unknown keys
_FETCH_SECONDS = 3.0
_MOST_BYTES = 1_000_000
_LEEWAY_SECONDS = 30
_KINDS = {"RS256": "RSA", "ES256": "EC"}
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "expiry"),
    (jwt.ImmatureSignatureError, "not_yet"),
    (jwt.InvalidAudienceError, "audience"),
    (jwt.InvalidIssuerError, "issuer"),
    (jwt.MissingRequiredClaimError, "claim"),
    (jwt.InvalidSignatureError, "signature"),
    (jwt.InvalidAlgorithmError, "algorithm"),
)


class Verified(NamedTuple):
    """The person that an issuer's token identifies, in which role, and until when."""

    name: str
    role: str
    expires: datetime


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

    def verify(self, token: str) -> Verified | Refusal:
        """The person that the token identifies, or why it is refused."""
        try:
            return self._verify_or_raise(token)
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, OSError) as error:
            return Refusal(
                next((reason for kind, reason in _REASONS if isinstance(error, kind)), "malformed")
            )

    def _verify_or_raise(self, token: str) -> Verified | Refusal:
        header = jwt.get_unverified_header(token)
        kind = header.get("alg")
        if kind not in self._settings.algorithms:
            return Refusal("algorithm")
        key = self._key(header.get("kid"))
        if key is None:
            return Refusal(self._reason_without_key(token))
        if key.key_type != _KINDS[kind]:
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
        return Refusal("role") if role is None else Verified(name, role, expires)

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
        return stale and now - self._tried > _BETWEEN_FETCHES

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
                if key.get("kty") in _KINDS.values() and key.get("use", "sig") == "sig" and "kid" in key:
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
            if len(content) > _MOST_BYTES:
                raise ValueError
    document: dict[str, Any] = json.loads(content)
    return document
