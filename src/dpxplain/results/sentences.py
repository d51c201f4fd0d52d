"""A question and its verdict in plain words, true to the definitions (SPEC section 1)."""

from __future__ import annotations

from collections.abc import Sequence

from dpxplain.model.contrast import Contrast, Verdict
from dpxplain.privacy.intervals import Interval
from dpxplain.results.formats import interval, level, number

NOISE_ONLY = "It speaks of privacy noise only, not of sampling."
NOT_PRIVATE = "NOT PRIVATE: drawn with a seeded source of noise, for experiments only. Do not publish."


def unselected_note(aggregate: str) -> str:
    """Said of an aggregate that only HAVING or ORDER BY uses."""
    return f"{aggregate} is measured too, as HAVING or ORDER BY uses it; it shares ρ with the others."


def question_text(aggregate: str, labels: Sequence[str], contrast: Contrast) -> str:
    """The question as a person would ask it; `labels` name the contrast's groups."""
    if contrast.weights == (1.0, -1.0):
        more = f" by at least {number(contrast.at_least)}" if contrast.at_least else ""
        return f"Why is {aggregate} of {labels[0]} above that of {labels[1]}{more}?"
    if contrast.weights == (1.0,):
        return f"Why is {aggregate} of {labels[0]} at least {number(contrast.at_least)}?"
    terms = ""
    for weight, label in zip(contrast.weights, labels, strict=True):
        sign = ("-" if weight < 0 else "") if not terms else (" - " if weight < 0 else " + ")
        factor = "" if abs(weight) == 1 else f"{abs(weight):g} × "
        terms += f"{sign}{factor}{label}"
    return f"Why is {aggregate} of {terms} at least {number(contrast.at_least)}?"


def measured(contrast: Contrast) -> str:
    """What the question's number is called: two groups have a gap, other weights make a value."""
    return "gap" if contrast.weights == (1.0, -1.0) else "value"


def finding(
    labels: Sequence[str],
    contrast: Contrast,
    ends: Interval,
    verdict: Verdict,
    confidence: float,
    subject: str = "",
) -> str:
    """The verdict in plain words; it speaks of privacy noise only.

    `subject` says what is compared where that is not what the data hold: "clamped averages".
    """
    name, between = measured(contrast), "between " + interval(*ends).replace(" to ", " and ")
    number_name = f"{name} of {subject}" if subject else name
    if name == "gap" and contrast.at_least == 0:
        above, below = f"{labels[0]} is higher than {labels[1]}.", f"{labels[0]} is lower than {labels[1]}."
    else:
        constant = number(contrast.at_least)
        above, below = f"It is above {constant}.", f"it is below {constant}."
    sure = f"({level(confidence)} confidence)"
    if verdict is Verdict.UNCLEAR:
        return (
            f"We cannot tell. The true {number_name} could be anything {between} {sure}, so privacy noise "
            "alone may explain what you see."
        )
    claim = above if verdict is Verdict.REAL else f"The data point the other way: {below}"
    return (
        f"{claim} The true {number_name} is {between} {sure}; privacy noise alone would rarely produce this."
    )
