"""Browser sessions: over with what opened them, bounded in number, and next to nothing in the audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import credentials
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.protocol import Identity
from dpxplain.ledger.tables import SESSIONS


def later(**how_much: float) -> datetime:
    return datetime.now(UTC) + timedelta(**(how_much or {"days": 1}))


def holder(ledger, role="analyst", expires=None) -> Identity:
    """Somebody who has just shown a new token."""
    _, text = ledger.tokens.create("ann", role, expires=expires or later(), by="carol")
    identity = ledger.tokens.authenticate(text)
    assert identity is not None
    return identity


def stored(ledger) -> int:
    with ledger.store.reading() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(SESSIONS)).scalar_one())


def at(monkeypatch, **how_much) -> None:
    """Let sessions see a later time."""

    class LaterClock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(**how_much)

    monkeypatch.setattr(credentials, "datetime", LaterClock)


def test_session_ends_with_its_token(ledger):
    ann = holder(ledger, "curator")
    session, text = ledger.sessions.open(ann)
    identity = ledger.sessions.authenticate(text)
    assert (identity.name, identity.role, identity.token) == ("ann", "curator", ann.token)
    assert identity.session == session
    assert identity.expires < later(hours=13)
    ledger.tokens.revoke(ann.token, "carol")
    assert ledger.sessions.authenticate(text) is None
    with pytest.raises(BadRequest, match="revoked"):
        ledger.sessions.open(ann)


def test_session_ends_with_the_token_that_made_its_token(ledger):
    curator = holder(ledger, "curator")
    _, made = ledger.tokens.create("ben", "analyst", expires=later(), by="ann", maker=curator.token)
    _, text = ledger.sessions.open(ledger.tokens.authenticate(made))
    ledger.tokens.revoke(curator.token, "carol")
    assert ledger.sessions.authenticate(text) is None


def test_session_never_outlives_its_token_and_ends_alone(ledger):
    ann = holder(ledger, expires=later(minutes=5))
    session, text = ledger.sessions.open(ann, lifetime=timedelta(days=9))
    assert ledger.sessions.authenticate(text).expires == ann.expires
    other, others = ledger.sessions.open(ann)
    ledger.sessions.end(session)
    ledger.sessions.end(session)  # twice is harmless
    assert ledger.sessions.authenticate(text) is None
    assert ledger.sessions.authenticate(others).session == other


def test_session_of_the_issuers_token_ends_no_later_than_that(ledger, monkeypatch):
    olga = Identity("oidc:olga", "analyst", later(minutes=10), token=None)
    _, text = ledger.sessions.open(olga)
    identity = ledger.sessions.authenticate(text)
    assert (identity.name, identity.token, identity.expires) == ("oidc:olga", None, olga.expires)
    at(monkeypatch, minutes=11)
    assert ledger.sessions.authenticate(text) is None
    with pytest.raises(BadRequest, match="expired"):
        ledger.sessions.open(olga)


def test_sessions_with_the_issuers_tokens_end_with_all_that_the_person_made(ledger):
    olga = Identity("oidc:olga", "curator", later(), token=None)
    texts = [ledger.sessions.open(olga)[1] for _ in range(2)]
    _, others = ledger.sessions.open(Identity("oidc:otto", "curator", later(), token=None))
    _, anns = ledger.sessions.open(holder(ledger))
    assert ledger.tokens.revoke_made_by("oidc:olga", "carol") == ([], 2)
    assert [ledger.sessions.authenticate(text) for text in texts] == [None, None]
    assert None not in (ledger.sessions.authenticate(others), ledger.sessions.authenticate(anns))
    assert ledger.tokens.revoke_made_by("oidc:olga", "carol") == ([], 0)
    assert ledger.verify_audit().problems == []


def test_neither_a_session_is_a_token_nor_a_token_a_session(ledger):
    token = ledger.tokens.create("ann", "analyst", expires=later(), by="carol")[1]
    _, text = ledger.sessions.open(ledger.tokens.authenticate(token))
    assert ledger.sessions.authenticate(token) is None
    assert ledger.tokens.authenticate(text) is None
    assert ledger.sessions.authenticate(text[:-1] + ("A" if text[-1] != "A" else "B")) is None


def test_sessions_of_another_process_are_known_and_end_in_it(address):
    ledger, other = open_ledger(address), open_ledger(address)
    session, text = ledger.sessions.open(holder(ledger))
    assert other.sessions.authenticate(text).session == session
    other.sessions.end(session)
    assert ledger.sessions.authenticate(text) is None
    ledger.close()
    other.close()


def test_signing_in_over_and_over_leaves_one_record_a_day_and_a_bounded_table(ledger, monkeypatch):
    ann, before = holder(ledger), len(ledger.audit())
    for _ in range(credentials.MOST_SESSIONS + 8):
        ledger.sessions.end(ledger.sessions.open(ann)[0])
    assert [record.action for record in ledger.audit(after=before)] == ["signed in"]
    assert ledger.audit(after=before)[0].details == {"role": "analyst", "token": ann.token}
    assert stored(ledger) == credentials.MOST_SESSIONS
    at(monkeypatch, days=1, hours=1)
    ledger.sessions.open(Identity("oidc:olga", "analyst", later(days=3), token=None))
    assert stored(ledger) == 1
    assert [record.actor for record in ledger.audit(after=before)] == ["ann", "oidc:olga"]
    assert ledger.verify_audit().problems == []


def test_one_session_too_many_ends_the_oldest(ledger):
    ann = holder(ledger)
    texts = [ledger.sessions.open(ann)[1] for _ in range(credentials.MOST_SESSIONS + 1)]
    assert ledger.sessions.authenticate(texts[0]) is None
    assert None not in [ledger.sessions.authenticate(text) for text in texts[1:]]


def test_no_stored_row_tells_a_sessions_secret(ledger):
    _, text = ledger.sessions.open(holder(ledger))
    with ledger.store.reading() as connection:
        assert text[-43:] not in str(connection.execute(SESSIONS.select()).all())
