"""An answer's title is its whole question: two answers that differ in their filter have different titles."""

from __future__ import annotations

import pytest

import dpxplain as dpx
from dpxplain.results.titles import answer_title
from dpxplain.sql.parse import parse
from dpxplain.wire.answer_payloads import answer_payload
from dpxplain.wire.payloads import explanation_payload

ALL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"


@pytest.fixture(scope="module")
def session():
    with dpx.example("adult") as adult:
        yield adult


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("sex = 'Female'", "sex is Female"),
        ("sex <> 'Female'", "sex is not Female"),
        ("age > 40 AND age <= 50", "age is above 40 and at most 50"),
        ("race IN ('White', 'Black', 'Other')", "race is Black, Other or White"),
        ("NOT race IN ('White', 'Black')", "race is not Black or White"),
        (
            "sex = 'Male' AND (race = 'White' OR race = 'Black')",
            "sex is Male and (race is White or race is Black)",
        ),
        ("race IS NOT NULL", "race is not NULL"),
        ("NOT (sex = 'Male' AND race = 'White')", "not (sex is Male and race is White)"),
    ],
)
def test_a_filter_is_read_in_words(session, where, words):
    sql = ALL.replace(" GROUP", f" WHERE {where} GROUP")
    assert answer_title(parse(sql, session.schema), session.schema).endswith(f", only where {words}")


def test_long_lists_of_values_are_cut_and_say_so(session):
    education = session.schema.column("education").values
    listed = ", ".join(f"'{value}'" for value in education[:9])
    sql = f"SELECT sex, COUNT(*) FROM adult WHERE education IN ({listed}) GROUP BY sex"
    title = answer_title(parse(sql, session.schema), session.schema)
    assert title.startswith("Number of rows by sex, only where education is one of ")
    assert title.endswith(" and 3 more")


def test_several_values_names_of_the_query_and_having_are_in_the_title(session):
    sql = "SELECT sex, COUNT(*) AS n, SUM(high_income) FROM adult GROUP BY sex HAVING COUNT(*) > 5"
    title = answer_title(parse(sql, session.schema), session.schema)
    assert title.startswith("n and Sum of high")
    assert " by sex" in title
    assert "COUNT(*) > 5" in title


def test_payloads_of_answers_and_explanations_carry_question_filter_and_caption(session):
    answer = session.query(ALL.replace(" GROUP", " WHERE sex = 'Female' GROUP"), rho=0.1)
    payload = answer_payload(answer, session.budget)
    assert payload["title"] == payload["parts"][0]["title"]
    assert payload["title"].endswith("only where sex is Female")
    for part in ("adult", "ρ 0.1", "95%", f"{answer.entry.time:%Y-%m-%d}"):
        assert part in payload["caption"]
    answer.prepare(0.02)
    table = answer.why("Married-civ-spouse", "Never-married").explain(k=2)
    told = explanation_payload(table, session.budget)
    assert told["title"].endswith("Only where sex is Female.")
    assert "adult" in told["caption"]
