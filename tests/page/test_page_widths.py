"""From phone to wide screen, light and dark: nothing sticks out, nothing overlaps, nothing moves unasked."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_looks import CUT_LABELS, OPEN_ALL, TOUCHING_LABELS, assert_fits
from page_servers import GENEROUS, PLACE, asked, explained_place, owner, prepared
from page_steps import Shoot, Visit, cost, table
from playwright.sync_api import expect

from dpxplain.server.app import single_user_config
from server_fixture import RunningServer, running_server

PICTURES = {390: "14-phone", 1280: "15-desktop"}
HEIGHTS = {390: 844, 768: 1024, 1280: 900, 1920: 1080}

VISITS = 200_000
EMPTY = [f"Branch {number}" for number in range(12)]
SCHEMA = f"""
[table]
name = "visits"
source = "visits.parquet"
[privacy]
rho = 10.0
[columns.place]
values = {["Centre", *EMPTY]}
[columns.hour]
values = ["early", "noon", "late"]
"""
BY_PLACE = "SELECT place, COUNT(*) FROM visits GROUP BY place"
GAP = "#/visits?answer={answer}&group=1*Centre&group=-1*Branch 0&explain=5"


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
    expect(table(page).locator(".bar").first).to_be_visible()
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


def _visits_server(folder: Path) -> AbstractContextManager[RunningServer]:
    """Everybody comes to one place; of the twelve empty ones some interval surely begins below zero."""
    hours = ["early", "noon", "noon", "late"] * (VISITS // 4)
    pq.write_table(pa.table({"place": ["Centre"] * VISITS, "hour": hours}), folder / "visits.parquet")
    schema = folder / "visits.toml"
    schema.write_text(SCHEMA, encoding="utf-8")
    return running_server(single_user_config(schema).model_copy(update={"limits": GENEROUS}))


@pytest.mark.parametrize("width", [1440, 390])
def test_no_number_of_an_axis_is_cut_or_covered(
    tmp_path: Path, servers: ExitStack, visit: Visit, width: int
) -> None:
    server = servers.enter_context(_visits_server(tmp_path))
    client = owner(server)
    answer = asked(client, BY_PLACE, dataset="visits")
    prepared(client, answer, dataset="visits")
    rows = client.get(f"/datasets/visits/answers/{answer}").json()["rows"]
    assert min(row["low"] for row in rows) < 0, "which must not stretch the axis by a whole step"
    page = visit(server, GAP.format(answer=answer), viewport={"width": width, "height": 900})
    expect(table(page)).to_be_visible()
    expect(table(page).locator(".bar").first).to_be_visible()
    groups = page.get_by_test_id("groups").locator(".ticks span")
    # On a phone every second number, as all of them would run into each other.
    numbers = ["0", "50,000", "100,000", "150,000", "200,000"]
    expect(groups).to_have_text(numbers if width > 1000 else numbers[::2])
    assert page.evaluate(CUT_LABELS) == []
    assert page.evaluate(TOUCHING_LABELS) == []


STAYING = """() => [...document.querySelectorAll('body *')].filter((part) => {
  const { position } = getComputedStyle(part);
  const { top, bottom, width } = part.getBoundingClientRect();
  return /fixed|sticky/.test(position) && part.checkVisibility() && width >= innerWidth / 2
    && bottom > 0 && top < innerHeight;
}).reduce((height, part) => height + part.getBoundingClientRect().height, 0) / innerHeight"""


def test_at_400_percent_at_most_a_third_of_the_window_stays_while_one_scrolls(
    adult: RunningServer, visit: Visit
) -> None:
    page = visit(adult, viewport={"width": 320, "height": 256})
    expect(cost(page)).not_to_be_empty()
    page.evaluate("scrollTo({ top: 400, behavior: 'instant' })")
    expect(page.get_by_role("banner")).not_to_be_in_viewport()
    assert page.evaluate(STAYING) <= 1 / 3
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("size", [(390, 844), (320, 256)])
def test_a_toast_lets_every_click_through_and_stands_above_what_stays(
    adult: RunningServer, visit: Visit, size: tuple[int, int]
) -> None:
    page = visit(
        adult,
        PLACE.format(answer=asked(owner(adult))),
        viewport={"width": size[0], "height": size[1]},
    )
    page.get_by_test_id("answer").get_by_role("button", name="Pin").click()
    toast = page.get_by_test_id("toast")
    top, bottom, is_hit = toast.evaluate("""(toast) => {
        const { top, bottom } = toast.getBoundingClientRect();
        return [top, bottom, document.elementFromPoint(innerWidth / 2, (top + bottom) / 2) === toast];
    }""")
    assert not is_hit
    assert bottom <= page.evaluate(
        "document.querySelector('.strip')?.getBoundingClientRect().top ?? innerHeight"
    )
    assert bottom - top <= size[1] / 6
