"""A question that names what it is read off shows the same for ever, whatever is bought later."""

from __future__ import annotations

import pytest

import dpxplain as dpx
from dpxplain.errors import ExplanationError, UnknownMeasurement
from dpxplain.results.answer import Answer

SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
PAIR = ("Married-civ-spouse", "Never-married")


@pytest.fixture
def answer() -> Answer:
    asked = dpx.example("adult", insecure_seed=29).query(SQL, rho=0.1)
    assert isinstance(asked, Answer)
    return asked


def test_a_finer_preparation_leaves_a_named_table_and_verdict_as_they_were(answer: Answer) -> None:
    coarse = answer.prepare(rho=0.02)
    first = answer.why(*PAIR).explain()
    assert (first.releases, first.sharper) == ((coarse.id,), False)
    fine = answer.prepare(rho=0.5)
    named = answer.why(*PAIR, read_from=first.releases)
    again = named.explain()
    assert (again.records(), named.interval) == (first.records(), first.question.interval)
    assert (again.releases, again.sharper, named.releases, named.sharper) == (
        first.releases,
        True,
        (coarse.id,),
        True,
    )
    latest = answer.why(*PAIR).explain()
    assert latest.records() != first.records()
    assert (latest.releases, latest.sharper) == ((fine.id,), False)


def test_a_named_story_keeps_its_steps_when_a_deeper_one_is_bought(answer: Answer) -> None:
    question = answer.why(*PAIR)
    first = question.story(rho=0.1)
    assert first.sharper is False
    question.story(rho=1.0)
    named = answer.why(*PAIR, read_from=first.releases).story()
    assert (named.records(), named.releases, named.sharper) == (first.records(), first.releases, True)
    assert answer.why(*PAIR).story().releases != first.releases


def test_single_conditions_are_a_story_of_one_step_and_a_deeper_one_is_sharper(answer: Answer) -> None:
    single = answer.prepare(rho=0.5)
    answer.why(*PAIR).story(rho=0.1)
    named = answer.why(*PAIR, read_from=[single.id]).story()
    assert (named.levels, named.sharper) == (1, True)


def test_no_release_means_the_answer_alone(answer: Answer) -> None:
    before = answer.why(*PAIR)
    answer.prepare(rho=0.5)
    alone = answer.why(*PAIR, read_from=[])
    assert (alone.interval, alone.releases, alone.sharper) == (before.interval, (), True)
    with pytest.raises(ExplanationError, match="do not cover"):
        alone.explain()
    with pytest.raises(ExplanationError, match="do not cover"):
        alone.story()


def test_a_table_with_its_own_price_names_itself_and_the_preparation_of_its_verdict(answer: Answer) -> None:
    coarse = answer.prepare(rho=0.02)
    first = answer.why(*PAIR).explain(k=2, rho=0.5, mechanism="one-shot")
    assert first.releases == (coarse.id, first.id)
    answer.prepare(rho=1.0)
    again = answer.why(*PAIR, read_from=first.releases).explain(k=2, rho=0.5, mechanism="one-shot")
    assert again.free
    assert (again.records(), again.question.interval) == (first.records(), first.question.interval)
    assert again.sharper


def test_only_measurements_of_the_answer_can_be_named(answer: Answer) -> None:
    answer.prepare(rho=0.02)
    for number in (answer.id, 99, 0, -1, "3@ann", "x", 2.5, None):
        with pytest.raises(UnknownMeasurement, match="has no measurement number"):
            answer.why(*PAIR, read_from=[number])  # type: ignore[list-item]


def test_measurements_of_another_answer_cannot_be_named() -> None:
    session = dpx.example("adult", insecure_seed=30)
    first, second = session.query(SQL, rho=0.1), session.query(SQL.replace("AVG", "SUM"), rho=0.1)
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    prepared, paid = first.prepare(rho=0.02), first.why(*PAIR).explain(rho=0.5, mechanism="vector")
    for number in (prepared.id, paid.id):
        first.why(*PAIR, read_from=number)
        with pytest.raises(UnknownMeasurement):
            second.why(*PAIR, read_from=number)
