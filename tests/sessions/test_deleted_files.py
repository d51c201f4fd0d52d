"""Files that are deleted while a session is open: the next question fails soon, in words, or is answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import dpxplain as dpx
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import LedgerUnavailable
from opened import settle_files

SECONDS = 20  # a locked ledger is waited for longer than that
SQL = "SELECT g, SUM(x) FROM t GROUP BY g"


def _schema(storage: str, cache: bool = False) -> dict[str, Any]:
    return {
        "table": {"name": "t", "storage": storage, "cache": cache},
        "privacy": {"rho": 10.0},
        "columns": {
            "g": {"values": ["A", "B"]},
            "h": {"values": ["C", "D"]},
            "x": {"bounds": [0, 10], "step": 1},
        },
    }


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settle_files(monkeypatch)
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"g": ["A", "B", "B"], "h": ["C", "C", "D"], "x": [1.0, 2.0, 3.0]}), path)
    return path


def _soon(ask: Callable[[], Any]) -> Any:
    """The result of a call, or its exception, at the latest after the limit."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(ask).result(SECONDS)
    finally:
        pool.shutdown(wait=False)


@pytest.mark.parametrize(
    "deleted", [["ledger.sqlite"], ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"]]
)
def test_a_deleted_ledger_is_no_longer_asked(deleted: list[str], source: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    with dpx.connect(source, _schema("memory"), workspace=workspace) as session:
        answer = session.query(SQL, rho=0.1)
        for name in deleted:
            (workspace / name).unlink(missing_ok=name != "ledger.sqlite")
        questions: list[Callable[[], Any]] = [
            lambda: session.query(SQL, rho=0.2),
            lambda: session.query(SQL, rho=0.1),  # free before
            lambda: answer.prepare(rho=0.1),
            lambda: session.budget,
        ]
        began = time.monotonic()
        for question in questions:
            with pytest.raises(
                LedgerUnavailable, match="was removed or replaced while it was open"
            ) as refusal:
                _soon(question)
            assert "Put the same file back" in refusal.value.remedy
        assert time.monotonic() - began < SECONDS
    assert not (workspace / "ledger.sqlite").exists(), "no empty ledger takes its place"


def test_a_ledger_that_is_deleted_during_a_query_ends_it_and_everybody_who_waits_for_it(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "workspace"
    grouped, reached, deleted = DuckDBEngine.grouped, Event(), Event()

    def delayed(engine: DuckDBEngine, *args: Any, **settings: Any) -> Any:
        reached.set()
        assert deleted.wait(SECONDS)
        return grouped(engine, *args, **settings)

    monkeypatch.setattr(DuckDBEngine, "grouped", delayed)
    with dpx.connect(source, _schema("memory"), workspace=workspace) as session:
        pool = ThreadPoolExecutor(2)
        asked = [pool.submit(session.query, SQL, rho=0.1)]
        assert reached.wait(SECONDS)
        asked.append(pool.submit(session.query, SQL, rho=0.1))  # the same question: it waits for the first
        time.sleep(0.2)
        (workspace / "ledger.sqlite").unlink()
        deleted.set()
        for question in asked:
            with pytest.raises(LedgerUnavailable, match="was removed or replaced while it was open"):
                question.result(SECONDS)
        pool.shutdown(wait=False)


@pytest.mark.parametrize("cache", [True, False])
def test_deleted_encoded_rows_are_still_read_by_the_session_that_opened_them(
    cache: bool, source: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    with dpx.connect(source, _schema("file", cache), workspace=workspace, curator=True) as session:
        kept = list(tmp_path.rglob("*.encoded"))
        assert len(kept) == cache
        for path in kept:
            path.unlink()
        answer = _soon(lambda: session.query(SQL, rho=0.1))
        assert [record["true"] for record in answer.truth().records()] == [1, 5]
    with dpx.connect(source, _schema("file", cache), workspace=workspace, curator=True) as session:
        answer = _soon(lambda: session.query(SQL, rho=0.3))
        assert [record["true"] for record in answer.truth().records()] == [1, 5]
