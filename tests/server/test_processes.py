"""Server processes that share a ledger divide the rate limits; identical requests at two of them pay once."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from slow_engine import slow_down

from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import PROCESSES
from dpxplain.server import limits, pool
from server_fixture import SQL, RunningServer, config_of, count_processes_every, running_server

AT = "/datasets/people"
RATES = {"requests_per_minute": 20, "sign_ins_per_minute": 4}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    address: str = request.getfixturevalue("postgres_address")
    return address


@pytest.fixture
def pair(place: str, tmp_path: Path) -> Iterator[tuple[RunningServer, RunningServer]]:
    config = config_of(tmp_path / "data", limits={"seconds_per_request": 600})
    with (
        closing(open_ledger(place)) as here,
        closing(open_ledger(place)) as there,
        running_server(config, here) as one,
        running_server(config, there) as two,
    ):
        yield one, two


def test_identical_requests_at_two_processes_pay_once(pair: tuple[RunningServer, RunningServer]) -> None:
    one, two = pair
    engine, other = slow_down(one), slow_down(two)
    first = one.client()
    second = two.anonymous(dict(first.headers))
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        asked = threads.submit(first.post, f"{AT}/query", json={"sql": SQL, "rho": 0.25})
        assert engine.entered.acquire(timeout=120)
        again = threads.submit(second.post, f"{AT}/query", json={"sql": SQL, "rho": 0.25})
        while not two.state.pool.is_running:
            time.sleep(0.01)
        engine.go.set()
        answer, repeated = asked.result().json(), again.result().json()
    assert (repeated["id"], repeated["free"]) == (answer["id"], True)
    assert not other.entered.acquire(blocking=False)
    assert first.get(f"{AT}/budget").json()["rho"]["spent"] == 0.25


def test_request_that_fails_at_one_process_is_measured_and_paid_for_at_the_other(
    pair: tuple[RunningServer, RunningServer],
) -> None:
    one, two = pair
    engine = slow_down(one)
    engine.fail = True
    first = one.client()
    second = two.anonymous(dict(first.headers))
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        asked = threads.submit(first.post, f"{AT}/query", json={"sql": SQL, "rho": 0.25})
        assert engine.entered.acquire(timeout=120)
        again = threads.submit(second.post, f"{AT}/query", json={"sql": SQL, "rho": 0.25})
        while not two.state.pool.is_running:
            time.sleep(0.01)
        engine.go.set()
        assert asked.result().status_code == 500
        assert again.result().json()["free"] is False
    assert first.get(f"{AT}/budget").json()["rho"]["spent"] == 0.5


def test_processes_divide_the_limits_and_free_requests_write_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path / "data", limits=RATES)
    count_processes_every(3600, monkeypatch)  # so that no heartbeat is counted below
    monkeypatch.setattr(pool, "_SECONDS_BETWEEN_JOB_CHECKS", 3600)  # nor the first look for old jobs
    with closing(open_ledger(place)) as here, closing(open_ledger(place)) as there:
        with running_server(config, here) as one, running_server(config, there) as two:
            one.processes.refresh()  # as it would notice in ten seconds
            assert one.processes() == two.processes() == 2
            one.stop_refilling()
            two.stop_refilling()
            first = one.client()
            second = two.anonymous(dict(first.headers))
            writes = _counted(here)
            statuses = [first.get(f"{AT}/budget").status_code for _ in range(12)]
            assert statuses == [200] * 10 + [429] * 2
            assert writes == []
            assert [second.get(f"{AT}/budget").status_code for _ in range(12)] == statuses
            token = {"token": one.token("alice")}
            codes = [one.anonymous().post("/session", json=token).status_code for _ in range(3)]
            assert codes == [200, 200, 429]
        with here.store.reading() as connection:
            assert connection.execute(sa.select(PROCESSES)).all() == []


def _counted(ledger: Any) -> list[str]:
    """Filled with a word for each transaction that may write."""
    writes: list[str] = []
    for name in ("writing", "updating"):
        begin = getattr(ledger.store, name)

        def counted(begin: Any = begin, name: str = name) -> Any:
            writes.append(name)
            return begin()

        setattr(ledger.store, name, counted)
    return writes


def test_a_process_that_comes_and_one_that_is_silent_are_noticed(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_processes_every(0.01, monkeypatch)
    with closing(open_ledger(place)) as ledger:
        first = limits.ProcessCount(ledger.processes)
        assert first() == 1
        silent = ledger.processes.enter()
        while first() != 2:
            time.sleep(0.01)
        with ledger.store.updating() as connection:
            long_ago = {"heard": "2020-01-01T00:00:00+00:00"}
            connection.execute(sa.update(PROCESSES).where(PROCESSES.c.id == silent).values(**long_ago))
        while first() != 1:
            time.sleep(0.01)
        first.close()


def test_one_a_minute_stays_one_however_many_divide_it() -> None:
    buckets = limits.Buckets(1, clock=lambda: 0.0, processes=lambda: 4)
    assert buckets.take("a") == 0
    assert buckets.take("a") == 240
