"""Tables of conditions in words: names, effects, sentences and notes."""

from __future__ import annotations

import math
from datetime import date

import pytest

from dpxplain.model.column import Bin
from dpxplain.model.contrast import Verdict
from dpxplain.model.query import Condition, Predicate
from dpxplain.model.schema import Schema
from dpxplain.privacy.mechanisms.ranking import LOWER_SHARE
from dpxplain.words.findings import AskedComparison, Effect, Explained, Interval
from dpxplain.words.numbers import POINTS
from dpxplain.words.sentences import (
    condition_label,
    condition_phrase,
    effect_text,
    enough_rho,
    folded_note,
    influence_note,
    mechanism_note,
    promise,
    relative_text,
    row_sentence,
    short_effects,
)

GAP = AskedComparison(("A", "B"), 0.4008, (0.4005, 0.4011), Verdict.REAL, 0.95, unit=POINTS)
VALUE = AskedComparison(("A",), 51.0, (50.5, 51.5), Verdict.REAL, 0.95, "value", 50.0)
CLAIMS = Schema.load(
    {
        "table": {"name": "claims"},
        "privacy": {"rho": 1},
        "columns": {
            "cause": {"values": ["S", "F"], "label": "Cause", "value_labels": {"S": "Storm"}},
            "work_class": {"values": ["Private"], "null": True},
            "age": {"edges": [20, 40, 60]},
            "day": {"edges": ["2024-01-01", "2024-02-01", "2024-03-01"]},
        },
    }
)


@pytest.mark.parametrize(
    ("conditions", "line", "phrase"),
    [
        ([Condition("cause", "S")], "Cause = S (Storm)", "cause “Storm”"),
        ([Condition("cause", "F")], "Cause = F", "cause “F”"),
        ([Condition("work_class", "Private")], "work_class = Private", "work class “Private”"),
        ([Condition("work_class", None)], "work_class = NULL", "work class missing"),
        ([Condition("age", Bin(20, 40))], "age in (20, 40]", "age 20–40"),
        (
            [Condition("day", Bin(date(2024, 1, 1), date(2024, 2, 1)))],
            "day in (2024-01-01, 2024-02-01]",
            "day 2024-01-01 to 2024-02-01",
        ),
        (
            [Condition("cause", "S"), Condition("age", Bin(20, 40))],
            "Cause = S (Storm) and age in (20, 40]",
            "cause “Storm” and age 20–40",
        ),
    ],
)
def test_a_condition_has_a_line_in_tables_and_a_phrase_in_sentences(conditions, line, phrase):
    predicate = Predicate(tuple(conditions))
    assert condition_label(predicate, CLAIMS) == line
    assert condition_phrase(predicate, CLAIMS) == phrase


@pytest.mark.parametrize(
    ("effect", "share", "text"),
    [
        ("shrinks", (0.09, 0.11), "shrinks by 9–11%"),
        ("shrinks", (0.3, 2.4), "shrinks by at least 30%"),
        ("shrinks", (1.2, 1.4), "shrinks by 100% or more"),
        ("shrinks", None, "shrinks"),
        ("widens", (-0.2, -0.1), "widens by 10–20%"),
        ("widens", (-0.104, -0.101), "widens by 10%"),
        ("widens", (-1.5, -1.2), "widens by 120–150%"),
        ("unclear", (-0.2, 0.1), "unclear"),
        ("unclear", None, "unclear"),
    ],
)
def test_a_row_says_shrinks_widens_or_unclear(effect, share, text):
    assert effect_text(Effect("x", effect, (1.0, 2.0), share)) == text


@pytest.mark.parametrize(
    ("asked", "effect", "without", "text"),
    [
        (GAP, "shrinks", (0.3605, 0.3677),
         "Without rows with job X, the gap of 40.1 would be 36.0–36.8 percentage points."),
        (GAP, "unclear", (0.3605, 0.4677),
         "Without rows with job X, the gap of 40.1 would be 36–47 percentage points. "
         "That is no clear change."),
        (GAP, "unclear", (-math.inf, math.inf),
         "Without rows with job X, one of the groups may be empty, so the gap is unknown."),
        (GAP, "shrinks", None, "Leaving out rows with job X shrinks the gap."),
        (GAP, "widens", None, "Leaving out rows with job X widens the gap."),
        (GAP, "unclear", None, "Leaving out rows with job X has no clear effect on the gap."),
        (VALUE, "shrinks", (50.01, 50.9), "Without rows with job X, the value of 51 would be 50.01–50.90."),
    ],
)  # fmt: skip
def test_a_row_s_sentence_claims_no_more_than_its_interval(
    asked: AskedComparison, effect, without: Interval | None, text: str
) -> None:
    row = Effect("job X", effect, (1.0, 2.0), without=without)
    gap = None if without is None else asked.estimate
    assert row_sentence(Explained(asked, gap, (row,)), row) == text


@pytest.mark.parametrize(
    ("names", "shares", "text"),
    [
        (["a"], [(0.9, 0.95)], "Also: a (90.0% to 95.0% the same rows)."),
        (["a", "b"], [(0.9, 0.95), (0.8, 0.85)], "Also: a; b (80% to 95% the same rows)."),
        (["a", "b"], [], "Also: a; b (one implies the other)."),
        (list("abcdef"), [], "Also: a; b; c; d; and 2 more (one implies the other)."),
    ],
)
def test_folded_conditions_are_named_and_counted(names, shares, text):
    assert folded_note(names, shares) == text


@pytest.mark.parametrize(
    ("measured", "verdict", "texts"),
    [
        ("gap", Verdict.REAL, ("shrinks the gap", "widens the gap")),
        ("gap", Verdict.REVERSED, ("lowers the gap", "raises the gap")),
        ("gap", Verdict.UNCLEAR, ("lowers the gap", "raises the gap")),
        ("value", Verdict.REAL, ("lowers the value", "raises the value")),
    ],
)
def test_a_question_against_the_released_order_never_speaks_of_shrinking(measured, verdict, texts):
    assert short_effects(measured, verdict) == texts


@pytest.mark.parametrize(
    ("kind", "is_relative", "text"),
    [
        ("avg", True, "Relative influence: the share of the gap that disappears without these rows, "
         "scaled down when few rows would remain."),
        ("avg", False, "Influence: how much of the gap disappears without these rows, "
         "times the rows that remain in the smallest group."),
        ("count", False, "Influence: how much of the gap disappears without these rows, "
         "scaled down when few rows would remain."),
    ],
)  # fmt: skip
def test_influence_is_explained_as_it_is_defined(kind, is_relative, text):
    assert influence_note(kind, "gap", is_relative=is_relative) == text


@pytest.mark.parametrize(
    ("lower_share", "text"),
    [
        (None, "Mechanism: vector (asked for by name)."),
        (LOWER_SHARE, "Mechanism: vector (asked for by name)."),
        (
            0.9,
            "Mechanism: vector (asked for by name). 90% of the ρ for ranks is spent on their lower bounds.",
        ),
    ],
)
def test_a_mechanism_is_named_with_the_share_of_lower_bounds_unless_it_is_the_usual_one(lower_share, text):
    assert mechanism_note("vector", "asked for by name", lower_share) == text


def test_influence_is_relative_only_where_that_means_something():
    assert relative_text((3.0, 9.0), (0.03, 0.09)) == "3.0% to 9.0%"
    assert relative_text((3.0, 9.0), None) == "3.0 to 9.0"


def test_intervals_that_hold_together_say_so():
    noise = "Intervals cover privacy noise only."
    assert promise(0.95, 103, together=True) == (
        f"All 103 intervals hold together with 95% confidence. {noise}"
    )
    assert promise(0.95, 103, together=False) == f"Each interval holds with 95% confidence. {noise}"


@pytest.mark.parametrize(
    ("intervals", "rho"),
    [
        ([(4.0, 6.0), (3.0, 5.0)], 0.4),
        ([(4.0, 6.0), (1.0, 3.0)], None),  # the order is clear
        ([(4.0, 6.0), (4.0, 6.0)], None),  # no budget tells them apart
        ([(4.0, 6.0), (3.99, 5.99)], None),  # too much
        ([(4.0, 6.0)], None),
    ],
)
def test_the_price_of_an_order_is_what_would_separate_all_intervals(intervals, rho):
    assert enough_rho(0.1, intervals) == rho
