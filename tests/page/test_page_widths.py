"""From phone to wide screen, light and dark: nothing sticks out, nothing overlaps, nothing moves unasked."""

from __future__ import annotations

import pytest
from page_looks import OPEN_ALL, assert_fits
from page_servers import explained_place
from page_steps import Shoot, Visit, cost, table
from playwright.sync_api import expect

from server_fixture import RunningServer

PICTURES = {390: "14-phone", 1280: "15-desktop"}
HEIGHTS = {390: 844, 768: 1024, 1280: 900, 1920: 1080}


@pytest.mark.parametrize(
    "width", [pytest.param(width, marks=() if width in PICTURES else pytest.mark.slow) for width in HEIGHTS]
)
def test_everything_fits(adult: RunningServer, visit: Visit, shoot: Shoot, width: int) -> None:
    size = {"width": width, "height": HEIGHTS[width]}
    page = visit(adult, viewport=size, has_touch=width < 1000)
    expect(cost(page)).not_to_be_empty()
    assert_fits(page)
    page.goto(adult.url + explained_place(adult))
    expect(table(page)).to_be_visible()
    for part in ("verdict", "explanation"):
        expect(page.get_by_test_id(part).locator(".drawing svg, .drawing canvas")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert_fits(page)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (sum(paper[:3]) < 300) == (scheme == "dark")
    if width in PICTURES:
        page.locator("#explanation-title").evaluate("(title) => title.scrollIntoView()")
        shoot(page, f"{PICTURES[width]}-dark")
    page.evaluate(OPEN_ALL)
    assert_fits(page)


def test_a_chosen_theme_goes_over_the_systems_and_is_kept(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, color_scheme="dark")
    page.get_by_role("button", name="Theme: as the system").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
