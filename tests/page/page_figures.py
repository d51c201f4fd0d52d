"""How fast and how heavy the page is, measured in the browser; for tests and for benchmarks/page.py."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from page_servers import GENEROUS
from playwright.sync_api import Browser, Page

from dpxplain.ledger.ledger import SQLLedger
from dpxplain.ledger.tables import ENTRIES, RELEASES, fill_accounts
from dpxplain.model.charge import Charge, Request
from dpxplain.server.app import single_user_config
from dpxplain.server.routes import site as served
from server_fixture import RunningServer, running_server

GROUPS = 500
PLACES, HOURS = 200, 100  # of the widest answer, with a group for each pair
LINES = 20_000
ZONES = "SELECT zone, COUNT(*) FROM trips GROUP BY zone"
PAIRS = "SELECT place, hour, COUNT(*) FROM visits GROUP BY place, hour"

# The moment a person could use the example: it is there, and the page has time to answer.
_READY = """window.ready = new Promise((resolve) => new MutationObserver((_changes, watching) => {
  if (!document.querySelector('main [aria-label=Examples] button')) return;
  watching.disconnect();
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
}).observe(document, { childList: true, subtree: true }));"""
_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) =>
  list.getEntriesByName('first-contentful-paint').forEach((entry) => resolve(entry.startTime))
).observe({ type: 'paint', buffered: true }))"""
_SCROLL = """async (list, [frames, step]) => {
  const times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < frames; i += 1) {
    list.scrollTop += step;
    if (list.scrollHeight <= list.clientHeight) scrollBy(0, step);
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
}"""
_ROW = "ol[aria-label=Groups] > li"  # those in sight; the others are not in the document
_PAINTED = "() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))"


@dataclass(frozen=True)
class Loading:
    """Seconds from a cold start."""

    first_paint: float
    interactive: float
    requests: int
    bytes: int


@dataclass(frozen=True)
class Fluidity:
    """Seconds until painted, and milliseconds between frames while scrolling."""

    shown: float
    changed: float
    frame: float
    worst_frame: float


def loading(browser: Browser, url: str) -> Loading:
    """With an empty cache, as on the first visit ever."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.add_init_script(_READY)
        page.goto(url)
        interactive = page.evaluate("window.ready")
        paint = page.evaluate(_PAINT)
        page.wait_for_load_state("networkidle")
        sizes = page.evaluate("performance.getEntriesByType('resource').map((one) => one.transferSize)")
        return Loading(paint / 1000, interactive / 1000, len(sizes) + 1, sum(sizes))
    finally:
        context.close()


def weights() -> dict[str, tuple[int, int]]:
    """Bytes of each built part, as they are and as the server sends them."""
    kinds = {
        "editor of SQL": r"editor-.*\.js",
        "charts (Vega)": r"vega-.*\.js",
        "fonts": r".*\.woff2",
        "curator's view": r"([Cc]urator|tomlEditor|Truth).*\.(js|css)",
        "styles": r".*\.css",
        "page itself": r".*\.(js|html|svg)",
    }
    found = dict.fromkeys(kinds, (0, 0))
    for file in sorted(path for path in served.STATIC.rglob("*") if path.is_file()):
        kind = next(name for name, pattern in kinds.items() if re.fullmatch(pattern, file.name))
        content = file.read_bytes()
        raw, small = found[kind]
        found[kind] = (raw + len(content), small + len(gzip.compress(content)))
    return found


@contextmanager
def big_server(folder: Path, lines: int = LINES) -> Iterator[RunningServer]:
    """One user, 500 zones, and a long history."""
    names = [f"Zone {number:03d}" for number in range(GROUPS)]
    rows = range(20 * GROUPS)
    columns = {"zone": [names[n * n % GROUPS] for n in rows], "night": [("yes", "no")[n % 2] for n in rows]}
    pq.write_table(pa.table(columns), folder / "trips.parquet")
    schema = folder / "trips.toml"
    schema.write_text(
        f'[table]\nname = "trips"\nsource = "trips.parquet"\n[privacy]\nrho = 10.0\n'
        f'[columns.zone]\nvalues = {names}\n[columns.night]\nvalues = ["yes", "no"]\n',
        encoding="utf-8",
    )
    config = single_user_config(schema).model_copy(update={"limits": GENEROUS})
    with running_server(config) as server:
        fill_history(server.ledger, "trips", lines)
        yield server


@contextmanager
def wide_server(folder: Path) -> Iterator[RunningServer]:
    """One user, and a table whose two columns have 20,000 pairs of values."""
    places, hours = [f"Place {n:03d}" for n in range(PLACES)], [f"Hour {n:02d}" for n in range(HOURS)]
    rows = range(10 * PLACES)
    columns = {"place": [places[n % PLACES] for n in rows], "hour": [hours[n * n % HOURS] for n in rows]}
    pq.write_table(pa.table(columns), folder / "visits.parquet")
    schema = folder / "visits.toml"
    schema.write_text(
        f'[table]\nname = "visits"\nsource = "visits.parquet"\n[privacy]\nrho = 10.0\n'
        f"[columns.place]\nvalues = {places}\n[columns.hour]\nvalues = {hours}\n",
        encoding="utf-8",
    )
    with running_server(single_user_config(schema).model_copy(update={"limits": GENEROUS})) as server:
        yield server


def fill_history(ledger: SQLLedger, dataset: str, lines: int) -> None:
    """Lines of the ledger made in bulk: a charge each would take too long for tens of thousands.

    They are copies of one real charge, so the audit log knows nothing of them.
    """
    first = ledger.reserve(
        dataset, Charge("query", "line 0", Request(line_sql(0), {"sql": line_sql(0)}), 1e-6)
    )
    ledger.release(first.row, "{}")
    with ledger.store.writing() as connection:
        row = connection.execute(sa.select(ENTRIES).where(ENTRIES.c.id == first.row)).one()._asdict()
        copies = [
            row
            | {
                "id": first.row + line,
                "number": row["number"] + line,
                "key": f"line {line}",
                "description": line_sql(line),
                "request": json.dumps({"sql": line_sql(line)}),
                "total_units": row["total_units"] + line * row["charge_units"],
                "own_units": row["own_units"] + line * row["charge_units"],
            }
            for line in range(1, lines)
        ]
        connection.execute(sa.insert(ENTRIES), copies)
        connection.execute(sa.insert(RELEASES), [{"entry": copy["id"], "payload": "{}"} for copy in copies])
        fill_accounts(connection)


def line_sql(line: int) -> str:
    return f"SELECT night, COUNT(*) FROM trips WHERE zone = 'Zone {line % GROUPS:03d}' GROUP BY night"


def groups(page: Page) -> Fluidity:
    """Of an answer with 500 groups: shown, one of them chosen, scrolled."""
    rows = page.get_by_role("list", name="Groups")
    shown = _seconds(page, page.get_by_role("button", name="Run ·"), _ROW, 1)
    chosen = _seconds(page, rows.locator(".row").first, "[aria-pressed=true].row", 1)
    return Fluidity(shown, chosen, *_frames(rows, 250))


@dataclass(frozen=True)
class Opening:
    """Seconds until 20,000 groups are painted: told by the server, drawn by the page, searched."""

    told: float
    drawn: float
    searched: float
    megabytes: float  # of the answer


def widest(page: Page, address: str) -> Opening:
    """A stored answer opened by its address, and one of its groups found by its name."""
    page.goto(address)
    shown, told, size = page.evaluate(
        """async (selector) => {
        while (!document.querySelector(selector)) await new Promise(requestAnimationFrame);
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        const answers = performance.getEntriesByType('resource').filter(({ name }) => /answers/.test(name));
        const [answer] = answers;
        return [performance.now(), answer.responseEnd, answer.transferSize]; }""",
        _ROW,
    )
    searched = page.get_by_role("searchbox", name="Find a group").evaluate(
        """async (field, selector) => {
        const start = performance.now();
        field.value = 'Place 007, Hour 07';
        field.dispatchEvent(new Event('input', { bubbles: true }));
        while (document.querySelectorAll(selector).length !== 1) await new Promise(requestAnimationFrame);
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        return performance.now() - start; }""",
        _ROW,
    )
    return Opening(told / 1000, (shown - told) / 1000, searched / 1000, size / 1e6)


def history(page: Page) -> Fluidity:
    """Of a history with 20,000 lines: shown, searched, scrolled."""
    shown = _seconds(page, page.get_by_role("button", name="History"), "dialog li", 1)
    lines = page.get_by_role("dialog").get_by_role("region", name="Entries, newest first")
    scrolled = _frames(lines, 500)
    search = page.get_by_role("searchbox", name="Find in the history")
    started = page.evaluate("performance.now()")
    search.fill("Zone 007")
    page.wait_for_function(
        """() => { const lines = [...document.querySelectorAll('dialog li')];
        return lines.length && lines.every((line) => line.textContent.includes('Zone 007')); }"""
    )
    ended = page.evaluate(f"({_PAINTED})().then(() => performance.now())")
    return Fluidity(shown, (ended - started) / 1000, *scrolled)


def resting(page: Page) -> float:
    """Milliseconds between frames while nothing happens: what the machine has to give at the moment."""
    return _frames(page.locator("body"), 0)[0]


def _seconds(page: Page, button: Any, selector: str, count: int) -> float:
    """From a click until so many of something are there and painted."""
    taken: float = button.evaluate(
        """async (button, [selector, count]) => {
        const start = performance.now();
        button.click();
        while (document.querySelectorAll(selector).length < count) await new Promise(requestAnimationFrame);
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        return performance.now() - start; }""",
        [selector, count],
    )
    return taken / 1000


def _frames(part: Any, step: int, frames: int = 60) -> tuple[float, float]:
    times: list[float] = part.evaluate(_SCROLL, [frames, step])
    return median(times), max(times)
