"""Sentences say what the definitions say, and numbers have the digits they deserve."""

from __future__ import annotations

import dataclasses
import math

import pytest

from dpxplain.model.charge import Spend
from dpxplain.render import words
from dpxplain.results import formats


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (0.40054, 0.0012, "0.4005"),
        (1234567.8, 4200.0, "1,234,600"),
        (1234567.8, 42.0, "1,234,568"),
        (-0.00004, 0.2, "0.00"),
        (5.0, 0.0, "5"),
        (math.inf, None, "∞"),
        (-math.inf, None, "-∞"),
        (math.nan, None, "-"),
        (0.0, None, "0"),
        (48842.0, None, "48,842"),
    ],
)
def test_numbers_have_two_digits_of_their_spread_and_thousand_separators(value, spread, text):
    assert formats.number(value, spread) == text


def test_an_interval_that_excludes_zero_never_prints_as_touching_it():
    assert formats.interval(0.0021, 0.41) == "0.002 to 0.410"
    assert formats.interval(-0.41, -0.0021) == "-0.410 to -0.002"


def test_an_interval_without_width_or_without_ends_prints():
    assert formats.interval(3.0, 3.0) == "3 to 3"
    assert formats.interval(-math.inf, math.inf) == "-∞ to ∞"


def test_the_cost_names_the_mechanisms_and_says_when_it_was_free():
    spends = (Spend("counts", 0.05), Spend("sums", 0.05))
    assert words.cost(0.1, spends) == "Cost: ρ 0.1 = counts 0.05 + sums 0.05"
    assert words.cost(0.1, spends, free=True).startswith("Already asked: free.")


def test_row_sentences_are_true_to_the_definition(table):
    sentence = words.row_sentence(table, table[0])
    low, high = table[0].relative_influence
    assert f"relative influence {formats.percent(low, high)}" in sentence
    assert (
        "(the gap's change when its rows are left out, weighted by the share of rows that remain)" in sentence
    )
    assert f"ranked {formats.ranks(*table[0].rank)} of 103." in sentence
    assert "Leaving these rows out narrows the gap." in sentence


def test_negative_influence_widens_and_an_interval_around_zero_is_unclear(table):
    below = dataclasses.replace(table[0], influence=(-9.0, -3.0), relative_influence=(-0.09, -0.03))
    around = dataclasses.replace(table[0], influence=(-9.0, 3.0), relative_influence=(-0.09, 0.03))
    assert "widens the gap" in words.row_sentence(table, below)
    assert "unclear which way" in words.row_sentence(table, around)


def test_no_sentence_claims_that_the_gap_itself_shrinks(table):
    texts = [words.influence_meaning(table), *(words.row_sentence(table, row) for row in table)]
    for text in texts:
        assert "shrinks" not in text
        assert "weighted by the share of rows that remain" in text
    assert "not the change itself" in texts[0]


def test_a_question_against_the_released_order_never_speaks_of_narrowing(answer):
    reverse = answer.why("Never-married", "Married-civ-spouse").explain(k=2, rho=0.05)
    text = words.influence_meaning(reverse)
    assert "lowers Never-married against Married-civ-spouse" in text
    assert "narrows" not in text
    assert "The data point the other way" in reverse.question.finding


def test_a_general_question_is_relative_to_its_distance_from_the_constant(answer):
    general = answer.why({"Never-married": 1, "Divorced": -3}, at_least=-0.5).explain(k=2, rho=0.05)
    assert "its distance from -0.5" in words.influence_meaning(general)


def test_findings_speak_of_privacy_noise(question, answer):
    assert "privacy noise alone would rarely produce this" in question.finding
    blurred = answer.why("Married-AF-spouse", "Married-civ-spouse", confidence=0.999999)
    assert "We cannot tell." in blurred.finding
    assert "privacy noise alone may explain" in blurred.finding


def test_control_characters_cannot_reach_a_terminal():
    assert "\x1b" not in formats.clean("a\x1b[31mb\r\nc")
