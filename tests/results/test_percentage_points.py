"""A gap between two shares is told in percentage points, in every face; other gaps as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.render.charts import chart, share_chart
from dpxplain.render.views import view_of
from dpxplain.render.views_results import story_grid
from dpxplain.results.question import Question
from dpxplain.wire.payloads import preview_payload, question_payload
from dpxplain.words.numbers import PERCENT, PLAIN

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
    assert re.search(r"6\d\.\d percentage points", question.finding.headline)
    assert re.search(r"6\d\.\d+–6\d\.\d+ percentage points", question.finding.support)
    payload = question_payload(question)
    assert POINTS.fullmatch(payload["interval_text"])
    assert payload["estimate_text"].endswith(" pp")
    assert payload["measured"] == "gap"
    assert question_payload(question.answer.why({"M": 1, "F": -2}))["measured"] == "value"  # type: ignore[attr-defined]
    assert 0.6 < payload["estimate"] < 0.7, "numbers stay as they are"
    assert " pp" in str(question)


def test_tables_previews_and_stories_say_them_too(question: Question) -> None:
    priced = preview_payload(question.preview(k=2, rho=5.0, mechanism="marginals"))
    assert re.search(r"±[\d.]+ percentage points", " ".join(priced["expected"]))
    table = question.explain(k=2, rho=5.0, mechanism="marginals")
    assert POINTS.search(str(table))
    assert all(POINTS.fullmatch(row[1]) for row in story_grid(question.story(levels=1)).rows)


def test_charts_have_their_axes_in_them(question: Question) -> None:
    table = question.explain(k=2, rho=5.0, mechanism="marginals")
    for spec in (chart(question), chart(question.story(levels=1))):
        assert "' pp'" in str(spec)
    assert "%" in str(share_chart(table))
    assert "' pp'" not in str(share_chart(table))


def test_zeros_and_ones_need_no_label_and_other_columns_stay_as_they_are(tmp_path: Path) -> None:
    assert "percentage points" in str(asked(tmp_path / "zeros and ones").finding)
    question = asked(tmp_path / "numbers", bounds=[0, 2], step=0.5)
    assert "percentage points" not in str(question.finding)
    assert " pp" not in str(question)


def test_one_group_s_share_is_compared_in_percent(question: Question) -> None:
    answer = question.answer
    assert isinstance(answer, dpx.Answer)
    alone = answer.why({"M": 1}, at_least=0.5)
    assert "50%" in alone.finding.headline
    assert alone.unit == PERCENT
    assert answer.why({"M": 1, "F": -2}).unit == PLAIN
    assert "10 percentage points" in answer.why("M", "F", at_least=0.1).finding.headline


def test_shares_in_general_are_in_percent_like_those_of_the_data_beside_them(tmp_path: Path) -> None:
    grid = view_of(asked(tmp_path, population=True, label="high income").answer).grid
    assert grid is not None
    for *_, here, general in grid.rows:
        assert re.fullmatch(r"-?[\d.]+% to [\d.]+%", here)
        assert re.fullmatch(r"-?[\d.]+% to [\d.]+%", general)
