"""A gap between two shares is told in percentage points, in every face; other gaps as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.render.charts import chart, gap_chart
from dpxplain.render.story_tree import sentences
from dpxplain.render.views import view_of
from dpxplain.results.question import Question
from dpxplain.wire.payloads import preview_payload, question_payload

JOBS = ["a", "b", "c"]
ROWS = {
    "sex": ["F", "M"] * 3_000,
    "job": [JOBS[n // 2 % 3] for n in range(6_000)],
    "rich": [int(n % 2 == 1 and n // 2 % 3 != 2) for n in range(6_000)],
}
POINTS = re.compile(r"-?\d+\.\d+ to -?\d+\.\d+ pp")


def asked(folder: Path, population: bool = False, **column: object) -> Question:
    schema = {
        "table": {"name": "people"},
        "privacy": {"rho": 100},
        "columns": {
            "sex": {"values": ["F", "M"]},
            "job": {"values": JOBS},
            "rich": {"bounds": [0, 1], "step": 1, **column},
        },
    }
    session = dpx.connect(pa.table(ROWS), schema, workspace=folder)
    sql = "SELECT sex, AVG(rich) FROM people GROUP BY sex"
    question = session.query(sql, 1.0, population=population).why("M", "F")
    assert isinstance(question, Question)
    return question


@pytest.fixture
def question(tmp_path: Path) -> Question:
    return asked(tmp_path, label="high income")


def test_the_verdict_says_percentage_points(question: Question) -> None:
    assert re.search(r"is between 6\d\.\d+ and 6\d\.\d+ percentage points \(95%", question.finding)
    payload = question_payload(question)
    assert POINTS.fullmatch(payload["interval_text"])
    assert payload["estimate_text"].endswith(" pp")
    assert payload["measured"] == "gap"
    assert question_payload(question.answer.why({"M": 1, "F": -2}))["measured"] == "value"  # type: ignore[attr-defined]
    assert 0.6 < payload["estimate"] < 0.7, "numbers stay as they are"
    assert " pp" in str(question)


def test_tables_previews_and_stories_say_them_too(question: Question) -> None:
    priced = preview_payload(question.preview(k=2, rho=5.0, mechanism="marginals"))
    assert re.search(r"without each condition to about ±[\d.]+ pp", " ".join(priced["expected"]))
    table = question.explain(k=2, rho=5.0, mechanism="marginals")
    assert POINTS.search(str(table))
    assert POINTS.search(sentences(question.story(levels=1))[1])


def test_charts_have_their_axes_in_them(question: Question) -> None:
    table = question.explain(k=2, rho=5.0, mechanism="marginals")
    for spec in (chart(question), gap_chart(table), chart(question.story(levels=1))):
        assert "' pp'" in str(spec)


def test_a_column_that_nobody_named_a_share_stays_as_it_is(tmp_path: Path) -> None:
    question = asked(tmp_path)
    assert "percentage points" not in question.finding
    assert " pp" not in str(question)


def test_shares_in_general_are_in_percent_like_those_of_the_data_beside_them(tmp_path: Path) -> None:
    grid = view_of(asked(tmp_path, population=True, label="high income").answer).grid
    assert grid is not None
    for *_, here, general in grid.rows:
        assert re.fullmatch(r"-?[\d.]+% to [\d.]+%", here)
        assert re.fullmatch(r"-?[\d.]+% to [\d.]+%", general)
