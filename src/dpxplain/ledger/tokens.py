"""Bearer tokens and browser sessions: whom they identify, in which role, until when.

A token's text is shown once and only its SHA-256 is stored, so a copy of the ledger authenticates nobody. A
secret of 256 random bits cannot be guessed, so a slow hash would protect nothing more.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.protocol import Identity, Token, damage_explained
from dpxplain.ledger.standing import moment
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import REVOCATIONS, TOKENS
from dpxplain.ledger.validation import FOREIGN, check_name, utc_text

ROLES = ("analyst", "curator")
SESSION_LIFETIME = timedelta(hours=12)

_FORM = re.compile(r"dpx_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")

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

    @damage_explained()
    def authenticate(self, text: str) -> Identity | None:
        """Whom the token identifies; None for any text that is not a valid token now."""
        form = _FORM.fullmatch(text)
        if form is None:
            return None
        with self._store.single_read() as connection:
            row = connection.execute(_WITH_STATE.where(TOKENS.c.id == form[1])).one_or_none()
        if row is None or not _valid(row) or not _matches(text, row.secret_hash):
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

    @damage_explained()
    def list(self, *, sessions: bool = False) -> list[Token]:
        """Every token ever made, oldest first; browser sessions only if asked for."""
        tokens = _WITH_STATE.order_by(TOKENS.c.created, TOKENS.c.id)
        if not sessions:
            tokens = tokens.where(TOKENS.c.parent.is_(None))
        with self._store.reading() as connection:
            rows = connection.execute(tokens).all()
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
        row = {
            "id": id,
            "name": name,
            "role": role,
            "secret_hash": _hashed(text),
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
        return id, text


def _hashed(text: str) -> str:
    return f"sha256${hashlib.sha256(text.encode()).hexdigest()}"


def _matches(text: str, secret_hash: str) -> bool:
    """Whether the hash is of this text; hashes by scrypt were stored until version 4 of the ledger."""
    algorithm, _, digest = secret_hash.partition("$")
    if algorithm == "scrypt-16384-8-1":
        salt, _, digest = digest.partition("$")
        key = hashlib.scrypt(text.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=1)
        return hmac.compare_digest(key.hex(), digest)
    return hmac.compare_digest(_hashed(text), secret_hash)


@damage_explained()
def _valid(row: sa.Row[Any]) -> bool:
    """Whether neither the token nor its parent is revoked or expired."""
    now = datetime.now(UTC)
    ends = [datetime.fromisoformat(end) for end in (row.expires, row.parent_expires) if end is not None]
    return row.revoked is None and row.parent_revoked is None and now < min(ends)
