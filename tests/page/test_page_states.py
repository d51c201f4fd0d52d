"""What may happen on the way: refusals, doubt, no budget left, waiting, and a server that goes and comes."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI
from page_servers import GENEROUS, PLACE, adult_config, asked, explained_place, owner
from page_steps import (
    Shoot,
    Visit,
    ask,
    badge,
    choose,
    cost,
    example,
    finding,
    headline,
    held,
    moving,
    options,
    run_button,
    set_price,
    sign_in,
    spent,
    table,
    write_sql,
)
from playwright.sync_api import expect
from slow_engine import slow_down

from dpxplain.ledger.ledger import open_ledger
from server_fixture import SQL, RunningServer, config_of, running_server

GONE = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "ERR_SOCKET_NOT_CONNECTED")


def test_a_refusal_is_marked_at_its_position(adult: RunningServer, visit: Visit, shoot: Shoot) -> None:
    page = visit(adult, expecting=("status of 400",))
    expect(cost(page)).not_to_be_empty()
    before = spent(page)
    write_sql(page, "SELECT marital_status, MAX(high_income) FROM adult GROUP BY marital_status")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Nothing was spent.")
    expect(page.locator(".cm-lintRange-error")).to_have_text(re.compile(r"^MAX"))
    expect(run_button(page)).to_be_disabled()
    shoot(page, "05-refusal")
    write_sql(page, "SELECT sex, COUNT(*) FROM adult GROUP BY sex")
    expect(alert).to_be_hidden()
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    expect(run_button(page)).to_be_enabled()
    assert spent(page) == before


def test_doubt_offers_another_measurement_and_still_explains(
    fresh_adult: RunningServer, visit: Visit, shoot: Shoot
) -> None:
    """A level of confidence so high that noise practically never looks like a difference.

    On a server of its own: another test may have prepared the query, which then is explained for free.
    """
    answer = asked(owner(fresh_adult), rho=0.0001)
    address = PLACE.format(answer=answer).replace("Married-civ-spouse", "Married-AF-spouse")
    page = visit(fresh_adult, address + "&confidence=0.999999")
    expect(badge(page)).to_have_text("Unclear")
    expect(headline(page)).to_contain_text("It is not clear whether")
    expect(finding(page)).not_to_contain_text("Why is")
    expect(page.get_by_role("button", name="Explain anyway · 0.02")).to_be_enabled()
    again = page.get_by_role("group", name="Measure again").get_by_role("button")
    expect(again).to_be_enabled()
    price = float(again.inner_text().removeprefix("Measure again · "))
    expect(page.get_by_test_id("budget-words")).to_contain_text(f"This step {price:g}")
    page.get_by_test_id("verdict").scroll_into_view_if_needed()
    shoot(page, "06-unclear")
    before = spent(page)
    again.click()
    expect(page).to_have_url(re.compile("answer=2&"))  # another answer, for the same groups
    expect(badge(page)).to_be_visible()
    assert round(spent(page) - before, 6) == price


def test_the_data_may_point_the_other_way(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, PLACE.format(answer=asked(owner(adult))))
    expect(badge(page)).to_have_text("Not just noise")
    page.get_by_role("button", name="Swap").click()
    expect(badge(page)).to_have_text("The other way")
    expect(headline(page)).to_contain_text("It is the other way round")
    expect(finding(page)).not_to_contain_text("Why is")
    page.get_by_role("button", name="Swap").click()
    expect(badge(page)).to_have_text("Not just noise")


@pytest.mark.slow
def test_an_exhausted_budget_leaves_the_past_readable(
    tmp_path: Path, servers: ExitStack, visit: Visit, shoot: Shoot
) -> None:
    config = config_of(tmp_path, analysts={"default_rho": 0.1}, limits=GENEROUS.model_dump())
    server = servers.enter_context(running_server(config))
    page = visit(server)
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    write_sql(page, "SELECT sex, COUNT(*) FROM people GROUP BY sex")
    expect(cost(page)).to_contain_text("The budget is used up. Past answers stay readable.")
    expect(run_button(page)).to_have_text(re.compile("Ask for 0.1 more"))
    choose(page, ("North", "South"))
    expect(page.get_by_test_id("verdict").get_by_role("button", name="Ask for 0.02 more")).to_be_visible()
    page.evaluate("scrollTo(0, 0)")
    shoot(page, "07-exhausted")
    page.reload()
    expect(headline(page)).to_contain_text(re.compile("North.*South"))
    write_sql(page, SQL)
    expect(run_button(page)).to_have_text("Run · free")


@pytest.mark.slow
def test_a_server_that_goes_and_comes_back_loses_nothing(tmp_path: Path, visit: Visit, shoot: Shoot) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    with running_server(adult_config(), ledger) as server:
        page = visit(server, explained_place(server), expecting=(*GONE, "status of 403"))
        expect(table(page)).to_be_visible()
    set_price(page, "Budget for this answer", 0.3)
    banner = page.get_by_test_id("gone")
    expect(banner).to_contain_text("The server is not answering.")
    expect(banner).to_contain_text("What you see stays here")
    expect(table(page)).to_be_visible()
    expect(run_button(page)).to_be_disabled()
    page.evaluate("scrollTo(0, 0)")
    shoot(page, "08-server-gone")
    page.get_by_role("button", name="Swap").click()
    expect(finding(page)).to_be_hidden()
    port, key = int(server.url.rstrip("/").rsplit(":", 1)[1]), server.key

    def same_key(app: FastAPI) -> None:
        app.state.server.authenticator.key = key

    with running_server(adult_config(port=port), ledger, before=same_key):
        expect(banner).to_be_hidden()
        expect(run_button(page)).to_have_text("Run · 0.30")
        expect(badge(page)).to_have_text("The other way")
        page.get_by_role("button", name="Swap").click()
        expect(badge(page)).to_have_text("Not just noise")
        expect(table(page).locator("tbody tr")).to_have_count(5)
        assert spent(page) == 0.12
    ledger.close()


def test_on_a_slow_network_something_stands_where_the_answer_will_be(
    adult: RunningServer, visit: Visit
) -> None:
    page = visit(adult)
    expect(cost(page)).not_to_be_empty()
    with held(page, "**/api/v1/**"):
        page.reload()
        expect(page.locator("main .wait")).to_be_visible()
        expect(page.get_by_role("link", name="DPXPlain")).to_be_visible()
    expect(example(page)).to_be_visible()
    with held(page, "**/preview"):
        set_price(page, "Budget for this answer", 0.3)
        write_sql(page, "SELECT sex, AVG(high_income) FROM adult GROUP BY sex")
        expect(run_button(page)).to_have_text("Run · 0.30")
    expect(run_button(page)).to_be_enabled()
    with held(page, "**/query?*"):
        run_button(page).click()
        expect(run_button(page)).to_have_text("Asking…")
        expect(run_button(page)).to_be_disabled()
    expect(page.get_by_test_id("answer")).to_be_visible()
    with held(page, "**/why"):
        choose(page, ("Male", "Female"))
        expect(page.get_by_test_id("verdict").locator(".wait")).to_be_visible()
    expect(finding(page)).to_be_visible()
    with held(page, "**/history?*"):
        page.get_by_role("button", name="History").click()
        expect(page.get_by_role("dialog", name="History").locator(".wait")).to_be_visible()
    expect(page.get_by_role("dialog", name="History").get_by_role("listitem").first).to_be_visible()


def test_a_long_explanation_shows_progress_and_can_be_stopped(
    tmp_path: Path, servers: ExitStack, visit: Visit, shoot: Shoot
) -> None:
    server = servers.enter_context(running_server(config_of(tmp_path, limits=GENEROUS.model_dump())))
    engine = slow_down(server)
    engine.go.set()
    page = visit(server)
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    choose(page, ("North", "South"))
    options(page).get_by_role("switch", name="Just this one").check()
    set_price(page, "Budget for this explanation", 0.25)
    engine.go.clear()
    page.get_by_role("button", name="Explain · 0.25").click()
    progress = page.get_by_test_id("verdict").get_by_role("status")
    expect(progress).to_be_visible()
    stop = progress.get_by_role("button", name="Stop")
    expect(progress).to_contain_text("The charge of 0.25 stays.")
    assert moving(page) == [], "nothing moves for those who asked for less motion"
    page.emulate_media(reduced_motion="no-preference")
    assert moving(page) != []
    page.emulate_media(reduced_motion="reduce")
    shoot(page, "09-progress")
    stop.click()
    expect(page.get_by_test_id("verdict").get_by_role("alert")).to_contain_text("charge stays")
    expect(progress).to_be_hidden()
    expect(page.get_by_test_id("budget-words")).to_contain_text("Spent 0.35")

    set_price(page, "Budget for this explanation", 0.26)
    page.get_by_role("button", name="Explain · 0.26").click()
    expect(stop).to_be_visible()
    engine.go.set()
    expect(table(page).locator("tbody tr")).to_have_count(5)
    expect(progress).to_be_hidden()
    assert spent(page) == 0.61
