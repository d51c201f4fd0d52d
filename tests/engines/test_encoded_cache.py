"""The encoded table may be kept on disk if the curator says so; it opens faster and changes nothing."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import dpxplain as dpx
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.encoded_tables import EncodedFile
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema
from opened import settle_files

LONG_AGO = 1_000_000_000_000_000_000
QUERY = Query("t", ("g",), Aggregate("sum", "x"))


def _schema(cache: bool = True, **column: Any) -> Schema:
    columns = {"g": {"values": ["A", "B"]}, "x": {"bounds": [0, 10]} | column}
    return Schema.load({"table": {"name": "t", "cache": cache}, "privacy": {"rho": 1}, "columns": columns})


def _write(path: Path, x: list[float]) -> Path:
    parquet.write_table(pa.table({"g": ["A", "B", "?"], "x": x}), path)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return _write(tmp_path / "t.parquet", [1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    settle_files(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "cache"


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes each time that rows are encoded and the file written."""
    notes: list[str] = []
    written = EncodedFile.written

    def noted(self: EncodedFile, connection: Any) -> Any:
        notes.append("encoded")
        return written(self, connection)

    monkeypatch.setattr(EncodedFile, "written", noted)
    return notes


def _sums(source: object, folder: Path, schema: Schema) -> list[int]:
    engine = DuckDBEngine(source, schema, cache=folder)
    grouped = engine.grouped(QUERY, ((),)).reveal()
    engine.close()
    return [int(total) for _, total in sorted(zip(grouped.codes["g"], grouped.total, strict=True))]


def test_an_unchanged_file_is_encoded_once(source: Path, folder: Path, encoded: list[str]) -> None:
    first = _sums(source, folder, _schema())
    assert _sums(source, folder, _schema()) == first
    assert len(encoded) == 1


def test_only_the_owner_can_read_the_cache(source: Path, folder: Path) -> None:
    before = os.umask(0)
    try:
        _sums(source, folder, _schema())
    finally:
        os.umask(before)
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_nothing_is_kept_unless_the_schema_says_so(source: Path, folder: Path) -> None:
    _sums(source, folder, _schema(cache=False))
    assert not folder.exists()
    _sums(pa.table({"g": ["A"], "x": [1.0]}), folder, _schema())
    assert not folder.exists(), "a table in memory has no file that could be recognised"


def test_a_cache_is_deleted_once_the_schema_allows_it_no_more(source: Path, folder: Path) -> None:
    _sums(source, folder, _schema())
    assert len(list(folder.iterdir())) == 1
    _sums(source, folder, _schema(cache=False))
    assert not list(folder.iterdir())


def test_a_changed_file_is_encoded_again(source: Path, folder: Path, encoded: list[str]) -> None:
    before = _sums(source, folder, _schema())
    # Of the same size and the same time of modification.
    os.replace(_write(source.with_name("new.parquet"), [5.0, 6.0, 7.0]), source)
    after = _sums(source, folder, _schema())
    assert before != after
    assert len(encoded) == 2
    assert len(list(folder.iterdir())) == 1, "the stale table does not stay"


def test_other_declarations_are_encoded_again(source: Path, folder: Path, encoded: list[str]) -> None:
    whole = _sums(source, folder, _schema())
    assert _sums(source, folder, _schema(bounds=[0, 1])) != whole
    assert len(encoded) == 2


@pytest.mark.parametrize("damage", ["empty", "cut short", "one bit", "another file"])
def test_a_damaged_cache_is_ignored_and_written_anew(
    damage: str, source: Path, folder: Path, encoded: list[str]
) -> None:
    right = _sums(source, folder, _schema())
    [file] = folder.iterdir()
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    file.write_bytes(
        {"empty": b"", "cut short": whole[:-9], "one bit": flipped, "another file": b"PAR1" * 99}[damage]
    )
    assert _sums(source, folder, _schema()) == right
    assert len(encoded) == 2
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert _sums(source, folder, _schema()) == right
    assert len(encoded) == 2


def test_a_file_that_changed_just_now_is_not_kept(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time of modification is long ago, as that of a copy can be."""
    settle_files(monkeypatch, 3600)
    _sums(source, folder, _schema())
    assert not folder.exists()


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_folder_that_others_may_enter_is_neither_read_nor_written(
    mode: int, source: Path, folder: Path, encoded: list[str]
) -> None:
    right = _sums(source, folder, _schema())
    folder.chmod(mode)
    [file] = folder.iterdir()
    before = file.stat()
    assert _sums(source, folder, _schema()) == right
    assert len(encoded) == 2
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_folder_of_somebody_else_is_not_used(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    _sums(source, folder, _schema())
    assert not list(folder.iterdir())


@pytest.mark.process
@pytest.mark.parametrize("cache", [True, False])
def test_what_a_killed_process_left_is_deleted_at_the_next_opening(
    source: Path, folder: Path, cache: bool
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder.mkdir(parents=True, mode=0o700)
    stem = hashlib.sha256(b"t").hexdigest()[:32]
    (folder / f"{stem}.{ended.pid}.17.part").write_bytes(b"rows")
    (folder / f"{stem}.{ended.pid}.18.spill").mkdir()
    (folder / f"{stem}.{ended.pid}.18.spill" / "duckdb_temp").write_bytes(b"rows")
    running = folder / f"{stem}.{os.getpid()}.19.part"
    running.write_bytes(b"rows of a session that is writing now")
    _sums(source, folder, _schema(cache=cache))
    kept = set(folder.iterdir())
    assert running in kept
    assert [file.suffix for file in kept - {running}] == ([".encoded"] if cache else [])


def test_a_workspace_that_cannot_be_written_opens_all_the_same(source: Path, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where the folder would be")
    assert _sums(source, tmp_path / "blocked", _schema()) == _sums(source, tmp_path / "free", _schema())


def test_a_session_keeps_it_in_its_workspace_and_stored_answers_stay_free(
    source: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    sql = "SELECT g, SUM(x) FROM t GROUP BY g"
    with dpx.connect(source, _schema(cache=False), workspace=workspace) as session:
        session.query(sql, rho=0.1)
    assert not (workspace / "cache").exists()
    for _ in range(2):
        with dpx.connect(source, _schema(), workspace=workspace) as session:
            assert session.query(sql, rho=0.1).free
    assert len(list((workspace / "cache").iterdir())) == 1
