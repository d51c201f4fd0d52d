"""Which groups a WHERE leaves, decided by the declarations alone, and never by a group with rows."""

from __future__ import annotations

from typing import Any

import pytest

from dpxplain.errors import QuestionError
from dpxplain.model.groups import Groups
from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse

COLUMNS: dict[str, dict[str, Any]] = {
    "sex": {"values": ["F", "M"]},
    "race": {"values": ["A", "B"], "null": True},
    "kids": {"values": [0, 1, 2]},
    "member": {"values": [True, False]},
    "day": {"values": ["2025-01-01", "2025-02-01"]},
    "age": {"edges": [0, 30, 60], "null": True},
    "pay": {"edges": [0, 10, 20], "bounds": [0, 20]},
    "cut": {"edges": [0, 5, 100, 200], "bounds": [10, 80]},
    "whole": {"edges": [0, 10, 20], "bounds": [0, 20], "step": 1},
    "seen": {"edges": ["2025-01-01", "2025-07-01", "2026-01-01"]},
    "hours": {"bounds": [0, 80]},
}
SCHEMA = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": COLUMNS})


def left(columns: str, where: str) -> list[str]:
    query = parse(f"SELECT {columns}, COUNT(*) FROM t WHERE {where} GROUP BY {columns}", SCHEMA).query
    groups = Groups.of(query, SCHEMA)
    return [groups.label(index) for index in groups.remaining]


@pytest.mark.parametrize(
    ("column", "where", "labels"),
    [
        ("sex", "sex = 'M'", ["M"]),
        ("sex", "sex <> 'M'", ["F"]),
        ("sex", "sex = 'M' OR hours > 3", ["F", "M"]),
        ("sex", "sex = 'M' AND hours > 3", ["M"]),
        ("sex", "NOT (sex = 'M' AND hours > 3)", ["F", "M"]),
        ("sex", "NOT (sex = 'M' OR hours > 3)", ["F"]),
        ("sex", "hours > 3", ["F", "M"]),
        ("sex", "UPPER(sex) = 'M'", ["F", "M"]),  # of another column, whose values the groups do not tell
        ("race", "race IS NOT NULL", ["A", "B"]),
        ("race", "race IS NULL", ["NULL"]),
        ("race", "race = 'A'", ["A"]),
        ("race", "NOT race = 'A'", ["B"]),  # NULL is neither 'A' nor anything else
        ("race", "race NOT IN ('A', 'B')", []),
        ("race", "race = 'A' OR race IS NULL", ["A", "NULL"]),
        ("race", "race LIKE 'B%'", ["B"]),
        ("kids", "kids >= 1", ["1", "2"]),
        ("kids", "kids BETWEEN 0.5 AND 1.5", ["1"]),
        ("member", "member", ["True"]),
        ("day", "day > '2025-01-15'", ["2025-02-01"]),
        ("age", "age > 30", ["(30, 60]"]),
        ("age", "age >= 30", ["(0, 30]", "(30, 60]"]),
        ("age", "age <= 30", ["(0, 30]"]),
        ("age", "age < 30", ["(0, 30]"]),
        ("age", "age > 29.5", ["(0, 30]", "(30, 60]"]),
        ("age", "age IN (5, 70)", ["(0, 30]"]),
        ("age", "age <> 5", ["(0, 30]", "(30, 60]"]),
        ("age", "age IS NULL", ["NULL"]),
        ("pay", "pay <= 10", ["(0, 10]"]),
        ("cut", "cut >= 10", ["(0, 5]", "(5, 100]", "(100, 200]"]),  # 3 counts as 10
        ("cut", "cut > 10", ["(5, 100]", "(100, 200]"]),
        ("cut", "cut < 80", ["(0, 5]", "(5, 100]"]),  # 150 counts as 80
        ("cut", "cut > 80", []),
        ("whole", "whole <= 10", ["(0, 10]", "(10, 20]"]),  # 10.3 counts as 10
        ("whole", "whole < 10", ["(0, 10]"]),
        ("seen", "seen > '2025-07-01'", ["(2025-07-01, 2026-01-01]"]),
        ("kids + 1", "kids + 1 = 2", ["2"]),
        ("kids + 1", "kids + 1 IN (1, 3) AND NOT kids + 1 >= 3", ["1"]),
        ("UPPER(race)", "UPPER(race) IS NOT NULL", ["A", "B"]),
        ("race", "UPPER(race) = 'A' OR race = 'B'", ["A", "B", "NULL"]),
    ],
)
def test_a_group_is_left_only_if_its_declared_values_can_satisfy_the_where(
    column: str, where: str, labels: list[str]
) -> None:
    assert left(column, where) == labels


def test_conditions_on_several_group_by_columns_are_taken_together() -> None:
    assert left("sex, kids", "sex = 'M' AND kids > 1") == ["M, 2"]
    assert left("sex, kids", "(sex = 'M' AND kids = 0) OR kids = 2") == ["F, 2", "M, 0", "M, 2"]
    assert left("kids, sex", "sex = 'M' OR hours < 3") == ["0, F", "0, M", "1, F", "1, M", "2, F", "2, M"]


def test_a_group_that_is_ruled_out_is_refused_by_name() -> None:
    query = parse("SELECT sex, kids, COUNT(*) FROM t WHERE kids = 1 GROUP BY sex, kids", SCHEMA).query
    groups = Groups.of(query, SCHEMA)
    assert groups.find("F, 1") == 1
    with pytest.raises(QuestionError) as caught:
        groups.find("F, 2")
    assert caught.value.problem == "The WHERE condition excludes F, 2, so this group has no rows."
    assert caught.value.remedy == "Choose one of: F, 1, M, 1."
    with pytest.raises(QuestionError, match=r"Choose one of: 1\.$"):
        groups.find("F, x")


def test_none_names_the_group_of_null_only_while_the_where_leaves_it() -> None:
    for where, named in (("race IS NULL", True), ("race IS NOT NULL", False), ("hours > 1", True)):
        query = parse(f"SELECT race, COUNT(*) FROM t WHERE {where} GROUP BY race", SCHEMA).query
        assert Groups.of(query, SCHEMA).has_null is named


def test_a_bin_whose_rows_are_told_by_rounded_values_is_kept() -> None:
    """The integer 2^53 + 1 is binned as the float 2^53, although a filter compares it exactly."""
    edges = [0, 2**53, 2**54]
    schema = Schema.load(
        {"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": {"big": {"edges": edges}}}
    )
    sql = f"SELECT big, COUNT(*) FROM t WHERE big = {2**53 + 1} GROUP BY big"
    assert len(Groups.of(parse(sql, schema).query, schema).remaining) == 2
