"""What results say is true to what was asked: its unit, its constant, its quantile, its ends."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.model.contrast import Contrast, Verdict
from dpxplain.model.query import Quantile
from dpxplain.render.views import view_of
from dpxplain.results import formats
from dpxplain.results.sentences import finding, question_text
from dpxplain.results.titles import aggregate_words

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


def test_a_computed_value_is_no_share_because_another_value_is(session: dpx.Session) -> None:
    sql = "SELECT g, AVG(hi), SUM(pay) / COUNT(*) AS mean_pay FROM t GROUP BY g"
    answers = session.query(sql, rho=5)
    assert isinstance(answers, dpx.Answers)
    computed, share = (answers.why("a", "b", of=name) for name in ("mean_pay", "AVG(hi)"))
    assert "percentage points" not in computed.finding
    assert "percentage points" in share.finding
    assert "The true gap of values computed from clamped sums is" in computed.finding
    assert "of clamped averages is" in share.finding


def test_a_computed_value_is_of_what_its_own_formula_uses(session: dpx.Session) -> None:
    sql = "SELECT g, COUNT(*) AS n, SUM(pay) / COUNT(*) AS mean_pay, AVG(pay) FROM t GROUP BY g"
    answers = session.query(sql, rho=5)
    assert isinstance(answers, dpx.Answers)
    assert "gap of values computed from clamped sums is" in answers.why("a", "b", of="mean_pay").finding
    notes = "\n".join(view_of(answers["mean_pay"]).notes)
    assert "95% intervals of values computed from clamped sums, each by itself" in notes


def test_a_computed_value_may_stand_beside_a_median(session: dpx.Session) -> None:
    answers = session.query("SELECT g, MEDIAN(pay), SUM(pay) / COUNT(*) AS m FROM t GROUP BY g", rho=5)
    assert isinstance(answers, dpx.Answers)
    question = answers.why("a", "c", of="m")
    assert question.finding.startswith(
        "a is higher than c. The true gap of values computed from clamped sums is between"
    )
    with pytest.raises(dpx.ExplanationError, match="computed from released values"):
        question.explain(1, 0.1)


def test_the_constant_is_written_as_it_was_given(session: dpx.Session) -> None:
    answer = session.query("SELECT g, AVG(pay) FROM t GROUP BY g", rho=100)
    assert isinstance(answer, dpx.Answer)
    question = answer.why({"a": 1}, at_least=50.4647)
    assert question.finding.startswith("It is above 50.4647. ")
    assert question.text == "Why is AVG(pay) of a at least 50.4647?"
    against = answer.why({"b": 1}, at_least=50.4647)
    assert "it is below 50.4647." in against.finding
    assert against.note.endswith(", below 50.4647.")


def test_an_even_share_is_written_as_a_fraction(session: dpx.Session) -> None:
    answer = session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=10)
    assert isinstance(answer, dpx.Answer)
    share = answer.why_ratio("a")
    assert share.text == "Why is the share of a in the total of SUM(pay) at least 1/3?"
    assert share.finding.startswith("It is above 1/3. ")


def test_an_interval_is_not_rounded_to_the_constant_or_across_it() -> None:
    contrast = Contrast((0,), (1.0,), 0.30614)
    text = finding(["a"], contrast, (0.30621, 0.35612), Verdict.REAL, 0.95)
    assert text.startswith("It is above 0.30614. The true value is between 0.3062 and 0.3561 (95%")


def test_the_released_value_is_not_rounded_to_the_other_side(session: dpx.Session) -> None:
    answer = session.query("SELECT g, AVG(pay) FROM t GROUP BY g", rho=0.001)
    assert isinstance(answer, dpx.Answer)
    estimate = answer["a"].estimate
    note = answer.why({"a": 1}, at_least=estimate + 1e-4).note
    released, constant = (text.replace(",", "") for text in note.removesuffix(".").split()[-3::2])
    assert float(released) < float(constant)


def test_a_gap_with_a_constant_names_it_as_given() -> None:
    text = question_text("AVG(pay)", ["a", "b"], Contrast((0, 1), (1.0, -1.0), 31_135.78))
    assert text == "Why is AVG(pay) of a above that of b by at least 31,135.78?"


@pytest.mark.parametrize(
    ("level", "words"),
    [(0.5, "Median of pay"), (0.9, "90% quantile of pay"), (0.975, "97.5% quantile of pay")],
)
def test_a_quantile_is_titled_by_its_level(level: float, words: str) -> None:
    assert aggregate_words(Quantile("quantile", "pay", level), dpx.Schema.load(SCHEMA)) == words


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((-49.3, math.inf), "could be anything from -49.3 up (95%"),
        ((-math.inf, 49.3), "could be anything up to 49.3 (95%"),
        ((-math.inf, math.inf), "could be anything at all (95%"),
        ((-49.3, 3.0), "could be anything between -49 and 3 (95%"),
    ],
)
def test_a_half_open_interval_reads_as_a_sentence(ends: tuple[float, float], words: str) -> None:
    text = finding(["a", "b"], Contrast((0, 1), (1.0, -1.0)), ends, Verdict.UNCLEAR, 0.95)
    assert words in text


def test_a_half_open_interval_keeps_its_unit() -> None:
    assert formats.POINTS.between(0.2, math.inf) == "from 20 percentage points up"
