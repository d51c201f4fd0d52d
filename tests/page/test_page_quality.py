"""How well the data fit, asked on the page; and questions in SQL as people write it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from page_axe import assert_accessible
from page_flights import flights_server
from page_looks import assert_fits
from page_steps import Shoot, Visit, ask, cost, download, finding, group, notes, set_price, spent, write_again
from playwright.sync_api import Browser, Locator, Page, expect

from server_fixture import RunningServer

AVERAGE = "SELECT origin, AVG(delay) FROM flights GROUP BY origin"


@pytest.fixture
def flights(tmp_path: Path, servers: ExitStack) -> RunningServer:
    return servers.enter_context(flights_server(tmp_path))


@pytest.fixture(scope="module")
def questions(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The same for tests that ask without measuring the quality, so that they can share it."""
    with flights_server(tmp_path_factory.mktemp("flights")) as server:
        yield server


def _panel(page: Page) -> Locator:
    panel = page.get_by_test_id("quality")
    write_again(page)
    panel.locator("summary").first.click()
    return panel


def test_quality_has_a_price_before_it_is_bought_and_none_afterwards(
    flights: RunningServer, visit: Visit, shoot: Shoot
) -> None:
    page = visit(flights)
    ask(page, AVERAGE, 0.1)
    shaped = notes(page, "answer")
    expect(shaped).to_contain_text(re.compile(r"\bdelay\b.*\b300\b"))
    unmeasured = shaped.inner_text()

    panel = _panel(page)
    buy = panel.get_by_role("button", name="Measure for")
    expect(panel).to_contain_text("Costs 0.02 of")
    expect(panel).to_contain_text(re.compile(r"±\d.*95%"))
    expect(panel.get_by_role("table")).to_have_count(0)
    set_price(page, "Budget for the measurement", 0.5)
    expect(buy).to_have_text("Measure for 0.50")
    expect(page.get_by_test_id("budget-words")).to_contain_text("This step 0.5")
    before = spent(page)
    buy.click()

    line = panel.get_by_role("row", name="delay above 300")
    expect(line).to_contain_text("%")
    expect(panel.get_by_role("row", name="origin not in the list")).to_be_visible()
    assert round(spent(page) - before, 6) == 0.5
    expect(shaped).not_to_have_text(unmeasured, use_inner_text=True)  # it tells the measured shares
    panel.scroll_into_view_if_needed()
    shoot(page, "17-quality")
    assert_accessible(page)

    page.reload()
    expect(finding(page, "answer")).to_be_visible()
    _panel(page)
    expect(panel.locator("summary").first).to_contain_text("measured for 0.5")
    expect(line).to_be_visible()
    panel.get_by_role("button", name="Measure again").click()
    set_price(page, "Budget for the measurement", 0.5)
    expect(panel.get_by_role("button", name="Show it for free")).to_be_enabled()
    assert round(spent(page) - before, 6) == 0.5


@pytest.mark.slow
def test_the_quality_of_data_fits_a_phone(flights: RunningServer, visit: Visit) -> None:
    page = visit(flights, viewport={"width": 390, "height": 844}, has_touch=True)
    expect(cost(page)).not_to_be_empty()
    panel = _panel(page)
    panel.get_by_role("button", name="Measure for 0.02").click()
    expect(panel.get_by_role("row", name="delay above 300")).to_be_visible()
    panel.locator(".others summary").click()
    assert_fits(page)
    assert_accessible(page)


def test_a_formula_between_aggregates_is_answered_and_says_why_it_is_not_explained(
    questions: RunningServer, visit: Visit
) -> None:
    page = visit(questions)
    sql = "SELECT origin, SUM(delay) / SUM(distance) AS per_mile, COUNT(*) AS n FROM flights GROUP BY origin"
    ask(page, sql, 1)
    expect(finding(page, "answer")).to_contain_text("per_mile by origin")
    group(page, "JFK").click()
    group(page, "EWR").click()
    expect(finding(page)).to_be_visible()
    expect(page.get_by_test_id("no-influence")).to_be_visible()
    page.get_by_role("button", name="n", exact=True).click()
    expect(page.get_by_role("button", name=re.compile(r"^Explain (anyway )?·"))).to_be_enabled()


def test_having_case_and_a_derived_column_are_asked_as_people_write_them(
    questions: RunningServer, visit: Visit
) -> None:
    page = visit(questions)
    sql = (
        "SELECT region, AVG(CASE WHEN delay > 15 THEN 1 ELSE 0 END) AS late_share FROM flights "
        "GROUP BY region HAVING COUNT(*) > 10000"
    )
    ask(page, sql, 1)
    expect(finding(page, "answer")).to_contain_text("late_share by region")
    expect(page.get_by_role("list", name="Groups").get_by_role("listitem")).to_have_count(2)
    group(page, "New York").click()
    group(page, "New Jersey").click()
    expect(finding(page)).to_contain_text("Why is New York, Queens borough above New Jersey")
    expect(page.get_by_role("button", name=re.compile(r"^Explain (anyway )?·"))).to_be_enabled()


def test_a_verdict_needs_no_attribute_that_could_explain_it(questions: RunningServer, visit: Visit) -> None:
    page = visit(questions)
    ask(page, "SELECT origin, carrier, late, COUNT(*) FROM flights GROUP BY origin, carrier, late", 1)
    group(page, "LGA, one, 1").click()
    group(page, "EWR, one, 1").click()
    expect(finding(page)).to_be_visible()
    expect(page.get_by_test_id("no-influence")).to_have_text(
        "No column is left that could explain the difference."
    )


def test_groups_are_named_with_what_their_values_stand_for(questions: RunningServer, visit: Visit) -> None:
    page = visit(questions)
    ask(page, "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier", 1)
    expect(group(page, "two")).to_contain_text("two (The other airline, which flies at night)")
    group(page, "two").click()
    group(page, "one").click()
    expect(finding(page)).to_be_visible()
    picture = download(page, page.get_by_test_id("answer"), "SVG").read_text(encoding="utf-8")
    assert "The other airline" in picture
