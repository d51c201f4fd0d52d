"""The line with a price that every command shows before it spends: each situation and its sentence."""

from __future__ import annotations

import pytest

from dpxplain.cli.screen import price_in_words
from dpxplain.model.charge import Spend
from dpxplain.words.prices import Price

PAID = (Spend("counts", 0.5),)


@pytest.mark.parametrize(
    ("price", "line"),
    [
        (
            Price(0.5, PAID, 5.0, False, 1e-6),
            "Price: ρ 0.5 (ε 5.23 at δ 1e-6) of the ρ 5 left. ρ 4.5 will remain.",
        ),
        (
            Price(0.5, PAID, 0.25, False, 1e-6),
            "Price: ρ 0.5 (ε 5.23 at δ 1e-6), more than the ρ 0.25 left.",
        ),
        (
            Price(0.5, PAID, 5.0, True, 1e-6),
            "Price: free, this was asked before and its answer is stored.",
        ),
        (Price(0.0, (), 5.0, True, 1e-6), "Price: free, this answer is prepared."),
    ],
)
def test_a_price_says_what_it_leaves(price: Price, line: str) -> None:
    assert price_in_words(price) == line
