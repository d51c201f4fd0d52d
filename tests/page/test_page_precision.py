"""Precision is chosen in words, with what each buys and costs; the number stands under Details."""

from __future__ import annotations

from page_servers import PLACE, asked, owner
from page_steps import Visit, cost, run_button, set_price, write_sql
from playwright.sync_api import expect

from server_fixture import RunningServer

COUNT = "SELECT race, COUNT(*) FROM adult GROUP BY race"
AVERAGE = "SELECT race, AVG(high_income) FROM adult GROUP BY race"


def reach(text: str) -> float:
    return float(text.removeprefix("±").split()[0].replace(",", ""))


def test_precision_is_a_word_with_its_reach_and_price(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, "#/adult")
    write_sql(page, COUNT)
    card = page.get_by_role("group", name="Price", exact=True)
    margin = card.get_by_test_id("margin")
    reaches = []
    for word, price in (("Rough", "0.02"), ("Good", "0.10"), ("Sharp", "0.50")):
        card.get_by_role("radio", name=f"{word} {price}").check()
        expect(run_button(page)).to_have_text(f"Run · {price}")
        expect(run_button(page)).to_be_enabled()
        expect(margin.and_(page.locator(":not(.stale)"))).to_contain_text("rows")
        reaches.append(reach(margin.inner_text()))
    assert reaches == sorted(reaches, reverse=True)
    assert reaches[0] > reaches[1] > reaches[2] > 0
    expect(page.get_by_role("spinbutton", name="Budget for this answer")).to_be_hidden()
    set_price(page, "Budget for this answer", 0.07)
    expect(run_button(page)).to_have_text("Run · 0.07")
    expect(card).to_contain_text("able to tell two groups apart if they differ by about")
    expect(card.get_by_test_id("protection").first).to_contain_text("50:50 becomes")
    expect(card.get_by_test_id("protection").first).to_contain_text("protection, ε")


def test_noise_above_the_likely_gap_is_said_before_spending(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, "#/adult")
    write_sql(page, AVERAGE)
    set_price(page, "Budget for this answer", 0.0001)
    doubt = cost(page).get_by_test_id("doubt")
    expect(doubt).to_contain_text("probably too noisy")
    enough = doubt.inner_text().split("About ρ ")[1].split(" ")[0]
    set_price(page, "Budget for this answer", float(enough))
    expect(doubt).to_be_hidden()
    answer = asked(owner(adult), AVERAGE, 0.3)
    page.goto(
        adult.url
        + PLACE.format(answer=answer).replace("Married-civ-spouse", "White").replace("Never-married", "Black")
    )
    explain = page.get_by_role("group", name="Price of the explanation")
    set_price(page, "Budget to prepare this answer, once", 0.00001)
    expect(explain.get_by_test_id("doubt")).to_contain_text("larger than the gap itself")
    enough = explain.get_by_test_id("doubt").inner_text().split("About ρ ")[1].split(" ")[0]
    set_price(page, "Budget to prepare this answer, once", float(enough))
    expect(explain.get_by_test_id("doubt")).to_be_hidden()
