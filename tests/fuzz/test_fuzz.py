"""Short runs of what `make fuzz` does, with a fixed seed: the same cases each time."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_fuzz import fuzz_ledgers
from schema_fuzz import fuzz_schemas
from sql_fuzz import fuzz_sql
from sqlglot import exp
from wire_fuzz import fuzz_wire, open_config

from dpxplain.sql import source
from server_fixture import running_server

SEED = 20261116


def test_statements_have_duckdbs_values_or_a_place_and_a_remedy(tmp_path: Path) -> None:
    figures = fuzz_sql(SEED, iter(range(200)), tmp_path)
    assert figures.wrong == []
    assert figures.compared > 40  # or the grammar has lost touch with what is answered
    assert figures.released > 3
    assert len(figures.not_in_duckdb) < 10


def test_a_comparison_read_wrongly_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer's power: one operator mistaken for its neighbour among the statements above."""
    monkeypatch.setitem(source.COMPARISONS, exp.LT, "<=")
    figures = fuzz_sql(SEED, iter(range(200)), tmp_path)
    assert any("AssertionError" in failure for failure in figures.wrong)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 1_000, 2_000])  # beside each other
def test_thousands_of_statements_have_duckdbs_values_or_a_place_and_a_remedy(
    start: int, tmp_path: Path
) -> None:
    figures = fuzz_sql(SEED + 1, iter(range(start, start + 1_000)), tmp_path)
    assert figures.wrong == []
    assert figures.compared > 230


def test_damaged_schemas_are_refused_in_words_or_work(tmp_path: Path) -> None:
    figures = fuzz_schemas(SEED, iter(range(150)), tmp_path)
    assert figures.wrong == []
    assert figures.refused < figures.tried


def test_damaged_requests_meet_no_server_error(tmp_path: Path) -> None:
    with running_server(open_config(tmp_path)) as server:
        figures = fuzz_wire(SEED, iter(range(200)), server)
    assert figures.wrong == []
    assert figures.statuses[200] > 10


def test_flipped_bits_in_a_ledger_are_refused_or_found_or_change_nothing(tmp_path: Path) -> None:
    figures = fuzz_ledgers(SEED, iter(range(40)), tmp_path)
    assert figures.wrong == []
    assert figures.refused + figures.found > 4
