"""Drafted schemas: valid TOML whatever the columns are called and hold, rounded, and loud about privacy."""

from __future__ import annotations

import datetime
import decimal
import math
import tomllib
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpxplain.cli.schema_draft import Draft, draft_schema, drafted_dates, round_edges, source_for
from dpxplain.datasets import path as bundled
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.duckdb_profile import ColumnProfile, profile
from dpxplain.errors import SourceError
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema

ROWS = 60
NASTY = "say \"hi\"\nback\\slash\t\x01\x7f é 日本 # ] = ''"


def drafted(folder: Path, columns: dict[str, Any], name: str = "people.parquet") -> Draft:
    """The draft of a table, which the engine accepts too."""
    path = folder / name
    pq.write_table(pa.table(columns), path)
    draft = draft_schema(profile(path), name, rho=1.0)
    assert Schema.load(tomllib.loads(draft.text)) == draft.schema
    DuckDBEngine(path, draft.schema).close()
    return draft


def test_the_draft_of_adult_is_as_declared_by_hand() -> None:
    draft = draft_schema(profile(bundled("adult.parquet")), "adult.parquet", rho=5.0)
    by_hand = Schema.load(bundled("adult.toml"))
    assert list(draft.schema.columns) == list(by_hand.columns)
    assert draft.left_out == ()
    assert draft.schema.columns["age"].edges == by_hand.columns["age"].edges
    assert draft.schema.columns["high_income"].bounds == (0, 1)
    for name in by_hand.discrete():
        assert set(draft.schema.domain(name)) <= set(by_hand.domain(name)) or name == "age"


def test_nasty_names_and_values_survive(tmp_path: Path) -> None:
    draft = drafted(tmp_path, {NASTY: [NASTY, "", "plain"] * 20, "[columns.x]": ["a", None, "b"] * 20})
    assert draft.schema.columns[NASTY].domain == tuple(sorted([NASTY, "", "plain"]))
    assert draft.schema.columns["[columns.x]"].domain == ("a", "b", None)


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    values=st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=8),
)
def test_any_text_makes_valid_toml(name: str, values: set[str]) -> None:
    listed = tuple(sorted(values))
    column = ColumnProfile(name, "text", 100, 100, len(listed), listed)
    if name.lower() in ("id", "email", "ssn"):
        return
    other = ColumnProfile("other", "true or false", 100, 90, 2, (False, True))
    draft = draft_schema([column, other], f"{name}.csv", rho=0.1)
    assert draft.schema.columns[name].domain == listed
    assert draft.schema.table.source == f"{name}.csv"


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("serial", list(range(200)), "identifier"),
        ("person_id", [i % 7 for i in range(200)], "identifier"),
        ("email", ["a@b.c", "d@e.f"] * 100, "identifier"),
        ("two\nlines_id", [1, 2] * 100, "identifier"),
        ("full name", [f"name {i}" for i in range(200)], "free text"),
        ("street", [f"street {i // 3 % 600}" for i in range(1_800)], "too many"),
        ("plane", [f"N{i % 150}UA" for i in range(600)], "look like identifiers"),
        ("nothing", pa.array([None] * 200, pa.string()), "it is empty"),
        ("no number", [math.nan] * 200, "it is empty"),
        ("person", [i // 6 for i in range(600)], "repeat, as a person's id would"),
        ("k", [7 * (i // 4) for i in range(600)], "repeat, as a person's id would"),
        ("visitor", [i * 37 % 150 for i in range(600)], "repeat, as a person's id would"),
        (
            "until",
            [datetime.date(2020, 1, 1), datetime.date(9999, 12, 31)] * 100,
            "probably codes, not dates",
        ),
        ("at", [datetime.time(12, 30)] * 200, "type time"),
        ("list", [[1]] * 200, "lists"),
        ("bytes", [b"x"] * 200, "blob"),
        ("astronomic", [1e200, 1.0] * 100, "too large"),
    ],
)
def test_a_doubtful_column_is_left_out_with_the_reason(
    tmp_path: Path, name: str, values: Any, reason: str
) -> None:
    draft = drafted(tmp_path, {"sex": ["F", "M"] * (len(values) // 2), name: values})
    assert list(draft.schema.columns) == ["sex"]
    assert reason in draft.left_out[0].reason
    assert "# Left out" in draft.text
    for held in ("name 7", "street 7", "a@b.c"):
        assert held not in draft.text


@pytest.mark.parametrize(
    ("first", "last", "bins", "ends"),
    [
        (datetime.date(2013, 1, 1), datetime.date(2013, 12, 31), 12, ("2012-12-31", "2013-12-31")),
        (datetime.date(2013, 1, 1), datetime.date(2020, 2, 1), 8, ("2012-12-31", "2020-12-31")),
        (datetime.date(2013, 1, 7), datetime.date(2013, 1, 7), 1, ("2013-01-06", "2013-01-07")),
        (
            datetime.datetime(2013, 1, 1, 5, 17),
            datetime.datetime(2013, 12, 31, 23, 59),
            12,
            ("2013-01-01", "2014-01-01"),
        ),
        (
            datetime.datetime(2013, 1, 1),
            datetime.datetime(2013, 12, 31, 23, 59),
            12,
            ("2012-12-31", "2014-01-01"),
        ),
        (
            datetime.datetime(2013, 1, 1, 5, 17),
            datetime.datetime(2013, 1, 1, 8, 30),
            4,
            ("2013-01-01 05:00:00", "2013-01-01 09:00:00"),
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_dates_and_timestamps_get_bins_of_the_calendar_that_hold_all_of_them(
    tmp_path: Path, first: datetime.date, last: datetime.date, bins: int, ends: tuple[str, str], suffix: str
) -> None:
    between = [first + (last - first) * share / 40 for share in range(41)]
    table = pa.table({"at": [*between, None], "sex": ["F"] * 42})
    path = tmp_path / f"d.{suffix}"
    (pq.write_table if suffix == "parquet" else csv.write_csv)(table, path)
    draft = draft_schema(profile(str(path)), path.name, rho=1.0)
    column = draft.schema.columns["at"]
    assert column.edges is not None
    assert (len(column.edges) - 1, *map(str, (column.edges[0], column.edges[-1]))) == (bins, *ends)
    assert column.null
    engine = DuckDBEngine(str(path), draft.schema)
    counted = engine.grouped(Query("d", ("at",), Aggregate("count")), ((),)).reveal()
    engine.close()
    assert 0 not in counted.codes["at"]
    assert int(counted.count.sum()) == 42
    assert {1, bins} <= {int(code) for code in counted.codes["at"]}  # neither end adds an empty bin


@given(
    st.datetimes(datetime.datetime(1000, 1, 2), datetime.datetime(9000, 1, 1)),
    st.datetimes(datetime.datetime(1000, 1, 2), datetime.datetime(9000, 1, 1)),
    st.booleans(),
)
def test_drafted_dates_lie_inside_their_edges(
    one: datetime.datetime, other: datetime.datetime, whole_days: bool
) -> None:
    first, last = sorted((one, other))
    if whole_days:
        first, last = (datetime.datetime.combine(day.date(), datetime.time()) for day in (first, last))
    edges = [datetime.datetime.fromisoformat(edge) for edge in drafted_dates(first, last, whole_days)[1]]
    assert edges[0] < first <= edges[1]
    assert edges[-2] < last <= edges[-1]
    assert edges == sorted(set(edges))


@pytest.mark.parametrize(
    ("values", "edges", "bounds"),
    [
        (range(17, 91), (10, 20, 30, 40, 50, 60, 70, 80, 90), (10, 90)),
        (range(101), (-1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100), (0, 100)),
        (range(1, 14), (0, 2, 4, 6, 8, 10, 12, 14), (0, 14)),
        ([1, 2, 3], (0, 1, 2, 3), (1, 3)),  # each once: ten rows would say that they are categories
        ([7], (0, 10), (0, 10)),
        ([-3, -2, -1], (-4, -3, -2, -1), (-3, -1)),
        ([math.inf, math.nan, 1.5] * 20, (0, 2), (0, 2)),
        ([decimal.Decimal("1.25")] * 60, (0, 2), (0, 2)),
    ],
)
def test_numbers_get_round_edges_and_bounds(
    tmp_path: Path, values: list[Any], edges: tuple[float, ...], bounds: tuple[float, float]
) -> None:
    column = drafted(tmp_path, {"x": [*values]}).schema.columns["x"]
    assert (column.edges, column.bounds) == (edges, bounds)


@pytest.mark.parametrize(
    ("values", "bounds"),
    [([1, 2, 3], (1, 3)), ([0, 2, 9], (0, 9)), ([17, 44, 90], (17, 90)), ([-1, 0, 1], (-1, 1)), ([7], None)],
)
def test_few_whole_numbers_that_repeat_are_categories_that_can_be_averaged(
    tmp_path: Path, values: list[int], bounds: tuple[float, float] | None
) -> None:
    draft = drafted(tmp_path, {"x": [*values, None] * 20})
    column = draft.schema.columns["x"]
    assert (column.domain, column.bounds, column.edges) == ((*values, None), bounds, None)
    assert ("delete bounds and step if the numbers are codes" in draft.text) == (bounds is not None)


def test_a_panel_proposes_its_persons_as_the_privacy_unit_with_max_rows(tmp_path: Path) -> None:
    """4,711 persons of one to fifteen rows, in an order that repeats nobody among the first rows."""
    sizes = [1 + i % 11 for i in range(4_711)]
    persons = [1 + i for wave in range(11) for i, size in enumerate(sizes) if size > wave]
    pay = [i % 997 + 0.5 for i in range(len(persons))]
    draft = drafted(tmp_path, {"person": persons, "pay": pay})
    assert list(draft.schema.columns) == ["pay"]
    assert draft.schema.privacy.unit == "row"  # the curator decides
    (unit,) = draft.units
    assert (unit.column, unit.values, unit.rows, unit.most_rows) == ("person", 4_711, len(persons), 11)
    kept = sum(min(size, unit.usual_rows) for size in sizes)
    assert kept >= 0.99 * len(persons)
    decided = draft.text.replace('unit = "row"', "# ", 1).replace('# unit = "person"', 'unit = "person"')
    decided = decided.replace(f"# max_rows = {unit.usual_rows}", f"max_rows = {unit.usual_rows}")
    privacy = Schema.load(tomllib.loads(decided)).privacy
    assert (privacy.unit, privacy.max_rows) == ("person", unit.usual_rows)


@pytest.mark.parametrize(
    "values",
    [
        [round(1000 * math.sqrt(i)) % 5_000 for i in range(3_000)],  # amounts: hardly one repeats
        [i % 90 for i in range(3_000)],  # ages
        [0] * 2_000 + list(range(1_000)),  # mostly nothing
    ],
)
def test_a_measurement_is_not_proposed_as_the_privacy_unit(tmp_path: Path, values: list[int]) -> None:
    assert drafted(tmp_path, {"x": values}).units == ()


def test_persons_that_repeat_only_in_later_waves_are_found(tmp_path: Path) -> None:
    persons = list(range(25_000)) * 3
    draft = drafted(tmp_path, {"member": persons, "sex": ["F", "M", "F"] * 25_000})
    assert [(unit.column, unit.most_rows, unit.usual_rows) for unit in draft.units] == [("member", 3, 3)]


@given(
    st.floats(-1e100, 1e100, allow_nan=False),
    st.floats(-1e100, 1e100, allow_nan=False),
    st.booleans(),
)
def test_edges_hold_the_whole_range(one: float, other: float, whole: bool) -> None:
    low, high = sorted((one, other))
    if max(abs(low), abs(high)) < 1e-100:
        low, high = 0.0, 0.0
    edges = round_edges(low, high, whole)
    assert 2 <= len(edges) <= 13
    assert edges == sorted(set(edges))
    assert edges[0] < low <= high <= edges[-1]


def test_zero_and_one_can_be_averaged_and_grouped_by(tmp_path: Path) -> None:
    column = drafted(tmp_path, {"x": [0, 1, 1]}).schema.columns["x"]
    assert (column.values, column.edges, column.bounds, column.step) == ((0, 1), None, (0, 1), 1)


def test_true_and_false_with_null(tmp_path: Path) -> None:
    assert drafted(tmp_path, {"x": [True, False, None]}).schema.domain("x") == (False, True, None)


def test_whole_numbers_beyond_the_grid_get_no_step(tmp_path: Path) -> None:
    assert drafted(tmp_path, {"x": [2**40, 1, 2] * 20}).schema.columns["x"].step is None


def test_a_column_of_uuids_is_left_out_without_printing_one(tmp_path: Path) -> None:
    ids = [str(uuid.UUID(int=i)) for i in range(ROWS)]
    draft = drafted(tmp_path, {"who": ids, "x": [1, 2] * 30})
    assert ids[1] not in draft.text


def test_text_of_a_csv_file_is_told_from_numbers(tmp_path: Path) -> None:
    lines = ["zip,age,note", *(f'0{1000 + i % 3},{20 + i},"it\'s {i % 2}"' for i in range(40))]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines))
    schema = draft_schema(profile(path), "people.csv", rho=1.0).schema
    assert schema.domain("zip") == ("01000", "01001", "01002")
    assert schema.columns["age"].bounds == (20, 60)
    assert schema.domain("note") == ("it's 0", "it's 1")
    DuckDBEngine(path, schema).close()


@pytest.mark.parametrize(
    ("source", "table"),
    [("people.parquet", "people"), ("2024 Sales (new).csv", "data_2024_sales_new"), ("日本.csv", "data"),
     ("select.csv", "select_data"), ("parts/*.parquet", "data")],
)  # fmt: skip
def test_the_table_is_named_after_the_file_so_that_sql_can_name_it(source: str, table: str) -> None:
    column = ColumnProfile("x", "true or false", 9, 9, 2, (False, True))
    assert draft_schema([column], source, rho=1.0).schema.table.name == table


def test_dates_that_a_typed_source_stores_as_text_are_dates_and_digits_are_codes(tmp_path: Path) -> None:
    hours = [f"2013-{1 + i % 12:02d}-01T{i % 24:02d}:00:00Z" for i in range(600)]
    draft = drafted(tmp_path, {"hour": hours, "zip": ["8010", "4020"] * 300})
    assert draft.schema.columns["hour"].is_temporal
    assert draft.schema.columns["zip"].values == ("4020", "8010")


def test_a_source_without_a_usable_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="None of the columns can be used"):
        drafted(tmp_path, {"x": pa.array([], pa.string())})


def test_the_source_is_named_relative_to_the_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_for("data/people.csv", Path("schemas/people.toml")) == "../data/people.csv"
    assert source_for("data/people.csv", None) == "data/people.csv"
