"""Ledgers of earlier releases are upgraded in either database: nothing is lost or rewritten.

There is no earlier release yet, so the steps are made up: to them, a ledger of the present format is old.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from ledger_contract import reserve, restored, start_worker
from next_formats import add_colour, add_moods, later_program
from test_ledger_audit import live
from test_ledger_backup import contents

from dpxplain.cli import run
from dpxplain.errors import BadRequest, BudgetExhausted, LedgerUnavailable, SourceError
from dpxplain.ledger import FORMAT, store
from dpxplain.ledger.ledger import open_ledger

LATER = FORMAT + 2


@pytest.fixture
def old(address: str) -> str:
    """The address of a ledger with everything in it, which the present version has written."""
    with closing(open_ledger(address)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        live(ledger)
    return address


@pytest.fixture
def later(old: str) -> Iterator[None]:
    """From here on, this process is a later version with two more steps."""
    with later_program(add_colour, add_moods):
        yield


def execute(address: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement on the ledger's database behind the ledger's back."""
    if address.startswith("postgresql"):
        with psycopg.connect(address, options="-c search_path=dpxplain") as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(address)) as connection, connection:
        return connection.execute(statement).fetchall()


def stored_format(address: str) -> int | None:
    statement = "SELECT version FROM turnstile" if "postgresql" in address else "PRAGMA user_version"
    [(version,)] = execute(address, statement)
    return None if version is None else int(version)


def store_format(address: str, version: int | None) -> None:
    if "postgresql" in address:
        execute(address, f"UPDATE turnstile SET version = {'NULL' if version is None else version}")
    else:
        execute(address, f"PRAGMA user_version = {version}")


def stored(address: str) -> dict[str, Any]:
    """Every table of the ledger: its columns, its indexes and its rows."""
    with closing(open_ledger(address)) as ledger, ledger.store.reading() as connection:
        inspector = sa.inspect(connection)
        return {
            table: (
                [column["name"] for column in inspector.get_columns(table)],
                sorted(str(index["name"]) for index in inspector.get_indexes(table)),
                sorted(map(tuple, connection.exec_driver_sql(f"SELECT * FROM {table}")), key=repr),
            )
            for table in inspector.get_table_names()
        }


def test_the_ladder_has_one_step_from_each_released_format_to_the_next():
    assert sorted(store.STEPS) == list(range(store.FIRST_FORMAT, FORMAT))


def test_an_upgraded_ledger_has_everything_and_goes_on(old, request):
    with closing(open_ledger(old)) as ledger:
        before, head = contents(ledger), ledger.verify_audit().head
    request.getfixturevalue("later")
    for is_upgraded in (True, False):  # upgraded, and opened again
        with closing(open_ledger(old)) as ledger:
            assert ledger.store.is_upgraded == is_upgraded
            assert contents(ledger) == before
            assert ledger.verify_audit(head).problems == []
    assert stored_format(old) == LATER
    entries = execute(old, "SELECT count(*) FROM entries WHERE colour IS NULL")
    assert entries == execute(old, "SELECT count(*) FROM moods") != [(0,)]
    with closing(open_ledger(old)) as ledger:
        left = ledger.budget("adult").remaining
        ledger.release(reserve(ledger, left, key="later"), '"later"')
        assert ledger.find("adult", "later")[1] == '"later"'
        with pytest.raises(BudgetExhausted):
            reserve(ledger, 1e-12)
        assert ledger.verify_audit(head).problems == []


@pytest.mark.usefixtures("later")
def test_the_log_keeps_its_records_and_tells_of_every_step(old):
    records = execute(old, "SELECT * FROM log ORDER BY id")
    [(entries,)] = execute(old, "SELECT count(*) FROM entries")
    open_ledger(old).close()
    assert execute(old, "SELECT * FROM log ORDER BY id")[: len(records)] == records
    with closing(open_ledger(old)) as ledger:
        told = [(record.action, record.details) for record in ledger.audit(after=len(records))]
    assert told == [
        ("ledger upgraded", {"from_version": FORMAT, "to_version": FORMAT + 1}),
        ("ledger upgraded", {"from_version": FORMAT + 1, "to_version": LATER, "moods": entries}),
    ]


def test_a_step_that_fails_changes_nothing_and_neither_does_the_one_before_it(old):
    def fail_at_the_end(connection: sa.Connection) -> dict[str, Any]:
        add_moods(connection)
        raise KeyboardInterrupt

    before = stored(old)
    with later_program(add_colour, fail_at_the_end), pytest.raises(KeyboardInterrupt):
        open_ledger(old)
    assert stored(old) == before
    assert stored_format(old) == FORMAT


@pytest.mark.process
def test_a_process_that_is_killed_while_it_upgrades_changes_nothing(old):
    before = stored(old)
    with start_worker("upgrade", old) as worker:
        worker.communicate()
    assert worker.returncode == -9
    assert stored(old) == before
    assert stored_format(old) == FORMAT
    with later_program(add_colour, add_moods), closing(open_ledger(old)) as ledger:
        assert ledger.store.is_upgraded
        assert ledger.verify_audit().problems == []


@pytest.mark.usefixtures("later")
def test_processes_that_open_it_together_upgrade_it_once(old):
    with ThreadPoolExecutor(4) as threads:
        ledgers = list(threads.map(open_ledger, [old] * 4))
    assert [ledger.store.is_upgraded for ledger in ledgers].count(True) == 1
    for ledger in ledgers:
        actions = [record.action for record in ledger.audit()]
        assert actions.count("ledger upgraded") == 2
        assert ledger.verify_audit().problems == []
        ledger.close()


def test_a_backup_of_an_earlier_format_is_restored_into_an_upgraded_ledger(old, tmp_path, request):
    with closing(open_ledger(old, anchor="off")) as ledger:
        before, head = contents(ledger), ledger.recovery.backup(tmp_path / "backup.sqlite").head
    backup = (tmp_path / "backup.sqlite").read_bytes()
    request.getfixturevalue("later")
    with closing(open_ledger(old, anchor="off")) as ledger:
        reserve(ledger, 0.1, key="lost")
        restored(ledger, tmp_path / "backup.sqlite", by="carol")
        assert contents(ledger) == before
        assert ledger.verify_audit(head).problems == []
    assert stored_format(old) == LATER
    assert (tmp_path / "backup.sqlite").read_bytes() == backup


@pytest.mark.usefixtures("later")
def test_verifying_says_that_it_has_upgraded_the_ledger(old, capfd):
    assert run(("audit", "verify", "--ledger", old, "--json")) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["upgraded"] is True
    assert f"to format {LATER}, which older versions" in " ".join(err.split())
    assert run(("audit", "verify", "--ledger", old)) == 0
    assert "upgraded" not in "".join(capfd.readouterr())


UNRELEASED = "was written by an unreleased version of DPXPlain"


@pytest.mark.parametrize(
    ("version", "sentence", "remedy"),
    [
        (FORMAT + 1, "from a newer version of DPXPlain", "Upgrade DPXPlain"),
        *(
            (version, f"{UNRELEASED} (format {version})", "lower its budgets")
            for version in (store.FIRST_FORMAT - 1, 1)
        ),
        (0, "is damaged", "backup"),
        (-1, "is damaged", "backup"),
    ],
)
def test_a_ledger_of_a_format_that_cannot_be_read_is_refused_and_left_alone(old, version, sentence, remedy):
    before = stored(old)
    store_format(old, version)
    file = None if "postgresql" in old else Path(old).read_bytes()
    with pytest.raises(SourceError) as refusal:
        open_ledger(old)
    assert sentence in refusal.value.problem
    assert remedy in refusal.value.remedy
    assert stored_format(old) == version
    assert file is None or Path(old).read_bytes() == file
    store_format(old, FORMAT)
    assert stored(old) == before


def test_a_database_that_has_forgotten_its_format_is_refused(postgres_address):
    open_ledger(postgres_address).close()
    store_format(postgres_address, None)
    with pytest.raises(LedgerUnavailable, match="is damaged"):
        open_ledger(postgres_address)
    assert stored_format(postgres_address) is None


@pytest.mark.parametrize("command", [("audit", "verify"), ("ledger", "status"), ("token", "list")])
def test_commands_refuse_a_ledger_of_an_unreleased_version(old, command, capfd):
    store_format(old, 8)
    assert run((*command, "--ledger", old, "--json")) == 2
    error = json.loads(capfd.readouterr().err)
    assert error["code"] == "source_error"
    assert UNRELEASED in error["message"]
    assert stored_format(old) == 8


def test_a_server_does_not_start_on_a_ledger_of_an_unreleased_version(old, tmp_path, monkeypatch, capfd):
    store_format(old, 8)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "server.toml").write_text('[server]\ndatasets = "schemas"\n')
    monkeypatch.setenv("DPXPLAIN_LEDGER", old)
    assert run(("serve", str(tmp_path / "server.toml"))) == 2
    assert UNRELEASED in " ".join(capfd.readouterr().err.split())
    assert stored_format(old) == 8


def test_a_backup_of_an_unreleased_version_is_not_restored(address, tmp_path):
    with closing(open_ledger(address, anchor="off")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        ledger.recovery.backup(tmp_path / "backup.sqlite")
        store_format(str(tmp_path / "backup.sqlite"), 8)
        before = contents(ledger)
        with pytest.raises(BadRequest, match="an unreleased version of DPXPlain"):
            restored(ledger, tmp_path / "backup.sqlite", by="carol")
        assert contents(ledger) == before
