"""Where a refused schema is wrong, as the curator's editor marks it."""

from __future__ import annotations

import pytest

from dpxplain.errors import SchemaError
from dpxplain.server.problems import key_positions, schema_problems
from dpxplain.server.registry import schema_of

SCHEMA = """[table]
name = "people"

[privacy]
rho = 1.0

[columns.pay]
  bounds = [9, 1]  # the wrong way round
[columns."a b"]
values = []
"""


def problems_of(text: str) -> list[tuple[str, str, str | None]]:
    """Key, message and the marked text of each problem."""
    with pytest.raises(SchemaError) as refusal:
        schema_of(text)
    return [
        (
            problem["key"],
            problem["message"],
            None if (position := problem["position"]) is None else text[position["start"] : position["end"]],
        )
        for problem in schema_problems(text, refusal.value)
    ]


def test_every_refused_key_is_marked_to_the_end_of_its_line() -> None:
    assert problems_of(SCHEMA) == [
        (
            "columns.pay.bounds",
            "must be two different finite numbers, the lower one first",
            "bounds = [9, 1]  # the wrong way round",
        ),
        ("columns.a b.values", "must be a list of at least one value", "values = []"),
    ]


def test_a_missing_key_is_marked_at_the_table_around_it() -> None:
    assert problems_of(SCHEMA.replace("rho = 1.0", ""))[0] == ("privacy.rho", "is missing", "[privacy]")


def test_a_missing_table_has_no_position() -> None:
    assert problems_of('[table]\nname = "x"') == [
        ("privacy", "is missing", None),
        ("columns", "is missing", None),
    ]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("a = 1\nb = = 2\n", "= 2"),
        ("a = [1,", "a = [1,"),
        ("a = 1\n\nb =\n", "b ="),
    ],
)
def test_a_text_that_is_no_toml_is_marked_where_it_stops_being_it(text: str, marked: str) -> None:
    assert [(key, place) for key, _, place in problems_of(text)] == [("TOML", marked)]


def test_characters_are_counted_not_bytes() -> None:
    assert key_positions("# 😀\nä.b = 1\nkey = 2")["key"] == {"line": 3, "column": 1, "start": 12, "end": 19}
