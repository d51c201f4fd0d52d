"""What results say is true to what was asked: its unit, its constant, its quantile, its ends."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.model.contrast import Verdict
from dpxplain.results.combination import Having, JudgedGroup
from dpxplain.words.numbers import PERCENT

SCHEMA = {
    "table": {"name": "t"},
    "privacy": {"rho": 1_000},
    "columns": {
        "g": {"values": ["a", "b", "c"]},
        "hi": {"bounds": [0, 1], "step": 1, "label": "high income"},
        "pay": {"bounds": [0, 100]},
    },
}
ROWS: dict[str, list[Any]] = {
    "g": ["a", "b", "c"] * 4_000,
    "hi": [1, 0, 1] * 4_000,
    "pay": [51.0, 50.0, 20.0] * 4_000,
}


@pytest.fixture
def session(tmp_path: Path) -> dpx.Session:
    return dpx.connect(pa.table(ROWS), SCHEMA, workspace=tmp_path)


A, B, C = (
    JudgedGroup("A", True, True, 0),
    JudgedGroup("B", False, True, 1),
    JudgedGroup("C", True, False, 2),
)
NOISY = "HAVING COUNT(*) > 5 compares the noisy values, not the true ones:"
DECIDED = "Privacy noise may have decided about these groups (each with its own 95% interval)."


@pytest.mark.parametrize(
    ("groups", "sentences"),
    [
        ([A], [f"{NOISY} the only group kept."]),
        ([A, B], [f"{NOISY} 1 of 2 groups left out: B."]),
        (
            [A, C],
            [
                f"{NOISY} all 2 groups kept.",
                f"{DECIDED} They were kept, but their true values may not meet the condition: C.",
            ],
        ),
        (
            [A, replace(B, is_certain=False)],
            [
                f"{NOISY} 1 of 2 groups left out: B.",
                f"{DECIDED} They were left out, but their true values may meet the condition: B.",
            ],
        ),
    ],
)
def test_having_says_what_it_left_out_and_where_noise_may_have_decided(
    groups: list[JudgedGroup], sentences: list[str]
) -> None:
    assert Having("COUNT(*) > 5", 0.95, tuple(groups)).sentences == sentences


def test_a_computed_value_is_no_share_because_another_value_is(session: dpx.Session) -> None:
    sql = "SELECT g, AVG(hi), SUM(pay) / COUNT(*) AS mean_pay FROM t GROUP BY g"
    answers = session.query(sql, rho=5)
    assert isinstance(answers, dpx.Answers)
    computed, share = (answers.why("a", "b", of=name) for name in ("mean_pay", "AVG(hi)"))
    assert "percentage points" not in str(computed.finding)
    assert "percentage points" in str(share.finding)
    assert computed.finding.headline.startswith("mean_pay ")


def test_a_computed_value_is_shaped_by_what_its_own_formula_uses(session: dpx.Session) -> None:
    sql = "SELECT g, COUNT(*) * 2 AS twice, SUM(pay) / COUNT(*) AS m, AVG(hi) FROM t GROUP BY g"
    answers = session.query(sql, rho=5)
    assert isinstance(answers, dpx.Answers)
    twice, mean = answers["twice"], answers["m"]
    assert set(twice.shaped_by) < set(mean.shaped_by) < set(answers.shaped_by)
    assert set(mean.shaped_by) <= set(answers.why("a", "b", of="m").finding.notes)


def test_a_computed_value_may_stand_beside_a_median(session: dpx.Session) -> None:
    answers = session.query("SELECT g, MEDIAN(pay), SUM(pay) / COUNT(*) AS m FROM t GROUP BY g", rho=5)
    assert isinstance(answers, dpx.Answers)
    question = answers.why("a", "c", of="m")
    assert question.verdict is Verdict.REAL
    with pytest.raises(dpx.ExplanationError, match="noisy values"):
        question.explain(1, 0.1)


def test_the_constant_is_written_as_it_was_given(session: dpx.Session) -> None:
    answer = session.query("SELECT g, AVG(pay) FROM t GROUP BY g", rho=100)
    assert isinstance(answer, dpx.Answer)
    question = answer.why({"a": 1}, at_least=50.4647)
    against = answer.why({"b": 1}, at_least=50.4647)
    assert (question.verdict, against.verdict) == (Verdict.REAL, Verdict.REVERSED)
    for sentence in (question.finding.headline, question.text, against.finding.headline, against.note):
        assert re.search(r" 50\.4647[.?]$", sentence)


def test_an_even_share_is_written_as_a_fraction(session: dpx.Session) -> None:
    answer = session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=10)
    assert isinstance(answer, dpx.Answer)
    share = answer.why_ratio("a")
    assert share.text.endswith(" 1/3?")
    assert share.finding.headline.endswith(" 1/3.")
    assert share.unit == PERCENT


def test_the_released_value_is_not_rounded_to_the_other_side(session: dpx.Session) -> None:
    answer = session.query("SELECT g, AVG(pay) FROM t GROUP BY g", rho=0.001)
    assert isinstance(answer, dpx.Answer)
    estimate = answer["a"].estimate
    note = answer.why({"a": 1}, at_least=estimate + 1e-4).note
    released, constant = (text.replace(",", "") for text in note.removesuffix(".").split()[-3::2])
    assert float(released) < float(constant)
