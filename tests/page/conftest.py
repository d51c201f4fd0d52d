"""A real browser, one per worker, and visitors of a real server who are watched."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from page_steps import Shoot, Visit
from page_watch import Watch
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))  # for server_fixture
sys.path.insert(0, str(Path(__file__).parent.parent / "server"))  # for slow_engine

from page_servers import adult_config

from dpxplain.server.routes import site as served
from server_fixture import RunningServer, running_server

# Milliseconds until a condition counts as never met, on however busy a machine; fewer while writing tests.
PATIENCE = int(os.environ.get("DPXPLAIN_PATIENCE", "120000"))
DESKTOP = {"width": 1280, "height": 900}
SHOTS = Path(__file__).parents[2] / "docs" / "screenshots"
MOST_BYTES = 250_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots", action="store_true", help="write docs/screenshots; also DPXPLAIN_SCREENSHOTS=1"
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # Debian's Chromium without its windows, which takes two thirds of the processor time, or the whole one.
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        pytest.fail("There is no chromium; install Debian's package, or run make test.", pytrace=False)
    if not (served.STATIC / "index.html").is_file():
        pytest.fail("The page is not built: run make page.", pytrace=False)
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        # Tests may run as root, where Chromium's own sandbox cannot be set up.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def adult(browser: Browser) -> Iterator[RunningServer]:
    """What `make serve` runs: one user, bundled Adult, no login. Tests share its history and its budget."""
    with running_server(adult_config()) as running:
        yield running


@pytest.fixture
def fresh_adult(browser: Browser) -> Iterator[RunningServer]:
    """The same on the first day, for tests that count what is spent from nothing."""
    with running_server(adult_config()) as running:
        yield running


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """For servers of a single test: they end after their visitors have left."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def visit(browser: Browser, servers: ExitStack) -> Iterator[Visit]:
    """`visit(server)` opens a page in a fresh context; its end asserts that nothing went wrong unseen."""
    came: list[tuple[BrowserContext, Watch]] = []

    def come(
        server: RunningServer,
        address: str = "",
        *,
        expecting: tuple[str, ...] = (),
        before: Callable[[Page], None] = lambda _page: None,
        **options: Any,
    ) -> Page:
        context = browser.new_context(
            **{"viewport": DESKTOP, "reduced_motion": "reduce", "locale": "en-GB"} | options
        )
        context.set_default_timeout(PATIENCE)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url.rstrip("/"))
        came.append((context, Watch(context, server.url, expecting)))
        page = context.new_page()
        before(page)
        page.goto(server.door + address)
        return page

    yield come
    for context, _ in came:
        context.close()
    for _, watch in came:
        watch.assert_calm()


@pytest.fixture(scope="session")
def shoot(request: pytest.FixtureRequest) -> Shoot:
    """Writes a picture for the documentation, where that is wanted."""
    wanted = request.config.getoption("--screenshots") or os.environ.get("DPXPLAIN_SCREENSHOTS") == "1"

    def picture(page: Page, name: str) -> None:
        if not wanted:
            return
        SHOTS.mkdir(exist_ok=True)
        file = SHOTS / f"{name}.png"
        page.screenshot(path=file, animations="disabled", caret="hide")
        assert file.stat().st_size < MOST_BYTES, f"{file.name} is too large to keep in the repository"

    return picture
