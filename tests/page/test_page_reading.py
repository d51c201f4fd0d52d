"""How results are read: as a ratio, in general beside these data, and with each term explained."""

from __future__ import annotations

import re

from page_axe import assert_accessible
from page_looks import OPEN_ALL
from page_servers import PAIR, asked, explained_place, owner
from page_steps import Visit, choose, download, example, finding, group, notes, options, spent, table
from playwright.sync_api import expect

from server_fixture import RunningServer


def test_a_ratio_and_the_population_are_asked_on_the_page(fresh_adult: RunningServer, visit: Visit) -> None:
    page = visit(fresh_adult)
    example(page).click()
    expect(finding(page, "answer")).to_be_visible()
    choose(page)
    expect(finding(page)).to_contain_text("higher")
    options(page)
    page.get_by_test_id("compare").select_option("ratio")
    expect(finding(page)).to_contain_text("The ratio of Married-civ-spouse to Never-married is above 1.")
    expect(finding(page)).to_contain_text(re.compile(r"\b9\.\d+"))
    page.get_by_test_id("population").check()
    expect(finding(page)).to_contain_text("In general")
    expect(notes(page)).to_contain_text("complete census")
    assert spent(page) == 0.1, "all of it is free"
    assert_accessible(page)
    page.reload()
    expect(finding(page)).to_contain_text("The real ratio")


def test_the_groups_show_which_reading_their_intervals_have(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, f"#/adult?answer={asked(owner(adult))}")
    row = group(page, PAIR[0])
    expect(notes(page, "answer")).not_to_contain_text("complete census")
    here = row.inner_text()
    page.get_by_text("View", exact=True).click()
    page.get_by_label("Intervals").select_option("In general")
    expect(notes(page, "answer")).to_contain_text("complete census")
    expect(row).not_to_have_text(here, use_inner_text=True)
    image = download(page, page.get_by_test_id("answer"), "Chart as SVG").read_text(encoding="utf-8")
    assert "thin in general" in image
    page.get_by_label("Intervals").select_option("In these data")
    expect(row).to_have_text(here, use_inner_text=True)


def test_each_term_is_explained_where_it_stands(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, explained_place(adult))
    expect(table(page)).to_be_visible()
    page.get_by_role("switch", name="Influence and rank").check()
    page.evaluate(OPEN_ALL)
    terms = page.locator("[data-term]:visible")
    found = set(terms.evaluate_all("(all) => all.map((one) => one.dataset.term)"))
    assert found >= {"confidence", "reading", "verdict", "prepared", "story", "influence"}
    for name in sorted(found):
        button = page.locator(f"[data-term={name}]:visible").first
        button.focus()
        page.keyboard.press("Enter")
        note = page.locator("[role=note]:popover-open")
        expect(note).to_be_in_viewport(ratio=1)
        page.keyboard.press("Escape")
        expect(note).to_have_count(0)
        expect(button).to_be_focused()
