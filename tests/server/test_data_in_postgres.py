"""Data sets of a server whose tables are in PostgreSQL: opened lazily, from listed databases only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from dpxplain.errors import SchemaError, SourceError
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.query import Aggregate, Query
from dpxplain.server.catalog import details, summary
from dpxplain.server.config import Config
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
        with pytest.raises(SourceError, match="no table people_8"):
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
        assert "The data live in PostgreSQL." in shown["description"]
        assert "host" not in str(shown)
        assert USER not in str(shown)
    ledger.close()


def test_a_database_that_is_not_listed_is_never_connected_to(source: str, tmp_path: Path) -> None:
    """Its host would be sent the server's own password."""
    declare_sets(tmp_path, source)
    ledger = open_ledger(None)
    with pytest.raises(SourceError, match="not configured for"):
        Registry((tmp_path / "set_7.toml",), ledger, databases=(f"{source}&port=1",))
    ledger.close()


def test_two_data_sets_on_one_table_are_refused(source: str, tmp_path: Path) -> None:
    for name in ("set_7", "twin"):
        text = SCHEMA.format(number=7, source=source).replace('"set_7"', f'"{name}"')
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    ledger = open_ledger(None)
    with pytest.raises(SchemaError, match="same file or table"):
        Registry((tmp_path,), ledger, databases=(source,))
    ledger.close()


def test_a_password_in_the_configuration_is_refused_unrepeated() -> None:
    with pytest.raises(SchemaError, match="password") as refused:
        Config.load({"server": {"datasets": "schemas", "databases": ["postgresql://ann:hunter2@host/db"]}})
    assert "hunter2" not in str(refused.value)
