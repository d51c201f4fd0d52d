"""The story of a gap on the page: its price as a whole, its words, chart and table, and files of it."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from page_axe import assert_accessible
from page_servers import GENEROUS, PLACE, adult_config, asked, done, owner
from page_steps import Shoot, Visit, ask, choose, download, finding, group, headline, sign_in, spent, table
from playwright.sync_api import Browser, Locator, Page, expect
from slow_engine import slow_down

from server_fixture import SQL, RunningServer, config_of, running_server

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def server(browser: Browser) -> Iterator[RunningServer]:
    """Where no story has been paid for yet."""
    with running_server(adult_config()) as running:
        yield running


@pytest.fixture(scope="module")
def told(browser: Browser) -> Iterator[tuple[RunningServer, str]]:
    """Where one has, and the address that it is told at."""
    with running_server(adult_config()) as running:
        client = owner(running)
        answer = asked(client)
        body = {"answer": answer, "rho": 0.5, "family": {"conjuncts": 2, "nested": True}}
        job = done(client.post("/datasets/adult/prepare", params={"wait": 60}, json=body))
        assert job["state"] == "done", job
        yield running, PLACE.format(answer=answer) + "&story=2"


def panel(page: Page) -> Locator:
    return page.get_by_test_id("story")


def words(page: Page) -> Locator:
    return finding(page, "story")


def test_a_story_is_priced_as_a_whole_and_then_free_for_all_groups(
    server: RunningServer, visit: Visit
) -> None:
    page = visit(server, PLACE.format(answer=asked(owner(server))))
    expect(finding(page)).to_be_visible()
    before = spent(page)
    page.get_by_role("button", name="Explain · 0.02").click()
    expect(table(page)).to_be_visible()
    before = spent(page)
    buy = panel(page).get_by_role("button", name="Tell it · 0.10")
    expect(buy).to_be_enabled()
    panel(page).get_by_text("Options").click()
    expect(page.get_by_test_id("story-cost")).to_contain_text("Up to 2 steps")
    panel(page).get_by_label("Steps at most").select_option("1")
    expect(
        panel(page).get_by_role("button", name="Tell it · free")
    ).to_be_enabled()  # it is in the explanation
    panel(page).get_by_label("Steps at most").select_option("2")
    expect(buy).to_be_enabled()
    assert spent(page) == before, "looking at prices spends nothing"
    buy.click()
    expect(headline(page, "story")).to_be_focused()
    assert spent(page) == pytest.approx(before + 0.1)
    expect(page).to_have_url(re.compile(r"story=2"))
    # Other groups of the same answer: their story follows, and nothing is paid again.
    first = words(page).inner_text()
    group(page, "Divorced").click()
    expect(words(page)).not_to_have_text(first, use_inner_text=True)
    assert spent(page) == pytest.approx(before + 0.1)
    # What a story is prepared with explains by single conditions, too.
    expect(table(page)).to_be_visible()


@pytest.mark.slow
def test_a_reload_finds_the_job_of_a_story_again(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    server = servers.enter_context(running_server(config_of(tmp_path, limits=GENEROUS.model_dump())))
    page = visit(server)
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    choose(page, ("North", "South"))
    page.get_by_role("button", name="Explain · 0.02").click()
    buy = panel(page).get_by_role("button", name="Tell it · 0.10")
    expect(buy).to_be_enabled()
    engine = slow_down(server)
    buy.click()
    assert engine.entered.acquire(timeout=60)
    expect(page).to_have_url(re.compile("story=2&job="))
    page.reload()
    expect(panel(page).get_by_role("button", name="Stop")).to_be_visible()
    expect(page).to_have_url(re.compile("story=2&job="))
    engine.go.set()
    expect(words(page)).to_be_visible()
    expect(page).not_to_have_url(re.compile("job="))
    assert spent(page) == pytest.approx(0.22)


def test_a_link_to_a_story_opens_at_it_and_it_reads_as_a_tree(
    told: tuple[RunningServer, str], visit: Visit, shoot: Shoot
) -> None:
    server, place = told
    page = visit(server, place)
    rows = page.get_by_test_id("story-tree").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("all rows")
    expect(rows.nth(2).get_by_role("rowheader")).to_contain_text("Step 1: ")
    expect(rows.last.get_by_role("rowheader")).to_contain_text("without")
    expect(panel(page).locator(".bar").first).to_be_visible()
    expect(headline(page, "story")).to_be_in_viewport()
    assert_accessible(page)
    shoot(page, "19-story")


def test_a_story_leaves_the_page_whole(told: tuple[RunningServer, str], visit: Visit) -> None:
    server, place = told
    page = visit(server, place)
    expect(words(page)).to_be_visible()
    lines = list(csv.DictReader(download(page, panel(page), "Table as CSV").read_text("utf-8").splitlines()))
    assert lines[0]["rows"] == "all"
    assert {line["rows"] for line in lines[1:]} == {"with", "without"}
    assert "Married-civ-spouse" in lines[0]["question"]
    assert "95% intervals" in lines[0]["source"]
    drawn = download(page, panel(page), "Chart as SVG").read_text("utf-8")
    assert "Married-civ-spouse" in drawn
    assert "adult" in drawn
    report = download(page, panel(page), "Report as HTML").read_text("utf-8")
    assert html.escape(headline(page, "story").inner_text()) in report


def test_a_story_is_told_by_keyboard_alone(told: tuple[RunningServer, str], visit: Visit) -> None:
    server, place = told
    page = visit(server, place.replace("&story=2", "&explain=5"))
    free = panel(page).get_by_role("button", name="Tell it · free")
    expect(free).to_be_enabled()
    page.get_by_role("switch", name="Influence and rank").focus()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.includes('Tell it')"):
            break
    expect(free).to_be_focused()
    page.keyboard.press("Enter")
    expect(words(page)).to_be_visible()
    expect(page.get_by_test_id("live-progress")).to_contain_text(headline(page, "story").inner_text())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_story_fits_a_phone(told: tuple[RunningServer, str], visit: Visit, scheme: str) -> None:
    server, place = told
    page = visit(server, place, color_scheme=scheme, **PHONE)
    expect(panel(page).locator(".bar").first).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, "nothing is wider than the screen"
    assert_accessible(page)


def test_a_ratio_has_no_story(told: tuple[RunningServer, str], visit: Visit) -> None:
    server, place = told
    page = visit(server, place.removesuffix("&story=2") + "&compare=ratio")
    expect(finding(page)).to_be_visible()
    expect(panel(page)).to_have_count(0)


def test_the_history_calls_a_story_a_story(told: tuple[RunningServer, str], visit: Visit) -> None:
    page = visit(told[0])
    page.get_by_role("button", name="History").click()
    dialog = page.get_by_role("dialog", name="History")
    newest = dialog.get_by_role("list", name="Entries, newest first").get_by_role("listitem").first
    expect(newest).to_contain_text(re.compile("^Story"))
