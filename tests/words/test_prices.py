"""Prices: each situation and its sentence."""

from __future__ import annotations

import pytest

from dpxplain.model.charge import Spend
from dpxplain.words import prices
from dpxplain.words.numbers import PLAIN, POINTS
from dpxplain.words.prices import Price

ONE, TWO = (Spend("counts", 0.1),), (Spend("counts", 0.05), Spend("sums", 0.05))
PAID = "Cost: ρ 0.1 = counts 0.05 + sums 0.05."
PREPARED = "Free: this answer is prepared."
STORED = "Free: this was asked before, and the stored result is shown."


@pytest.mark.parametrize(
    ("spends", "free", "text"),
    [
        (ONE, False, "Cost: ρ 0.1 for counts."),
        (TWO, False, PAID),
        ((), False, "Cost: ρ 0.1."),
        (TWO, True, "Free: asked before. The first time it cost ρ 0.1 = counts 0.05 + sums 0.05."),
    ],
)
def test_the_cost_names_the_mechanisms_and_says_when_it_was_free(spends, free, text):
    assert prices.cost(0.1, spends, free) == text


def priced(rho: float, left: float, *, free: bool = False) -> Price:
    return Price(rho, TWO if rho else (), left, free, 1e-6)


PRICE = f"Price: {prices.rho_and_epsilon(0.1, priced(0.1, 2.0).epsilon, 1e-6)}."


@pytest.mark.parametrize(
    ("quote", "lines", "summary"),
    [
        (priced(0.1, 2.0), (PRICE, "ρ 2 is left now, ρ 1.9 afterwards."), "Costs 0.1 of 2 left."),
        (
            priced(0.1, 0.05),
            (PRICE, "Only ρ 0.05 is left, so the request would be refused."),
            "Costs 0.1, but only 0.05 is left.",
        ),
        (priced(0.1, 2.0, free=True), (STORED,), STORED),
        (priced(0.0, 2.0, free=True), (PREPARED,), PREPARED),
    ],
)
def test_a_price_says_what_is_left(quote, lines, summary):
    assert prices.price(quote) == lines
    assert prices.price_summary(quote) == summary


def test_what_pays_for_every_further_why_costs_once():
    assert prices.price_summary(priced(0.1, 2.0), once=True) == "Costs 0.1 of 2 left, once."


class Expected:
    """What a preview knows of a query's precision."""

    confidence = 0.95

    def __init__(self, margin: float | None, *sizes: tuple[int, float]) -> None:
        self.margin = margin
        self.margin_by_group_size = sizes


@pytest.mark.parametrize(
    ("preview", "name", "text"),
    [
        (Expected(4.2), "", "Expected ±4.2 per group (95% interval)."),
        (Expected(4.2), "COUNT(*)", "COUNT(*): expected ±4.2 per group (95% interval)."),
        (
            Expected(None, (100, 0.5), (10_000, 0.01)),
            "",
            "Expected ±0.5 in a group of 100, ±0.01 in a group of 10,000 rows (95% interval).",
        ),
        (Expected(None), "", "Expected interval unknown before asking, as its width depends on the values."),
        (
            Expected(None),
            "MEDIAN(pay)",
            "MEDIAN(pay): expected interval unknown before asking, as its width depends on the values.",
        ),
    ],
)
def test_a_query_says_how_far_off_its_values_may_be(preview, name, text):
    assert prices.expected_margin(preview, name) == text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            {"measured": "gap", "unit": POINTS, "gap": 0.0031, "relative": 0.02, "influence": 9.0},
            "Each gap without a condition's rows will be accurate to about ±0.3 percentage points.",
        ),
        (
            {"measured": "ratio", "unit": PLAIN, "gap": 0.31, "relative": None, "influence": 9.0},
            "Each ratio without a condition's rows will be accurate to about ±0.3.",
        ),
        (
            {"measured": "gap", "unit": PLAIN, "gap": None, "relative": 0.0082, "influence": 9.0},
            "Each relative influence will be accurate to about ±0.82%.",
        ),
        (
            {"measured": "gap", "unit": PLAIN, "gap": None, "relative": None, "influence": 9.0},
            "Each influence will be accurate to about ±9.",
        ),
    ],
)
def test_an_explanation_says_how_precise_its_effects_will_be(facts, text):
    assert prices.expected_effects(**facts) == text


@pytest.mark.parametrize(
    ("ends", "text"), [((10, 19), "10.0 to 19.0 lost"), ((10, float("inf")), "at least 10 lost")]
)
def test_lost_rows_may_have_no_known_upper_end(ends, text):
    assert prices.lost(*ends) == text


def test_discovery_says_what_a_value_needs_and_which_delta_it_spends():
    assert prices.threshold(45, 1e-9) == (
        "A value is found if its noisy number of units exceeds 45. The chance to find a value that only one "
        "unit has is below δ = 1e-09. This δ is spent in addition to ρ."
    )
    assert prices.discovered_delta(1e-9, 2e-9) == (
        "Discovering values has spent up to δ = 1e-09 as well. "
        "Everything asked together is (ε, 2e-09)-differentially private."
    )


def test_a_count_says_how_far_off_it_may_be():
    assert prices.expected_count(4.2, 0.95) == "Expected ±4.2 rows per count (95% interval)."
