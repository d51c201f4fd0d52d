"""A history of 20,000 lines: read page by page, few rows in the document, found by the server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from page_axe import assert_accessible
from page_figures import LINES, big_server
from page_steps import Visit, cost
from playwright.sync_api import Browser, Locator, Page, expect

from server_fixture import RunningServer

MOST_ROWS = 40  # in sight and around
MOST_NODES = 2_000  # of the whole page; 20,000 lines took 321,190 when all were in it
_NODES = "document.querySelectorAll('*').length"


@pytest.fixture(scope="module")
def long_history(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Only looked at, so that tests share it."""
    with big_server(tmp_path_factory.mktemp("history")) as server:
        yield server


def _open(page: Page) -> Locator:
    expect(cost(page)).not_to_be_empty()
    page.get_by_role("button", name="History").click()
    dialog = page.get_by_role("dialog", name="History")
    expect(_lines(dialog).first).to_be_visible()
    return dialog


def _lines(dialog: Locator) -> Locator:
    return dialog.get_by_role("list", name="Entries, newest first").get_by_role("listitem")


def _scroller(dialog: Locator) -> Locator:
    return dialog.get_by_role("region", name="Entries, newest first")


def _reopen(dialog: Locator, number: int) -> Locator:
    return dialog.get_by_role("button", name=f"Reopen number {number}", exact=True)


def _scroll_until(page: Page, dialog: Locator, line: int) -> None:
    """To the end of what is read, again and again, until this line is among the rows."""
    page.wait_for_function(
        """([part, line]) => { part.scrollTo(0, part.scrollHeight);
        return part.querySelector(`[aria-posinset="${line}"]`) !== null; }""",
        arg=[_scroller(dialog).element_handle(), line],
    )


def test_a_long_history_is_read_page_by_page_and_few_rows_are_in_the_document(
    long_history: RunningServer, visit: Visit
) -> None:
    read: list[str] = []
    page = visit(long_history)
    page.on("request", lambda request: read.append(request.url) if "/history?" in request.url else None)
    dialog = _open(page)
    lines = _lines(dialog)
    expect(_reopen(dialog, LINES)).to_be_visible()
    assert lines.count() <= MOST_ROWS
    assert page.evaluate(_NODES) < MOST_NODES
    assert len(read) == 1, "one page is enough for the first rows"

    _scroll_until(page, dialog, 500)
    expect(_reopen(dialog, LINES - 499)).to_be_attached()
    assert lines.count() <= MOST_ROWS
    assert page.evaluate(_NODES) < MOST_NODES
    assert len(read) < 10, "pages are read as somebody scrolls, not all at once"


def test_a_long_history_is_searched_by_the_server(long_history: RunningServer, visit: Visit) -> None:
    page = visit(long_history)
    dialog = _open(page)
    lines = _lines(dialog)
    search = page.get_by_role("searchbox", name="Find in the history")
    search.fill("zone 007")
    expect(lines.filter(has_not_text="Zone 007")).to_have_count(0)
    expect(lines.first).to_have_attribute("aria-posinset", "1")
    _scroll_until(page, dialog, LINES // 500)
    expect(dialog.get_by_role("status")).to_contain_text(f"{LINES // 500} entries")
    expect(lines.last).to_have_attribute("aria-posinset", str(LINES // 500))
    expect(lines.last).to_have_attribute("aria-setsize", str(LINES // 500))
    search.fill("in no line of it")
    expect(dialog.get_by_text("No entry has this text.")).to_be_visible()
    search.fill("")
    expect(_reopen(dialog, LINES)).to_be_visible()


def test_a_long_history_works_by_keyboard_and_for_screen_readers(
    long_history: RunningServer, visit: Visit
) -> None:
    page = visit(long_history)
    dialog = _open(page)
    lines = _lines(dialog)
    expect(lines.first).to_have_attribute("aria-posinset", "1")
    expect(lines.first).to_have_attribute("aria-setsize", "-1")
    assert_accessible(page)

    first = _reopen(dialog, LINES)
    first.focus()
    for _ in range(60):  # two buttons a line: further than the rows that were there at first
        page.keyboard.press("Tab")
    expect(_reopen(dialog, LINES - 30)).to_be_focused()
    expect(page.locator(":focus")).to_be_in_viewport()
    # What has the focus stays, however far one scrolls.
    _scroller(dialog).evaluate("(part) => part.scrollTo(0, 0)")
    expect(first).to_be_in_viewport()
    expect(_reopen(dialog, LINES - 30)).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.locator(":focus")).to_have_accessible_name(re.compile(r"number"))
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


@pytest.mark.slow
def test_the_first_rows_of_a_long_history_need_no_more_than_those_of_a_short_one(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    """By what is sent and built, which no busy machine changes; benchmarks/page.py has the seconds."""
    sizes = []
    for lines in (100, LINES):
        folder = tmp_path / str(lines)
        folder.mkdir()
        page = visit(servers.enter_context(big_server(folder, lines)))
        expect(cost(page)).not_to_be_empty()
        with page.expect_response(re.compile(r"/history\?")) as response:
            dialog = _open(page)
        sizes.append((len(response.value.body()), dialog.locator("*").count()))
    assert sizes[1][0] < 1.5 * sizes[0][0]
    assert sizes[1][1] < 1.5 * sizes[0][1]
