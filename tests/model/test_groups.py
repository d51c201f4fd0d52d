"""Every declared group has one number, and many ways to be named."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dpxplain.errors import QueryRefused, QuestionError
from dpxplain.model.column import Bin
from dpxplain.model.groups import LARGEST_ANSWER, Groups
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema

SCHEMA = Schema.load(
    {
        "table": {"name": "t"},
        "privacy": {"rho": 1},
        "columns": {
            "sex": {"values": ["F", "M", "NULL"], "null": True},
            "kids": {"values": [0, 1, 2]},
            "member": {"values": [True, False]},
            "age": {"edges": [0, 30.5, 60], "null": True},
            "many": {"values": list(range(1001))},
            "more": {"values": list(range(1000))},
            "digits": {"values": ["1", "01", "1.0"]},
        },
    }
)


def groups(*columns: str) -> Groups:
    return Groups.of(Query("t", columns, Aggregate("count")), SCHEMA)


@pytest.mark.parametrize("columns", [(), ("sex",), ("kids", "age"), ("age", "member", "sex")])
def test_every_group_is_found_by_its_own_key(columns: tuple[str, ...]) -> None:
    every = groups(*columns)
    keys = [every.key(i) for i in range(every.size)]
    assert keys == list(itertools.product(*(SCHEMA.domain(name) for name in columns)))
    assert [every.find(key) for key in keys] == list(range(every.size))


@pytest.mark.parametrize(
    ("column", "address", "index"),
    [
        ("sex", "M", 1),
        ("sex", "NULL", 2),  # the declared text wins over the label of NULL
        ("sex", None, 3),
        ("sex", ("F",), 0),
        ("kids", 2, 2),
        ("kids", "2", 2),
        ("kids", 2.0, 2),
        ("member", False, 1),
        ("member", "True", 0),
        ("age", "(0, 30.5]", 0),
        ("age", Bin(30.5, 60), 1),
        ("age", "NULL", 2),
        ("age", None, 2),
        ("digits", "01", 1),
    ],
)
def test_a_group_is_named_by_value_or_by_label(column: str, address: Any, index: int) -> None:
    assert groups(column).find(address) == index


@pytest.mark.parametrize("address", [(), None, "all rows"])
def test_without_group_by_there_is_one_group_of_all_rows(address: object) -> None:
    only = groups()
    assert (only.size, only.label(0), only.key(0), only.find(address)) == (1, "all rows", (), 0)


@pytest.mark.parametrize(
    ("columns", "address", "hint"),
    [
        (("sex",), "m", "Did you mean 'M'?"),
        (("sex",), "Z", "F, M, NULL"),
        (("sex",), [["F"]], "F, M, NULL"),
        (("sex",), {"F": 1}, "F, M, NULL"),
        (("kids",), 3, "0, 1, 2"),
        (("kids",), 1.5, "1"),
        (("kids",), float("nan"), "0, 1, 2"),
        (("kids",), None, "0, 1, 2"),
        (("age",), "(0, 30]", "'(0, 30.5]'"),
        (("many",), "none of them", "..."),
        (("sex", "kids"), "F", "tuple"),
        (("sex", "kids"), ("F", 1, 2), "tuple"),
        (("sex", "kids"), ("F", [1]), "0, 1, 2"),
        ((), "F", "all rows"),
        ((), ["F"], "all rows"),
    ],
)
def test_what_is_not_declared_is_refused_with_a_hint(columns: Any, address: object, hint: str) -> None:
    with pytest.raises(QuestionError) as caught:
        groups(*columns).find(address)
    assert caught.value.problem.endswith(".")
    assert hint in caught.value.remedy


def test_labels_join_the_columns_in_order() -> None:
    assert groups("sex", "age").label(0) == "F, (0, 30.5]"
    assert groups("sex", "age").label(11) == "NULL, NULL"


def test_more_groups_than_can_be_answered_are_refused() -> None:
    assert groups("more", "kids").size == 3000
    with pytest.raises(QueryRefused) as caught:
        groups("many", "more")
    assert "1,001,000" in caught.value.problem
    assert f"{LARGEST_ANSWER:,}" in caught.value.problem
    assert caught.value.remedy


def test_a_group_of_several_columns_can_be_named_by_one_text() -> None:
    schema = Schema.load(
        {
            "table": {"name": "t"},
            "privacy": {"rho": 1},
            "columns": {"a": {"values": ["Queens", "x, y"]}, "b": {"values": ["Brooklyn", "z"]}},
        }
    )
    groups = Groups.of(Query("t", ("a", "b"), Aggregate("count")), schema)
    older = ("Queens→Brooklyn", "Queens -> Brooklyn", "Queens / Brooklyn", "Queens,Brooklyn")
    for text in ("Queens, Brooklyn", '["Queens", "Brooklyn"]', *older):
        assert groups.find(text) == groups.find(("Queens", "Brooklyn")) == 0
    assert groups.find("x, y→z") == groups.find("x, y, z") == groups.find(("x, y", "z")) == 3
    with pytest.raises(QuestionError, match="'Mars' is not one of the values of b"):
        groups.find("Queens, Mars")
    with pytest.raises(QuestionError, match="Did you mean 'Brooklyn'"):
        groups.find("Queens, brooklyn")
    with pytest.raises(QuestionError, match=r"'Queens, Brooklyn'.*tuple"):
        groups.find("Queens")


@pytest.mark.parametrize("columns", [(), ("sex",), ("kids", "age"), ("age", "member", "sex")])
def test_every_group_is_found_by_what_is_printed_or_by_what_is_written_for_it(
    columns: tuple[str, ...],
) -> None:
    every = groups(*columns)
    assert [every.find(every.written(i)) for i in range(every.size)] == list(range(every.size))
    unclear = {i for i in range(every.size) if every.written(i) != every.label(i)}
    # The column sex has both a NULL and a text of that name.
    null = {i for i in range(every.size) if "sex" in columns and every.key(i)[columns.index("sex")] is None}
    assert unclear == null


def test_two_groups_that_print_alike_are_told_apart_by_their_values() -> None:
    schema = Schema.load(
        {
            "table": {"name": "t"},
            "privacy": {"rho": 1},
            "columns": {"a": {"values": ["x", "x, y"]}, "b": {"values": ["y, z", "z"]}},
        }
    )
    every = Groups.of(Query("t", ("a", "b"), Aggregate("count")), schema)
    assert every.label(0) == every.label(3) == "x, y, z"
    with pytest.raises(QuestionError, match="more than one group") as refused:
        every.find("x, y, z")
    assert '["x", "y, z"]' in refused.value.remedy
    assert [every.find(every.written(i)) for i in range(4)] == [0, 1, 2, 3]
    assert every.find("x, z") == 1


def test_a_text_of_any_length_names_no_group_and_is_refused_at_once() -> None:
    for text in ("F" + ", F" * 100_000, "[" * 100_000, ", " * 100_000):
        with pytest.raises(QuestionError):
            groups("sex", "kids").find(text)
