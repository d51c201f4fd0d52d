"""Code about results asks the same again, and prices and constants are shown as they are."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.model.charge import Budget
from dpxplain.render.charts import chart
from dpxplain.render.snippets import CodePlace, explain_code
from dpxplain.render.views import view_of
from dpxplain.results.preview import QueriesPreview, QueryPreview
from dpxplain.words.prices import expected_margin

SCHEMA = {
    "table": {"name": "t"},
    "privacy": {"rho": 1_000},
    "columns": {
        "g": {"values": ["a", "b"]},
        "job": {"values": ["x", "y", "z"]},
        "pay": {"bounds": [0, 100]},
    },
}
ROWS: dict[str, list[Any]] = {
    "g": ["a", "b"] * 3_000,
    "job": ["x", "y", "z"] * 2_000,
    "pay": [51.0, 30.0] * 3_000,
}
SQL = "SELECT g, SUM(pay) FROM t GROUP BY g"


@pytest.fixture
def session(tmp_path: Path) -> dpx.Session:
    return dpx.connect(pa.table(ROWS), SCHEMA, workspace=tmp_path)


@pytest.fixture
def answer(session: dpx.Session) -> dpx.Answer:
    answer = session.query(SQL, rho=1)
    assert isinstance(answer, dpx.Answer)
    return answer


def code_of(table: dpx.Explanation) -> tuple[str, list[str]]:
    code = explain_code(
        CodePlace("session", ()), SQL, 1, table.request, table.question.answer.schema, several=False
    )
    return code["python"], shlex.split(code["cli"].splitlines()[1])


def run(python: str, session: dpx.Session) -> dpx.Explanation:
    """The table that the code makes; it connects to this session."""
    names: dict[str, Any] = {"dpx": dpx, "session": session, "print": str}
    exec(python.split("\n", 3)[3], names)
    table = names["table"]
    assert isinstance(table, dpx.Explanation)
    return table


def test_code_of_unusual_options_asks_the_same_again(session: dpx.Session, answer: dpx.Answer) -> None:
    question = answer.why("a", "b", confidence=0.9, method="image", population=True)
    table = question.explain(2, 0.5, mechanism="one-shot", sensitivity="paper", confidence=0.8)
    python, command = code_of(table)
    assert "why('a', 'b', confidence=0.9, method='image', population=True)" in python
    assert "sensitivity='paper'" in python
    for option, value in (("--method", "image"), ("--sensitivity", "paper"), ("--confidence", "0.8")):
        assert command[command.index(option) + 1] == value
        assert command.count(option) == 1
    assert "--population" in command
    assert "True" not in command

    again = run(python, session)
    assert again.id == table.id
    assert again.free
    assert again.request == table.request


def test_code_of_recipes_asks_the_same_again(session: dpx.Session, answer: dpx.Answer) -> None:
    table = answer.why("a", "b").explain(2, 0.5, predicates=[dpx.differs("job"), "job = 'x'"])
    python, command = code_of(table)
    assert "predicates=[dpx.differs('job'), \"job = 'x'\"]" in python
    assert command[command.index("--predicates") + 1] == "differs:job"
    assert run(python, session).free


def test_code_of_usual_options_says_nothing_of_them(answer: dpx.Answer) -> None:
    python, command = code_of(answer.why("a", "b").explain(2, 0.5))
    for option in ("confidence", "method", "population", "sensitivity"):
        assert f"{option}=" not in python
        assert f"--{option}" not in command


def test_the_question_s_confidence_is_the_table_s_too(answer: dpx.Answer) -> None:
    python, command = code_of(answer.why("a", "b", confidence=0.9).explain(2, 0.5))
    assert python.count("confidence=0.9") == 1
    assert command[command.index("--confidence") + 1] == "0.9"


def test_a_chart_a_title_and_a_headline_name_the_constant_as_given(answer: dpx.Answer) -> None:
    constant = round(answer["a"].estimate) - 5_000.25
    question = answer.why({"a": 1}, at_least=constant)
    written = f"{constant:,.15g}"
    assert f"bold line at {written}" in str(chart(question))
    assert written in question.title
    assert question.finding.headline.endswith(f" {written}.")


def test_a_preview_of_a_quantile_has_no_hole(session: dpx.Session) -> None:
    preview = session.preview("SELECT g, MEDIAN(pay) FROM t GROUP BY g", 1)
    assert isinstance(preview, QueryPreview)
    assert (preview.margin, preview.margin_by_group_size) == (None, ())
    assert "±" not in expected_margin(preview)
    several = session.preview("SELECT g, MEDIAN(pay), COUNT(*) FROM t GROUP BY g", 1)
    assert isinstance(several, QueriesPreview)
    (name, median), (_, count) = several.parts
    assert expected_margin(median, name).startswith("MEDIAN(pay): ")
    assert "±" not in expected_margin(median, name)
    assert "±" in expected_margin(count)


@pytest.mark.parametrize(
    ("spent", "share"), [(9.96, "more than 99%"), (9.999, "more than 99%"), (9.94, "99%"), (10.0, "100%")]
)
def test_a_budget_is_not_spent_before_it_is(spent: float, share: str) -> None:
    (lead,) = view_of(Budget(spent=spent, limit=10.0, delta=1e-9)).lead
    assert lead.endswith(f"is spent ({share}).")
