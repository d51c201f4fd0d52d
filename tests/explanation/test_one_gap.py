"""A gap has one value: the best that was released, with a sentence on what it was before."""

from __future__ import annotations

from typing import Any

import pytest

import dpxplain as dpx
from dpxplain.model.contrast import Verdict
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.wire.payloads import question_payload

SQL = "SELECT marital_status, {} FROM adult GROUP BY marital_status"
PAIR = ("Married-civ-spouse", "Never-married")
AGGREGATES = ("AVG(high_income)", "COUNT(*)", "SUM(high_income)")


def _asked(aggregate: str = "COUNT(*)", **options: Any) -> dpx.Answer:
    answer = dpx.example("adult", curator=True, insecure_seed=23).query(
        SQL.format(aggregate), rho=0.01, **options
    )
    assert isinstance(answer, dpx.Answer)
    return answer


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_after_a_preparation_question_and_table_show_the_same_gap(aggregate: str) -> None:
    answer = _asked(aggregate)
    before = answer.why(*PAIR)
    estimate, interval = before.estimate, before.interval
    assert before.sharpened == ""
    prepared = answer.prepare(rho=0.5)
    after = answer.why(*PAIR)
    assert (before.estimate, before.interval) == (estimate, interval)  # frozen: it keeps what it said
    assert after.estimate != estimate
    assert after.interval[1] - after.interval[0] < interval[1] - interval[0]
    for question in (before, after):
        table = question.explain(k=3)
        assert table.release.gap == table.question.estimate == after.estimate
        assert table.release.gap_interval == table.question.interval == after.interval
        assert table.question.sharpened == after.sharpened
    assert after.sharpened.startswith("The gap was ")
    assert after.sharpened.endswith(f"before the preparation (no. {prepared.id}) made it more precise.")
    assert before.unit.number(estimate, interval[1] - interval[0]) in after.sharpened


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_keys_and_requests_do_not_depend_on_the_gap(aggregate: str) -> None:
    answer = _asked(aggregate)
    before = answer.why(*PAIR, at_least=0.01)
    answer.prepare(rho=0.5)
    after = answer.why(*PAIR, at_least=0.01)
    assert before.estimate != after.estimate
    for mechanism, rho in (("one-shot", 0.3), ("vector", 0.3), ("marginals", 0.9), ("marginals", None)):
        options = ExplanationOptions(k=3, rho=rho, mechanism=mechanism)
        plans = [question.plan_explain(options) for question in (before, after)]
        assert plans[0].key == plans[1].key
        assert plans[0].request == plans[1].request


def test_another_confidence_of_the_table_leaves_the_question_its_own() -> None:
    answer = _asked("AVG(high_income)")
    question = answer.why(*PAIR)
    answer.prepare(rho=0.5)
    table = question.explain(k=2, confidence=0.8)
    assert table.question.confidence == 0.95
    assert table.question.estimate == table.release.gap
    assert table.release.gap_interval is not None
    assert table.question.interval[0] < table.release.gap_interval[0]
    assert table.question.interval == answer.why(*PAIR).interval


def test_the_interval_method_that_was_asked_for_is_kept() -> None:
    answer = _asked("AVG(high_income)")
    answer.prepare(rho=0.5)
    mover, fieller = answer.why(*PAIR), answer.why(*PAIR, method="fieller")
    assert mover.estimate == fieller.estimate
    assert fieller.interval[0] < mover.interval[0]
    assert fieller.explain(k=1).question.interval == fieller.interval


def test_a_preparation_can_make_an_unclear_gap_clear() -> None:
    answer = _asked("COUNT(*)")
    gap = answer["Divorced"].estimate - answer["Widowed"].estimate
    assert answer.why("Divorced", "Widowed", at_least=gap - 5).verdict is Verdict.UNCLEAR
    answer.prepare(rho=4)
    sharper = answer.why("Divorced", "Widowed", at_least=gap - 5)
    assert sharper.verdict is not Verdict.UNCLEAR
    assert sharper.interval[0] <= 6_633 - 1_518 <= sharper.interval[1]


def test_ratios_and_questions_about_the_population_stay_with_the_answer() -> None:
    answer = _asked("COUNT(*)")
    ratio, general = answer.why_ratio(*PAIR), answer.why(*PAIR, population=True)
    answer.prepare(rho=0.5)
    assert answer.why_ratio(*PAIR).estimate == ratio.estimate
    assert ratio.explain(k=1).question.estimate == ratio.estimate
    again = answer.why(*PAIR, population=True)
    assert (again.estimate, again.sharpened) == (general.estimate, "")


def test_the_earlier_value_is_told_where_the_question_is_shown() -> None:
    answer = _asked("COUNT(*)")
    assert question_payload(answer.why(*PAIR))["sharpened"] == ""
    answer.prepare(rho=0.5)
    question = answer.why(*PAIR)
    assert question.sharpened in question.finding.notes
    assert question_payload(question)["sharpened"] == question.sharpened


def test_a_question_is_answered_without_the_ledger() -> None:
    session = dpx.example("adult", insecure_seed=24)
    answer = session.query(SQL.format("COUNT(*)"), rho=0.1)
    assert isinstance(answer, dpx.Answer)
    session.close()
    assert answer.why(*PAIR).verdict is Verdict.REAL
