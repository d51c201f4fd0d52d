"""Bearer tokens and browser sessions: who may come in, as what, until when.

A token's text is shown once. Kept is its scrypt hash, so neither the ledger nor a copy of it lets anyone in.
Texts that were verified are remembered by their sha256 within the process: the slow hash is paid once, while
expiry and revocation are looked up each time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.protocol import Identity, Token
from dpxplain.ledger.standing import moment
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import REVOCATIONS, TOKENS
from dpxplain.ledger.validation import FOREIGN, check_name, utc_text

ROLES = ("analyst", "curator")
SESSION_LIFETIME = timedelta(hours=12)

_FORM = re.compile(r"dpx_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 2**14, 8, 1  # 16 MiB and some 40 ms for each guess
_REMEMBERED = 10_000

_PARENT, _PARENT_REVOCATION = TOKENS.alias("parent"), REVOCATIONS.alias("parent_revocation")
_WITH_STATE = (
    sa.select(
        TOKENS,
        REVOCATIONS.c.time.label("revoked"),
        _PARENT.c.expires.label("parent_expires"),
        _PARENT_REVOCATION.c.time.label("parent_revoked"),
    )
    .outerjoin(REVOCATIONS, REVOCATIONS.c.token == TOKENS.c.id)
    .outerjoin(_PARENT, _PARENT.c.id == TOKENS.c.parent)
    .outerjoin(_PARENT_REVOCATION, _PARENT_REVOCATION.c.token == TOKENS.c.parent)
)


class Tokens:
    """The tokens of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._verified: OrderedDict[bytes, str] = OrderedDict()  # sha256 of a text -> the hash it fits
        self._cache_lock = threading.Lock()
        self._scrypt_lock = threading.Lock()  # a crowd of guesses takes one core and 16 MiB, not all

    def create(self, name: str, role: str, *, expires: datetime, by: str) -> tuple[str, str]:
        """A new token's id and its text, which cannot be shown again."""
        if check_name(name).startswith(FOREIGN):
            raise BadRequest(
                f"Names that begin with {FOREIGN!r} are the OIDC issuer's.", remedy="Choose another name."
            )
        if role not in ROLES:
            raise BadRequest(f"There is no role {role!r}.", remedy="Use 'analyst' or 'curator'.")
        if datetime.fromisoformat(utc_text(expires)) <= datetime.now(UTC):
            raise BadRequest("The token would expire before it is used.", remedy="Choose a later time.")
        return self._add(name, role, expires, by, None)

    def create_session(self, parent: str, *, lifetime: timedelta = SESSION_LIFETIME) -> tuple[str, str]:
        """A browser session's id and text; it ends with its lifetime or, if earlier, with its token."""
        with self._store.reading() as connection:
            row = connection.execute(_WITH_STATE.where(TOKENS.c.id == parent)).one_or_none()
        if row is None or row.parent is not None or not _valid(row):
            raise BadRequest("The token has expired or was revoked.", remedy="Sign in with another token.")
        expires = min(datetime.fromisoformat(row.expires), datetime.now(UTC) + lifetime)
        return self._add(row.name, row.role, expires, row.name, parent)

    def authenticate(self, text: str) -> Identity | None:
        """Who shows this text; None for anything that is not a valid token now."""
        form = _FORM.fullmatch(text)
        if form is None:
            return None
        with self._store.reading() as connection:
            row = connection.execute(_WITH_STATE.where(TOKENS.c.id == form[1])).one_or_none()
        if row is None or not _valid(row) or not self._fits(text, row.secret_hash):
            return None
        return Identity(
            name=row.name,
            role=row.role,
            token=row.id,
            expires=datetime.fromisoformat(row.expires),
            parent=row.parent,
        )

    def revoke(self, id: str, by: str) -> None:
        """End a token and its sessions, or one session, for good; ending it twice is harmless."""
        with self._store.writing() as connection:
            row = connection.execute(_WITH_STATE.where(TOKENS.c.id == id)).one_or_none()
            if row is None:
                raise BadRequest(f"There is no token {id!r}.", remedy="Look at the list of tokens.")
            if row.revoked is not None:
                return
            time = audit.now()
            rows = {REVOCATIONS: audit.insert(connection, REVOCATIONS, {"token": id, "time": time, "by": by})}
            audit.append_change(connection, by, audit.TOKEN_REVOKED, None, rows, time)

    def list(self, *, sessions: bool = False) -> list[Token]:
        """Every token ever made, oldest first; browser sessions only if asked for."""
        wanted = _WITH_STATE.order_by(TOKENS.c.created, TOKENS.c.id)
        if not sessions:
            wanted = wanted.where(TOKENS.c.parent.is_(None))
        with self._store.reading() as connection:
            rows = connection.execute(wanted).all()
        return [
            Token(
                id=row.id,
                name=row.name,
                role=row.role,
                created=datetime.fromisoformat(row.created),
                expires=datetime.fromisoformat(row.expires),
                by=row.by,
                revoked=moment(row.revoked or row.parent_revoked),
                parent=row.parent,
            )
            for row in rows
        ]

    def _add(self, name: str, role: str, expires: datetime, by: str, parent: str | None) -> tuple[str, str]:
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        text = f"dpx_{id}_{secret}"
        time = audit.now()
        secret_hash = self._hashed(text, secrets.token_bytes(16))
        row = {
            "id": id,
            "name": name,
            "role": role,
            "secret_hash": secret_hash,
            "created": time,
            "expires": utc_text(expires),
            "by": by,
            "parent": parent,
        }
        action = audit.TOKEN_CREATED if parent is None else audit.SESSION_CREATED
        with self._store.writing() as connection:
            audit.append_change(
                connection, by, action, None, {TOKENS: audit.insert(connection, TOKENS, row)}, time
            )
        self._remember(text, secret_hash)
        return id, text

    def _fits(self, text: str, secret_hash: str) -> bool:
        with self._cache_lock:
            if self._verified.get(_digest(text)) == secret_hash:
                self._verified.move_to_end(_digest(text))
                return True
        _, salt, _ = secret_hash.split("$")
        if not hmac.compare_digest(self._hashed(text, bytes.fromhex(salt)), secret_hash):
            return False
        self._remember(text, secret_hash)
        return True

    def _hashed(self, text: str, salt: bytes) -> str:
        with self._scrypt_lock:
            key = hashlib.scrypt(text.encode(), salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P)
        return f"scrypt-{_SCRYPT_N}-{_SCRYPT_R}-{_SCRYPT_P}${salt.hex()}${key.hex()}"

    def _remember(self, text: str, secret_hash: str) -> None:
        with self._cache_lock:
            self._verified[_digest(text)] = secret_hash
            while len(self._verified) > _REMEMBERED:
                self._verified.popitem(last=False)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _valid(row: sa.Row[Any]) -> bool:
    """Neither revoked nor expired, nor its parent."""
    now = datetime.now(UTC)
    ends = [datetime.fromisoformat(end) for end in (row.expires, row.parent_expires) if end is not None]
    return row.revoked is None and row.parent_revoked is None and now < min(ends)
