"""The page is light, and large results work; how fast they are is measured by benchmarks/page.py."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from page_figures import GROUPS, ZONES, big_server, loading, weights
from page_steps import Visit, group, run_button, write_sql
from playwright.sync_api import Browser, expect

from server_fixture import RunningServer


def test_the_first_visit_weighs_little(adult: RunningServer, browser: Browser) -> None:
    assert loading(browser, adult.door).bytes < 1_000_000
    assert sum(raw for raw, _ in weights().values()) < 2_500_000


@pytest.mark.slow
def test_500_groups_can_be_used(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    page = visit(servers.enter_context(big_server(tmp_path)))
    expect(page.locator(".cm-content")).to_be_visible()
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
