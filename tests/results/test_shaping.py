"""Every result says which declarations shaped its numbers, and only those that did."""

from __future__ import annotations

import html
import io
import json
import re
from pathlib import Path

import pandas
import pytest

import dpxplain as dpx
from dpxplain.model.display import as_json
from dpxplain.render.chart_rows import PHONE, WIDE
from dpxplain.render.charts import chart
from dpxplain.render.views import view_of
from dpxplain.session import Session
from dpxplain.wire.payloads import (
    answer_payload,
    explanation_payload,
    prepared_payload,
    question_payload,
)
from dpxplain.words.declarations import footnotes, rows_counted, shaped_by
from flights import flights, open_flights

AVERAGE = "SELECT origin, AVG(dep_delay) FROM flights GROUP BY origin"


def test_the_sentences_are_true_of_the_engine(tmp_path: Path) -> None:
    """What the sentences say, computed in plain Python, is what the curator's true values are."""
    owner = open_flights(tmp_path, unit="row", curator=True)
    rows = [
        row
        for row in flights().to_pylist()
        if row["origin"] == "EWR" and row["dep_delay"] == row["dep_delay"]
    ]
    clamped = [max(-90.0, min(300.0, row["dep_delay"])) for row in rows]
    answer = owner.query(AVERAGE, rho=1.0)
    truth = {row["origin"]: row["true"] for row in answer.truth().records()}
    assert truth["EWR"] == pytest.approx(sum(clamped) / len(clamped), abs=1e-6)
    plain = sum(row["dep_delay"] for row in rows) / len(rows)
    assert plain - truth["EWR"] > 1  # the real mean is another number, and the sentence says why


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return open_flights(tmp_path)


def test_every_result_carries_them_in_print_notebook_and_json(session: Session) -> None:
    answer = session.query(AVERAGE, rho=5.0)
    assert isinstance(answer, dpx.Answer)
    question = answer.why("EWR", "JFK")
    prepared = answer.prepare(rho=1.0)
    table = question.explain(k=2)
    several = session.query("SELECT origin, COUNT(*), AVG(dep_delay) FROM flights GROUP BY origin", rho=1.0)
    assert answer.shaped_by == question.shaped_by == several.shaped_by
    assert answer.shaped_by == shaped_by(answer.queries, answer.schema)
    assert len(answer.shaped_by) == 4
    assert table.shaped_by[:-1] == prepared.shaped_by[:-1] == answer.shaped_by
    assert table.shaped_by[-1] == prepared.shaped_by[-1]
    payloads = [
        answer_payload(answer, session.budget),
        answer_payload(several, session.budget),
        question_payload(question),
        explanation_payload(table, session.budget),
        prepared_payload(prepared, answer, session.budget),
    ]
    for result, payload in zip((answer, several, question, table, prepared), payloads, strict=True):
        assert set(result.shaped_by) <= set(view_of(result).notes)
        for sentence in result.shaped_by:
            assert sentence not in " ".join(str(result).split()), "only on request"
            assert html.escape(sentence) in result._repr_html_()
        assert payload["shaped_by"] == list(result.shaped_by)
        json.dumps(payload, default=as_json)


def test_a_truncated_count_is_called_what_it_is(session: Session) -> None:
    answer = session.query("SELECT origin, COUNT(*) FROM flights GROUP BY origin", rho=5.0)
    part = answer_payload(answer, session.budget)["parts"][0]
    assert part["rows_counted"] == rows_counted(answer.statement.query, session.schema)
    assert all(word in part["rows_counted"] for word in ("50", "tailnum"))


def test_a_capped_average_is_named_so_in_every_headline(session: Session) -> None:
    answer = session.query(AVERAGE, rho=5.0)
    assert isinstance(answer, dpx.Answer)
    for asked in (answer.why("EWR", "LGA"), answer.why({"EWR": 1}, at_least=-50), answer):
        assert re.search(r"capped at -90 \w+ 300", asked.finding.headline)


def test_a_count_of_all_rows_needs_no_words(tmp_path: Path) -> None:
    answer = open_flights(tmp_path, unit="row").query("SELECT COUNT(*) FROM flights", rho=1.0)
    assert answer.shaped_by == ()
    assert len(answer.finding.notes) == 1  # what its interval promises


def test_exports_carry_them(session: Session, tmp_path: Path) -> None:
    answer = session.query(AVERAGE, rho=5.0)
    assert isinstance(answer, dpx.Answer)
    table = answer.why("EWR", "JFK").explain(k=2, rho=1.0)
    for result in (answer, table):
        expected = list(result.shaped_by)
        assert result.to_pandas().attrs["shaped_by"] == expected
        assert json.loads(result.to_arrow().schema.metadata[b"shaped_by"]) == expected
        assert json.loads(result.to_json())["shaped_by"] == expected
        assert len(json.loads(result.to_json())["rows"]) == len(result)
        read = pandas.read_csv(io.StringIO(result.to_csv()))
        assert list(read.columns) == [*result.records()[0], "shaped_by"]
        assert set(read["shaped_by"]) == {" ".join(expected)}
    report = table.save(tmp_path / "report.html").read_text("utf-8")
    assert all(html.escape(sentence) in report for sentence in answer.shaped_by)


def test_formulas_and_true_values_carry_them(tmp_path: Path) -> None:
    owner = open_flights(tmp_path, curator=True)
    answer = owner.query(AVERAGE, rho=5.0)
    assert isinstance(answer, dpx.Answer)
    gap = answer["EWR"] - answer["JFK"]
    assert gap.shaped_by == answer.shaped_by == answer.truth().shaped_by
    assert len(gap.shaped_by) == 4
    for result in (gap, answer.truth()):
        assert set(gap.shaped_by) <= set(view_of(result).notes)


def axis_title(spec: object) -> list[str]:
    """The lines of the first axis title in a chart."""
    match spec:
        case {"scale": _, "title": list(lines)}:
            return lines
        case dict():
            return next(filter(None, map(axis_title, spec.values())), [])
        case list():
            return next(filter(None, map(axis_title, spec)), [])
    return []


def test_charts_carry_them_in_a_few_words(session: Session) -> None:
    answer = session.query(AVERAGE, rho=5.0)
    assert isinstance(answer, dpx.Answer)
    question = answer.why("EWR", "JFK")
    for result in (answer, question, question.explain(k=2, rho=1.0)):
        for width in (PHONE, WIDE):
            title = " ".join(axis_title(chart(result, width=width)))
            for note in footnotes(answer.statement.query, session.schema):
                assert title.count(note.split(", ")[-1]) == 1, "once: also where the value's name has it"
    assert len(footnotes(answer.statement.query, session.schema)) == 2
