"""A story and the table beside it begin with the same condition, or the story says in what they differ."""

from __future__ import annotations

import pytest

import dpxplain as dpx
from dpxplain.results.answer import Answer
from dpxplain.results.question import Question


def about(aggregate: str, column: str) -> Question:
    """Why is the highest group above the lowest?"""
    session = dpx.example("adult", insecure_seed=1)
    answer = session.query(f"SELECT {column}, {aggregate} FROM adult GROUP BY {column}", rho=0.1)
    assert isinstance(answer, Answer)
    ranked = sorted(answer, key=lambda row: row.estimate)
    return answer.why(ranked[-1].label, ranked[0].label)


@pytest.mark.parametrize("column", ["marital_status", "sex", "education", "occupation", "race"])
def test_both_begin_with_the_same_condition(column: str) -> None:
    question = about("AVG(high_income)", column)
    story = question.story(rho=0.5)
    assert story.steps[0].predicate == question.explain()[0].predicate
    assert "The table begins with" not in str(story.finding)


def test_a_story_says_that_the_table_begins_with_another_condition() -> None:
    question = about("COUNT(*)", "marital_status")  # one of the groups has 21 rows
    story, table = question.story(rho=0.2), question.explain()
    assert story.steps[0].predicate != table[0].predicate
    name = table.effect_of(table[0]).name
    assert f"The table begins with {name}. A story is stricter" in story.finding.support
