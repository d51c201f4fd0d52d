"""Notebook fragments and reports: escaped, offline, complete, and free."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest

import dpxplain as dpx
from dpxplain.errors import BadRequest
from dpxplain.privacy.accounting import epsilon
from dpxplain.render.notebook import as_html
from dpxplain.render.report import report
from dpxplain.words import numbers
from dpxplain.words.prices import cost
from dpxplain.words.sentences import CURATOR_ONLY, row_sentence

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Checks that tags nest, and keeps what could run or fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def assert_inert(text: str) -> Page:
    """Parses, runs no script and fetches nothing."""
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "link", "iframe", "object", "embed", "i", "u", "b", "image", "use"}
    for _, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on") or name in ("src", "href", "xlink:href")]
    assert not re.search(r"url\(|@import", text)
    assert set(re.findall(r"https?://[^\"' <]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    return page


def test_fragments_have_a_table_and_a_described_chart(answer, question, table):
    for result in (answer, question, table):
        page = assert_inert(result._repr_html_())
        assert len(page.all("table")) == 1
        (svg,) = page.all("svg")
        assert svg["role"] == "img"
        assert svg["aria-label"]
    assert "unclear" not in Page(question._repr_html_()).text


def test_previews_truths_budgets_and_histories_are_tables(adult, answer, question, table):
    for result in (
        question.preview(rho=0.1),
        adult.preview(answer.sql, rho=0.2),
        adult.budget,
        adult.history,
    ):
        assert len(assert_inert(as_html(result)).all("table")) == 1
    for truth in (answer.truth(), question.truth(), table.truth()):
        assert CURATOR_ONLY in assert_inert(truth._repr_html_()).text


def test_hostile_values_are_escaped_everywhere(hostile, hostile_table):
    for text in (
        hostile._repr_html_(),
        hostile_table.question._repr_html_(),
        hostile_table._repr_html_(),
        report(hostile_table),
    ):
        page = assert_inert(text)
        assert "<script" not in text.lower()
        assert "<script>alert(1)</script>" in page.text


def test_the_report_tells_the_whole_story(table, question, answer, report_text):
    page = assert_inert(report_text)
    text = page.text
    for part in (
        answer.sql,
        question.title,
        str(question.finding),
        str(table.finding),
        *table.finding.notes,
        "How to read this",
        "differential privacy",
        "counts (Gaussian)",
        "top-k selection (Gumbel)",
        "ranks (noisy binary search)",
        f"ε = {numbers.number(epsilon(2.1, 1e-6, 1.6))} at δ 1e-6",
    ):
        assert part in text
    for row in table:
        assert html.escape(row_sentence(table.explained, table.effect_of(row))) in report_text
        assert table.label_of(row) in text
    assert "NOT PRIVATE" not in text


def test_the_report_is_accessible(report_text):
    page = Page(report_text)
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert len(page.all("table")) == 4
    assert len(page.all("caption")) == 4
    assert all(th.get("scope") in ("col", "row") for th in page.all("th"))
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in page.all("svg"))
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    policy = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0].startswith("default-src 'none'")


def test_the_report_shows_absolute_influence_and_unclear_marks(blurred):
    text = Page(report(blurred)).text
    assert "relative influence" not in text
    assert "○ unclear" in text


def test_a_report_of_a_seeded_experiment_is_watermarked():
    with dpx.example("adult", insecure_seed=1) as session:
        answer = session.query("SELECT sex, AVG(high_income) FROM adult GROUP BY sex", rho=0.1)
        text = report(answer.why("Female", "Male").explain(k=2, rho=0.1))
    assert text.count("NOT PRIVATE") >= 4
    assert 'class="watermark"' in text
    assert "◆ the other way" in text


def test_a_report_of_many_groups_draws_those_asked_about_and_lists_all(tmp_path):
    import pyarrow as pa

    names = [f"g{i}" for i in range(500)]
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 5},
        "columns": {"g": {"values": names}, "h": {"values": ["x", "y"]}},
    }
    data = pa.table({"g": names * 3, "h": ["x", "y", "x"] * 500})
    with dpx.connect(data, schema, workspace=tmp_path) as session:
        answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g LIMIT 400", rho=1.0)
        page = Page(report(answer.why("g499", "g350").explain(k=1, rho=1.0)))
    for shown in ("g0", "g29", "g350", "g499"):
        assert shown in page.text.split()
    assert "… and 369 more groups" in page.text, "the chart says what it leaves out"
    assert "The other 369 groups" in page.text
    assert all(page.text.split().count(f"g{number}") == 1 for number in range(30, 350)), (
        "a table has them all"
    )


def test_a_report_of_many_conditions_lists_all_of_them(table):
    many = table.question.explain(k=25, rho=2.0, mechanism="one-shot")
    assert "… and 5 more conditions" in str(many)
    assert "more condition" not in Page(report(many)).text


def test_a_report_that_was_asked_before_says_that_it_was_free(adult, table):
    again = adult.query(table.question.answer.sql, rho=0.1)
    repeated = again.why("Married-civ-spouse", "Never-married").explain(k=5, rho=2.0, mechanism="one-shot")
    assert repeated.free
    assert cost(repeated.rho, repeated.spends, free=True) in Page(report(repeated)).text


def test_a_report_that_cannot_be_written_is_refused_clearly(table, tmp_path):
    with pytest.raises(BadRequest, match="cannot be written"):
        table.save(tmp_path / "nowhere" / "report.html")


def test_displaying_spends_nothing(adult, answer, question, table, tmp_path):
    before, entries = adult.budget, len(adult.history)
    for result in (answer, table, question.preview(rho=0.1), table.truth()):
        str(result)
        repr(result)
        result._repr_html_()
    for result in (answer, question, table):
        result.chart()
    assert table.save(tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert adult.budget == before
    assert len(adult.history) == entries
