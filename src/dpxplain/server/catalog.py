"""The public description of a data set: its declarations, and example questions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from dpxplain.engines.opening import engine_name
from dpxplain.errors import QueryRefused
from dpxplain.model.budget import Budget
from dpxplain.model.expression import sql_literal, sql_name
from dpxplain.model.schema import Bin, Column, DomainValue, Schema, label
from dpxplain.server.response_shapes import ColumnPayload, DatasetPayload, Example, Summary
from dpxplain.sql.parse import parse
from dpxplain.wire.account_payloads import budget_figures
from dpxplain.wire.query_form import query_form
from dpxplain.words.numbers import number

_FEW, _MANY = 2, 12  # an example is easy to read with a number of groups in this range


def summary(schema: Schema, budget: Budget, *, available: bool = True) -> Summary:
    return Summary(
        name=schema.table.name,
        available=available,
        description=description(schema),
        engine=engine_name(schema.table.source),
        columns=len(schema.columns),
        budget=budget_figures(budget),
    )


def details(schema: Schema, budget: Budget, role: Literal["analyst", "curator"]) -> DatasetPayload:
    return DatasetPayload(
        role=role,
        name=schema.table.name,
        sql_name=sql_name(schema.table.name),
        description=description(schema),
        engine=engine_name(schema.table.source),
        schema=schema.model_dump(
            mode="json",
            exclude={
                "table": {"source", "cache", "storage"},
                "tables": {"__all__": {"source"}},
                "private": {"__all__": {"source"}},
            },
            exclude_defaults=True,
        ),  # the place of the data is not public
        columns=columns(schema),
        examples=examples(schema),
        budget=budget_figures(budget),
    )


def description(schema: Schema) -> str:
    """The data set in words, from the declarations."""
    privacy = schema.privacy
    unit = "row" if privacy.unit == "row" else f"{privacy.unit} (up to {privacy.max_rows} rows each)"
    engine = engine_name(schema.table.source)
    place = "" if engine == "files" else f" The data are in {engine}."
    columns = len(schema.columns)
    return f"{columns} column{'' if columns == 1 else 's'}. Protects each {unit}.{place}"


def columns(schema: Schema) -> list[ColumnPayload]:
    return [
        ColumnPayload(
            name=name,
            sql_name=sql_name(name),
            kind=_kind(column),
            values=None if column.domain is None else [label(value) for value in column.domain],
            sql_values=None if column.domain is None else [_sql_value(value) for value in column.domain],
            bounds=list(column.bounds) if column.bounds is not None and column.is_summable else None,
            bounds_text=_bounds_text(column),
            description=column.meaning,
        )
        for name, column in schema.columns.items()
    ]


def examples(schema: Schema) -> list[Example]:
    """Questions that the schema can answer; their groups come from the declarations, not from the data."""
    questions: list[Example] = []
    if schema.table.name == "adult" and {"marital_status", "high_income"} <= schema.columns.keys():
        questions.append(
            _example(
                "Why do married people earn more?",
                _select("marital_status", "AVG(high_income)", schema),
                ["Married-civ-spouse", "Never-married"],
                schema,
            )
        )
    grouping = _easiest_to_group(schema)
    if grouping is None:
        return questions
    first_two = [label(value) for value in schema.domain(grouping)[:2]]
    sql = _select(grouping, "COUNT(*)", schema)
    with suppress(QueryRefused):  # a column may be named COUNT(*)
        questions.append(_example(f"How many rows by {grouping}?", sql, first_two, schema))
    measured = next((n for n, c in schema.columns.items() if c.is_summable and n != grouping), None)
    if measured is not None:
        sql = _select(grouping, f"AVG({sql_name(measured)})", schema)
        with suppress(QueryRefused):
            questions.append(_example(f"Does {measured} differ by {grouping}?", sql, first_two, schema))
    return questions


def _example(title: str, sql: str, groups: list[str], schema: Schema) -> Example:
    return Example(title=title, sql=sql, form=query_form(parse(sql, schema), schema), groups=groups)


def _select(column: str, aggregate: str, schema: Schema) -> str:
    name = sql_name(column)
    return f"SELECT {name}, {aggregate} FROM {sql_name(schema.table.name)} GROUP BY {name}"


def _easiest_to_group(schema: Schema) -> str | None:
    sizes = {name: len(schema.domain(name)) for name in schema.discrete()}
    readable = [name for name, size in sizes.items() if _FEW <= size <= _MANY]
    groupable = [name for name, size in sizes.items() if size >= _FEW]
    return min(readable, key=sizes.__getitem__, default=min(groupable, key=sizes.__getitem__, default=None))


def _sql_value(value: DomainValue) -> str | None:
    if value is None:
        return "NULL"
    return None if isinstance(value, Bin) else sql_literal(value)


def _bounds_text(column: Column) -> str | None:
    if column.bounds is None:
        return None
    return " to ".join(map(str if column.is_temporal else number, column.bounds))


def _kind(column: Column) -> Any:
    if column.is_summable:
        return "numeric" if column.domain is None else "both"
    return "discrete"
