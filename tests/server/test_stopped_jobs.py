"""What an analyst and a curator are told of jobs: those that run, what stopping means, and who is blocked."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from slow_engine import slow_down

from dpxplain.ledger import single_flight
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Ending, Request
from dpxplain.server import pool
from dpxplain.server.config import Config
from server_fixture import COUNT, SQL, WEIGHTS, RunningServer, config_of, running_server

AT = "/datasets/people"


def begun(client: httpx.Client, rho: float) -> dict[str, Any]:
    answer = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()["id"]
    why = {"answer": answer, "weights": WEIGHTS, "k": 2, "rho": rho}
    job: dict[str, Any] = client.post(f"{AT}/explain", json=why).json()
    return job


def measured(client: httpx.Client) -> None:
    """A job that has ended before anything is slow, with its answer."""
    job = begun(client, 0.1)
    assert client.get(f"/jobs/{job['id']}", params={"wait": 60}).json()["state"] == "done"


def stopped(server: RunningServer, client: httpx.Client, rho: float) -> tuple[str, dict[str, Any]]:
    """What was said before it was stopped, and how it ended."""
    engine = slow_down(server)
    job = begun(client, rho)
    assert engine.entered.acquire(timeout=60)
    before: str = client.get(f"/jobs/{job['id']}").json()["stopping"]
    client.delete(f"/jobs/{job['id']}").raise_for_status()
    ended: dict[str, Any] = client.get(f"/jobs/{job['id']}", params={"wait": 60}).json()
    engine.go.set()
    return before, ended


@pytest.fixture
def server(tmp_path: Path):
    with running_server(config_of(tmp_path)) as running:
        yield running


def test_stopping_says_before_that_the_charge_stays_and_how_many_count(server: RunningServer) -> None:
    client = server.client()
    measured(client)
    for number in range(1, 4):
        before, ended = stopped(server, client, 0.2 + number / 100)
        assert before == (
            f"The charge of 0.2{number} stays. A stopped request counts as a failure. This would be number "
            f"{number} of 3."
        )
        assert (ended["state"], ended["stopping"]) == ("cancelled", "")
        count = client.get(AT).json()["failures"]
        assert (count["counted"], count["most"]) == (number, 3)
        assert count["sentence"].startswith(f"You have used {number} of 3 allowed failures")
    assert "until the curator forgives the failures" in count["sentence"]
    assert server.client("bob").get(AT).json()["failures"]["sentence"] == ""
    assert server.curator().get(AT).json()["failures"] is None


def test_a_curator_sees_who_is_blocked_and_forgives(server: RunningServer) -> None:
    client, curator = server.client(), server.curator()
    measured(client)
    for number in range(3):
        stopped(server, client, 0.2 + number / 100)
    server.client("bob").post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).raise_for_status()

    def standing() -> dict[str, tuple[int, bool]]:
        analysts = curator.get(f"{AT}/analysts").json()["analysts"]
        return {given["analyst"]: (given["failures"], given["blocked"]) for given in analysts}

    assert standing() == {"alice": (3, True), "bob": (0, False)}
    curator.post(f"{AT}/analysts/alice/forgive", json={"reason": "slow network"}).raise_for_status()
    assert standing() == {"alice": (0, False), "bob": (0, False)}
    assert client.get(AT).json()["failures"]["counted"] == 0


def test_the_history_calls_a_stopped_job_stopped(server: RunningServer) -> None:
    client = server.client()
    measured(client)
    stopped(server, client, 0.2)
    lines = client.get(f"{AT}/history").json()["entries"]
    assert [line["stopped"] for line in lines][-1] is True
    assert lines[-1]["state"] == "reserved"
    assert not any(line["stopped"] for line in lines[:-1])


def test_own_jobs_are_listed_with_what_was_asked(server: RunningServer) -> None:
    client = server.client()
    done = begun(client, 0.1)
    client.get(f"/jobs/{done['id']}", params={"wait": 60}).raise_for_status()
    engine = slow_down(server)
    running = begun(client, 0.3)
    assert engine.entered.acquire(timeout=60)
    jobs = client.get(f"{AT}/jobs").json()["jobs"]
    assert [(job["id"], job["state"]) for job in jobs] == [(running["id"], "running"), (done["id"], "done")]
    assert jobs[0]["request"]["rho"] == 0.3
    assert [weight["group"] for weight in jobs[0]["weights"]] == ["North", "South"]
    assert server.client("bob").get(f"{AT}/jobs").json() == {"jobs": []}
    engine.go.set()


def test_a_job_stopped_before_its_turn_ends_at_once_and_costs_nothing(server: RunningServer) -> None:
    client = server.client()
    measured(client)
    engine = slow_down(server)
    begun(client, 0.3)
    assert engine.entered.acquire(timeout=60)
    before = client.get(f"{AT}/budget").json()["rho"]["spent"]
    waiting = [begun(client, 0.4 + number / 10) for number in range(2)]
    for job in waiting:
        ended = client.delete(f"/jobs/{job['id']}", params={"wait": 60}).json()
        assert (ended["state"], ended["error"]["message"]) == (
            "cancelled",
            "The request was cancelled. Nothing was charged.",
        )
    assert server.state.pool.admitted == 1
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == before
    engine.go.set()


def test_requests_that_a_stop_of_the_server_ends_are_nobodys_failure_and_are_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CLOSING_SECONDS", 0.3)
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    asks = [{"sql": sql, "rho": 0.1} for sql in (SQL, COUNT, SQL.replace("AVG", "SUM"))]
    with running_server(config_of(tmp_path / "data", limits={"running": 6, "waiting": 6}), ledger) as server:
        engine, client = slow_down(server), server.client()
        jobs = ThreadPoolExecutor(3)
        asked = [jobs.submit(client.post, f"{AT}/query", json=ask) for ask in asks]
        for _ in asks:
            assert engine.entered.acquire(timeout=60)
        server.state.pool.close()
        responses = [each.result(60) for each in asked]
        jobs.shutdown()
    assert [each.json()["code"] for each in responses] == ["interrupted"] * 3
    assert ledger.budget("people").spent == pytest.approx(0.3)
    assert ledger.failures.counted("people", "alice") == {}
    assert ledger.failures.endings("people") == {Ending.STOPPED: 3}
    with running_server(config_of(tmp_path / "data"), ledger) as server:
        client = server.client()
        assert [client.post(f"{AT}/query", json=ask).status_code for ask in asks] == [200] * 3
        assert ledger.budget("people").spent == pytest.approx(0.3)
    assert ledger.verify_audit().problems == []
    ledger.close()


def test_one_death_of_a_server_blocks_nobody_and_is_found_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    ledger.open_dataset("people", 10.0, 1e-6)
    account = ledger.account("alice", default_limit=5.0)
    for number in range(3):
        account.reserve_once("people", Charge("query", f"key-{number}", Request("a query"), 0.1))
    ledger.close()  # without an ending, as when it is killed
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    monkeypatch.setattr(single_flight, "SILENCE", timedelta(0))
    with running_server(config_of(tmp_path / "data"), ledger) as server:
        assert [record.action for record in ledger.audit()].count("interrupted") == 3
        client, curator = server.client(), server.curator()
        monkeypatch.setattr(single_flight, "SILENCE", timedelta(seconds=30))
        assert client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).status_code == 200
        [line] = curator.get(f"{AT}/analysts").json()["analysts"]
        assert (line["failures"], line["crashes"], line["blocked"]) == (0, 1, False)
        assert line["why"] == "the server died once"
        text = curator.get("/metrics").text
        assert 'dpxplain_charges_without_release_total{dataset="people",ending="process died"} 3.0' in text
    ledger.close()


def crash(config: Config, folder: Path, *asks: dict[str, Any]) -> Path:
    """The ledger as it is if a server on this one dies while it measures these requests of Alice."""
    copy = folder.with_name(f"{folder.name}-later")
    with closing(open_ledger(folder / "ledger.sqlite")) as ledger, running_server(config, ledger) as server:
        engine, client = slow_down(server), server.client()
        with ThreadPoolExecutor(len(asks)) as threads:
            for ask in asks:
                threads.submit(client.post, f"{AT}/query", json=ask)
                assert engine.entered.acquire(timeout=60)
            shutil.copytree(folder, copy)
            engine.go.set()
    with closing(sqlite3.connect(copy / "ledger.sqlite")) as database, database:
        database.execute("UPDATE flights SET heard = '2024-01-01T00:00:00+00:00'")
    return copy


def test_a_crash_of_the_server_is_no_failure_and_the_analyst_is_told_what_it_cost(tmp_path: Path) -> None:
    config = config_of(tmp_path / "data", limits={"running": 4, "waiting": 4})
    asks = [{"sql": sql, "rho": 0.1} for sql in (SQL, COUNT)]
    (tmp_path / "ledger").mkdir()
    folder = crash(config, tmp_path / "ledger", *asks)
    with closing(open_ledger(folder / "ledger.sqlite")) as ledger, running_server(config, ledger) as server:
        client = server.client()
        told = client.get(AT).json()
        assert told["failures"] == {"counted": 0, "most": 3, "blocked": False, "sentence": ""}
        assert [(lost["request"], lost["rho"]) for lost in told["lost"]] == [(ask, 0.1) for ask in asks[::-1]]
        assert told["lost"][0]["words"] == (
            "The server stopped while it measured this. ρ 0.1 was charged. Asking again costs nothing more."
        )
        assert server.client("bob").get(AT).json()["lost"] == []
        for lost in told["lost"]:
            assert client.post(f"{AT}/query", json=lost["request"]).status_code == 200
        assert client.get(f"{AT}/budget").json()["rho"]["spent"] == pytest.approx(0.2)
        assert client.get(AT).json()["lost"] == []


def test_asking_again_is_not_called_free_under_another_schema(tmp_path: Path) -> None:
    config = config_of(tmp_path / "data")
    (tmp_path / "ledger").mkdir()
    folder = crash(config, tmp_path / "ledger", {"sql": SQL, "rho": 0.1})
    schema = tmp_path / "data" / "people.toml"
    schema.write_text(schema.read_text().replace("bounds = [0, 1000]", "bounds = [0, 900]"))
    with closing(open_ledger(folder / "ledger.sqlite")) as ledger, running_server(config, ledger) as server:
        [lost] = server.client().get(AT).json()["lost"]
        assert lost["words"] == "The server stopped while it measured this. ρ 0.1 was charged."


def test_so_many_crashes_that_they_may_tell_of_the_data_block_until_forgiven(tmp_path: Path) -> None:
    config, folder = config_of(tmp_path / "data"), tmp_path / "ledger"
    folder.mkdir()
    for number in range(3):
        folder = crash(config, folder, {"sql": SQL, "rho": 0.1 + number / 100})
    with closing(open_ledger(folder / "ledger.sqlite")) as ledger, running_server(config, ledger) as server:
        client, curator = server.client(), server.curator()
        count = client.get(AT).json()["failures"]
        assert (count["counted"], count["blocked"]) == (0, True)
        assert count["sentence"].startswith("The server crashed too often while it measured for you")
        refused = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1})
        assert (refused.status_code, refused.json()["code"]) == (409, "too_many_crashes")
        [line] = curator.get(f"{AT}/analysts").json()["analysts"]
        assert (line["failures"], line["crashes"], line["blocked"]) == (0, 3, True)
        curator.post(f"{AT}/analysts/alice/forgive", json={"reason": "power cuts"}).raise_for_status()
        assert client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).status_code == 200
