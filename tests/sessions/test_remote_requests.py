"""A remote query or explanation is one request over HTTP; what is prepared is fetched once and kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import dpxplain as dpx
from opened import dataset_of
from server_fixture import SQL, RunningServer, config_of, running_server

GENEROUS = {"requests_per_minute": 100_000, "anonymous_per_minute": 100_000}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(config_of(tmp_path / "data", limits=GENEROUS)) as running:
        yield running


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that clients of this process send, as method and path."""
    sent: list[str] = []
    send = httpx.Client.send

    def record(self: httpx.Client, request: httpx.Request, **options: object) -> httpx.Response:
        sent.append(f"{request.method} {request.url.path.rpartition('/datasets')[2]}")
        return send(self, request, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(httpx.Client, "send", record)
    return sent


def connected(server: RunningServer, name: str = "alice") -> dpx.Session:
    return dpx.connect(f"{server.url}people", token=server.token(name))


def answered(session: dpx.Session, rho: float = 0.5) -> dpx.Answer:
    answer = session.query(SQL, rho=rho)
    assert isinstance(answer, dpx.Answer)
    return answer


def asked(answer: dpx.Answer) -> dpx.Question:
    first, second, *_ = (row.group for row in answer)
    return answer.why(first, second)


@pytest.mark.parametrize("curator", [False, True])
def test_connecting_is_one_request(server: RunningServer, requests: list[str], curator: bool) -> None:
    name, role = ("carol", "curator") if curator else ("alice", "analyst")
    token = server.token(name, role)
    with dpx.connect(f"{server.url}people", token=token, curator=curator) as session:
        assert requests == ["GET /people"]
        assert session.schema.table.name == "people"
        assert requests == ["GET /people"]


def test_looking_at_what_is_held_sends_nothing(server: RunningServer, requests: list[str]) -> None:
    with connected(server) as session:
        session.quality(rho=0.1)
    with connected(server) as later:
        answer = answered(later)
        requests.clear()
        for shown in (str(answer), answer.shaped_by, answer.records(), str(asked(answer))):
            assert shown
        assert requests == []
        assert later.quality(rho=0.1).free
        assert requests == ["POST /people/quality"]


def test_a_query_is_one_request_fresh_or_stored(server: RunningServer, requests: list[str]) -> None:
    with connected(server) as session:
        requests.clear()
        fresh = answered(session)
        assert requests == ["POST /people/query"]
        requests.clear()
        again = answered(session)
        assert requests == ["POST /people/query"]
        assert (fresh.free, again.free, fresh.id, fresh.records()) == (False, True, again.id, again.records())


@pytest.mark.parametrize("mechanism", ["one-shot", "vector", "marginals", "auto"])
def test_an_explanation_is_one_request(server: RunningServer, requests: list[str], mechanism: str) -> None:
    with connected(server) as session:
        question = asked(answered(session))
        requests.clear()
        table = question.explain(k=2, rho=0.5, mechanism=mechanism)
        assert len(requests) == 1
        assert (len(table), table.free) == (2, False)


def test_after_preparing_an_explanation_sends_nothing(server: RunningServer, requests: list[str]) -> None:
    with connected(server) as session:
        answer = answered(session)
        requests.clear()
        answer.prepare(rho=0.5)
        assert requests == ["POST /people/prepare"]
        requests.clear()
        assert asked(answer).explain(k=2).free
        assert requests == []


def test_what_was_prepared_before_is_fetched_once_and_kept(
    server: RunningServer, requests: list[str]
) -> None:
    with connected(server) as session:
        answered(session).prepare(rho=0.5)
    with connected(server) as later:
        answer = answered(later)
        requests.clear()
        for k in (1, 2, 3):
            assert asked(answer).explain(k=k).free
        assert [request.partition(" ")[0] for request in requests] == ["GET"]


def test_a_stored_answer_opened_by_its_number_finds_its_preparation(
    server: RunningServer, requests: list[str]
) -> None:
    with connected(server) as session:
        answered(session).prepare(rho=0.5)
    with connected(server) as later:
        requests.clear()
        answer = later.answer()
        assert isinstance(answer, dpx.Answer)
        assert requests == ["GET /people/releases"]
        question = asked(answer)
        assert question.sharpened
        assert requests == ["GET /people/releases", "GET /people/releases/2"]  # the preparation, once
        requests.clear()
        assert question.explain(k=2).free
        assert asked(answer).explain(k=1).free
        assert requests == []
        assert later.answer(answer.id).records() == answer.records()
        assert requests == []


def test_another_plan_at_the_server_is_refused_before_the_charge(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connected(server) as session:
        answered(session)
        spent = session.budget.spent
        monkeypatch.setattr(type(dataset_of(session)), "request_key", lambda *_parts: "0" * 64)
        with pytest.raises(dpx.BadRequest, match="plan this request differently"):
            session.query(SQL, rho=0.25)
        monkeypatch.undo()
        assert session.budget.spent == spent


def test_another_version_of_the_protocol_is_refused_before_the_charge(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpxplain.remote.PROTOCOL", 1)
    with pytest.raises(dpx.BadRequest, match="different versions"):
        connected(server)
