"""Ratios and shares: sensitivity on all small tables, coverage, and what could go wrong with a division.

Proofs: ../../docs/proofs/ratio.md. Simulations have fixed seeds, so that no test can fail by chance.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.errors import QuestionError
from dpxplain.explanation.influence import QuestionCells, influences
from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.release import AnswerRelease
from dpxplain.model.schema import Schema
from dpxplain.phases.assess import assess, assess_ratio, linear_question
from dpxplain.privacy.sensitivity import influence_sensitivity
from dpxplain.results.answer import Answer

SCHEMA: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 1000},
    "columns": {
        "g": {"values": ["a", "b", "c"]},
        "h": {"values": ["x", "y"]},
        "pay": {"bounds": [0, 10]},
        "loss": {"bounds": [-10, 0]},
        "change": {"bounds": [-5, 5]},
    },
}


# -- Sensitivity -------------------------------------------------------------------------------------------


def cells_of(rows: tuple[tuple[int, int, int], ...], groups: int) -> QuestionCells:
    """Of rows (group, matches, value), with one predicate."""
    count, total = np.zeros((2, groups), dtype=np.int64)
    matching, matching_total = np.zeros((2, groups, 1), dtype=np.int64)
    for group, matches, value in rows:
        count[group] += 1
        total[group] += value
        matching[group] += matches
        matching_total[group] += matches * value
    return QuestionCells(np.array([0]), count, total, matching, matching_total)


@pytest.mark.parametrize("value", [0.001, 0.37, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize(
    ("kind", "low", "high"), [("count", 0, 0), ("sum", -2, 3), ("sum", -3, -1), ("avg", -1, 2)]
)
def test_no_row_of_any_small_table_moves_an_influence_further(
    kind: Any, low: int, high: int, share: bool, value: float
) -> None:
    """Every table of up to four rows, and every row that may be added to it."""
    if share and (kind == "avg" or value > 1):
        return  # no such question
    ratio = Ratio(0, (0, 1) if share else (1,), 1.0)
    contrast = linear_question(ratio, value, 1)
    if len(contrast.groups) < 2:
        return
    sensitivity = influence_sensitivity(kind, contrast.weights, low, high)
    ends = (low, high) if low != high else (0,)
    rows = list(itertools.product((0, 1), (0, 1), ends))
    known: dict[tuple[tuple[int, int, int], ...], float] = {}

    def influence(table: tuple[tuple[int, int, int], ...]) -> float:
        table = tuple(sorted(table))
        if table not in known:
            known[table] = float(influences(kind, contrast.weights, cells_of(table, 2), low + high)[0])
        return known[table]

    furthest = max(
        abs(influence((*table, row)) - influence(table))
        for size in range(5)
        for table in itertools.combinations_with_replacement(rows, size)
        for row in rows
    )
    assert furthest <= sensitivity * (1 + 1e-9)


# -- Intervals ---------------------------------------------------------------------------------------------


def asked(kind: str, column: str | None, release: AnswerRelease, ratio: Ratio) -> tuple[float, float]:
    declared, query = Schema.load(SCHEMA), Query(("t"), ("g",), Aggregate(kind, column))  # type: ignore[arg-type]

    def weigh(weights: Any) -> tuple[float, float]:
        return assess(
            release, query, declared, Contrast(ratio.groups, tuple(weights)), 0.95, "mover"
        ).interval

    values = release.noisy_count if kind == "count" else release.noisy_sum
    assert values is not None
    estimates = [values[g] for g in ratio.groups]
    if kind == "avg":
        assert release.noisy_count is not None
        estimates = [5 + values[g] / release.noisy_count[g] for g in ratio.groups]
    return assess_ratio(ratio, estimates, weigh, (-math.inf, math.inf)).interval


@pytest.mark.parametrize("true", [(30.0, 20.0, 10.0), (300.0, 12.0, 5.0), (5.0, 4000.0, 90.0)])
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_ratio_of_noisy_values_is_covered(true: tuple[float, ...], share: bool, sign: float) -> None:
    random, values = np.random.default_rng(18), sign * np.array(true)
    ratio = Ratio(0, (0, 1, 2) if share else (1,), 1.0)
    truth = true[0] / (sum(true) if share else true[1])
    covered = 0
    for _ in range(200):
        noisy = tuple(values + 2.0 * random.normal(size=3))
        low, high = asked("sum", "change", AnswerRelease(1.0, None, None, noisy, 2.0), ratio)
        covered += low <= truth <= high
    assert 180 <= covered <= 199  # 95% of 200 is 190, three standard errors are 9


@pytest.mark.slow
def test_a_ratio_of_averages_is_covered() -> None:
    random, ratio, covered = np.random.default_rng(18), Ratio(0, (1,), 1.0), 0
    counts, means = np.array([400.0, 150.0, 9.0]), np.array([7.0, 2.0, 5.0])
    for _ in range(80):
        release = AnswerRelease(
            1.0,
            tuple(counts + 3.0 * random.normal(size=3)),
            3.0,
            tuple(counts * (means - 5.0) + 15.0 * random.normal(size=3)),
            15.0,
        )
        low, high = asked("avg", "pay", release, ratio)
        covered += low <= 3.5 <= high
    assert covered >= 70  # 95% of 80 is 76, three standard errors are 6


def test_an_interval_narrows_with_the_noise() -> None:
    widths = []
    for scale in (4.0, 2.0, 1.0):
        release = AnswerRelease(1.0, (300.0, 150.0, 5.0), scale, None, None)
        low, high = asked("count", None, release, Ratio(0, (1,), 1.0))
        widths.append(high - low)
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.01)
    assert widths[1] / widths[2] == pytest.approx(2, rel=0.01)


# -- Questions ---------------------------------------------------------------------------------------------


def session(seed: int = 1, **columns: list[Any]) -> dpx.Session:
    rows = {"g": [], "h": [], "pay": [], "loss": [], "change": []} | columns  # type: ignore[var-annotated]
    return dpx.connect(pa.table(rows), SCHEMA, workspace=None, insecure_seed=seed, curator=True)


@pytest.fixture
def table(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    monkeypatch.chdir(tmp_path)
    g = ["a"] * 3000 + ["b"] * 1000 + ["c"] * 200
    h = ["x"] * 1800 + ["y"] * 1200 + ["x"] * 250 + ["y"] * 750 + ["x"] * 100 + ["y"] * 100
    pay = [8.0 if x == "x" else 3.0 for x in h]
    return {"g": g, "h": h, "pay": pay, "loss": [-p for p in pay], "change": [p - 5 for p in pay]}


def answer(table: dict[str, list[Any]], value: str, rho: float = 5.0, seed: int = 1) -> Answer:
    found = session(seed, **table).query(f"SELECT g, {value} FROM t GROUP BY g", rho=rho)
    assert isinstance(found, Answer)
    return found


@pytest.mark.parametrize(
    ("value", "truth", "without"),
    [("COUNT(*)", 3.0, 1200 / 750), ("SUM(pay)", 18000 / 4250, 3600 / 2250),
     ("SUM(loss)", 18000 / 4250, 3600 / 2250), ("AVG(pay)", 6 / 4.25, 1.0)],
)  # fmt: skip
def test_a_ratio_is_asked_and_explained_for_every_aggregate(
    table: dict[str, list[Any]], value: str, truth: float, without: float
) -> None:
    found = answer(table, value)
    question = found.why_ratio("a", "b", population=True)
    assert question.verdict is Verdict.REAL
    assert question.interval[0] <= truth <= question.interval[1]
    assert question.in_general is not None
    assert question.in_general.interval[0] < question.interval[0]
    assert question.measured == "ratio"
    assert "ratio" in question.text
    assert (question.comparison.groups, question.comparison.constant) == (("a", "b"), 1.0)
    found.prepare(rho=20.0, attributes=["h"])
    explained = question.explain(k=2, attributes=["h"])
    first = explained[0]
    assert str(first.predicate) == "h = 'x'"  # these rows lift a above the ratio
    assert explained.explained.has_gaps_without
    assert first.effect == "shrinks"
    assert "h “x”" in explained.finding.headline.lower()
    assert first.influence[0] > 0
    assert first.gap_without is not None
    assert first.gap_without[0] <= without <= first.gap_without[1]
    assert first.gap_without[1] - first.gap_without[0] < 0.5


def test_a_share_of_the_total(table: dict[str, list[Any]]) -> None:
    found = answer(table, "COUNT(*)")
    question = found.why_ratio("a")
    assert question.measured == "share"
    assert question.contrast.at_least == pytest.approx(1 / 3)
    assert question.interval[0] <= 3000 / 4200 <= question.interval[1] <= 1.0
    explained = question.explain(k=2, rho=1.0, attributes=["h"])
    assert str(explained[0].predicate) == "h = 'x'"
    assert all(explained.truth().to_pandas()["influence_covered"])
    found.prepare(rho=20.0, attributes=["h"])
    ends = found.why_ratio("a").explain(k=2, attributes=["h"])[0].gap_without
    assert ends is not None
    assert ends[0] <= 1200 / 2050 <= ends[1] <= ends[0] + 0.1


def test_influences_narrow_with_rho_as_all_others_do(table: dict[str, list[Any]]) -> None:
    question, widths = answer(table, "COUNT(*)").why_ratio("a", "b"), []
    for rho in (0.5, 2.0, 8.0):
        row = question.explain(k=1, rho=rho, attributes=["h"], mechanism="one-shot")[0]
        widths.append(row.influence[1] - row.influence[0])
    assert widths[0] / widths[1] == pytest.approx(2.0, rel=0.01)
    assert widths[1] / widths[2] == pytest.approx(2.0, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["COUNT(*)", "SUM(pay)", "AVG(pay)"])
@pytest.mark.parametrize("mechanism", ["marginals", "one-shot"])
def test_a_table_of_a_ratio_covers_the_truth(table: dict[str, list[Any]], value: str, mechanism: str) -> None:
    """Influences, ranks and, where told, the ratio without the rows: at 90%, over forty draws of noise."""
    misses, opened = 0, session(18, **table)
    for draw in range(40):
        found = opened.query(f"SELECT g, {value} FROM t GROUP BY g", rho=0.3 + draw / 1000)
        assert isinstance(found, Answer)
        explained = found.why_ratio("a", "b").explain(
            k=2, rho=0.5 + draw / 1000, attributes=["h"], mechanism=mechanism, confidence=0.9
        )
        truth = explained.truth().to_pandas()
        names = ["influence_covered", "rank_covered", "gap_without_covered"]
        covered = truth[[name for name in names if name in truth]].fillna(value=True)
        misses += not bool(covered.to_numpy().all())
    # Two lines of up to three intervals each; of one-shot every interval has its own 10%.
    assert misses <= (24 if mechanism == "one-shot" else 12)


def test_a_divisor_that_may_be_zero_is_refused(table: dict[str, list[Any]]) -> None:
    empty = {name: values[:3000] for name, values in table.items()}  # everybody is in group a
    found = answer(empty, "COUNT(*)", rho=0.1)
    with pytest.raises(QuestionError, match="may be 0"):
        found.why_ratio("a", "b")
    question = found.why_ratio("b", "a")  # nobody, divided by everybody
    assert question.interval[0] == 0.0
    assert question.verdict is Verdict.REVERSED
    assert found.why_ratio("a").interval[1] == pytest.approx(1.0, abs=0.01)
    question.explain(k=1, rho=0.1, attributes=["h"])


@pytest.mark.parametrize("value", ["COUNT(*)", "SUM(pay)", "SUM(loss)"])
def test_a_divisor_of_an_impossible_sign_is_noise_around_0(table: dict[str, list[Any]], value: str) -> None:
    """Half of all noise around 0 lies outside an interval of 50%: a quarter has the wrong sign."""
    opened, refused = session(18, **{name: values[:3000] for name, values in table.items()}), 0
    for draw in range(24):
        found = opened.query(f"SELECT g, {value} FROM t GROUP BY g", rho=0.1 + draw / 1000)
        assert isinstance(found, Answer)
        wrong = found["b"].estimate * (-1 if value == "SUM(loss)" else 1) < 0
        if wrong:
            with pytest.raises(QuestionError, match="may be 0"):
                found.why_ratio("a", "b", confidence=0.5)
        refused += wrong
    assert refused > 5


def test_sums_of_both_signs_have_ratios_too(table: dict[str, list[Any]]) -> None:
    found = answer(table, "SUM(change)")  # a: 1800·3 − 1200·2 = 3000, b: 250·3 − 750·2 = −750
    question = found.why_ratio("a", "b", at_least=-5, population=True)
    assert question.interval[0] <= -4.0 <= question.interval[1]
    assert question.verdict is Verdict.REAL
    assert question.in_general is None
    assert question.general_finding == question.answer.not_general
    assert "negative" in question.general_finding
    row = question.explain(k=1, rho=5.0, attributes=["h"])[0]
    assert row.influence[0] > 0


@pytest.mark.parametrize(
    ("groups", "options", "words"),
    [(("a", "a"), {}, "divided by itself"), (("a", "b"), {"at_least": math.inf}, "finite number"),
     (("a", "nobody"), {}, "nobody"), (("a", "b"), {"method": "magic"}, "interval method")],
)  # fmt: skip
def test_wrong_ratios_are_refused(
    table: dict[str, list[Any]], groups: tuple[str, str], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(QuestionError, match=words):
        answer(table, "COUNT(*)").why_ratio(*groups, **options)


def test_averages_have_no_shares(table: dict[str, list[Any]]) -> None:
    with pytest.raises(QuestionError, match="Averages do not add up"):
        answer(table, "AVG(pay)").why_ratio("a")
