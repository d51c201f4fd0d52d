"""What a preview promises of its choice and its ranks: each situation and its sentence."""

from __future__ import annotations

from typing import Any

import pytest

from dpxplain.results.preview import CustomPreview, ExplanationPreview
from dpxplain.words.prices import Price

FREE = Price(0.0, (), 5.0, True, 1e-6)
ALL_SHOWN = "All conditions are shown, so none is missing."
FIFTH = "an influence at most 12 (3% relative influence) below the true fifth highest"
ONE_SHOWN = "With 95% confidence the one shown has an influence at most 12 below the highest."
RANKS = (
    "every condition whose rank lies inside the interval has an influence at most 7 lower or 9 higher than "
    "the condition shown."
)


def explained(**facts: Any) -> tuple[str, ...]:
    known = {"price": FREE, "question": "Why?", "k": 5, "family_size": 103, "confidence": 0.95,
             "mechanism": "one-shot", "reason": "asked", "influence_margin": 1.0, "relative_margin": None,
             "rank_resolution": 1.0, "shortfall": 12.0, "relative_shortfall": 0.03}  # fmt: skip
    return ExplanationPreview(**known | facts).promises


@pytest.mark.parametrize(
    ("facts", "sentences"),
    [
        ({}, (f"With 95% confidence each of the 5 shown has {FIFTH}.",)),
        ({"folds": True},
         (f"With 95% confidence each of the 5 shown has {FIFTH}, before nearly identical conditions are "
          "merged.",)),
        ({"proved": False},
         (f"Expected, not proved: with 95% confidence each of the 5 shown has {FIFTH}.",)),
        ({"relative_shortfall": None},
         ("With 95% confidence each of the 5 shown has an influence at most 12 below the true fifth "
          "highest.",)),
        ({"k": 1, "relative_shortfall": None},
         (ONE_SHOWN,)),
        ({"selects_distinct": True, "relative_shortfall": None},
         ("With 95% confidence each of the 5 shown has an influence at most 12 below the highest that was "
          "left to choose.",)),
        ({"k": 103}, (ALL_SHOWN,)),
        ({"k": 103, "folds": True},
         ("All conditions are chosen, so none is missing; nearly identical conditions share a row.",)),
        ({"k": 103, "rank_reach": (7.0, 9.0)},
         (ALL_SHOWN, f"With 95% confidence, for each of them: {RANKS}")),
        ({"k": 103, "rank_reach": (7.0, 9.0), "mechanism": "vector"},
         (ALL_SHOWN, f"With 95% confidence, for all of them at once: {RANKS}")),
        ({"k": 1, "rank_reach": (7.0, 9.0), "relative_shortfall": None},
         (ONE_SHOWN,
          f"With 95% confidence: {RANKS}")),
        ({"k": 1, "family_size": 1, "rank_reach": (7.0, 9.0)}, (ALL_SHOWN,)),
    ],
)  # fmt: skip
def test_an_explanation_promises_no_more_than_is_proved(
    facts: dict[str, Any], sentences: tuple[str, ...]
) -> None:
    assert explained(**facts) == sentences


@pytest.mark.parametrize(
    ("k", "rows", "sentence"),
    [
        (3, 40, "With 95% confidence, at most 40 changed rows separate each of the 3 shown from being one of "
         "the 3 with the highest influence, according to the influence's bounds."),
        (1, 1, "With 95% confidence, at most 1 changed row separates the one shown from being the one with "
         "the highest influence, according to the influence's bounds."),
        (3, None, "At 95% confidence, there is no guarantee that the right conditions are shown."),
        (103, None, ALL_SHOWN),
    ],
)  # fmt: skip
def test_an_influence_of_ones_own_promises_rows(k: int, rows: int | None, sentence: str) -> None:
    assert CustomPreview(FREE, "Why?", "ratio", k, 103, 0.95, 4, 4, rows).promises == (sentence,)
