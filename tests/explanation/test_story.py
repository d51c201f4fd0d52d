"""A story of a gap: its intervals hold together, it is paid for once as a whole, and it never tells noise."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpxplain as dpx
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.query import Predicate
from dpxplain.phases.answer_query import plan_query
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_marginals import children
from dpxplain.privacy.mechanisms.noise import SeededNoise
from dpxplain.render.charts import chart
from dpxplain.render.views import view_of
from dpxplain.render.views_results import sentences
from dpxplain.wire.payloads import story_payload
from dpxplain.words.findings import in_general
from dpxplain.words.prices import PREPARED
from opened import dataset_of

FALSE_ALARM = 1e-6
SCHEMA: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 10.0},
    "columns": {
        "g": {"values": ["A", "B"]},
        "a": {"values": ["x", "y", "z"]},
        "b": {"values": [0, 1]},
        "c": {"values": ["k", "l", "m", "n"]},
        "x": {"bounds": [0, 8], "step": 1},
    },
}


def people(sizes: tuple[int, int], seed: int = 3) -> pd.DataFrame:
    """Within a = x and b = 1 the first group has far more; some values are undeclared."""
    rng = np.random.default_rng(seed)
    rows = sum(sizes)
    frame = pd.DataFrame({"g": np.repeat(["A", "B"], sizes)})
    frame["a"] = rng.choice(["x", "y", "z", "?"], rows, p=[0.4, 0.3, 0.25, 0.05])
    frame["b"] = rng.choice([0, 1, 9], rows, p=[0.45, 0.45, 0.1])
    frame["c"] = rng.choice(["k", "l", "m", "n"], rows)
    lifted = (frame.g == "A") & (frame.a == "x")
    frame["x"] = rng.integers(0, 4, rows) + 2 * lifted + 2 * (lifted & (frame.b == 1))
    # More of the first group are there, too, so that counts have something to tell.
    return pd.concat([frame, frame[lifted & (frame.b == 1)]], ignore_index=True)


def asked(frame: pd.DataFrame, folder: Path, aggregate: str = "AVG(x)", **options: Any) -> dpx.Question:
    session = dpx.connect(frame, schema=SCHEMA, workspace=folder, **options)
    return session.query(f"SELECT g, {aggregate} FROM t GROUP BY g", rho=0.5).why("A", "B")


class Truth:
    """The true gaps among rows that meet some conditions, or do not; those of averages over no rows are of 4,
    the middle of the bounds."""

    def __init__(self, frame: pd.DataFrame, aggregate: str) -> None:
        self.frame, self.aggregate = frame, aggregate
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    def covers(self, gap: Any, lines: Any, shrink: float) -> bool:
        """Whether all intervals of a story hold, made narrower by a factor."""
        held, parent = [self._holds(gap, None, None, shrink)], None
        for line in lines:
            held.append(self._holds(line.inside, line.predicate, None, shrink))
            held.append(self._holds(line.rest, parent, line.predicate, shrink))
            parent = line.predicate
        return all(held)

    def _holds(self, told: Any, met: Predicate | None, failed: Predicate | None, shrink: float) -> bool:
        gap, rows = self._of(met, failed)
        ends = ((told.interval, told.estimate, gap), (told.rows, sum(told.rows) / 2, rows))
        return all(
            middle + shrink * (low - middle) <= true <= middle + shrink * (high - middle)
            for (low, high), middle, true in ends
        )

    def _of(self, met: Predicate | None, failed: Predicate | None) -> tuple[float, int]:
        key = (str(met), str(failed))
        if key not in self._known:
            rows = self._meets(met) & (True if failed is None else ~self._meets(failed))
            first, second = (self.frame[rows & (self.frame.g == group)].x for group in ("A", "B"))
            self._known[key] = self._value(first) - self._value(second), int(rows.sum())
        return self._known[key]

    def _meets(self, predicate: Predicate | None) -> Any:
        held = np.ones(len(self.frame), dtype=bool)
        for condition in predicate.conditions if predicate else ():
            held &= (self.frame[condition.column] == condition.value).to_numpy()
        return held

    def _value(self, values: Any) -> float:
        if self.aggregate == "COUNT(*)":
            return float(len(values))
        return float(values.sum() if self.aggregate == "SUM(x)" else values.mean() if len(values) else 4.0)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(900, 700), (60, 12)], ids=["large groups", "small groups"])
@pytest.mark.parametrize("aggregate", ["AVG(x)", "COUNT(*)", "SUM(x)"])
def test_all_intervals_of_a_story_hold_together(
    aggregate: str, sizes: tuple[int, int], tmp_path: Path
) -> None:
    frame, runs, confidence = people(sizes), 100, 0.9
    truth = Truth(frame, aggregate)
    question = asked(frame, tmp_path, aggregate, insecure_seed=1)
    dataset: Any = dataset_of(question)
    plan = question.plan_story(FamilyChoice(), 0.4, 3, confidence).plan
    assert plan.preparation is not None
    first = plan_query(plan.terms.query, dataset.schema, 0.5)
    right = narrow = steps = 0
    chosen = set()
    for seed in range(runs):
        dataset.noise = SeededNoise(seed)
        drawn = replace(plan, terms=replace(plan.terms, answer=first.measure(dataset)))
        levels = drawn._levels(plan.preparation.family, plan.preparation.measure(dataset))
        gap, lines = drawn.read(levels)
        right += truth.covers(gap, lines, 1.0)
        narrow += truth.covers(gap, lines, 0.5)
        steps += len(lines)
        chosen.add(tuple(str(line.predicate) for line in lines))
    assert stats.binom.cdf(right, runs, confidence) > FALSE_ALARM
    assert stats.binom.cdf(narrow, runs, confidence) < FALSE_ALARM, "it has power: half as wide is too narrow"
    assert steps > runs or sizes[1] < 100, "large groups have a second step"
    assert len(chosen) > 1, "noise decided what was told"


def test_where_a_group_is_missing_noise_chooses_no_condition(tmp_path: Path) -> None:
    """Within a = x no rows of B remain, so all influence is noise there; 850 of the 1,000 rows have b = 1."""
    lifted = [("A", "x", int(row < 850), "klmn"[row % 4], 1) for row in range(1000)]
    alike = [(group, "y", row % 2, "klmn"[row % 4], 1) for row in range(300) for group in "AB"]
    frame = pd.DataFrame(lifted + alike, columns=list("gabcx"))
    for seed in range(10):
        question = asked(frame, tmp_path / str(seed), "COUNT(*)", insecure_seed=seed)
        story = question.story(0.5, levels=2)
        assert [str(step.condition) for step in story.steps] == ["a = 'x'", "b = 1"]


def test_a_condition_that_all_rows_meet_is_told(tmp_path: Path) -> None:
    rows = [{"g": group, "a": "x", "b": 1, "c": "k", "x": 1} for group in ["A"] * 1000 + ["B"] * 100]
    for seed in range(6):
        story = asked(pd.DataFrame(rows), tmp_path / str(seed), "COUNT(*)", insecure_seed=seed).story(5.0)
        assert story.steps, "leaving these rows out takes the gap from 900 to 0"


def test_a_report_is_never_charged_for(tmp_path: Path) -> None:
    story = asked(people((900, 700)), tmp_path).story(rho=1e-9)
    with pytest.raises(dpx.ExplanationError, match="first step is lost in noise"):
        story.save(tmp_path / "story.html")


def test_a_story_tells_the_conditions_that_made_the_gap(tmp_path: Path) -> None:
    story = asked(people((900, 700)), tmp_path).story(rho=8.0, levels=3)
    assert [str(step.condition) for step in story.steps] == ["a = 'x'", "b = 1"]
    assert story.ends_in_noise, "the third column was drawn at random"
    assert story.levels == 3
    assert [record["rows"] for record in story.records()] == ["all", "with", "without", "with", "without"]
    assert [story.phrase(step) for step in story.steps] == ["a “x”", "b “1”"]
    assert sentences(story)[-1] == "Nothing else clearly shrinks it."


def test_counts_of_a_storys_parts_add_up(tmp_path: Path) -> None:
    story = asked(people((900, 700)), tmp_path, "COUNT(*)").story(rho=8.0)
    first, second = story.steps
    assert first.inside.estimate + first.rest.estimate == pytest.approx(story.gap.estimate)
    assert second.inside.estimate + second.rest.estimate == pytest.approx(first.inside.estimate)


def test_a_story_against_the_released_order_explains_no_gap(tmp_path: Path) -> None:
    answer = asked(people((700, 900)), tmp_path, "COUNT(*)").answer
    question = answer.why("A", "B", population=True)
    story = question.story(rho=8.0)
    assert question.verdict is dpx.Verdict.REVERSED
    assert story.finding.headline == question.finding.headline
    assert "come first" not in str(story)
    assert story.finding.notes[0] == question.note
    assert in_general(question.comparison) in " ".join(str(story).split())


def test_where_nothing_is_clear_nothing_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    frame = people((300, 300))
    frame["x"] = rng.integers(0, 9, len(frame))
    story = asked(frame, tmp_path).story(rho=0.01)
    assert story.steps == ()
    assert "come first" not in str(story)
    assert view_of(story).grid is None


def test_a_story_is_charged_once_as_a_whole_and_then_all_is_free(tmp_path: Path) -> None:
    question = asked(people((300, 200)), tmp_path)
    session_budget = dataset_of(question).ledger.budget
    preview = question.preview_story(rho=2.0)
    assert (preview.price.rho, preview.price.free, preview.levels) == (2.0, False, 2)
    assert session_budget("t").spent == 0.5
    story = question.story(rho=2.0)
    assert (story.free, story.rho) == (False, 2.0)
    assert sum(spend.rho for spend in story.spends) == pytest.approx(2.0, rel=1e-12)
    assert session_budget("t").spent == 2.5
    again = question.story()
    assert again.free
    assert again.records() == story.records()
    assert question.story(rho=2.0).free
    assert question.preview_story().price.free
    assert question.answer.why("B", "A").story().free  # type: ignore[attr-defined]
    assert question.explain(k=2).free
    assert question.explain(k=2, conjuncts=2).free
    assert session_budget("t").spent == 2.5


def test_what_was_prepared_otherwise_is_told_as_deep_as_it_goes(tmp_path: Path) -> None:
    question = asked(people((300, 200)), tmp_path)
    with pytest.raises(dpx.ExplanationError, match="not prepared"):
        question.story()
    answer: Any = question.answer
    answer.prepare(rho=1.0)
    assert question.story().levels == 1
    with pytest.raises(dpx.ExplanationError, match="not prepared"):
        question.story(levels=2)
    answer.prepare(rho=1.0, conjuncts=2)
    assert question.story().levels == 2
    assert question.story(attributes=["a", "b"]).levels == 2


def test_a_story_read_off_two_preparations_names_both_prices(tmp_path: Path) -> None:
    question = asked(people((900, 700)), tmp_path)
    answer: Any = question.answer
    answer.prepare(rho=1.0)
    answer.prepare(rho=2.0, conjuncts=2)
    story = question.story()
    assert [entry.rho for entry in story.entries] == [1.0, 2.0]
    assert (story.rho, sum(spend.rho for spend in story.spends)) == (3.0, pytest.approx(3.0))
    assert any(
        note.startswith(PREPARED) and "ρ 1 and ρ 2, together ρ 3" in note for note in story.finding.notes
    )
    payload = story_payload(story, dataset_of(question).ledger.budget("t"))
    assert [part["rho"] for part in payload["preparations"]] == [1.0, 2.0]
    report = story.save(tmp_path / "story.html").read_text(encoding="utf-8")
    assert "Together ρ 3.5 of the whole budget" in report


def test_a_story_beyond_the_budget_is_refused_before_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = asked(people((30, 20)), tmp_path)

    marginals = OpenDataset.marginals

    def read(dataset: OpenDataset, *asked: Any) -> Any:
        assert dataset.is_rehearsal, "Data were read."
        return marginals(dataset, *asked)

    monkeypatch.setattr(type(dataset_of(question)), "marginals", read)
    with pytest.raises(dpx.BudgetExhausted):
        question.story(rho=9.9)
    assert dataset_of(question).ledger.budget("t").spent == 0.5


@pytest.mark.parametrize("levels", [0, 4, -1, True, 1.0, "2"])
def test_a_story_of_other_than_one_to_three_levels_is_refused(levels: Any, tmp_path: Path) -> None:
    question = asked(people((30, 20)), tmp_path)
    with pytest.raises(dpx.ExplanationError, match="levels"):
        question.story(rho=0.1, levels=levels)


def test_a_ratio_has_no_story(tmp_path: Path) -> None:
    answer: Any = asked(people((300, 200)), tmp_path).answer
    with pytest.raises(dpx.ExplanationError, match="difference"):
        answer.why_ratio("A", "B").story(rho=0.1)


def test_each_step_adds_one_condition_to_those_before(tmp_path: Path) -> None:
    question = asked(people((30, 20)), tmp_path)
    family = dataset_of(question).family(question.answer.statement.query, FamilyChoice(conjuncts=2))
    codes = {"b": 1}
    texts = [str(family.predicate(index)) for index, _ in children(family, codes)]
    assert len(texts) == 3 + 4
    assert all("b = 1" in text for text in texts)


def test_a_story_is_shown_as_chart_page_and_report(tmp_path: Path) -> None:
    story = asked(people((900, 700)), tmp_path).story(rho=8.0)
    assert html.escape(story.finding.headline) in story._repr_html_()
    assert len(chart(story)["data"]["values"]) == len(story.records())
    assert story.chart().to_dict()["layer"]
    report = story.save(tmp_path / "story.html").read_text(encoding="utf-8")
    assert "Step by step" in report
    for sentence in sentences(story):
        assert html.escape(sentence) in report
    assert "without a = x" in report
