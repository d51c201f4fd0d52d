"""What a remote client relies on: one request per release, planned once, refused if the two sides differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpxplain.results.question import Question
from dpxplain.session import Session
from dpxplain.wire import PROTOCOL, PROTOCOL_HEADER
from server_fixture import SQL, WEIGHTS, RunningServer, config_of, running_server

AT = "/datasets/people"
QUERY = {"sql": SQL, "rho": 0.1}


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    with running_server(config_of(tmp_path)) as running:
        yield running


def bodies(client: httpx.Client) -> dict[str, dict[str, Any]]:
    """A request of each kind that spends, each of them new."""
    answer = client.post(f"{AT}/query", json=QUERY).json()["id"]
    return {
        "/query": {"sql": SQL, "rho": 0.2},
        "/quality": {"rho": 0.1},
        "/prepare?wait=60": {"answer": answer, "rho": 0.3},
        "/explain?wait=60": {
            "answer": answer,
            "weights": WEIGHTS,
            "k": 2,
            "rho": 0.4,
            "mechanism": "one-shot",
        },
    }


def spent(client: httpx.Client) -> float:
    amount: float = client.get(f"{AT}/budget").json()["rho"]["spent"]
    return amount


def test_a_client_of_another_version_is_refused_before_the_charge(alone: RunningServer) -> None:
    client = alone.client()
    asked = bodies(client)
    before = spent(client)
    for path, body in asked.items():
        refused = client.post(f"{AT}{path}", json=body, headers={PROTOCOL_HEADER: str(PROTOCOL + 1)})
        assert (refused.status_code, refused.json()["code"]) == (409, "other_version"), path
        assert "Nothing was charged" in refused.json()["message"]
    assert spent(client) == before
    for path, body in asked.items():
        same = client.post(f"{AT}{path}", json=body, headers={PROTOCOL_HEADER: str(PROTOCOL)})
        assert same.status_code == 200, path


def test_a_request_planned_under_another_key_is_refused_before_the_charge(alone: RunningServer) -> None:
    client = alone.client()
    asked = bodies(client)
    before = spent(client)
    for path, body in asked.items():
        refused = client.post(f"{AT}{path}", json=body | {"expected_key": "0" * 64})
        assert (refused.status_code, refused.json()["code"]) == (409, "other_plan"), path
        assert "Nothing was charged" in refused.json()["message"]
    assert spent(client) == before
    answered = client.post(f"{AT}/query", json=asked["/query"]).json()["id"]
    lines = client.get(f"{AT}/history").json()["entries"]
    key = next(line["key"] for line in lines if line["id"] == answered)
    again = client.post(f"{AT}/query", json=asked["/query"] | {"expected_key": key}).json()
    assert (again["id"], again["free"]) == (answered, True)


def test_the_release_form_is_what_the_ledger_has_stored(alone: RunningServer) -> None:
    client = alone.client()
    for path, body in bodies(client).items():
        address = f"{AT}{path}{'&' if '?' in path else '?'}form=release"
        first, again = client.post(address, json=body).json(), client.post(address, json=body).json()
        first, again = first.get("result", first), again.get("result", again)
        stored = client.get(f"{AT}/releases/{first['entry']['id']}").json()["release"]
        assert json.loads(first["release"]) == json.loads(stored)
        assert (first["free"], again["free"]) == (False, True)
        assert (again["entry"]["id"], again["release"]) == (first["entry"]["id"], first["release"])


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[str]:
    calls: list[str] = []
    original: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        calls.append(name)
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_request_is_planned_once_and_reads_no_history(
    alone: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = alone.client()
    asked = bodies(client)
    plans = counted(monkeypatch, Session, "plan")
    explanations = counted(monkeypatch, Question, "plan_explain")
    histories = counted(monkeypatch, type(alone.ledger.account("alice")), "history_page")
    client.post(f"{AT}/query", json=asked["/query"]).raise_for_status()
    assert len(plans) == 1
    assert client.post(f"{AT}/explain?wait=60", json=asked["/explain?wait=60"]).json()["state"] == "done"
    assert len(explanations) == 1
    assert histories == []
