"""From a file to an invited analyst on the page: the wizard, the view of people, and requests for budget."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from page_axe import assert_accessible
from page_servers import GENEROUS
from page_steps import Visit, ask, sign_in
from playwright.sync_api import Page, expect

from dpxplain.ledger.ledger import open_ledger
from dpxplain.server.config import Config
from server_fixture import RunningServer, running_server

ROWS = "region,pay,note\n" + "".join(f"{'NS'[n % 2]},{n % 900},Secret-{n}\n" for n in range(2_000))


@pytest.fixture
def empty(tmp_path: Path, servers: ExitStack) -> RunningServer:
    """A server whose folder has no data set yet."""
    folder = tmp_path / "data"
    folder.mkdir()
    raw = {"server": {"datasets": str(folder), "port": 0}, "limits": GENEROUS.model_dump()}
    return servers.enter_context(running_server(Config.load(raw), open_ledger(None)))


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
    page.get_by_label("Generous").check()
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
