"""Answers to keep: figures in line, several values side by side, and a board of named questions."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from page_axe import assert_accessible
from page_figures import ZONES, big_server
from page_servers import GENEROUS, asked, explained_place, owner, prepared
from page_steps import Visit, ask, headline, sign_in, spent, table
from playwright.sync_api import expect

from server_fixture import SCHEMA, RunningServer, config_of, running_server

LABELLED = (
    '\n[columns.late]\nbounds = [0, 1]\nstep = 1\nexpression = "CASE WHEN age > 40 THEN 1 ELSE 0 END"\n'
)
LABEL = 'label = "age above 40"\n'


@pytest.mark.slow
def test_figures_stand_in_line_and_values_side_by_side(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    config = config_of(tmp_path, limits=GENEROUS.model_dump())
    (tmp_path / "people.toml").write_text(SCHEMA + LABELLED + LABEL, encoding="utf-8")
    server = servers.enter_context(running_server(config))
    page = visit(server)
    sign_in(page, server.token("alice"))
    ask(page, "SELECT region, COUNT(*), AVG(late) FROM people GROUP BY region", 0.3)
    listed = page.get_by_role("region", name=re.compile("as a table"))
    expect(listed.get_by_role("columnheader")).to_contain_text(
        ["region", "Number of rows", "95% interval", "Share with age above 40", "95% interval"]
    )
    cells = [row.get_by_role("cell").all_inner_texts() for row in listed.locator("tbody tr").all()]
    assert all(re.fullmatch(r"[\d,]+", row[1]) for row in cells), "counts are whole"
    assert all(row[3].endswith("%") for row in cells), "shares are in percent"
    assert len({len(row[3].split(".")[1]) for row in cells}) == 1, "decimals are in line"


def test_a_pinned_question_is_named_commented_and_opened_for_free(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, explained_place(adult))
    expect(table(page)).to_be_visible()
    before = spent(page)
    told = headline(page, "explanation").inner_text()
    page.get_by_test_id("answer").get_by_role("button", name="Pin").click()
    page.get_by_test_id("explanation").get_by_role("button", name="Pin").click()
    expect(page.get_by_test_id("toast")).to_contain_text("Pinned to the board of this browser")
    page.get_by_role("link", name="Board").click()
    board = page.get_by_test_id("board")
    expect(board).to_contain_text("kept in this browser only")
    explanation, answer = board.get_by_test_id("pin").all()
    expect(answer).to_contain_text("Married-civ-spouse")
    expect(explanation).to_contain_text(told)
    answer.get_by_label("Name of this question").fill("Marriage and pay")
    answer.get_by_label("Comment").fill("For the report.")
    answer.get_by_label("Comment").blur()
    assert_accessible(page)
    page.reload()
    kept = page.get_by_role("article", name="Marriage and pay")
    expect(kept.get_by_label("Comment")).to_have_value("For the report.")
    kept.get_by_role("link", name="Open").click()
    expect(page.get_by_test_id("answer")).to_be_visible()
    assert spent(page) == before
    page.go_back()
    page.get_by_role("button", name="Take off Marriage and pay").click()
    expect(board.get_by_test_id("pin")).to_have_count(1)


def test_a_pinned_comparison_shows_both_groups_of_a_long_answer(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    server = servers.enter_context(big_server(tmp_path, 2))
    answer = asked(owner(server), ZONES, dataset="trips")
    prepared(owner(server), answer, dataset="trips")
    page = visit(server, f"#/trips?answer={answer}&group=1*Zone 090&group=-1*Zone 170&explain=5")
    page.get_by_test_id("explanation").get_by_role("button", name="Pin").click()
    page.get_by_role("link", name="Board").click()
    rows = page.get_by_test_id("pin").get_by_role("listitem")
    expect(rows).to_contain_text(["Zone 090", "Zone 170"])
    expect(page.get_by_test_id("pin")).to_contain_text("and 498 further groups")
