"""Browser sessions: who is signed in to the page, with which token, until when.

They are forgotten a day after their end, and their number per person is bounded. The audit log tells of a
person's first sign-in of a day only: signing in over and over adds nothing that stays.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.protocol import Identity, damage_explained
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import REVOCATIONS, SESSIONS, TOKENS
from dpxplain.ledger.tokens import hashed, id_of, matches, new_secret, usable_token
from dpxplain.ledger.validation import check_name, utc_text

LIFETIME = timedelta(hours=12)
MOST = 32
"""Sessions per token, or per person of the OIDC issuer; one more ends the oldest."""

_KEPT = timedelta(days=1)
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

    def open(self, identity: Identity, *, lifetime: timedelta = LIFETIME) -> tuple[str, str]:
        """A new session's id and text; it ends with its lifetime or, if earlier, with what was shown."""
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
            signed_in_lately = _forget_old(connection, identity, now)
            row = {
                "id": id,
                "name": check_name(identity.name),
                "role": identity.role,
                "secret_hash": hashed(_bound(text, identity.issuer)),
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
        """Who is signed in with this text; None if the session, or the token behind it, has ended.

        `issuer` is the OIDC issuer that is trusted now: sessions that another one's token opened have ended.
        """
        id = id_of(text)
        if id is None:
            return None
        with self._store.single_read() as connection:
            row = connection.execute(_WITH_TOKEN, {"id": id}).one_or_none()
        if row is None or row.token_revoked is not None:
            return None
        issuer = issuer if row.token is None else None
        if not matches(_bound(text, issuer), row.secret_hash):
            return None
        ends = [datetime.fromisoformat(end) for end in (row.expires, row.token_expires) if end is not None]
        if datetime.now(UTC) >= min(ends):
            return None
        return Identity(row.name, row.role, min(ends), row.token, session=row.id, issuer=issuer)

    def end(self, id: str) -> None:
        """Sign out; ending a session twice is harmless."""
        with self._store.updating() as connection:
            ended = sa.update(SESSIONS).where(SESSIONS.c.id == id).values(expires=audit.now())
            connection.execute(ended)


def _bound(text: str, issuer: str | None) -> str:
    """What the stored hash is of: a session of an issuer's token counts under that issuer only."""
    return text if issuer is None else f"{text} {issuer}"


def _forget_old(connection: sa.Connection, identity: Identity, now: datetime) -> bool:
    """Make room for one more; returns whether the person has signed in within the last day."""
    yesterday = (now - _KEPT).isoformat()
    connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.expires < yesterday))
    own = (SESSIONS.c.name == identity.name, SESSIONS.c.token.is_not_distinct_from(identity.token))
    sessions = sa.select(SESSIONS.c.id, SESSIONS.c.created).where(*own).order_by(SESSIONS.c.created.desc())
    rows = connection.execute(sessions).all()
    if surplus := [row.id for row in rows[MOST - 1 :]]:
        connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.id.in_(surplus)))
    return bool(rows) and rows[0].created > yesterday
