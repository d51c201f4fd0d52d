"""Charts and reports claim neither more certainty nor another unit than the results they show."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re

import pyarrow as pa
import pytest
import vl_convert

import dpxplain as dpx
from dpxplain.render import charts
from dpxplain.render.notebook import to_svg
from dpxplain.render.report import report
from dpxplain.words import numbers
from dpxplain.words.sentences import GENERAL_USE, caption, promise

RATIO = "SELECT g, SUM(pay) / COUNT(*) AS r FROM t GROUP BY g"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """A group without rows, whose ratios have no upper end, and a 0/1 column with a label."""
    groups, rows = ("a", "b", "empty"), 600
    data = pa.table(
        {
            "g": [groups[i % 2] for i in range(rows)],
            "k": [str(i % 3) for i in range(rows)],
            "pay": [float(i % 10) for i in range(rows)],
            "hit": [int(i % (2 if i % 2 else 3) == 0) for i in range(rows)],
        }
    )
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 500.0},
        "columns": {
            "g": {"values": list(groups)},
            "k": {"values": ["0", "1", "2"]},
            "pay": {"bounds": [0, 10]},
            "hit": {"bounds": [0, 1], "step": 1, "label": "share of hits"},
        },
    }
    with dpx.connect(data, schema, workspace=tmp_path_factory.mktemp("honest")) as session:
        yield session


@pytest.fixture(scope="module")
def ratios(session):
    answer = session.query(RATIO, rho=5)["r"]
    assert math.isinf(answer["empty"].interval[1])
    return answer


@pytest.fixture(scope="module")
def hits(session):
    return session.query("SELECT g, AVG(hit) FROM t GROUP BY g", rho=5)


def texts(svg: str) -> list[str]:
    return re.findall(r">([^<>]+)<", svg)


def domain(spec: dict) -> list[float]:
    return next(
        layer["encoding"]["x"]["scale"]["domain"]
        for layer in spec["layer"]
        if "scale" in layer["encoding"]["x"]
    )


def mark_of(spec: dict, label: str) -> dict:
    return next(mark for mark in spec["data"]["values"] if mark["label"] == label)


def test_an_unbounded_interval_is_drawn_to_the_end_of_the_axis_and_said_in_words(ratios):
    spec = charts.chart(ratios)
    mark = mark_of(spec, "empty")
    assert mark["low"] == ratios["empty"].interval[0]
    assert mark["high"] == domain(spec)[1] > mark["estimate"]
    assert re.fullmatch(r"[\d.]+ or more", mark["interval"])
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec


@pytest.mark.parametrize("draw", [to_svg, vl_convert.vegalite_to_svg], ids=["ours", "vega"])
def test_only_finite_ends_have_caps(ratios, draw):
    ends = [math.isfinite(end) for row in ratios for end in row.interval]
    marks = draw(charts.chart(ratios)).count(f'="{charts.ABOVE}"')
    assert not all(ends)
    assert marks == 2 * len(ratios.rows) + sum(ends)  # a line and a dot for each row, and the caps


def test_the_estimate_of_an_unbounded_interval_is_on_the_axis(ratios):
    far = dataclasses.replace(ratios["empty"], estimate=50.0, interval=(2.0, math.inf))
    spec = charts.answer_chart(ratios, rows=[ratios["a"], far])
    assert domain(spec)[0] < 0 < 50 < domain(spec)[1]


def test_an_unbounded_question_is_drawn_to_the_end_of_the_axis(ratios):
    question = ratios.why("empty", "a")
    assert math.isinf(question.interval[1])
    spec = charts.chart(question)
    mark = spec["data"]["values"][0]
    assert (mark["low"], mark["high"]) == (question.interval[0], domain(spec)[1])
    assert mark["interval"].endswith(" or more")


def test_what_is_unbounded_in_general_is_drawn_to_the_end_of_the_axis():
    thin = charts.general_mark((-math.inf, 0.25), (-1.0, 1.0), charts._interval_writer(None))
    assert thin == {"general_low": -1.0, "general_high": 0.25, "in_general": "below 0.25"}


def test_an_unbounded_share_is_said_in_percent(hits):
    row = dataclasses.replace(hits["a"], interval=(0.125, math.inf))
    assert mark_of(charts.answer_chart(hits, rows=[row]), "a")["interval"] == numbers.PERCENT.open_interval(
        0.125, math.inf
    )


def test_an_axis_of_percentage_points_has_its_ticks_in_them(hits):
    question = hits.why("a", "b")
    assert question.unit.sign == " pp"
    spec = charts.chart(question)
    ours = texts(to_svg(spec))
    assert ours == texts(vl_convert.vegalite_to_svg(spec))
    assert sum(text.endswith(" pp") for text in ours) >= 4  # the dot's label and several ticks


def told(page: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page)))


@pytest.fixture(scope="module")
def mixed(hits):
    """The question at 50%, its explanation at 99%, the answer at 95%."""
    return hits.why("a", "b", confidence=0.5).explain(k=2, rho=1.0, confidence=0.99)


def test_a_report_says_each_confidence_with_its_own_section(mixed):
    page = told(report(mixed))
    each = "a confidence of 99% in “What explains it”, 50% in “Is it more than noise” and 95% in “The answer”"
    assert page.count(each) == 2  # where dots and lines are explained, and at the end
    assert f"Mechanism {mixed.mechanism}, {each}." in page


def test_a_report_with_one_confidence_says_it_once_for_all(report_text):
    page = told(report_text)
    assert "lies somewhere on the line through it, with 95% confidence." in page
    assert "a confidence of" not in page


def test_the_last_lines_of_a_report_say_whose_confidence_they_name(mixed):
    assert caption(mixed.question.answer.schema, mixed.entry, 0.99) in told(report(mixed))


def test_a_report_says_whether_intervals_hold_together_or_each_by_itself(table, free_table):
    assert promise(0.95, 103, together=False) in told(report(table))
    assert promise(0.95, 103, together=True) in told(report(free_table))


def test_a_report_says_how_to_read_an_answer_in_general(session, hits):
    general = session.query(hits.sql, rho=5, population=True)
    question = general.why("a", "b", population=False)
    assert question.in_general is None
    page = told(report(question.explain(k=2, rho=1.0)))
    assert general.general_basis in page
    assert GENERAL_USE in page
    assert "except where it says “in general”" in page


def test_a_chart_names_what_its_own_values_were_capped_at(session):
    answers = session.query("SELECT g, AVG(pay), COUNT(*) * 2 AS twice FROM t GROUP BY g", rho=5)
    assert "AVG(pay), capped at 10" in json.dumps(charts.chart(answers["AVG(pay)"]))
    assert "capped" not in json.dumps(charts.chart(answers["twice"]))


def test_a_chart_writes_no_end_of_an_interval_on_the_other_side_of_its_line(session):
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=5)
    low, high = answer.why({"a": 1}, at_least=0).interval
    constant = low - (high - low) / 1000
    (mark,) = charts.chart(answer.why({"a": 1}, at_least=constant))["data"]["values"]
    assert float(mark["interval"].split(" ")[0]) > constant
