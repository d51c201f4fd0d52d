"""Small things: slow days, small data sets, small screens."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from page_axe import assert_accessible
from page_looks import assert_fits
from page_servers import EXAMPLE, GENEROUS, PLACE, asked, owner
from page_steps import (
    Visit,
    ask,
    choose,
    cost,
    finding,
    held,
    held_in_page,
    run_button,
    set_price,
    sign_in,
    write_sql,
)
from playwright.sync_api import expect

from server_fixture import SCHEMA, SQL, RunningServer, add_dataset, config_of, running_server

OTHER = "SELECT sex, COUNT(*) FROM adult GROUP BY sex"


def test_what_is_typed_while_a_linked_answer_loads_is_kept(adult: RunningServer, visit: Visit) -> None:
    address = PLACE.format(answer=asked(owner(adult)))
    page = visit(adult)
    expect(cost(page)).not_to_be_empty()
    with held(page, "**/answers/*"):
        page.goto(adult.url + address)
        page.reload()
        page.get_by_role("button", name="Ask something else").click()
        write_sql(page, OTHER)
    expect(finding(page, "answer")).to_be_visible()
    expect(page.locator(".cm-content")).to_contain_text("SELECT sex")


def test_an_old_price_is_not_told_beside_a_new_one(adult: RunningServer, visit: Visit) -> None:
    asked(owner(adult), EXAMPLE)
    page = visit(adult)
    write_sql(page, EXAMPLE)
    expect(cost(page)).to_contain_text("Free")
    with held(page, "**/preview"):
        set_price(page, "Budget for this answer", 0.3)
        expect(run_button(page)).to_have_text("Run · 0.30")
        told = cost(page).get_by_test_id("margin").and_(cost(page).locator(":not(.stale)"))
        expect(told.filter(has_text="Free")).to_have_count(0)
    expect(cost(page)).to_contain_text("in a group of")


def test_the_form_waits_until_typed_sql_is_read(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult)
    grouping = page.get_by_role("combobox", name="Group by")
    expect(grouping).to_have_value("marital_status")
    expect(grouping).to_be_enabled()
    with held_in_page(page, "/preview"):
        write_sql(page, OTHER)
        page.get_by_role("tab", name="Form").click()
        expect(grouping).to_be_disabled()
    expect(grouping).to_be_enabled()
    expect(grouping).to_have_value("sex")
    grouping.select_option("race")
    page.get_by_role("tab", name="SQL").click()
    expect(page.get_by_role("textbox", name="SQL query")).to_have_value(
        re.compile(r"^SELECT race, COUNT\(\*\)")
    )


def test_few_predicates_are_not_refused_for_being_few(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    config = config_of(tmp_path, limits=GENEROUS.model_dump())
    few = SCHEMA.replace("[columns.age]\nedges = [0, 20, 40, 60, 80]\n\n", "")
    (tmp_path / "people.toml").write_text(few, encoding="utf-8")
    server = servers.enter_context(running_server(config))
    page = visit(server)
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    choose(page, ("North", "South"))
    expect(page.get_by_role("button", name="Explain · 0.02")).to_be_enabled()
    assert page.get_by_test_id("verdict").get_by_role("alert").count() == 0


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.mark.slow
def test_the_answer_as_a_table_can_be_scrolled_by_keyboard_on_a_phone(
    adult: RunningServer, visit: Visit
) -> None:
    page = visit(adult, PLACE.format(answer=asked(owner(adult))), **PHONE)
    page.get_by_text("As a table").click()
    expect(page.get_by_role("table", name="released values and intervals")).to_be_visible()
    assert_accessible(page)


@pytest.mark.slow
def test_a_curator_of_several_data_sets_has_a_bar_that_fits_a_phone(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    config = config_of(tmp_path, limits=GENEROUS.model_dump())
    add_dataset(tmp_path, "others")
    server = servers.enter_context(running_server(config))
    page = visit(server, "#/people", **PHONE)
    sign_in(page, server.token("carol", "curator"))
    expect(cost(page)).not_to_be_empty()
    assert_fits(page)
