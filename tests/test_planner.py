"""From the precision wanted to the price, and back."""

from __future__ import annotations

import pytest

import dpxplain as dpx
from dpxplain.phases.explain import best_split
from dpxplain.words.sentences import mechanism_note
from opened import dataset_of

_SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"


def _question() -> dpx.Question:
    answer = dpx.example("adult", insecure_seed=4).query(_SQL, rho=0.1)
    assert isinstance(answer, dpx.Answer)
    return answer.why("Married-civ-spouse", "Never-married")


@pytest.fixture(scope="module")
def question() -> dpx.Question:
    """Of an answer that no test prepares: others would find their price lower, in some orders."""
    return _question()


@pytest.mark.parametrize("mechanism", ["auto", "one-shot", "vector", "marginals"])
def test_the_price_of_a_width_buys_that_width(question: dpx.Question, mechanism: str) -> None:
    spent = dataset_of(question).ledger.budget("adult").spent
    rho = question.rho_for(relative=0.02, mechanism=mechanism)
    margin = question.preview(rho=rho, mechanism=mechanism).relative_margin
    assert margin == pytest.approx(0.02, rel=0.01)
    assert margin <= 0.02
    assert dataset_of(question).ledger.budget("adult").spent == spent


def test_auto_is_never_dearer_than_the_others(question: dpx.Question) -> None:
    others = [question.rho_for(relative=0.01, mechanism=m) for m in ("one-shot", "vector", "marginals")]
    assert question.rho_for(relative=0.01) <= min(others) * 1.01


def test_rank_widths_are_predicted_from_what_is_released() -> None:
    question = _question()
    with pytest.raises(dpx.ExplanationError, match="not known yet"):
        question.rho_for(ranks=3)
    question.answer.prepare(rho=0.01)
    rough, fine = question.rho_for(ranks=5), question.rho_for(ranks=1)
    assert rough < fine
    table = question.explain(k=5, rho=fine)
    assert sum(row.rank[1] - row.rank[0] for row in table) / 5 <= 2.0
    assert question.rho_for(relative=0.001, ranks=5) > rough


def test_nonsense_is_refused(question: dpx.Question) -> None:
    for wanted in ({}, {"relative": -1.0}, {"relative": 0.0}, {"relative": 1e-12}):
        with pytest.raises(dpx.ExplanationError):
            question.rho_for(**wanted)


def test_ranks_are_bounded_from_below_with_the_share_that_is_asked_for() -> None:
    question = _question()
    usual = question.explain(k=3, rho=0.01, mechanism="one-shot")
    again = question.explain(k=3, rho=0.01, mechanism="one-shot", lower_share=0.1)
    assert again.free, "the paper's η is the default"
    other = question.preview(k=3, rho=0.01, lower_share=0.9)
    assert (other.mechanism, other.price.free) == ("one-shot", False), "auto takes the mechanism that has it"
    assert other.rank_resolution > question.preview(k=3, rho=0.01, mechanism="one-shot").rank_resolution
    table = question.explain(k=3, rho=0.01, lower_share=0.9)
    assert table.request["lower_share"] == 0.9
    assert mechanism_note(table.mechanism, table.plan.reason, 0.9) in table.finding.notes
    assert mechanism_note(usual.mechanism, usual.plan.reason, None) in usual.finding.notes


def test_the_best_split_has_the_smallest_sum_of_errors(question: dpx.Question) -> None:
    best = best_split(5, 103, 0.95)
    assert sum(best) == pytest.approx(1.0)

    def errors(split: tuple[float, float, float]) -> float:
        constants = [share**1.5 for share in best]  # a_i, from the condition ρ_i ∝ a_i^(2/3)
        return sum(a / (part / sum(split)) ** 0.5 for a, part in zip(constants, split, strict=True))

    assert all(errors(best) <= errors(other) for other in ((1, 1, 2), (1, 1, 1), (0.3, 0.1, 0.6)))
    plan = question.preview(rho=1.0, mechanism="one-shot", split="best")
    assert [spend.rho for spend in plan.price.spends] == pytest.approx(best)
