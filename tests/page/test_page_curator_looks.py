"""The curator's view, signing in and the choice of data: accessible, and fitting on phone and desktop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_axe import assert_accessible
from page_looks import assert_fits
from page_servers import GENEROUS, asked, prepared
from page_steps import Visit, sign_in, unfold
from playwright.sync_api import Browser, Page, expect

from server_fixture import SQL, RunningServer, add_dataset, config_of, running_server

LOOKS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
}


@pytest.fixture(scope="module")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Two data sets, one of them asked about by alice, whose history everybody may read."""
    folder: Path = tmp_path_factory.mktemp("looks")
    config = config_of(folder, limits=GENEROUS.model_dump())
    add_dataset(folder, "others")
    with running_server(config) as running:
        client = running.client("alice")
        prepared(client, asked(client, SQL, 0.1, "people"), "people")
        body = {"owner": "alice", "reader": "*", "reason": "to compare"}
        assert running.curator().post("/datasets/people/shares", json=body).is_success
        yield running


def _is_good(page: Page) -> None:
    assert_accessible(page)
    assert_fits(page)


each_look = pytest.mark.parametrize(
    "look",
    [
        pytest.param(LOOKS["desktop"], id="desktop", marks=pytest.mark.slow),
        pytest.param(LOOKS["phone"], id="phone"),
    ],
)


@each_look
def test_signing_in_and_choosing_data(server: RunningServer, visit: Visit, look: dict[str, Any]) -> None:
    page = visit(server, expecting=("status of 401",), **look)
    page.get_by_label("Access token").fill("dpx_wrong_token")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    _is_good(page)
    sign_in(page, server.token("alice"))
    expect(page.get_by_role("heading", name="Which data would you like to ask about?")).to_be_visible()
    _is_good(page)
    page.goto(f"{server.url}#/curator")
    expect(page.get_by_role("main")).to_contain_text("curator")
    _is_good(page)


@each_look
def test_every_section_of_the_curator(server: RunningServer, visit: Visit, look: dict[str, Any]) -> None:
    page = visit(server, "#/curator", expecting=("status of 400",), **look)
    sign_in(page, server.token("carol", "curator"))
    expect(page.get_by_test_id("declared").get_by_role("listitem")).to_have_count(2)
    _is_good(page)
    page.goto(f"{server.url}#/curator/datasets/edit/people")
    expect(page.get_by_test_id("findings")).to_contain_text("valid schema")
    expect(page.get_by_test_id("toml-editor").locator(".cm-content")).to_be_visible()
    _is_good(page)
    page.goto(f"{server.url}#/curator/people/people")
    expect(page.get_by_test_id("allowances")).to_contain_text("alice")
    _is_good(page)
    page.get_by_role("button", name="Top up alice").click()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("tokens")).to_contain_text("carol")
    page.goto(f"{server.url}#/curator/datasets/new")
    expect(page.get_by_test_id("wizard")).to_be_visible()
    _is_good(page)
    page.goto(f"{server.url}#/curator/audit")
    page.get_by_role("button", name="Verify the log").click()
    expect(page.get_by_test_id("verified")).to_contain_text("intact")
    _is_good(page)


@pytest.mark.slow
@each_look
def test_the_truth_beside_the_answer(server: RunningServer, visit: Visit, look: dict[str, Any]) -> None:
    page = visit(server, "#/people?answer=1@alice&group=1*North&group=-1*South&explain=5", **look)
    sign_in(page, server.token("carol", "curator"))
    unfold(page)
    for part in ("groups", "explanation"):
        shown = page.get_by_test_id(part)
        shown.get_by_role("switch", name="Compare with the truth").check()
        expect(shown.get_by_test_id("covered")).to_be_visible()
    assert_accessible(page)
