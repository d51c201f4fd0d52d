"""Tokens and browser sessions: shown once, stored hashed, refused the moment they expire or are revoked."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from dpxplain.errors import BadRequest
from dpxplain.ledger import tokens
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import METADATA


def later(**how_much: float) -> datetime:
    return datetime.now(UTC) + timedelta(**(how_much or {"days": 1}))


def create(ledger, name="ann", role="analyst", expires=None):
    return ledger.tokens.create(name, role, expires=expires or later(), by="carol")


def test_token_lets_its_holder_in(ledger):
    id, text = create(ledger, role="curator")
    assert re.fullmatch(r"dpx_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    assert text.startswith(f"dpx_{id}_")
    identity = ledger.tokens.authenticate(text)
    assert (identity.name, identity.role, identity.token, identity.parent) == ("ann", "curator", id, None)
    assert identity.expires > datetime.now(UTC)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text + "A",
        lambda text: text[:-1],
        lambda text: text.upper(),
        lambda text: " " + text,
        lambda text: text + "\n",
        lambda text: "dpx_000000000000_" + text[-43:],
        lambda text: "",
        lambda text: "Zürich\x00\ud800",
    ],
)
def test_anything_else_lets_nobody_in(ledger, spoil):
    _, text = create(ledger)
    assert ledger.tokens.authenticate(spoil(text)) is None


def test_no_stored_row_and_no_record_tells_the_secret(ledger):
    _, text = create(ledger)
    secret = text[-43:]
    with ledger._store.reading() as connection:
        stored = [str(connection.execute(table.select()).all()) for table in METADATA.sorted_tables]
    assert secret not in "".join(stored)
    assert hashlib.sha256(text.encode()).hexdigest() in "".join(stored)
    assert hashlib.sha256(text.encode()).hexdigest() not in str(ledger.audit())
    assert secret not in repr(ledger.tokens.list())


def test_equal_holders_have_different_secrets_and_hashes(ledger):
    texts = {create(ledger)[1] for _ in range(3)}
    with ledger._store.reading() as connection:
        hashes = set(connection.exec_driver_sql("SELECT secret_hash FROM tokens").scalars())
    assert len(texts) == len(hashes) == 3


def test_expired_token_is_refused(ledger, monkeypatch):
    _, text = create(ledger, expires=later(hours=1))
    assert ledger.tokens.authenticate(text) is not None

    class LaterClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return later(hours=2)

    monkeypatch.setattr(tokens, "datetime", LaterClock)
    assert ledger.tokens.authenticate(text) is None


def test_revoked_token_is_refused_at_once_in_every_process(address):
    ledger, other = open_ledger(address), open_ledger(address)
    id, text = create(ledger)
    assert other.tokens.authenticate(text).name == "ann"
    ledger.tokens.revoke(id, "carol")
    assert other.tokens.authenticate(text) is None
    ledger.tokens.revoke(id, "carol")  # twice is harmless
    assert len([record for record in ledger.audit() if record.action == "token revoked"]) == 1
    ledger.close()
    other.close()


@pytest.mark.parametrize("secret_hash", ["scrypt-16384-8-1$00$00", f"sha256${'0' * 64}", "sha256$", ""])
def test_token_is_refused_once_its_hash_is_replaced(ledger, secret_hash):
    _, text = create(ledger)
    with ledger._store.updating() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER tokens_keeps_its_rows_on_UPDATE")
        else:
            connection.exec_driver_sql("ALTER TABLE tokens DISABLE TRIGGER ALL")
        connection.exec_driver_sql(f"UPDATE tokens SET secret_hash = '{secret_hash}'")
    assert ledger.tokens.authenticate(text) is None


def test_session_ends_with_its_token(ledger):
    id, _ = create(ledger, role="curator")
    session, text = ledger.tokens.create_session(id)
    identity = ledger.tokens.authenticate(text)
    assert (identity.name, identity.role, identity.token, identity.parent) == ("ann", "curator", session, id)
    assert identity.expires < later(hours=13)
    ledger.tokens.revoke(id, "carol")
    assert ledger.tokens.authenticate(text) is None
    with pytest.raises(BadRequest, match="revoked"):
        ledger.tokens.create_session(id)


def test_session_never_outlives_its_token_and_ends_alone(ledger):
    id, token = create(ledger, expires=later(minutes=5))
    session, text = ledger.tokens.create_session(id)
    assert ledger.tokens.authenticate(text).expires <= later(minutes=5)
    ledger.tokens.revoke(session, "ann")
    assert ledger.tokens.authenticate(text) is None
    assert ledger.tokens.authenticate(token) is not None
    with pytest.raises(BadRequest):
        ledger.tokens.create_session(session)


def test_list_tells_everything_but_the_secret(ledger):
    first, _ = create(ledger)
    second, _ = create(ledger, name="ben", role="curator")
    session, _ = ledger.tokens.create_session(first)
    ledger.tokens.revoke(second, "carol")
    tokens = {token.id: token for token in ledger.tokens.list()}
    assert list(tokens) == [first, second]
    assert (tokens[first].name, tokens[first].role, tokens[first].by) == ("ann", "analyst", "carol")
    assert tokens[first].revoked is None
    assert tokens[second].revoked is not None
    assert [token.parent for token in ledger.tokens.list(sessions=True) if token.id == session] == [first]


@pytest.mark.parametrize(
    "wish",
    [
        {"role": "admin"},
        {"name": ""},
        {"name": "*"},
        {"expires": datetime(2030, 1, 1)},
        {"expires": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
def test_unusable_wishes_are_refused(ledger, wish):
    with pytest.raises(BadRequest):
        create(ledger, **wish)
    assert ledger.tokens.list() == []


def test_unknown_token_cannot_be_revoked(ledger):
    with pytest.raises(BadRequest, match="'nobody'"):
        ledger.tokens.revoke("nobody", "carol")
