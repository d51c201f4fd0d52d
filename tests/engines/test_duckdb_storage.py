"""Files larger than memory are encoded while they are read, or once into a file; answers are the same."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as parquet
import pytest

import dpxplain as dpx
from dpxplain.engines import source_state
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.encoded_tables import parquet_size, storage_place
from dpxplain.engines.source_state import FileSource
from dpxplain.errors import DataChanged, InternalError, SchemaError, SourceError
from dpxplain.model.process import Stop, Stopped, stoppable
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitQuestion
from opened import connection_of, settle_files

ROWS = pa.table({"g": ["A", "B", "?", None, "A"], "x": [1.0, 2.0, 3.0, 40.0, 5.0]})
OTHER = pa.table({"g": ["A", "B", "?", None, "B"], "x": [1.0, 2.0, 3.0, 40.0, 5.0]})
QUERY = Query("t", ("g",), Aggregate("sum", "x"))
SUMS = {0: (2, 13), 1: (2, 6), 2: (1, 2)}


def _schema(storage: str = "stream", cache: bool = False, **privacy: Any) -> Schema:
    table = {"name": "t", "storage": storage, "cache": cache}
    columns = {"g": {"values": ["A", "B"]}, "x": {"bounds": [0, 10], "step": 1}}
    return Schema.load({"table": table, "privacy": {"rho": 1} | privacy, "columns": columns})


def _sums(engine: DuckDBEngine) -> dict[int, tuple[int, int]]:
    grouped = engine.grouped(QUERY, ((),)).reveal()
    figures = zip(grouped.codes["g"].tolist(), grouped.count.tolist(), grouped.total.tolist(), strict=True)
    return {code: (count, total) for code, count, total in figures if count}


def _write_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def _write_database(table: pa.Table, path: Path) -> None:
    path.unlink(missing_ok=True)
    with closing(duckdb.connect(str(path))) as database:
        database.register("given", table)
        database.execute("CREATE TABLE t AS FROM given")


def _write_lines(table: pa.Table, path: Path) -> None:
    duckdb.from_arrow(table).to_df().to_json(path, orient="records", lines=True)


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "t.parquet": parquet.write_table,
    "t.csv": pa.csv.write_csv,
    "t.csv.gz": lambda table, path: table.to_pandas().to_csv(path, index=False),
    "t.jsonl": _write_lines,
    "t.feather": pa.feather.write_feather,  # compressed
    "t.arrow": _write_stream,
    "t.duckdb": _write_database,
}


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    settle_files(monkeypatch)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    parquet.write_table(ROWS, path)
    return path


@pytest.fixture
def streamed(source: Path) -> Iterator[DuckDBEngine]:
    with closing(DuckDBEngine(source, _schema())) as engine:
        yield engine


def place_of(engine: DuckDBEngine) -> str:
    return engine._place


@pytest.mark.parametrize("storage", ["stream", "file", "memory"])
@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_has_the_same_answers(name: str, storage: str, tmp_path: Path) -> None:
    WRITERS[name](ROWS, tmp_path / name)
    with closing(DuckDBEngine(tmp_path / name, _schema(storage), cache=tmp_path / "cache")) as engine:
        assert _sums(engine) == SUMS
        assert _sums(engine) == SUMS, "a second pass reads the source again"
        many = tuple((name,) for name in ["g"] * 5)  # counted here, row by row
        query = Query("t", (), Aggregate("sum", "x"))
        assert engine.grouped(query, many).reveal().total.sum() == 5 * sum(
            total for _, total in SUMS.values()
        )


@pytest.mark.parametrize("storage", ["stream", "file", "memory"])
@pytest.mark.parametrize(
    ("declared", "groups"),
    [
        ({"values": ["A", "B"]}, {0: (5, 24), 1: (2, 6), 2: (1, 2)}),
        ({"values": ["A", "B"], "null": True}, {0: (2, 7), 1: (2, 6), 2: (1, 2), 3: (3, 17)}),
        ({"values": ["B", None]}, {0: (4, 13), 1: (1, 2), 2: (3, 17)}),
        ({"values": [None]}, {0: (5, 15), 1: (3, 17)}),
    ],
    ids=["not declared", "null = true", "listed", "only NULL"],
)
def test_rows_with_null_are_counted_alike_wherever_the_rows_are_kept(
    declared: dict[str, Any], groups: dict[int, tuple[int, int]], storage: str, tmp_path: Path
) -> None:
    """Rows by hand: A has 1 and 5, B has 2, ? has 3, C has 4, NULL has 10 (40 capped), 7 and 0 (NULL).

    The row whose x is NULL is in no sum and in no count of x, so it is not among the groups' rows.
    """
    g = ["A", "B", "?", None, "A", None, "C", None, None]
    x = [1.0, 2.0, 3.0, 40.0, 5.0, 7.0, 4.0, 0.0, None]
    parquet.write_table(pa.table({"g": g, "x": x}), tmp_path / "t.parquet")
    schema = Schema.load(
        {
            "table": {"name": "t", "storage": storage},
            "privacy": {"rho": 1},
            "columns": {"g": declared, "x": {"bounds": [0, 10], "step": 1}},
        }
    )
    listed = sum(value in declared["values"] for value in g if value is not None)
    with closing(DuckDBEngine(tmp_path / "t.parquet", schema, cache=tmp_path / "cache")) as engine:
        assert place_of(engine) == storage
        assert _sums(engine) == groups
        fit = engine.fit(FitQuestion.of_quality(engine.schema)).reveal().rows.tolist()
        # g: fits, undeclared, NULL. x: fits, below, above, NULL.
        assert fit == [listed, 5 - listed, 4, 7, 0, 1, 1]


@pytest.mark.parametrize("storage", ["stream", "file"])
def test_globs_and_arrow_datasets_are_files_too(storage: str, tmp_path: Path) -> None:
    for number in range(5):
        parquet.write_table(ROWS.slice(number, 1), tmp_path / f"{number}.parquet")
    dataset = pa.dataset.dataset(tmp_path, format="parquet")
    for source in (str(tmp_path / "*.parquet"), [tmp_path / f"{n}.parquet" for n in range(5)], dataset):
        with closing(DuckDBEngine(source, _schema(storage), cache=tmp_path / "cache")) as engine:
            assert place_of(engine) == storage
            assert _sums(engine) == SUMS


def test_the_place_follows_from_declarations_sizes_of_files_and_the_memory_limit(source: Path) -> None:
    files = FileSource(source)

    def place(schema: Schema, memory: str | None = "0.03KB") -> str:
        return storage_place(schema, files, memory)

    assert place(_schema("auto"), "1GB") == "memory"
    assert place(_schema("auto"), None) == "memory"
    assert place(_schema("auto")) == "stream"
    assert place(_schema("auto", cache=True)) == "file"
    persons = "0.1KB"  # more than the encoded rows take, and less than twice as much
    assert place(_schema("auto", unit="id"), persons) == "memory", "nothing is written to disk unasked"
    assert place(_schema("auto", unit="id", cache=True), persons) == "file"
    assert place(_schema("memory"), persons) == "memory"
    assert place(_schema("file"), "1GB") == "file"
    assert storage_place(_schema("stream"), object(), "1KB") == "memory", "a table that is in memory already"


def test_a_small_file_of_many_equal_rows_is_judged_by_their_number_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, file = 4_000_000, tmp_path / "equal.parquet"
    parquet.write_table(pa.table({"g": ["A"] * rows, "x": [1.0] * rows}), file)
    assert file.stat().st_size < 100_000
    with closing(DuckDBEngine(file, _schema("auto"), memory="30MB")) as engine:
        assert place_of(engine) == "stream"
        assert _sums(engine) == {1: (rows, rows)}
    monkeypatch.setattr(DuckDBEngine, "_open", lambda *_: pytest.fail("read"))
    for schema in (_schema("memory"), _schema("auto", unit="g", max_rows=1)):
        with pytest.raises(SourceError, match="needs more memory than allowed"):
            DuckDBEngine(file, schema, memory="10MB")


def test_the_judged_size_of_encoded_rows_is_about_what_they_take(tmp_path: Path) -> None:
    rows, file = 1_000_000, tmp_path / "rows.parquet"
    numbers = pa.array(range(rows))
    parquet.write_table(pa.table({"g": ["A", "B"] * (rows // 2), "x": numbers, "e": numbers}), file)
    columns = {
        "g": {"values": ["A", "B"]},
        "x": {"bounds": [0, rows], "step": 1},
        "e": {"edges": [0, 10, 100]},
    }
    schema = Schema.load(
        {"table": {"name": "t", "storage": "memory"}, "privacy": {"rho": 1}, "columns": columns}
    )
    judged = parquet_size(schema, FileSource(file))
    with closing(DuckDBEngine(file, schema)) as engine:
        sizes = "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'IN_MEMORY_TABLE'"
        (taken,) = connection_of(engine).execute(sizes).fetchone() or (0,)
    assert 0.5 * judged < taken < 2 * judged


def test_the_rows_of_a_person_cannot_be_streamed(source: Path) -> None:
    with pytest.raises(SchemaError, match='storage = "file" or "memory"'):
        DuckDBEngine(source, _schema("stream", unit="x"))


def _replace(path: Path) -> None:
    parquet.write_table(OTHER, path.with_name("new"))
    os.replace(path.with_name("new"), path)


def _overwrite(path: Path) -> None:
    parquet.write_table(OTHER, path)


def _truncate(path: Path) -> None:
    os.truncate(path, 100)


@pytest.mark.parametrize("change", [_replace, _overwrite, _truncate, Path.unlink])
def test_files_that_change_between_two_passes_are_noticed(
    change: Callable[[Path], object], source: Path, streamed: DuckDBEngine
) -> None:
    assert _sums(streamed) == SUMS
    change(source)
    with pytest.raises(DataChanged, match="The charge stays"):
        _sums(streamed)


@pytest.mark.parametrize("change", [_replace, _overwrite, _truncate, Path.unlink])
def test_files_that_change_during_a_pass_are_noticed(
    change: Callable[[Path], object], source: Path, streamed: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = streamed._scan

    def scan_changed(*args: Any) -> Any:
        change(source)  # after the states were compared
        return scan(*args)

    monkeypatch.setattr(streamed, "_scan", scan_changed)
    with pytest.raises(DataChanged, match="The charge stays") as refusal:
        _sums(streamed)
    assert refusal.value.__cause__ is None


def test_a_file_too_young_for_its_times_to_tell_is_digested_around_each_pass(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_files(monkeypatch, 3600)
    states = source_state.file_states
    with closing(DuckDBEngine(source, _schema())) as engine:
        before = states([str(source)])
        assert _sums(engine) == SUMS
        _overwrite(source)
        # As if both writings had happened within one tick of the file system's clock.
        monkeypatch.setattr(source_state, "file_states", lambda _patterns: before)
        with pytest.raises(DataChanged):
            _sums(engine)


def test_the_same_content_written_again_is_no_change(source: Path, tmp_path: Path) -> None:
    sql = "SELECT g, SUM(x) FROM t GROUP BY g"
    with dpx.connect(source, _schema(), workspace=tmp_path / "w") as session:
        session.query(sql, rho=0.1)
        content = source.read_bytes()
        source.unlink()
        source.write_bytes(content)
        session.query(sql, rho=0.2)
        _replace(source)
        spent = session.budget.spent
        with pytest.raises(DataChanged, match="Nothing was charged"):
            session.query(sql, rho=0.3)
        assert session.budget.spent == spent


def test_what_cannot_be_read_is_refused_at_opening_not_after_a_charge(tmp_path: Path) -> None:
    texts = pa.array([b"A", b"\xff\xfe"], pa.binary()).view(pa.string())  # not UTF-8
    parquet.write_table(pa.table({"g": texts, "x": [1.0, 2.0]}), tmp_path / "t.parquet")
    with pytest.raises(SourceError) as refused:
        DuckDBEngine(tmp_path / "t.parquet", _schema())
    assert refused.value.__context__ is None


def test_a_streamed_pass_fails_without_a_word_about_the_data(
    streamed: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "_statement", lambda *_args: "SELECT CAST('secret' AS INTEGER)")
    with pytest.raises(InternalError) as failed:
        _sums(streamed)
    assert "secret" not in str(failed.value)
    assert failed.value.__context__ is None


def test_a_streamed_pass_is_stopped_like_any_other(streamed: DuckDBEngine) -> None:
    stop = Stop()
    stop.request()
    with stoppable(stop), pytest.raises(Stopped):
        streamed.grouped(QUERY, ((),))
    assert _sums(streamed) == SUMS


def test_a_streaming_connection_reads_no_other_file(streamed: DuckDBEngine, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n")
    with pytest.raises(duckdb.PermissionException):
        connection_of(streamed).execute(f"FROM read_csv('{tmp_path / 'other.csv'}')").fetchall()


@pytest.mark.parametrize("cache", [False, True])
def test_a_file_of_encoded_rows_is_private_and_gone_unless_it_is_to_be_kept(
    cache: bool, source: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    before = os.umask(0)
    try:
        engine = DuckDBEngine(source, _schema("file", cache), cache=folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    spill, *files = sorted(folder.iterdir(), key=lambda path: path.suffix, reverse=True)
    assert (spill.suffix, stat.S_IMODE(spill.stat().st_mode)) == (".spill", 0o700)
    assert [(file.suffix, stat.S_IMODE(file.stat().st_mode)) for file in files] == (
        [(".encoded", 0o600)] if cache else []
    ), "without a name nobody finds it, not even after the process was killed"
    assert _sums(engine) == SUMS
    engine.close()
    assert list(folder.iterdir()) == files


def test_two_sessions_share_a_kept_file(source: Path, tmp_path: Path) -> None:
    engines = [DuckDBEngine(source, _schema("file", cache=True), cache=tmp_path / "cache") for _ in range(2)]
    assert [_sums(engine) for engine in engines] == [SUMS, SUMS]
    engines[0].close()
    assert _sums(engines[1]) == SUMS
    engines[1].close()


def test_a_folder_of_others_is_not_written_to(source: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o755)
    with pytest.raises(SourceError, match="chmod 700"):
        DuckDBEngine(source, _schema("file"), cache=tmp_path / "cache")


LARGER_THAN_MEMORY = """
import resource, sys, duckdb
from pathlib import Path
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import SourceError
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema

file, storage, unit = sys.argv[1:]
columns = {f"x{i}": {"edges": [0, 1, 2]} for i in range(12)} | {"g": {"values": [0, 1]}}
schema = Schema.load({"table": {"name": "t", "storage": storage}, "columns": columns,
                      "privacy": {"rho": 1, "unit": unit, "max_rows": 1 if unit == "row" else 2}})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    engine = DuckDBEngine(file, schema, memory="120MB", cache=Path(file).parent / "cache")
except SourceError as refusal:
    print(refusal.remedy)
else:
    query = Query("t", ("g",), Aggregate("count", "x3"))
    print(int(engine.grouped(query, ((),)).reveal().count.sum()))
    print(int(engine.grouped(query, tuple((f"x{i}",) for i in range(6))).reveal().count.sum()))
    engine.close()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
ROWS_BEYOND = 1_300_000  # 108 bytes each when encoded: 140 MB


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "t.parquet"
    numbers = ", ".join(f"(hash(range, {i}) % 2000) / 1000 AS x{i}" for i in range(12))
    with closing(duckdb.connect()) as connection:
        connection.execute(
            f"COPY (SELECT range % 2 AS g, range // 4 AS id, {numbers} FROM range({ROWS_BEYOND})) "
            f"TO '{path}' (FORMAT parquet)"
        )
    return path


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    ("storage", "unit"), [("memory", "row"), ("stream", "row"), ("file", "row"), ("file", "id")]
)
def test_rows_larger_than_the_memory_limit(storage: str, unit: str, large: Path) -> None:
    script = [sys.executable, "-c", LARGER_THAN_MEMORY, str(large), storage, unit]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout.splitlines()
    if storage == "memory":
        assert printed[0].startswith('Raise the memory limit, or set storage = "stream" or "file"')
    else:
        rows = ROWS_BEYOND if unit == "row" else ROWS_BEYOND // 2
        assert [int(number) for number in printed[:2]] == [rows, 6 * rows]
    assert int(printed[-1]) < 2 * 120, "megabytes beyond the interpreter's own, with NumPy's and Arrow's"
    assert not list((large.parent / "cache").glob("*")), "neither rows nor spilt ones are left"
