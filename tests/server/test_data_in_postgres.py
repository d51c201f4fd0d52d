"""Data sets of a server whose tables are in PostgreSQL: opened lazily, from listed databases only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

import dpxplain as dpx
from dpxplain.errors import SchemaError, SourceError, SourceLost
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.query import Aggregate, Query
from dpxplain.server.config import Config
from dpxplain.server.records import details, summary
from dpxplain.server.registry import Registry
from postgres_server import USER, PostgresServer

SCHEMA = """[table]
name = "set_{number}"
version = "1"
source = "{source}::people_{number}"

[privacy]
rho = 1.0

[columns.sex]
values = ["F", "M"]
"""
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpxplain'"
SETS = 50


@pytest.fixture
def source(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a database with one table."""
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    with psycopg.connect(postgres_server.address(), autocommit=True) as connection:
        connection.execute("CREATE TABLE people_7 AS SELECT unnest(ARRAY['F', 'M', 'M']) AS sex")
        yield f"postgresql://{USER}@/postgres?host={quote(str(postgres_server.folder), safe='')}"
        connection.execute("DROP TABLE people_7")


def declare_sets(folder: Path, source: str) -> None:
    for number in range(SETS):
        text = SCHEMA.format(number=number, source=source)
        (folder / f"set_{number}.toml").write_text(text, encoding="utf-8")


def test_fifty_data_sets_open_without_a_connection_and_one_when_it_is_asked(
    source: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    declare_sets(tmp_path, source)
    with psycopg.connect(postgres_server.address(), autocommit=True) as observer:
        ledger = open_ledger(None)
        registry = Registry((tmp_path,), ledger, databases=(source,))
        assert len(registry.all) == SETS
        assert all(declared.data_problem is None for declared in registry.schema_files())
        assert observer.execute(CONNECTIONS).fetchone() == (0,)
        dataset = registry.get("set_7")
        assert dataset.engine is not None
        counts = dataset.engine.grouped(Query("set_7", ("sex",), Aggregate("count")), ((),)).reveal()
        assert sorted(counts.count.tolist()) == [1, 2]
        assert observer.execute(CONNECTIONS).fetchone() == (1,)
        missing = registry.get("set_8")
        assert missing.version_check is not None
        with pytest.raises(SourceError, match="no tables called"):
            missing.version_check.measured_data()  # before anything is charged
        for opened in registry.all:
            assert opened.engine is not None
            opened.engine.close()
        ledger.close()


def test_what_people_see_of_a_data_set_names_the_engine_and_no_host(source: str, tmp_path: Path) -> None:
    declare_sets(tmp_path, source)
    ledger = open_ledger(None)
    registry = Registry((tmp_path / "set_7.toml",), ledger, databases=(source,))
    dataset = registry.get("set_7")
    budget = ledger.budget("set_7")
    for shown in (summary(dataset.schema, budget), details(dataset.schema, budget, "curator")):
        assert shown["engine"] == "PostgreSQL"
        assert "The data are in PostgreSQL." in shown["description"]
        assert "host" not in str(shown)
        assert USER not in str(shown)
    ledger.close()


def test_a_database_that_is_not_listed_is_never_connected_to(source: str, tmp_path: Path) -> None:
    """Its host would be sent the server's own password."""
    declare_sets(tmp_path, source)
    ledger = open_ledger(None)
    with pytest.raises(SourceError, match="not in the server's configuration"):
        Registry((tmp_path / "set_7.toml",), ledger, databases=(f"{source}&port=1",))
    ledger.close()


def test_two_data_sets_on_one_table_are_refused(source: str, tmp_path: Path) -> None:
    for name in ("set_7", "twin"):
        text = SCHEMA.format(number=7, source=source).replace('"set_7"', f'"{name}"')
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    ledger = open_ledger(None)
    with pytest.raises(SchemaError, match="already has"):
        Registry((tmp_path,), ledger, databases=(source,))
    ledger.close()


def test_a_password_in_the_configuration_is_refused_unrepeated() -> None:
    with pytest.raises(SchemaError, match="password") as refused:
        Config.load({"server": {"datasets": "schemas", "databases": ["postgresql://ann:hunter2@host/db"]}})
    assert "hunter2" not in str(refused.value)


HELD = """
CREATE TABLE pause (seconds double precision);
INSERT INTO pause VALUES (0);
CREATE FUNCTION waited() RETURNS boolean LANGUAGE plpgsql VOLATILE AS
$$ BEGIN PERFORM pg_sleep((SELECT seconds FROM pause)); RETURN true; END $$;
CREATE VIEW held AS SELECT sex FROM people_7 WHERE waited();
"""
RELEASED = "DROP VIEW held; DROP FUNCTION waited(); DROP TABLE pause"
HELD_SCHEMA = {
    "table": {"name": "held", "version": "1"},
    "privacy": {"rho": 1.0},
    "columns": {"sex": {"values": ["F", "M"]}},
}
SLEEPING = "FROM pg_stat_activity WHERE application_name = 'dpxplain' AND wait_event = 'PgSleep'"
COUNT = "SELECT sex, COUNT(*) FROM held GROUP BY sex"


@pytest.mark.parametrize("how", ["terminated", "time limit"])
def test_a_scan_that_the_database_cut_off_pays_once_and_one_that_took_too_long_pays_again(
    source: str, tmp_path: Path, postgres_server: PostgresServer, how: str
) -> None:
    with (
        psycopg.connect(postgres_server.address(), autocommit=True) as operator,
        ThreadPoolExecutor(1) as thread,
    ):
        operator.execute(HELD)
        try:
            with dpx.connect(f"{source}::held", HELD_SCHEMA, workspace=tmp_path) as session:
                operator.execute("UPDATE pause SET seconds = 60")
                asked = thread.submit(session.query, COUNT, rho=0.1)
                while operator.execute(f"SELECT count(*) {SLEEPING}").fetchone() == (0,):
                    time.sleep(0.02)
                function = "pg_terminate_backend" if how == "terminated" else "pg_cancel_backend"
                operator.execute(f"SELECT {function}(pid) {SLEEPING}")
                with pytest.raises(SourceError, match="The charge stays") as error:
                    asked.result(120)
                operator.execute("UPDATE pause SET seconds = 0")
                assert session.budget.spent == pytest.approx(0.1)
                assert len(session.query(COUNT, rho=0.1).rows) == 2
                assert session.budget.spent == pytest.approx(0.1 if how == "terminated" else 0.2)
                assert isinstance(error.value, SourceLost) == (how == "terminated")
        finally:
            operator.execute(RELEASED)
