"""The curator's tables, whatever the columns of the query are called and the rows of the data hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.render.layout import TextGrid
from dpxplain.render.terminal import as_text
from dpxplain.render.views import view_of
from dpxplain.wire.payloads import truth_payload

Opener = Callable[[str, list[str]], dpx.Session]
HIDDEN = "\x1b[2J\u202eevil\nline"


@pytest.fixture
def opened(tmp_path: Path) -> Opener:
    """Opens a data set with one column, of two values that occur 30 and 70 times."""

    def open_it(group: str, values: list[str]) -> dpx.Session:
        columns = {group: {"values": values}}
        schema = {"table": {"name": "t"}, "privacy": {"rho": 1e6}, "columns": columns}
        rows = pa.table({group: values[:1] * 30 + values[1:2] * 70})
        return dpx.connect(rows, schema, workspace=tmp_path, curator=True)

    return open_it


def grid_of(truth: object) -> TextGrid:
    grid = view_of(truth).grid
    assert grid is not None
    return grid


def column(grid: TextGrid, name: str) -> list[str]:
    place = [column.name for column in grid.columns].index(name)
    return [row[place] for row in grid.rows]


@pytest.mark.parametrize("aggregates", ["COUNT(*)", "COUNT(*), COUNT(*) + 0 AS again"])
@pytest.mark.parametrize(
    "name", ["covered", "true", "low", "interval", "rank", "noise_scale", "rank_covered"]
)
def test_a_group_is_shown_whatever_its_column_is_called(opened: Opener, name: str, aggregates: str) -> None:
    with opened(name, ["yes", "no"]) as session:
        answer = session.query(f'SELECT "{name}", {aggregates} FROM t GROUP BY "{name}"', rho=1e4)
        truth = answer.truth()
    grid = grid_of(truth)
    each = 2 if "again" in aggregates else 1
    assert column(grid, name) == ["yes"] * each + ["no"] * each
    texts = [value["text"].split(".")[0] for value in truth_payload(truth)["values"]]
    assert texts == ["30"] * each + ["70"] * each
    assert "yes" in as_text(truth)


def test_added_columns_leave_the_selected_ones_alone(opened: Opener) -> None:
    with opened("covered", ["yes", "no"]) as session:
        truth = session.query("SELECT covered, COUNT(*) AS true_ FROM t GROUP BY covered", rho=1e4).truth()
    assert [row["covered"] for row in truth.records()] == ["yes", "no"]
    assert [row["covered_"] for row in truth.records()] == [True, True]
    assert [value["covered"] for value in truth_payload(truth)["values"]] == [True, True]


@pytest.mark.parametrize("alias", ["low", "high", "true", "covered", "interval", "in_general_high"])
def test_the_interval_is_the_released_one_whatever_the_value_is_called(opened: Opener, alias: str) -> None:
    with opened("g", ["a", "b"]) as session:
        answer = session.query(f'SELECT g, COUNT(*) AS "{alias}" FROM t GROUP BY g', rho=1.0)
        grid = grid_of(answer.truth())
        plain = grid_of(session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).truth())
    assert column(grid, "interval_" if alias == "interval" else "interval") == column(plain, "interval")
    assert column(grid, alias) == column(plain, "COUNT(*)")
    assert [row[-2:] for row in grid.rows] == [row[-2:] for row in plain.rows]


@pytest.mark.parametrize("aggregates", ["COUNT(*)", "COUNT(*), COUNT(*) + 0 AS again"])
def test_a_truth_of_no_groups_is_printed(opened: Opener, aggregates: str) -> None:
    with opened("g", ["a", "b"]) as session:
        sql = f"SELECT g, {aggregates} FROM t GROUP BY g HAVING COUNT(*) > 1000"
        truth = session.query(sql, rho=1e4).truth()
    for shown in (str(truth), truth._repr_html_()):
        assert "There are no rows." in shown


def test_a_schema_check_shows_no_control_characters_of_the_data() -> None:
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 1},
        "columns": {"g": {"values": ["a"]}, "h\u202e": {"values": ["a"]}},
    }
    rows = pa.table({"g": ["a", HIDDEN, HIDDEN], "h\u202e": ["a", "a", "a"]})
    view = view_of(dpx.check_schema(rows, schema))
    assert view.grid is not None
    texts = [*view.lines, *view.notes, *(cell for row in view.grid.rows for cell in row)]
    assert any("evil line" in text for text in texts)
    assert all(text.isprintable() for text in texts)
    assert r'values = ["a", "\u001b[2J\u202eevil\nline"]' in "".join(view.lines)
