"""T27 under attack: one analyst's free requests take their own share of the server and no more."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpxplain.engines.opening import OpenedTables
from dpxplain.server import metrics, registry, requests
from dpxplain.server.routes import site
from dpxplain.session import Session
from server_fixture import (
    COUNT,
    SQL,
    WEIGHTS,
    RunningServer,
    add_dataset,
    config_of,
    probe_anew,
    running_server,
)

AT = "/datasets/people"
MANY = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6}
FLOOD = 45
PER_CALLER = 9  # half of the 2 that run and the 16 that wait by default


def ask_why(client: httpx.Client, answer: int, **more: Any) -> httpx.Response:
    return client.post(f"{AT}/why", json={"answer": answer, "weights": WEIGHTS} | more)


def answer_of(client: httpx.Client) -> int:
    answer: int = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()["id"]
    return answer


def test_t27_a_flood_of_free_questions_leaves_the_others_their_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flood's questions never end here, so that whoever shared a thread with them would wait for ever."""
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        greedy, modest = server.client("greedy"), server.client("modest")
        own, other = answer_of(greedy), answer_of(modest)
        working, go = [], threading.Event()
        show = requests.show_question

        def slow_show(question: Any, chart_width: int | None) -> Any:
            if question.confidence == 0.8:
                working.append(question)
                assert go.wait(60)
            return show(question, chart_width)

        monkeypatch.setattr(requests, "show_question", slow_show)
        with ThreadPoolExecutor(FLOOD) as threads:
            flood = [threads.submit(ask_why, greedy, own, confidence=0.8) for _ in range(FLOOD)]
            try:
                while not working or sum(one.done() for one in flood) < FLOOD - PER_CALLER:
                    time.sleep(0.01)
                assert len(working) == 1  # of two threads
                assert ask_why(modest, other).status_code == 200
                for route in ("preview", "query"):
                    body = {"sql": COUNT, "rho": 0.1}
                    assert modest.post(f"{AT}/{route}", json=body).status_code == 200
                assert modest.post(f"{AT}/quality/preview", json={"rho": 0.1}).status_code == 200
                assert len(working) == 1
            finally:
                go.set()
            answers = [one.result() for one in flood]
        refused = [one.json() for one in answers if one.status_code == 429]
        assert {one["code"] for one in refused} == {"too_many_at_once"}
        assert len(refused) == FLOOD - PER_CALLER
        assert {one.status_code for one in answers} == {200, 429}


def test_t27_free_work_is_limited_by_public_sizes(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        client = server.client()
        answer = answer_of(client)
        many = [{"group": ["North"], "weight": 1 + number} for number in range(5_000)]
        refused = ask_why(client, answer, weights=many, method="bootstrap")
        assert (refused.status_code, "5,000 groups" in refused.json()["message"]) == (400, True)
        assert "500 groups" in refused.json()["remedy"]
        few = ask_why(client, answer, method="bootstrap")
        assert few.status_code == 200


class EndlessPlans:
    """Plans of the statement `ENDLESS` wait until they are let go, as if they took the planner minutes."""

    ENDLESS = COUNT.replace("sex, COUNT(*)", "sex, COUNT(*) AS endless")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = [], threading.Event()
        plan = Session.plan

        def slow_plan(session: Session, sql: str, *arguments: Any, **options: Any) -> Any:
            if sql == self.ENDLESS:
                self.begun.append(sql)
                assert self.go.wait(60)
            return plan(session, sql, *arguments, **options)

        monkeypatch.setattr(Session, "plan", slow_plan)


def test_t27_a_flood_of_short_statements_is_planned_in_the_shared_pool_and_locks_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        greedy, modest = server.client("greedy"), server.client("modest")
        assert modest.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).status_code == 200
        plans = EndlessPlans(monkeypatch)
        body = {"sql": plans.ENDLESS, "rho": 0.1}
        with ThreadPoolExecutor(60) as threads:
            flood = [threads.submit(greedy.post, f"{AT}/query", json=body) for _ in range(60)]
            try:
                while not plans.begun or sum(one.done() for one in flood) < 60 - PER_CALLER:
                    assert len(plans.begun) <= 1, "planned outside of the pool"
                    time.sleep(0.01)
                for path in ("/me", "/datasets", AT, f"{AT}/history"):
                    assert modest.get(path).status_code == 200
                for sql in (SQL, COUNT):  # a stored answer and a new one
                    assert modest.post(f"{AT}/query", json={"sql": sql, "rho": 0.1}).status_code == 200
                assert server.anonymous().get("/ready").status_code == 200
                assert len(plans.begun) == 1  # of two threads
            finally:
                plans.go.set()
            answers = [one.result() for one in flood]
        assert [one.status_code for one in answers].count(200) == PER_CALLER
        refused = {one.json()["code"] for one in answers if one.status_code != 200}
        assert refused == {"too_many_at_once"}


def wait_for_threads(server: RunningServer, number: int) -> None:
    while server.state.planning.admitted < number:
        time.sleep(0.01)


def test_t27_ready_tells_when_no_place_is_left_for_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_anew(monkeypatch)
    limits = MANY | {"running": 2, "waiting": 2}
    with running_server(config_of(tmp_path, limits=limits)) as server:
        plans, probe = EndlessPlans(monkeypatch), server.anonymous()
        assert probe.get("/ready").json()["checks"]["requests"] == "ok"
        body = {"sql": plans.ENDLESS, "rho": 0.1}
        with ThreadPoolExecutor(4) as threads:
            callers = [server.client(name) for name in ("ann", "ann", "bob", "bob")]
            inside = [threads.submit(one.post, f"{AT}/preview", json=body) for one in callers]
            try:
                wait_for_threads(server, 4)
                full = probe.get("/ready")
                assert (full.status_code, full.json()["checks"]["requests"]) == (503, "failed")
                refused = server.client("late").post(f"{AT}/preview", json={"sql": SQL, "rho": 0.1})
                assert (refused.status_code, refused.json()["code"]) == (503, "busy")
                assert probe.get("/health").status_code == 200
            finally:
                plans.go.set()
            assert [one.result().status_code for one in inside] == [200] * 4
        while server.state.planning.admitted:
            time.sleep(0.01)
        assert probe.get("/ready").json()["checks"]["requests"] == "ok"


@pytest.mark.parametrize("attribute", ["threads", "identities"])
def test_t27_ready_tells_when_the_threads_of_all_requests_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: str
) -> None:
    """Those of the routes, or those of authentication: whatever hangs there, requests are not answered."""
    probe_anew(monkeypatch)
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        probe, client, go = server.anonymous(), server.client(), threading.Event()
        assert client.get("/datasets").status_code == 200
        place = server.state if attribute == "threads" else server.state.authenticator
        name = "account" if attribute == "threads" else "identify"
        real = getattr(place, name)

        def hanging(*arguments: Any) -> Any:
            assert go.wait(60)
            return real(*arguments)

        monkeypatch.setattr(place, name, hanging)
        with ThreadPoolExecutor(50) as threads:
            inside = [threads.submit(client.get, "/datasets") for _ in range(50)]
            try:
                monkeypatch.setattr(metrics, "SECONDS_PER_CHECK", 0.2)
                while (response := probe.get("/ready")).json()["checks"]["requests"] == "ok":
                    time.sleep(0.01)
                assert response.status_code == 503
                assert response.json()["status"] == "not ready"
            finally:
                monkeypatch.setattr(metrics, "SECONDS_PER_CHECK", 60.0)
                go.set()
            assert {one.result().status_code for one in inside} == {200}
        assert probe.get("/ready").json()["checks"]["requests"] == "ok"


class EndlessOpening:
    """The data of the data set `large` are opened until they are let go, as if they had 10⁹ rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Semaphore(0), threading.Event()

        def slow_open(source: object, schema: Any, options: Any) -> OpenedTables:
            if schema.table.name == "large":
                self.begun.release()
                assert self.go.wait(60)
            return OpenedTables(source, schema, options)

        monkeypatch.setattr(registry, "OpenedTables", slow_open)


def everything_else_answers(server: RunningServer) -> None:
    modest, probe = server.client("modest"), server.anonymous()
    names = [entry["name"] for entry in modest.get("/datasets").json()["datasets"]]
    assert names == ["people"]
    for path in (AT, f"{AT}/history"):
        assert modest.get(path).status_code == 200
    assert modest.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).status_code == 200
    assert server.curator().get("/admin/datasets").status_code == 200
    assert probe.get("/ready").status_code == 200


def test_t27_a_file_that_takes_long_to_open_keeps_nobody_else_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server, ThreadPoolExecutor(1) as threads:
        add_dataset(tmp_path, "large")
        toml = (tmp_path / "large.toml").read_text("utf-8")
        (tmp_path / "large.toml").unlink()
        opening = EndlessOpening(monkeypatch)
        declared = threads.submit(server.curator().post, "/admin/datasets", json={"toml": toml})
        try:
            assert opening.begun.acquire(timeout=60)
            everything_else_answers(server)
            assert not declared.done()
        finally:
            opening.go.set()
        assert declared.result().status_code == 200
        assert server.client().get("/datasets/large").status_code == 200


def test_t27_an_edited_data_set_that_takes_long_to_open_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server, ThreadPoolExecutor(60) as threads:
        opening = EndlessOpening(monkeypatch)
        monkeypatch.setattr(registry, "OPENING_SECONDS", 0.2)
        monkeypatch.setattr(registry, "_SECONDS_BETWEEN_SCANS", 0.0)
        greedy = server.client("greedy")
        add_dataset(tmp_path, "large")
        try:
            assert greedy.get("/datasets/large").status_code == 404  # not known yet, and opened from now on
            assert opening.begun.acquire(timeout=60)
            everything_else_answers(server)
        finally:
            opening.go.set()
        while greedy.get("/datasets/large").status_code != 200:
            time.sleep(0.01)
        opening.go.clear()
        edited = (tmp_path / "large.toml").read_text("utf-8") + "# edited\n"
        (tmp_path / "large.toml").write_text(edited, encoding="utf-8")
        try:
            flood = [threads.submit(greedy.get, "/datasets/large") for _ in range(60)]
            answers = [one.result() for one in flood]
            assert {(one.status_code, one.json()["code"]) for one in answers} == {(503, "being_opened")}
            asked = greedy.post("/datasets/large/query", json={"sql": SQL, "rho": 0.1})
            assert (asked.status_code, asked.headers["retry-after"]) == (503, "5")
        finally:
            opening.go.set()
        while greedy.get("/datasets/large").status_code != 200:
            time.sleep(0.01)


def test_t27_two_data_sets_declared_at_once_on_one_file_are_refused_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server, ThreadPoolExecutor(1) as threads:
        add_dataset(tmp_path, "large")
        toml = (tmp_path / "large.toml").read_text("utf-8")
        (tmp_path / "large.toml").unlink()
        opening, curator = EndlessOpening(monkeypatch), server.curator()
        slow = threads.submit(curator.post, "/admin/datasets", json={"toml": toml})
        try:
            assert opening.begun.acquire(timeout=60)
            other = toml.replace('name = "large"', 'name = "other"')
            assert curator.post("/admin/datasets", json={"toml": other}).status_code == 200
        finally:
            opening.go.set()
        assert slow.result().status_code == 400
        assert "already has" in slow.result().json()["message"]
        assert not (tmp_path / "large.toml").exists()
        assert server.client().get("/datasets/large").status_code == 404


def test_t27_long_formulas_and_statements_wait_for_their_turn_or_are_refused(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        client = server.client()
        answer = answer_of(client)
        turns: list[str] = []
        submit = server.state.planning.submit

        def noted(caller: str, *work: Any) -> Any:
            turns.append(caller)
            return submit(caller, *work)

        server.state.planning.submit = noted
        padded = SQL + " " * 3_000
        assert client.post(f"{AT}/query", json={"sql": padded, "rho": 0.1}).json()["free"]
        assert ask_why(client, answer, of="AVG(pay) / 2").status_code == 200
        assert turns == ["alice"] * 2


def test_t27_jobs_are_listed_in_the_shared_pool_and_an_ended_job_keeps_no_plan(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        client = server.client()
        why = {"answer": answer_of(client), "weights": WEIGHTS, "k": 2, "rho": 0.1}
        job = client.post(f"{AT}/explain?wait=60", json=why).json()
        assert job["state"] == "done"
        local = server.state.jobs.local(job["id"])
        assert (local.future, local.result is not None) == (None, True)
        turns: list[str] = []
        submit = server.state.planning.submit

        def noted(caller: str, *work: Any) -> Any:
            turns.append(caller)
            return submit(caller, *work)

        server.state.planning.submit = noted
        assert [one["id"] for one in client.get(f"{AT}/jobs").json()["jobs"]] == [job["id"]]
        assert turns == ["alice"]


def test_t27_the_documentation_that_everybody_may_read_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    write = site.documentation

    def noted(document: Any) -> str:
        written.append(document)
        return write(document)

    monkeypatch.setattr(site, "documentation", noted)
    with running_server(config_of(tmp_path)) as server:
        anyone = server.anonymous()
        assert len({anyone.get("/docs").text for _ in range(3)}) == 1
        assert anyone.get("/openapi.json").json() == written[0]
        assert len(written) == 1
