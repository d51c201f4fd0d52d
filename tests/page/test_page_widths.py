"""From phone to wide screen, light and dark: nothing sticks out, nothing overlaps, nothing moves unasked."""

from __future__ import annotations

import pytest
from page_servers import explained_place
from page_steps import Shoot, Visit, cost, table
from playwright.sync_api import Page, expect

from server_fixture import RunningServer

HEIGHTS = {390: 844, 768: 1024, 1280: 900, 1920: 1080}

# Pairs of visible parts that lie on each other without one being inside the other.
OVERLAPS = """(selector) => {
  const shown = { visibilityProperty: true, opacityProperty: true };
  const parts = [...document.querySelectorAll(selector)].filter((part) => part.checkVisibility(shown)
    && part.getClientRects().length && !part.closest('[aria-hidden=true], .unseen, .skip, dialog'));
  const name = (part) => `${part.tagName} ${part.getAttribute('aria-label') || part.textContent.trim()}`;
  const boxes = parts.map((part) => ({ part, box: part.getBoundingClientRect() }));
  const found = [];
  boxes.forEach(({ part, box }, i) => boxes.slice(i + 1).forEach(({ part: other, box: next }) => {
    const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left);
    const high = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
    if (wide > 1 && high > 1 && !part.contains(other) && !other.contains(part))
      found.push(`${name(part).slice(0, 50)} / ${name(other).slice(0, 50)}`);
  }));
  return found;
}"""
# A part that scrolls by itself may hold what is wider.
STICKING_OUT = """() => [...document.querySelectorAll('main *, header *, footer *')].filter((part) => {
  const box = part.getBoundingClientRect();
  if (!box.width || !part.checkVisibility() || part.closest('.unseen, .skip, svg')) return false;
  for (let around = part.parentElement; around; around = around.parentElement)
    if (/auto|scroll|hidden|clip/.test(getComputedStyle(around).overflowX)) return false;
  return box.right > innerWidth + 1 || box.left < -1;
}).map((part) => part.outerHTML.slice(0, 120))"""
OPEN_ALL = "document.querySelectorAll('main details').forEach((part) => (part.open = true))"
SECTIONS = "header, main > section, main > div, footer"
CONTROLS = ":is(main, header) :is(button, select, input, textarea, summary, a)"


def _fits(page: Page) -> None:
    page.evaluate("scrollTo(0, 0)")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("innerWidth")
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate(OVERLAPS, SECTIONS) == []
    assert page.evaluate(OVERLAPS, CONTROLS) == []


@pytest.mark.parametrize("width", HEIGHTS)
def test_everything_fits(adult: RunningServer, visit: Visit, shoot: Shoot, width: int) -> None:
    size = {"width": width, "height": HEIGHTS[width]}
    page = visit(adult, viewport=size, has_touch=width < 1000)
    expect(cost(page)).not_to_be_empty()
    _fits(page)
    page.goto(adult.url + explained_place(adult))
    expect(table(page)).to_be_visible()
    for part in ("verdict", "explanation"):
        expect(page.get_by_test_id(part).locator(".drawing svg, .drawing canvas")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        _fits(page)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (sum(paper[:3]) < 300) == (scheme == "dark")
    page.get_by_test_id("answer").scroll_into_view_if_needed()
    shoot(page, f"width-{width}-answer-dark")
    page.get_by_test_id("explanation").scroll_into_view_if_needed()
    shoot(page, f"width-{width}-explanation-dark")
    page.evaluate(OPEN_ALL)
    _fits(page)


def test_a_chosen_theme_goes_over_the_systems_and_is_kept(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, color_scheme="dark")
    page.get_by_role("button", name="Theme: as the system").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
