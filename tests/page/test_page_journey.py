"""The paper's example by mouse, from the first visit to the report."""

from __future__ import annotations

import ast
import csv
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

from page_servers import PAIR, explained_place, owner
from page_steps import (
    Shoot,
    Visit,
    badge,
    choose,
    cost,
    download,
    example,
    finding,
    group,
    headline,
    options,
    run_button,
    spent,
    table,
    unfold,
)
from playwright.sync_api import Page, expect

from server_fixture import RunningServer


def test_the_paper_example_by_mouse(fresh_adult: RunningServer, visit: Visit, shoot: Shoot) -> None:
    page = visit(fresh_adult)
    expect(page.get_by_role("heading", name="What would you like to know?")).to_be_visible()
    assert spent(page) == 0
    shoot(page, "01-first-visit")

    _ask(page)
    _compare(page, shoot)
    _explain(page, shoot)
    _another_why_is_free(page)
    _drill_down(page)
    _reopen_from_history(page, shoot)
    _share(fresh_adult, page, visit)


def _ask(page: Page) -> None:
    expect(cost(page)).to_contain_text(re.compile(r"±[\d.]+ percentage points in a group of 1,000"))
    expect(run_button(page)).to_have_text("Run · 0.10")
    assert spent(page) == 0, "nothing is spent by looking"
    expect(page.get_by_test_id("budget-words")).to_contain_text("This step 0.1")
    expect(example(page)).to_have_text("Ask · 0.10")
    example(page).click()
    expect(finding(page, "answer")).to_contain_text("Share with high income by marital status")
    expect(page.get_by_role("list", name="Groups").get_by_role("button")).to_have_count(7)
    expect(page.get_by_test_id("budget-words")).to_contain_text("Spent 0.1")


def _compare(page: Page, shoot: Shoot) -> None:
    choose(page)
    for label in PAIR:
        expect(group(page, label)).to_have_attribute("aria-pressed", "true")
    for label in PAIR:
        expect(headline(page)).to_contain_text(label)
    expect(badge(page)).to_have_text("Not just noise")
    expect(finding(page)).to_contain_text("percentage points")
    expect(page.get_by_test_id("live")).to_contain_text(headline(page).inner_text())
    assert spent(page) == 0.1, "a verdict is free"
    finding(page, "answer").scroll_into_view_if_needed()
    shoot(page, "02-answer")


def _explain(page: Page, shoot: Shoot) -> None:
    expect(page.get_by_test_id("explain-cost")).to_contain_text("Pay once")
    expect(page.get_by_test_id("budget-words")).to_contain_text("This step 0.02")
    expect(options(page)).to_contain_text("accurate to about")
    options(page).locator("summary").click()
    page.get_by_role("button", name="Explain · 0.02").click()
    expect(table(page).locator("tbody tr")).to_have_count(5)
    expect(table(page).locator("tbody tr").first).to_contain_text("shrinks by")
    expect(table(page)).not_to_contain_text("Rank of ")
    page.get_by_role("switch", name="Influence and rank").check()
    expect(table(page)).to_contain_text("Gap without them")
    expect(table(page)).to_contain_text("Rank of ")
    page.get_by_role("switch", name="Influence and rank").uncheck()
    expect(page.get_by_test_id("explanation").locator(".bar").first).to_be_visible()
    expect(page.get_by_test_id("live-progress")).to_contain_text(headline(page, "explanation").inner_text())
    assert spent(page) == 0.12
    page.locator("#explanation-title").evaluate("(title) => title.scrollIntoView()")
    shoot(page, "03-explanation")


def _another_why_is_free(page: Page) -> None:
    group(page, "Never-married").click()
    group(page, "Divorced").click()
    expect(headline(page)).to_contain_text("Divorced")
    expect(page.get_by_test_id("prepared")).to_contain_text("Comparing any groups is free")
    # The explanation of the former pair stays until that of the new one is there.
    expect(page.get_by_test_id("explanation")).to_have_attribute("aria-busy", "false")
    expect(table(page).locator("tbody tr")).to_have_count(5)
    assert spent(page) == 0.12


def _drill_down(page: Page) -> None:
    unfold(page)
    first = table(page).locator("tbody tr").first
    condition = first.get_by_role("rowheader")
    expect(condition).to_have_text(re.compile(r"\w"))
    column = (condition.text_content() or "").split()[0]
    first.get_by_role("button", name="Look inside").click()
    condition_fields = page.get_by_role("group", name="Condition on")
    expect(condition_fields).to_contain_text(re.compile(re.escape(column), re.IGNORECASE))
    expect(run_button(page)).to_have_text("Run · 0.10")
    expect(page.locator("#ask-title")).to_be_in_viewport()
    assert spent(page) == 0.12, "it has a price, and waits for the button"
    run_button(page).click()
    expect(page.get_by_test_id("answer")).to_contain_text("Answer 3")
    expect(page.get_by_test_id("budget-words")).to_contain_text("Spent 0.22")


def _reopen_from_history(page: Page, shoot: Shoot) -> None:
    page.get_by_role("button", name="History").click()
    dialog = page.get_by_role("dialog", name="History")
    expect(dialog.get_by_role("listitem")).to_have_count(3)
    lines = dialog.get_by_role("listitem")
    expect(lines.nth(0)).to_contain_text("0.22 in all")
    expect(lines.nth(1)).to_contain_text("Prepared")
    expect(lines.nth(2)).to_contain_text("SELECT marital_status, AVG(high_income)")
    shoot(page, "04-history")
    lines.nth(2).get_by_role("button", name="Reopen").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_test_id("answer")).to_contain_text("Answer 1")
    choose(page)
    expect(table(page).locator("tbody tr")).to_have_count(5)
    assert spent(page) == 0.22, "reopening is free"


def _share(adult: RunningServer, page: Page, visit: Visit) -> None:
    explanation = page.get_by_test_id("explanation")
    explanation.get_by_role("button", name="Export").click()
    explanation.get_by_role("button", name="Copy link").click()
    expect(page.get_by_test_id("live")).to_have_text("Link copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    second = visit(adult, link.removeprefix(adult.url))
    expect(table(second)).to_have_text(table(page).inner_text(), use_inner_text=True)
    for label in PAIR:
        expect(group(second, label)).to_have_attribute("aria-pressed", "true")
    assert spent(second) == 0.22


def _records(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_everything_shown_can_be_taken_along(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, explained_place(adult))
    explanation = page.get_by_test_id("explanation")
    shown = page.get_by_test_id("answer")
    expect(table(page)).to_be_visible()
    answer_rows = _records(download(page, shown, "Table as CSV"))
    assert {row["marital_status"] for row in answer_rows} >= set(PAIR)
    rows = _records(download(page, explanation, "Table as CSV"))
    assert len(rows) == 5
    for what in ("gap_without", "share_removed"):
        assert all(float(row[f"{what}_low"]) <= float(row[f"{what}_high"]) for row in rows)
    for part in (shown, explanation):
        assert download(page, part, "Chart as PNG").read_bytes().startswith(b"\x89PNG\r\n")
        assert ET.parse(download(page, part, "Chart as SVG")).getroot().tag.endswith("svg")
    report = download(page, explanation, "Report as HTML").read_text(encoding="utf-8")
    assert report.lstrip().lower().startswith("<!doctype html>")
    assert rows[0]["label"].split("=")[-1].strip(" '") in report
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", report), "the report needs no other host"

    explanation.get_by_role("button", name="Export").click()
    explanation.get_by_role("button", name="Python and command line").click()
    python, command = page.get_by_role("dialog", name="The same in code").locator("pre").all_inner_texts()
    texts = [node.value for node in ast.walk(ast.parse(python)) if isinstance(node, ast.Constant)]
    sql = next(text for text in texts if isinstance(text, str) and text.startswith("SELECT"))
    told = owner(adult).post("/datasets/adult/preview", json={"sql": sql, "rho": 0.1}).json()
    assert told["free"], "the shown code asks what was asked here"
    words = shlex.split(command, comments=True)
    assert words[0] == "dpxplain"
    assert sql in words
    page.get_by_role("button", name="Copy Python").click()
    expect(page.get_by_test_id("live")).to_have_text("Python copied.")
    assert page.evaluate("navigator.clipboard.readText()") == python
