"""Titles: a statement and the question that it answers, in words."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from dpxplain.model.contrast import Contrast, Ratio
from dpxplain.model.groups import Groups
from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse
from dpxplain.words.sentences import (
    answer_title,
    caption,
    group_name,
    in_percent,
    is_share,
    question_filter,
    question_text,
    question_title,
    ratio_text,
)

PEOPLE = Schema.load(
    {
        "table": {"name": "people"},
        "privacy": {"rho": 1},
        "columns": {
            "sex": {
                "values": ["F", "M"],
                "label": "Sex at birth",
                "value_labels": {"F": "women", "M": "men"},
            },
            "race": {"values": ["Black", "Other", "White"]},
            "age": {"bounds": [0, 99]},
            "job": {"values": [f"job{n}" for n in range(9)]},
            "pay": {"bounds": [0, 9_000], "label": "Monthly pay", "unit": "dollars"},
            "delay": {"bounds": [-90, 300]},
            "rich": {"bounds": [0, 1], "step": 1, "label": "high income"},
            "smokes": {"bounds": [0, 1], "step": 1},
            "rate": {"bounds": [0, 1], "unit": "share"},
            "poor": {"bounds": [0, 1], "label": "Share of poor people"},
        },
    }
)


def title(select: str, rest: str = "GROUP BY race") -> str:
    return answer_title(parse(f"SELECT {select} FROM people {rest}", PEOPLE), PEOPLE)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("sex = 'F'", "sex at birth is F (women)"),
        ("race <> 'White'", "race is not White"),
        ("age > 40 AND age <= 50", "age is above 40 and at most 50"),
        ("race IN ('White', 'Black', 'Other')", "race is Black, Other or White"),
        ("NOT race IN ('White', 'Black')", "race is not Black or White"),
        (
            "age > 40 AND (race = 'White' OR race = 'Black')",
            "age is above 40 and (race is White or race is Black)",
        ),
        ("race IS NOT NULL", "race is not NULL"),
        ("NOT (age > 40 AND race = 'White')", "not (age is above 40 and race is White)"),
        (f"job IN ({', '.join(repr(f'job{n}') for n in range(9))})", "job is one of job0, job1, job2, job3, "
         "job4, job5 and 3 more"),
    ],
)  # fmt: skip
def test_a_filter_is_read_in_words(where, words):
    assert title("race, COUNT(*)", f"WHERE {where} GROUP BY race") == (
        f"Number of rows by race, only where {words}"
    )


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("race, COUNT(*)", "Number of rows by race"),
        ("race, COUNT(pay)", "Number of rows with Monthly pay (dollars) by race"),
        ("race, AVG(pay)", "Average monthly pay (dollars), capped at 9,000, by race"),
        ("race, SUM(delay)", "Sum of delay, capped at -90 and 300, by race"),
        ("race, AVG(rich)", "Share with high income by race"),
        ("race, AVG(smokes)", "Share with smokes = 1 by race"),
        ("race, SUM(rich)", "Number with high income by race"),
        ("race, SUM(smokes)", "Number with smokes = 1 by race"),
        ("race, AVG(poor)", "Share of poor people by race"),
        ("race, MEDIAN(pay)", "Median of Monthly pay (dollars), capped at 9,000, by race"),
        ("race, AVG(pay) AS wage", "wage by race"),
        ("race, COUNT(*) AS n, AVG(rich)", "n and Share with high income by race"),
    ],
)
def test_a_value_is_called_by_the_query_or_else_by_its_label_and_cap(select, words):
    assert title(select) == words


def test_a_title_without_groups_says_all_rows_and_one_with_having_says_what_is_shown():
    assert title("COUNT(*)", "") == "Number of rows of all rows"
    assert title("COUNT(*)", "WHERE age > 20") == "Number of rows, only where age is above 20"
    having = "GROUP BY race HAVING COUNT(*) > 5"
    assert title("race, COUNT(*)", having) == "Number of rows by race, shown where COUNT(*) > 5"


def test_a_caption_names_the_data_the_cost_the_date_and_the_confidence():
    entry = SimpleNamespace(id=7, rho=0.1, time=datetime(2026, 3, 1, tzinfo=UTC))
    assert caption(PEOPLE, entry, 0.95) == (
        "people · number 7 · cost ρ 0.1 · 2026-03-01 · 95% intervals, for privacy noise only"
    )


def test_a_question_names_the_filter_of_its_answer():
    asked = "Why is A above B?"
    plain, filtered = (
        parse(f"SELECT race, COUNT(*) FROM people {where}GROUP BY race", PEOPLE)
        for where in ("", "WHERE age > 20 ")
    )
    assert question_filter(asked, plain, PEOPLE) == asked
    assert question_filter(asked, filtered, PEOPLE) == f"{asked} Only where age is above 20."


@pytest.mark.parametrize(
    ("aggregate", "share", "percent"),
    [
        ("AVG(rich)", True, True), ("AVG(smokes)", True, True), ("AVG(poor)", True, True),
        ("AVG(rate)", False, True), ("SUM(rich)", False, False), ("AVG(pay)", False, False),
        ("COUNT(*)", False, False), ("MEDIAN(rate)", False, True),
    ],
)  # fmt: skip
def test_shares_and_columns_of_zeros_and_ones_are_read_in_percent(aggregate, share, percent):
    query = parse(f"SELECT race, {aggregate} FROM people GROUP BY race", PEOPLE).query
    assert is_share(query.aggregate, PEOPLE) == share
    assert in_percent(query.aggregate, PEOPLE) == percent


def test_a_group_in_a_sentence_is_called_by_what_it_stands_for():
    groups = Groups.of(
        parse("SELECT sex, race, COUNT(*) FROM people GROUP BY sex, race", PEOPLE).query, PEOPLE
    )
    assert group_name(groups, groups.find(("F", "White")), PEOPLE) == "women, White"


GAP = Contrast((0, 1), (1.0, -1.0))


@pytest.mark.parametrize(
    ("contrast", "ratio", "text"),
    [
        (GAP, None, "Why is A above B? (Average claim)"),
        (
            Contrast((0, 1), (1.0, -1.0), 31_135.78),
            None,
            "Why is A above B by at least 31,135.78? (Average claim)",
        ),
        (Contrast((0,), (1.0,), 50.4647), None, "Why is Average claim of A at least 50.4647?"),
        (Contrast((0, 1), (1.0, -2.0), 2.0), None, "Why is Average claim of A - 2 × B at least 2?"),
        (GAP, Ratio(0, (1,), 2.0), "Why is the ratio of A to B at least 2? (Average claim)"),
        (GAP, Ratio(0, (0, 1, 2), 1 / 3), "Why is the share of A at least 1/3? (Average claim)"),
    ],
)
def test_a_question_is_a_heading(contrast, ratio, text):
    assert question_title(["A", "B"], contrast, ratio, "Average claim") == text


@pytest.mark.parametrize(
    ("contrast", "text"),
    [
        (GAP, "Why is AVG(pay) of a above that of b?"),
        (
            Contrast((0, 1), (1.0, -1.0), 31_135.78),
            "Why is AVG(pay) of a above that of b by at least 31,135.78?",
        ),
        (Contrast((0,), (1.0,), 50.4647), "Why is AVG(pay) of a at least 50.4647?"),
    ],
)
def test_a_question_is_asked_in_the_words_of_the_query_too(contrast, text):
    assert question_text("AVG(pay)", ["a", "b"], contrast) == text


def test_an_even_share_is_asked_as_a_fraction():
    text = ratio_text("SUM(pay)", ["a"], Ratio(0, (0, 1, 2), 1 / 3))
    assert text == "Why is the share of a in the total of SUM(pay) at least 1/3?"
