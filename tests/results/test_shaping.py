"""Every result says which declarations shaped its numbers, and only those that did."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas
import pytest

import dpxplain as dpx
from dpxplain.model.schema import Schema
from dpxplain.render.chart_rows import PHONE, WIDE
from dpxplain.render.charts import chart
from dpxplain.results.sentences import shaped_by
from dpxplain.session import Session
from dpxplain.sql.parse import parse
from dpxplain.wire.answer_payloads import answer_payload
from dpxplain.wire.payloads import (
    explanation_payload,
    prepared_payload,
    question_payload,
)
from flights import SCHEMA, flights, open_flights

KEPT = "At most 50 rows of each tailnum are counted; its other rows, and rows without one, are left out."
CLAMPED = "Values of dep_delay below -90 or above 300 count as -90 or 300."
MISSING = "Rows whose dep_delay is NULL or NaN are left out."
ORIGIN = "Rows with an undeclared origin are left out, NULL included."
AVERAGE = "SELECT origin, AVG(dep_delay) FROM flights GROUP BY origin"


def sentences(sql: str, **privacy: object) -> tuple[str, ...]:
    schema = Schema.load(SCHEMA | {"privacy": {"rho": 1.0, **privacy}})
    return shaped_by(parse(sql, schema).queries, schema)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT COUNT(*) FROM flights", ()),
        ("SELECT origin, COUNT(*) FROM flights GROUP BY origin", (ORIGIN,)),
        (AVERAGE, (CLAMPED, MISSING, ORIGIN)),
        (
            "SELECT COUNT(dep_delay) FROM flights",
            ("Rows whose dep_delay is NULL or NaN are not counted.",),
        ),
        (
            "SELECT SUM(distance) FROM flights",
            (
                "Values of distance below 0 or above 5,000 count as 0 or 5,000.",
                "Values of distance are rounded to multiples of 0.5.",
                "Rows whose distance is NULL or NaN are left out.",
            ),
        ),
        (
            "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier",
            ("Rows with an undeclared carrier are left out.",),
        ),
        (
            "SELECT hour, COUNT(*) FROM flights GROUP BY hour",
            ("Rows whose hour is outside (0, 24] are left out, NULL included.",),
        ),
        (
            "SELECT COUNT(*) FROM flights WHERE dep_delay > 15 AND carrier <> 'UA'",
            (
                "In WHERE, an undeclared carrier meets neither a condition nor its opposite.",
                "WHERE compares dep_delay after it is clamped to -90 to 300.",
            ),
        ),
        (
            "SELECT COUNT(*) FROM flights WHERE origin IS NULL",
            ("In WHERE, an undeclared origin reads as NULL.",),
        ),
        (
            "SELECT COUNT(*), AVG(dep_delay) FROM flights",
            (CLAMPED, MISSING),
        ),
    ],
)
def test_exactly_the_declarations_that_matter_are_named(sql: str, expected: tuple[str, ...]) -> None:
    assert sentences(sql) == expected
    assert sentences(sql, unit="tailnum", max_rows=50) == (KEPT, *expected)


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
    assert answer.shaped_by == question.shaped_by == several.shaped_by == (KEPT, CLAMPED, MISSING, ORIGIN)
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
        assert "Of what: At most 50 rows" in str(result)
        assert CLAMPED in str(result)
        assert "What these numbers are of." in result._repr_html_()
        assert CLAMPED in result._repr_html_()
        assert payload["shaped_by"] == list(result.shaped_by)
        json.dumps(payload)


def test_a_truncated_count_is_called_what_it_is(session: Session) -> None:
    answer = session.query("SELECT origin, COUNT(*) FROM flights GROUP BY origin", rho=5.0)
    assert str(answer).startswith("Answer 1: rows counted, at most 50 per tailnum\n")
    assert "intervals of counted rows, each by itself" in str(answer)
    assert "The true gap of counted rows " in answer.why("EWR", "LGA").finding
    part = answer_payload(answer, session.budget)["parts"][0]
    assert (part["subject"], part["rows_counted"]) == ("counted rows", "rows counted, at most 50 per tailnum")


def test_a_verdict_on_averages_speaks_of_clamped_ones(session: Session) -> None:
    answer = session.query(AVERAGE, rho=5.0)
    assert isinstance(answer, dpx.Answer)
    assert "The true gap of clamped averages " in answer.why("EWR", "LGA").finding
    assert "The true value of clamped averages " in answer.why({"EWR": 1}, at_least=-50).finding
    assert "intervals of clamped averages, each by itself" in str(answer)


def test_a_count_of_all_rows_needs_no_words(tmp_path: Path) -> None:
    answer = open_flights(tmp_path, unit="row").query("SELECT COUNT(*) FROM flights", rho=1.0)
    assert answer.shaped_by == ()
    assert "Of what" not in str(answer)
    assert str(answer).startswith("Answer 1\n")


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
    assert "What these numbers are of" in report
    assert all(sentence in report for sentence in answer.shaped_by)


def test_formulas_and_true_values_carry_them(tmp_path: Path) -> None:
    owner = open_flights(tmp_path, curator=True)
    answer = owner.query(AVERAGE, rho=5.0)
    assert isinstance(answer, dpx.Answer)
    gap = answer["EWR"] - answer["JFK"]
    assert gap.shaped_by == answer.shaped_by == answer.truth().shaped_by
    assert CLAMPED in str(gap)
    assert CLAMPED in str(answer.truth())


def test_charts_carry_them_in_a_few_words(session: Session) -> None:
    answer = session.query(AVERAGE, rho=5.0)
    assert isinstance(answer, dpx.Answer)
    question = answer.why("EWR", "JFK")
    for result in (answer, question, question.explain(k=2, rho=1.0)):
        for width in (PHONE, WIDE):
            text = json.dumps(chart(result, width=width))
            assert "at most 50 rows per tailnum" in text
            assert "dep_delay clamped to -90 to 300" in text
            assert "without undeclared rows" in text
