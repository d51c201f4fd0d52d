"""From a file to an invited analyst on the page: the wizard, the view of people, and requests for budget."""

from __future__ import annotations

import re
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from page_axe import assert_accessible
from page_servers import GENEROUS
from page_steps import Visit, ask, sign_in
from playwright.sync_api import Locator, Page, expect
from slow_engine import slow_down

from dpxplain.ledger.ledger import open_ledger
from dpxplain.server.config import Config
from server_fixture import SQL, RunningServer, add_dataset, config_of, running_server

PROTECTION = {
    "Recommended: moderate": "moderate",
    "More answers: weak": "weak",
    "Many answers: very weak": "very weak",
}
ROWS = "region,pay,note\n" + "".join(f"{'NS'[n % 2]},{n % 900},Secret-{n}\n" for n in range(2_000))


@pytest.fixture
def empty(tmp_path: Path, servers: ExitStack) -> RunningServer:
    """A server whose folder has no data set yet."""
    folder = tmp_path / "data"
    folder.mkdir()
    raw = {"server": {"datasets": str(folder), "port": 0}, "limits": GENEROUS.model_dump()}
    return servers.enter_context(running_server(Config.load(raw), open_ledger(None)))


@pytest.fixture
def towns(tmp_path: Path, empty: RunningServer, visit: Visit) -> Page:
    """Carol in the wizard, with a file of three columns chosen."""
    file = tmp_path / "towns.csv"
    file.write_text(ROWS, encoding="utf-8")
    page = visit(empty, "#/curator/datasets/new", expecting=("status of 400",))
    sign_in(page, empty.token("carol", "curator"))
    page.get_by_label("Upload a CSV or Parquet file").set_input_files(file)
    expect(page.get_by_role("radio", name="towns.csv")).to_be_checked()
    return page


def step(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Steps").get_by_role("button", name=name)


def declare_towns(page: Page, file: Path) -> None:
    """Through every step of the wizard, and once over the text and back."""
    wizard = page.get_by_test_id("wizard")
    page.get_by_label("Upload a CSV or Parquet file").set_input_files(file)
    expect(page.get_by_test_id("names-only")).to_contain_text("read only the first line")
    expect(page.get_by_role("radio", name="towns.csv")).to_be_checked()
    expect(page.get_by_label("Name of the data set")).to_have_value("towns")
    assert_accessible(page)
    wizard.get_by_role("button", name="Next").click()
    expect(wizard.get_by_test_id("wizard-column")).to_have_count(3)
    assert "Secret" not in page.content()
    page.get_by_label("What region holds").select_option("Categories")
    expect(wizard.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_label("Values of region").fill("N = The north\nS\tThe south")
    page.get_by_label("What pay holds").select_option("Number from–to")
    page.get_by_label("From", exact=True).fill("0")
    page.get_by_label("to", exact=True).fill("1000")
    assert_accessible(page)
    page.get_by_role("button", name="Advanced: as text").click()
    text = page.locator(".cm-content")
    expect(text).to_contain_text('value_labels = { "N" = "The north", "S" = "The south" }')
    text.click()
    page.keyboard.press("Control+Home")
    page.keyboard.press("Control+a")
    changed = text.inner_text().replace("1000]", "1200]")
    page.keyboard.insert_text(re.sub(r"\n\n+", "\n", changed))
    page.get_by_role("button", name="Back to the steps").click()
    expect(page.get_by_label("to", exact=True)).to_have_value("1200")
    wizard.get_by_role("button", name="Next").click()
    expect(page.get_by_label("Each row is another person")).to_be_checked()
    wizard.get_by_role("button", name="Next").click()
    page.get_by_label("Many answers").check()
    expect(page.get_by_test_id("budget-meaning")).to_contain_text("protection, ε")
    wizard.get_by_role("button", name="Next").click()
    expect(page.get_by_test_id("review")).to_contain_text("region: 2 categories")
    expect(page.get_by_test_id("review")).to_contain_text("1 column left out")
    wizard.get_by_role("button", name="Declare it").click()
    expect(page.get_by_test_id("declared")).to_contain_text("towns")


def test_a_file_becomes_a_data_set_with_an_invited_analyst(
    empty: RunningServer, tmp_path: Path, visit: Visit
) -> None:
    file = tmp_path / "towns.csv"
    file.write_text(ROWS, encoding="utf-8")
    desk = visit(empty, "#/curator/datasets/new", expecting=("status of 400",))
    sign_in(desk, empty.token("carol", "curator"))
    desk.get_by_label("Upload a CSV or Parquet file").set_input_files(
        {"name": "wrong.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"}
    )
    expect(desk.get_by_role("radio", name="wrong.csv")).to_be_checked()
    desk.get_by_role("button", name="Remove wrong.csv").click()
    desk.get_by_role("button", name="Remove for good").click()
    expect(desk.get_by_test_id("toast")).to_have_text("wrong.csv is removed.")
    expect(desk.get_by_role("radio", name="wrong.csv")).to_be_hidden()
    declare_towns(desk, file)

    desk.get_by_role("link", name="Invite an analyst").click()
    dialog = desk.get_by_role("dialog", name="Invite somebody")
    dialog.get_by_label("Name").fill("dora")
    expect(dialog.get_by_role("checkbox", name="towns")).to_be_checked()
    dialog.get_by_label("Budget on each").fill("0.5")
    assert_accessible(desk)
    dialog.get_by_role("button", name="Make the invitation").click()
    link = desk.get_by_test_id("invite-link").inner_text()
    desk.get_by_role("button", name="I have it").click()
    dora = desk.get_by_test_id("allowances").get_by_role("row").filter(has_text="dora")
    expect(dora).to_contain_text("0 of 0.5")
    expect(desk.get_by_test_id("tokens")).to_contain_text("dora")

    page = visit(empty, "#" + link.split("#")[1])
    expect(page.get_by_test_id("invited")).to_be_visible()
    assert "dpx_" not in page.url, "the token does not stay in the address"
    page.get_by_role("button", name="Sign in").click()
    ask(page, "SELECT region, AVG(pay) FROM towns GROUP BY region", 0.1)
    page.get_by_text("What is this?").click()
    page.get_by_role("button", name="Ask for more budget").click()
    page.get_by_label("How much more").fill("0.7")
    page.get_by_label("What for").fill("One more table.")
    page.get_by_role("button", name="Send the request").click()
    expect(page.get_by_test_id("budget-words")).to_contain_text("waiting")

    desk.reload()
    expect(desk.get_by_test_id("requests")).to_contain_text("dora asks for 0.7 more: “One more table.”")
    expect(desk.get_by_test_id("usage").get_by_role("img")).to_be_visible()
    expect(desk.get_by_test_id("usage")).to_contain_text("0.1 in the last 30 days")
    assert_accessible(desk)
    desk.get_by_role("button", name="Give it to dora").click()
    desk.get_by_role("button", name="Add 0.7").click()
    expect(dora).to_contain_text("0.1 of 1.2")
    expect(desk.get_by_test_id("requests")).to_be_hidden()


def test_a_step_of_the_wizard_ticks_once_it_was_seen(towns: Page) -> None:
    done = towns.get_by_role("list", name="Steps").get_by_text("done")
    expect(done).to_have_count(0)
    towns.get_by_role("button", name="Next").click()
    expect(step(towns, "File")).to_contain_text("done")
    expect(done).to_have_count(1)
    step(towns, "People").click()
    step(towns, "Review").click()
    expect(step(towns, "People")).to_contain_text("done")
    expect(step(towns, "Columns")).not_to_contain_text("done")
    expect(step(towns, "Budget")).not_to_contain_text("done")


def test_the_wizard_starts_from_the_protection_that_it_recommends(towns: Page) -> None:
    step(towns, "Columns").click()
    towns.get_by_label("What region holds").select_option("Categories")
    towns.get_by_label("Values of region").fill("N\nS")
    step(towns, "Budget").click()
    expect(towns.get_by_role("radio", name="Recommended")).to_be_checked()
    for choice, protection in PROTECTION.items():
        towns.get_by_role("radio", name=choice).check()
        expect(towns.get_by_test_id("budget-meaning")).to_contain_text(f"spent: {protection} protection")


def test_bounds_the_wrong_way_round_are_said_at_their_field(towns: Page) -> None:
    step(towns, "Columns").click()
    towns.get_by_label("What pay holds").select_option("Number from–to")
    low, high = towns.get_by_label("From", exact=True), towns.get_by_label("to", exact=True)
    low.fill("1000")
    expect(low).not_to_have_attribute("aria-invalid", "true")
    high.fill("0")
    for field in (low, high):
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description("The lower bound is above the upper one.")
    expect(towns.get_by_role("button", name="Next")).to_be_disabled()
    assert_accessible(towns)
    high.fill("2000")
    expect(towns.get_by_text("The lower bound is above the upper one.")).to_have_count(0)
    expect(towns.get_by_role("button", name="Next")).to_be_enabled()


def test_bins_take_dates_and_say_so(towns: Page) -> None:
    step(towns, "Columns").click()
    towns.get_by_label("What note holds").select_option("Bins")
    edges = towns.get_by_label("Edges of the bins of note")
    expect(edges).to_have_accessible_description(re.compile("dates, such as 2024-01-01"))
    edges.fill("2024-07-01, 2024-01-01")
    expect(edges).to_have_accessible_description(re.compile("2024-01-01 must be above 2024-07-01"))
    edges.fill("2024-01-01, 2024-07-01, 2025-01-01")
    step(towns, "Review").click()
    expect(towns.get_by_role("button", name="Declare it")).to_be_enabled()
    towns.get_by_role("button", name="Advanced: as text").click()
    expect(towns.get_by_test_id("findings")).to_contain_text("It is a valid schema of towns")


def test_an_empty_server_asks_its_curator_to_add_a_data_set(empty: RunningServer, visit: Visit) -> None:
    page = visit(empty, "#/curator", expecting=("status of 400",))
    sign_in(page, empty.token("carol", "curator"))
    expect(page.get_by_text("No data sets yet. Add one")).to_be_visible()
    page.get_by_role("link", name="Add a data set").click()
    expect(page.get_by_test_id("wizard")).to_be_visible()


def test_an_invitation_suggests_a_tenth_of_what_is_left(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    config = config_of(tmp_path, limits=GENEROUS.model_dump())
    add_dataset(tmp_path, "others")
    small = tmp_path / "others.toml"
    small.write_text(small.read_text(encoding="utf-8").replace("rho = 10.0", "rho = 0.5"), encoding="utf-8")
    server = servers.enter_context(running_server(config))
    page = visit(server, "#/curator/people/people")
    sign_in(page, server.token("carol", "curator"))
    page.get_by_role("button", name="Invite somebody").click()
    dialog = page.get_by_role("dialog", name="Invite somebody")
    budget = dialog.get_by_label("Budget on each")
    expect(budget).to_have_value("1")
    dialog.get_by_role("checkbox", name="others").check()
    expect(budget).to_have_value("0.05")
    expect(budget).to_have_accessible_description(re.compile(r"others has 0\.5 for everybody"))
    budget.fill("0.2")
    dialog.get_by_role("checkbox", name="people").uncheck()
    expect(budget).to_have_value("0.2")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Give an allowance").click()
    expect(page.get_by_role("dialog").get_by_label("May spend in all")).to_have_value("1")


def test_waiting_requests_are_on_the_first_screen(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    config = config_of(tmp_path, limits=GENEROUS.model_dump())
    add_dataset(tmp_path, "others")
    server = servers.enter_context(running_server(config))
    for name, dataset in (("alice", "others"), ("bob", "people"), ("dora", "people")):
        body = {"rho": 0.3, "reason": "One more table."}
        assert server.client(name).post(f"/datasets/{dataset}/budget/requests", json=body).is_success
    page = visit(server, "#/curator")
    sign_in(page, server.token("carol", "curator"))
    people = page.get_by_role("navigation", name="Curator").get_by_role("link", name="People")
    expect(people).to_have_accessible_name("People 3 waiting")
    expect(page.get_by_test_id("waiting")).to_contain_text("3 requests for more budget wait.")
    assert_accessible(page)
    page.get_by_role("link", name="Answer 2 on people").click()
    page.get_by_role("button", name="Decline the request of dora").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("Enough for now.")
    page.get_by_role("button", name="Decline it").click()
    expect(page.get_by_test_id("requests")).not_to_contain_text("dora")
    expect(people).to_have_accessible_name("People 2 waiting")
    expect(page.get_by_role("heading", name="People", exact=True)).to_be_focused()
    page.get_by_role("button", name="Give it to bob").click()
    page.get_by_role("button", name="Add 0.3").click()
    expect(people).to_have_accessible_name("People 1 waiting")
    page.get_by_label("Data set", exact=True).select_option("others (1 waiting)")
    expect(page.get_by_test_id("requests")).to_contain_text("alice asks for 0.3 more")


def test_a_crash_of_the_server_stands_beside_the_failures(
    tmp_path: Path, servers: ExitStack, visit: Visit
) -> None:
    config = config_of(tmp_path / "data", limits=GENEROUS.model_dump())
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    with closing(open_ledger(before / "ledger.sqlite")) as ledger, running_server(config, ledger) as server:
        engine, client = slow_down(server), server.client()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(client.post, "/datasets/people/query", json={"sql": SQL, "rho": 0.1})
            assert engine.entered.acquire(timeout=60)
            shutil.copytree(before, after)  # as it is if the server dies now
            engine.go.set()
    with closing(sqlite3.connect(after / "ledger.sqlite")) as database, database:
        database.execute("UPDATE flights SET heard = '2024-01-01T00:00:00+00:00'")
    ledger = servers.enter_context(closing(open_ledger(after / "ledger.sqlite")))
    server = servers.enter_context(running_server(config, ledger))
    page = visit(server, "#/curator/people/people")
    sign_in(page, server.token("carol", "curator"))
    alice = page.get_by_test_id("allowances").get_by_role("row").filter(has_text="alice")
    expect(alice.get_by_test_id("failures")).to_contain_text("the server died once.")
    alice.get_by_role("button", name="Forgive").click()
    dialog = page.get_by_role("dialog", name="Forgive alice")
    expect(dialog).to_contain_text("On people: the server died once.")
    dialog.get_by_label("Reason").fill("A power cut.")
    dialog.get_by_role("button", name="Forgive the failures").click()
    expect(alice.get_by_test_id("failures")).to_have_count(0)


def test_an_empty_server_tells_its_curator_to_add_a_data_set(empty: RunningServer, visit: Visit) -> None:
    desk = visit(empty)
    sign_in(desk, empty.token("carol", "curator"))
    expect(desk.get_by_test_id("no-data")).to_contain_text("No data sets yet")
    assert_accessible(desk)
    desk.get_by_role("link", name="Add a data set").click()
    expect(desk.get_by_test_id("wizard")).to_be_visible()
    page = visit(empty)
    sign_in(page, empty.token("dora"))
    expect(page.get_by_test_id("no-data")).to_contain_text("Ask the curator who gave you your token")
    expect(page.get_by_test_id("no-data")).to_contain_text("They know you as dora.")
