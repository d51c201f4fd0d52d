"""Credentials: bearer tokens, and the browser sessions that are opened with them. Each identifies a person in
a role until a time.

A token's text is shown once and only its SHA-256 is stored, so a copy of the ledger authenticates nobody. A
secret of 256 random bits cannot be guessed, so a slow hash would protect nothing more. Browser sessions are
deleted a day after their end, and their number per person is bounded. The audit log records only a person's
first sign-in of a day with each token, so that repeated sign-ins do not make it grow.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.balances import moment
from dpxplain.ledger.protocol import OIDC_PREFIX, Identity, Token, check_name, damage_explained, utc_text
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import REVOCATIONS, SESSIONS, TOKENS

ROLES = ("analyst", "curator")

_TOKEN_FORM = re.compile(r"dpx_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_WITH_STATE = sa.select(TOKENS, REVOCATIONS.c.time.label("revoked")).outerjoin(
    REVOCATIONS, REVOCATIONS.c.token == TOKENS.c.id
)
_BY_ID = _WITH_STATE.where(TOKENS.c.id == sa.bindparam("id"))


def check_new_token(name: str, role: str, expires: datetime) -> None:
    """Raises if no token can be made with this name, role and expiry."""
    if check_name(name).startswith(OIDC_PREFIX):
        raise BadRequest(
            f"Names that begin with {OIDC_PREFIX!r} are reserved for people who sign in through the OIDC "
            "issuer.",
            remedy="Choose another name.",
        )
    if role not in ROLES:
        raise BadRequest(f"There is no role {role!r}.", remedy="Use 'analyst' or 'curator'.")
    if datetime.fromisoformat(utc_text(expires)) <= datetime.now(UTC):
        raise BadRequest("This expiry time is in the past.", remedy="Choose a later time.")


class Tokens:
    """The tokens of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(
        self, name: str, role: str, *, expires: datetime, by: str, maker: str | None = None
    ) -> tuple[str, str]:
        """A new token's id and its text, which cannot be shown again.

        `maker` is the id of the curator's token that was used to make it: revoking that token ends this one
        too. It is None if no token was needed, as for a command on the ledger itself.
        """
        check_new_token(name, role, expires)
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
        """The person that the token identifies; None for any text that is not a valid token now."""
        id = id_of(text)
        if id is None:
            return None
        with self._store.single_read() as connection:
            row = connection.execute(_BY_ID, {"id": id}).one_or_none()
        if row is None or not _is_valid(row) or not matches(text, row.secret_hash):
            return None
        return Identity(row.name, row.role, datetime.fromisoformat(row.expires), row.id)

    def revoke(self, id: str, by: str, *, only: bool = False) -> list[str]:
        """Ends a token, its sessions and the tokens made with it, for good. Returns the ids of all ended.

        With `only`, the tokens made with it stay valid, for a curator who replaces their own token. A token
        can be revoked again, without `only`, to end those tokens too.
        """
        with self._store.recording() as connection:
            if connection.execute(_BY_ID, {"id": id}).one_or_none() is None:
                raise BadRequest(f"There is no token {id!r}.", remedy="Look at the list of tokens.")
            return _revoke(connection, [id] if only else _with_descendants(connection, [id]), by)

    def revoke_made_by(self, name: str, by: str) -> tuple[list[str], int]:
        """Ends every token that this person has made, by any means, and the tokens made with these.

        Also ends the browser sessions that the person opened with a token of the OIDC issuer, because
        revoking tokens does not end them. Returns the tokens' ids and the number of these sessions.
        """
        with self._store.recording() as connection:
            tokens = sa.select(TOKENS.c.id).where(TOKENS.c.by == name)
            ids = connection.execute(tokens.order_by(TOKENS.c.created, TOKENS.c.id)).scalars().all()
            now = audit.now()
            own = (SESSIONS.c.name == name, SESSIONS.c.token.is_(None), SESSIONS.c.expires > now)
            sessions = connection.execute(sa.update(SESSIONS).where(*own).values(expires=now)).rowcount
            if sessions:
                details = {"name": name, "sessions": sessions}
                audit.append(connection, by, audit.SESSIONS_ENDED, None, details)
            return _revoke(connection, _with_descendants(connection, ids), by), sessions

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
    """The row of a token that is neither revoked nor expired. Raises BadRequest for any other."""
    row = connection.execute(_BY_ID, {"id": id}).one_or_none()
    if row is None or not _is_valid(row):
        raise BadRequest("The token has expired or was revoked.", remedy="Sign in with another token.")
    return row


def new_secret() -> tuple[str, str]:
    """A new id, and the text with the secret that belongs to it."""
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return id, f"dpx_{id}_{secret}"


def id_of(text: str) -> str | None:
    """The id in the text of a token or session; None if the text does not have their form."""
    match = _TOKEN_FORM.fullmatch(text)
    return None if match is None else match[1]


def hashed(text: str) -> str:
    return f"sha256${hashlib.sha256(text.encode()).hexdigest()}"


def matches(text: str, secret_hash: str) -> bool:
    """Whether the hash is of this text."""
    return hmac.compare_digest(hashed(text), secret_hash)


@damage_explained()
def _is_valid(row: sa.Row[Any]) -> bool:
    return row.revoked is None and datetime.now(UTC) < datetime.fromisoformat(row.expires)


def _with_descendants(connection: sa.Connection, ids: Iterable[str]) -> list[str]:
    """The tokens, and all tokens made with them, directly or through others."""
    tokens = list(dict.fromkeys(ids))
    made_with = sa.select(TOKENS.c.id).where(TOKENS.c.maker == sa.bindparam("maker"))
    for id in tokens:  # the list grows in the loop; a token is newer than its maker, so the loop ends
        children = connection.execute(made_with.order_by(TOKENS.c.created, TOKENS.c.id), {"maker": id})
        tokens += [child for child in children.scalars() if child not in tokens]
    return tokens


def _revoke(connection: sa.Connection, ids: Iterable[str], by: str) -> list[str]:
    """Revokes the tokens that are not revoked yet, each with its own record. Returns their ids."""
    time, ended = audit.now(), []
    revocation = sa.select(REVOCATIONS.c.token).where(REVOCATIONS.c.token == sa.bindparam("token"))
    for id in ids:
        if connection.execute(revocation, {"token": id}).one_or_none() is None:
            rows = {REVOCATIONS: audit.insert(connection, REVOCATIONS, {"token": id, "time": time, "by": by})}
            audit.append_change(connection, by, audit.TOKEN_REVOKED, None, rows, time)
            ended.append(id)
    return ended


SESSION_LIFETIME = timedelta(hours=12)
MOST_SESSIONS = 32
"""Sessions allowed per token, or per person signed in through OIDC. A further one ends the oldest."""

_KEPT_AFTER_END = timedelta(days=1)
_WITH_TOKEN = (
    sa.select(SESSIONS, TOKENS.c.expires.label("token_expires"), REVOCATIONS.c.time.label("token_revoked"))
    .outerjoin(TOKENS, TOKENS.c.id == SESSIONS.c.token)
    .outerjoin(REVOCATIONS, REVOCATIONS.c.token == SESSIONS.c.token)
    .where(SESSIONS.c.id == sa.bindparam("id"))
)


class BrowserSessions:
    """The sessions of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def open(self, identity: Identity, *, lifetime: timedelta = SESSION_LIFETIME) -> tuple[str, str]:
        """A new session's id and text. The session ends with its lifetime or, if earlier, with the token."""
        now = datetime.now(UTC)
        id, text = new_secret()
        with self._store.writing() as connection:
            expires = min(identity.expires, now + lifetime)
            if identity.token is not None:
                expires = min(
                    expires, datetime.fromisoformat(usable_token(connection, identity.token).expires)
                )
            if expires <= now:
                raise BadRequest("The token has expired.", remedy="Sign in with another token.")
            signed_in_lately = _delete_old_sessions(connection, identity, now)
            row = {
                "id": id,
                "name": check_name(identity.name),
                "role": identity.role,
                "secret_hash": hashed(_bound_to_issuer(text, identity.issuer)),
                "created": now.isoformat(),
                "expires": utc_text(expires),
                "token": identity.token,
            }
            audit.insert(connection, SESSIONS, row)
            if not signed_in_lately:
                issuer = {} if identity.issuer is None else {"issuer": identity.issuer}
                details = {"role": identity.role, "token": identity.token, **issuer}
                audit.append(connection, identity.name, audit.SIGNED_IN, None, details)
        return id, text

    @damage_explained()
    def authenticate(self, text: str, *, issuer: str | None = None) -> Identity | None:
        """The person signed in with this text; None if the session, or the token behind it, has ended.

        `issuer` is the OIDC issuer that is trusted now. Sessions opened with another issuer's token
        have ended.
        """
        id = id_of(text)
        if id is None:
            return None
        with self._store.single_read() as connection:
            row = connection.execute(_WITH_TOKEN, {"id": id}).one_or_none()
        if row is None or row.token_revoked is not None:
            return None
        issuer = issuer if row.token is None else None
        if not matches(_bound_to_issuer(text, issuer), row.secret_hash):
            return None
        ends = [datetime.fromisoformat(end) for end in (row.expires, row.token_expires) if end is not None]
        if datetime.now(UTC) >= min(ends):
            return None
        return Identity(row.name, row.role, min(ends), row.token, session=row.id, issuer=issuer)

    def end(self, id: str) -> None:
        """Signs out. Ending a session twice is harmless."""
        with self._store.updating() as connection:
            expiry = sa.update(SESSIONS).where(SESSIONS.c.id == id).values(expires=audit.now())
            connection.execute(expiry)


def _bound_to_issuer(text: str, issuer: str | None) -> str:
    """The text whose hash is stored. It includes the OIDC issuer if the issuer's token opened the session."""
    return text if issuer is None else f"{text} {issuer}"


def _delete_old_sessions(connection: sa.Connection, identity: Identity, now: datetime) -> bool:
    """Deletes sessions to make room for one more. Returns whether the last sign-in was within a day."""
    yesterday = (now - _KEPT_AFTER_END).isoformat()
    connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.expires < yesterday))
    own = (SESSIONS.c.name == identity.name, SESSIONS.c.token.is_not_distinct_from(identity.token))
    sessions = sa.select(SESSIONS.c.id, SESSIONS.c.created).where(*own).order_by(SESSIONS.c.created.desc())
    rows = connection.execute(sessions).all()
    if surplus := [row.id for row in rows[MOST_SESSIONS - 1 :]]:
        connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.id.in_(surplus)))
    return bool(rows) and rows[0].created > yesterday
