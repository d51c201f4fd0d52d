"""The declaration is checked, and an error names the key that is wrong."""

from __future__ import annotations

import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dpxplain as dpx
from dpxplain.errors import SchemaError
from dpxplain.model.column import LARGEST_UNITS, Bin, Column
from dpxplain.model.schema import Schema

GOOD: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 1.0},
    "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [0, 10]}, "pay": {"bounds": [0, 1]}},
}
MISSING = object()


def changed(path: str, value: object) -> dict[str, Any]:
    raw = copy.deepcopy(GOOD)
    *folders, last = path.split(".")
    place = raw
    for folder in folders:
        place = place.setdefault(folder, {})
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return raw


WRONG = [
    ("table", MISSING, "table"),
    ("table.name", MISSING, "table.name"),
    ("table.name", "", "table.name"),
    ("table.nam", "x", "table.nam"),
    ("privacy", MISSING, "privacy"),
    ("privacy.rho", MISSING, "privacy.rho"),
    ("privacy.rho", 0, "privacy.rho"),
    ("privacy.rho", -1, "privacy.rho"),
    ("privacy.rho", float("nan"), "privacy.rho"),
    ("privacy.rho", float("inf"), "privacy.rho"),
    ("privacy.rho", "much", "privacy.rho"),
    ("privacy.delta", 0, "privacy.delta"),
    ("privacy.delta", 1, "privacy.delta"),
    ("privacy.delta", float("nan"), "privacy.delta"),
    ("privacy.max_rows", 3, "privacy"),
    ("privacy.max_rows", 0, "privacy.max_rows"),
    ("privacy.epsilon", 1, "privacy.epsilon"),
    ("columns", MISSING, "columns"),
    ("columns", {}, "columns"),
    ("columns.sex", {}, "columns.sex"),
    ("columns.sex", "text", "columns.sex"),
    ("columns.sex.values", [], "columns.sex.values"),
    ("columns.sex.values", "FM", "columns.sex.values"),
    ("columns.sex.values", ["F", "F"], "columns.sex.values"),
    ("columns.sex.values", ["F", 1], "columns.sex.values"),
    ("columns.sex.values", [True, 1], "columns.sex.values"),
    ("columns.sex.values", [1.5], "columns.sex.values"),
    ("columns.sex.bounds", [0, 1], "columns.sex"),
    ("columns.age.values", [1, 2], "columns.age"),
    ("columns.sex.vales", ["F"], "columns.sex.vales"),
    ("columns.age.edges", [0], "columns.age.edges"),
    ("columns.age.edges", [0, 0], "columns.age.edges"),
    ("columns.age.edges", [1, 0], "columns.age.edges"),
    ("columns.age.edges", [0, float("inf")], "columns.age.edges"),
    ("columns.age.edges", [0, float("nan"), 1], "columns.age.edges"),
    ("columns.pay.bounds", [0], "columns.pay.bounds"),
    ("columns.pay.bounds", [1, 0], "columns.pay.bounds"),
    ("columns.pay.bounds", [1, 1], "columns.pay.bounds"),
    ("columns.pay.bounds", [0, float("inf")], "columns.pay.bounds"),
    ("columns.pay.bounds", [float("nan"), 1], "columns.pay.bounds"),
    ("columns.pay.bounds", [0, 1e308], "columns.pay"),
    ("columns.pay.bounds", [0, 1e-320], "columns.pay"),
    ("columns.pay.bounds", [1e6, 1e6 + 1e-6], "columns.pay"),
    ("columns.pay.step", 0, "columns.pay.step"),
    ("columns.pay.step", float("nan"), "columns.pay.step"),
    ("columns.pay.step", float("inf"), "columns.pay.step"),
    ("columns.pay.step", 2, "columns.pay"),
    ("columns.pay.step", 1e-12, "columns.pay"),
    ("columns.pay.null", True, "columns.pay"),
    ("columns.age.step", 1, "columns.age"),
]


@pytest.mark.parametrize(
    ("path", "value", "key"),
    WRONG,
    ids=[f"{p}={v!r:.30}" if v is not MISSING else f"no {p}" for p, v, _ in WRONG],
)
def test_an_error_names_the_key(path: str, value: object, key: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.load(changed(path, value))
    assert f" {key}: " in caught.value.problem or f" {key}." in caught.value.problem
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (
            {"values": [1, 2], "edges": [0, 1, 2]},
            "has both values and edges; delete the line with edges to keep the categories, or the line with "
            "values to keep the bins",
        ),
        (
            {"values": ["F", "M"], "bounds": [0, 1]},
            "has both values and bounds, which is possible for whole numbers only; delete the line with "
            "bounds to keep the categories, or the line with values to keep the numbers",
        ),
        (
            {"values": [0, 2], "bounds": [0, 1]},
            "bounds must include all the values; widen them, or delete the line with bounds",
        ),
        (
            {"values": ["East"], "groups": {"West": ["CA"]}},
            "has both values and groups; delete the line with values: the groups' names are the values",
        ),
        ({"values": ["a"], "step": 1}, "has a step but no bounds; add bounds, or delete the line with step"),
        ({}, "needs values (categories), edges (bins) or bounds (a numeric range)"),
        (
            {"bounds": [0, 1], "null": True},
            "has null = true, which needs values or edges; with bounds only, delete it: sums and averages "
            "leave out NULL",
        ),
        (
            {"values": ["a"], "value_labels": {"b": "B"}},
            "has a label for 'b', which is not one of its values",
        ),
    ],
)
def test_a_contradictory_column_is_refused_with_what_to_change(column: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.load(changed("columns.sex", column))
    assert caught.value.problem == f"In the schema: columns.sex: {sentence}."


def test_whole_numbers_with_bounds_are_both_grouped_by_and_averaged(tmp_path: Path) -> None:
    columns = {"late": {"values": [0, 1], "bounds": [0, 1], "step": 1, "null": True}}
    schema = Schema.load(GOOD | {"columns": columns})
    rows = pa.table({"late": pa.array([0, 1, 1, 1, 7, None])})
    with dpx.connect(rows, schema=schema, workspace=tmp_path, curator=True) as session:
        counts = session.query("SELECT late, COUNT(*) FROM t GROUP BY late", rho=0.1).truth().records()
        mean = session.query("SELECT AVG(late) FROM t", rho=0.1).truth().records()
        late = session.query("SELECT AVG(late) FROM t WHERE late = 1", rho=0.1).truth().records()
    assert [row["true"] for row in counts] == [1, 3, 1]
    assert mean[0]["true"] == pytest.approx(4 / 5)  # 7 is capped at 1, and NULL left out
    assert late[0]["true"] == 1


def test_an_error_in_a_toml_file_names_the_file_and_the_key(tmp_path: Path) -> None:
    path = tmp_path / "data.toml"
    path.write_text('[table]\nname = "t"\n[privacy]\nrho = 1.0\n[columns.pay]\nbounds = [1, 0]\n')
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    assert str(path) in caught.value.problem
    assert "columns.pay.bounds: " in caught.value.problem


@pytest.mark.parametrize(
    "content", [b"[table\n", b"\xff\xfe", None], ids=["not TOML", "not UTF-8", "not there"]
)
def test_a_file_that_cannot_be_read_is_refused_with_a_remedy(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "data.toml"
    if content is not None:
        path.write_bytes(content)
    for source in (path, str(path)):
        with pytest.raises(SchemaError) as caught:
            Schema.load(source)
        assert str(path) in caught.value.problem
        assert caught.value.remedy


@pytest.mark.parametrize("source", [5, None, ["a"], 1.5])
def test_something_that_is_no_schema_is_refused(source: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.load(source)
    assert caught.value.remedy


def test_a_directory_is_no_schema(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="Cannot read"):
        Schema.load(tmp_path)


def test_a_toml_file_and_a_dict_of_its_shape_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "data.toml"
    path.write_text(
        '[table]\nname = "t"\n[privacy]\nrho = 1.0\n[columns.sex]\nvalues = ["F", "M"]\n'
        "[columns.age]\nedges = [0, 10]\n[columns.pay]\nbounds = [0, 1]\n"
    )
    assert Schema.load(path) == Schema.load(str(path)) == Schema.load(GOOD)


def test_a_loaded_schema_cannot_be_changed() -> None:
    schema = Schema.load(GOOD)
    with pytest.raises(Exception, match="cannot be changed"):
        schema.table = None  # type: ignore[assignment, misc]


@pytest.mark.parametrize(
    ("column", "domain"),
    [
        ({"values": ["a", "b"]}, ("a", "b")),
        ({"values": ["a"], "null": True}, ("a", None)),
        ({"values": [None, "a"]}, ("a", None)),
        ({"values": [None, "a"], "null": True}, ("a", None)),
        ({"values": [None]}, (None,)),
        ({"values": [False, True]}, (False, True)),
        ({"edges": [0, 1, 2.5]}, (Bin(0, 1), Bin(1, 2.5))),
        ({"edges": [0, 1], "null": True, "bounds": [0, 5]}, (Bin(0, 1), None)),
        ({"bounds": [0, 5]}, None),
    ],
)
def test_a_domain_is_what_is_declared_with_null_last(column: dict[str, Any], domain: object) -> None:
    assert Column(**column).domain == domain


def test_a_column_with_bounds_only_has_no_domain() -> None:
    schema = Schema.load(GOOD)
    assert list(schema.discrete()) == ["sex", "age"]
    with pytest.raises(SchemaError, match="pay"):
        schema.domain("pay")


@pytest.mark.parametrize(
    ("bounds", "step", "grid"),
    [
        ((0, 1), 0.01, (Fraction(1, 100), 0, 100)),
        ((-1.5, 3.25), 0.01, (Fraction(1, 100), -150, 325)),
        ((0.2, 1.3), 0.5, (Fraction(1, 2), 1, 2)),
        ((0, 1), None, (Fraction(1, 2**30), 0, 2**30)),
        ((-100, -10), None, (Fraction(1, 2**23), -100 * 2**23, -10 * 2**23)),
        ((0, 2**40), None, (Fraction(2**10), 0, 2**30)),
    ],
)
def test_the_grid_is_the_declared_step_or_a_power_of_two(bounds: Any, step: Any, grid: Any) -> None:
    found = Column(bounds=bounds, step=step).grid
    assert (found.step, found.low, found.high) == grid


def _is_accepted(low: float, high: float) -> bool:
    try:
        Column(bounds=(low, high))
    except ValueError:
        return False
    return True


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.floats(-1e90, 1e90), st.floats(-1e90, 1e90))
def test_a_derived_grid_lies_inside_the_bounds_and_is_never_empty(low: float, high: float) -> None:
    assume(low < high)
    assume(max(abs(low), abs(high)) >= 1e-90)
    if high - low < 1e-6 * max(abs(low), abs(high)):
        assume(_is_accepted(low, high))
    grid = Column(bounds=(low, high)).grid
    assert grid.range >= 1
    assert max(abs(grid.low), abs(grid.high)) <= LARGEST_UNITS
    assert grid.low * grid.step >= Fraction(low) - grid.step
    assert grid.high * grid.step <= Fraction(high) + grid.step
    assert Fraction(grid.unit) == grid.step
