"""The page, third edition: one screen to the first why, and results that hold still."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_axe import assert_accessible
from page_looks import WORDS
from page_servers import GENEROUS, PAIR, PLACE, asked, done, owner, prepared
from page_steps import (
    Visit,
    ask,
    choose,
    cost,
    download,
    example,
    finding,
    group,
    headline,
    run_button,
    sign_in,
    spent,
    table,
    write_again,
)
from playwright.sync_api import Page, expect
from slow_engine import slow_down

from dpxplain.server.app import single_user_config
from server_fixture import SQL, RunningServer, config_of, running_server

SIZES = (
    pytest.param((1440, 900), id="1440"),
    pytest.param((1024, 768), id="1024", marks=pytest.mark.slow),
    pytest.param((390, 844), id="390"),
)
FIRST_WORDS, WORDS_ONCE_EXPLAINED = 120, 250
CAUSE = """
[table]
name = "sales"
source = "sales.parquet"
[privacy]
rho = 100.0
[columns.shop]
values = ["A", "B"]
[columns.cause]
values = ["yes", "no"]
[columns.day]
values = ["Mo", "Tu", "We", "Th"]
[columns.sold]
bounds = [0, 1]
"""


def sales_server(folder: Path) -> AbstractContextManager[RunningServer]:
    """Shop A sells more for one cause only; the days tell nothing."""
    rows = range(40_000)
    shop = ["AB"[row % 2] for row in rows]
    cause = ["yes" if row % 2 == 0 and row % 5 else "no" for row in rows]
    columns = {
        "shop": shop,
        "cause": cause,
        "day": [("Mo", "Tu", "We", "Th")[row // 10 % 4] for row in rows],
        "sold": [1 if value == "yes" else row // 40 % 2 for row, value in zip(rows, cause, strict=True)],
    }
    pq.write_table(pa.table(columns), folder / "sales.parquet")
    schema = folder / "sales.toml"
    schema.write_text(CAUSE, encoding="utf-8")
    return running_server(single_user_config(schema).model_copy(update={"limits": GENEROUS}))


def words(page: Page) -> list[str]:
    """What an analyst sees of words on the whole page; the true values are offered to curators alone."""
    page.evaluate("document.querySelectorAll('main .curator').forEach((part) => (part.hidden = true))")
    seen: list[str] = page.evaluate(WORDS)
    return seen


@pytest.mark.parametrize("size", SIZES)
def test_two_clicks_lead_from_the_first_screen_to_an_explanation(
    fresh_adult: RunningServer, visit: Visit, size: tuple[int, int]
) -> None:
    page = visit(fresh_adult, viewport={"width": size[0], "height": size[1]})
    heading = page.get_by_role("heading", name="What would you like to know?")
    expect(heading).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0
    offers = page.get_by_role("list", name="Examples").get_by_role("button")
    expect(offers).to_have_text(["Ask · 0.10"] * 3)
    expect(offers.first).to_be_in_viewport(ratio=1)
    expect(run_button(page)).to_be_in_viewport(ratio=1)
    expect(run_button(page)).to_have_text("Run · 0.10")
    expect(page.get_by_role("radio", name="Rough 0.02")).to_be_visible()
    expect(page.get_by_role("tab", name="Form", selected=True)).to_be_visible()
    expect(page.get_by_role("textbox", name="SQL query")).to_have_count(0)
    expect(cost(page)).to_contain_text("in a group of")
    assert len(words(page)) <= FIRST_WORDS, " ".join(words(page))
    example(page).click()
    explain = page.get_by_role("button", name="Explain · 0.02")
    expect(explain).to_be_enabled()
    expect(page.get_by_role("heading", name=f"Why is {PAIR[0]} above {PAIR[1]}?")).to_be_visible()
    above = page.get_by_test_id("verdict").bounding_box()
    below = page.get_by_role("list", name="Groups").bounding_box()
    assert above
    assert below
    assert above["y"] + above["height"] <= below["y"], "the question stands above the rows"
    for label, letter in zip(PAIR, "AB", strict=True):
        expect(group(page, label).locator(".mark")).to_have_text(letter)
    expect(page.get_by_role("switch", name="Just this one")).to_be_hidden()
    explain.click()
    expect(headline(page, "explanation")).to_be_in_viewport(ratio=1)
    assert len(words(page)) <= WORDS_ONCE_EXPLAINED, " ".join(words(page))
    assert spent(page) == 0.12
    assert_accessible(page)


def test_a_choice_of_ones_own_replaces_the_marked_groups(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, f"#/adult?answer={asked(owner(adult))}")
    expect(headline(page)).to_contain_text(PAIR[1])
    choose(page, ("Divorced", "Widowed"))
    expect(headline(page)).to_contain_text("Divorced")
    expect(group(page, PAIR[0])).to_have_attribute("aria-pressed", "false")


def test_back_undoes_a_choice_of_groups(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, f"#/adult?answer={asked(owner(adult))}")
    expect(headline(page)).to_contain_text(PAIR[1])
    choose(page, ("Divorced", "Widowed"))
    expect(headline(page)).to_contain_text("Widowed")
    group(page, "Separated").click()  # takes the place of the second
    expect(headline(page)).to_contain_text("Separated")
    page.go_back()
    expect(headline(page)).to_contain_text("Widowed")
    expect(group(page, "Separated")).to_have_attribute("aria-pressed", "false")
    page.go_back()
    expect(group(page, "Divorced")).to_have_attribute("aria-pressed", "true")
    expect(group(page, "Widowed")).to_have_attribute("aria-pressed", "false")
    page.go_forward()
    expect(headline(page)).to_contain_text("Widowed")


def test_a_link_with_an_unknown_group_says_so(adult: RunningServer, visit: Visit) -> None:
    place = PLACE.format(answer=asked(owner(adult))).replace("Never-married", "Nowhere")
    page = visit(adult, place)
    expect(page.get_by_test_id("missing")).to_have_text(
        "This answer has no group “Nowhere”, which the link names."
    )
    group(page, "Divorced").click()
    expect(page.get_by_test_id("missing")).to_have_count(0)


def _bars(page: Page) -> list[float]:
    """Widths of the bars of the clear conditions, in parts of the axis from nothing to all of the gap."""
    widths: list[float] = (
        table(page).locator(".bar").evaluate_all("(bars) => bars.map((bar) => parseFloat(bar.style.width))")
    )
    return widths


def test_bars_show_shares_of_the_whole_gap_sorted_and_what_is_unclear_is_folded(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    server = servers.enter_context(sales_server(tmp_path))
    client = owner(server)
    answer = asked(client, "SELECT shop, AVG(sold) FROM sales GROUP BY shop", 1.0, "sales")
    body = {"answer": answer, "rho": 0.05}
    assert done(client.post("/datasets/sales/prepare", params={"wait": 60}, json=body))["state"] == "done"
    # At this confidence noise practically never makes a day look like a cause.
    place = f"#/sales?answer={answer}&group=1*A&group=-1*B&explain=5&explain_confidence=0.9999999"
    page = visit(server, place)
    expect(headline(page, "explanation")).to_contain_text("cause “yes”")
    expect(table(page).locator("tbody tr").first).to_contain_text("cause = yes")
    ticks = table(page).locator(".ticks span")
    expect(ticks.first).to_have_text("0%")
    expect(ticks.last).to_have_text("100%")
    bars = _bars(page)
    assert bars == sorted(bars, reverse=True)
    assert bars[0] > 50, "nearly all of the gap"
    axis = table(page).locator(".lane").first.bounding_box()
    card = page.get_by_test_id("explanation").bounding_box()
    assert axis
    assert card
    assert axis["x"] + axis["width"] > card["x"] + 0.85 * card["width"], "the bars fill their place"
    fold = page.get_by_test_id("unclear")
    expect(fold.locator("summary")).to_have_text(re.compile(r"^\d more, too noisy to tell$"))
    expect(fold.get_by_role("row").first).to_be_hidden()
    fold.locator("summary").click()
    expect(fold.get_by_role("row").filter(has_text="day =").first).to_be_visible()
    expect(page.get_by_role("columnheader", name="Rank of")).to_have_count(0)
    assert_accessible(page)


def test_a_tenth_of_the_gap_is_drawn_as_a_tenth(adult: RunningServer, visit: Visit) -> None:
    client = owner(adult)
    answer = asked(client)
    prepared(client, answer)
    page = visit(adult, PLACE.format(answer=answer) + "&explain=5")
    expect(table(page)).to_contain_text("shrinks by")
    assert max(_bars(page)) < 20, "no condition of Adult removes a fifth of this gap"


def test_where_nothing_is_clear_a_button_does_what_would_help(
    fresh_adult: RunningServer, visit: Visit
) -> None:
    client = owner(fresh_adult)
    answer = asked(client)
    body = {"answer": answer, "rho": 1e-5}
    assert done(client.post("/datasets/adult/prepare", params={"wait": 60}, json=body))["state"] == "done"
    page = visit(fresh_adult, PLACE.format(answer=answer) + "&explain=5")
    expect(headline(page, "explanation")).to_contain_text("Nothing measured here clearly explains")
    act = page.get_by_test_id("advice").get_by_role("button")
    before = act.inner_text()
    act.click()
    if before.startswith("Leave out"):
        column = before.removeprefix("Leave out ")
        page.get_by_test_id("options").locator("summary").click()
        expect(page.get_by_role("checkbox", name=column)).not_to_be_checked()
    else:
        expect(page.get_by_test_id("budget-words")).to_contain_text(re.compile(r"Spent 0\.1000[1-9]"))


def _prepare(client: Any, answer: int | str, rho: float, **family: Any) -> None:
    body = {"answer": answer, "rho": rho, "family": family or None}
    body = {name: value for name, value in body.items() if value is not None}
    job = done(client.post("/datasets/adult/prepare", params={"wait": 60}, json=body))
    assert job["state"] == "done", job


def test_a_link_shows_what_it_was_read_off_and_offers_what_is_sharper(
    fresh_adult: RunningServer, visit: Visit
) -> None:
    client = owner(fresh_adult)
    answer = asked(client)
    _prepare(client, answer, 0.001)
    page = visit(fresh_adult, PLACE.format(answer=answer) + "&explain=5")
    expect(table(page)).to_be_visible()
    expect(page).to_have_url(re.compile("&from=2"))
    link, before = page.url, table(page).inner_text()
    report = download(page, page.get_by_test_id("explanation"), "Report as HTML").read_text("utf-8")
    assert re.search(r"release[s]? 2\b|number 2\b", report), "the report names what it was read off"
    _prepare(client, answer, 0.5)
    page.goto("about:blank")
    page.goto(link)
    expect(table(page)).to_have_text(before, use_inner_text=True)
    notice = page.get_by_test_id("verdict").get_by_text("A sharper measurement exists.")
    expect(notice).to_be_visible()
    page.get_by_role("button", name="Show it").click()
    expect(table(page)).not_to_have_text(before, use_inner_text=True)
    expect(page).to_have_url(re.compile("&from=3"))
    expect(notice).to_have_count(0)


def test_a_story_that_is_bought_changes_no_link_and_says_what_it_changes_here(
    fresh_adult: RunningServer, visit: Visit
) -> None:
    client = owner(fresh_adult)
    answer = asked(client)
    _prepare(client, answer, 0.001)
    page = visit(fresh_adult, PLACE.format(answer=answer) + "&explain=5")
    expect(table(page)).to_be_visible()
    expect(page).to_have_url(re.compile("&from=2"))
    link, before = page.url, table(page).inner_text()
    page.get_by_role("button", name="Tell it · 0.10").click()
    expect(headline(page, "story")).to_be_visible()
    expect(page.get_by_test_id("toast")).to_contain_text("now reads the same measurement")
    expect(page).to_have_url(re.compile("&from=3&story=2"))
    second = visit(fresh_adult, link.removeprefix(fresh_adult.url))
    expect(table(second)).to_have_text(before, use_inner_text=True)


def test_a_stop_is_heard_at_once(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    server = servers.enter_context(running_server(config_of(tmp_path, limits=GENEROUS.model_dump())))
    page = visit(server)
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    choose(page, ("North", "South"))
    engine = slow_down(server)
    page.get_by_role("button", name="Explain · 0.02").click()
    assert engine.entered.acquire(timeout=60)
    stop = page.get_by_role("button", name="Stop")
    page.route("**/jobs/*", lambda route: None)  # whatever the server says of it is on its way
    stop.click()
    expect(page.get_by_test_id("verdict")).to_contain_text("Stopping…")
    expect(stop).to_be_disabled()
    page.unroute("**/jobs/*")
    engine.go.set()


def test_a_price_above_what_is_left_becomes_a_request(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    config = config_of(tmp_path, analysts={"default_rho": 0.15}, limits=GENEROUS.model_dump())
    server = servers.enter_context(running_server(config))
    page = visit(server)
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    write_again(page)
    page.get_by_role("radio", name=re.compile("^Sharp")).check()
    button = run_button(page)
    expect(button).to_have_text(re.compile(r"^Ask for 0\.\d+ more$"))
    lacks = button.inner_text().split()[2]
    button.click()
    dialog = page.get_by_role("dialog", name="Ask for")
    expect(dialog.get_by_label("How much more")).to_have_value(lacks)
    expect(dialog.get_by_label("What for")).to_have_value(re.compile("^To run: SELECT"))
    dialog.get_by_role("button", name="Send the request").click()
    expect(cost(page)).to_contain_text(re.compile(r"Asked at \d\d:\d\d, waiting"))
    server.ledger.grant("people", "alice", 2.0, reason="yes", by="carol")
    expect(page.get_by_test_id("toast")).to_contain_text("You were given")
    expect(run_button(page)).to_have_text(re.compile("^Run · "))


def test_the_curators_first_screen_counts_waiting_requests(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    server = servers.enter_context(running_server(config_of(tmp_path, limits=GENEROUS.model_dump())))
    for name in ("alice", "bob"):
        body = {"rho": 0.3, "reason": "One more table."}
        answered = server.client(name).post("/datasets/people/budget/requests", json=body)
        assert answered.is_success, answered.text
    page = visit(server)
    sign_in(page, server.token("carol", "curator"))
    expect(page.get_by_role("link", name="Curator")).to_have_accessible_name("Curator 2 requests wait")
    assert_accessible(page)


def test_nothing_but_what_is_used_is_loaded(adult: RunningServer, visit: Visit) -> None:
    asked_for: list[str] = []
    page = visit(adult, before=lambda page: page.on("request", lambda request: asked_for.append(request.url)))
    expect(cost(page)).to_contain_text("in a group of")
    page.goto(adult.url + PLACE.format(answer=asked(owner(adult))))
    expect(finding(page)).to_be_visible()
    assert not [url for url in asked_for if re.search(r"/(editor|vega)-", url)]
    download(page, page.get_by_test_id("answer"), "Chart as SVG")
    assert [url for url in asked_for if "/vega-" in url]
    write_again(page)
    page.get_by_role("tab", name="SQL").click()
    assert not [url for url in asked_for if "/editor-" in url]
    page.get_by_role("textbox", name="SQL query").focus()
    expect(page.locator(".cm-content")).to_be_visible()
    assert [url for url in asked_for if "/editor-" in url]
