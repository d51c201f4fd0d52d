"""Sentences that are true to the definitions (SPEC sections 1 and 5), and numbers people can read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpxplain.model.question import Verdict

if TYPE_CHECKING:
    from dpxplain.question import Question


def number(value: float, spread: float | None = None) -> str:
    """A number with as many decimals as it deserves: two digits of its spread, if that is known.

    >>> number(0.40054, 0.0012), number(48842.3, 5.1), number(0.25), number(31135.78)
    ('0.4005', '48,842', '0.25', '31,136')
    """
    if not math.isfinite(value):
        return {True: "∞", False: "-∞"}[value > 0] if not math.isnan(value) else "-"
    size = abs(value) if spread is None else abs(spread)
    if size == 0:
        return f"{value:,.0f}"
    digits = 3 if spread is None else 1
    decimals = (
        min(12, max(0, digits - 1 - math.floor(math.log10(size))))
        if spread is None
        else min(12, max(0, digits - math.floor(math.log10(size))))
    )
    if size >= 100 and spread is None:
        decimals = 0
    text = f"{value:,.{decimals}f}"
    if spread is None and "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def interval(low: float, high: float) -> str:
    """
    >>> interval(0.39912, 0.40233)
    '0.3991 to 0.4023'
    """
    spread = high - low if math.isfinite(high - low) else None
    return f"{number(low, spread)} to {number(high, spread)}"


def percent(low: float, high: float) -> str:
    """
    >>> percent(0.0612, 0.0678)
    '6.1% to 6.8%'
    """
    spread = (high - low) * 100
    decimals = 0 if spread >= 20 else 1 if spread >= 0.3 else 2
    return f"{low * 100:.{decimals}f}% to {high * 100:.{decimals}f}%"


def question_text(question: Question) -> str:
    """The question as a person would ask it."""
    groups, contrast = question.answer.groups, question.contrast
    labels = [groups.label(index) for index in contrast.groups]
    what = str(question.answer.statement.query.aggregate)
    if contrast.weights == (1.0, -1.0):
        more = f" by at least {number(contrast.at_least)}" if contrast.at_least else ""
        return f"Why is {what} of {labels[0]} above that of {labels[1]}{more}?"
    if contrast.weights == (1.0,):
        return f"Why is {what} of {labels[0]} at least {number(contrast.at_least)}?"
    terms = ""
    for weight, label in zip(contrast.weights, labels, strict=True):
        sign = ("-" if weight < 0 else "") if not terms else (" - " if weight < 0 else " + ")
        factor = "" if abs(weight) == 1 else f"{abs(weight):g} × "
        terms += f"{sign}{factor}{label}"
    return f"Why is {what} of {terms} at least {number(contrast.at_least)}?"


def finding(question: Question) -> str:
    """The verdict in plain words; it speaks of privacy noise only."""
    groups, contrast = question.answer.groups, question.contrast
    low, high = question.interval
    between = f"between {number(low, high - low)} and {number(high, high - low)}"
    level = f"{question.confidence:.0%}" if question.confidence < 0.995 else f"{question.confidence:.1%}"
    if contrast.weights == (1.0, -1.0) and contrast.at_least == 0:
        first, second = (groups.label(index) for index in contrast.groups)
        claim = {
            Verdict.REAL: f"{first} is higher than {second}.",
            Verdict.UNCLEAR: "We cannot tell.",
            Verdict.REVERSED: f"The data point the other way: {first} is lower than {second}.",
        }[question.verdict]
        name = "gap"
    else:
        claim = {
            Verdict.REAL: f"It is above {number(contrast.at_least)}.",
            Verdict.UNCLEAR: "We cannot tell.",
            Verdict.REVERSED: f"The data point the other way: it is below {number(contrast.at_least)}.",
        }[question.verdict]
        name = "value"
    if question.verdict is Verdict.UNCLEAR:
        return (
            f"{claim} The true {name} could be anything {between} ({level} confidence), so privacy noise "
            "alone may explain what you see."
        )
    return (
        f"{claim} The true {name} is {between} ({level} confidence); privacy noise alone would rarely "
        "produce this."
    )
