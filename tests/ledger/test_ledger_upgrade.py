"""A SQLite ledger of version 1 is upgraded in place: nothing is lost, and the log begins with it."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from ledger_contract import reserve

from dpxplain.errors import BudgetExhausted
from dpxplain.ledger import sqlite
from dpxplain.ledger.sqlite import SQLiteLedger
from dpxplain.model.budget import Spend

VERSION_1 = f"""
PRAGMA journal_mode = WAL;
CREATE TABLE datasets (
    name VARCHAR NOT NULL, limit_units BIGINT NOT NULL, delta FLOAT NOT NULL, PRIMARY KEY (name)
);
CREATE TABLE entries (
    id INTEGER NOT NULL, dataset VARCHAR NOT NULL, time VARCHAR NOT NULL, kind VARCHAR NOT NULL,
    "key" VARCHAR NOT NULL, description VARCHAR NOT NULL,
    charge_units BIGINT NOT NULL CHECK (charge_units >= 0), spends JSON NOT NULL,
    PRIMARY KEY (id), FOREIGN KEY(dataset) REFERENCES datasets (name)
);
CREATE INDEX entries_by_key ON entries (dataset, "key");
CREATE INDEX entries_by_charge ON entries (dataset, charge_units);
CREATE TABLE releases (
    entry INTEGER NOT NULL, payload TEXT NOT NULL,
    PRIMARY KEY (entry), FOREIGN KEY(entry) REFERENCES entries (id)
);
INSERT INTO datasets VALUES ('adult', 2000000000000, 1e-06), ('census', 1, 0.5);
INSERT INTO entries VALUES
    (1, 'adult', '2026-01-01T10:00:00.000001+00:00', 'query', 'a', 'SELECT', 100000000000,
     '[["gaussian", 0.1]]'),
    (2, 'adult', '2026-01-02T10:00:00+00:00', 'limit', '', 'limit changed from rho 1 to rho 2', 0, '[]'),
    (5, 'adult', '2026-01-03T10:00:00+00:00', 'explain', 'b', 'why', 500000000000, '[]');
INSERT INTO releases VALUES (1, '{{"Zürich": 1}}'), (2, '{{"old_limit": 1, "new_limit": 2}}');
PRAGMA application_id = {sqlite.APPLICATION_ID};
PRAGMA user_version = 1;
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_1)
    return path


def test_everything_is_still_there_and_belongs_to_the_local_owner(old):
    for _ in range(2):  # upgraded, and opened again
        with closing(SQLiteLedger(old)) as ledger:
            budget = ledger.budget("adult")
            assert (budget.limit, budget.spent, budget.delta) == (2.0, 0.6, 1e-6)
            assert ledger.budget("census").delta == 0.5
            lines = ledger.history("adult")
            assert [(line.id, line.kind, line.state) for line in lines] == [
                (1, "query", "released"),
                (2, "limit", "released"),
                (5, "explain", "reserved"),
            ]
            assert {line.analyst for line in lines} == {""}
            assert lines[0].spends == (Spend("gaussian", 0.1),)
            assert lines[0].time.isoformat() == "2026-01-01T10:00:00.000001+00:00"
            assert ledger.find("adult", "a")[1] == '{"Zürich": 1}'
            assert [line.kind for line in ledger.account("ann").history("adult")] == ["limit"]


def test_log_begins_with_what_was_found_and_vouches_for_it(old):
    with closing(SQLiteLedger(old)) as ledger:
        first, *found = ledger.audit()
        assert first.action == "ledger upgraded"
        assert first.details == {
            "from_version": 1,
            "found": {"datasets": 2, "entries": 3, "releases": 2},
        }
        assert [record.action for record in found] == ["found"] * 5
        assert ledger.verify_audit().problems == []
        with ledger._store.writing() as connection:
            connection.exec_driver_sql("DROP TRIGGER entries_keeps_its_rows_on_UPDATE")
            connection.exec_driver_sql("UPDATE entries SET charge_units = 1 WHERE id = 1")
        assert "The entry 1 is not what the log says: it was altered." in ledger.verify_audit().problems


def test_upgraded_ledger_looks_like_a_new_one_and_goes_on(old, tmp_path):
    with closing(SQLiteLedger(old)) as ledger:
        assert reserve(ledger, 1.4) == 6
        with pytest.raises(BudgetExhausted):
            reserve(ledger, 1e-12)
        ledger.open_dataset("adult", 2.0, 1e-6)
        assert len(ledger.history("adult")) == 4
    SQLiteLedger(tmp_path / "new.sqlite").close()
    shapes = []
    for path in (old, tmp_path / "new.sqlite"):
        with closing(sqlite3.connect(path)) as connection:
            shapes.append(set(connection.execute("SELECT type, name, sql FROM sqlite_master")))
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    assert shapes[0] == shapes[1]


def test_interrupted_upgrade_changes_nothing(old, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sqlalchemy.Connection.commit", fail)
        with pytest.raises(KeyboardInterrupt):
            SQLiteLedger(old)
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM datasets").fetchone() == (2,)
    with closing(SQLiteLedger(old)) as ledger:
        assert ledger.budget("adult").spent == 0.6


def test_two_who_upgrade_together_do_it_once(old):
    with ThreadPoolExecutor(4) as threads:
        ledgers = list(threads.map(SQLiteLedger, [old] * 4))
    for ledger in ledgers:
        assert [record.action for record in ledger.audit()].count("ledger upgraded") == 1
        assert ledger.verify_audit().problems == []
        ledger.close()


def test_ledger_of_version_2_gets_its_missing_guards(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with closing(SQLiteLedger(path)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        reserve(ledger, 0.1)
    with closing(sqlite3.connect(path)) as connection:
        guards = "SELECT name FROM sqlite_master WHERE name LIKE '%_on_INSERT'"
        for (name,) in connection.execute(guards).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("PRAGMA user_version = 2")
    for _ in range(2):
        with closing(SQLiteLedger(path)) as ledger:
            assert ledger.budget("adult").spent == 0.1
            assert ledger.verify_audit().problems == []
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("INSERT OR REPLACE INTO entries SELECT * FROM entries")
