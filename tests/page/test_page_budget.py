"""A budget that talks: asked for where it lacks, decided live; and what stands against the next question."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from page_axe import assert_accessible
from page_servers import GENEROUS
from page_steps import Visit, ask, cost, set_price, sign_in, write_again
from playwright.sync_api import Locator, Page, expect
from slow_engine import slow_down

from dpxplain.ledger.tables import FLIGHTS
from server_fixture import COUNT, SQL, RunningServer, config_of, running_server


@pytest.fixture
def little(tmp_path: Path, servers: ExitStack) -> RunningServer:
    """Where every analyst may spend 0.11."""
    config = config_of(tmp_path, analysts={"default_rho": 0.11}, limits=GENEROUS.model_dump())
    return servers.enter_context(running_server(config))


def _words(page: Page) -> Locator:
    return page.get_by_test_id("budget-words")


def _too_dear(page: Page, server: RunningServer) -> Locator:
    """The price of a measurement that is more than what is left: 0.02 of 0.01."""
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    write_again(page)
    quality = page.get_by_test_id("quality")
    quality.locator("summary").first.click()
    return quality.get_by_role("group", name="Price of the measurement")


def _send(page: Page, dearest: Locator) -> None:
    dearest.get_by_role("button", name="Ask for 0.01 more").click()
    dialog = page.get_by_role("dialog", name="Ask for 0.01 more")
    expect(dialog.get_by_label("How much more")).to_have_value("0.01")
    expect(dialog.get_by_label("What for")).to_have_value("Measure the data quality of people")
    assert_accessible(page)
    dialog.get_by_role("button", name="Send the request").click()


def test_a_price_beyond_what_is_left_is_asked_for_and_the_grant_arrives_by_itself(
    little: RunningServer, visit: Visit
) -> None:
    page = visit(little)
    asked: list[str] = []
    dearest = _too_dear(page, little)
    _send(page, dearest)
    expect(dearest.get_by_test_id("request")).to_be_focused()
    for place in (dearest, _words(page)):
        expect(place).to_contain_text(re.compile(r"Asked at \d\d:\d\d, waiting"))
    page.reload()
    expect(_words(page)).to_contain_text("waiting")
    assert_accessible(page)

    little.ledger.grant("people", "alice", 0.41, reason="enough", by="carol")
    expect(page.get_by_test_id("toast")).to_contain_text("You were given 0.3")
    expect(_words(page)).to_contain_text("You were given 0.3")
    expect(_words(page)).to_contain_text("0.31 left of 0.41")
    page.on("request", lambda request: asked.append(request.url) if "/budget" in request.url else None)
    page.wait_for_timeout(5_000)
    assert asked == [], "what is decided is not asked about any more"


def test_a_declined_request_says_why_and_may_be_asked_again(little: RunningServer, visit: Visit) -> None:
    page = visit(little)
    dearest = _too_dear(page, little)
    _send(page, dearest)
    expect(_words(page)).to_contain_text("waiting")
    curator = little.curator()
    (request,) = curator.get("/datasets/people/budget/requests").json()["requests"]
    body = {"reason": "Not this month."}
    assert curator.post(f"/datasets/people/budget/requests/{request['id']}/decline", json=body).is_success
    for place in (page.get_by_test_id("toast"), _words(page), dearest):
        expect(place).to_contain_text("Declined: Not this month.")
    expect(dearest.get_by_role("button", name="Ask for 0.01 more")).to_be_visible()


def test_escape_leads_back_from_the_request_to_the_menu_and_from_there_to_its_button(
    little: RunningServer, visit: Visit
) -> None:
    page = visit(little)
    sign_in(page, little.token("alice"))
    menu = page.get_by_role("button", name="What is this?")
    menu.click()
    ask_for_more = page.get_by_role("button", name="Ask for more budget")
    ask_for_more.click()
    expect(page.get_by_role("dialog", name="Ask for more budget")).to_be_visible()
    page.keyboard.press("Escape")
    expect(ask_for_more).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    expect(ask_for_more).to_be_hidden()


def test_the_local_owner_is_told_how_to_raise_the_limit(fresh_adult: RunningServer, visit: Visit) -> None:
    page = visit(fresh_adult)
    page.get_by_text("What is this?").click()
    expect(page.get_by_role("button", name="Ask for more budget")).to_have_count(0)
    page.get_by_label("Privacy budget").get_by_role("link", name="raise the limit").click()
    expect(page.get_by_role("heading", name="People", exact=True)).to_be_visible()


def test_the_budget_bar_says_the_price_of_the_step_also_where_it_is_too_high(
    little: RunningServer, visit: Visit
) -> None:
    page = visit(little)
    sign_in(page, little.token("alice"))
    set_price(page, "Budget for this answer", 0.5)
    expect(cost(page)).to_contain_text("Costs 0.5, but only 0.11 is left.")
    expect(_words(page)).to_contain_text("This step 0.5")


def test_an_analyst_who_is_blocked_sees_so_until_the_curator_forgives(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    server = servers.enter_context(running_server(config_of(tmp_path, limits=GENEROUS.model_dump())))
    client = server.client()
    engine = slow_down(server)
    engine.go.set()
    engine.fail = True
    for rho in (0.1, 0.2, 0.3):
        assert client.post("/datasets/people/query", json={"sql": SQL, "rho": rho}).status_code == 500
    engine.fail = False
    page = visit(server)
    sign_in(page, server.token("alice"))
    blocked = page.get_by_test_id("blocked")
    expect(blocked).to_contain_text("The server blocks your new queries until the curator forgives")
    assert_accessible(page)
    server.ledger.failures.forgive("people", "alice", reason="a full disk", by="carol")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(blocked).to_be_hidden()
    ask(page, COUNT, 0.1)


def test_what_a_crash_of_the_server_has_cost_is_told_until_it_is_closed(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    server = servers.enter_context(running_server(config_of(tmp_path, limits=GENEROUS.model_dump())))
    client, engine = server.client(), slow_down(server)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(client.post, "/datasets/people/query", json={"sql": COUNT, "rho": 0.1})
        assert engine.entered.acquire(timeout=60)
        _fall_silent(server)
        page = visit(server)
        sign_in(page, server.token("alice"))
        lost = page.get_by_test_id("lost")
        expect(lost).to_contain_text("0.1 was charged. Asking again costs nothing more.")
        expect(lost).to_contain_text(COUNT)
        expect(page.get_by_test_id("blocked")).to_have_count(0)
        assert_accessible(page)
        lost.get_by_role("button", name="Close").click()
        expect(lost).to_be_hidden()
        engine.go.set()


def _fall_silent(server: RunningServer) -> None:
    """As if the process that measures had died long ago."""
    with server.ledger.store.updating() as connection:
        (row,) = connection.execute(sa.select(FLIGHTS.c.entry)).scalars()
        server.ledger.flights.stop_heartbeat(row)
        connection.execute(sa.update(FLIGHTS).values(heard="2026-01-01T00:00:00+00:00"))
    server.ledger.flights.record_deaths()
