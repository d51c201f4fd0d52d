"""What holds in general, and what quality does not tell: each situation and its sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpxplain.model.contrast import Contrast, Verdict
from dpxplain.model.schema import Schema
from dpxplain.phases.assess import Assessment
from dpxplain.words.numbers import POINTS
from dpxplain.words.prices import quality_limits, units_misfit
from dpxplain.words.sentences import CURATOR_ONLY, NOT_PRIVATE, finding_in_general, unselected_note

IN_GENERAL = "In the population that the rows were drawn from, the gap"
SHARES = (
    "The shares are percentages of all rows, not of one group. They do not say how far values lie beyond the "
    "bounds, nor how much capping changed a sum or an average."
)


@pytest.mark.parametrize(
    ("interval", "verdict", "text"),
    [
        ((0.2, 0.4), Verdict.REAL,
         f"{IN_GENERAL} is above 10 percentage points: between 20 and 40 percentage points (95% confidence). "
         "This covers privacy noise and sampling error."),
        ((-0.2, 0.04), Verdict.REVERSED,
         f"{IN_GENERAL} is below 10 percentage points: between -20 and 4 percentage points (95% confidence). "
         "This covers privacy noise and sampling error."),
        ((0.04, 0.28), Verdict.UNCLEAR,
         f"This is not clear. {IN_GENERAL} could be anything between 4 and 28 percentage points "
         "(95% confidence). Privacy noise and sampling error may explain what you see."),
    ],
)  # fmt: skip
def test_the_population_is_judged_with_sampling_error(
    interval: tuple[float, float], verdict: Verdict, text: str
) -> None:
    general, asked = Assessment(0.3, interval, verdict), Contrast((0, 1), (1.0, -1.0), 0.1)
    assert finding_in_general(general, asked, 0.95, "gap", POINTS) == text


def test_what_is_not_private_says_so_first() -> None:
    assert CURATOR_ONLY == "NOT PRIVATE: for the curator only. Do not share or publish."
    assert NOT_PRIVATE == (
        "NOT PRIVATE: the noise comes from a fixed seed, for experiments only. Do not publish."
    )


def test_the_page_has_the_same_sentence_for_results_with_a_seed() -> None:
    component = Path(__file__).parents[2] / "page/src/parts/NotPrivate.svelte"
    assert f"<p>{NOT_PRIVATE}</p>" in component.read_text("utf-8")


def test_an_aggregate_that_is_not_selected_is_said_to_be_measured() -> None:
    assert unselected_note("COUNT(*)") == (
        "COUNT(*) is measured too, because HAVING or ORDER BY uses it. The ρ is shared among all aggregates."
    )


@pytest.mark.parametrize(
    ("privacy", "sentences"),
    [
        ({}, (SHARES,)),
        (
            {"unit": "tailnum", "max_rows": 50},
            (SHARES, "They do not say how many rows the largest tailnum has."),
        ),
    ],
)
def test_quality_says_what_its_shares_do_not_tell(
    privacy: dict[str, str], sentences: tuple[str, ...]
) -> None:
    schema = Schema.load(
        {"table": {"name": "t"}, "privacy": {"rho": 1, **privacy}, "columns": {"g": {"values": ["a"]}}}
    )
    assert quality_limits(schema) == sentences


def test_quality_names_the_units_that_are_cut() -> None:
    assert units_misfit(1_500) == "more than 1,500 rows"
