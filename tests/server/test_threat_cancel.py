"""T22 under attack: stopping a request at a chosen moment does not tell whether it had measured by then.

Each attack runs in two worlds. In one of them the measurement is done before the request is stopped, in the
other it is under way. Gates stand for the clock, so that nothing depends on speed. What the analyst can see
afterwards must be the same in both.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from slow_engine import SlowEngine, slow_down

from dpxplain.ledger.ledger import open_ledger
from dpxplain.server import pool, requests
from server_fixture import COUNT, SQL, WEIGHTS, RunningServer, config_of, running_server

AT = "/datasets/people"
LIMITS = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6, "pad_seconds": 0.1}
World = Literal["measured", "measuring"]


class Step:
    """One padded step, which ends when the test says so."""

    def __init__(self, server: RunningServer, world: World) -> None:
        self.pads = 0
        self._world = world
        self._padding, self._end = threading.Semaphore(0), threading.Event()
        self.engine: SlowEngine = slow_down(server)
        server.pad_by(self._pad)
        if world == "measured":
            self.engine.go.set()

    def reach(self) -> None:
        """Returns when the measurement is done, in its world, or has begun, in the other."""
        reached = self._padding if self._world == "measured" else self.engine.entered
        assert reached.acquire(timeout=60)

    def end(self) -> None:
        self.engine.go.set()
        self._end.set()

    def _pad(self, _started: float) -> None:
        self.pads += 1
        self._padding.release()
        assert self._end.wait(60)


class WatchedTasks(set[pool.Task]):
    """The pool's tasks; tells when they were looked through for late ones."""

    def __init__(self, tasks: Iterable[pool.Task]) -> None:
        super().__init__(tasks)
        self.looked = threading.Semaphore(0)

    def __iter__(self) -> Iterator[pool.Task]:
        yield from super().__iter__()
        self.looked.release()


@contextmanager
def one_step(server: RunningServer, world: World) -> Iterator[Step]:
    step = Step(server, world)
    try:
        yield step
    finally:
        step.end()


def explanation(client: httpx.Client, rho: float = 0.1) -> dict[str, Any]:
    answer = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()["id"]
    return {"answer": answer, "weights": WEIGHTS, "k": 2, "rho": rho, "mechanism": "one-shot"}


def entries(client: httpx.Client) -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = client.get(f"{AT}/history").json()["entries"]
    return [{key: value for key, value in entry.items() if key != "time"} for entry in history]


def free_views(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    """What the analyst sees for nothing: history, budget, and whether the explanation is stored."""
    price = client.post(f"{AT}/explain/preview", json=body).json()
    return {
        "history": entries(client),
        "budget": client.get(f"{AT}/budget").json(),
        "price": {key: price[key] for key in ("rho", "free", "remaining")},  # its margins follow the noise
    }


def same_in_both_worlds(attack: Callable[[World], Any]) -> Any:
    measured, measuring = attack("measured"), attack("measuring")
    assert measured == measuring
    return measured


def cancelled_before(event: Callable[[], None], client: httpx.Client, server: RunningServer, job: str) -> Any:
    """The job in the end, if the event follows when the server knows that the job is to be cancelled."""
    with ThreadPoolExecutor(1) as threads:
        response = threads.submit(client.delete, f"/jobs/{job}")
        while not server.state.jobs.local(job).task.stop.is_requested:
            time.sleep(0.01)
        event()
        response.result().raise_for_status()
    return client.get(f"/jobs/{job}", params={"wait": 60}).json()


def cancel(client: httpx.Client, server: RunningServer, world: World, rho: float) -> Any:
    """The attack: cancel within the step; all that can be seen then."""
    body = explanation(client, rho)
    with one_step(server, world) as step:
        started = client.post(f"{AT}/explain", json=body)
        if started.status_code == 409:
            return started.json()
        step.reach()
        ended = cancelled_before(step.end, client, server, started.json()["id"])
    return ended | {"id": "", "steps": step.pads} | free_views(client, body)


def test_t22_cancelling_within_a_step_does_not_tell_whether_the_measurement_was_done(tmp_path: Path) -> None:
    def attack(world: World) -> Any:
        with running_server(config_of(tmp_path / world, limits=LIMITS)) as server:
            return cancel(server.client(), server, world, 0.1)

    view = same_in_both_worlds(attack)
    assert (view["state"], view["rho"], view["result"], view["steps"]) == ("cancelled", 0.1, None, 1)
    assert [entry["state"] for entry in view["history"]] == ["released", "reserved"]
    assert not view["price"]["free"]


def test_t22_the_third_cancellation_is_the_last_whatever_had_been_measured(tmp_path: Path) -> None:
    def attack(world: World) -> Any:
        with running_server(config_of(tmp_path / world, limits=LIMITS)) as server:
            client = server.client()
            views = [cancel(client, server, world, 0.1 + number / 100) for number in range(3)]
            with one_step(server, world) as step:
                step.end()
                refused = client.post(f"{AT}/explain", params={"wait": 60}, json=explanation(client, 0.2))
            return views, refused.status_code, refused.json()

    views, status, refusal = same_in_both_worlds(attack)
    assert [entry["state"] for entry in views[-1]["history"]] == ["released"] + ["reserved"] * 3
    assert (status, refusal["code"]) == (409, "too_many_failures")


def test_t22_a_time_limit_within_a_step_does_not_tell_whether_the_measurement_was_done(
    tmp_path: Path,
) -> None:
    def attack(world: World) -> Any:
        with running_server(config_of(tmp_path / world, limits=LIMITS)) as server:
            client = server.client()
            body = explanation(client)
            server.state.pool._seconds, server.state.pool.pad_seconds = 0.01, 1_000.0
            with one_step(server, world) as step:
                job = client.post(f"{AT}/explain", json=body).json()["id"]
                step.reach()
                tasks = WatchedTasks(server.tasks())
                server.state.pool._tasks = tasks
                for _ in range(2):  # the limit of 0.01 s is over then: the watching thread sleeps for longer
                    assert tasks.looked.acquire(timeout=60)
                server.state.pool._seconds = 60.0  # for what follows the step
                step.end()
                ended = client.get(f"/jobs/{job}", params={"wait": 60}).json()
            return ended["state"], ended["rho"], step.pads, [entry["state"] for entry in entries(client)]

    assert same_in_both_worlds(attack) == ("done", 0.1, 1, ["released"] * 2)


def test_t22_what_the_time_limit_stops_is_not_stored_although_it_went_on_to_the_end(tmp_path: Path) -> None:
    """An engine that notices the request to stop too late; its step ends after the limit."""
    with running_server(config_of(tmp_path, limits=LIMITS)) as server:
        client = server.client()
        body = explanation(client)
        with one_step(server, "measured") as step:
            step.engine.out_of_time = True
            job = client.post(f"{AT}/explain", json=body).json()["id"]
            step.reach()
            step.end()
            ended = client.get(f"/jobs/{job}", params={"wait": 60}).json()
        assert (ended["state"], ended["error"]["code"]) == ("failed", "failed_after_charge")
        assert [entry["state"] for entry in entries(client)] == ["released", "reserved"]


def test_t22_a_client_that_goes_away_changes_nothing(tmp_path: Path) -> None:
    def attack(world: World) -> Any:
        with running_server(config_of(tmp_path / world, limits=LIMITS)) as server:
            client = server.client()
            body = json.dumps({"sql": COUNT, "rho": 0.1}).encode()
            url = httpx.URL(server.url)
            head = (
                f"POST /api/v1{AT}/query HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n"
                f"Authorization: Bearer {server.token('alice')}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            with one_step(server, world) as step:
                with socket.create_connection((url.host, url.port or 80)) as connection:
                    connection.sendall(head.encode() + body)
                    step.reach()
                step.end()
                while server.state.pool.admitted:
                    time.sleep(0.01)
            again = client.post(f"{AT}/query", json={"sql": COUNT, "rho": 0.1}).json()
            return again["free"], entries(client)

    free, history = same_in_both_worlds(attack)
    assert free
    assert [entry["state"] for entry in history] == ["released"]


def test_t22_a_server_that_stops_within_a_step_stores_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CLOSING_SECONDS", 0.1)

    def attack(world: World) -> Any:
        book = open_ledger(None)
        with running_server(config_of(tmp_path / world, limits=LIMITS), book) as server:
            client = server.client()
            body = explanation(client)
            step = Step(server, world)
            client.post(f"{AT}/explain", json=body).raise_for_status()
            step.reach()
        step.end()
        while server.state.pool.admitted:
            time.sleep(0.01)
        states = [entry.state for entry in book.account("alice", default_limit=5.0).history("people")]
        assert book.verify_audit().intact
        book.close()
        return states

    assert same_in_both_worlds(attack) == ["released", "reserved"]


def test_t22_cancelling_counts_also_when_it_came_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release is stored and its page is being drawn. If this were free, so would be one answer of two."""
    drawing, drawn = threading.Semaphore(0), threading.Event()
    show = requests.show_explanation

    def slow_show(*arguments: Any) -> Any:
        drawing.release()
        assert drawn.wait(60)
        return show(*arguments)

    with running_server(config_of(tmp_path, limits=LIMITS)) as server:
        client, curator = server.client(), server.curator()
        monkeypatch.setattr(requests, "show_explanation", slow_show)
        for number in range(3):
            drawn.clear()
            body = explanation(client, 0.1 + number / 100)
            job = client.post(f"{AT}/explain", json=body).json()["id"]
            assert drawing.acquire(timeout=60)
            cancelled_before(drawn.set, client, server, job)
            client.delete(f"/jobs/{job}").raise_for_status()  # once more counts no more
        assert {entry["state"] for entry in entries(client)} == {"released"}
        refused = client.post(f"{AT}/query", json={"sql": COUNT, "rho": 0.1})
        assert (refused.status_code, refused.json()["code"]) == (409, "too_many_failures")
        lines = [record for record in server.ledger.audit() if record.action == "cancelled"]
        assert [(line.actor, line.details) for line in lines] == [
            ("alice", {"entry": 2}),
            ("alice", {"entry": 3}),
            ("alice", {"entry": 4}),
        ]
        assert server.ledger.verify_audit().intact
        curator.post(f"{AT}/analysts/alice/forgive", json={"reason": "a slow page"}).raise_for_status()
        assert client.post(f"{AT}/query", json={"sql": COUNT, "rho": 0.1}).status_code == 200
