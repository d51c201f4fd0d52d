"""How good the choice and its ranks will be: the bounds of docs/proofs/utility.md against simulations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpxplain as dpx
from dpxplain.model.confidential import Confidential
from dpxplain.phases.explain import most_wrong
from dpxplain.privacy.calibration import gaussian_shortfall, gumbel_shortfall
from dpxplain.privacy.mechanisms.noise import SeededNoise
from dpxplain.privacy.mechanisms.ranking import (
    POINTS_PER_ROW,
    OneShotPlan,
    VectorPlan,
    release_vector,
    select_and_measure,
    select_by_distance,
)
from dpxplain.privacy.mechanisms.samplers import FamilyScores
from dpxplain.render.views import view_of
from dpxplain.wire.payloads import preview_payload
from dpxplain.words.numbers import number
from opened import dataset_of

SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
FALSE_ALARM = 1e-6
SIZES = [(2, 1), (103, 5), (103, 1), (40, 20), (12, 11), (1_000, 10)]


@pytest.mark.parametrize(("size", "k"), SIZES)
def test_the_shortfall_is_the_quantile_of_its_noise(size: int, k: int) -> None:
    """Exact, so that the worst case is right neither more nor less often; seeded, 20,000 draws."""
    generator = np.random.default_rng(size + k)
    for draw, shortfall in ((generator.gumbel, gumbel_shortfall), (generator.normal, gaussian_shortfall)):
        for confidence in (0.5, 0.95):
            noise = draw(size=(20_000, size))
            apart = noise[:, k:].max(axis=1) - noise[:, :k].min(axis=1)
            reach = shortfall(confidence, size, k)
            if reach > 0:
                assert np.mean(apart <= reach) == pytest.approx(confidence, abs=0.012)


def test_nothing_is_missed_where_all_are_shown() -> None:
    assert gumbel_shortfall(0.95, 7, 7) == gaussian_shortfall(0.95, 7, 7) == 0


@pytest.mark.parametrize("shortfall", [gumbel_shortfall, gaussian_shortfall])
def test_the_shortfall_grows_with_confidence_and_with_what_can_be_chosen_wrongly(shortfall: Any) -> None:
    assert shortfall(0.9, 100, 5) < shortfall(0.99, 100, 5) < shortfall(0.99, 200, 5) < 20
    assert shortfall(0.999999, 10**6, 1) < 40


GRID = 2**20


def family(generator: Any, size: int) -> FamilyScores:
    """Scores with a long tail, as influences have; some are equal."""
    scores = np.round(np.sort(generator.exponential(6, size))[::-1] * 2) / 2 * GRID
    return FamilyScores(np.arange(size), scores.astype(np.int64), size)


@pytest.mark.parametrize("mechanism", ["one-shot", "vector"])
def test_what_is_chosen_and_its_ranks_are_as_good_as_promised(mechanism: str) -> None:
    """By the mechanisms themselves with noise of known seeds: 150 releases at 80%."""
    generator, size, k, runs, confidence = np.random.default_rng(5), 60, 4, 150, 0.8
    chosen_well = ranked_well = 0
    noise = SeededNoise(11)
    for _ in range(runs):
        scores = family(generator, size)
        true = scores.scores
        if mechanism == "one-shot":
            plan = OneShotPlan.share(k=k, family_size=size, sensitivity=GRID, rho=4.0, split=(1, 1, 2))
            lines = select_and_measure(Confidential(scores), plan, confidence, noise)
            shortfall, (below, above) = plan.shortfall(confidence), plan.rank_reach(confidence)
        else:
            vector = VectorPlan(k, size, GRID, 3.0 * GRID, 2.0, 2.0)
            lines = release_vector(Confidential(scores), vector, confidence, noise)
            shortfall = vector.shortfall(confidence)
            below = above = 2 * vector.rank_resolution(confidence)
        own = [int(true[line.predicate]) for line in lines]
        chosen_well += min(own) >= true[k - 1] - shortfall
        inside = [true[line.rank[0] : line.rank[1] - 1] for line in lines]  # without both ends
        held = [
            bool(np.all((ranked >= score - below) & (ranked <= score + above)))
            for ranked, score in zip(inside, own, strict=True)
        ]
        ranked_well += np.mean(held)
    assert chosen_well >= confidence * runs
    assert ranked_well >= confidence * runs


def test_the_promise_is_attained_in_the_worst_case() -> None:
    """All of the true k equal, all others exactly the shortfall below: wrong as often as is admitted."""
    size, k, runs, confidence = 30, 3, 400, 0.5
    plan = OneShotPlan.share(k=k, family_size=size, sensitivity=GRID, rho=4.0, split=(1, 1, 2))
    worst = np.where(np.arange(size) < k, 0, -int(plan.shortfall(confidence)))
    scores = Confidential(FamilyScores(np.arange(size), worst.astype(np.int64), size))
    noise = SeededNoise(3)
    right = sum(
        all(line.predicate < k for line in select_and_measure(scores, plan, confidence, noise))
        for _ in range(runs)
    )
    assert right / runs == pytest.approx(confidence, abs=0.08)


def test_wrong_ones_are_counted_from_both_sides() -> None:
    """Every choice that two noises within the shortfall allow is tried."""
    generator = np.random.default_rng(9)
    for _ in range(300):
        true = np.sort(generator.integers(0, 12, 7))[::-1].astype(float)
        k, shortfall = int(generator.integers(1, 7)), float(generator.integers(0, 6))
        noise = generator.uniform(0, shortfall, 7)  # no two differ by more
        shown = np.argsort(-(true + noise), kind="stable")[:k]
        assert int(np.sum(shown >= k)) <= most_wrong(true.tolist(), k, shortfall)


# -- As people see it ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def question() -> dpx.Question:
    """Nothing but the query is released."""
    answer = dpx.example("adult", insecure_seed=3).query(SQL, rho=0.1)
    return answer.why("Married-civ-spouse", "Never-married")


@pytest.mark.parametrize("mechanism", ["one-shot", "vector"])
def test_a_preview_promises_in_words(question: dpx.Question, mechanism: str) -> None:
    preview = question.preview(rho=0.5, mechanism=mechanism)
    choice, ranks = preview.promises
    assert preview.proved
    assert preview.rank_reach is not None
    assert number(preview.shortfall) in choice
    assert all(number(reach) in ranks for reach in preview.rank_reach)
    assert {choice, ranks} <= set(view_of(preview).notes)
    finer = question.preview(rho=2.0, mechanism=mechanism)
    assert finer.shortfall == pytest.approx(preview.shortfall / 2, rel=1e-3)
    assert preview.records()[0]["shortfall"] == preview.shortfall


def test_a_forecast_is_not_called_a_promise(question: dpx.Question) -> None:
    preview = question.preview(rho=0.5, mechanism="marginals")
    assert not preview.proved
    assert len(preview.promises) == 1, "none of ranks"
    assert replace(preview, proved=True).promises != preview.promises


def test_sentences_fit_what_is_asked(question: dpx.Question) -> None:
    def facts(**options: Any) -> tuple[bool, bool, bool]:
        preview = question.preview(rho=0.5, mechanism="one-shot", **options)
        return preview.k == preview.family_size, preview.selects_distinct, preview.folds

    assert facts(k=103) == (True, False, False)
    assert facts(k=1) == (False, False, False)
    alone = question.preview(rho=0.5, k=1, mechanism="one-shot")
    assert "The most influential of 103 conditions, by" in view_of(alone).notes[0]
    assert facts(predicates=dpx.thresholds("age"), distinct=True)[1]
    assert facts(conjuncts=2)[2]
    assert facts(k=103, distinct=True)[::2] == (True, True)


def test_a_precision_is_priced_by_what_is_released() -> None:
    question = (
        dpx.example("adult", insecure_seed=3).query(SQL, rho=0.1).why("Married-civ-spouse", "Never-married")
    )
    with pytest.raises(
        dpx.ExplanationError, match="How many of the true k will be shown depends on how close"
    ):
        question.rho_for(precision=0.9)
    question.answer.prepare(rho=0.003)
    spent = dataset_of(question).ledger.budget("adult").spent
    prices = [question.rho_for(precision=precision, mechanism="vector") for precision in (0.2, 0.6, 0.8)]
    assert prices[0] == 0.0  # known already
    assert 0 < prices[1] < prices[2]
    free = [question.rho_for(precision=precision) for precision in (0.2, 0.6, 0.8)]
    assert all(price == 0 or price > 0.003 for price in free)  # what is prepared costs nothing
    assert dataset_of(question).ledger.budget("adult").spent == spent
    question.answer.prepare(rho=0.5)
    assert question.rho_for(precision=1.0) == 0.0
    table = question.explain(k=5)
    assert all(row.rank[1] <= 5 for row in table)


@pytest.mark.parametrize("precision", [0.0, -1.0, 1.5, float("nan")])
def test_a_precision_that_is_no_share_is_refused(question: dpx.Question, precision: float) -> None:
    with pytest.raises(dpx.ExplanationError, match="precision must be above 0 and at most 1"):
        question.rho_for(precision=precision)


def test_a_shortfall_is_never_negative() -> None:
    plan = OneShotPlan.share(k=1, family_size=3, sensitivity=GRID, rho=4.0, split=(1, 1, 2))
    assert plan.shortfall(0.01, distinct=True) == 0.0


def test_ties_have_no_price() -> None:
    assert most_wrong([5.0, 5.0, 1.0], 1, 0.0) == 1


def test_a_choice_by_distance_falls_short_by_no_more_rows_than_promised() -> None:
    """The worst case: k predicates at 0, all others one row beyond the promise, or at half of it."""
    number, k, rho, confidence, runs = 60, 3, 0.5, 0.9, 300
    plan = OneShotPlan(k, number, POINTS_PER_ROW, rho, 0.0, 0.0)
    promised = math.floor(plan.shortfall(confidence) / POINTS_PER_ROW)

    def wrong(below: int) -> int:
        scores = np.array([0] * k + [-below] * (number - k), dtype=np.int64)
        family = FamilyScores(np.arange(number), scores, number)
        return sum(
            max(select_by_distance(Confidential(family), k=k, rows=1, rho=rho, noise=SeededNoise(seed))) >= k
            for seed in range(runs)
        )

    assert stats.binom.sf(wrong(promised + 1) - 1, runs, 1 - confidence) > FALSE_ALARM
    assert stats.binom.sf(wrong(promised // 2) - 1, runs, 1 - confidence) < FALSE_ALARM, "it has power"


def test_the_preview_of_an_influence_of_ones_own_promises_rows() -> None:
    answer = dpx.example("adult").query("SELECT sex, COUNT(*) FROM adult GROUP BY sex", rho=0.5)
    question = answer.why("Male", "Female")  # type: ignore[union-attr]
    few, many = (question.preview(k=3, rho=rho, influence=dpx.RatioInfluence()) for rho in (2.0, 0.5))
    assert few.shortfall_rows is not None
    assert many.shortfall_rows == pytest.approx(2 * few.shortfall_rows, abs=2)
    (sentence,) = few.promises
    assert f"{few.shortfall_rows:,} changed rows" in sentence
    assert sentence in preview_payload(few)["expected"]
    unsure = question.preview(k=3, rho=2.0, confidence=1 - 1e-9, influence=dpx.RatioInfluence())
    assert unsure.shortfall_rows is None
