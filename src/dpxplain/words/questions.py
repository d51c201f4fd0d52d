"""The question in words: what was asked, and whether the gap is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.words.numbers import PLAIN, Unit, as_given, level

if TYPE_CHECKING:
    from dpxplain.phases.assess_question import Assessment

NOISE_ONLY = "The interval covers privacy noise only, not sampling."
GENERAL_USE = (
    "“In general” assumes that each row was drawn independently and at random from a larger population. "
    "Do not use it for a complete census: there is no larger population. Do not use it for rows drawn in "
    "clusters (households, schools, days), by weights or by choice: the interval would be too narrow."
)
EACH_INTERVAL = "Each interval holds its true value with {} confidence. Intervals cover privacy noise only."
SINGLE_INTERVAL = "The interval holds the true value with {} confidence; it covers privacy noise only."
CURATOR_ONLY = "NOT PRIVATE: for the curator only. Do not share or publish."
NOT_PRIVATE = "NOT PRIVATE: the noise comes from a fixed seed, for experiments only. Do not publish."


def unselected_note(aggregate: str) -> str:
    """A note about an aggregate that only HAVING or ORDER BY uses."""
    return (
        f"{aggregate} is measured too, because HAVING or ORDER BY uses it. The ρ is shared among all "
        "aggregates."
    )


def question_text(aggregate: str, labels: Sequence[str], contrast: Contrast) -> str:
    """The question as a person would ask it; `labels` name the contrast's groups."""
    if contrast.weights == (1.0, -1.0):
        more = f" by at least {as_given(contrast.at_least)}" if contrast.at_least else ""
        return f"Why is {aggregate} of {labels[0]} above that of {labels[1]}{more}?"
    if contrast.weights == (1.0,):
        return f"Why is {aggregate} of {labels[0]} at least {as_given(contrast.at_least)}?"
    terms = ""
    for weight, group in zip(contrast.weights, labels, strict=True):
        sign = ("-" if weight < 0 else "") if not terms else (" - " if weight < 0 else " + ")
        factor = "" if abs(weight) == 1 else f"{abs(weight):g} × "
        terms += f"{sign}{factor}{group}"
    return f"Why is {aggregate} of {terms} at least {as_given(contrast.at_least)}?"


def question_title(groups: Sequence[str], contrast: Contrast, ratio: Ratio | None, value: str) -> str:
    """The question as a heading: short, and in the words of the schema.

    >>> question_title(["Storm", "Fire"], Contrast((0, 1), (1.0, -1.0)), None, "Average claim")
    'Why is Storm above Fire? (Average claim)'
    """
    if ratio is not None:
        constant = as_given(ratio.at_least)
        subject = (
            f"the share of {groups[0]}" if ratio.is_share else f"the ratio of {groups[0]} to {groups[1]}"
        )
        return f"Why is {subject} at least {constant}? ({value})"
    if contrast.weights == (1.0, -1.0):
        more = f" by at least {as_given(contrast.at_least)}" if contrast.at_least else ""
        return f"Why is {groups[0]} above {groups[1]}{more}? ({value})"
    return question_text(value, groups, contrast)


def ratio_text(aggregate: str, labels: Sequence[str], ratio: Ratio) -> str:
    """The question about a ratio or a share as a person would ask it."""
    constant = as_given(ratio.at_least)
    if ratio.is_share:
        return f"Why is the share of {labels[0]} in the total of {aggregate} at least {constant}?"
    return f"Why is the ratio of {aggregate} of {labels[0]} to that of {labels[1]} at least {constant}?"


def measured(contrast: Contrast) -> str:
    """The name of the question's number: "gap" for A − B, "value" for other weights."""
    return "gap" if contrast.weights == (1.0, -1.0) else "value"


def finding_in_general(
    general: Assessment, contrast: Contrast, confidence: float, name: str, unit: Unit = PLAIN
) -> str:
    """The verdict on the population in plain words: privacy noise and sampling error together."""
    between = unit.between(*general.interval, contrast.at_least)
    sure = f"({level(confidence)} confidence)"
    if general.verdict is Verdict.UNCLEAR:
        return (
            f"This is not clear. In the population that the rows were drawn from, the {name} could be "
            f"anything {between} {sure}. Privacy noise and sampling error may explain what you see."
        )
    side = "above" if general.verdict is Verdict.REAL else "below"
    return (
        f"In the population that the rows were drawn from, the {name} is {side} "
        f"{unit.given(contrast.at_least)}: {between} {sure}. This covers privacy noise and "
        "sampling error."
    )
