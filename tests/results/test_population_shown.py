"""`population=True` in Python, on the command line and at a server: two verdicts side by side, at no cost."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest

import dpxplain as dpx
from dpxplain.cli import run
from dpxplain.model.contrast import Verdict
from dpxplain.render.views import view_of
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.words.findings import comparison_finding, in_general
from dpxplain.words.sentences import GENERAL_USE

SHARES = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"


@pytest.fixture
def shares() -> Answer:
    answer = dpx.example("adult", insecure_seed=1).query(SHARES, rho=2.0, population=True)
    assert isinstance(answer, Answer)
    return answer


def test_a_gap_can_be_real_in_these_data_and_unclear_in_general(shares: Answer) -> None:
    question = shares.why("Married-spouse-absent", "Widowed")
    assert question.verdict is Verdict.REAL
    assert question.in_general is not None
    assert question.in_general.verdict is Verdict.UNCLEAR
    finding = question.finding
    assert finding.headline == comparison_finding(replace(question.comparison, general=None)).headline
    assert finding.support.endswith(in_general(question.comparison))
    assert {question.answer.general_basis, GENERAL_USE} <= set(finding.notes)
    here, general = view_of(question).grid.rows  # type: ignore[union-attr]
    assert (here[0], general[0]) == ("in these data", "in general")


def test_every_interval_of_the_population_contains_that_of_the_data(shares: Answer) -> None:
    for row in shares:
        assert row.in_general is not None
        assert row.in_general[0] <= row.interval[0] < row.interval[1] <= row.in_general[1]


def test_it_is_free_and_the_same_request(shares: Answer) -> None:
    session = dpx.example("adult", insecure_seed=1)
    session.query(SHARES, rho=0.1)
    again = session.query(SHARES, rho=0.1, population=True)
    assert again.free
    assert session.budget.spent == 0.1


def test_a_question_can_ask_for_it_and_an_answer_can_go_without() -> None:
    answer = dpx.example("adult", insecure_seed=1).query(SHARES, rho=0.1)
    assert isinstance(answer, Answer)
    assert answer.rows[0].in_general is None
    assert answer.why("Married-spouse-absent", "Widowed").in_general is None
    assert answer.why("Married-spouse-absent", "Widowed", population=True).in_general is not None


def test_the_spread_of_a_column_can_be_bought_along() -> None:
    session = dpx.example("adult", insecure_seed=1)
    rows = "(SELECT sex, CASE WHEN age > 40 THEN 3 WHEN age > 30 THEN 2 ELSE 1 END AS stage FROM adult)"
    alone = session.query(f"SELECT sex, AVG(stage) FROM {rows} GROUP BY sex", rho=0.5, population=True)
    both = session.query(
        f"SELECT sex, AVG(stage) AS mean, VARIANCE(stage) AS spread FROM {rows} GROUP BY sex",
        rho=0.5,
        population=True,
    )
    assert isinstance(alone, Answer)
    assert isinstance(both, Answers)
    assert "(high - low)²/4" in alone.general_basis
    assert "released variance" in both["mean"].general_basis
    assert both["spread"].general_basis == both["spread"].not_general != ""
    assert "spread_in_general_low" not in both.records()[0]
    assert "in_general_low" in alone.records()[0]
    assert "mean_in_general_low" in both.records()[0]


def test_a_report_has_both_verdicts(shares: Answer, tmp_path: Path) -> None:
    page = (
        shares.why("Married-spouse-absent", "Widowed")
        .explain(rho=0.5, attributes=["sex"], k=1)
        .save(tmp_path / "r.html")
    )
    text = page.read_text(encoding="utf-8")
    question = shares.why("Married-spouse-absent", "Widowed")
    for part in (question.finding.headline, in_general(question.comparison), "in these data", "in general"):
        assert html.escape(part) in text


def test_the_command_line_says_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--example", "adult", "--workspace", str(tmp_path / "w"), "--json"]
    run(["query", SHARES, "--rho", "0.1", "--yes", "--population", *place])
    row = json.loads(capsys.readouterr().out)["parts"][0]["rows"][0]
    assert row["in_general"]["low"] < row["low"]
    run(["why", "Married-spouse-absent", "Widowed", "--population", *place])
    question = json.loads(capsys.readouterr().out)
    assert set(question["in_general"]) == {"low", "high", "interval_text", "verdict", "finding"}
    assert GENERAL_USE in question["general_notes"]
