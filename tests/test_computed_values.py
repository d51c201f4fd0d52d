"""Arithmetic between aggregates and HAVING: what is shown, asked, stored and refused, on every way in."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dpxplain as dpx
from dpxplain.cli.command_line import app
from dpxplain.errors import ExplanationError, QueryRefused, QuestionError
from dpxplain.model.contrast import Verdict
from dpxplain.model.display import as_json
from dpxplain.model.expression import Compared, Constant, Every, Measured, Operation, Some, evaluate
from dpxplain.render.views import view_of
from dpxplain.results.answers import Answers, FormulaAnswer
from dpxplain.results.combination import judge_group
from dpxplain.session import Session
from dpxplain.wire.payloads import answer_payload, question_payload
from dpxplain.words.sentences import unselected_note

SCHEMA: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 1000.0},
    "columns": {
        "g": {"values": ["A", "B", "C"]},
        "kind": {"values": ["x", "y"]},
        "pay": {"bounds": [0, 10], "step": 1},
    },
}
RATE = "SELECT g, SUM(pay) / COUNT(*) AS rate FROM t GROUP BY g"


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    groups = np.repeat(["A", "B"], [600, 100])  # C is declared and empty
    pay = np.where(groups == "A", 7, 2) + rng.integers(-2, 3, 700)
    return pd.DataFrame({"g": groups, "kind": rng.choice(["x", "y"], 700), "pay": pay})


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Session]:
    with dpx.connect(frame(), SCHEMA, workspace=tmp_path, curator=True, insecure_seed=8) as session:
        yield session


def asked(session: Session, sql: str, rho: float = 50.0) -> Answers:
    answers = session.query(sql, rho=rho)
    assert isinstance(answers, Answers)
    return answers


def test_a_computed_value_has_an_interval_a_truth_and_a_verdict(owner: Session) -> None:
    answers = asked(owner, RATE)
    rate = answers["rate"]
    assert isinstance(rate, FormulaAnswer)
    by_hand = answers["SUM(pay)"]["A"] / answers["COUNT(*)"]["A"]
    assert rate["A"].estimate == by_hand.estimate
    assert rate["A"].interval == by_hand.interval
    assert (rate["A"] - by_hand).interval == (0.0, 0.0)
    true = {(row["g"], row["aggregate"]): row for row in answers.truth().records()}
    assert true["A", "rate"]["covered"]
    assert true["C", "rate"]["true"] is None
    question = answers.why("A", "B")
    assert question.estimate == answers.why("A", "B", of="rate").estimate
    assert question.verdict is Verdict.REAL
    assert "SUM(pay) / COUNT(*)" in question.text


def test_a_ratio_to_an_empty_group_is_unbounded_and_still_a_number(owner: Session) -> None:
    row = asked(owner, RATE)["rate"]["C"]
    assert math.isfinite(row.estimate)
    assert math.isinf(row.interval[1])
    payload = answer_payload(asked(owner, RATE), owner.budget)
    assert json.dumps(payload, allow_nan=False, default=as_json)


def test_what_has_no_influence_says_so_and_names_what_has(owner: Session) -> None:
    question = asked(owner, RATE).why("A", "B", of="rate")
    for explain in (
        lambda: question.explain(k=1, rho=1.0),
        lambda: question.preview(k=1, rho=1.0),
        lambda: question.answer.prepare(rho=1.0),
    ):
        with pytest.raises(ExplanationError, match=r"Only COUNT, SUM and AVG .* SUM\(pay\) or COUNT\(\*\)"):
            explain()
    payload = question_payload(question)
    assert payload["no_influence"]
    assert (payload["attributes"], payload["prepared"]) == ([], False)
    assert owner.budget.spent == 50.0
    assert len(asked(owner, RATE)["COUNT(*)"].why("A", "B").explain(k=1, rho=1.0)) == 1


def test_any_arithmetic_over_what_was_measured_can_be_named(owner: Session) -> None:
    answers = asked(owner, RATE)
    doubled = answers["2 * sum(pay)"]
    assert doubled["A"].estimate == pytest.approx(2 * answers["SUM(pay)"]["A"].estimate)
    for name in ("AVG(pay) / 2", "nonsense", "g", "COUNT(*) FROM t WHERE g = 'A' --"):
        with pytest.raises(QuestionError, match=re.escape(repr(name))):
            answers[name]


def test_having_says_what_it_left_out_and_where_noise_may_have_decided(owner: Session) -> None:
    answer = owner.query("SELECT g, COUNT(*) FROM t GROUP BY g HAVING COUNT(*) > 100", rho=50.0)
    assert answer.having is not None
    states = {group.label: (group.is_kept, group.is_certain) for group in answer.having.groups}
    assert states["A"] == (True, True)
    assert states["B"][1] is False  # exactly 100 rows
    assert states["C"] == (False, True)
    assert [row.label for row in answer] == [group.label for group in answer.having.kept]
    first, second = answer.notes
    assert [first, second] == answer.having.sentences
    assert "C" in first
    assert "B" in second
    assert answer["C"].estimate < 50  # still there to be looked at
    assert view_of(answer).lines == (first, second)


ABOVE_5, ABOVE_9, ABOVE_50 = (Compared(">", Measured(0), Constant(limit)) for limit in (5.0, 9.5, 50.0))


@pytest.mark.parametrize(
    ("condition", "certain"),
    [
        (ABOVE_5, True),
        (ABOVE_9, False),
        (Compared("=", Measured(0), Constant(10.0)), False),
        (Compared("<>", Measured(0), Constant(50.0)), True),
        (Compared("<=", Measured(0), Constant(11.0)), True),
        (Every((ABOVE_9, ABOVE_50)), True),
        (Every((ABOVE_9, ABOVE_5)), False),
        (Some((ABOVE_9, ABOVE_5)), True),
        (Some((ABOVE_9, ABOVE_50)), False),
    ],
)
def test_a_condition_is_certain_where_the_whole_interval_decides_it_alike(
    condition: Any, certain: bool
) -> None:
    """The value is 10, between 9 and 11."""
    is_kept, is_certain = judge_group(condition, lambda _formula: (10.0, (9.0, 11.0)))
    assert is_certain is certain
    assert judge_group(condition, lambda _formula: (10.0, (10.0, 10.0))) == (is_kept, True)


def test_an_aggregate_that_only_having_uses_is_measured_and_announced(owner: Session) -> None:
    sql = "SELECT g, AVG(pay) FROM t GROUP BY g HAVING COUNT(*) > 300"
    preview = owner.preview(sql, rho=1.0)
    assert unselected_note("COUNT(*)") in " ".join(str(preview).split())
    answers = asked(owner, sql, rho=1.0)
    assert answers.names == ("AVG(pay)",)
    assert [row.label for row in answers] == ["A"]
    assert answers.notes[-1] == unselected_note("COUNT(*)")
    both = owner.query("SELECT g, COUNT(*), AVG(pay) FROM t GROUP BY g", rho=1.0)
    assert both.free


def test_a_stored_answer_is_reopened_with_its_formulas_and_conditions(owner: Session) -> None:
    sql = "SELECT g, 100 * AVG(pay) AS percent FROM t GROUP BY g HAVING percent > 600"
    first = asked(owner, sql)
    again = owner.answer(first.id)
    assert isinstance(again, Answers)
    assert again.records() == first.records()
    assert [row.label for row in again] == ["A"]
    assert again.names == ("percent",)


def test_exports_and_charts_have_the_computed_values(owner: Session) -> None:
    answers = asked(owner, "SELECT g, COUNT(*) AS n, SUM(pay) / COUNT(*) AS rate FROM t GROUP BY g")
    record = answers.records()[0]
    assert list(record) == ["g", "n", "n_low", "n_high", "rate", "rate_low", "rate_high"]
    assert list(answers.to_pandas().columns) == list(record)
    assert "rate" in answers._repr_html_()


def test_rounding_moves_the_interval_outwards(owner: Session) -> None:
    plain = owner.query("SELECT g, AVG(pay) FROM t GROUP BY g", rho=50.0)
    rounded = owner.query("SELECT g, ROUND(AVG(pay), 1) AS mean FROM t GROUP BY g", rho=50.0)
    assert rounded.free
    for exact, row in zip(plain, rounded, strict=True):
        assert row.estimate == round(exact.estimate, 1)
        assert row.interval[0] <= exact.interval[0] <= exact.interval[1] <= row.interval[1]
        assert row.interval[1] - row.interval[0] <= exact.interval[1] - exact.interval[0] + 0.2 + 1e-9
    assert rounded.why("A", "B").explain(k=1, rho=1.0).rows


def test_too_many_groups_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    many = SCHEMA | {
        "columns": {f"c{i}": {"values": list(range(30))} for i in range(3)} | {"pay": {"bounds": [0, 10]}}
    }
    rows = pd.DataFrame({"c0": [1], "c1": [1], "c2": [1], "pay": [1.0]})
    with dpx.connect(rows, many, workspace=tmp_path, insecure_seed=1) as session:
        with pytest.raises(QueryRefused, match="at most 10,000 groups"):
            session.query("SELECT c0, c1, c2, COUNT(*) FROM t GROUP BY 1, 2, 3 HAVING COUNT(*) > 1", rho=1.0)
        assert session.budget.spent == 0
        assert len(session.query("SELECT c0, c1, c2, COUNT(*) FROM t GROUP BY 1, 2, 3", rho=1.0)) == 27_000


def test_a_formula_without_a_value_is_none() -> None:
    ratio = Operation("/", (Measured(0), Operation("-", (Measured(1), Constant(1.0)))))
    assert evaluate(ratio, [1.0, 1.0]) is None
    assert evaluate(Operation("log", (Constant(0.0),)), []) is None
    assert evaluate(Operation("exp", (Constant(1e6),)), []) is None


def test_the_command_line_answers_and_judges_a_computed_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner, place = CliRunner(), ["--example", "adult", "--json"]
    sql = "SELECT sex, SUM(high_income) / COUNT(*) AS rate FROM adult GROUP BY sex HAVING COUNT(*) > 100"
    result = runner.invoke(app, ["query", *place, "--yes", "--rho", "0.5", sql])
    assert result.exit_code == 0, result.output
    payload = json.loads(result.stdout)
    assert payload["values"] == ["rate"]
    assert payload["parts"][0]["expression"] == "SUM(high_income) / COUNT(*)"
    assert payload["parts"][0]["aggregate"] == "formula"
    assert payload["notes"][0].startswith("HAVING COUNT(*) > 100")
    alone = runner.invoke(app, ["why", *place, "Male", "Female"])
    assert json.loads(alone.stdout)["of"] == "rate"
    for name in ("rate", "SUM(high_income) / COUNT(*)", "100 * SUM(high_income)"):
        asked = runner.invoke(app, ["why", *place, "Male", "Female", "--of", name])
        assert asked.exit_code == 0, asked.output
        assert json.loads(asked.stdout)["verdict"] == "real"
    refused = runner.invoke(
        app, ["explain", *place, "Male", "Female", "--of", "rate", "--rho", "0.1", "--yes"]
    )
    assert isinstance(refused.exception, ExplanationError)


@pytest.mark.parametrize("value", ["EXP(AVG(x))", "SUM(x) * SUM(x) * SUM(x) * SUM(x)"])
def test_a_charged_answer_at_the_ends_of_floats_can_be_shown(tmp_path: Path, value: str) -> None:
    bounds = [-800, 0] if value.startswith("EXP") else [-1e99, 1e99]
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 100.0},
        "columns": {"g": {"values": ["a", "b"]}, "x": {"bounds": bounds, "step": bounds[0] / -800}},
    }
    rows = pd.DataFrame({"g": ["a", "b"] * 500, "x": [-745.0] * 1000})
    with dpx.connect(rows, schema=schema, workspace=tmp_path) as session:
        for number in range(12):  # noise decides how near to 0 it comes
            answers = session.query(f"SELECT g, {value} FROM t GROUP BY g", 1.0 + number / 100)
            assert "a" in str(answers)
            assert "<svg" in answers._repr_html_()
