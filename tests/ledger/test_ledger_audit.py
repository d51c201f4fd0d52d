"""The audit log: complete, chained, and at odds with whoever changes the ledger behind its back."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from ledger_contract import reserve

from dpxplain.errors import BadRequest
from dpxplain.ledger.balances import Standing
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import APPEND_ONLY, fill_accounts
from dpxplain.model.confidential import ContentDigest

WHY = {"reason": "study 7", "by": "carol"}

# Nobody but us can reach a ledger in memory to tamper with it.
on_disk = pytest.mark.parametrize("place", ["file", "postgres"], indirect=True)


def live(ledger):
    """A short life with everything in it; the last record is a release."""
    ledger.grant("adult", "ann", 0.5, expires=datetime.now(UTC) + timedelta(days=1), **WHY)
    ledger.versions.open("adult", "2026-11", ContentDigest.of(b"rows"), by="carol")
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


def recount(ledger):
    """What follows from the entries, written anew: as somebody does who cuts all of them consistently."""
    with ledger.store.writing() as connection:
        fill_accounts(connection)


def change(ledger, table, *statements):
    """Change the database as somebody would who may do anything with it."""
    with ledger.store.updating() as connection:
        if connection.dialect.name == "sqlite":
            found = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
            guards = connection.exec_driver_sql(found, (table,)).all()
            off = [f"DROP TRIGGER {guard.name}" for guard in guards]
            on = [guard.sql for guard in guards]
        else:
            off, on = ([f"ALTER TABLE {table} {how} TRIGGER ALL"] for how in ("DISABLE", "ENABLE"))
        for statement in off:
            connection.exec_driver_sql(statement)
        for statement in statements:
            assert connection.exec_driver_sql(statement).rowcount > 0
        for statement in on:
            connection.exec_driver_sql(statement)


def test_every_change_leaves_one_record(lived):
    assert [(record.actor, record.action, record.dataset) for record in lived.audit()] == [
        ("", "data set opened", "adult"),
        ("carol", "allowance granted", "adult"),
        ("carol", "data version opened", "adult"),
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
    assert [record.id for record in records] == list(range(1, 15))
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
    reserved, released = (record.details for record in lived.audit(after=12))
    assert reserved["entry"]["charge_units"] == 250_000_000_000
    assert reserved["entry"]["spends"] == [["gaussian", 0.25]]
    assert released == {
        "release": {"entry": reserved["entry"]["id"], "sha256": hashlib.sha256(b'{"answer": 2}').hexdigest()}
    }


def test_log_is_read_in_pages(lived):
    assert [record.id for record in lived.audit(limit=2)] == [1, 2]
    assert [record.id for record in lived.audit(after=2, limit=2)] == [3, 4]
    assert lived.audit(after=14) == lived.audit(after=2**70) == lived.audit(limit=0) == []
    assert len(lived.audit(after=-(2**70))) == 14


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
            with refused, lived.store.engines[0].connect() as connection:
                connection.exec_driver_sql(statement)
    assert lived.verify_audit().problems == []


@on_disk
@pytest.mark.parametrize("table", APPEND_ONLY, ids=lambda table: table.name)
def test_database_itself_refuses_to_replace_a_row(lived, table):
    key = next(iter(table.primary_key.columns))
    names = [f'"{column.name}"' for column in table.columns]
    if lived.store.engines[0].dialect.name == "sqlite":
        other = {f'"{key.name}"': "'another key'" if isinstance(key.type, sa.Text) else "rowid"}
        disguised = {f'"{key.name}"': f"CAST({key.name} AS TEXT)"}
        replacements = [
            f"INSERT OR REPLACE INTO {table.name} SELECT * FROM {table.name}",
            f"REPLACE INTO {table.name} ({', '.join(names)}) "
            f"SELECT {', '.join(disguised.get(name, name) for name in names)} FROM {table.name}",
            # By the number of the row, which is not always its key.
            f"INSERT OR REPLACE INTO {table.name} (rowid, {', '.join(names)}) "
            f"SELECT rowid, {', '.join(other.get(name, name) for name in names)} FROM {table.name}",
        ]
    else:
        replacements = [
            f"INSERT INTO {table.name} SELECT * FROM {table.name} "
            f'ON CONFLICT ({key.name}) DO UPDATE SET "{column.name}" = EXCLUDED."{column.name}"'
            for column in table.columns
        ]
    for statement in replacements:
        refused = pytest.raises(sa.exc.DBAPIError, match="append-only")
        with refused, lived.store.engines[0].connect() as connection:
            connection.exec_driver_sql(statement)
    assert lived.verify_audit().problems == []


TAMPERINGS = {
    "a changed charge": (
        "entries",
        ["UPDATE entries SET charge_units = 1 WHERE id = 2"],
        "entry 2 was altered",
    ),
    "a changed total": (
        "entries",
        ["UPDATE entries SET total_units = 1 WHERE id = 6"],
        "total of entry 6 does not match",
    ),
    "a charge moved to another analyst": (
        "entries",
        ["UPDATE entries SET analyst = 'ben' WHERE id = 2"],
        "entry 2 was altered",
    ),
    "a changed request": (
        "entries",
        ["UPDATE entries SET request = '{' WHERE id = 2"],
        "entry 2 was altered",
    ),
    "a changed payload": (
        "releases",
        ["""UPDATE releases SET payload = '{"answer": 3}' WHERE entry = 3"""],
        "release 3 was altered",
    ),
    "a deleted entry": ("entries", ["DELETE FROM entries WHERE id = 2"], "entry 2 was deleted"),
    "a deleted release": ("releases", ["DELETE FROM releases WHERE entry = 3"], "release 3 was deleted"),
    "an inserted entry": (
        "entries",
        [
            "INSERT INTO entries (id, dataset, analyst, time, kind, key, description, charge_units, "
            "total_units, own_units, spends) "
            "VALUES (99, 'adult', 'ann', 't', 'query', 'k', 'd', 1, 450000000001, 200000000001, '[]')"
        ],
        "entry 99 was inserted",
    ),
    "an inserted release": (
        "releases",
        ["INSERT INTO releases (entry, payload) VALUES (2, '{}')"],
        "release 2 was inserted",
    ),
    "a raised limit": ("limits", ["UPDATE limits SET declared_units = 9"], "limit 1 was altered"),
    "a raised allowance": ("grants", ["UPDATE grants SET limit_units = 9"], "grant 1 was altered"),
    "a later expiry": ("grants", ["UPDATE grants SET expires = NULL"], "grant 1 was altered"),
    "a redirected share": ("shares", ["UPDATE shares SET reader = '*'"], "share 1 was altered"),
    "a promoted token": (
        "tokens",
        ["UPDATE tokens SET role = 'curator'"],
        "was altered: it differs from the log",
    ),
    "another secret": (
        "tokens",
        ["UPDATE tokens SET secret_hash = 'x'"],
        "was altered: it differs from the log",
    ),
    "a revocation undone": ("revocations", ["DELETE FROM revocations"], "was deleted"),
    "an altered record": ("log", ["UPDATE log SET actor = 'ben' WHERE id = 3"], "record 3 was altered"),
    "an unreadable record": ("log", ["UPDATE log SET details = '[' WHERE id = 3"], "record 3 was altered"),
    "a removed record": ("log", ["DELETE FROM log WHERE id = 11"], "record 12 does not follow"),
    "a removed beginning": ("log", ["DELETE FROM log WHERE id = 1"], "record 2 does not follow"),
    "a log without its end": ("log", ["DELETE FROM log WHERE id = 14"], "was inserted"),
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


@on_disk
@pytest.mark.parametrize(("table", "statements", "problem"), TAMPERINGS.values(), ids=TAMPERINGS)
def test_verification_catches(lived, table, statements, problem):
    change(lived, table, *statements)
    report = lived.verify_audit()
    assert not report.intact
    assert any(problem in each for each in report.problems), report.problems


STRANGE = {
    "NaN in a request": ("entries", "request = 'NaN'", "id = 2", "entry 2 was altered"),
    "infinity in the spends": ("entries", "spends = '[[\"x\", 1e999]]'", "id = 2", "entry 2 was altered"),
    "JSON too deep to read": ("entries", f"request = '{'[' * 100_000}'", "id = 2", "entry 2 was altered"),
    "an infinite delta": ("limits", "delta = {infinity}", "id = 1", "limit 1 was altered"),
    "NaN in a record": ("log", """details = '{{"entry": NaN}}'""", "id = 3", "record 3 was altered"),
    "infinity in a record": ("log", """details = '{{"entry": {{"id": 1e999}}}}'""", "id = 3", "record 3 was"),
    "a list for a key": ("log", """details = '{{"entry": {{"id": []}}}}'""", "id = 3", "record 3 cannot be"),
    "a list for a limit": ("log", """details = '{{"limit": [1]}}'""", "id = 1", "record 1 cannot be read"),
    "JSON that is no object": ("log", "details = '7'", "id = 3", "record 3 cannot be read"),
}


@on_disk
@pytest.mark.parametrize(("table", "change_to", "where", "problem"), STRANGE.values(), ids=STRANGE)
def test_verification_survives(lived, table, change_to, where, problem):
    infinity = "9e999" if lived.store.engines[0].dialect.name == "sqlite" else "'Infinity'"
    change(lived, table, f"UPDATE {table} SET {change_to.format(infinity=infinity)} WHERE {where}")
    report = lived.verify_audit()
    assert any(problem in each for each in report.problems), report.problems


BYTES = {
    "a payload": ("releases", "payload", "entry = 3", "release 3 was altered"),
    "spends": ("entries", "spends", "id = 2", "entry 2 was altered"),
    "a charge": ("entries", "charge_units", "id = 2", "total of entry 2 does not match"),
    "a data set": ("entries", "dataset", "id = 2", "entry 2 was altered"),
    "a limit": ("limits", "declared_units", "id = 1", "limit 1 was altered"),
    "a time": ("shares", "time", "id = 1", "share 1 was altered"),
    "a secret": ("tokens", "secret_hash", "true", "was altered: it differs from the log"),
    "details": ("log", "details", "id = 3", "record 3 was altered"),
    "a hash": ("log", "hash", "id = 3", "record 3 was altered"),
    "a previous hash": ("log", "previous", "id = 3", "record 3 was altered"),
    "an action": ("log", "action", "id = 3", "record 3 was altered"),
}


@pytest.mark.parametrize("written", ["CAST({0} AS BLOB)", "x'ff'", "CAST(x'ff80' AS TEXT)"])
@pytest.mark.parametrize(("table", "column", "where", "problem"), BYTES.values(), ids=BYTES)
def test_verification_survives_bytes_in_a_file(tmp_path, table, column, where, problem, written):
    with closing(open_ledger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        live(ledger)
        change(ledger, table, f"UPDATE {table} SET {column} = {written.format(column)} WHERE {where}")
        report = ledger.verify_audit()
        assert any(problem in each for each in report.problems), report.problems
        assert isinstance(report.head, str)


def test_verification_misses_a_guard(lived):
    with lived.store.updating() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER grants_keeps_its_rows_on_DELETE")
            connection.exec_driver_sql("DROP TRIGGER log_keeps_its_rows_on_INSERT")
            connection.exec_driver_sql("DROP TRIGGER limits_keeps_its_rows_on_UPDATE")
            connection.exec_driver_sql(
                "CREATE TRIGGER limits_keeps_its_rows_on_UPDATE BEFORE UPDATE ON limits BEGIN SELECT 1; END"
            )
        else:
            connection.exec_driver_sql("DROP TRIGGER grants_keeps_its_rows ON grants")
            connection.exec_driver_sql("ALTER TABLE log DISABLE TRIGGER ALL")
            connection.exec_driver_sql("DROP TRIGGER limits_keeps_its_rows ON limits")
            connection.exec_driver_sql(
                "CREATE TRIGGER limits_keeps_its_rows BEFORE UPDATE OR DELETE OR TRUNCATE ON limits "
                "FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION refuse_change()"
            )
    assert lived.verify_audit().problems == [
        (
            f"The table {table} is not protected against changes: its triggers are missing, changed or "
            "switched off."
        )
        for table in ("limits", "grants", "log")
    ]


def test_verification_misses_a_guard_whose_function_was_disarmed(postgres_address):
    with closing(open_ledger(postgres_address)) as ledger:
        with ledger.store.updating() as connection:
            connection.exec_driver_sql(
                "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RETURN NULL; END $$"
            )
        assert len(ledger.verify_audit().problems) == len(APPEND_ONLY)


def test_verification_tells_of_a_charge_beyond_the_limit_of_its_time(ledger, monkeypatch):
    ledger.grant("adult", "ann", 0.25, **WHY)
    reserve(ledger.account("ann"), 0.25)
    ledger.open_dataset("adult", 0.125, 1e-6)  # lowered below what was spent: no charge is to blame
    ledger.grant("adult", "ann", 0, **WHY)
    assert ledger.verify_audit().problems == []
    monkeypatch.setattr(Standing, "refusal", lambda *_: None)  # a program that checks nothing
    entry = reserve(ledger.account("ann"), 0.25)
    ledger.top_up("adult", 10, **WHY)  # too late
    ledger.grant("adult", "ann", 5, **WHY)
    reserve(ledger.account("ann"), 0.25)
    assert ledger.verify_audit().problems == [
        f"Entry {entry} exceeds the limit that 'adult' had at that time.",
        f"Entry {entry} exceeds the allowance that 'ann' had at that time.",
    ]


def test_cut_tail_shows_only_by_a_noted_head(lived):
    lived.store.anchor = None  # which would show it too
    entry = lived.history("adult")[-1].row
    noted = [record.hash for record in lived.audit()]
    change(lived, "releases", f"DELETE FROM releases WHERE entry = {entry}")
    change(lived, "entries", f"DELETE FROM entries WHERE id = {entry}")
    change(lived, "log", "DELETE FROM log WHERE id > 12")
    recount(lived)
    assert lived.verify_audit().intact
    report = lived.verify_audit(head=noted[-1])
    assert report.problems == [
        "The head that you noted is not in the log. The log was rewritten, or its end was cut off."
    ]
    assert report.head == noted[11]
    assert lived.verify_audit(head=noted[11]).intact


def test_head_noted_earlier_stays_valid_while_the_log_grows(lived):
    noted = lived.verify_audit().head
    reserve(lived, 0.1)
    assert lived.verify_audit(head=noted).intact


def test_rewritten_log_with_new_hashes_shows_by_a_noted_head(lived):
    lived.store.anchor = None  # which would show it too
    noted = lived.verify_audit().head
    change(lived, "log", "DELETE FROM log WHERE id >= 12")
    change(lived, "releases", "DELETE FROM releases WHERE entry = (SELECT max(id) FROM entries)")
    change(lived, "entries", "DELETE FROM entries WHERE id = (SELECT max(id) FROM entries)")
    lived.note("mallory", "nothing to see", None, {})
    recount(lived)
    assert lived.verify_audit().intact
    assert not lived.verify_audit(head=noted).intact


def test_altered_account_is_noticed(lived):
    change(lived, "accounts", "UPDATE accounts SET gaussian_units = gaussian_units + 1 WHERE analyst = '*'")
    assert lived.verify_audit().problems == [
        "The account totals of '*' on 'adult' were altered: they do not match its entries."
    ]
    recount(lived)
    assert lived.verify_audit().intact
