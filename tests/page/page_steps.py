"""The steps of a visit by what a person sees: names, roles and words, not the inside of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from page_servers import PAIR
from playwright.sync_api import Locator, Page, Route, expect

Visit = Callable[..., Page]
Shoot = Callable[[Page, str], None]


def example(page: Page) -> Locator:
    """The button that asks the paper's example."""
    cards = page.get_by_role("list", name="Examples").get_by_role("listitem")
    return cards.filter(has_text="Why do married people earn more?").get_by_role("button")


def cost(page: Page) -> Locator:
    return page.get_by_test_id("cost")


def run_button(page: Page) -> Locator:
    return page.get_by_role("group", name="Price", exact=True).locator("button").last


def group(page: Page, label: str) -> Locator:
    return page.get_by_role("list", name="Groups").get_by_role("button", name=re.compile(rf"^\W*{label}"))


def finding(page: Page, part: str = "verdict") -> Locator:
    """What a result says first: of the answer, verdict, explanation or story, once it is known."""
    return page.get_by_test_id(part).get_by_test_id("finding")


def badge(page: Page) -> Locator:
    """The verdict in three words; the finding around it explains all of them."""
    return page.get_by_test_id("badge")


def headline(page: Page, part: str = "verdict") -> Locator:
    return finding(page, part).get_by_test_id("headline")


def notes(page: Page, part: str = "verdict") -> Locator:
    """Everything else that a result says, opened."""
    fold = page.get_by_test_id(part).get_by_test_id("notes").first
    if fold.get_attribute("open") is None:
        fold.locator("summary").click()
    return fold


def table(page: Page) -> Locator:
    return page.get_by_test_id("explanation-table").first


def options(page: Page) -> Locator:
    """What few people need before they ask why, opened."""
    fold = page.get_by_test_id("options")
    if fold.get_attribute("open") is None:
        fold.locator("summary").click()
    return fold


def unfold(page: Page) -> None:
    """Show the conditions of an explanation, also if they are lost in noise."""
    expect(headline(page, "explanation")).to_be_visible()
    fold = page.get_by_test_id("explanation").get_by_text("too noisy to tell")
    if fold.is_visible() and not table(page).is_visible():
        fold.click()
    expect(table(page)).to_be_visible()


def spent(page: Page) -> float:
    """What the budget bar says was spent."""
    words = page.get_by_test_id("budget-words").inner_text()
    found = re.search(r"Spent\s+([\d.,]+)", words)
    assert found, words
    return float(found.group(1))


def write_again(page: Page) -> None:
    """Open the form, which is one sentence once it was answered."""
    change = page.get_by_role("button", name="Ask something else")
    if change.is_visible():
        change.click()


def write_sql(page: Page, sql: str) -> None:
    """Into the editor, which is loaded when somebody writes, as a person pastes it."""
    write_again(page)
    page.get_by_role("tab", name="SQL").click()
    page.get_by_role("textbox", name="SQL query").click()
    expect(page.locator(".cm-content")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)
    page.keyboard.press("Escape")


@contextmanager
def held_in_page(page: Page, ending: str) -> Iterator[None]:
    """Calls of `fetch` to addresses with that ending wait until the block ends.

    In the page itself: interception by the browser can begin a moment late, and then lets a request through.
    """
    page.evaluate(
        """(ending) => {
            const fetch = window.fetch;
            const waiting = [];
            window.fetch = (address, options) =>
                String(address).endsWith(ending)
                    ? new Promise((resolve) => waiting.push(() => resolve(fetch(address, options))))
                    : fetch(address, options);
            window.releaseFetch = () => {
                window.fetch = fetch;
                waiting.forEach((release) => release());
            };
        }""",
        ending,
    )
    yield
    page.evaluate("window.releaseFetch()")


def set_price(page: Page, label: str, rho: float) -> None:
    if label == "Budget for this answer":
        write_again(page)
    field = page.get_by_role("spinbutton", name=label, exact=True, include_hidden=True)
    if not field.is_visible():  # the number stands under the words for precision
        page.locator("details", has=field).locator("summary").click()
    field.fill(str(rho))


def ask(page: Page, sql: str, rho: float) -> None:
    write_sql(page, sql)
    set_price(page, "Budget for this answer", rho)
    expect(run_button(page)).to_have_text(f"Run · {rho:.2f}")
    expect(run_button(page)).to_be_enabled()
    run_button(page).click()
    expect(page.get_by_test_id("answer")).to_be_visible()


def choose(page: Page, labels: tuple[str, str] = PAIR) -> None:
    for label in labels:
        group(page, label).click()


def download(page: Page, within: Locator, item: str) -> Path:
    """The file that an item of an export menu saves."""
    within.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        within.get_by_role("button", name=item).click()
    return Path(waiting.value.path())


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def moving(page: Page) -> list[str]:
    """What moves by itself at this moment."""
    found: list[str] = page.evaluate(
        """() => document.getAnimations().filter((one) => one.playState === 'running'
        && one.effect.getComputedTiming().activeDuration > 20)
        .map((one) => one.animationName || 'a change')"""
    )
    return found


@contextmanager
def held(page: Page, address: str) -> Iterator[None]:
    """Requests to that address wait, as on a slow network, until the block ends and there was one."""
    waiting: list[Route] = []
    slow = True

    def hold(route: Route) -> None:
        if slow:
            waiting.append(route)
        else:
            route.continue_()

    page.route(address, hold)
    with page.expect_request(address):  # otherwise an address that nobody asks would hold nothing, unnoticed
        yield
    slow = False
    for route in waiting:
        route.continue_()
    page.unroute(address)
