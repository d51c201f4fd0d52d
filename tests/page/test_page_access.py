"""axe-core has no serious finding in any main state: light and dark, phone and desktop."""

from __future__ import annotations

from typing import Any

import pytest
from page_axe import assert_accessible
from page_servers import PLACE, asked, explained_place, owner
from page_steps import Visit, badge, cost, table, write_sql
from playwright.sync_api import expect

from server_fixture import RunningServer

LOOKS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
}


@pytest.fixture(
    params=[
        pytest.param(LOOKS["desktop"], id="desktop"),
        pytest.param(LOOKS["phone"], id="phone", marks=pytest.mark.slow),
    ]
)
def look(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


def test_the_whole_way_to_an_explanation_is_accessible(
    adult: RunningServer, visit: Visit, look: dict[str, Any]
) -> None:
    page = visit(adult, **look)
    expect(cost(page)).not_to_be_empty()
    assert_accessible(page)

    page.goto(adult.url + explained_place(adult))
    expect(table(page)).to_be_visible()
    expect(table(page).locator(".bar").first).to_be_visible()
    page.evaluate("document.querySelectorAll('details:not(.below *)').forEach((part) => (part.open = true))")
    assert_accessible(page)

    page.get_by_test_id("explanation").get_by_role("button", name="Export").click()
    page.get_by_role("button", name="Python and command line").click()
    assert_accessible(page)
    page.keyboard.press("Escape")

    page.get_by_role("button", name="History").click()
    expect(page.get_by_role("dialog", name="History").get_by_role("listitem").first).to_be_visible()
    assert_accessible(page)


@pytest.mark.slow
def test_doubt_totals_and_refusals_are_accessible(
    adult: RunningServer, visit: Visit, look: dict[str, Any]
) -> None:
    answer = asked(owner(adult), rho=0.0001)
    address = PLACE.format(answer=answer).replace("Married-civ-spouse", "Married-AF-spouse")
    page = visit(adult, f"{address}&confidence=0.999999", expecting=("status of 400",), **look)
    expect(badge(page)).to_have_text("Unclear")
    expect(page.get_by_role("button", name="Measure again ·")).to_be_enabled()
    assert_accessible(page)

    page.get_by_text("View", exact=True).click()
    page.get_by_role("switch", name="Compare totals or weights").check()
    expect(page.get_by_role("group", name="Weights")).to_be_visible()
    write_sql(page, "SELECT marital_status, MAX(high_income) FROM adult GROUP BY marital_status")
    expect(page.get_by_role("alert")).to_contain_text("MAX")
    assert_accessible(page)
