"""The preview tells what a query asks in the fields of a form, where a form can ask it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse
from dpxplain.wire.shapes import query_form
from dpxplain.words.declarations import shaped_by
from server_fixture import RunningServer, config_of, running_server

SCHEMA = Schema.load(
    tomllib.loads(
        """[table]
name = "people"
[privacy]
rho = 1.0
[columns.region]
values = ["North", "It's", "West"]
null = true
[columns.member]
values = [true, false]
[columns.size]
values = [1, 2, 3]
[columns.age]
edges = [0, 20, 40, 60]
[columns.pay]
bounds = [0, 100]
"""
    )
)
GROUPED = "SELECT region, AVG(pay) FROM people{} GROUP BY region"


def _form(sql: str) -> Any:
    return query_form(parse(sql, SCHEMA), SCHEMA)


def test_measures_and_groups_are_named() -> None:
    form = _form("select Region, size, count(*), SUM(pay) from people group by region, size")
    assert form == {
        "measures": [{"aggregate": "count", "column": None}, {"aggregate": "sum", "column": "pay"}],
        "groups": ["region", "size"],
        "filters": [],
    }


@pytest.mark.parametrize(
    ("where", "column", "values"),
    [
        ("region = 'It''s'", "region", ["It's"]),
        ("region IN ('West', 'North')", "region", ["North", "West"]),
        ("region IS NULL", "region", ["NULL"]),
        ("(region = 'West' OR region IS NULL)", "region", ["West", "NULL"]),
        ("member = FALSE", "member", ["False"]),
        ("size IN (3, 1)", "size", ["1", "3"]),
        ("age > 0 AND age <= 40", "age", ["(0, 20]", "(20, 40]"]),
    ],
)
def test_a_choice_of_declared_values_is_a_filter(where: str, column: str, values: list[str]) -> None:
    form = _form(GROUPED.format(f" WHERE {where}"))
    assert form["filters"] == [{"column": column, "values": values}]


def test_filters_keep_the_order_in_which_columns_are_named() -> None:
    form = _form(GROUPED.format(" WHERE size = 2 AND age > 20 AND region = 'West' AND age <= 60"))
    assert [part["column"] for part in form["filters"]] == ["size", "age", "region"]


@pytest.mark.parametrize(
    "where",
    [
        " WHERE region = 'West' OR size = 1",
        " WHERE NOT region = 'West'",
        " WHERE size > 1",
        " WHERE age > 10 AND age <= 40",
        " WHERE age > 20",
        " WHERE pay > 3 AND pay <= 9",
        " WHERE region = 'West' AND region = 'North'",
    ],
)
def test_other_conditions_are_beyond_a_form(where: str) -> None:
    assert _form(GROUPED.format(where)) is None


@pytest.mark.parametrize(
    "sql",
    [
        GROUPED.format("") + " ORDER BY region",
        GROUPED.format("") + " LIMIT 2",
        "SELECT region, AVG(pay) AS mean FROM people GROUP BY region",
        "SELECT AVG(pay), region FROM people GROUP BY region",
        GROUPED.format("") + " HAVING AVG(pay) > 3",
        GROUPED.format("") + " HAVING COUNT(*) > 3",
        "SELECT region, 2 * AVG(pay) FROM people GROUP BY region",
        'SELECT region, 2 * AVG(pay) AS "AVG(pay)" FROM people GROUP BY region',
        'SELECT region, ROUND(AVG(pay)) AS "AVG(pay)" FROM people GROUP BY region',
    ],
)
def test_so_is_another_presentation(sql: str) -> None:
    assert _form(sql) is None


def test_a_subquery_that_a_form_can_ask_is_shown_in_its_fields() -> None:
    inner = "SELECT region, pay FROM people WHERE member"
    assert _form(f"WITH f AS ({inner}) SELECT region, AVG(pay) FROM f GROUP BY region") == _form(
        GROUPED.format(" WHERE member = TRUE")
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("form")
    with running_server(config_of(folder)) as running:
        yield running


def test_a_preview_carries_the_form_and_the_price_in_a_sentence(server: RunningServer) -> None:
    sql = "SELECT region, AVG(pay), COUNT(*) FROM people WHERE sex = 'F' GROUP BY region"
    preview = server.client().post("/datasets/people/preview", json={"sql": sql, "rho": 0.1}).json()
    assert preview["form"]["filters"] == [{"column": "sex", "values": ["F"]}]
    assert re.findall(r"\d[\d.]*", preview["summary"]) == ["0.1", "5"]
    for name, sentence in zip(("AVG(pay)", "COUNT(*)"), preview["expected"], strict=True):
        assert re.match(rf"{re.escape(name)}: .*±\d", sentence)
    schema = server.state.datasets.get("people").schema
    assert preview["shaped_by"] == list(shaped_by(parse(sql, schema).queries, schema)) != []


def test_every_example_comes_with_its_form(server: RunningServer) -> None:
    dataset = server.client().get("/datasets/people").json()
    assert dataset["sql_name"] == "people"
    assert all(example["form"]["groups"] for example in dataset["examples"])
    columns = {column["name"]: column for column in dataset["columns"]}
    assert columns["sex"]["sql_values"] == ["'F'", "'M'"]
    assert columns["age"]["sql_values"] == [None] * 4
    assert columns["pay"]["sql_values"] is None
