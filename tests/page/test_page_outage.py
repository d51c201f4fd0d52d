"""A ledger that is away: the page says so, keeps what it shows, and goes on by itself."""

from __future__ import annotations

import signal
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from page_servers import GENEROUS
from page_steps import Shoot, Visit, ask, choose, finding, run_button, set_price, sign_in
from playwright.sync_api import expect

from dpxplain.ledger.ledger import open_ledger
from postgres_server import running_server as running_postgres
from server_fixture import SQL, config_of, running_server


@pytest.mark.slow
@pytest.mark.process
def test_a_ledger_that_is_away_is_told_as_an_outage_and_the_page_goes_on_by_itself(
    tmp_path: Path, servers: ExitStack, visit: Visit, shoot: Shoot
) -> None:
    database = servers.enter_context(running_postgres())
    ledger = servers.enter_context(closing(open_ledger(database.address())))
    config = config_of(tmp_path, limits=GENEROUS.model_dump())
    server = servers.enter_context(running_server(config, ledger))
    page = visit(server, expecting=("status of 503",))
    sign_in(page, server.token("alice"))
    ask(page, SQL, 0.1)
    database.stop(signal.SIGQUIT)
    set_price(page, "Budget for this answer", 0.3)
    banner = page.get_by_test_id("gone")
    expect(banner).to_contain_text("The server cannot use its ledger at the moment")
    expect(banner).to_contain_text("What you see stays here")
    expect(run_button(page)).to_be_disabled()
    expect(page.get_by_test_id("answer")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    shoot(page, "18-outage")
    database.start()
    expect(banner).to_be_hidden()
    expect(run_button(page)).to_have_text("Run · 0.30")
    choose(page, ("North", "South"))
    expect(finding(page)).to_contain_text("Why is North above South?")
