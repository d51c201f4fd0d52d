"""The load test runs at toy size and writes its page; ledgers that it makes long are as real ones."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for benchmarks

from benchmarks import load, load_document, load_results
from benchmarks.ledger_growth import fill_history
from benchmarks.load_growth import Growth, Times
from benchmarks.load_results import Line, Result

from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Request

LINE = Line("stored answers", "10 a second", "every one answered", True)
SIZES = [
    Growth(lines, {"why": Times(4.0 + lines / 100, 3.0)}, 5.0, 1.0, 0.5, 2.0, 0.1) for lines in (100, 200)
]


def stored(per_second: int, database: str = "SQLite") -> Result:
    line = Line("stored answers", f"{per_second} a second", "every one answered", True)
    sizes = {"connections": 16, "seconds": 2.0}
    return Result("throughput", database, [line], sizes=sizes, machine="a machine")


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
        fill_history(ledger, "adult", 100)
        last = ann.reserve("adult", Charge("query", "last", Request("SELECT 1"), 0.5))
        lines = ann.history("adult")
        assert len([line for line in lines if line.rho]) == 101
        assert len({line.key for line in lines}) == len(lines)
        assert last.id == max(line.id for line in lines)
        assert ledger.budget("adult").spent == 100 * 0.25 + 0.5
        assert ledger.verify_audit().problems == []
    finally:
        ledger.close()


def test_a_part_measured_anew_replaces_itself_and_nothing_else(tmp_path: Path) -> None:
    file, page = tmp_path / "load.json", tmp_path / "load.md"
    page.write_text("<!-- figures -->\nold\n<!-- /figures -->\n\nA remark.\n", "utf-8")
    for result in (stored(10), stored(20, "PostgreSQL"), stored(30)):
        load_results.store(result, file)
    load_document.write(load_results.read(file), page)
    text = page.read_text("utf-8")
    assert "old" not in text
    assert text.endswith("\nA remark.\n")
    assert "| stored answers | SQLite | 10 a second |" not in text
    assert (
        "| stored answers | SQLite | 30 a second | every one answered | yes |\n"
        "| stored answers | PostgreSQL | 20 a second | every one answered | yes |\n"
    ) in text
    assert "over 16 connections for 2 seconds" in " ".join(text.split())
    assert "- SQLite: a machine.\n- PostgreSQL: a machine.\n" in text


def test_growth_is_shown_with_the_last_length_as_a_multiple_of_the_first(tmp_path: Path) -> None:
    result = Result("growth", "SQLite", [LINE], load.growth_table("SQLite", SIZES), {"times": 30})
    load_results.store(result, tmp_path / "load.json")
    text = load_document.figures(load_results.read(tmp_path / "load.json"))
    assert "| SQLite | 100 lines | 200 lines | last / first |" in text
    assert "| why | 5.0 ms (3.0) | 6.0 ms (3.0) | 1.20 (1.00) |" in text


def test_the_page_says_what_is_stored() -> None:
    assert load_document.figures(load_results.read()) in load_document.DOCUMENT.read_text("utf-8")


def test_only_the_parts_and_databases_that_are_asked_for_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measures = {part: partial(_measured, part) for part in load.PARTS}
    monkeypatch.setattr(load, "PARTS", measures)
    measured = load.run(load.QUICK, ["kills", "times"], ["PostgreSQL"])
    assert [(result.part, result.database) for result in measured] == [
        ("times", "PostgreSQL"),
        ("kills", "PostgreSQL"),
    ]
    assert len(list(load.run(load.QUICK))) == 2 * len(load.PARTS)


def _measured(part: str, database: str, _sizes: load.Sizes) -> Result:
    return Result(part, database, [LINE])


@pytest.mark.slow
@pytest.mark.process
def test_the_ledger_goes_and_comes_back_and_nothing_is_lost_or_charged_twice() -> None:
    results = load.run(load.QUICK, ["outages"])
    assert [(result.database, line.kept) for result in results for line in result.lines] == [
        ("SQLite", True),
        ("PostgreSQL", True),
    ]


@pytest.mark.slow
@pytest.mark.process
def test_growth_is_measured_on_both_databases() -> None:
    results = load.run(replace(load.QUICK, growth=(10, 20)), ["growth"])
    assert {result.database: result.table.heads for result in results if result.table} == {
        database: [database, "10 lines", "20 lines", "last / first"] for database in load.DATABASES
    }
