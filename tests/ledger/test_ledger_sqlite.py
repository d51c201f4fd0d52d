"""The SQLite ledger looks after its file."""

from __future__ import annotations

import concurrent.futures
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_contract import reserve

from dpxplain.errors import BudgetExhausted, InternalError, LedgerBehind, LedgerUnavailable, SourceError
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Request


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with 0.1 of 1.0 spent, closed."""
    path = tmp_path / "a b?c#d%20é" / ".dpxplain" / "ledger.db"
    with closing(open_ledger(path)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        ledger.release(reserve(ledger, 0.1), "{}")
    return path


def assert_refused(path: Path, problem: str, remedy: str) -> None:
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(SourceError) as refusal:
        open_ledger(path)
    assert problem in refusal.value.problem
    assert path.name in refusal.value.problem
    assert remedy in refusal.value.remedy
    assert before == (path.read_bytes() if path.is_file() else None)


def test_only_the_owner_can_read_the_workspace(path):
    with closing(open_ledger(path)) as ledger:
        reserve(ledger, 0.1)
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert files == dict.fromkeys(
            ["ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.anchor"], 0o600
        )
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {file.name for file in path.parent.iterdir()} == {"ledger.db", "ledger.db.anchor"}


def test_every_commit_is_synced_to_disk(path):
    with closing(open_ledger(path)) as ledger, ledger.store.reading() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "fullfsync", "foreign_keys", "busy_timeout")
        }
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL
        "fullfsync": 1,
        "foreign_keys": 1,
        "busy_timeout": 60_000,
    }


def test_relative_path_survives_a_change_of_folder(path, monkeypatch, tmp_path):
    monkeypatch.chdir(path.parent.parent)
    with closing(open_ledger(Path(".dpxplain/ledger.db"))) as ledger:
        monkeypatch.chdir(tmp_path)
        reserve(ledger, 0.1)
        assert ledger.budget("adult").spent == 0.2


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to look at" * 50])
def test_overwritten_ledger_is_refused_not_replaced(path, content):
    path.write_bytes(content)
    assert_refused(path, "damaged" if content else "not a DPXPlain ledger", "Restore it from a backup")


def test_truncated_ledger_is_refused(path):
    path.write_bytes(path.read_bytes()[:-4096])
    assert_refused(path, "damaged", "Restore it from a backup")


def test_altered_amount_is_noticed(path):
    with closing(sqlite3.connect(path)) as connection:
        pages = connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    content = bytearray(path.read_bytes())
    page = slice((dict(pages)["entries"] - 1) * size, dict(pages)["entries"] * size)
    tenth, millionth = (10**11).to_bytes(6), (10**6).to_bytes(6)
    assert content[page].count(tenth) == 3  # the charge and both running totals
    content[page] = content[page].replace(tenth, millionth)
    path.write_bytes(content)
    assert_refused(path, "damaged", "Restore it from a backup")


def test_damage_that_makes_sqlites_message_unreadable_is_refused(path):
    content = path.read_bytes()
    assert content.count(b"CREATE INDEX entries_by_key") == 1
    path.write_bytes(content.replace(b"CREATE INDEX entries_by_key", b"CREATE IN\xc5EX entries_by_key"))
    assert_refused(path, "damaged", "Restore it from a backup")


@pytest.mark.parametrize(
    ("column", "damage"), [("time", "2026-1'-01T00:00"), ("spends", '[["gaussian", 0.1')]
)
def test_an_entry_that_cannot_be_read_is_damage_in_words(path, column, damage):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER entries_keeps_its_rows_on_UPDATE")
        connection.execute(f"UPDATE entries SET {column} = ?", (damage,))
        connection.commit()
    with closing(open_ledger(path)) as ledger:
        with pytest.raises(SourceError, match="damaged"):
            ledger.history("adult")
        assert not ledger.verify_audit().intact


def test_other_peoples_database_is_refused_untouched(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photos (name)")
    assert_refused(path, "not a DPXPlain ledger", "choose another workspace")


def test_lost_ledger_whose_journal_remains_is_refused(path):
    path.rename(path.with_name("elsewhere"))
    path.with_name("ledger.db-wal").write_bytes(b"journal")
    assert_refused(path, "is gone", "Restore")
    path.with_name("ledger.db.anchor").unlink()
    assert_refused(path, "is gone, but its journal", "move the journal away")


def test_older_copy_that_stood_in_place_for_a_moment_is_never_charged(path):
    older, aside = path.with_name("older"), path.with_name("aside")
    older.write_bytes(path.read_bytes())
    with closing(open_ledger(path, anchor="off")) as ledger:
        reserve(ledger, 0.8)
    with closing(open_ledger(path, anchor="off")) as ledger:  # has written nothing yet
        path.rename(aside)
        older.rename(path)
        with pytest.raises(LedgerUnavailable, match="removed or replaced"):
            reserve(ledger, 0.5)
        path.rename(older)
        aside.rename(path)
        with pytest.raises(BudgetExhausted):
            reserve(ledger, 0.5)
        assert ledger.budget("adult").spent == 0.9


def test_older_copy_written_over_an_open_ledger_is_never_charged(path):
    older = path.with_name("older.sqlite")
    with closing(open_ledger(path)) as ledger:
        ledger.recovery.backup(older)
        reserve(ledger, 0.7)
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.note("carol", "looked")  # the journal holds the newest record, and no entry
        with path.open("r+b") as file:  # as `cp` does: the file keeps its inode
            file.truncate(0)
            file.write(older.read_bytes())
        with pytest.raises((LedgerBehind, LedgerUnavailable)):
            reserve(ledger, 0.5)


def test_folder_in_place_of_the_ledger_is_refused(tmp_path):
    assert_refused(tmp_path, "is a folder", "Name a file in it")


def test_file_in_place_of_the_workspace_is_refused(tmp_path):
    (tmp_path / "workspace").write_text("")
    assert_refused(tmp_path / "workspace" / "ledger.db", "cannot be opened for writing", "permissions")


@pytest.mark.parametrize("unwritable", ["ledger.db", ".dpxplain"])
def test_unwritable_ledger_is_refused_when_opened(path, monkeypatch, unwritable):
    # Patched, not chmod: the tests may run as root, whom permissions do not stop.
    monkeypatch.setattr(os, "access", lambda place, _: Path(place).name != unwritable)
    assert_refused(path, "cannot be opened for writing", "permissions")


def test_lock_that_is_never_let_go_is_explained(path):
    with closing(open_ledger(path, busy_seconds=0.05)) as ledger, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ledger.budget("adult").spent == 0.1  # readers do not wait
        with pytest.raises(SourceError, match="locked"):
            reserve(ledger, 0.1)
        other.rollback()
        reserve(ledger, 0.1)
        assert ledger.budget("adult").spent == 0.2


def test_a_thread_that_waits_for_another_process_keeps_no_reader_waiting(path, monkeypatch):
    with (
        closing(open_ledger(path)) as ledger,
        closing(sqlite3.connect(path)) as other,
        concurrent.futures.ThreadPoolExecutor(1) as threads,
    ):
        has_begun, tried = ledger.store._has_begun, threading.Event()

        def try_to_begin(connection, begin):
            begun = has_begun(connection, begin)
            if not begun:
                tried.set()
            return begun

        monkeypatch.setattr(ledger.store, "_has_begun", try_to_begin)
        other.execute("BEGIN IMMEDIATE")
        writer = threads.submit(reserve, ledger, 0.1)
        assert tried.wait(60)
        assert ledger.budget("adult").spent == 0.1
        assert not writer.done()
        other.rollback()
        writer.result(60)
        assert ledger.budget("adult").spent == 0.2


def test_no_reader_waits_for_a_charge_that_is_being_written(path):
    with closing(open_ledger(path)) as ledger:
        with ledger.store.writing():
            assert ledger.budget("adult").spent == 0.1
        reserve(ledger, 0.1)
        assert ledger.budget("adult").spent == 0.2


def test_the_readers_connection_cannot_write(path):
    with closing(open_ledger(path)) as ledger:
        with pytest.raises(SourceError), ledger.store.reading() as connection:
            connection.exec_driver_sql("CREATE TABLE more (id INTEGER)")
        reserve(ledger, 0.1)
        assert ledger.budget("adult").spent == 0.2


def test_full_disk_is_explained_and_spends_nothing(path):
    with closing(open_ledger(path)) as ledger:
        with ledger.store.writing() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(SourceError, match="Free some space"):
            ledger.reserve("adult", Charge("query", "k", Request("x" * 100_000), 0.1))
        assert ledger.budget("adult").spent == 0.1


def test_failure_in_the_middle_of_a_charge_spends_nothing(path, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with closing(open_ledger(path)) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr("sqlalchemy.Connection.commit", fail)
            with pytest.raises(KeyboardInterrupt):
                reserve(ledger, 0.1)
        assert ledger.budget("adult").spent == 0.1
        reserve(ledger, 0.9)


def test_forked_process_cannot_use_its_parents_ledger(path, monkeypatch):
    with closing(open_ledger(path)) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(InternalError, match="forked"):
                reserve(ledger, 0.1)
        assert ledger.budget("adult").spent == 0.1


def test_ledgers_in_memory_know_nothing_of_each_other():
    with closing(open_ledger(None)) as ledger, closing(open_ledger(None)) as other:
        for each in (ledger, other):
            each.open_dataset("adult", 1.0, 1e-6)
        reserve(ledger, 0.5)
        assert other.budget("adult").spent == 0.0


def test_long_verification_of_a_file_keeps_nobody_waiting(path):
    with closing(open_ledger(path)) as ledger, ledger.store.snapshot():
        reserve(ledger, 0.1)


@pytest.mark.process
def test_protocol_does_not_need_sqlalchemy():
    program = "import sys, dpxplain.ledger.protocol; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("analyst", ["", "ann"])
@pytest.mark.parametrize(
    ("read", "index"),
    [
        (lambda account: account.find("adult", "k"), "entries_by_key (dataset=? AND key=?"),
        (
            lambda account: account.entry("adult", 1),
            "entries_by_number (dataset=? AND analyst=? AND number=?)",
        ),
        (lambda account: account.latest("adult", "query"), "_kind (dataset=? AND "),
        (
            lambda account: account.preparations("adult", "subject"),
            "subject=?",
        ),
    ],
    ids=["find", "entry", "latest", "preparations"],
)
def test_single_reads_go_by_an_index_not_through_the_history(path, analyst, read, index):
    plans = []

    def explain(connection, cursor, statement, parameters, context, many):
        if "FROM entries" in statement and not statement.startswith("EXPLAIN"):
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append([row.detail for row in rows if "entries" in row.detail])

    with closing(open_ledger(path)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        for engine in ledger.store.engines:
            sa.event.listen(engine, "before_cursor_execute", explain)
        read(ledger.account(analyst) if analyst else ledger)
    plan = [detail for details in plans for detail in details]
    assert any(index in detail for detail in plan), plan
    assert all(detail.startswith("SEARCH ") for detail in plan), plan
    assert not any("(dataset=?)" in detail or "SCAN" in detail for detail in plan)
