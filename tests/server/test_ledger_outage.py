"""Outages of the ledger: what callers, operators and probes are told while it is away, and afterwards."""

from __future__ import annotations

import logging
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from slow_engine import slow_down

from dpxplain.errors import LedgerUnavailable
from dpxplain.ledger import single_flight
from dpxplain.ledger.address import LedgerAddress
from dpxplain.ledger.backup import verified_backup
from dpxplain.ledger.ledger import open_ledger
from dpxplain.server import authenticate, context, metrics
from dpxplain.server.app import ledger_of
from postgres_server import PostgresServer
from postgres_server import running_server as running_postgres
from server_fixture import COUNT, SQL, LaterDatetime, RunningServer, config_of, probe_anew, running_server

GENEROUS = {"requests_per_minute": 100_000, "anonymous_per_minute": 100_000, "sign_ins_per_minute": 1000}
ASK = {"sql": COUNT, "rho": 0.1}


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    """A server of its own: it is stopped and started."""
    with running_postgres() as server:
        yield server


@contextmanager
def stopped(database: PostgresServer) -> Iterator[None]:
    database.stop(signal.SIGQUIT)
    try:
        yield
    finally:
        database.start()


@contextmanager
def removed(path: Path) -> Iterator[None]:
    """Moved away, as by an administrator; the open file itself stays what it is."""
    hidden = path.with_name("hidden.sqlite")
    path.rename(hidden)
    try:
        yield
    finally:
        hidden.rename(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.rollback()


@contextmanager
def locked_for_long(server: RunningServer, path: Path) -> Iterator[None]:
    """Locked for longer than the server waits; before and after it waits for as long as it takes."""
    patience = server.ledger.store.busy_seconds
    with locked(path):
        server.ledger.store.busy_seconds = 0.2
        yield
    server.ledger.store.busy_seconds = patience


@contextmanager
def full_disk(server: RunningServer) -> Iterator[None]:
    """No page more than there are: SQLite says the same of a disk without space."""
    with server.ledger.store.writing() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        most = connection.exec_driver_sql("PRAGMA max_page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    yield
    with server.ledger.store.writing() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {most}")


@contextmanager
def served(folder: Path, place: str | Path) -> Iterator[RunningServer]:
    with closing(open_ledger(place)) as ledger:
        config = config_of(folder, limits=GENEROUS)
        with running_server(config, ledger) as server:
            for name, role in (("alice", "analyst"), ("carol", "curator")):
                server.token(name, role)
            yield server


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> None:
    probe_anew(monkeypatch)


@pytest.fixture
def on_sqlite(tmp_path: Path, probed: None) -> Iterator[RunningServer]:
    with served(tmp_path / "schemas", tmp_path / "secret-folder" / "ledger.sqlite") as server:
        yield server


@pytest.fixture
def on_postgres(tmp_path: Path, database: PostgresServer, probed: None) -> Iterator[RunningServer]:
    with database.new_database() as address, served(tmp_path / "schemas", address) as server:
        yield server


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    ours = [record for record in caplog.records if record.name.startswith("dpxplain.server")]
    return [record.getMessage() for record in ours if record.levelno == level]


def until(condition: Callable[[], Any]) -> None:
    while not condition():
        time.sleep(0.02)


@pytest.mark.process
def test_a_stopped_postgres_is_503_with_one_error_line_and_one_when_it_is_back(
    on_postgres: RunningServer, database: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="dpxplain.server")
    analyst, curator = on_postgres.client(), on_postgres.curator()
    assert analyst.post("/datasets/people/query", json=ASK).status_code == 200
    assert curator.get("/metrics").status_code == 200
    assert analyst.get("/ready").json() == {
        "status": "ready",
        "checks": {"ledger": "ok", "datasets": "ok", "requests": "ok"},
    }
    with stopped(database):
        for _ in range(3):
            refused = analyst.post("/datasets/people/query", json={"sql": SQL, "rho": 0.1})
            assert refused.status_code == 503
            assert refused.json()["code"] == "ledger_unavailable"
            assert int(refused.headers["Retry-After"]) >= 1
        assert analyst.get("/health").json()["status"] == "ok"
        probe = on_postgres.anonymous().get("/ready")
        assert probe.status_code == 503
        assert probe.json()["status"] == "not ready"
        assert probe.json()["checks"]["ledger"] == "failed"
        figures = curator.get("/metrics")
        assert figures.status_code == 200
        assert "dpxplain_ledger_up 0.0" in figures.text
        assert 'dpxplain_rho_spent{dataset="people"} 0.1' in figures.text  # the last known
        assert float(re.search(r'ledger_errors_total\{kind="unreachable"\} (\S+)', figures.text)[1]) >= 3
        [line] = lines(caplog, logging.ERROR)
        assert "ledger outage (unreachable)" in line
    until(lambda: analyst.get("/ready").status_code == 200)
    assert analyst.post("/datasets/people/query", json={"sql": SQL, "rho": 0.1}).status_code == 200
    assert len(lines(caplog, logging.ERROR)) == 1
    assert [line for line in lines(caplog, logging.WARNING) if "is back after" in line]
    assert "dpxplain_ledger_up 1.0" in curator.get("/metrics").text


@pytest.mark.parametrize("outage", ["locked", "full", "removed"])
def test_a_sqlite_ledger_that_cannot_be_written_is_an_outage_too(
    on_sqlite: RunningServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    outage: str,
) -> None:
    caplog.set_level(logging.INFO, logger="dpxplain.server")
    path = tmp_path / "secret-folder" / "ledger.sqlite"
    analyst, curator = on_sqlite.client(), on_sqlite.curator()
    assert curator.get("/metrics").status_code == 200
    long = {"sql": SQL + " -- " + "x" * 15_000, "rho": 0.1}  # does not fit into a page that is there
    broken = {"locked": lambda: locked_for_long(on_sqlite, path), "full": lambda: full_disk(on_sqlite)}
    with broken.get(outage, lambda: removed(path))():
        refused = analyst.post("/datasets/people/query", json=long)
        assert (refused.status_code, refused.json()["code"]) == (503, "ledger_unavailable")
        assert "Retry-After" in refused.headers
        assert analyst.get("/health").status_code == 200
        assert curator.get("/metrics").status_code == 200
        assert len(lines(caplog, logging.ERROR)) == 1
        if outage != "full":
            assert analyst.get("/ready").status_code == 503
    assert on_sqlite.ledger.budget("people").spent == 0.0
    assert analyst.post("/datasets/people/query", json=long).status_code == 200
    assert on_sqlite.ledger.verify_audit().intact
    assert analyst.get("/ready").status_code == 200
    assert len(lines(caplog, logging.ERROR)) == 1


def test_a_revoked_token_reads_no_metrics_before_during_or_after_an_outage(
    on_sqlite: RunningServer, tmp_path: Path
) -> None:
    valid, revoked, later = (on_sqlite.client(name, "curator") for name in ("carol", "cleo", "lou"))
    for curator in (valid, revoked, later):
        assert curator.get("/metrics").status_code == 200
    on_sqlite.ledger.tokens.revoke(on_sqlite.ids["cleo"], by="test")
    assert revoked.get("/metrics").status_code == 401
    path = tmp_path / "secret-folder" / "ledger.sqlite"
    with removed(path):
        assert valid.get("/metrics").status_code == 200
        assert not on_sqlite.state.ledger_health.is_up
        assert [revoked.get("/metrics").status_code for _ in range(2)] == [503, 503]
    with closing(open_ledger(path)) as elsewhere:
        elsewhere.tokens.revoke(on_sqlite.ids["lou"], by="test")
    until(lambda: on_sqlite.anonymous().get("/ready").status_code == 200)
    assert [curator.get("/metrics").status_code for curator in (valid, revoked, later)] == [200, 401, 401]


def test_a_token_that_was_revoked_unseen_reads_metrics_only_briefly_during_an_outage(
    on_sqlite: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid, revoked, unseen = (on_sqlite.client(name, "curator") for name in ("carol", "cleo", "ulla"))
    for curator in (valid, revoked):
        assert curator.get("/metrics").status_code == 200
    on_sqlite.ledger.tokens.revoke(on_sqlite.ids["cleo"], by="test")
    with removed(tmp_path / "secret-folder" / "ledger.sqlite"):
        assert unseen.get("/metrics").status_code == 503  # this server never saw it valid
        assert not on_sqlite.state.ledger_health.is_up
        assert [who.get("/metrics").status_code for who in (valid, revoked, unseen)] == [200, 200, 503]
        for curator in (valid, revoked):
            assert curator.get("/datasets").status_code == 503
        monkeypatch.setattr(authenticate, "_OUTAGE_SECONDS", 0.0)
        assert [who.get("/metrics").status_code for who in (valid, revoked, unseen)] == [503, 503, 503]
    until(lambda: on_sqlite.anonymous().get("/ready").status_code == 200)
    assert [who.get("/metrics").status_code for who in (valid, revoked, unseen)] == [200, 401, 200]


@pytest.mark.parametrize("is_up", [True, False])
def test_a_token_that_expired_during_an_outage_reads_no_metrics(
    on_sqlite: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_up: bool
) -> None:
    curator = on_sqlite.curator()
    assert curator.get("/metrics").status_code == 200
    with removed(tmp_path / "secret-folder" / "ledger.sqlite"):
        if not is_up:
            assert curator.get("/metrics").status_code == 200
        monkeypatch.setattr(authenticate, "datetime", LaterDatetime)
        assert curator.get("/metrics").status_code == 503


def test_a_ledger_file_that_was_replaced_is_not_charged_any_more(
    on_sqlite: RunningServer, tmp_path: Path
) -> None:
    path = tmp_path / "secret-folder" / "ledger.sqlite"
    older = tmp_path / "older.sqlite"
    on_sqlite.ledger.recovery.backup(older)
    assert on_sqlite.client().post("/datasets/people/query", json=ASK).status_code == 200
    path.unlink()
    shutil.copy(older, path)
    refused = on_sqlite.client().post("/datasets/people/query", json={"sql": SQL, "rho": 0.1})
    assert (refused.status_code, refused.json()["code"]) == (503, "ledger_unavailable")


def test_a_readiness_probe_waits_for_a_locked_ledger_no_longer_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "SECONDS_PER_CHECK", 0.2)
    path = tmp_path / "ledger.sqlite"
    with ExitStack() as stack:
        server = stack.enter_context(served(tmp_path / "schemas", path))
        assert server.curator().get("/metrics").status_code == 200
        stack.enter_context(locked(path))  # its writers wait for a minute
        assert server.anonymous().get("/ready").json()["checks"]["ledger"] == "failed"
        assert server.curator().get("/metrics").status_code == 200  # budgets or none


def test_a_server_waits_for_a_locked_ledger_as_long_as_its_setting_says(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    open_ledger(path).close()
    assert config_of(tmp_path / "schemas").limits.ledger_seconds == 5.0
    config = config_of(tmp_path / "schemas", limits={"ledger_seconds": 0.25})
    with (
        closing(ledger_of(config, LedgerAddress(str(path)))) as ledger,
        locked(path),
        pytest.raises(LedgerUnavailable, match=r"0\.25 seconds"),
    ):
        ledger.note("carol", "looked")


def test_a_ledger_behind_its_anchor_is_not_ready(tmp_path: Path, probed: None) -> None:
    backup, anchor = tmp_path / "backup.sqlite", tmp_path / "elsewhere" / "people.anchor"
    anchor.parent.mkdir()
    with (
        closing(open_ledger(tmp_path / "ledger.sqlite", anchor=anchor)) as ledger,
        running_server(config_of(tmp_path / "schemas", limits=GENEROUS), ledger) as server,
    ):
        ledger.recovery.backup(backup)
        assert server.client().post("/datasets/people/query", json=ASK).status_code == 200
        assert server.anonymous().get("/ready").status_code == 200
        with verified_backup(backup) as copy:
            ledger.recovery.restore(copy, by="carol")
        response = server.anonymous().get("/ready")
        assert (response.status_code, response.json()["checks"]["ledger"]) == (503, "failed")


def test_a_data_set_that_cannot_be_asked_leaves_the_server_ready_for_the_others(
    on_sqlite: RunningServer, tmp_path: Path
) -> None:
    probe = on_sqlite.anonymous()
    (tmp_path / "schemas" / "broken.toml").write_text("[table]\nname = 'broken'\n", encoding="utf-8")
    response = probe.get("/ready")
    checks = {"ledger": "ok", "datasets": "partly", "requests": "ok"}
    assert (response.status_code, response.json()["checks"]) == (200, checks)
    assert "broken" not in response.text
    assert "people" not in response.text


def test_a_refused_edit_leaves_the_server_ready_under_the_former_declarations(
    on_sqlite: RunningServer, tmp_path: Path
) -> None:
    (tmp_path / "schemas" / "people.toml").write_text("[table]\nname = 'people'\n", encoding="utf-8")
    response = on_sqlite.anonymous().get("/ready")
    assert (response.status_code, response.json()["checks"]["datasets"]) == (200, "partly")
    assert on_sqlite.client().post("/datasets/people/query", json=ASK).status_code == 200


def test_a_schema_that_was_edited_during_an_outage_is_taken_over_after_it(
    on_sqlite: RunningServer, tmp_path: Path
) -> None:
    schema = tmp_path / "schemas" / "people.toml"
    with removed(tmp_path / "secret-folder" / "ledger.sqlite"):
        schema.write_text(schema.read_text().replace("rho = 10.0", "rho = 20.0"), encoding="utf-8")
        assert on_sqlite.client().get("/datasets/people").status_code == 503
    budget = on_sqlite.curator().get("/datasets/people/budget").json()
    assert budget["rho"]["limit"] == 5.0 or budget["rho"]["limit"] == 20.0
    assert on_sqlite.ledger.budget("people").limit == 20.0


def requests_of(server: RunningServer) -> list[tuple[str, str]]:
    """Every route with its parameters filled in."""
    document = server.app.openapi()
    parameters = {"dataset": "people", "entry": "1", "job": "x" * 24, "token": "abcdefabcdef"}
    return [
        (method.upper(), re.sub(r"\{(\w+)\}", lambda part: parameters.get(part[1], "1"), path))
        for path, operations in document["paths"].items()
        for method in operations
    ]


BODIES: dict[str, Any] = {
    "sql": COUNT,
    "rho": 0.1,
    "token": "dpx_abcdefabcdef_" + "A" * 43,
    "weights": [{"group": ["F"], "weight": 1}, {"group": ["M"], "weight": -1}],
    "answer": 1,
}


def messages_of(server: RunningServer, who: httpx.Client) -> Iterator[tuple[str, str]]:
    """What each route says, to a request with every key it declares and to one with none."""
    schemas = server.app.openapi()["components"]["schemas"]
    operations = server.app.openapi()["paths"]
    templates = [(method, path) for path in operations for method in operations[path]]
    for (method, path), (verb, template) in zip(requests_of(server), templates, strict=True):
        content = operations[template][verb].get("requestBody", {}).get("content", {})
        reference = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        keys = schemas.get(reference, {}).get("properties", {})
        body = {key: BODIES[key] for key in keys if key in BODIES}
        for json in (body, {}) if content else (None,):
            response = who.request(method, server.url.rstrip("/") + path, json=json)
            yield f"{method} {path} {response.status_code}", response.text + str(response.headers)


@pytest.mark.process
@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_no_route_names_the_ledger_to_anybody_during_an_outage(
    request: pytest.FixtureRequest, database: PostgresServer, tmp_path: Path, kind: str
) -> None:
    server: RunningServer = request.getfixturevalue(f"on_{kind}")
    callers = [server.client(), server.curator(), server.browser("bob"), server.anonymous()]
    for caller in callers:
        caller.get("/metrics")
    path = tmp_path / "secret-folder" / "ledger.sqlite"
    secret = {
        "postgres": ["postgres", "ledger_1", "psycopg", "socket", "dpxplain-postgres", str(database.folder)],
        "sqlite": ["sqlite", "secret-folder", str(tmp_path)],
    }[kind]
    statuses: dict[str, int] = {}
    with stopped(database) if kind == "postgres" else removed(path):
        for caller in callers:
            for route, text in messages_of(server, caller):
                if "/openapi.json" in route or "/docs" in route:
                    continue  # the same for everybody, at all times
                assert [word for word in secret if word.lower() in text.lower()] == [], (route, text)
                statuses[route.rpartition(" ")[2]] = statuses.get(route.rpartition(" ")[2], 0) + 1
    assert set(statuses) <= {"200", "400", "401", "403", "503"}, statuses
    assert statuses["503"] > 50, statuses


def test_a_full_disk_is_told_once_as_what_it_is_and_is_not_the_analysts(
    on_sqlite: RunningServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="dpxplain.server")
    monkeypatch.setattr(context, "STORING_SECONDS", 0.0)
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.05)
    client, curator = on_sqlite.client(), on_sqlite.curator()
    assert client.post("/datasets/people/query", json=ASK).status_code == 200
    engine = slow_down(on_sqlite)
    ask = {"sql": "SELECT age, region, sex, AVG(pay) FROM people GROUP BY age, region, sex", "rho": 0.1}
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(client.post, "/datasets/people/query", json=ask)
        assert engine.entered.acquire(timeout=60)
        with full_disk(on_sqlite):
            engine.go.set()
            failed = asked.result(120)
            for _ in range(5):  # small writes still succeed
                on_sqlite.processes.refresh()
                refused = client.post(
                    "/datasets/people/query", json={"sql": SQL + " -- " + "x" * 15_000, "rho": 0.1}
                )
                assert refused.status_code == 503
            assert (failed.status_code, failed.json()["code"]) == (503, "interrupted")
            assert "0.1 was charged" in failed.json()["message"]
            assert "not be charged again" in failed.json()["remedy"]
            outages = [line for line in lines(caplog, logging.ERROR) if "outage" in line]
            assert len(outages) == 1
            assert "is full. Free some space" in outages[0]
            assert lines(caplog, logging.WARNING) == []
    until(lambda: not on_sqlite.ledger.flights._has_reports)
    assert client.get("/datasets/people").json()["failures"]["counted"] == 0
    assert client.get("/datasets/people/history").json()["entries"][-1]["kept"]
    spent = on_sqlite.ledger.budget("people").spent
    assert client.post("/datasets/people/query", json=ask).status_code == 200
    assert on_sqlite.ledger.budget("people").spent == spent
    monkeypatch.setattr(metrics, "QUIET_SECONDS", 0.0)
    on_sqlite.processes.refresh()
    assert len([line for line in lines(caplog, logging.WARNING) if "is back" in line]) == 1
    text = curator.get("/metrics").text
    assert 'dpxplain_charges_without_release_total{dataset="people",ending="ledger lost"} 1.0' in text
