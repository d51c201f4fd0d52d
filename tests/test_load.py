"""The load test runs at toy size and writes its page; ledgers that it makes long are as real ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for benchmarks

from benchmarks import load, load_document
from benchmarks.ledger_growth import grow
from benchmarks.load_growth import Growth, Times

from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Request

LINE = load_document.Line("stored answers", "SQLite", "10 a second", "every one answered", True)
SIZES = [
    Growth(lines, {"why": Times(4.0 + lines / 100, 3.0)}, 5.0, 1.0, 0.5, 2.0, 0.1) for lines in (100, 200)
]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_ledger_made_long_verifies_and_goes_on(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    sqlite = database == "sqlite"
    place = str(tmp_path / "ledger.sqlite") if sqlite else request.getfixturevalue("postgres_address")
    ledger = open_ledger(place)
    try:
        ledger.open_dataset("adult", limit=1_000.0, delta=1e-6)
        ann = ledger.account("ann", default_limit=None)
        for key in ("first", "second"):
            charge = Charge("query", key, Request("SELECT COUNT(*) FROM adult"), 0.25)
            ann.release(ann.reserve("adult", charge).id, '{"count": 48839}')
        grow(ledger, "adult", 100)
        last = ann.reserve("adult", Charge("query", "last", Request("SELECT 1"), 0.5))
        lines = ann.history("adult")
        assert len([line for line in lines if line.rho]) == 101
        assert len({line.key for line in lines}) == len(lines)
        assert last.id == max(line.id for line in lines)
        assert ledger.budget("adult").spent == 100 * 0.25 + 0.5
        assert ledger.verify_audit().problems == []
    finally:
        ledger.close()


def test_the_page_takes_new_figures_and_keeps_what_people_wrote(tmp_path: Path) -> None:
    page = tmp_path / "load.md"
    page.write_text("<!-- figures -->\nold\n<!-- /figures -->\n\nA remark.\n", "utf-8")
    load_document.write([LINE], {"SQLite": SIZES}, answers=4, seconds=1.0, path=page)
    text = page.read_text("utf-8")
    assert "old" not in text
    assert text.endswith("\nA remark.\n")
    assert "| stored answers | SQLite | 10 a second | every one answered | yes |" in text
    assert "| SQLite | 100 lines | 200 lines | last / first |" in text
    assert "| why | 5.0 ms (3.0) | 6.0 ms (3.0) | 1.20 (1.00) |" in text


def test_the_page_has_a_place_for_its_figures() -> None:
    assert len(load_document._FIGURES.findall(load_document.DOCUMENT.read_text("utf-8"))) == 1


@pytest.mark.slow
@pytest.mark.process
def test_the_database_goes_and_comes_back_and_nothing_is_lost_or_charged_twice() -> None:
    results = load.run(load.QUICK, ["outages"])
    assert [line.kept for line in results.lines] == [True]


@pytest.mark.slow
@pytest.mark.process
def test_growth_is_measured_on_both_databases() -> None:
    results = load.run(load.Sizes(growth=(10, 20)), ["growth"])
    assert {name: [size.lines for size in sizes] for name, sizes in results.growth.items()} == {
        "SQLite": [10, 20],
        "PostgreSQL": [10, 20],
    }
