"""Tokens: shown once, stored hashed, refused the moment they expire or are revoked."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from dpxplain.errors import BadRequest
from dpxplain.ledger import credentials
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import METADATA


def later(**how_much: float) -> datetime:
    return datetime.now(UTC) + timedelta(**(how_much or {"days": 1}))


def create(ledger, name="ann", role="analyst", expires=None, maker=None):
    return ledger.tokens.create(name, role, expires=expires or later(), by="carol", maker=maker)


def test_token_lets_its_holder_in(ledger):
    id, text = create(ledger, role="curator")
    assert re.fullmatch(r"dpx_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    assert text.startswith(f"dpx_{id}_")
    identity = ledger.tokens.authenticate(text)
    assert (identity.name, identity.role, identity.token, identity.session) == ("ann", "curator", id, None)
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
    with ledger.store.reading() as connection:
        stored = [str(connection.execute(table.select()).all()) for table in METADATA.sorted_tables]
    assert secret not in "".join(stored)
    assert hashlib.sha256(text.encode()).hexdigest() in "".join(stored)
    assert hashlib.sha256(text.encode()).hexdigest() not in str(ledger.audit())
    assert secret not in repr(ledger.tokens.list())


def test_equal_holders_have_different_secrets_and_hashes(ledger):
    texts = {create(ledger)[1] for _ in range(3)}
    with ledger.store.reading() as connection:
        hashes = set(connection.exec_driver_sql("SELECT secret_hash FROM tokens").scalars())
    assert len(texts) == len(hashes) == 3


def test_expired_token_is_refused(ledger, monkeypatch):
    _, text = create(ledger, expires=later(hours=1))
    assert ledger.tokens.authenticate(text) is not None

    class LaterClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return later(hours=2)

    monkeypatch.setattr(credentials, "datetime", LaterClock)
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


@pytest.mark.parametrize("secret_hash", [f"sha256${'0' * 64}", "sha256$", ""])
def test_token_is_refused_once_its_hash_is_replaced(ledger, secret_hash):
    _, text = create(ledger)
    with ledger.store.updating() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER tokens_keeps_its_rows_on_UPDATE")
        else:
            connection.exec_driver_sql("ALTER TABLE tokens DISABLE TRIGGER ALL")
        connection.exec_driver_sql(f"UPDATE tokens SET secret_hash = '{secret_hash}'")
    assert ledger.tokens.authenticate(text) is None


def test_list_tells_everything_but_the_secret(ledger):
    first, _ = create(ledger)
    second, _ = create(ledger, name="ben", role="curator")
    third, _ = create(ledger, name="dora", maker=second)
    ledger.tokens.revoke(third, "carol")
    tokens = {token.id: token for token in ledger.tokens.list()}
    assert list(tokens) == [first, second, third]
    assert (tokens[first].name, tokens[first].role, tokens[first].by) == ("ann", "analyst", "carol")
    assert [token.maker for token in tokens.values()] == [None, None, second]
    assert tokens[first].revoked is tokens[second].revoked is None
    assert tokens[third].revoked is not None


def test_tokens_made_with_a_revoked_token_end_with_it(ledger):
    curator, own = create(ledger, role="curator")
    deputy, deputys = create(ledger, "ben", "curator", maker=curator)
    _, made = create(ledger, "dora", maker=deputy)
    other, others = create(ledger, "eve", "curator")
    assert ledger.tokens.revoke(curator, "eve")[:2] == [curator, deputy]
    assert [ledger.tokens.authenticate(text) for text in (own, deputys, made)] == [None] * 3
    assert ledger.tokens.authenticate(others).token == other
    revoked = [record for record in ledger.audit() if record.action == "token revoked"]
    assert [record.actor for record in revoked] == ["eve"] * 3
    assert all(token.revoked for token in ledger.tokens.list() if token.id != other)
    assert ledger.verify_audit().problems == []


def test_a_curator_who_changes_tokens_keeps_what_the_old_one_made(ledger):
    old, _ = create(ledger, role="curator")
    new, news = create(ledger, role="curator", maker=old)
    _, made = create(ledger, "dora", maker=new)
    assert ledger.tokens.revoke(old, "ann", only=True) == [old]
    assert ledger.tokens.authenticate(news).token == new
    assert len(ledger.tokens.revoke(old, "carol")) == 2  # as it turns out, the old one was stolen
    assert ledger.tokens.authenticate(news) is ledger.tokens.authenticate(made) is None


def test_all_that_a_person_made_ends_at_once_whichever_way_it_was_made(ledger):
    _, spared = create(ledger)
    by_olga = ledger.tokens.create("ben", "curator", expires=later(), by="oidc:olga")
    _, made = create(ledger, "dora", maker=by_olga[0])
    ended, sessions = ledger.tokens.revoke_made_by("oidc:olga", "carol")
    assert (len(ended), sessions) == (2, 0)
    assert ledger.tokens.authenticate(by_olga[1]) is ledger.tokens.authenticate(made) is None
    assert ledger.tokens.authenticate(spared) is not None
    assert ledger.tokens.revoke_made_by("nobody", "carol") == ([], 0)


def test_an_ended_token_makes_no_other(ledger):
    curator, _ = create(ledger, role="curator")
    ledger.tokens.revoke(curator, "carol")
    with pytest.raises(BadRequest, match="revoked"):
        create(ledger, "dora", maker=curator)
    assert len(ledger.tokens.list()) == 1


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
