"""Every function and aggregate in the tables can be written, and docs/language.md names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpxplain.errors import QueryRefused
from dpxplain.model.derivation import FUNCTIONS, RowFunction
from dpxplain.model.expression import Call, Reference, read_expression
from dpxplain.model.query import Output
from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse
from dpxplain.sql.source import AGGREGATES, AggregateFunction

SCHEMA = Schema.load(
    {
        "table": {"name": "t"},
        "privacy": {"rho": 1},
        "columns": {"x": {"bounds": [0, 9]}, "s": {"values": ["a", "b"]}},
    }
)
LANGUAGE = (Path(__file__).parents[2] / "docs/language.md").read_text(encoding="utf-8")
SPELLINGS = [(word, name) for name in FUNCTIONS for word in (name, *FUNCTIONS[name].synonyms)]


def arguments(function: RowFunction, number: int) -> tuple[str, ...]:
    column = "s" if function.of_text is not None else "x"
    return (column, *["2"] * (number - 1))


@pytest.mark.parametrize(("word", "name"), SPELLINGS)
def test_every_spelling_of_a_function_is_a_call_of_it(word: str, name: str) -> None:
    function = FUNCTIONS[name]
    for number in function.arguments or (2, 3):
        written = arguments(function, number)
        call = read_expression(f"{word}({', '.join(written)})", SCHEMA.columns)
        assert isinstance(call, Call)
        assert (call.function, call.arguments[0]) == (name, Reference(written[0]))
        assert len(call.arguments) == number


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.arguments])
def test_a_function_refuses_too_many_arguments(name: str) -> None:
    function = FUNCTIONS[name]
    written = arguments(function, max(function.arguments) + 1)
    with pytest.raises(QueryRefused):
        read_expression(f"{name}({', '.join(written)})", SCHEMA.columns)


@pytest.mark.parametrize("aggregate", AGGREGATES.values(), ids=lambda aggregate: aggregate.words[0])
def test_every_spelling_of_an_aggregate_is_measured_as_its_kind(aggregate: AggregateFunction) -> None:
    level = ", 0.9" if "MEDIAN" not in aggregate.words and aggregate.kind == "quantile" else ""
    for word in aggregate.words:
        statement = parse(f"SELECT {word}(x{level}) AS y FROM t", SCHEMA)
        assert statement.query.aggregate.kind == aggregate.kind
        assert statement.presentation.outputs == (Output("y", None),)


def test_the_docs_name_every_function_and_aggregate() -> None:
    suggested = [aggregate.words[0] for aggregate in AGGREGATES.values() if aggregate.is_suggested]
    missing = [word for word in (*map(str.upper, FUNCTIONS), *suggested) if word not in LANGUAGE]
    assert missing == []


def test_the_refusal_of_an_unknown_function_names_every_function_there_is() -> None:
    with pytest.raises(QueryRefused, match="There is no function FOO") as refusal:
        parse("SELECT FOO(x), COUNT(*) FROM t", SCHEMA)
    assert all(name.upper() in refusal.value.remedy for name in FUNCTIONS)
