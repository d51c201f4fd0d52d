"""Bearer tokens: whom they identify, in which role, until when.

A token's text is shown once and only its SHA-256 is stored, so a copy of the ledger authenticates nobody. A
secret of 256 random bits cannot be guessed, so a slow hash would protect nothing more.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.protocol import Identity, Token, damage_explained
from dpxplain.ledger.standing import moment
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import REVOCATIONS, SESSIONS, TOKENS
from dpxplain.ledger.validation import FOREIGN, check_name, utc_text

ROLES = ("analyst", "curator")

_FORM = re.compile(r"dpx_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
# Those with a parent are browser sessions of older versions, which have ended.
_WITH_STATE = (
    sa.select(TOKENS, REVOCATIONS.c.time.label("revoked"))
    .outerjoin(REVOCATIONS, REVOCATIONS.c.token == TOKENS.c.id)
    .where(TOKENS.c.parent.is_(None))
)
_BY_ID = _WITH_STATE.where(TOKENS.c.id == sa.bindparam("id"))


class Tokens:
    """The tokens of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(
        self, name: str, role: str, *, expires: datetime, by: str, maker: str | None = None
    ) -> tuple[str, str]:
        """A new token's id and its text, which cannot be shown again.

        `maker` is the id of the curator's token that it is made with, and that it ends with if that is
        revoked; None where no token was needed, as by a command on the ledger itself.
        """
        if check_name(name).startswith(FOREIGN):
            raise BadRequest(
                f"Names that begin with {FOREIGN!r} are the OIDC issuer's.", remedy="Choose another name."
            )
        if role not in ROLES:
            raise BadRequest(f"There is no role {role!r}.", remedy="Use 'analyst' or 'curator'.")
        if datetime.fromisoformat(utc_text(expires)) <= datetime.now(UTC):
            raise BadRequest("The token would expire before it is used.", remedy="Choose a later time.")
        id, text = new_secret()
        time = audit.now()
        row = {
            "id": id,
            "name": name,
            "role": role,
            "secret_hash": hashed(text),
            "created": time,
            "expires": utc_text(expires),
            "by": by,
            "maker": maker,
        }
        with self._store.recording() as connection:
            if maker is not None:
                usable_token(connection, maker)
            rows = {TOKENS: audit.insert(connection, TOKENS, row)}
            audit.append_change(connection, by, audit.TOKEN_CREATED, None, rows, time)
        return id, text

    @damage_explained()
    def authenticate(self, text: str) -> Identity | None:
        """Whom the token identifies; None for any text that is not a valid token now."""
        id = id_of(text)
        if id is None:
            return None
        with self._store.single_read() as connection:
            row = connection.execute(_BY_ID, {"id": id}).one_or_none()
        if row is None or not _is_valid(row) or not matches(text, row.secret_hash):
            return None
        return Identity(row.name, row.role, datetime.fromisoformat(row.expires), row.id)

    def revoke(self, id: str, by: str, *, only: bool = False) -> list[str]:
        """End a token, its sessions and the tokens made with it, for good; returns the ids that it ended.

        With `only`, the tokens made with it stay valid: for a curator who changes tokens. Ending a token
        twice is harmless, and ends what was spared the first time.
        """
        with self._store.recording() as connection:
            if connection.execute(_BY_ID, {"id": id}).one_or_none() is None:
                raise BadRequest(f"There is no token {id!r}.", remedy="Look at the list of tokens.")
            return _end(connection, [id] if only else _with_made(connection, [id]), by)

    def revoke_made_by(self, name: str, by: str) -> tuple[list[str], int]:
        """End every token that this person has made, by whatever means, and those made with these.

        Also ends the browser sessions that they opened with a token of the OIDC issuer, which no token here
        ends. Returns the tokens' ids and the number of these sessions.
        """
        with self._store.recording() as connection:
            made = sa.select(TOKENS.c.id).where(TOKENS.c.by == name, TOKENS.c.parent.is_(None))
            ids = connection.execute(made.order_by(TOKENS.c.created, TOKENS.c.id)).scalars().all()
            now = audit.now()
            own = (SESSIONS.c.name == name, SESSIONS.c.token.is_(None), SESSIONS.c.expires > now)
            sessions = connection.execute(sa.update(SESSIONS).where(*own).values(expires=now)).rowcount
            if sessions:
                details = {"name": name, "sessions": sessions}
                audit.append(connection, by, audit.SESSIONS_ENDED, None, details)
            return _end(connection, _with_made(connection, ids), by), sessions

    @damage_explained()
    def list(self) -> list[Token]:
        """Every token ever made, oldest first."""
        with self._store.reading() as connection:
            rows = connection.execute(_WITH_STATE.order_by(TOKENS.c.created, TOKENS.c.id)).all()
        return [
            Token(
                id=row.id,
                name=row.name,
                role=row.role,
                created=datetime.fromisoformat(row.created),
                expires=datetime.fromisoformat(row.expires),
                by=row.by,
                revoked=moment(row.revoked),
                maker=row.maker,
            )
            for row in rows
        ]


def usable_token(connection: sa.Connection, id: str) -> sa.Row[Any]:
    """The row of a token that is neither revoked nor expired; BadRequest for any other."""
    row = connection.execute(_BY_ID, {"id": id}).one_or_none()
    if row is None or not _is_valid(row):
        raise BadRequest("The token has expired or was revoked.", remedy="Sign in with another token.")
    return row


def new_secret() -> tuple[str, str]:
    """A new id, and the text with the secret that belongs to it."""
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return id, f"dpx_{id}_{secret}"


def id_of(text: str) -> str | None:
    """The id in the text of a token or session; None if it has not the form of one."""
    form = _FORM.fullmatch(text)
    return None if form is None else form[1]


def hashed(text: str) -> str:
    return f"sha256${hashlib.sha256(text.encode()).hexdigest()}"


def matches(text: str, secret_hash: str) -> bool:
    """Whether the hash is of this text; hashes by scrypt were stored until version 4 of the ledger."""
    algorithm, _, digest = secret_hash.partition("$")
    if algorithm == "scrypt-16384-8-1":
        salt, _, digest = digest.partition("$")
        key = hashlib.scrypt(text.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=1)
        return hmac.compare_digest(key.hex(), digest)
    return hmac.compare_digest(hashed(text), secret_hash)


@damage_explained()
def _is_valid(row: sa.Row[Any]) -> bool:
    return row.revoked is None and datetime.now(UTC) < datetime.fromisoformat(row.expires)


def _with_made(connection: sa.Connection, ids: Iterable[str]) -> list[str]:
    """The tokens, those made with them, those made with these, and so on."""
    family = list(dict.fromkeys(ids))
    made_with = sa.select(TOKENS.c.id).where(TOKENS.c.maker == sa.bindparam("maker"))
    for id in family:  # grows while it is read: a token is made after its maker, so there is no circle
        made = connection.execute(made_with.order_by(TOKENS.c.created, TOKENS.c.id), {"maker": id})
        family += [child for child in made.scalars() if child not in family]
    return family


def _end(connection: sa.Connection, ids: Iterable[str], by: str) -> list[str]:
    """Revoke those that are not revoked yet, each with a record of its own."""
    time, ended = audit.now(), []
    is_revoked = sa.select(REVOCATIONS.c.token).where(REVOCATIONS.c.token == sa.bindparam("token"))
    for id in ids:
        if connection.execute(is_revoked, {"token": id}).one_or_none() is None:
            rows = {REVOCATIONS: audit.insert(connection, REVOCATIONS, {"token": id, "time": time, "by": by})}
            audit.append_change(connection, by, audit.TOKEN_REVOKED, None, rows, time)
            ended.append(id)
    return ended
