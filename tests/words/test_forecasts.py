"""Forecasts: what a preparation will be able to tell, and its sentence."""

from __future__ import annotations

import pytest

from dpxplain.model.schema import Privacy
from dpxplain.words.prices import preparation_forecast

BY_ROW, BY_PERSON = Privacy(rho=1), Privacy(rho=1, unit="person", max_rows=15)
TWO, ONE = ["A", "B"], ["A"]


@pytest.mark.parametrize(
    ("smallest", "gap", "labels", "privacy", "in_percent", "text"),
    [
        (311.0, 6257.0, TWO, BY_ROW, False,
         "At ρ 0.02, only a change of a gap above 311 can be clear. Between A and B that is 4.97% of the "
         "gap."),
        (0.0033, 0.4, TWO, BY_ROW, True,
         "At ρ 0.02, only a change of a gap above 0.33 pp can be clear. "
         "Between A and B that is 0.825% of the gap."),
        (0.0033, None, ONE, BY_ROW, True, "At ρ 0.02, only a change of the value above 0.33% can be clear."),
        (0.4, 0.3, TWO, BY_ROW, False,
         "At ρ 0.02, only a change of a gap above 0.4 can be clear. "
         "Between A and B that is more than the whole gap of 0.3."),
        (0.4, 0.3, ONE, BY_ROW, False,
         "At ρ 0.02, only a change of the value above 0.4 can be clear. "
         "That is more than the whole value of 0.3."),
        (0.4, None, TWO, BY_PERSON, False,
         "At ρ 0.02 with 15 rows per person, only a change of a gap above 0.4 can be clear."),
        (None, None, TWO, BY_ROW, False,
         "At ρ 0.02, hardly any change of a gap will be clear: the groups are too small for so much noise."),
    ],
)  # fmt: skip
def test_a_preparation_says_the_smallest_change_that_will_be_clear(
    smallest: float | None,
    gap: float | None,
    labels: list[str],
    privacy: Privacy,
    in_percent: bool,
    text: str,
) -> None:
    assert preparation_forecast(smallest, gap, labels, 0.02, privacy, in_percent=in_percent) == text
