"""Faults that people met on the first page: results out of view, swallowed clicks, lost jobs and tokens."""

from __future__ import annotations

import csv
import re
import struct
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_servers import GENEROUS, PLACE, asked, done, explained_place, owner
from page_steps import (
    Visit,
    ask,
    choose,
    cost,
    download,
    finding,
    group,
    headline,
    held,
    held_in_page,
    options,
    run_button,
    set_price,
    sign_in,
    spent,
    table,
    unfold,
    write_sql,
)
from playwright.sync_api import Page, expect
from slow_engine import slow_down

from dpxplain.ledger.ledger import open_ledger
from dpxplain.server.config import Config
from server_fixture import SCHEMA, SQL, RunningServer, config_of, running_server, write_people

FILTERED = "SELECT sex, COUNT(*) FROM adult WHERE race = 'Black' GROUP BY sex"
WIDTHS = (
    pytest.param((1440, 900), id="1440", marks=pytest.mark.slow),
    pytest.param((1024, 768), id="1024", marks=pytest.mark.slow),
    pytest.param((390, 844), id="390"),
)
PEOPLE = ("North", "South")
TWO_COLUMNS = 1280  # pixels of a window
RIGHT_END = "(part) => part.getBoundingClientRect().right"


def people(folder: Path, servers: ExitStack) -> RunningServer:
    return servers.enter_context(running_server(config_of(folder, limits=GENEROUS.model_dump())))


def signed_in(visit: Visit, server: RunningServer, name: str = "alice", address: str = "") -> Page:
    page = visit(server, address)
    sign_in(page, server.token(name))
    return page


def test_a_filtered_answer_says_its_filter_in_title_and_files(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult, f"#/adult?answer={asked(owner(adult), FILTERED)}")
    title = "Number of rows by sex, only where race is Black"
    expect(finding(page, "answer")).to_contain_text(title)
    rows = download(page, page.get_by_test_id("answer"), "Table as CSV").read_text(encoding="utf-8")
    assert {row["question"] for row in csv.DictReader(rows.splitlines())} == {title}
    image = download(page, page.get_by_test_id("answer"), "Chart as SVG").read_text(encoding="utf-8")
    assert "only where race is Black" in image
    assert "adult · number" in image
    drawn = ElementTree.fromstring(image)
    png = download(page, page.get_by_test_id("answer"), "Chart as PNG").read_bytes()
    wide, high = struct.unpack(">II", png[16:24])
    shape = float(drawn.attrib["width"]) / float(drawn.attrib["height"])
    assert wide / high == pytest.approx(shape, rel=0.01), (
        "the image has room for its title, as the drawing has"
    )
    expect(page.get_by_test_id("toast")).to_have_text("Saved as PNG.")


@pytest.mark.parametrize("size", WIDTHS)
def test_what_was_bought_is_in_view(
    size: tuple[int, int], tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    server = people(tmp_path, servers)
    page = visit(server, viewport={"width": size[0], "height": size[1]})
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    expect(page.locator("#answer-title")).to_be_in_viewport(ratio=1)
    bar = page.get_by_test_id("next-step")
    group(page, "North").click()
    expect(bar).to_contain_text("Choose another group")
    expect(bar).to_be_in_viewport(ratio=1)
    group(page, "South").click()
    expect(finding(page)).to_be_visible()
    if bar.is_visible():
        expect(bar).to_contain_text(headline(page).inner_text())
        bar.get_by_role("button", name="Why?").click()
    expect(page.locator("#verdict-title")).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Explain · 0.02").click()
    expect(page.locator("#explanation-title")).to_be_in_viewport(ratio=1)
    expect(page.locator("#explanation-title")).to_be_focused()
    expect(bar).to_be_hidden()
    if size[0] >= TWO_COLUMNS:
        left, right = page.get_by_test_id("explanation"), page.get_by_test_id("groups")
        assert left.evaluate(RIGHT_END) < right.evaluate("(part) => part.getBoundingClientRect().left")
    group(page, "South").click()
    expect(bar).to_contain_text("Choose another group")


def test_an_answer_higher_than_the_window_stays_beside_its_why(adult: RunningServer, visit: Visit) -> None:
    place = explained_place(adult)
    page = visit(adult, place, viewport={"width": TWO_COLUMNS, "height": 600})
    expect(table(page)).to_be_visible()
    answer = page.get_by_test_id("groups")
    heading = page.locator("#verdict-title")
    for _ in range(100):  # the page may still grow
        page.keyboard.press("End")
        if page.evaluate("scrollY + innerHeight >= document.documentElement.scrollHeight - 1"):
            break
        page.wait_for_timeout(50)
    expect(heading).not_to_be_in_viewport()
    expect(answer).to_be_in_viewport()
    for control in (answer.get_by_role("button").first, answer.get_by_role("button").last):
        control.focus()
        expect(control).to_be_in_viewport(ratio=1)


def test_a_click_just_after_an_edit_buys_what_the_button_said(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    server = people(tmp_path, servers)
    page = signed_in(visit, server)
    ask(page, SQL, 0.1)
    choose(page, PEOPLE)
    buy = page.get_by_role("button", name="Explain · 0.02")
    expect(buy).to_be_enabled()
    options(page).get_by_role("spinbutton", name="How many").fill("2")
    with held(page, "**/explain/preview"):
        buy.click()  # the field loses the focus, and its price is on the way
        expect(page.get_by_test_id("explanation")).to_be_hidden()
    expect(table(page).locator("tbody tr")).to_have_count(2)
    assert spent(page) == 0.12


def test_a_price_that_comes_while_its_button_is_pressed_does_not_move_it(
    adult: RunningServer, visit: Visit
) -> None:
    page = visit(adult)
    expect(cost(page)).to_contain_text("in a group of")
    finished = page.expect_event("requestfinished", lambda request: request.url.endswith("adult/preview"))
    with finished, held_in_page(page, "adult/preview"):
        write_sql(page, FILTERED)
        run_button(page).hover()
        page.mouse.down()
        expect(run_button(page)).to_be_focused()
        pressed = run_button(page).bounding_box()
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    assert run_button(page).bounding_box() == pressed, (
        "a button that moves while it is pressed is not clicked"
    )
    page.mouse.up()
    expect(page.get_by_test_id("answer")).to_contain_text("only where race is Black")


def test_the_focus_goes_to_what_was_bought_before_anything_else_is_asked(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    """Later, it would close a menu that a reader has opened meanwhile."""
    page = signed_in(visit, people(tmp_path, servers))
    ask(page, SQL, 0.1)
    choose(page, PEOPLE)
    expect(options(page)).to_contain_text("Compares")
    expect(options(page).locator(".stale")).to_have_count(0)
    explanation = page.get_by_test_id("explanation")
    with page.expect_response("**/explain/preview"), held_in_page(page, "explain/preview"):
        page.get_by_role("button", name="Explain · 0.02").click()
        expect(page.locator("#explanation-title")).to_be_focused()
        explanation.get_by_role("button", name="Export").click()
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    expect(explanation.get_by_role("button", name="Report as HTML")).to_be_visible()


def test_more_than_can_be_shown_is_said(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    server = people(tmp_path, servers)
    page = signed_in(visit, server)
    ask(page, SQL, 0.1)
    choose(page, PEOPLE)
    expect(page.get_by_role("button", name="Explain · 0.02")).to_be_enabled()
    field = options(page).get_by_role("spinbutton", name="How many")
    field.fill("300")
    field.blur()
    expect(page.get_by_test_id("k-hint")).to_contain_text("so not 300")
    expect(field).not_to_have_value("300")


@pytest.mark.slow
def test_a_stop_is_warned_of_counted_and_forgiven(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    server = people(tmp_path, servers)
    page = signed_in(visit, server)
    ask(page, SQL, 0.1)
    choose(page, PEOPLE)
    for number in range(1, 4):
        set_price(page, "Budget to prepare this answer, once", 0.02 + number / 100)
        engine = slow_down(server)
        page.get_by_role("button", name=f"Explain · 0.0{2 + number}").click()
        assert engine.entered.acquire(timeout=60)
        expect(page.get_by_test_id("stopping")).to_contain_text(
            f"counts as a failure. This would be number {number} of 3"
        )
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_test_id("verdict").get_by_role("alert")).to_contain_text("charge stays")
        engine.go.set()
    expect(page.get_by_test_id("blocked")).to_contain_text("3 of 3")
    expect(page.get_by_role("button", name="Explain ·")).to_be_disabled()
    page.get_by_role("button", name="History").click()
    history = page.get_by_role("dialog", name="History")
    expect(history.get_by_text("stopped, charged")).to_have_count(3)

    desk = visit(server, "#/curator/analysts/people")
    sign_in(desk, server.token("carol", "curator"))
    row = desk.get_by_test_id("allowances").get_by_role("row", name="alice")
    expect(row).to_contain_text("Blocked: 3 requests were cancelled")
    row.get_by_role("button", name="Forgive").click()
    dialog = desk.get_by_role("dialog", name="Forgive alice")
    dialog.get_by_label("Reason").fill("She tried the button.")
    dialog.get_by_role("button", name="Forgive the failures").click()
    expect(row).not_to_contain_text("Blocked")


@pytest.mark.slow
def test_a_reload_finds_the_job_again(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    server = people(tmp_path, servers)
    page = signed_in(visit, server)
    ask(page, SQL, 0.1)
    choose(page, PEOPLE)
    engine = slow_down(server)
    page.get_by_role("button", name="Explain · 0.02").click()
    assert engine.entered.acquire(timeout=60)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page).to_have_url(re.compile("job="))
    page.reload()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.get_by_role("button", name="History").click()
    expect(page.get_by_test_id("running")).to_contain_text("Preparation")
    expect(page.get_by_test_id("running").get_by_role("button", name="Follow")).to_be_visible()
    page.keyboard.press("Escape")
    engine.go.set()
    unfold(page)
    expect(page).not_to_have_url(re.compile("job="))
    assert spent(page) == 0.12
    page.get_by_role("button", name="History").click()
    prepared = page.get_by_role("listitem").filter(has_text="Prepared: explanations are free")
    expect(prepared.get_by_role("button", name="Reopen")).to_be_visible()
    expect(page.get_by_test_id("running")).to_have_count(0)


@pytest.mark.slow
def test_no_budget_yet_is_not_used_up_and_a_second_tab_follows(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    config = config_of(tmp_path, analysts={"default_rho": 0.0}, limits=GENEROUS.model_dump())
    server = servers.enter_context(running_server(config))
    page = signed_in(visit, server)
    expect(page.get_by_test_id("cost")).to_contain_text("You have no budget here yet.")
    expect(page.get_by_test_id("cost")).not_to_contain_text("used up")
    server.ledger.grant("people", "alice", 1.0, reason="test", by="carol")
    page.reload()
    expect(page.get_by_test_id("budget-words")).to_contain_text("1 left of 1")
    second = page.context.new_page()
    second.goto(server.url)
    expect(second.get_by_test_id("budget-words")).to_contain_text("1 left of 1")
    ask(page, SQL, 0.1)
    expect(second.get_by_test_id("budget-words")).to_contain_text("0.9 left of 1")


def test_the_first_data_set_is_added_through_the_page(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    raw = {"server": {"datasets": str(folder), "port": 0}, "limits": GENEROUS.model_dump()}
    server = servers.enter_context(running_server(Config.load(raw), open_ledger(None)))
    page = visit(server, "#/curator/datasets/new", expecting=("status of 400",))
    sign_in(page, server.token("carol", "curator"))
    page.get_by_role("button", name="Advanced: as text").click()
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(SCHEMA)
    declare = page.get_by_role("button", name="Declare it")
    expect(declare).to_be_enabled()
    declare.click()
    expect(page.get_by_role("alert").first).to_be_visible()
    write_people(tmp_path / "elsewhere")
    (folder / "people.parquet").write_bytes((tmp_path / "elsewhere/people.parquet").read_bytes())
    expect(declare).to_be_enabled()
    declare.click()
    expect(page.get_by_test_id("declared")).to_contain_text("people")


def test_names_are_asked_back_and_a_token_survives_escape(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    server = people(tmp_path, servers)
    page = visit(server, "#/curator/people/people")
    sign_in(page, server.token("carol", "curator"))
    page.get_by_role("button", name="Give an allowance").click()
    dialog = page.get_by_role("dialog", name="Give an allowance")
    dialog.get_by_label("Analyst").fill("alcie")
    dialog.get_by_label("Reason").fill("Her study.")
    expect(dialog.get_by_role("button", name="Set the allowance")).to_be_disabled()
    expect(dialog).to_contain_text("Nobody called “alcie” has a token.")
    dialog.get_by_label("The name is right").check()
    expect(dialog.get_by_role("button", name="Set the allowance")).to_be_enabled()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Invite somebody").click()
    page.get_by_role("dialog").get_by_label("Name").fill("dora")
    page.get_by_role("button", name="Make the invitation").click()
    expect(page.get_by_test_id("token-text")).to_be_visible()
    for _ in range(3):
        page.keyboard.press("Escape")
    expect(page.get_by_test_id("token-text")).to_be_visible()
    page.get_by_role("button", name="I have it").click()
    expect(page.get_by_test_id("token-text")).to_be_hidden()


def test_buttons_that_need_the_server_say_so(tmp_path: Path, visit: Visit) -> None:
    gone = (
        "ERR_CONNECTION_REFUSED",
        "ERR_CONNECTION_RESET",
        "ERR_EMPTY_RESPONSE",
        "ERR_SOCKET_NOT_CONNECTED",
    )
    with running_server(config_of(tmp_path, limits=GENEROUS.model_dump())) as server:
        page = visit(server, expecting=gone)
        sign_in(page, server.token("alice"))
        ask(page, SQL, 0.1)
    set_price(page, "Budget for this answer", 0.2)
    expect(page.get_by_test_id("gone")).to_be_in_viewport()
    expect(run_button(page)).to_have_text("Waits for the server")
    expect(run_button(page)).to_be_disabled()
    page.mouse.wheel(0, 2000)
    expect(page.get_by_test_id("gone")).to_be_in_viewport()
    page.get_by_text("What is this?").click()
    page.get_by_role("button", name="Ask for more budget").click()
    page.get_by_label("What for").fill("Another question.")
    request = page.get_by_role("dialog", name="Ask for more budget").get_by_role("button", name="Waits")
    expect(request).to_be_disabled()


@pytest.mark.slow
def test_conditions_of_nearly_the_same_rows_are_folded_and_can_be_unfolded(
    adult: RunningServer, visit: Visit
) -> None:
    client = owner(adult)
    answer = asked(client)
    family = {"attributes": ["relationship", "sex", "age"], "conjuncts": 2}
    body = {"answer": answer, "rho": 0.5, "family": family}
    done(client.post("/datasets/adult/prepare", params={"wait": 60}, json=body))
    options = "&explain=20&conjuncts=2&attribute=relationship&attribute=sex&attribute=age"
    page = visit(adult, PLACE.format(answer=answer) + options)
    expect(table(page).get_by_text("the same rows).").first).to_be_visible()
    before = spent(page)
    one_by_one = page.get_by_role("switch", name="one by one")
    one_by_one.click()
    expect(table(page).get_by_text("the same rows).")).to_have_count(0)
    expect(page).to_have_url(re.compile("distinct=false"))
    page.reload()
    expect(one_by_one).to_be_checked()
    assert spent(page) == before
