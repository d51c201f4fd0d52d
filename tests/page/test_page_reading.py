"""In a real browser: a ratio instead of a difference, and what holds in general beside what holds here."""

from __future__ import annotations

import re

from page_axe import assert_accessible
from page_steps import Visit, choose, example, finding, run_button, spent
from playwright.sync_api import expect

from server_fixture import RunningServer


def test_a_ratio_and_the_population_are_asked_on_the_page(fresh_adult: RunningServer, visit: Visit) -> None:
    page = visit(fresh_adult)
    example(page).click()
    run_button(page).click()
    choose(page)
    expect(finding(page)).to_contain_text("The true gap")
    page.get_by_test_id("compare").select_option("ratio")
    expect(page.get_by_role("heading", name=re.compile("^Why is the ratio of"))).to_be_visible()
    expect(finding(page)).to_contain_text(re.compile(r"The true ratio of clamped averages is between 9\.\d+"))
    page.get_by_test_id("population").check()
    expect(page.get_by_test_id("general")).to_contain_text("In general: Holds.")
    expect(page.get_by_test_id("general")).to_contain_text("census of everybody")
    assert spent(page) == 0.1, "all of it is free"
    assert_accessible(page)
    page.reload()
    expect(finding(page)).to_contain_text("The true ratio")
