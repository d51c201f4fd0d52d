"""Bearer tokens of an OpenID Connect issuer, verified against its published keys.

Only asymmetric signatures of the allowed kinds count, so a token signed with `none`, or with a public key
used as a shared secret, is refused before its claims are read.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import jwt

from dpxplain.server.config import Oidc, is_loopback

LOG = logging.getLogger("dpxplain.server")
_KEPT_SECONDS = 600.0
_BETWEEN_FETCHES = 10.0  # however many unknown keys are shown, the issuer is asked no more often
_FETCH_SECONDS = 3.0
_MOST_BYTES = 1_000_000
_LEEWAY_SECONDS = 30
_KINDS = {"RS256": "RSA", "ES256": "EC"}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        """Keys come from where the configuration says, or not at all."""


class Issuer:
    """Whom an OIDC token speaks for, and in which role."""

    def __init__(self, settings: Oidc) -> None:
        self._settings = settings
        self._opener = urllib.request.build_opener(_NoRedirects)
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched = self._tried = -float("inf")
        self._fetching = threading.Lock()

    def verify(self, token: str) -> tuple[str, str] | None:
        """Name and role, or None."""
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(header.get("kid"))
            kind = header.get("alg")
            if key is None or kind not in self._settings.algorithms or key.key_type != _KINDS[kind]:
                return None
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[kind],
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", self._settings.name_claim]},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        name, role = claims.get(self._settings.name_claim), self._role(claims)
        return (name, role) if isinstance(name, str) and role is not None else None

    def _role(self, claims: Mapping[str, Any]) -> str | None:
        said: Any = claims
        for part in self._settings.role_claim.split("."):  # such as realm_access.roles
            said = said.get(part) if isinstance(said, Mapping) else None
        roles = {said} if isinstance(said, str) else set(said) if _texts(said) else set()
        if roles & set(self._settings.curator_values):
            return "curator"
        allowed = self._settings.analyst_values
        return "analyst" if allowed is None or roles & set(allowed) else None

    def _key(self, kid: object) -> jwt.PyJWK | None:
        if not isinstance(kid, str):
            return None
        # One asks the issuer; the others go on with the keys they have, if there are any.
        if self._is_due(kid) and self._fetching.acquire(timeout=0.0 if self._keys else 2 * _FETCH_SECONDS):
            try:
                if self._is_due(kid):
                    self._tried = time.monotonic()
                    self._fetch()
            finally:
                self._fetching.release()
        gone = time.monotonic() - self._fetched > 10 * _KEPT_SECONDS  # then its old keys do not live on
        return None if gone else self._keys.get(kid)

    def _is_due(self, kid: str) -> bool:
        now = time.monotonic()
        stale = now - self._fetched > _KEPT_SECONDS or kid not in self._keys
        return stale and now - self._tried > _BETWEEN_FETCHES

    def _fetch(self) -> None:
        try:
            address = self._settings.jwks_url or self._discovered()
            published = self._read(address).get("keys", [])
        except (OSError, HTTPException, ValueError, TypeError, AttributeError, KeyError) as error:
            LOG.warning("the keys of the OIDC issuer could not be fetched: %s", type(error).__name__)
            return
        keys = {}
        for one in published if isinstance(published, list) else []:
            try:
                if one.get("kty") in _KINDS.values() and one.get("use", "sig") == "sig" and "kid" in one:
                    keys[str(one["kid"])] = jwt.PyJWK(one, algorithm=one.get("alg"))
            except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
                continue  # a kind of key we do not know
        self._keys, self._fetched = keys, time.monotonic()

    def _discovered(self) -> str:
        known = self._read(self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if known.get("issuer") != self._settings.issuer:
            raise ValueError
        address = str(known["jwks_uri"])
        # Only an issuer on this machine may name an address in the clear, or one of this machine.
        if not (
            address.startswith("https://") or is_loopback(urlsplit(self._settings.issuer).hostname or "")
        ):
            raise ValueError
        Oidc(issuer=self._settings.issuer, audience="-", jwks_url=address)
        return address

    def _read(self, address: str) -> dict[str, Any]:
        with self._opener.open(address, timeout=_FETCH_SECONDS) as response:
            content = response.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError
        read: dict[str, Any] = json.loads(content)
        return read


def _texts(said: object) -> bool:
    return isinstance(said, list) and all(isinstance(role, str) for role in said)
