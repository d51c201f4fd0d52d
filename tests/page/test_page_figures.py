"""The page is light, and large results work; how fast they are is measured by benchmarks/page.py."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from page_figures import GROUPS, ZONES, big_server, loading, weights
from page_servers import asked, owner
from page_steps import Visit, group, run_button, write_sql
from playwright.sync_api import Browser, Page, Route, expect

from server_fixture import RunningServer


def test_the_first_visit_weighs_little(adult: RunningServer, browser: Browser) -> None:
    first = loading(browser, adult.door)
    assert first.bytes <= 250_000
    assert first.requests <= 8
    assert sum(raw for raw, _ in weights().values()) < 2_500_000


@pytest.mark.slow
def test_500_groups_can_be_used(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    page = visit(servers.enter_context(big_server(tmp_path)))
    write_sql(page, ZONES)
    expect(run_button(page)).to_be_enabled()
    run_button(page).click()
    rows = page.get_by_role("list", name="Groups").get_by_role("listitem")
    expect(rows.first).to_have_attribute("aria-setsize", str(GROUPS))
    page.get_by_label("Find a group").fill("Zone 007")
    group(page, "Zone 007").click()
    page.get_by_label("Find a group").fill("")
    expect(rows.first).to_have_attribute("aria-setsize", str(GROUPS))
    page.get_by_label("Find a group").fill("007")
    expect(group(page, "Zone 007")).to_have_attribute("aria-pressed", "true")
    assert rows.count() < 60, "rows out of sight are not in the document, which keeps scrolling fluid"
    page.get_by_label("Find a group").fill("")
    focused = page.locator("li:has(:focus)")
    rows.first.get_by_role("button").focus()
    for _ in range(40):  # further than the rows that were there at first
        page.keyboard.press("ArrowDown")
    expect(focused).to_have_attribute("aria-posinset", "41")
    expect(focused).to_be_in_viewport()
    page.keyboard.press("End")
    expect(focused).to_have_attribute("aria-posinset", str(GROUPS))
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    expect(focused).to_have_attribute("aria-posinset", str(GROUPS))


def test_a_link_asks_for_its_answer_while_the_script_is_on_its_way(
    adult: RunningServer, visit: Visit
) -> None:
    asked_for: list[str] = []
    scripts: list[Route] = []

    def hold_script(route: Route) -> None:
        scripts.append(route)

    def release_script(route: Route) -> None:
        assert scripts, "the page's script is not there yet"
        route.continue_()
        scripts.pop().continue_()

    def watch(page: Page) -> None:
        page.on("request", lambda request: asked_for.append(urlsplit(request.url).path))
        page.route("**/assets/index-*.js", hold_script)
        page.route("**/answers/*", release_script)

    answer = asked(owner(adult))
    page = visit(adult, f"#/adult?answer={answer}", before=watch)
    expect(group(page, "Never-married")).to_be_visible()
    for once in ("/me", "/datasets/adult", f"/datasets/adult/answers/{answer}"):
        assert asked_for.count(f"/api/v1{once}") == 1, once
    assert not any("/editor-" in path for path in asked_for), "a folded form needs no editor"
