"""Vector and marginals: what one row can move, what OpenDP charges, and broken variants that are caught.

Proofs: docs/proofs/{vector,marginals}.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpxplain as dpx
from dpxplain.explanation.family_choice import FamilyChoice, check_choice, chosen_family
from dpxplain.model.groups import Groups
from dpxplain.phases.explain import Scoring, true_scores
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.phases.prepare import plan_preparation
from dpxplain.privacy.calibration import range_quantile
from dpxplain.privacy.mechanisms.noise import OpenDPNoise, SeededNoise
from dpxplain.sql.parse import parse_condition
from opened import dataset_of

FALSE_ALARM = 1e-7


def _schema(neighbours: str = "unbounded") -> dict[str, Any]:
    return {
        "table": {"name": "t"},
        "privacy": {"rho": 1e5, "neighbours": neighbours},
        "columns": {
            "g": {"values": ["A", "B", "C"]},
            "a": {"values": ["x", "y", "z"]},
            "b": {"values": [0, 1]},
            "c": {"edges": [0, 10, 20, 30]},
            "x": {"bounds": [-2, 6], "step": 1},
        },
    }


def _frame(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "g": rng.choice(["A", "B", "C", "?"], rows),
            "a": rng.choice(["x", "y", "z", "?"], rows),
            "b": rng.choice([0, 1, 7], rows),
            "c": rng.choice([5.0, 15.0, 25.0, 99.0], rows),
            "x": rng.integers(-2, 7, rows),
        }
    )


def _open(frame: pd.DataFrame, tmp_path: Any, name: str, **kw: Any) -> dpx.Session:
    return dpx.connect(frame, schema=_schema(), workspace=tmp_path / name, curator=True, **kw)


FAMILIES: dict[str, dict[str, Any]] = {
    "single values": {},
    "pairs": {"conjuncts": 2},
    "singles and pairs": {"conjuncts": 2, "nested": True},
    "ranges and either": {"predicates": [dpx.ranges("c"), "a = 'x' OR b = 1", dpx.differs("a")]},
}


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(x)", "AVG(x)"])
@pytest.mark.parametrize("family", FAMILIES)
def test_one_row_moves_the_marginals_by_exactly_what_is_paid_for(
    family: str, aggregate: str, tmp_path: Any
) -> None:
    """A forgotten attribute, or one counted twice, would break this."""
    frame = _frame(60, 1)
    rows = [
        {"g": "A", "a": "x", "b": 1, "c": 5.0, "x": 6},
        {"g": "C", "a": "?", "b": 7, "c": 99.0, "x": -2},
        {"g": "B", "a": "z", "b": 0, "c": 25.0, "x": 6},
    ]
    moved = []
    for number, row in enumerate([None, *rows]):
        table = frame if row is None else pd.concat([frame, pd.DataFrame([row])], ignore_index=True)
        with _open(table, tmp_path, str(number)) as session:
            answer = session.query(f"SELECT g, {aggregate} FROM t GROUP BY g", rho=1.0)
            query, dataset = answer.statement.query, dataset_of(answer)
            choice = check_choice(FamilyChoice(**FAMILIES[family]), dataset.schema, query)
            chosen = chosen_family(choice, dataset.schema, query, parse_condition)
            plan = plan_preparation(query, chosen, answer.release, dataset.schema, 0.5)
            true = dataset.marginals(query, chosen).reveal()
            sums = true.total if aggregate == "SUM(x)" else 2 * true.total - 4 * true.count
            moved.append((true.count, sums))
    for count, total in moved[1:]:
        assert np.linalg.norm(count - moved[0][0]) == pytest.approx(plan.count_sensitivity, rel=1e-12)
        if plan.rho_total:
            assert np.linalg.norm(total - moved[0][1]) <= plan.total_sensitivity
    largest = max(np.linalg.norm(total - moved[0][1]) for _, total in moved[1:])
    if plan.rho_total:
        assert largest == pytest.approx(plan.total_sensitivity, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(x)", "AVG(x)"])
@pytest.mark.parametrize("family", FAMILIES)
def test_one_row_moves_the_scores_by_at_most_what_the_vector_pays_for(
    family: str, aggregate: str, tmp_path: Any
) -> None:
    largest = 0.0
    for seed in range(8):
        frame = _frame(12 + 40 * (seed % 2), seed)
        scores = []
        for table in (frame, frame.iloc[1:]):
            with _open(table, tmp_path, f"{seed}-{len(table)}") as session:
                question = session.query(f"SELECT g, {aggregate} FROM t GROUP BY g", rho=1.0).why("A", "B")
                choice = FamilyChoice(**FAMILIES[family])
                plan: Any = question.plan_explain(ExplanationOptions(choice, 2, 1.0, "vector")).plan
                secret = true_scores(plan.terms, Scoring.of(plan.terms), dataset_of(question))
                sparse = secret.reveal()
                scores.append(np.bincount(sparse.active, sparse.scores, sparse.size))
        largest = max(largest, float(np.linalg.norm(scores[0] - scores[1])))
    assert 0 < largest <= plan.vector.family_sensitivity


class _Recorder(OpenDPNoise):
    def __init__(self) -> None:
        self.runs: list[tuple[Any, int]] = []

    def gaussian(self, measurement: Any, values: np.ndarray, scale: float) -> np.ndarray:
        self.runs.append((measurement, len(values)))
        return super().gaussian(measurement, values, scale)


def test_opendp_charges_what_was_planned(tmp_path: Any) -> None:
    with _open(_frame(200, 3), tmp_path, "w") as session:
        answer = session.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0)
        question = answer.why("A", "B")
        recorder = dataset_of(question).noise = _Recorder()
        vector: Any = question.plan_explain(ExplanationOptions(FamilyChoice(), 2, 0.8, "vector")).plan
        vector.measure(dataset_of(question))
        (everything, size), (fresh, k) = recorder.runs
        assert (size, k) == (8, 2)
        assert everything.map(vector.vector.family_sensitivity) == pytest.approx(0.4, rel=1e-8)
        assert fresh.map(vector.vector.fresh_sensitivity) == pytest.approx(0.4, rel=1e-8)
        recorder.runs.clear()
        marginals: Any = question.plan_explain(ExplanationOptions(FamilyChoice(), 2, 0.8, "marginals")).plan
        plan = marginals.preparation
        plan.measure(dataset_of(question))
        (counts, cells), (sums, same) = recorder.runs
        assert cells == same == plan.cells == 3 * (4 + 3 + 4)
        # Noise is drawn on a finer lattice; the map is asked in its units.
        fine = 2 ** math.ceil(math.log2(2**16 / plan.count_scale))
        assert counts.map(plan.count_sensitivity * fine) == pytest.approx(plan.rho_count, rel=1e-8)
        fine = 2 ** math.ceil(math.log2(2**16 * plan.total_unit / plan.total_scale))
        assert sums.map(plan.total_sensitivity * fine) == pytest.approx(plan.rho_total, rel=1e-8)
        assert plan.rho_count + plan.rho_total == 0.8


class _TooQuiet(SeededNoise):
    """A broken source: noise a fifth too small."""

    def gaussian(self, measurement: Any, values: np.ndarray, scale: float) -> np.ndarray:
        return super().gaussian(measurement, values, 0.8 * scale)


@pytest.mark.parametrize(("source", "accepted"), [(SeededNoise, True), (_TooQuiet, False)])
def test_noise_a_fifth_too_small_is_caught_in_every_cell(source: Any, accepted: bool, tmp_path: Any) -> None:
    with _open(_frame(500, 4), tmp_path, "w") as session:
        answer = session.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0)
        query, dataset = answer.statement.query, dataset_of(answer)
        dataset.noise = source(5)
        choice = check_choice(FamilyChoice(conjuncts=2), dataset.schema, query)
        family = chosen_family(choice, dataset.schema, query, parse_condition)
        plan = plan_preparation(query, family, answer.release, dataset.schema, 0.5)
        true = dataset.marginals(query, family).reveal()
        off = []
        for _ in range(20):
            release = plan.measure(dataset)
            off.append((release.noisy_count - true.count) / plan.count_scale)
        chance = stats.chi2.cdf(np.sum(np.square(off)), np.size(off))
        assert bool(FALSE_ALARM < chance < 1 - FALSE_ALARM) is accepted


def test_the_range_quantile_is_that_of_the_studentised_range() -> None:
    for number in (2, 8, 103):
        expected = stats.studentized_range.ppf(0.9, number, 1e7)
        assert range_quantile(0.9, number) == pytest.approx(expected, rel=1e-4)
    assert range_quantile(0.9, 1) == 0.0


def test_prepare_once_and_every_question_is_free(tmp_path: Any) -> None:
    with _open(_frame(3000, 6), tmp_path, "w") as session:
        answer = session.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0)
        preview = answer.preview_prepare(rho=0.5)
        assert preview.price.rho == 0.5
        assert session.budget.spent == 1.0
        prepared = answer.prepare(rho=0.5)
        assert session.budget.spent == 1.5
        assert prepared.plan.cells == Groups.of(answer.statement.query, session.schema).size * 11
        for question in (answer.why("A", "B"), answer.why("C", "A"), answer.why({"A": 1, "B": 2, "C": -3})):
            for k in (1, 8):
                table = question.explain(k=k, confidence=0.8)
                assert table.free
                assert table.mechanism == "marginals"
                assert all(row.gap_without is not None for row in table)
                assert question.preview(k=k).price.free
        assert session.budget.spent == 1.5
        assert answer.prepare(rho=0.5).free
        with pytest.raises(dpx.ExplanationError, match="needs a price"):
            answer.why("A", "B").explain(k=2, conjuncts=2)
    with _open(_frame(3000, 6), tmp_path, "w") as later:  # another session, the same workspace
        again = later.answer(1).why("A", "B").explain(k=3)
        assert again.free
        assert later.budget.spent == 1.5


def test_the_same_noise_answers_every_question(tmp_path: Any) -> None:
    """Consistency: the influences of A − B and of B − A are opposite, to the last digit."""
    with _open(_frame(3000, 7), tmp_path, "w") as session:
        answer = session.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0)
        answer.prepare(rho=0.5)
        one = {r.index: r.estimate for r in answer.why("A", "B").explain(k=8)}
        other = {r.index: r.estimate for r in answer.why("B", "A").explain(k=8)}
        assert one.keys() == other.keys()
        assert all(one[i] == pytest.approx(-other[i], abs=1e-9) for i in one)


def test_naming_a_higher_price_buys_more_precision(tmp_path: Any) -> None:
    with _open(_frame(3000, 8), tmp_path, "w") as session:
        answer = session.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0)
        answer.prepare(rho=0.01)
        cheap = answer.why("A", "B").explain(k=1)
        dear = answer.why("A", "B").explain(k=1, rho=4.0)
        assert session.budget.spent == pytest.approx(5.01)
        width = [table[0].influence[1] - table[0].influence[0] for table in (cheap, dear)]
        assert width[1] < width[0] / 5
        assert answer.why("A", "B").explain(k=1).release.rho == 4.0, (
            "the better preparation is used from now on"
        )


@pytest.mark.parametrize("mechanism", ["vector", "marginals"])
def test_what_a_mechanism_cannot_do_is_said(mechanism: str, tmp_path: Any) -> None:
    with _open(_frame(50, 9), tmp_path, "w") as session:
        question = session.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0).why("A", "B")
        with pytest.raises(dpx.ExplanationError, match="published"):
            question.explain(rho=0.1, mechanism=mechanism, sensitivity="paper")
        before = session.budget.spent
        with pytest.raises(dpx.BudgetExhausted):
            question.explain(rho=2e5, mechanism=mechanism)
        assert session.budget.spent == before


@pytest.mark.slow
@pytest.mark.parametrize(("source", "accepted"), [(SeededNoise, True), (_TooQuiet, False)])
@pytest.mark.parametrize("mechanism", ["one-shot", "vector"])
def test_noise_a_fifth_too_small_is_caught_by_the_coverage_of_influences(
    mechanism: str, source: Any, accepted: bool, tmp_path: Any
) -> None:
    with _open(_frame(400, 10), tmp_path, "w") as session:
        question = session.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0).why("A", "B")
        plan: Any = question.plan_explain(ExplanationOptions(FamilyChoice(), 2, 0.5, mechanism, 0.9)).plan
        family = plan.family
        truth = {row["predicate"]: row["influence"] for row in question.truth().records()}
        dataset_of(question).noise = source(11)
        covered, runs = 0, 600
        for _ in range(runs):
            for line in plan.measure(dataset_of(question)).lines:
                low, high = line.influence_interval
                covered += low <= truth[str(family.predicate(line.predicate))] <= high
        # Too little noise makes intervals cover too often: both tails count.
        chance = stats.binom.cdf(covered, 2 * runs, 0.9)
        assert bool(FALSE_ALARM < chance < 1 - FALSE_ALARM) is accepted
