"""The audit log: complete, chained, and at odds with whoever changes the ledger behind its back."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from ledger_contract import reserve

from dpxplain.errors import BadRequest
from dpxplain.ledger.tables import APPEND_ONLY

WHY = {"reason": "study 7", "by": "carol"}


def live(ledger):
    """A short life with everything in it; the last record is a release."""
    ledger.grant("adult", "ann", 0.5, expires=datetime.now(UTC) + timedelta(days=1), **WHY)
    ann = ledger.account("ann")
    reserve(ann, 0.1, key="interrupted")
    ann.release(reserve(ann, 0.1), '{"answer": 1}')
    ledger.top_up("adult", 0.5, **WHY)
    ledger.open_dataset("adult", 2.0, 1e-6)
    ledger.share("adult", "ann", "ben", **WHY)
    token, _ = ledger.tokens.create(
        "ann", "analyst", expires=datetime.now(UTC) + timedelta(days=1), by="carol"
    )
    ledger.tokens.revoke(token, "carol")
    ledger.note("ann", "signed in", None, {"address": "::1", "tries": {1: "one", 10: "ten", 9: "nine"}})
    ledger.release(reserve(ledger, 0.25), '{"answer": 2}')


@pytest.fixture
def lived(ledger):
    live(ledger)
    assert ledger.verify_audit().problems == []
    return ledger


def change(ledger, table, *statements):
    """Change the database as somebody would who may do anything with it."""
    with ledger._store.updating() as connection:
        if connection.dialect.name == "sqlite":
            for event in ("UPDATE", "DELETE"):
                connection.exec_driver_sql(f"DROP TRIGGER {table}_keeps_its_rows_on_{event}")
        else:
            connection.exec_driver_sql(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        for statement in statements:
            assert connection.exec_driver_sql(statement).rowcount > 0


def test_every_change_leaves_one_record(lived):
    assert [(record.actor, record.action, record.dataset) for record in lived.audit()] == [
        ("", "data set opened", "adult"),
        ("carol", "allowance granted", "adult"),
        ("ann", "reserved", "adult"),
        ("ann", "reserved", "adult"),
        ("ann", "released", "adult"),
        ("carol", "topped up", "adult"),
        ("", "limit changed", "adult"),
        ("carol", "shared", "adult"),
        ("carol", "token created", None),
        ("carol", "token revoked", None),
        ("ann", "signed in", None),
        ("", "reserved", "adult"),
        ("", "released", "adult"),
    ]
    records = lived.audit()
    assert [record.id for record in records] == list(range(1, 14))
    assert [record.time for record in records] == sorted(record.time for record in records)


def test_hash_is_sha256_of_the_previous_hash_and_the_record_as_json(lived):
    previous = "0" * 64
    for record in lived.audit():
        assert record.previous == previous
        content = {
            "id": record.id,
            "time": record.time.isoformat(),
            "actor": record.actor,
            "action": record.action,
            "dataset": record.dataset,
            "details": record.details,
        }
        text = previous + json.dumps(content, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(text.encode()).hexdigest()
        assert record.hash == previous
    assert lived.verify_audit().head == previous


def test_release_is_recorded_by_its_hash_and_a_charge_in_whole_units(lived):
    reserved, released = (record.details for record in lived.audit(after=11))
    assert reserved["entry"]["charge_units"] == 250_000_000_000
    assert reserved["entry"]["spends"] == [["gaussian", 0.25]]
    assert released == {
        "release": {"entry": reserved["entry"]["id"], "sha256": hashlib.sha256(b'{"answer": 2}').hexdigest()}
    }


def test_log_is_read_in_pages(lived):
    assert [record.id for record in lived.audit(limit=2)] == [1, 2]
    assert [record.id for record in lived.audit(after=2, limit=2)] == [3, 4]
    assert lived.audit(after=13) == lived.audit(after=2**70) == lived.audit(limit=0) == []
    assert len(lived.audit(after=-(2**70))) == 13


def test_refused_request_leaves_no_record(ledger):
    before = ledger.audit()
    with pytest.raises(BadRequest):
        ledger.top_up("adult", 0.1, reason="", by="carol")
    with pytest.raises(Exception, match="no allowance"):
        reserve(ledger.account("ann"), 0.1)
    assert ledger.audit() == before


def test_note_cannot_pass_for_a_change(ledger):
    with pytest.raises(BadRequest, match="'reserved'"):
        ledger.note("mallory", "reserved", "adult", {"entry": {"id": 7}})
    ledger.note("mallory", "remark", "adult", {"entry": {"id": 7}})
    assert ledger.verify_audit().problems == []


def test_verification_counts_and_names_the_head_even_of_an_empty_log(place):
    from dpxplain.ledger.opening import open_ledger

    ledger = open_ledger(place)
    report = ledger.verify_audit()
    assert (report.records, report.head, report.problems, report.intact) == (0, "0" * 64, [], True)
    live_head = report.head
    ledger.open_dataset("adult", 1.0, 1e-6)
    assert ledger.verify_audit(head=live_head).intact
    ledger.close()


def test_database_itself_refuses_to_change_or_delete_a_row(lived):
    for table in APPEND_ONLY:
        column = next(iter(table.columns)).name
        for statement in (f"UPDATE {table.name} SET {column} = {column}", f"DELETE FROM {table.name}"):
            refused = pytest.raises(sa.exc.DBAPIError, match="append-only")
            with refused, lived._store._engine.connect() as connection:
                connection.exec_driver_sql(statement)
    assert lived.verify_audit().problems == []


TAMPERINGS = {
    "a changed charge": ("entries", ["UPDATE entries SET charge_units = 1 WHERE id = 2"], "entry 2 is not"),
    "a changed total": (
        "entries",
        ["UPDATE entries SET total_units = 1 WHERE id = 6"],
        "entry 6 does not add",
    ),
    "a charge moved to another analyst": (
        "entries",
        ["UPDATE entries SET analyst = 'ben' WHERE id = 2"],
        "entry 2 is not",
    ),
    "a changed request": ("entries", ["UPDATE entries SET request = '{' WHERE id = 2"], "entry 2 is not"),
    "a changed payload": (
        "releases",
        ["""UPDATE releases SET payload = '{"answer": 3}' WHERE entry = 3"""],
        "release 3 is not",
    ),
    "a deleted entry": ("entries", ["DELETE FROM entries WHERE id = 2"], "entry 2 is gone"),
    "a deleted release": ("releases", ["DELETE FROM releases WHERE entry = 3"], "release 3 is gone"),
    "an inserted entry": (
        "entries",
        [
            "INSERT INTO entries (id, dataset, analyst, time, kind, key, description, charge_units, "
            "total_units, own_units, spends) "
            "VALUES (99, 'adult', 'ann', 't', 'query', 'k', 'd', 1, 450000000001, 200000000001, '[]')"
        ],
        "knows no entry 99",
    ),
    "an inserted release": (
        "releases",
        ["INSERT INTO releases (entry, payload) VALUES (2, '{}')"],
        "knows no release 2",
    ),
    "a raised limit": ("limits", ["UPDATE limits SET declared_units = 9"], "limit 1 is not"),
    "a raised allowance": ("grants", ["UPDATE grants SET limit_units = 9"], "grant 1 is not"),
    "a later expiry": ("grants", ["UPDATE grants SET expires = NULL"], "grant 1 is not"),
    "a redirected share": ("shares", ["UPDATE shares SET reader = '*'"], "share 1 is not"),
    "a promoted token": ("tokens", ["UPDATE tokens SET role = 'curator'"], "it was altered"),
    "another secret": ("tokens", ["UPDATE tokens SET secret_hash = 'x'"], "it was altered"),
    "a revocation undone": ("revocations", ["DELETE FROM revocations"], "is gone"),
    "an altered record": ("log", ["UPDATE log SET actor = 'ben' WHERE id = 3"], "record 3 was altered"),
    "an unreadable record": ("log", ["UPDATE log SET details = '[' WHERE id = 3"], "record 3 was altered"),
    "a removed record": ("log", ["DELETE FROM log WHERE id = 11"], "record 12 does not follow"),
    "a removed beginning": ("log", ["DELETE FROM log WHERE id = 1"], "record 2 does not follow"),
    "a log without its end": ("log", ["DELETE FROM log WHERE id = 13"], "knows no release"),
    "reordered records": (
        "log",
        [
            "UPDATE log SET id = 100 WHERE id = 3",
            "UPDATE log SET id = 3 WHERE id = 4",
            "UPDATE log SET id = 4 WHERE id = 100",
        ],
        "record 3 was altered",
    ),
    "a removed record whose neighbour was tied over": (
        "log",
        [
            "UPDATE log SET previous = (SELECT previous FROM log WHERE id = 11) WHERE id = 12",
            "DELETE FROM log WHERE id = 11",
        ],
        "record 12 was altered",
    ),
}


@pytest.mark.parametrize(("table", "statements", "problem"), TAMPERINGS.values(), ids=TAMPERINGS)
def test_verification_catches(lived, table, statements, problem):
    change(lived, table, *statements)
    report = lived.verify_audit()
    assert not report.intact
    assert any(problem in each for each in report.problems), report.problems


def test_cut_tail_shows_only_by_a_noted_head(lived):
    entry = lived.history("adult")[-1].id
    noted = [record.hash for record in lived.audit()]
    change(lived, "releases", f"DELETE FROM releases WHERE entry = {entry}")
    change(lived, "entries", f"DELETE FROM entries WHERE id = {entry}")
    change(lived, "log", "DELETE FROM log WHERE id > 11")
    assert lived.verify_audit().intact
    report = lived.verify_audit(head=noted[-1])
    assert report.problems == ["The noted head is not in the log: its end was cut off, or it was rewritten."]
    assert report.head == noted[10]
    assert lived.verify_audit(head=noted[10]).intact


def test_head_noted_earlier_stays_valid_while_the_log_grows(lived):
    noted = lived.verify_audit().head
    reserve(lived, 0.1)
    assert lived.verify_audit(head=noted).intact


def test_rewritten_log_with_new_hashes_shows_by_a_noted_head(lived):
    noted = lived.verify_audit().head
    change(lived, "log", "DELETE FROM log WHERE id >= 11")
    change(lived, "releases", "DELETE FROM releases WHERE entry = (SELECT max(id) FROM entries)")
    change(lived, "entries", "DELETE FROM entries WHERE id = (SELECT max(id) FROM entries)")
    lived.note("mallory", "nothing to see", None, {})
    assert lived.verify_audit().intact
    assert not lived.verify_audit(head=noted).intact
