"""What is particular to PostgreSQL: a server that comes and goes, its settings, and a password to keep."""

from __future__ import annotations

import os
import signal
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta

import psycopg
import pytest
import sqlalchemy as sa
from ledger_contract import reserve
from next_formats import add_colour, later_program

from dpxplain.errors import BadRequest, BudgetExhausted, InternalError, LedgerUnavailable, SourceError
from dpxplain.ledger import FORMAT, audit, postgres, store
from dpxplain.ledger.balances import standing
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.postgres import PostgresStore
from dpxplain.ledger.tables import ENTRIES
from dpxplain.model.charge import Charge, Request
from postgres_server import running_server

SECRET = "s3cret/%40?word"


@pytest.fixture
def ledger(postgres_address):
    with closing(open_ledger(postgres_address)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        yield ledger


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_usual_ways_to_write_an_address_are_understood(postgres_address, scheme):
    with closing(open_ledger(postgres_address.replace("postgresql", scheme, 1))) as ledger:
        assert isinstance(ledger.store, PostgresStore)


def test_ledger_keeps_to_its_own_schema(ledger, postgres_address):
    with psycopg.connect(postgres_address) as connection:
        tables = "SELECT DISTINCT schemaname FROM pg_tables WHERE schemaname !~ '^(pg_|information)'"
        assert connection.execute(tables).fetchall() == [("dpxplain",)]


def test_every_commit_is_synced_and_writers_wait_for_each_other(ledger):
    with ledger.store.writing() as connection:
        settings = {
            name: connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("synchronous_commit", "transaction_isolation", "lock_timeout", "search_path")
        }
    assert settings == {
        "synchronous_commit": "on",
        "transaction_isolation": "read committed",
        "lock_timeout": "1min",
        "search_path": "dpxplain",
    }


def wait_for_a_lock(address: str) -> None:
    """Returns once somebody waits for a lock in this database."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with psycopg.connect(address, autocommit=True) as watcher:
        while not watcher.execute(waiting).fetchone()[0]:
            time.sleep(0.01)


def test_charge_waits_for_the_one_before_it_and_then_sees_it(ledger, postgres_address):
    with closing(open_ledger(postgres_address)) as other, ThreadPoolExecutor(1) as thread:
        with ledger.store.writing() as connection:
            state = standing(connection, "adult")  # checked, not yet charged
            waiting = thread.submit(reserve, other, 0.1)
            wait_for_a_lock(postgres_address)
            assert not waiting.done()
            assert state.left == standing(connection, "adult").left
            row = {"dataset": "adult", "analyst": "", "time": "", "kind": "query", "key": "", "spends": "[]"}
            audit.insert(
                connection,
                ENTRIES,
                row | {"description": "", "charge_units": state.left} | state.totals(state.left),
            )
        with pytest.raises(BudgetExhausted):
            waiting.result(timeout=60)


def test_lock_that_is_never_let_go_is_explained(ledger, postgres_address):
    with closing(open_ledger(postgres_address, busy_seconds=0.05)) as hasty, ledger.store.writing():
        assert hasty.budget("adult").spent == 0.0  # readers do not wait
        with pytest.raises(SourceError, match=r"locked by another process for 0\.05 seconds"):
            reserve(hasty, 0.1)
    assert store.BUSY_SECONDS == 60


def test_jobs_do_not_wait_for_those_who_charge(ledger):
    ledger.jobs.create("job", "adult", "ann", "explain", {})
    with ledger.store.writing():
        ledger.jobs.update("job", "running", "busy")
    assert ledger.jobs.get("job").stage == "busy"


@pytest.mark.process
def test_server_that_crashed_and_came_back_has_lost_nothing():
    with running_server() as server, closing(open_ledger(server.address())) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        entry = reserve(ledger, 0.4)
        ledger.release(entry, '"kept"')
        server.stop(signal.SIGQUIT)
        with pytest.raises(SourceError, match="cannot be reached") as refusal:
            reserve(ledger, 0.1)
        assert server.password not in "".join(traceback.format_exception(refusal.value))
        server.start()
        assert ledger.get("adult", entry)[1] == '"kept"'
        reserve(ledger, 0.6)
        with pytest.raises(BudgetExhausted):
            reserve(ledger, 1e-12)
        assert ledger.verify_audit().problems == []


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ann:{SECRET}@localhost:1/x",
        f"postgresql://ann:{SECRET}@localhost:port/x",
        f"postgresql://localhost:1/x?user=ann&password={SECRET}",
        f"postgresql://ann:{SECRET}@[::1/x",
        f"postgresql://ann:s3cret@localhost:1/x?nonsense={SECRET}",
    ],
)
def test_no_error_and_no_repr_tells_the_password(address):
    with pytest.raises(BadRequest) as refusal:
        open_ledger(address)
    told = "".join(traceback.format_exception(refusal.value, chain=True)).partition("dpxplain.errors.")[2]
    assert "s3cret" not in told
    assert "s3cret" not in repr(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.remedy


def test_wrong_password_and_missing_database_are_explained_without_it(postgres_server):
    with pytest.raises(SourceError, match="let this user in") as refusal:
        open_ledger(postgres_server.address(password="s3cret"))
    assert "s3cret" not in str(refusal.value)
    with pytest.raises(SourceError, match="'nowhere'"):
        open_ledger(postgres_server.address("nowhere"))


def test_repr_names_the_database_only(ledger, postgres_server):
    shown = repr(ledger) + repr(ledger.store.engines[0]) + repr(vars(ledger.store)["name"])
    assert "PostgreSQL database" in shown
    assert postgres_server.password not in shown


@pytest.fixture
def reader(postgres_server, postgres_address):
    """The address of the same database for a role without rights."""
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
    yield postgres_address.replace("//dpxplain:", "//reader:").replace(postgres_server.password, "reader")
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


def test_user_who_may_not_write_is_refused_with_what_is_missing(ledger, reader, postgres_address):
    with pytest.raises(SourceError, match="write: rights are missing on the schema dpxplain") as refusal:
        open_ledger(reader)
    assert "deploy/postgresql-rights.sql" in refusal.value.remedy
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("GRANT USAGE ON SCHEMA dpxplain TO reader")
        connection.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA dpxplain TO reader")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dpxplain TO reader")
        connection.execute("REVOKE INSERT ON dpxplain.log, dpxplain.releases FROM reader")
    with pytest.raises(SourceError, match="rights are missing on log, releases"):
        open_ledger(reader)
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("GRANT INSERT ON dpxplain.log, dpxplain.releases TO reader")
        # Without these it would start, and fail at the first charge.
        connection.execute("REVOKE UPDATE ON dpxplain.accounts FROM reader")
        connection.execute("REVOKE DELETE ON dpxplain.unreleased FROM reader")
    with pytest.raises(SourceError, match="rights are missing on accounts, unreleased"):
        open_ledger(reader)
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("GRANT UPDATE, DELETE ON dpxplain.accounts, dpxplain.unreleased TO reader")
    open_ledger(reader, create=False).close()


def test_only_the_owner_of_the_tables_can_upgrade_them(ledger, reader, postgres_address):
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("GRANT USAGE ON SCHEMA dpxplain TO reader")
        connection.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA dpxplain TO reader")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dpxplain TO reader")
        with later_program(add_colour):
            with pytest.raises(LedgerUnavailable, match="does not let this user write") as refusal:
                open_ledger(reader)
            assert "the owner of the tables must also open it once" in refusal.value.remedy
            assert connection.execute("SELECT version FROM dpxplain.turnstile").fetchall() == [(FORMAT,)]
            open_ledger(postgres_address).close()
            open_ledger(reader).close()


def test_user_who_may_not_create_the_ledger_is_told_who_can(reader):
    with pytest.raises(SourceError, match="does not exist, and this user may not create it") as refusal:
        open_ledger(reader, create=True)
    assert "dpxplain ledger create" in refusal.value.remedy
    assert "GRANT CREATE ON DATABASE" in refusal.value.remedy


def test_database_in_another_encoding_is_refused(postgres_server):
    postgres_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(SourceError, match="UTF-8"):
        open_ledger(postgres_server.address("latin"))
    postgres_server.execute("DROP DATABASE latin WITH (FORCE)")


@pytest.mark.parametrize(
    "damage", ["DELETE FROM dpxplain.turnstile", "INSERT INTO dpxplain.turnstile VALUES (2, 2)"]
)
def test_nothing_is_charged_without_the_one_row_that_makes_writers_wait(ledger, postgres_address, damage):
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(damage)
    for attempt in (lambda: reserve(ledger, 0.1), lambda: open_ledger(postgres_address)):
        with pytest.raises(SourceError, match="turnstile must have exactly one row"):
            attempt()
    assert ledger.budget("adult").spent == 0.0


def test_damaged_tables_are_explained(ledger, postgres_address):
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute("DROP TABLE dpxplain.entries CASCADE")
    with pytest.raises(SourceError, match="damaged"):
        ledger.budget("adult")


@pytest.mark.parametrize("use", ["reading", "single_read", "updating"])
def test_connection_in_use_when_the_ledger_is_closed_is_closed_after_its_use(ledger, use):
    with getattr(ledger.store, use)() as connection:
        driver = connection.connection.driver_connection
        ledger.close()
        connection.execute(sa.text("SELECT 1"))
    assert driver.closed


def test_table_cannot_be_truncated(ledger, postgres_address):
    refused = pytest.raises(psycopg.Error, match="append-only")
    with refused, psycopg.connect(postgres_address) as connection:
        connection.execute("TRUNCATE dpxplain.log")


def test_failure_in_the_middle_of_a_charge_spends_nothing(ledger, monkeypatch):
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sqlalchemy.Connection.commit", fail)
        with pytest.raises(KeyboardInterrupt):
            reserve(ledger, 0.1)
    assert ledger.budget("adult").spent == 0.0
    reserve(ledger, 1.0)


@pytest.mark.process
def test_forked_process_cannot_use_its_parents_ledger_nor_end_its_conversation(ledger):
    child = os.fork()
    if child == 0:
        try:
            reserve(ledger, 0.1)
        except InternalError:
            ledger.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    reserve(ledger, 0.1)
    assert ledger.budget("adult").spent == 0.1


class ShiftedDatetime(datetime):
    """Patched into a module in place of `datetime`: a clock that is ahead."""

    ahead = timedelta(0)

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + cls.ahead


def test_clock_far_from_the_databases_is_refused_and_one_not_so_far_warned_about(
    postgres_address, monkeypatch, caplog
):
    ledger = open_ledger(postgres_address)
    ledger.open_dataset("adult", 1.0, 1e-6)
    monkeypatch.setattr(postgres, "datetime", ShiftedDatetime)
    for ahead in (timedelta(hours=2), timedelta(hours=-2)):
        monkeypatch.setattr(ShiftedDatetime, "ahead", ahead)
        with pytest.raises(
            LedgerUnavailable, match=r"The clock of this machine is 7,[12]\d\d seconds"
        ) as error:
            open_ledger(postgres_address)
        assert (error.value.kind, "NTP" in error.value.remedy) == ("clock", True)
        with pytest.raises(LedgerUnavailable):  # also of a process that was right when it started
            ledger.store.check_clock()
        with pytest.raises(LedgerUnavailable) as refused:
            ledger.reserve("adult", Charge("query", "k", Request("q"), 0.1))
        assert refused.value.kind == "clock"
    monkeypatch.setattr(ShiftedDatetime, "ahead", timedelta(seconds=12))
    assert caplog.text == ""
    ledger.store.check_clock()
    ledger.store.check_clock()
    assert caplog.text.count("seconds ahead of that of the ledger") == 1
    monkeypatch.setattr(ShiftedDatetime, "ahead", timedelta(0))
    ledger.store.check_clock()
    ledger.reserve("adult", Charge("query", "k", Request("q"), 0.1))
    ledger.close()
