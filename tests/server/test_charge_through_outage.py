"""PostgreSQL dies around the commit of a charge or a release: the analyst gets one answer, charged once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from breaking_proxy import BreakingProxy, breaking_proxy

import dpxplain as dpx
from dpxplain import remote
from dpxplain.errors import LedgerUnavailable
from dpxplain.ledger import single_flight
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.model.charge import Charge, Request
from dpxplain.server import problems
from postgres_server import USER, PostgresServer
from postgres_server import running_server as running_postgres
from server_fixture import COUNT, config_of, running_server

CHARGE = Charge("query", "key", Request("a query"), 0.1)
pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    """A server of its own: it is killed and started."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def address(database: PostgresServer) -> Iterator[str]:
    with database.new_database() as place:
        yield place


@contextmanager
def through(database: PostgresServer, address: str) -> Iterator[tuple[BreakingProxy, str]]:
    """A proxy, and the ledger's address by way of it."""
    with breaking_proxy(f"{database.folder}/.s.PGSQL.5432") as proxy:
        name = address.partition("@/")[2].partition("?")[0]
        secret = quote(database.password, safe="")
        yield proxy, f"postgresql://{USER}:{secret}@127.0.0.1:{proxy.port}/{name}"


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
@pytest.mark.parametrize("table", ["entries", "releases"])
def test_an_analyst_is_charged_once_when_the_database_dies(
    database: PostgresServer,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    after: bool,
) -> None:
    monkeypatch.setattr(problems, "_OUTAGE_RETRY_SECONDS", 1)
    crashed = threading.Event()

    def crash() -> None:
        database.stop(signal.SIGQUIT)
        crashed.set()

    with (
        through(database, address) as (proxy, place),
        closing(open_ledger(place)) as ledger,
        running_server(config_of(tmp_path), ledger) as server,
        dpx.connect(f"{server.url}people", token=server.token("alice")) as session,
        ThreadPoolExecutor(1) as thread,
    ):
        proxy.arm(table, after=after, then=crash)
        asked = thread.submit(session.query, COUNT, rho=0.1)
        assert crashed.wait(60)
        database.start()
        answer = asked.result(120)
        assert proxy.breaks == 1
        assert session.budget.spent == pytest.approx(0.1)
        assert [entry.state for entry in session.history] == ["released"]
        assert session.query(COUNT, rho=0.1).rows == answer.rows
        assert session.budget.spent == pytest.approx(0.1)
        assert ledger.verify_audit().problems == []
        assert "interrupted" not in {record.action for record in ledger.audit()}


def test_another_process_takes_over_a_charge_that_was_committed_when_the_connection_broke(
    database: PostgresServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.05)
    with (
        through(database, address) as (proxy, place),
        closing(open_ledger(place)) as first,
        closing(open_ledger(address)) as second,
    ):
        entry = _broken_charge(proxy, first)
        alice = second.account("alice", default_limit=5.0)
        while alice.is_measured("people", "key"):  # until the first tells that it has read nothing
            threading.Event().wait(0.02)
        taken = alice.reserve_once("people", CHARGE)
        assert taken is not None
        assert taken.row == entry
        alice.release(taken.row, "{}")
        assert second.budget("people").spent == 0.1
        assert second.verify_audit().problems == []


def _broken_charge(proxy: BreakingProxy, ledger: SQLLedger) -> int:
    """The row of an entry that was committed, which its process does not know."""
    ledger.open_dataset("people", 1.0, 1e-6)
    proxy.arm("entries", after=True, then=lambda: None)
    with pytest.raises(LedgerUnavailable):
        ledger.account("alice", default_limit=5.0).reserve_once("people", CHARGE)
    [entry] = ledger.history("people")
    return entry.row


def test_only_the_same_charge_is_taken_over_and_only_once(
    database: PostgresServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with through(database, address) as (proxy, place), closing(open_ledger(place)) as ledger:
        entry = _broken_charge(proxy, ledger)
        alice = ledger.account("alice", default_limit=5.0)
        bob = ledger.account("bob", default_limit=5.0).reserve_once("people", CHARGE)
        assert bob is not None
        assert bob.row != entry
        assert alice.reserve_once("people", CHARGE).row == entry
        assert alice.reserve_once("people", CHARGE) is None  # it is being measured
        alice.abandon(entry)  # failed, perhaps by the data
        again = alice.reserve_once("people", CHARGE)
        assert again is not None
        assert again.row not in (entry, bob.row)  # data may have been read under the first
        assert ledger.budget("people").spent == pytest.approx(0.3)


def test_a_charge_under_other_declarations_is_not_taken_over(
    database: PostgresServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_flight, "SECONDS_BETWEEN_HEARTBEATS", 0.05)
    with through(database, address) as (proxy, place), closing(open_ledger(place)) as ledger:
        entry = _broken_charge(proxy, ledger)
        while ledger.flights._doubtful:
            threading.Event().wait(0.02)
        changed = Charge("query", "key", Request("a query"), 0.1, declarations="others")
        other = ledger.account("alice", default_limit=5.0).reserve_once("people", changed)
        assert other is not None
        assert other.row != entry


def test_a_client_finds_what_was_released_after_its_connection_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_SECONDS_BETWEEN_LOOKS", 0.05)
    with (
        running_server(config_of(tmp_path)) as server,
        dpx.connect(f"{server.url}people", token=server.token("alice")) as session,
    ):
        stream = httpx.Client.stream

        @contextmanager
        def break_once(client: httpx.Client, method: str, path: str, **options: Any) -> Iterator[Any]:
            with stream(client, method, path, **options) as response:
                if method == "POST":
                    response.read()
                    raise httpx.ReadError("lost")
                yield response

        monkeypatch.setattr(httpx.Client, "stream", break_once)
        answer = session.query(COUNT, rho=0.1)
        assert len(answer.rows) == 2
        assert session.budget.spent == pytest.approx(0.1)
