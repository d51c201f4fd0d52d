"""Sentences that are true to the definitions (SPEC sections 1 and 5), and numbers people can read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpxplain.model.contrast import Verdict

if TYPE_CHECKING:
    from dpxplain.model.charge import Spend
    from dpxplain.results.explanation import Explanation, ExplanationRow
    from dpxplain.results.preview import Price
    from dpxplain.results.question import Question

NOISE_ONLY = "It speaks of privacy noise only, not of sampling."
CAVEAT = "Privacy noise only, not sampling; influence is not proof of cause."
NOT_PRIVATE = "NOT PRIVATE: drawn with a seeded source of noise, for experiments only. Do not publish."
CURATOR_ONLY = "NOT PRIVATE: for the curator only. Do not share or publish."


def number(value: float, spread: float | None = None) -> str:
    """A number with as many digits as it deserves: two digits of its spread, if that is known.

    >>> number(0.40054, 0.0012), number(48842.3, 5100), number(0.25), number(31135.78)
    ('0.4005', '48,800', '0.25', '31,136')
    """
    if not math.isfinite(value):
        return "-" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if spread is not None and math.isfinite(spread) and spread != 0:
        return _rounded(value, _decimals(spread))
    if value == 0:
        return "0"
    text = _rounded(value, 0 if abs(value) >= 100 else _decimals(value, digits=3))
    return text.rstrip("0").rstrip(".") if "." in text else text


def interval(low: float, high: float, unit: str = "", spread: float | None = None) -> str:
    """Both ends, to two digits of the width, or of `spread` where a column has one in common.

    An end that is not zero is never shown as zero.

    >>> interval(0.39912, 0.40233), interval(-12_345, 45_678), interval(0.0021, 0.41)
    ('0.3991 to 0.4023', '-12,000 to 46,000', '0.002 to 0.410')
    """
    width = high - low
    if not math.isfinite(width) or width == 0:
        return f"{number(low)}{unit} to {number(high)}{unit}"
    decimals = _decimals(spread or width)
    # Rounding a small end to zero would make a real difference look like an unclear one.
    for _ in range(4):
        if all(end == 0 or round(end, decimals) != 0 for end in (low, high)):
            break
        decimals += 1
    return f"{_rounded(low, decimals)}{unit} to {_rounded(high, decimals)}{unit}"


def percent(low: float, high: float) -> str:
    """
    >>> percent(0.0612, 0.0678)
    '6.12% to 6.78%'
    """
    return interval(low * 100, high * 100, "%")


def ranks(low: int, high: int) -> str:
    """
    >>> ranks(1, 3), ranks(2, 2), ranks(900, 1200)
    ('1 to 3', '2', '900 to 1,200')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def level(confidence: float) -> str:
    """
    >>> level(0.95), level(0.999)
    ('95%', '99.9%')
    """
    return f"{confidence * 100:.6g}%"


def rho(value: float) -> str:
    """
    >>> rho(0.1), rho(2.0)
    ('ρ 0.1', 'ρ 2')
    """
    return f"ρ {value:.6g}"


def cost(total: float, spends: Sequence[Spend], free: bool = False) -> str:
    """What a release cost and which mechanisms share it."""
    parts = " + ".join(f"{spend} {spend.rho:.4g}" for spend in spends)
    split = f" = {parts}" if len(spends) > 1 else f" for {spends[0]}" if spends else ""
    if free:
        return f"Already asked: free. The first time it cost {rho(total)}{split}"
    return f"Cost: {rho(total)}{split}"


def price(asked: Price) -> tuple[str, ...]:
    """What a preview says first: the cost, and what would be left."""
    if asked.free and not asked.rho:
        return ("Free: this answer was prepared before, so every why on it costs nothing.",)
    if asked.free:
        return ("Already asked: free. The stored release answers it.",)
    if not asked.affordable:
        return (
            cost(asked.rho, asked.spends),
            f"That is more than the {rho(asked.remaining)} left: it would be refused.",
        )
    left = f"{rho(asked.remaining)} is left now, {rho(asked.remaining_after)} afterwards."
    return (cost(asked.rho, asked.spends), left)


def table_cost(table: Explanation) -> str:
    """What an explanation cost; one that is read off prepared cells is free, and so are all that follow."""
    if table.mechanism != "marginals":
        return cost(table.rho, table.spends, table.free)
    if table.free:
        return f"Free: read off what was prepared once for {rho(table.rho)}, like every why on this answer."
    return f"{cost(table.rho, table.spends)}. Every further why on this answer is free."


def mechanism(table: Explanation) -> str:
    """Which mechanism, why that one, and what its intervals promise."""
    promise = f"{level(table.confidence)} intervals"
    if table.mechanism == "marginals":
        promise += f", which hold for all {table.family_size:,} predicates at once"
    return f"Mechanism: {table.mechanism} ({table.plan.reason}). {promise}."


def clean(text: str) -> str:
    """One line without control characters: a declared value must not move the cursor or hide text.

    >>> clean("a\\n  b\\x1b[31m")
    'a b�[31m'
    """
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


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


def measured(question: Question) -> str:
    """What the question's number is called: two groups have a gap, other weights make a value."""
    return "gap" if question.contrast.weights == (1.0, -1.0) else "value"


def finding(question: Question) -> str:
    """The verdict in plain words; it speaks of privacy noise only."""
    groups, contrast = question.answer.groups, question.contrast
    between = "between " + interval(*question.interval).replace(" to ", " and ")
    name = measured(question)
    if name == "gap" and contrast.at_least == 0:
        first, second = (groups.label(index) for index in contrast.groups)
        claim = {
            Verdict.REAL: f"{first} is higher than {second}.",
            Verdict.UNCLEAR: "We cannot tell.",
            Verdict.REVERSED: f"The data point the other way: {first} is lower than {second}.",
        }[question.verdict]
    else:
        claim = {
            Verdict.REAL: f"It is above {number(contrast.at_least)}.",
            Verdict.UNCLEAR: "We cannot tell.",
            Verdict.REVERSED: f"The data point the other way: it is below {number(contrast.at_least)}.",
        }[question.verdict]
    sure = f"({level(question.confidence)} confidence)"
    if question.verdict is Verdict.UNCLEAR:
        return (
            f"{claim} The true {name} could be anything {between} {sure}, so privacy noise alone may "
            "explain what you see."
        )
    return f"{claim} The true {name} is {between} {sure}; privacy noise alone would rarely produce this."


def effects(question: Question) -> tuple[str, str]:
    """What leaving the rows out does to the question's number, for influence above and below zero."""
    if measured(question) == "value":
        return "lowers the value", "raises the value"
    if question.verdict is Verdict.REAL and question.contrast.at_least == 0:
        return "narrows the gap", "widens the gap"
    # Without a clear gap in the direction asked, "narrower" would say the wrong thing.
    first, second = (question.answer.groups.label(index) for index in question.contrast.groups)
    return f"lowers {first} against {second}", f"raises {first} against {second}"


def short_effects(question: Question) -> tuple[str, str]:
    """The same without the groups' names, where space is short."""
    name = measured(question)
    if name == "gap" and question.verdict is Verdict.REAL and question.contrast.at_least == 0:
        return "narrows the gap", "widens the gap"
    return f"lowers the {name}", f"raises the {name}"


def influence_meaning(table: Explanation) -> str:
    """Said once above the table: what the numbers are, and what they are not."""
    question = table.question
    name, constant = measured(question), question.contrast.at_least
    narrows, widens = effects(question)
    change = f"how much the {name} changes when these rows are left out"
    signs = f"Above zero, leaving them out {narrows}; below zero, it {widens}."
    if not table.relative:
        return (
            f"Influence is {change}, {_weighting(question)}. {signs} Relative influence is not shown: the "
            f"released {name} is too close to {number(constant)}, or a group too small, for the privacy "
            "noise, so dividing by it would mean nothing."
        )
    base = f"the {name}" if name == "gap" and constant == 0 else f"its distance from {number(constant)}"
    return (
        f"Relative influence is {change}, as a share of {base} and weighted by the share of rows that "
        f"remain; it is not the change itself. {signs}"
    )


def tells_gaps(table: Explanation) -> bool:
    """Whether the table says what the question's number would be without a predicate's rows."""
    return table.release.gap is not None and any(row.gap_without is not None for row in table.rows)


def gap_text(table: Explanation) -> str:
    """The question's number, in the digits that its neighbours in the table have."""
    gap = table.release.gap
    return "" if gap is None else number(gap, _gap_spread(table))


def _gap_spread(table: Explanation) -> float | None:
    """One width for the digits of a whole column: the middle one."""
    known = [row.gap_without for row in table.rows if row.gap_without is not None]
    widths = sorted(high - low for low, high in known if 0 < high - low < math.inf)
    return widths[len(widths) // 2] if widths else None


def gap_meaning(table: Explanation) -> str:
    """Said once above the column that everybody understands."""
    name = measured(table.question)
    return (
        f"The {name} is {gap_text(table)}. “{name.capitalize()} without them” is what it would be if a "
        "predicate's rows were left out."
    )


def gap_without_text(table: Explanation, row: ExplanationRow) -> str:
    """Where the question's number would be without these rows."""
    if row.gap_without is None or not all(map(math.isfinite, row.gap_without)):
        return "unknown"
    return interval(*row.gap_without, spread=_gap_spread(table))


def influence_text(row: ExplanationRow) -> str:
    """The interval of relative influence, or of influence where that is meaningless."""
    return interval(*row.influence) if row.relative_influence is None else percent(*row.relative_influence)


def is_unclear(row: ExplanationRow) -> bool:
    """Whether the row's interval contains zero, so that it may push either way."""
    return row.influence[0] <= 0.0 <= row.influence[1]


def row_sentence(table: Explanation, row: ExplanationRow) -> str:
    """One predicate in a sentence that claims no more than its definition."""
    question = table.question
    if tells_gaps(table):
        return _gap_sentence(table, row)
    if row.relative_influence is None:
        name, weighting = "influence", _weighting(question)
    else:
        name, weighting = "relative influence", "weighted by the share of rows that remain"
    narrows, widens = effects(question)
    effect = narrows if row.influence[0] > 0 else widens
    direction = (
        "Its interval contains zero, so it is unclear which way these rows push."
        if is_unclear(row)
        else f"Leaving these rows out {effect}."
    )
    return (
        f"{clean(row.predicate.label)}: {name} {influence_text(row)} (the {measured(question)}'s change when "
        f"its rows are left out, {weighting}); ranked {ranks(*row.rank)} of {table.family_size:,}. "
        f"{clean(direction)}"
    )


def _gap_sentence(table: Explanation, row: ExplanationRow) -> str:
    name, without = measured(table.question), gap_without_text(table, row)
    would = f"the {name} would be {without} instead of {gap_text(table)}"
    if without == "unknown":
        would = f"the {name} cannot be told, as one of the groups may have no rows left"
    unclear = " It is unclear which way these rows push." if is_unclear(row) else ""
    return (
        f"Without rows with {clean(row.predicate.label)}, {would}.{unclear} "
        f"Rank {ranks(*row.rank)} of {table.family_size:,} by influence. Not proof of cause."
    )


def _weighting(question: Question) -> str:
    """How an absolute influence is weighted (SPEC section 1: norm = m for AVG, m/(M + 1) otherwise)."""
    if question.answer.statement.query.aggregate.kind == "avg":
        return "times the number of rows that remain in the smallest group asked about"
    return "weighted by the share of rows that remain"


def _decimals(size: float, digits: int = 2) -> int:
    """Decimals that show so many significant digits; negative for tens, hundreds and so on."""
    return min(12, digits - 1 - math.floor(math.log10(abs(size))))


def _rounded(value: float, decimals: int) -> str:
    text = f"{round(value, decimals):,.{max(0, decimals)}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text
