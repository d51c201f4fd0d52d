"""Sources DuckDB opens, and those it refuses: in one sentence, with a remedy, without a value of the data."""

from __future__ import annotations

import datetime
import gzip
import json
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import DPXPlainError, SchemaError, SourceError
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema
from opened import connection_of

CANARY = "CANARY"
CANARY_NUMBER = 31337.125
SCHEMA = Schema.load(
    {
        "table": {"name": "t"},
        "privacy": {"rho": 1.0},
        "columns": {
            "sex": {"values": ["F", "M"]},
            "kids": {"values": [0, 1, 2]},
            "member": {"values": [True, False]},
            "pay": {"bounds": [0, 10], "step": 0.5},
        },
    }
)
TABLE = pa.table(
    {
        "sex": ["F", "M", None, CANARY],
        "kids": [0, 1, 2, 2],
        "member": [True, None, False, True],
        "pay": [1.5, None, 2.0, CANARY_NUMBER],
        "unused": ["x", "y", "z", CANARY],
    }
)


def write_parquet(folder: Path) -> str:
    pyarrow.parquet.write_table(TABLE, folder / "data.parquet")
    return str(folder / "data.parquet")


def write_parts(folder: Path) -> str:
    pyarrow.parquet.write_table(TABLE.slice(0, 1), folder / "part-1.parquet")
    pyarrow.parquet.write_table(TABLE.slice(1), folder / "part-2.parquet")
    return str(folder / "part-*.parquet")


def write_csv(folder: Path) -> Path:
    pyarrow.csv.write_csv(TABLE, folder / "data.csv")
    return folder / "data.csv"


def write_csv_parts(folder: Path) -> str:
    pyarrow.csv.write_csv(TABLE.slice(0, 2), folder / "a.csv")
    pyarrow.csv.write_csv(TABLE.slice(2), folder / "b.csv")
    return str(folder / "*.csv")


def write_tsv(folder: Path) -> str:
    return separated(folder, "\t", "data.tsv")


def write_semicolons(folder: Path) -> str:
    return separated(folder, ";", "data.csv")


def write_with_mark(folder: Path) -> str:
    """As spreadsheets do: a byte order mark, and lines that end with two characters."""
    path = Path(separated(folder, ",", "data.csv"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    return str(path)


def write_gzip(folder: Path) -> str:
    path = Path(separated(folder, ",", "data.csv"))
    (folder / "data.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    return str(folder / "data.csv.gz")


def write_json_lines(folder: Path) -> str:
    lines = "".join(f"{json.dumps(row)}\n" for row in TABLE.to_pylist())
    (folder / "data.jsonl").write_text(lines)
    return str(folder / "data.jsonl")


def write_json_gzip(folder: Path) -> str:
    (folder / "data.ndjson.gz").write_bytes(gzip.compress(Path(write_json_lines(folder)).read_bytes()))
    return str(folder / "data.ndjson.gz")


def write_feather(folder: Path) -> Path:
    pyarrow.feather.write_feather(TABLE, folder / "data.feather")
    return folder / "data.feather"


def write_ipc_stream(folder: Path) -> str:
    with pa.OSFile(str(folder / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return str(folder / "data.arrow")


def write_list(folder: Path) -> list[str]:
    write_parts(folder)
    return [str(folder / "part-1.parquet"), str(folder / "part-2.parquet")]


def write_database(folder: Path) -> str:
    with duckdb.connect(folder / "data.duckdb") as connection:
        connection.register("rows", TABLE)
        connection.execute('CREATE TABLE "the rows" AS FROM rows')
        connection.execute("CREATE TABLE t AS FROM rows")
    return str(folder / "data.duckdb")


def duckdb_relation(_folder: Path) -> duckdb.DuckDBPyRelation:
    return duckdb.connect().from_arrow(TABLE).filter("TRUE")


def duckdb_connection(_folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("rows", TABLE)
    connection.execute("CREATE VIEW t AS FROM rows")
    return connection


def separated(folder: Path, delimiter: str, name: str) -> str:
    pyarrow.csv.write_csv(TABLE, folder / name, pyarrow.csv.WriteOptions(delimiter=delimiter))
    return str(folder / name)


SOURCES: dict[str, Callable[[Path], object]] = {
    "parquet": write_parquet,
    "glob of parquet": write_parts,
    "csv as a Path": write_csv,
    "glob of csv": write_csv_parts,
    "tsv": write_tsv,
    "csv with semicolons": write_semicolons,
    "csv of a spreadsheet": write_with_mark,
    "csv, compressed": write_gzip,
    "json lines": write_json_lines,
    "json lines, compressed": write_json_gzip,
    "feather": write_feather,
    "arrow stream": write_ipc_stream,
    "list of paths": write_list,
    "duckdb file": write_database,
    "duckdb file and table": lambda folder: f"{write_database(folder)}::the rows",
    "duckdb relation": duckdb_relation,
    "duckdb connection": duckdb_connection,
    "arrow": lambda _: TABLE,
    "arrow with dictionaries": lambda _: TABLE.set_column(0, "sex", TABLE["sex"].dictionary_encode()),
    "pandas": lambda _: TABLE.to_pandas(),
    "pandas of objects": lambda _: TABLE.to_pandas().astype(object),
    "pandas with categories": lambda _: TABLE.to_pandas().astype({"sex": "category"}),
    "pandas on arrow": lambda _: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda _: pl.from_arrow(TABLE),
}


def cells(source: object, column: str, schema: Schema = SCHEMA) -> dict[int, tuple[int, int]]:
    engine = DuckDBEngine(source, schema)
    grouped = engine.grouped(Query("t", (), Aggregate("sum", "pay")), ((column,),)).reveal()
    engine.close()
    both = zip(grouped.count.tolist(), grouped.total.tolist(), strict=True)
    found = dict(zip(grouped.codes[column].tolist(), both, strict=True))
    return {code: cell for code, cell in found.items() if cell[0]}


@pytest.mark.parametrize("write", SOURCES.values(), ids=list(SOURCES))
def test_every_kind_of_source_gives_the_same_cells(write: Callable[[Path], object], tmp_path: Path) -> None:
    source = write(tmp_path)
    assert cells(source, "sex") == {0: (2, 24), 1: (1, 3)}
    assert cells(source, "kids") == {1: (1, 3), 3: (2, 24)}
    assert cells(source, "member") == {1: (2, 23), 2: (1, 4)}


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "e[1].parquet")
    pyarrow.parquet.write_table(TABLE.slice(0, 1), tmp_path / "e1.parquet")
    assert cells(tmp_path / "e[1].parquet", "kids") == {1: (1, 3), 3: (2, 24)}
    (tmp_path / "e[1].parquet").unlink()
    assert cells(tmp_path / "e[1].parquet", "kids") == {1: (1, 3)}, "now it is a glob"


def everything_said(error: BaseException) -> str:
    """All that a log or a screen could show of an error, and of the errors behind it."""
    said = "".join(traceback.format_exception(error))
    behind: BaseException | None = error
    while behind is not None:
        said += f"{behind!r} {behind} {behind.args} {vars(behind)} {getattr(behind, '__notes__', '')}"
        assert behind.__cause__ is None
        behind = behind.__context__
    return said


def refusal(source: object, kind: type[DPXPlainError], schema: Schema = SCHEMA) -> DPXPlainError:
    with pytest.raises(kind) as caught:
        DuckDBEngine(source, schema)
    error = caught.value
    assert type(error) is kind
    assert error.problem.endswith(".")
    assert error.remedy.endswith((".", "?"))
    assert "\n" not in str(error)
    assert error.__context__ is None
    said = everything_said(error)
    assert CANARY not in said
    assert "31337" not in said
    return error


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "nowhere.parquet" in refusal(tmp_path / "nowhere.parquet", SourceError).problem
    assert "no*where.csv" in refusal(str(tmp_path / "no*where.csv"), SourceError).problem


def test_a_directory_or_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    refusal(tmp_path, SourceError)
    (tmp_path / "folder.parquet").mkdir()
    refusal(tmp_path / "folder.parquet", SourceError)
    (tmp_path / "folder.csv").mkdir()
    refusal(tmp_path / "folder.csv", SourceError)
    (tmp_path / "data.unknown").write_text(CANARY)
    assert "not a supported kind" in refusal(tmp_path / "data.unknown", SourceError).problem


@pytest.mark.parametrize(
    ("name", "words"),
    [("data.xlsx", "Excel"), ("data.sas7bdat", "SAS"), ("data.json", "JSON lines"), ("data.dta", "Stata")],
)
def test_a_file_that_is_not_read_is_called_what_it_is(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CANARY)
    error = refusal(tmp_path / name, SourceError)
    assert words in error.problem
    assert "DataFrame" in error.remedy


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("s3://bucket/flights.parquet", "Object storage"),
        ("gs://bucket/*.parquet", "Object storage"),
        ("http://host/flights.csv", "web address"),
        ("mysql://user:secret@host/db", "Databases at mysql"),
        ("snowflake://account/db", "Databases at snowflake"),
        ("file:///tmp/flights.csv", "by its path"),
        (Path("data") / "s3://bucket/flights.parquet", "Object storage"),
    ],
)
def test_an_address_that_is_not_read_is_refused_with_what_to_do_instead(address: Any, words: str) -> None:
    error = refusal(address, SourceError)
    assert words in error.problem
    assert "secret" not in str(error)


def test_files_of_different_kinds_make_no_source(tmp_path: Path) -> None:
    assert "different kinds" in refusal([write_parquet(tmp_path), write_csv(tmp_path)], SourceError).problem


def test_a_database_without_the_table_says_which_tables_it_has(tmp_path: Path) -> None:
    error = refusal(f"{write_database(tmp_path)}::flights", SourceError)
    assert "no table flights" in error.problem
    assert "t, the rows" in error.remedy
    refusal(duckdb.connect(), SourceError)


@pytest.mark.parametrize("rows", ["t", "read_parquet('data.parquet')", "(SELECT *, random() FROM t)"])
def test_a_view_in_a_database_file_is_refused_and_its_snapshot_taken_from_python(
    rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it shows can change without the file, by which data are recognised."""
    monkeypatch.chdir(tmp_path)
    write_parquet(tmp_path)
    with duckdb.connect(path := write_database(tmp_path)) as connection:
        connection.execute(f"CREATE VIEW seen AS FROM {rows}")
    error = refusal(f"{path}::seen", SourceError)
    assert "is a view" in error.problem
    assert "CREATE TABLE seen_rows AS FROM seen" in error.remedy
    with duckdb.connect(path) as connection:
        DuckDBEngine(connection.table("seen"), SCHEMA).close()


def test_a_database_file_can_be_written_by_others_once_the_engine_is_open(tmp_path: Path) -> None:
    path = write_database(tmp_path)
    engine = DuckDBEngine(path, SCHEMA)
    with duckdb.connect(path) as connection:
        connection.execute("DELETE FROM t")
    assert engine.grouped(Query("t", (), Aggregate("count")), ((),)).reveal().count.tolist() == [4]
    engine.close()
    with duckdb.connect(path):
        refusal(path, SourceError)


def test_damaged_files_of_every_kind_are_refused(tmp_path: Path) -> None:
    for name in ("data.jsonl", "data.feather", "data.duckdb", "data.ndjson.gz", "data.csv.gz"):
        (tmp_path / name).write_text(f'{CANARY} {{"sex": 31337.125\n')
        refusal(tmp_path / name, SourceError)
    first = {"sex": "F", "kids": 0, "member": True, "pay": 1}
    (tmp_path / "data.jsonl").write_text(f"{json.dumps(first)}\n{CANARY}\n")
    refusal(tmp_path / "data.jsonl", SourceError)


def test_the_first_line_of_json_lines_decides_and_no_other(tmp_path: Path) -> None:
    first = {"sex": "F", "kids": 0, "member": True, "pay": 1.5}
    odd = [{"kids": "x", "extra": [1]}, {"sex": {"a": 1}, "pay": "2"}, {"sex": None, "pay": True}]
    (tmp_path / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in (first, *odd)))
    assert cells(tmp_path / "data.jsonl", "sex") == {1: (1, 3), 0: (1, 4)}


@pytest.mark.parametrize("damage", ["empty", "cut short", "noise", "text"])
def test_a_damaged_parquet_file_is_refused(damage: str, tmp_path: Path) -> None:
    path = Path(write_parquet(tmp_path))
    whole = path.read_bytes()
    broken = {"empty": b"", "cut short": whole[:-20], "noise": whole[:4] + whole[::-1], "text": b"CANARY"}
    path.write_bytes(broken[damage])
    refusal(path, SourceError)


def test_a_parquet_file_whose_pages_are_damaged_is_refused_without_a_value(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    rows = pa.concat_tables([TABLE] * 50)
    pyarrow.parquet.write_table(rows, path, compression="zstd")
    whole = bytearray(path.read_bytes())
    whole[4:400] = b"\xff" * 396
    path.write_bytes(bytes(whole))
    refusal(path, SourceError)


HEADER = "sex,kids,member,pay\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        f"{HEADER}F,0,true,1\n{CANARY},1\nM,1,false,2\n",
        f"{HEADER}F,0,true,1\nF,0,true,1,{CANARY},31337.125\n",
        f'{HEADER}F,0,true,"{CANARY}\n',
        f"sex,kids,member,pay,pay\nF,0,true,1,{CANARY}\n",
    ],
    ids=["empty", "blank", "short line", "long line", "open quote", "repeated name"],
)
def test_a_damaged_csv_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(text)
    refusal(tmp_path / "data.csv", SourceError)


def rows_of_flights(line: str) -> str:
    rows = [f"{i},N{i},EWR" for i in range(1_000)]
    return "\n".join(["flight,tail,origin", *rows[:400], line, *rows[400:], ""])


FLIGHTS = Schema.load(
    {
        "table": {"name": "flights"},
        "privacy": {"rho": 1.0},
        "columns": {"origin": {"values": ["EWR"]}, "tail": {"values": ["N0"]}, "flight": {"bounds": [0, 9]}},
    }
)


@pytest.mark.parametrize(
    "line",
    [
        f'1,"{CANARY},EWR\n2,N2,EWR\n3,N3",EWR',
        f'1,"{CANARY},EWR\n2,N2",EWR',
        f'"1,{CANARY},EWR\r\n2,N2,EWR\r\n3",N3,EWR',
        f'1,"{CANARY}, and more",EWR\n1,"a,EWR\n2,"x, y",EWR\n3,b",EWR',
        f'1,"say "{CANARY}" to me",EWR',
        f'1,"say \\"{CANARY}\\"",EWR',
        f'1,"{CANARY}" the bird,EWR',
    ],
)
def test_a_csv_file_whose_quotes_are_not_escaped_is_refused_and_not_read_in_part(
    line: str, tmp_path: Path
) -> None:
    (tmp_path / "flights.csv").write_text(rows_of_flights(line))
    refusal(tmp_path / "flights.csv", SourceError, FLIGHTS)


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ('1,"a ""quoted"" word, and\na second line",EWR', 1_001),
        ('1,"first line\n\nthird line",EWR\n2,5" disk,EWR', 1_002),
        ('"1","N1","EWR"', 1_001),
    ],
)
def test_a_csv_file_with_line_ends_inside_quoted_values_is_read_whole(
    line: str, rows: int, tmp_path: Path
) -> None:
    (tmp_path / "flights.csv").write_text(rows_of_flights(line))
    engine = DuckDBEngine(tmp_path / "flights.csv", FLIGHTS)
    assert engine.grouped(Query("flights", (), Aggregate("count")), ((),)).reveal().count.tolist() == [rows]
    engine.close()


def test_a_csv_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(f"{HEADER}{CANARY}\xe9,0,true,1\n".encode("latin-1"))
    refusal(tmp_path / "data.csv", SourceError)


def test_csv_files_with_different_headers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{HEADER}F,0,true,1\n")
    (tmp_path / "b.csv").write_text(f"kids,sex,member,pay\n0,{CANARY},true,1\n")
    assert "different header" in refusal(str(tmp_path / "*.csv"), SourceError).problem


def test_a_csv_file_without_a_header_line_does_not_have_its_first_row_repeated(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(f"{CANARY},1,true,31337.125\nF,0,true,1\n")
    assert "first line" in refusal(tmp_path / "data.csv", SchemaError).remedy


@pytest.mark.parametrize(
    "row",
    ["#F,2,true,9", "a;b;c;d,2,true,9", "a|b|c,2,true,9", "'F',2,true,9", "x\\,2,true,9", ",,,", 'a"b,,,'],
)
def test_one_csv_row_never_changes_how_the_others_are_read(row: str, tmp_path: Path) -> None:
    # DuckDB's sniffer would take marks in this row for comments, delimiters or quotes of the whole file.
    plain, odd = tmp_path / "plain.csv", tmp_path / "odd.csv"
    plain.write_text(f"{HEADER}F,0,true,1\nM,1,false,2\n")
    odd.write_text(f"{HEADER}{row}\nF,0,true,1\nM,1,false,2\n")
    before, after = cells(plain, "sex"), cells(odd, "sex")
    assert {code: cell for code, cell in after.items() if code} == before


def test_text_that_is_no_number_is_left_out_of_a_csv_file(tmp_path: Path) -> None:
    values = ["1.5", "2", "abc", "", "nan", "inf", "-inf", "1e400", "0x10", "true", "1;5"]
    lines = "".join(f'F,0,true,"{value}"\n' for value in values)
    (tmp_path / "data.csv").write_text(HEADER + lines)
    assert cells(tmp_path / "data.csv", "sex") == {1: (5, 3 + 4 + 20 + 0 + 20)}


def test_categories_in_a_csv_file_are_those_declared(tmp_path: Path) -> None:
    lines = ["F,0,true,1", "F,1.0,TRUE,1", "F,1.5,2,1", "f,x,yes please,1", " F,2,false,1"]
    (tmp_path / "data.csv").write_text(HEADER + "\n".join(lines) + "\n")
    assert {code: n for code, (n, _) in cells(tmp_path / "data.csv", "sex").items()} == {0: 2, 1: 3}
    assert {code: n for code, (n, _) in cells(tmp_path / "data.csv", "kids").items()} == {
        0: 2,
        1: 1,
        2: 1,
        3: 1,
    }
    assert {code: n for code, (n, _) in cells(tmp_path / "data.csv", "member").items()} == {0: 2, 1: 2, 2: 1}


@pytest.mark.parametrize("name", ["sex", "kids", "member", "pay"])
def test_a_declared_column_that_is_missing_is_named(name: str) -> None:
    error = refusal(TABLE.drop_columns([name]), SchemaError)
    assert f"columns.{name}" in error.problem
    assert "unused" in error.remedy


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sex", pa.array([31337.125])),
        ("sex", pa.array([True])),
        ("kids", pa.array([CANARY])),
        ("kids", pa.array([CANARY]).dictionary_encode()),
        ("pay", pa.array([CANARY])),
        ("pay", pa.array([datetime.datetime(2026, 1, 1)])),
        ("member", pa.array([CANARY])),
        ("pay", pa.array([[31337.125]])),
        ("sex", pa.array([{"a": CANARY}])),
        ("sex", pa.array([b"CANARY"])),
    ],
    ids=lambda part: str(getattr(part, "type", part)),
)
def test_a_column_of_another_type_contradicts_the_schema(name: str, values: pa.Array) -> None:
    row = {other: TABLE[other].combine_chunks().slice(0, 1) for other in TABLE.column_names}
    assert f"columns.{name}" in refusal(pa.table(row | {name: values}), SchemaError).problem


def test_names_are_told_apart_by_case() -> None:
    refusal(TABLE.rename_columns(["Sex", "kids", "member", "pay", "unused"]), SchemaError)


def test_a_privacy_unit_the_source_does_not_have_is_refused() -> None:
    raw = SCHEMA.model_dump() | {"privacy": {"rho": 1.0, "unit": "person", "max_rows": 3}}
    assert "privacy.unit" in refusal(TABLE, SchemaError, Schema.load(raw)).problem


@pytest.mark.parametrize(
    "source", [None, 5, object(), [CANARY], {"sex": [CANARY]}, b"CANARY"], ids=lambda s: type(s).__name__
)
def test_something_that_is_no_table_is_refused(source: object) -> None:
    refusal(source, SourceError)


NOTHING = [None, None]


@pytest.mark.parametrize(
    "source",
    [
        pa.table(dict.fromkeys(SCHEMA.columns, pa.nulls(2))),
        pd.DataFrame(dict.fromkeys(SCHEMA.columns, NOTHING), dtype=object),
        pd.DataFrame({name: [] for name in SCHEMA.columns}, dtype=object),
        pl.DataFrame(dict.fromkeys(SCHEMA.columns, NOTHING)),
    ],
    ids=["arrow", "pandas", "pandas without rows", "polars"],
)
def test_columns_of_nothing_but_null_open_like_any_other(source: object) -> None:
    for column in ("sex", "kids", "member"):
        assert cells(source, column) == {}


@pytest.mark.parametrize("odd", [CANARY, 31337.125, True, b"x", (1, 2), {"a": 1}, pd.Timestamp("2026-01-01")])
def test_one_odd_object_in_a_pandas_column_changes_nothing_for_the_others(odd: Any) -> None:
    # DuckDB guesses the type of an object column from its values: one row must not decide what opens.
    for column, usual in [("sex", "F"), ("kids", 1), ("member", False)]:
        frame = pd.DataFrame(
            {"sex": ["M"] * 3, "kids": [0] * 3, "member": [True] * 3, "pay": [1.0] * 3}, dtype=object
        )
        frame[column] = pd.Series([usual, usual, usual], dtype=object)
        before = cells(frame, column)
        frame[column] = pd.Series([usual, odd, usual], dtype=object)
        frame.loc[1, "pay"] = None
        code, (count, total) = next(iter(before.items()))
        assert cells(frame, column)[code] == (count - 1, total - total // 3)


def test_a_value_that_is_no_number_in_a_pandas_object_column_is_left_out() -> None:
    frame = pd.DataFrame({"sex": "F", "kids": 0, "member": True, "pay": [1.5, "x", None, 2.0]}, dtype=object)
    assert cells(frame, "sex") == {1: (2, 7)}


def test_an_error_of_the_source_itself_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hostile:
        def __arrow_c_stream__(self, _requested: object = None) -> object:
            raise ZeroDivisionError(CANARY)

    refusal(Hostile(), SourceError)


def test_a_pass_that_fails_says_nothing_of_the_data() -> None:
    engine = DuckDBEngine(TABLE, SCHEMA)
    connection_of(engine).execute("ALTER TABLE encoded ALTER units_3 TYPE VARCHAR USING 'CANARY'")
    with pytest.raises(DPXPlainError) as caught:
        engine.grouped(Query("t", (), Aggregate("sum", "pay")), ((),))
    assert CANARY not in everything_said(caught.value)
    assert caught.value.__context__ is None
    engine.close()


def test_the_connection_of_a_refused_source_is_closed_and_an_open_one_reaches_no_files(
    tmp_path: Path,
) -> None:
    path = write_parquet(tmp_path)
    engine = DuckDBEngine(path, SCHEMA)
    Path(path).unlink()  # everything was read at opening
    assert engine.grouped(Query("t", (), Aggregate("count")), ((),)).reveal().count.tolist() == [4]
    with pytest.raises(Exception, match="disabled"):
        connection_of(engine).execute("SELECT * FROM read_text('/etc/hostname')")
    engine.close()
    engine.close()


@pytest.mark.parametrize("others", [[], [1.0]])
def test_a_number_that_is_none_is_read_alike_whatever_the_file_s_statistics_say(
    others: list[float], tmp_path: Path
) -> None:
    """Statistics leave NaN out: with one other value, all NaN would be read as that."""
    values = [0.0, math.nan, math.nan, *others]
    pyarrow.parquet.write_table(pa.table({"g": ["x"] * len(values), "size": values}), tmp_path / "t.parquet")
    columns = {"g": {"values": ["x"]}, "size": {"edges": [-1, 0, 1], "bounds": [-1, 1]}}
    for storage in ("memory", "stream", "file"):
        table = {"name": "t", "storage": storage}
        schema = Schema.load({"table": table, "privacy": {"rho": 1}, "columns": columns})
        engine = DuckDBEngine(tmp_path / "t.parquet", schema)
        counted = engine.grouped(Query("t", ("g",), Aggregate("count", "size")), ((),)).reveal()
        assert int(counted.count.sum()) == 1 + len(others)
        engine.close()
