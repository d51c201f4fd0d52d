"""What leaves the page has its whole question with it: title, filter and caption."""

from __future__ import annotations

import pytest

import dpxplain as dpx
from dpxplain.wire.payloads import answer_payload, explanation_payload
from dpxplain.words.sentences import answer_title, question_filter

ALL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"


@pytest.fixture(scope="module")
def session():
    with dpx.example("adult") as adult:
        yield adult


def test_payloads_of_answers_and_explanations_carry_question_filter_and_caption(session):
    answer = session.query(ALL.replace(" GROUP", " WHERE sex = 'Female' GROUP"), rho=0.1)
    payload = answer_payload(answer, session.budget)
    assert payload["title"] == payload["parts"][0]["title"]
    assert payload["title"] == answer_title(answer.statement, session.schema)
    assert "Female" in payload["title"]
    for part in ("adult", "ρ 0.1", "95%", f"{answer.entry.time:%Y-%m-%d}"):
        assert part in payload["caption"]
    answer.prepare(0.02)
    table = answer.why("Married-civ-spouse", "Never-married").explain(k=2)
    told = explanation_payload(table, session.budget)
    assert told["title"] == question_filter(table.question.title, answer.statement, session.schema)
    assert "Female" in told["title"]
    assert "adult" in told["caption"]
