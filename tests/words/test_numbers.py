"""Numbers have the digits they deserve, the unit of what they measure, and never cross what they exclude."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpxplain.words import numbers
from dpxplain.words.numbers import PERCENT, PLAIN, POINTS, Figures, Unit

DOLLARS = Unit.declared("$")


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
    assert numbers.number(value, spread) == text


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((0.0021, 0.41), "0.002 to 0.410"),
        ((-0.41, -0.0021), "-0.410 to -0.002"),
        ((3.0, 3.0), "3 to 3"),
        ((-math.inf, math.inf), "-∞ to ∞"),
    ],
)
def test_an_interval_has_two_digits_of_its_width_and_never_touches_a_zero_that_it_excludes(ends, text):
    assert numbers.interval(*ends) == text


@pytest.mark.parametrize(
    ("unit", "ends", "text"),
    [
        (DOLLARS, (5_512, 6_790), "$5,500–6,800"),
        (DOLLARS, (-80, 120), "-$80 to $120"),
        (DOLLARS, (-25, -15), "-$25 to -$15"),
        (DOLLARS, (-math.inf, 12), "below $12"),
        (DOLLARS, (-12, math.inf), "-$12 or more"),
        (POINTS, (0.3605, 0.3677), "36.0–36.8 percentage points"),
        (POINTS, (0.2, math.inf), "20 percentage points or more"),
        (PERCENT, (0.3605, 0.3677), "36.0–36.8%"),
        (PLAIN, (-math.inf, math.inf), "anything"),
        (PLAIN, (7.0, 7.0), "7"),
        (Unit.declared("minutes"), (3.1, 4.9), "3.1–4.9 minutes"),
    ],
)
def test_an_interval_in_a_sentence_has_its_unit(unit, ends, text):
    assert unit.span(*ends) == text


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.floats(-1e3, 1e3).map(lambda value: round(value, 2)))
def test_a_span_is_not_rounded_to_the_constant_or_across_it(low, width, constant):
    text = PLAIN.span(low, low + width, constant)
    start, end = (float(part.replace(",", "")) for part in text.replace("–", " to ").split(" to "))
    near = 1e-3 * width
    if low > constant + near:
        assert start > constant
    if low + width < constant - near:
        assert end < constant


@pytest.mark.parametrize(
    ("unit", "constant", "text"),
    [
        (PLAIN, 50.4647, "50.4647"),
        (PLAIN, 31_135.78, "31,135.78"),
        (PLAIN, 1 / 3, "1/3"),
        (PERCENT, 1 / 3, "1/3"),
        (PERCENT, 0.29, "29%"),
        (POINTS, 0.1, "10 percentage points"),
        (DOLLARS, -50_000.0, "-$50,000"),
    ],
)
def test_a_constant_is_written_to_its_last_digit(unit, constant, text):
    assert unit.given(constant) == text


@pytest.mark.parametrize(
    ("figures", "value", "text"),
    [
        (Figures.of([(0.441, 0.452)], percent=True), 0.44605, "44.6%"),
        (Figures.of([(0.4461, 0.4462)], percent=True), 0.44615, "44.615%"),
        (Figures.of([(0.1, 0.9)], percent=True), 0.5, "50%"),
        (Figures.of([(16_192.1, 16_196.0)], whole=True), 16_194.2, "16,194"),
    ],
)
def test_the_values_of_a_column_have_common_decimals(figures, value, text):
    assert figures.value(value) == text


def test_control_characters_cannot_reach_a_terminal():
    assert numbers.clean("a\x1b[31mb\r\nc") == "a�[31mb c"


def test_a_name_is_cut_before_a_bracket_that_would_stay_open():
    name = "the average arr_delay (capped at -90 and 300)"
    assert [numbers.shortened(name, words) for words in (8, 7, 4, 3, 2)] == [
        name,
        *["the average arr_delay…"] * 3,
        "the average…",
    ]


@given(st.text(), st.integers(1, 8))
def test_a_shortened_name_has_at_most_so_many_words_and_keeps_short_ones(text, words):
    name = numbers.clean(text)
    cut = numbers.shortened(name, words)
    assert len(cut.split()) <= max(words, 1)
    assert len(cut) <= 80
    if len(name.split()) <= words and len(name) <= 80:
        assert cut == name
    else:
        assert cut.endswith("…")
