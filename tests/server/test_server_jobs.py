"""Work in the pool: admission before any charge, cancelling, time limits, padding, and other processes."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from slow_engine import SECRET, SlowEngine, slow_down

from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.process import Stopped
from dpxplain.server import requests
from server_fixture import SQL, WEIGHTS, RunningServer, config_of, running_server, soon

AT = "/datasets/people"
QUERY = {"sql": SQL, "rho": 0.1}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[RunningServer]:
    """One thread, one place to wait."""
    limits = {"running": 1, "waiting": 1, "seconds_per_request": 20}
    with running_server(config_of(tmp_path, limits=limits)) as running:
        yield running


def spent(client: httpx.Client) -> float:
    amount: float = client.get(f"{AT}/budget").json()["rho"]["spent"]
    return amount


def begun(client: httpx.Client, rho: float = 0.3, **more: Any) -> dict[str, Any]:
    """An explanation that is measured afresh."""
    answer = client.post(f"{AT}/query", json=QUERY).json()["id"]
    why = {"answer": answer, "weights": WEIGHTS, "k": 2, "rho": rho} | more
    job: dict[str, Any] = client.post(f"{AT}/explain", json=why).json()
    return job


def test_a_full_server_refuses_with_503_and_charges_nothing(small: RunningServer) -> None:
    names = ["first", "second", "third"]
    clients = [small.client(name) for name in names]
    engine = slow_down(small)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(client.post, f"{AT}/query", json=QUERY) for client in clients[:2]]
        assert engine.entered.acquire(timeout=60)
        while small.state.pool.admitted < 2:
            time.sleep(0.01)
        refused = clients[2].post(f"{AT}/query", json=QUERY)
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert int(refused.headers["retry-after"]) > 0
        assert spent(clients[2]) == 0
        assert small.ledger.account("third", default_limit=1).history("people") == []
        assert clients[2].get("/health").status_code == 200
        engine.go.set()
        assert [future.result().status_code for future in waiting] == [200, 200]
    assert clients[2].post(f"{AT}/query", json=QUERY).status_code == 200
    assert small.state.pool.admitted == 0


def test_a_stored_answer_is_given_even_by_a_full_server(small: RunningServer) -> None:
    client = small.client()
    client.post(f"{AT}/query", json=QUERY).raise_for_status()
    engine = slow_down(small)
    other = {"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "rho": 0.1}
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        busy = [threads.submit(small.client(n).post, f"{AT}/query", json=other) for n in ("a", "b")]
        assert engine.entered.acquire(timeout=60)
        assert client.post(f"{AT}/query", json=QUERY).json()["free"]
        engine.go.set()
        assert [future.result().status_code for future in busy] == [200, 200]


def test_a_stored_answer_does_not_wait_for_another_who_asks_the_same(small: RunningServer) -> None:
    client, other = small.client(), small.client("other")
    client.post(f"{AT}/query", json=QUERY).raise_for_status()
    small.forget_passes()
    engine = slow_down(small)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        measured = threads.submit(other.post, f"{AT}/query", json=QUERY)
        assert engine.entered.acquire(timeout=60)
        assert client.post(f"{AT}/query", json=QUERY).json()["free"]
        assert not measured.done()
        engine.go.set()
        assert measured.result().json()["free"] is False


def test_a_cancelled_job_stops_keeps_its_charge_and_says_so(small: RunningServer) -> None:
    client = small.client()
    client.post(f"{AT}/query", json=QUERY).raise_for_status()
    engine = slow_down(small)
    job = begun(client)
    assert job["state"] in ("queued", "running")
    assert engine.entered.acquire(timeout=60)
    running = client.get(f"/jobs/{job['id']}")
    assert (running.status_code, running.json()["state"], running.json()["rho"]) == (202, "running", 0.3)
    client.delete(f"/jobs/{job['id']}").raise_for_status()
    ended = client.get(f"/jobs/{job['id']}", params={"wait": 60}).json()
    assert (ended["state"], ended["rho"], ended["result"]) == ("cancelled", 0.3, None)
    assert "The charge stays" in ended["error"]["message"]
    assert SECRET not in json.dumps(ended)
    assert spent(client) == 0.4
    assert client.get(f"/jobs/{job['id']}").json() == ended
    assert client.delete(f"/jobs/{job['id']}").json() == ended
    engine.go.set()
    assert (
        client.post(f"{AT}/query", json=QUERY | {"rho": 0.2}).status_code == 200
    )  # the thread is free again


def test_a_job_cancelled_while_it_waits_costs_nothing(small: RunningServer) -> None:
    client, other = small.client(), small.client("other")
    client.post(f"{AT}/query", json=QUERY).raise_for_status()
    engine = slow_down(small)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        counting = {"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "rho": 0.2}
        first = threads.submit(other.post, f"{AT}/query", json=counting)
        assert engine.entered.acquire(timeout=60)
        job = begun(client)
        assert job["state"] == "queued"
        client.delete(f"/jobs/{job['id']}")
        engine.go.set()
        assert first.result().status_code == 200
    ended = client.get(f"/jobs/{job['id']}", params={"wait": 60}).json()
    assert (ended["state"], ended["rho"]) == ("cancelled", 0)
    assert "Nothing was charged" in ended["error"]["message"]
    assert spent(client) == 0.1


def test_what_takes_too_long_is_stopped_and_the_charge_stays(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path)) as server:
        client, engine = server.client(), slow_down(server)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            late = threads.submit(client.post, f"{AT}/query", json=QUERY)
            assert engine.entered.acquire(timeout=60)
            [task] = server.tasks()
            assert 0 < task.deadline - time.monotonic() <= 60 * 1.25  # at the end of a padded step
            task.deadline = time.monotonic()
            response = late.result()
        assert (response.status_code, response.json()["code"]) == (500, "failed_after_charge")
        assert spent(client) == 0.1


def test_a_failure_after_the_charge_says_only_that_it_failed(
    small: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    client = small.client()
    engine: SlowEngine = slow_down(small)
    engine.fail = True
    engine.go.set()
    with caplog.at_level(logging.DEBUG):
        response = client.post(f"{AT}/query", json=QUERY)
    assert (response.status_code, response.json()["code"]) == (500, "failed_after_charge")
    assert SECRET not in response.text + caplog.text
    assert "RuntimeError at dataset.py" in caplog.text
    assert spent(client) == 0.1
    entries = client.get(f"{AT}/history").json()["entries"]
    assert [entry["state"] for entry in entries] == ["reserved"]


def test_a_stored_result_that_cannot_be_shown_is_nobodys_failure_and_free_to_ask_again(
    small: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = small.client()

    def too_long(*_: Any, **__: Any) -> Any:
        raise Stopped("The time is up.")

    with monkeypatch.context() as patch:
        patch.setattr(requests, "show_answer", too_long)
        response = client.post(f"{AT}/query", json=QUERY)
    assert (response.status_code, response.json()["code"]) == (500, "not_shown")
    assert [entry["state"] for entry in client.get(f"{AT}/history").json()["entries"]] == ["released"]
    assert client.get(AT).json()["failures"]["counted"] == 0
    again = client.post(f"{AT}/query", json=QUERY).json()
    assert (again["free"], spent(client)) == (True, 0.1)


def test_measured_requests_take_whole_steps_also_when_they_fail(tmp_path: Path) -> None:
    step = 0.3
    with running_server(config_of(tmp_path, limits={"pad_seconds": step})) as server:
        client, padded = server.client(), server.padded()

        def seconds(rho: float) -> float:
            started = time.monotonic()
            client.post(f"{AT}/query", json=QUERY | {"rho": rho})
            return time.monotonic() - started

        first = seconds(0.1)
        engine = slow_down(server)
        engine.fail = True
        engine.go.set()
        server.forget_passes()
        failed = seconds(0.2)
        assert min(first, failed) >= step
        assert len(padded) == 2
        seconds(0.1)
        assert len(padded) == 2  # stored: nothing is measured
        engine.fail = False
        engine.go.clear()
        while engine.entered.acquire(blocking=False):
            pass
        job = begun(client, mechanism="one-shot")  # `auto` chooses by noisy answers
        assert engine.entered.acquire(timeout=60)
        stage = client.get(f"/jobs/{job['id']}").json()["stage"]
        assert stage == "Counting 6 conditions in one pass", "the first stage only"
        engine.go.set()
        ended = client.get(f"/jobs/{job['id']}", params={"wait": 60}).json()
        assert (ended["state"], ended["stage"]) == ("done", "")


def test_two_who_ask_the_same_at_once_each_pay_once(server: RunningServer) -> None:
    client = server.client("twice")
    engine = slow_down(server)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        both = [threads.submit(client.post, f"{AT}/query", json=QUERY) for _ in range(2)]
        assert engine.entered.acquire(timeout=60)
        engine.go.set()
        told = [future.result().json() for future in both]
    assert sorted(one["free"] for one in told) == [False, True]
    assert spent(client) == 0.1


WORKER = """
import json, sys, time
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from server_fixture import config_of, running_server
from slow_engine import slow_down
from dpxplain.ledger.ledger import open_ledger
book = open_ledger(Path(sys.argv[2]))
with running_server(config_of(Path(sys.argv[3])), book) as server:
    if sys.argv[4] == "slow":
        slow_down(server)
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other_process(tmp_path: Path) -> Iterator[Any]:
    """A second server process on the same ledger."""
    started = []

    def start(kind: str) -> tuple[str, subprocess.Popen[str]]:
        here = Path(__file__).parent
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps([str(here), str(here.parent)]),
             str(tmp_path / "ledger.sqlite"), str(tmp_path / "data"), kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip(), process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.process
def test_any_process_tells_of_a_job_cancels_it_and_knows_when_it_is_lost(
    tmp_path: Path, other_process: Any
) -> None:
    book = open_ledger(tmp_path / "ledger.sqlite")
    with running_server(config_of(tmp_path / "data"), book) as here:
        token = {"Authorization": f"Bearer {here.token('alice')}"}
        mine = here.client()
        mine.post(f"{AT}/query", json=QUERY).raise_for_status()
        url, process = other_process("slow")
        with httpx.Client(base_url=f"{url}api/v1", headers=token, timeout=120, verify=False) as there:
            # Done there, told here: the result comes from what is stored, with its true price.
            stored = begun(mine, 0.2)["id"]
            told = mine.get(f"/jobs/{stored}", params={"wait": 60}).json()
            seen = there.get(f"/jobs/{stored}", params={"wait": 60}).json()
            assert (seen["state"], seen["rho"]) == ("done", 0.2)
            assert seen["result"]["rows"] == told["result"]["rows"]
            assert seen["result"]["free"] is False

            # Running there, cancelled here.
            job = begun(there, 0.3)["id"]
            while mine.get(f"/jobs/{job}").json()["rho"] == 0:
                time.sleep(0.05)
            mine.delete(f"/jobs/{job}")
            ended = mine.get(f"/jobs/{job}", params={"wait": 60}).json()
            assert (ended["state"], ended["rho"]) == ("cancelled", 0.3)

            # Its process dies.
            job = begun(there, 0.4)["id"]
            while mine.get(f"/jobs/{job}").json()["rho"] == 0:
                time.sleep(0.05)
            process.kill()
            process.wait()
        _let_a_minute_pass(tmp_path / "ledger.sqlite", job)
        lost = mine.get(f"/jobs/{job}").json()
        assert (lost["state"], lost["rho"], lost["error"]["code"]) == ("lost", 0.4, "lost")
        assert spent(mine) == pytest.approx(0.1 + 0.2 + 0.3 + 0.4)
    book.close()


def _let_a_minute_pass(ledger: Path, job: str) -> None:
    with sqlite3.connect(ledger) as database:
        database.execute("UPDATE jobs SET heard = ? WHERE id = ?", (soon(-1).isoformat(), job))
    database.close()
