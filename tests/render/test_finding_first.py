"""The answer first: every face begins with the same finding, and keeps notes for those who ask."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console
from test_html_pages import Page

import dpxplain as dpx
from dpxplain.model.display import as_json
from dpxplain.render.notebook import as_html
from dpxplain.render.report import report
from dpxplain.render.terminal import as_text, renderable
from dpxplain.render.views import view_of
from dpxplain.wire.payloads import answer_payload, explanation_payload, question_payload, story_payload

KINDS = ["answer", "question", "table", "free_table", "blurred", "story"]


@pytest.fixture(scope="session")
def story(prepared_answer):
    return prepared_answer.why("Married-civ-spouse", "Never-married").story()


def flat(text: str) -> str:
    return " ".join(text.split())


def with_notes(result: object) -> str:
    file = io.StringIO()
    Console(file=file, width=100).print(renderable(result, notes=True))
    return flat(file.getvalue())


def payload_of(kind: str, result, budget) -> dict:
    match kind:
        case "answer":
            return answer_payload(result, budget)
        case "question":
            return question_payload(result)
        case "story":
            return story_payload(result, budget)
    return explanation_payload(result, budget)


@pytest.mark.parametrize("kind", KINDS)
def test_every_face_has_the_same_finding(kind, request, adult):
    result = request.getfixturevalue(kind)
    finding = result.finding
    terminal, notebook = flat(as_text(result)), Page(as_html(result)).text
    payload = json.loads(json.dumps(payload_of(kind, result, adult.budget)["finding"], default=as_json))
    for part in (finding.headline, finding.support, finding.caveat):
        assert part in terminal
        assert part in notebook
    assert payload == {
        "headline": finding.headline,
        "support": finding.support,
        "caveat": finding.caveat,
        "notes": list(finding.notes),
    }
    assert str(finding) == f"{finding.headline} {finding.support}".strip()


@pytest.mark.parametrize("kind", KINDS)
def test_the_finding_comes_before_the_table_and_the_caveat_after_it(kind, request):
    result = request.getfixturevalue(kind)
    finding, grid = result.finding, view_of(result).grid
    terminal, notebook = flat(as_text(result)), Page(as_html(result)).text
    title = flat(view_of(result).title)
    for text in (terminal, notebook):
        assert text.index(title) < text.index(finding.headline) < text.rindex(finding.caveat)
        assert text.index(title) < 2, "only the quiet title stands before the headline"
    if grid is not None and not grid.folded:
        lines = as_text(result).splitlines()
        rule = next(place for place, line in enumerate(lines) if "────" in line)
        before, after = flat(" ".join(lines[:rule])), flat(" ".join(lines[rule:]))
        assert finding.support in before
        assert finding.caveat in after
        assert all(row[-1] in after for row in grid.rows)


@pytest.mark.parametrize("kind", KINDS)
def test_notes_are_hidden_unless_asked_for(kind, request):
    result = request.getfixturevalue(kind)
    notes = view_of(result).notes
    terminal, asked, notebook = flat(as_text(result)), with_notes(result), as_html(result)
    assert notes
    assert ".finding.notes" in terminal
    assert ".finding.notes" not in asked
    (fold,) = re.findall(r"<summary>Notes</summary><ul>.*?</ul>", notebook, re.DOTALL)
    for note in notes:
        assert flat(note) not in terminal
        assert flat(note) in asked
        assert flat(note) in Page(notebook).text
        assert flat(note) not in Page(notebook.replace(fold, "")).text


def test_the_report_begins_with_the_finding_and_ends_with_how_to_read_it(free_table):
    page = Page(report(free_table))
    finding, text = free_table.finding, page.text
    order = [
        free_table.question.title, finding.headline, finding.support, finding.caveat, "What explains it?",
        "Is it more than noise?", "The answer", "What it cost", "Notes", "How to read this",
    ]  # fmt: skip
    body = text[text.index("a private explanation of") :]
    places = [body.index(part) for part in order]
    assert places == sorted(places)
    assert body.count(finding.headline) == 1
    for note in finding.notes:
        assert note in text


def test_an_explanation_of_five_conditions_takes_at_most_fifteen_lines(free_table, table):
    for result in (free_table, table):
        lines = as_text(result).splitlines()
        assert len(lines) <= 15
        assert all(result.label_of(row).split()[-1] in as_text(result) for row in result.rows)


def test_caveats_are_said_once_in_a_view(free_table, table, story):
    for result in (free_table, table, story):
        for text in (as_text(result), with_notes(result)):
            assert " ".join(text.split()).count(result.finding.caveat) == 1


def test_a_table_of_noise_is_folded_and_opens_with_the_notes(blurred):
    grid = view_of(blurred).grid
    assert all(row.effect == "unclear" for row in blurred.rows)
    assert grid.folded
    terminal = flat(as_text(blurred))
    assert grid.folded in terminal
    assert "rank of" not in terminal
    assert "rank of 103" in with_notes(blurred)
    assert f"<summary>{grid.folded}</summary>" in as_html(blurred)
    assert f"<summary>{grid.folded}</summary>" in report(blurred)


def test_what_is_clear_is_not_folded(free_table, table):
    for result in (free_table, table):
        assert any(row.effect != "unclear" for row in result.rows)
        assert view_of(result).grid.folded == ""


def test_rows_are_in_the_order_of_the_column_that_is_shown(free_table):
    shares = [row.share_estimate for row in free_table]
    assert shares == sorted(shares, reverse=True)
    ranked = free_table.sorted_by_influence()
    ends = [row.influence[1] for row in ranked]
    assert ends == sorted(ends, reverse=True)
    assert {row.index for row in ranked} == {row.index for row in free_table}
    headings = [[column.name for column in view_of(result).grid.columns] for result in (free_table, ranked)]
    assert not any("rank" in heading or "influence" in heading for heading in headings[0])
    assert {"relative influence", "rank of 103"} <= set(headings[1])


def test_each_row_says_the_effect_that_its_interval_allows(free_table, table, blurred):
    for result in (free_table, table, blurred):
        for row in result:
            low, high = row.share_removed or row.influence
            allowed = "shrinks" if low > 0 else "widens" if high < 0 else "unclear"
            expected = "unclear" if result.question.verdict is dpx.Verdict.UNCLEAR else allowed
            assert row.effect == expected


def test_a_price_of_the_order_is_named_only_if_it_can_be_paid(tmp_path):
    sql = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
    with dpx.example("adult", insecure_seed=3) as session:
        answer = session.query(sql, rho=0.1)
        answer.prepare(rho=0.02)
        table = answer.why("Married-civ-spouse", "Never-married").explain(k=5)
        price = float(table.order_note.removesuffix(".").rpartition("ρ ")[2])
        assert table.rho < price <= session.budget.remaining
        assert table.order_note in as_text(table)
        session.query("SELECT COUNT(*) FROM adult", rho=session.budget.remaining - price / 2)
        assert table.order_note == ""
