"""Arithmetic between aggregates, HAVING and subqueries over REST and in a session at a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpxplain as dpx
from dpxplain.results.answers import Answers
from server_fixture import WEIGHTS, RunningServer, config_of, running_server

PARTS = "SELECT region, SUM(pay), COUNT(*) FROM people GROUP BY region"
RATE = "SELECT region, SUM(pay) / COUNT(*) AS rate FROM people GROUP BY region HAVING COUNT(*) > 10"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(config_of(tmp_path / "data")) as running:
        yield running


def ask(client: Any, path: str, **body: Any) -> Any:
    response = client.post(f"/datasets/people/{path}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_a_computed_value_is_previewed_answered_and_judged(server: RunningServer) -> None:
    client = server.client()
    preview = ask(client, "preview", sql=RATE, rho=1.0)
    assert preview["form"] is None
    assert [text.split(":")[0] for text in preview["expected"]] == ["SUM(pay)", "COUNT(*)"]
    answer = ask(client, "query", sql=RATE, rho=1.0, chart_width=500)
    assert answer["values"] == ["rate"]
    (part,) = answer["parts"]
    assert (part["aggregate"], part["expression"]) == ("formula", "SUM(pay) / COUNT(*)")
    (note,) = answer["notes"]
    assert "COUNT(*) > 10" in note
    assert len(part["rows"]) == 3
    assert answer["chart"]
    no_influence = ""
    for name in ("rate", "SUM(pay) / COUNT(*)", "SUM(pay)"):
        question = ask(client, "why", answer=answer["id"], of=name, weights=WEIGHTS, at_least=0)
        assert question["verdict"] == "real"
        assert bool(question["no_influence"]) is (name != "SUM(pay)")
        no_influence = no_influence or question["no_influence"]
    body = {"answer": answer["id"], "of": "rate", "weights": WEIGHTS, "k": 2, "rho": 0.5}
    refused = client.post("/datasets/people/explain", json=body)
    assert refused.status_code == 400
    assert refused.json()["code"] == "explanation_error"
    assert no_influence in refused.json()["message"]
    assert client.get("/datasets/people/budget").json()["rho"]["spent"] == 1.0
    again = client.get(f"/datasets/people/answers/{answer['id']}").json()
    assert again["parts"][0]["rows"] == part["rows"]


def test_other_words_for_a_stored_answer_are_free_and_can_be_asked_about(server: RunningServer) -> None:
    """The stored statement knows nothing of `rate`; the expression names it all the same."""
    client = server.client()
    first = ask(client, "query", sql=PARTS, rho=1.0)
    again = ask(client, "query", sql=RATE, rho=1.0)
    assert (again["id"], again["free"]) == (first["id"], True)
    expression = again["parts"][0]["expression"]
    question = ask(client, "why", answer=again["id"], of=expression, weights=WEIGHTS, at_least=0)
    assert question["verdict"] == "real"


def test_a_session_at_a_server_computes_the_same(server: RunningServer) -> None:
    with dpx.connect(f"{server.url}people", token=server.token("alice")) as session:
        doubled = session.query("SELECT region, 2 * AVG(pay) AS twice FROM people GROUP BY region", rho=1.0)
        assert isinstance(doubled, Answers)
        assert doubled.why("North", "South", of="twice").verdict is dpx.Verdict.REAL
        inner = "SELECT region AS r, pay AS p FROM people"
        plain = session.query(f"WITH f AS ({inner}) SELECT r, AVG(p) FROM f GROUP BY r", rho=1.0)
        assert plain.free
        assert doubled["twice"]["North"].estimate == pytest.approx(2 * plain["North"].estimate)
        assert session.answer(plain.id)["twice"]["North"].estimate == doubled["twice"]["North"].estimate
        assert len(plain.why("North", "South").explain(k=1, rho=0.5)) == 1
