"""The Content-Security-Policy is strict and the page lives by it; what a schema says is shown as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_servers import GENEROUS, owner
from page_steps import Visit, ask, choose, download, finding, group, table
from playwright.sync_api import Browser, Dialog, Page, expect

from dpxplain.server.app import single_user_config
from server_fixture import RunningServer, running_server

EVIL = "<img src=x onerror=alert(1)>"
WORSE = "</script><script>alert(2)</script>"
SCHEMA = f"""[table]
name = "people"
source = "people.parquet"
[privacy]
rho = 100.0
[columns.place]
values = ["{EVIL}", "{WORSE}", "Home"]
description = "{EVIL} where they live"
[columns.kind]
values = ["{EVIL}", "a", "b", "c", "d"]
[columns.pay]
bounds = [0, 10]
"""


@pytest.fixture(scope="module")
def evil(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Declared names that would run if they were ever taken for HTML."""
    folder = tmp_path_factory.mktemp("evil")
    rows = range(3000)
    columns = {
        "place": [(EVIL, WORSE, "Home")[n % 3] for n in rows],
        "kind": [(EVIL, "a", "b", "c", "d")[n // 3 % 5 if n % 3 else 0] for n in rows],
        "pay": [9.0 if n % 3 == 0 else 1.0 for n in rows],
    }
    pq.write_table(pa.table(columns), folder / "people.parquet")
    (folder / "people.toml").write_text(SCHEMA, encoding="utf-8")
    config = single_user_config(folder / "people.toml").model_copy(update={"limits": GENEROUS})
    with running_server(config) as running:
        yield running


def _policy(server: RunningServer, path: str) -> dict[str, list[str]]:
    response = owner(server).get(server.url + path)
    directives = response.headers["content-security-policy"].split(";")
    return {name: values for name, *values in (directive.split() for directive in directives)}


@pytest.mark.parametrize("path", ["", "api/v1/docs", "api/v1/health", "assets/none.js"])
def test_scripts_come_from_the_server_only(evil: RunningServer, path: str) -> None:
    policy = _policy(evil, path)
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == ["'self'"]
    assert policy["connect-src"] == ["'self'"]
    assert policy["frame-ancestors"] == ["'none'"]
    assert not any("unsafe-eval" in value for values in policy.values() for value in values)
    assert all("'unsafe-inline'" not in policy[name] for name in policy if name != "style-src")


def test_the_browser_enforces_it(evil: RunningServer, visit: Visit) -> None:
    page = visit(evil, expecting=("policy: script-src", "Content Security Policy"))
    # In a task of its own: what the debugger evaluates by itself is exempt.
    said = page.evaluate(
        """() => new Promise((resolve) => setTimeout(() => {
        try { eval('1'); resolve('it ran'); } catch (error) { resolve(error.message); } }))"""
    )
    assert "unsafe-eval" in said
    page.evaluate(
        """() => { const script = document.createElement('script');
        script.textContent = 'window.ran = true'; document.body.append(script); }"""
    )
    assert page.evaluate("window.ran") is None


def test_declared_names_are_shown_as_text_everywhere(
    evil: RunningServer, visit: Visit, tmp_path: Path
) -> None:
    alerts: list[str] = []

    def alarm(dialog: Dialog) -> None:
        alerts.append(dialog.message)
        dialog.dismiss()

    page: Page = visit(evil, before=lambda page: page.on("dialog", alarm))
    page.get_by_text("What is in the data").click()
    expect(page.get_by_text(f"{EVIL} where they live")).to_be_visible()
    expect(page.get_by_text(f"{EVIL} · {WORSE} · Home")).to_be_visible()
    ask(page, "SELECT place, AVG(pay) FROM people GROUP BY place", 0.5)
    expect(group(page, "<img")).to_contain_text(EVIL)
    choose(page, ("<img", "<.script>"))
    expect(finding(page)).to_contain_text(f"Why is {EVIL} above {WORSE}")
    page.get_by_role("button", name="Explain · 0.02").click()
    expect(table(page)).to_contain_text(EVIL)
    report = download(page, page.get_by_test_id("explanation"), "Report as HTML").read_text(encoding="utf-8")
    assert EVIL not in report
    assert WORSE not in report
    page.get_by_role("button", name="History").click()
    expect(page.get_by_role("dialog", name="History").get_by_role("listitem")).to_have_count(2)
    assert page.locator("img").count() == 0
    assert alerts == []

    saved = tmp_path / "report.html"
    saved.write_text(report, encoding="utf-8")
    page.goto(saved.as_uri())
    expect(page.get_by_text(EVIL).first).to_be_visible()
    assert alerts == [], "nor does a saved report run anything"
