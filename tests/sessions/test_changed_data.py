"""Answers of different data never mix: files, tables, sessions and processes, as a person meets them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import dpxplain as dpx
from dpxplain.engines import source_state
from dpxplain.errors import BadRequest, DataChanged, SourceError
from dpxplain.ledger.ledger import open_ledger
from opened import dataset_of, settle_files

SQL = "SELECT origin, COUNT(*) FROM flights GROUP BY origin"
LONG_AGO = 1_000_000_000_000_000_000


def schema(version: str = "", **table: Any) -> dict[str, Any]:
    columns = {
        "origin": {"values": ["EWR", "JFK"]},
        "carrier": {"values": ["AA", "UA"]},
        "delay": {"bounds": [-90, 300]},
    }
    named = {"name": "flights"} | ({"version": version} if version else {}) | table
    return {"table": named, "privacy": {"rho": 50}, "columns": columns}


def rows(ewr: int, jfk: int) -> dict[str, list[Any]]:
    origin = ["EWR"] * ewr + ["JFK"] * jfk
    return {
        "origin": origin,
        "carrier": [("AA", "UA")[i % 2] for i in range(len(origin))],
        "delay": [float(i % 50) for i in range(len(origin))],
    }


def write(path: Path, ewr: int, jfk: int) -> Path:
    frame = pd.DataFrame(rows(ewr, jfk))
    draft = path.with_name("draft")
    if path.suffix == ".csv":
        frame.to_csv(draft, index=False)
    else:
        frame.to_parquet(draft)
    os.replace(draft, path)
    return path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def connect(workspace: Path) -> Callable[..., dpx.Session]:
    def opened(source: object, version: str = "", **options: Any) -> dpx.Session:
        return dpx.connect(source, schema(version), workspace=workspace, **options)

    return opened


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_swapped_file_answers_nothing_old_and_nothing_new(suffix, tmp_path, connect):
    file = write(tmp_path / f"flights{suffix}", 2000, 1000)
    with connect(file) as session:
        session.query(SQL, rho=1)
    write(file, 1000, 2000)
    with connect(file) as session:
        for request in (
            lambda: session.query(SQL, rho=1),
            lambda: session.query(SQL, rho=0.5),
            session.answer,
            lambda: session.find_answer(1),
        ):
            with pytest.raises(DataChanged, match="so new queries are blocked") as refusal:
                request()
            assert refusal.value.code() == "data_changed"
        assert session.budget.spent == 1, "a refusal charges nothing"
        assert [entry.rho for entry in session.history] == [1], "what was asked stays visible"


def test_a_file_swapped_under_an_open_session_is_noticed_at_the_next_request(tmp_path, connect):
    file = write(tmp_path / "flights.csv", 2000, 1000)
    with connect(file) as session:
        session.query(SQL, rho=1)
        write(file, 1000, 2000)
        for rho in (1, 0.5):
            with pytest.raises(DataChanged):
                session.query(SQL, rho=rho)
        write(file, 2000, 1000)
        assert session.query(SQL, rho=1).free, "the same content may be written again"
        file.unlink()
        with pytest.raises(DataChanged):
            session.query(SQL, rho=1)


def test_an_answer_found_before_its_file_was_swapped_is_not_shown_afterwards(tmp_path, connect):
    file = write(tmp_path / "flights.csv", 2000, 1000)
    with connect(file) as session:
        session.query(SQL, rho=1)
        planned = session.plan(SQL, 1)
        assert planned.find() is not None
        write(file, 1000, 2000)
        for show in (planned.run, planned.find):
            with pytest.raises(DataChanged):
                show()


def test_after_prepare_no_report_says_both(tmp_path, connect):
    file = write(tmp_path / "flights.csv", 3000, 1000)
    with connect(file) as session:
        session.query(SQL, rho=1).prepare(rho=1)
    write(file, 1000, 3000)
    with connect(file) as session, pytest.raises(DataChanged):
        session.answer()
    with connect(file, "2") as session:
        answer = session.query(SQL, rho=1)
        assert not answer.free
        assert answer["JFK"].estimate > answer["EWR"].estimate
        question = answer.why("JFK", "EWR")
        with pytest.raises(BadRequest):
            question.explain(k=1)  # what was prepared of the old data explains nothing of the new
        assert not question.preview(k=1, rho=0.5).price.free
        assert session.budget.spent == 3, "under the same budget"


def test_a_new_version_starts_clean_and_the_old_one_can_come_back(tmp_path, connect):
    old, new = write(tmp_path / "old.csv", 2000, 1000), write(tmp_path / "new.csv", 1000, 2000)
    with connect(old, "2026-10") as session:
        first = session.query(SQL, rho=1)
    with connect(new, "2026-11") as session:
        second = session.query(SQL, rho=1)
        assert not second.free
        assert second["JFK"].estimate > second["EWR"].estimate
        assert session.answer().id == second.id, "the latest answer is one of this version"
        with pytest.raises(BadRequest, match="version '2026-10' of the data"):
            session.answer(first.id)
        assert [entry.version for entry in session.history] == ["2026-10", "2026-11"]
        shown = [line.split()[:2] for line in str(session.history).splitlines() if "SELECT" in line]
        assert [version for _, version in shown] == ["2026-10", "2026-11"]
    with connect(old, "2026-10") as session:
        again = session.query(SQL, rho=1)
        assert again.free
        assert again["EWR"].estimate == first["EWR"].estimate
        assert session.answer().id == first.id
    for file, version in ((new, "2026-10"), (old, "2026-11")):
        with connect(file, version) as session, pytest.raises(DataChanged):
            session.query(SQL, rho=1)


def test_a_version_takes_the_data_of_its_first_charge_not_of_its_opening(tmp_path, connect):
    file = write(tmp_path / "flights.csv", 2000, 1000)
    connect(file).close()
    write(file, 1000, 2000)
    with connect(file) as session:
        assert session.query(SQL, rho=1)["JFK"].estimate > 1500


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table, "objects", "reader", "categories"])
def test_a_changed_table_in_memory_is_noticed_and_the_same_is_not(kind, connect):
    def table(ewr: int, jfk: int) -> object:
        columns = rows(ewr, jfk)
        if kind == "objects":
            return pd.DataFrame(columns).astype({"origin": object})
        if kind == "categories":
            return pd.DataFrame(columns).astype({"origin": "category"})
        if kind == "reader":
            return pa.table(columns).to_reader(100)
        return kind(columns)  # type: ignore[operator]

    with connect(table(200, 100)) as session:
        session.query(SQL, rho=1)
    with connect(table(200, 100)) as session:
        assert session.query(SQL, rho=1).free
    for changed in (table(199, 101), table(200, 101)):
        with connect(changed) as session, pytest.raises(DataChanged):
            session.query(SQL, rho=1)


def test_chunks_nulls_and_slices_of_a_table_do_not_matter_but_values_do(connect):
    whole = pa.table(rows(50, 50) | {"delay": pa.array([None, 1.5] * 50), "note": pa.array(["", None] * 50)})
    with connect(whole) as session:
        session.query(SQL, rho=1)
    same = pa.concat_tables([whole.slice(0, 33), whole.slice(33)]).select(whole.column_names[::-1])
    with connect(same) as session:
        assert session.query(SQL, rho=1).free
    for name, column in (("note", pa.array([None, ""] * 50)), ("delay", pa.array([1.5, None] * 50))):
        changed = whole.set_column(whole.column_names.index(name), name, column)
        with connect(changed) as session, pytest.raises(DataChanged):
            session.query(SQL, rho=1)


def test_files_of_a_glob_may_move_but_not_change_in_number_or_content(tmp_path, connect):
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "a.csv", 200, 100)
    write(folder / "b.csv", 100, 100)
    with connect(str(folder / "*.csv")) as session:
        session.query(SQL, rho=1)
    (folder / "a.csv").rename(folder / "c.csv")
    with connect(str(folder / "*.csv")) as session:
        assert session.query(SQL, rho=1).free
    write(folder / "d.csv", 1, 1)
    with connect(str(folder / "*.csv")) as session, pytest.raises(DataChanged):
        session.query(SQL, rho=1)


def test_a_file_whose_times_were_set_back_is_noticed(tmp_path, connect, monkeypatch):
    """Size and time of modification are as before; only content and change time differ."""
    settle_files(monkeypatch)
    file = write(tmp_path / "flights.csv", 2000, 1000)
    os.utime(file, ns=(LONG_AGO, LONG_AGO))
    with connect(file) as session:
        session.query(SQL, rho=1)
        content = file.read_bytes()
        file.write_bytes(content.replace(b"EWR,AA", b"JFK,AA"))
        os.utime(file, ns=(LONG_AGO, LONG_AGO))
        with pytest.raises(DataChanged):
            session.query(SQL, rho=1)
    with connect(file) as session, pytest.raises(DataChanged):
        session.query(SQL, rho=1)


def after_digest(then: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls `then` with the states of the files after each time that they are read for their digest."""
    digest_of = source_state._digest_of

    def watched(states: Any) -> Any:
        digest = digest_of(states)
        then(states)
        return digest

    monkeypatch.setattr(source_state, "_digest_of", watched)


def test_an_unchanged_file_is_read_for_its_digest_once(tmp_path, connect, monkeypatch):
    digested: list[Any] = []
    after_digest(digested.append, monkeypatch)
    settle_files(monkeypatch)
    file = write(tmp_path / "flights.csv", 2000, 1000)
    for _ in range(4):
        with connect(file) as session:
            session.query(SQL, rho=1)
            session.answer()
    # Opened and charged; the other sessions recognise it.
    assert len(digested) == 1


def test_a_file_that_changes_while_it_is_read_is_not_opened(tmp_path, connect, monkeypatch):
    file = write(tmp_path / "flights.csv", 2000, 1000)
    after_digest(lambda _states: write(file, 1000, 2000), monkeypatch)
    with pytest.raises(SourceError, match="changed while DPXPlain read it"):
        connect(file)


def test_a_cached_encoded_table_is_of_the_data_that_are_checked(tmp_path, workspace, monkeypatch):
    settle_files(monkeypatch)
    file = write(tmp_path / "flights.parquet", 2000, 1000)
    for _ in range(2):
        with dpx.connect(file, schema(cache=True), workspace=workspace) as session:
            session.query(SQL, rho=1)
    write(file, 1000, 2000)
    with (
        dpx.connect(file, schema(cache=True), workspace=workspace) as session,
        pytest.raises(DataChanged),
    ):
        session.query(SQL, rho=1)


def test_a_table_changed_in_place_is_not_measured_beside_its_copy(connect):
    """Quality reads the source again."""
    frame = pd.DataFrame(rows(200, 100))
    with connect(frame) as session:
        session.quality(rho=1)
        frame.loc[0, "origin"] = "JFK"
        with pytest.raises(DataChanged, match="The charge stays"):
            session.quality(rho=0.5)


@pytest.mark.parametrize("place", ["file", "postgres"])
def test_of_two_ledgers_with_different_data_one_opens_the_version(place, tmp_path, request):
    """Both have opened their data before either is charged, as two processes would."""
    from dpxplain.engines.duckdb import DuckDBEngine
    from dpxplain.model.schema import Schema
    from dpxplain.phases.dataset import LocalReleaser, OpenDataset, VersionCheck
    from dpxplain.privacy.mechanisms.noise import private_noise

    address = tmp_path / "l.sqlite" if place == "file" else request.getfixturevalue("postgres_address")
    declared = Schema.load(schema("1"))
    sessions = []
    for number, sizes in enumerate(((2000, 1000), (1000, 2000))):
        ledger = open_ledger(address)
        ledger.open_dataset("flights", 50, 1e-6)
        engine = DuckDBEngine(write(tmp_path / f"{number}.csv", *sizes), declared)
        version_check = VersionCheck(ledger.versions, "flights", "1", engine.source)
        noise = private_noise("vectorised")
        dataset = OpenDataset(
            declared, engine, ledger, LocalReleaser(ledger), noise, version_check=version_check
        )
        sessions.append(dpx.Session(dataset))
        assert sessions[-1].preview(SQL, rho=1).price.rho == 1
    first, second = sessions
    first.query(SQL, rho=1)
    for rho in (1, 0.5):
        with pytest.raises(DataChanged):
            second.query(SQL, rho=rho)
    with closing(open_ledger(address)) as ledger:
        assert ledger.budget("flights").spent == 1
        assert ledger.verify_audit().problems == []
        actions = [record.action for record in ledger.audit()]
    assert actions.count("data version opened") == 1
    assert actions.index("data version opened") < actions.index("reserved")
    for session in sessions:
        session.close()


@pytest.mark.process
def test_another_process_is_refused_too(tmp_path, workspace, connect):
    file = write(tmp_path / "flights.csv", 2000, 1000)
    with connect(file) as session:
        session.query(SQL, rho=1)
    write(file, 1000, 2000)
    program = (
        "import sys, json, dpxplain as dpx\n"
        "from dpxplain.errors import DataChanged\n"
        f"session = dpx.connect({str(file)!r}, {schema()!r}, workspace={str(workspace)!r})\n"
        "try:\n"
        f"    session.query({SQL!r}, rho=1)\n"
        "except DataChanged as refusal:\n"
        "    print(refusal.code())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "data_changed"


def test_no_digest_of_the_data_is_stored_or_printed(tmp_path, workspace, connect):
    file = write(tmp_path / "flights.csv", 2000, 1000)
    import hashlib

    digest = hashlib.sha256(hashlib.sha256(file.read_bytes()).digest()).hexdigest()
    with connect(file) as session:
        session.query(SQL, rho=1)
        assert "sha" not in repr(dataset_of(session).version_check._source.digest())
    stored = b"".join(path.read_bytes() for path in workspace.rglob("*") if path.is_file())
    assert digest.encode() not in stored
    assert bytes.fromhex(digest) not in stored


def test_two_ledgers_have_different_fingerprints_of_the_same_data(tmp_path):
    file = write(tmp_path / "flights.csv", 2000, 1000)
    fingerprints = set()
    for name in ("a", "b"):
        with dpx.connect(file, schema(), workspace=tmp_path / name) as session:
            session.query(SQL, rho=1)
        with closing(open_ledger(tmp_path / name / "ledger.sqlite")) as ledger:
            [version] = ledger.versions.list("flights")
            fingerprints.add(version.fingerprint)
            assert version.fingerprint not in repr(version)
    assert len(fingerprints) == 2


def test_parquet_of_the_same_rows_written_otherwise_is_another_file(tmp_path, connect):
    """The content of a file is its bytes: whoever converts it declares a version."""
    file = tmp_path / "flights.parquet"
    parquet.write_table(pa.table(rows(200, 100)), file)
    with connect(file) as session:
        session.query(SQL, rho=1)
    parquet.write_table(pa.table(rows(200, 100)), file, compression="gzip")
    with connect(file) as session, pytest.raises(DataChanged):
        session.query(SQL, rho=1)
