"""T27 under attack: one analyst's free requests take their own share of the server and no more."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpxplain.server import translate
from server_fixture import COUNT, SQL, WEIGHTS, config_of, running_server

AT = "/datasets/people"
MANY = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6}
FLOOD = 45


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
        show = translate.show_question

        def slow_show(question: Any, chart_width: int | None) -> Any:
            if question.confidence == 0.8:
                working.append(question)
                assert go.wait(60)
            return show(question, chart_width)

        monkeypatch.setattr(translate, "show_question", slow_show)
        with ThreadPoolExecutor(FLOOD) as threads:
            flood = [threads.submit(ask_why, greedy, own, confidence=0.8) for _ in range(FLOOD)]
            try:
                pool = server.state.planning
                while not working or sum(one.done() for one in flood) < FLOOD - pool._most_per_caller:
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
        assert len(refused) == FLOOD - pool._most_per_caller
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
        assert client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()["free"]
        assert turns == []  # a short statement whose answer is stored
        padded = SQL + " " * 3_000
        assert client.post(f"{AT}/query", json={"sql": padded, "rho": 0.1}).json()["free"]
        assert ask_why(client, answer, of="AVG(pay) / 2").status_code == 200
        assert turns == ["alice"] * 2
