"""What an adversarial review found about time, failures and places in the pool, each closed by a test."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from slow_engine import slow_down

from dpxplain.server.context import outcome
from dpxplain.server.problems import Problem
from server_fixture import COUNT, SQL, WEIGHTS, config_of, running_server

AT = "/datasets/people"
MANY = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6}


def ask(client: httpx.Client, sql: str = SQL, rho: float = 0.1) -> httpx.Response:
    return client.post(f"{AT}/query", json={"sql": sql, "rho": rho})


def spent(client: httpx.Client) -> float:
    told: float = client.get(f"{AT}/budget").json()["rho"]["spent"]
    return told


def entries(client: httpx.Client) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = client.get(f"{AT}/history").json()["entries"]
    return told


def test_a_padded_answer_shows_nowhere_before_its_step_ends(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY | {"pad_seconds": 0.1})) as server:
        asking, watching = server.client(), server.client()
        measured, step_ends, pads = threading.Event(), threading.Event(), []

        def pad(started: float) -> None:
            pads.append(started)
            measured.set()
            step_ends.wait()

        server.pad_by(pad)
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(ask, asking)
            try:
                assert measured.wait(60)
                assert [entry["state"] for entry in entries(watching)] == ["reserved"]
                assert not answer.done()
            finally:
                step_ends.set()
            assert answer.result().status_code == 200
        assert len(pads) == 1  # what follows the release is not padded once more
        assert ask(watching).json()["free"]
        assert len(pads) == 1


def test_a_padded_job_shows_nowhere_before_its_step_ends(tmp_path: Path) -> None:
    step = 0.5
    with running_server(config_of(tmp_path, limits=MANY | {"pad_seconds": step})) as server:
        client = server.client()
        why = {"answer": ask(client).json()["id"], "weights": WEIGHTS, "k": 2, "rho": 0.1}
        started = time.monotonic()
        job = client.post(f"{AT}/explain", json=why).json()["id"]
        while [entry["state"] for entry in entries(client)] != ["released", "released"]:
            time.sleep(0.02)
        assert time.monotonic() - started >= step
        assert client.get(f"/jobs/{job}?wait=60").json()["state"] == "done"


def test_one_caller_takes_half_of_the_places_and_never_all_threads(tmp_path: Path) -> None:
    limits = MANY | {"running": 2, "waiting": 2}
    with running_server(config_of(tmp_path, limits=limits)) as server:
        greedy, modest = server.client("greedy"), server.client("modest")
        engine = slow_down(server)
        with ThreadPoolExecutor(3) as threads:
            try:
                inside = [threads.submit(ask, greedy, sql) for sql in (SQL, COUNT)]
                assert engine.entered.acquire(timeout=60)
                while server.state.pool.admitted < 2:
                    time.sleep(0.01)
                third = ask(greedy, SQL, 0.2)
                assert (third.status_code, third.json()["code"]) == (429, "too_many_at_once")
                assert "Nothing was charged" in third.json()["message"]
                assert int(third.headers["retry-after"]) >= 1
                waiting = server.state.pool._threads._waiting
                assert [call.caller for call in waiting] == ["greedy"]  # a thread is free, but not for greedy
                other = threads.submit(ask, modest, COUNT.replace("sex", "age"))
                assert engine.entered.acquire(timeout=60)  # nobody else waits for it
                assert [call.caller for call in waiting] == ["greedy"]
            finally:
                engine.go.set()
            assert [one.result().status_code for one in (*inside, other)] == [200] * 3
        assert len(entries(greedy)) == 2


def test_a_task_that_never_began_is_refused_as_busy() -> None:
    """As when the server shuts down while tasks wait."""
    waiting: Future[None] = Future()
    waiting.cancel()
    with pytest.raises(Problem) as refused:
        asyncio.run(outcome(waiting))
    assert (refused.value.status, refused.value.shape["code"]) == (503, "busy")
