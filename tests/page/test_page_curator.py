"""Curator and analyst side by side: one is refused, the other tops up, and only one sees the truth."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from page_servers import GENEROUS, asked, prepared
from page_steps import (
    Shoot,
    Visit,
    ask,
    choose,
    cost,
    finding,
    run_button,
    set_price,
    sign_in,
    spent,
    unfold,
    write_sql,
)
from playwright.sync_api import Browser, Page, expect

from server_fixture import SQL, RunningServer, config_of, running_server

MARK = "NOT PRIVATE, curator only"


@pytest.fixture(scope="module")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Many users on people; everybody may spend 0.15 to begin with."""
    config = config_of(
        tmp_path_factory.mktemp("curator"), analysts={"default_rho": 0.15}, limits=GENEROUS.model_dump()
    )
    with running_server(config) as running:
        yield running


@pytest.fixture
def curator(server: RunningServer, visit: Visit) -> Page:
    """Carol, signed in at the curator's view."""
    page = visit(server, "#/curator", expecting=("status of 400",))
    sign_in(page, server.token("carol", "curator"))
    expect(page.get_by_role("heading", name="Curator", exact=True)).to_be_visible()
    return page


def _go(page: Page, section: str) -> None:
    page.get_by_role("navigation", name="Curator").get_by_role("link", name=section).click()
    expect(page.get_by_role("heading", name=section, exact=True)).to_be_visible()


def test_an_analyst_beyond_the_allowance_goes_on_after_a_top_up(
    server: RunningServer, visit: Visit, curator: Page, shoot: Shoot
) -> None:
    analyst = visit(server, expecting=("status of 401",))
    analyst.get_by_label("Access token").fill("dpx_wrong_token")
    analyst.get_by_role("button", name="Sign in").click()
    expect(analyst.get_by_role("alert")).to_be_visible()
    sign_in(analyst, server.token("alice"))
    ask(analyst, "SELECT region, SUM(pay) FROM people GROUP BY region", 0.1)  # which nobody shares with her
    write_sql(analyst, "SELECT sex, COUNT(*) FROM people GROUP BY sex")
    expect(cost(analyst)).to_contain_text(re.compile(r"\b0\.1\b.* only 0\.05\b"))
    expect(run_button(analyst)).to_have_text("Ask for 0.05 more")

    _go(curator, "People")
    alice = curator.get_by_test_id("allowances").get_by_role("row").filter(has_text="alice")
    expect(alice).to_contain_text("0.1 of 0.15")
    shoot(curator, "10-curator-people")
    alice.get_by_role("button", name="Top up").click()
    dialog = curator.get_by_role("dialog", name="Top up alice")
    dialog.get_by_label("Add (ρ)").fill("0.2")
    add = dialog.get_by_role("button", name="Add 0.2")
    expect(add).to_be_disabled()
    dialog.get_by_label("Reason").fill("a second look at sex")
    add.click()
    expect(dialog).to_be_hidden()
    expect(alice).to_contain_text("0.1 of 0.35")
    expect(alice).to_contain_text("a second look at sex")

    analyst.reload()
    expect(finding(analyst, "answer")).to_contain_text("Sum of pay")
    write_sql(analyst, "SELECT sex, COUNT(*) FROM people GROUP BY sex")
    expect(run_button(analyst)).to_have_text("Run · 0.10")
    run_button(analyst).click()
    expect(finding(analyst, "answer")).to_contain_text("Number of rows by sex")
    expect(analyst.get_by_test_id("budget-words")).to_contain_text("Spent 0.2")

    _go(curator, "Audit log")
    log = curator.get_by_test_id("audit")
    expect(log).to_contain_text(re.compile(r"carol .*alice .*\b0\.35\b.*a second look at sex"))
    curator.get_by_role("button", name="Verify the log").click()
    expect(curator.get_by_test_id("verified")).to_contain_text("The log is intact.")
    expect(curator.get_by_test_id("head")).to_have_text(re.compile(r"^[0-9a-f]{64}$"))
    shoot(curator, "11-curator-audit")


def test_the_truth_is_for_the_curator_only_and_marked(
    server: RunningServer, visit: Visit, curator: Page, shoot: Shoot
) -> None:
    dora = f"dora{len(server.tokens)}"  # another one each time: what is shared once cannot be shared again
    client = server.client(dora, "curator")
    answer = asked(client, SQL, 0.1, "people")
    prepared(client, answer, "people")
    done = server.curator().post(
        "/datasets/people/shares", json={"owner": dora, "reader": "*", "reason": "to compare"}
    )
    assert done.is_success, done.text
    address = (
        f"{server.url}#/people?answer={answer}&group=1*North&group=-1*South&confidence=0.9999999&explain=5"
    )

    curator.goto(address)
    unfold(curator)
    expect(curator.get_by_text(MARK)).to_have_count(0)
    for part, told in (("groups", "Covered 3 of 3"), ("explanation", "Influence covered 5 of 5")):
        shown = curator.get_by_test_id(part)
        shown.get_by_role("switch", name="Compare with the truth (not private)").check()
        expect(shown.get_by_test_id("covered")).to_contain_text(told)
        expect(shown.get_by_role("group", name=MARK)).to_be_visible()
        expect(shown.locator(".lane .diamond").first).to_be_visible()
        numbers = shown.get_by_test_id("truth").get_by_role("region").first
        assert numbers.evaluate("(all) => all.scrollWidth <= all.clientWidth"), "a number is cut off"
    expect(curator).to_have_title(re.compile("^NOT PRIVATE"))
    expect(curator.get_by_role("note", name="Not private")).to_be_in_viewport()
    curator.get_by_test_id("groups").get_by_test_id("truth").scroll_into_view_if_needed()
    shoot(curator, "12-curator-truth")
    curator.get_by_role("button", name="Hide them").click()
    expect(curator.get_by_role("group", name=MARK)).to_have_count(0)
    expect(curator.get_by_role("note", name="Not private")).to_have_count(0)
    expect(curator).not_to_have_title(re.compile("NOT PRIVATE"))

    analyst = visit(server)
    sign_in(analyst, server.token("alice"))
    analyst.goto(address)
    unfold(analyst)
    assert analyst.get_by_text("truth").count() == 0
    assert analyst.get_by_text("NOT PRIVATE").count() == 0
    assert analyst.get_by_role("link", name="Curator").count() == 0
    assert server.client("alice").get(f"/datasets/people/answers/{answer}/truth").status_code == 403
    assert spent(analyst) <= 0.2, "reading what is shared costs nothing"


def test_a_token_is_shown_once_and_works_until_it_is_revoked(
    server: RunningServer, visit: Visit, curator: Page
) -> None:
    _go(curator, "People")
    curator.get_by_role("button", name="Invite somebody").click()
    curator.get_by_role("dialog").get_by_label("Name").fill("bob")
    curator.get_by_role("button", name="Make the invitation").click()
    dialog = curator.get_by_role("dialog", name="The invitation of bob")
    expect(dialog).to_contain_text("This is the only time it is shown.")
    token = dialog.get_by_test_id("token-text").inner_text()
    assert token.startswith("dpx_")
    dialog.get_by_role("button", name="I have it").click()
    # A browser hides a dialog at once and tells the page in a later task, which then takes it off.
    expect(curator.locator("dialog")).to_have_count(0)
    line = curator.get_by_test_id("tokens").get_by_role("row").filter(has_text="bob")
    expect(line).to_be_visible()
    assert token not in curator.content()

    bob = visit(server, expecting=("status of 401",))
    sign_in(bob, token)
    expect(cost(bob)).to_contain_text("±")
    line.get_by_role("button", name="Revoke").click()
    curator.get_by_role("dialog").get_by_role("button", name="Revoke it").click()
    expect(line).to_be_hidden()
    set_price(bob, "Budget for this answer", 0.02)
    expect(bob.get_by_label("Access token")).to_be_visible()


def test_an_analyst_at_the_curators_door_is_told_kindly(server: RunningServer, visit: Visit) -> None:
    page = visit(server, "#/curator")
    sign_in(page, server.token("alice"))
    expect(page.get_by_role("main")).to_contain_text(re.compile("curator", re.IGNORECASE))
    assert page.get_by_test_id("curator").count() == 0
    assert page.get_by_role("link", name="Curator", exact=True).count() == 0


def test_a_schema_is_checked_while_it_is_written(server: RunningServer, curator: Page, shoot: Shoot) -> None:
    curator.get_by_test_id("declared").get_by_role("link", name=re.compile("^Edit")).click()
    found = curator.get_by_test_id("findings")
    expect(found).to_contain_text("It is a valid schema of people")
    save = curator.get_by_role("button", name="Save", exact=True)
    expect(save).to_be_disabled()
    good = server.curator().get("/admin/datasets/people").json()["toml"]
    editor = curator.get_by_test_id("toml-editor").locator(".cm-content")

    def write(toml: str) -> None:
        editor.click()
        curator.keyboard.press("Control+a")
        curator.keyboard.insert_text(toml)

    write(good.replace("bounds = [0, 1000]", "bounds = [1000, 0]"))
    expect(found.get_by_role("alert")).to_contain_text("to mend")
    expect(found.get_by_role("alert")).to_contain_text("columns.pay")
    expect(save).to_be_disabled()
    shoot(curator, "13-curator-schema")
    write(good.replace("rho = 10.0", "rho = 11.0"))
    expect(found).to_contain_text("It is a valid schema of people")
    save.click()
    expect(curator.get_by_text("people is declared anew.").first).to_be_visible()
    assert server.curator().get("/datasets/people/budget").json()["shared_remaining"] > 10.0


def test_a_schema_is_held_against_the_rows_when_the_curator_wants_it(
    server: RunningServer, curator: Page, shoot: Shoot
) -> None:
    curator.get_by_test_id("declared").get_by_role("link", name=re.compile("^Edit")).click()
    review = curator.get_by_test_id("review")
    editor = curator.get_by_test_id("toml-editor").locator(".cm-content")
    good = server.curator().get("/admin/datasets/people").json()["toml"]
    editor.click()
    curator.keyboard.press("Control+a")
    curator.keyboard.insert_text(good.replace('"North"', '"north"'))
    review.get_by_role("button", name="Check against the rows").click()
    expect(review).to_contain_text(MARK)
    expect(review).to_contain_text('"North" for "north" (upper and lower case)')
    expect(review.get_by_role("row").filter(has_text="region")).to_contain_text("2 of 3")
    shoot(curator, "16-curator-review")
    review.get_by_role("button", name="columns.region").click()
    expect(editor).to_be_focused()
    curator.get_by_role("button", name="Undo all changes").click()
    expect(review).not_to_contain_text(MARK)


def test_the_curator_may_also_ask(server: RunningServer, curator: Page) -> None:
    curator.get_by_role("link", name="Ask questions").click()
    ask(curator, "SELECT sex, AVG(pay) FROM people GROUP BY sex", 0.05)
    choose(curator, ("M", "F"))
    expect(finding(curator)).to_be_visible()
