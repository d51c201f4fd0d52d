"""Sentences that are true to the definitions (SPEC sections 1 and 5), and numbers people can read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpxplain.model.charge import Spend
from dpxplain.model.contrast import Verdict
from dpxplain.results.formats import Figures, as_given, clean, interval, level, number, percent, ranks, rho
from dpxplain.results.sentences import GENERAL_USE, NOISE_ONLY

if TYPE_CHECKING:  # slow to import, and here only for annotations
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers
    from dpxplain.results.base import QuestionLike
    from dpxplain.results.explanation import Explanation, ExplanationRow
    from dpxplain.results.preview import ExplanationPreview, Price, QueryPreview
    from dpxplain.results.quality import Quality

CAVEAT = "Privacy noise only, not sampling; influence is not proof of cause."
OF_WHAT = "What these numbers are of"
QUALITY_USE = "From now on every answer says how much of the data its declarations touch."
_FOLDED = 4  # conditions named under a row; the others are counted
CURATOR_ONLY = "NOT PRIVATE: for the curator only. Do not share or publish."


def cost(total: float, spends: Sequence[Spend], free: bool = False) -> str:
    """What a release cost and which mechanisms share it."""
    parts = " + ".join(f"{spend} {spend.rho:.4g}" for spend in spends)
    split = f" = {parts}" if len(spends) > 1 else f" for {spends[0]}" if spends else ""
    if free:
        return f"Already asked: free. The first time it cost {rho(total)}{split}"
    return f"Cost: {rho(total)}{split}"


def price(quote: Price) -> tuple[str, ...]:
    """What a preview says first: the cost, and what would be left."""
    if quote.free and not quote.rho:
        return ("Free: this answer was prepared before, so every why on it costs nothing.",)
    if quote.free:
        return ("Already asked: free. The stored release answers it.",)
    if not quote.affordable:
        return (
            cost(quote.rho, quote.spends),
            f"That is more than the {rho(quote.remaining)} left: it would be refused.",
        )
    remaining = f"{rho(quote.remaining)} is left now, {rho(quote.remaining_after)} afterwards."
    return (cost(quote.rho, quote.spends), remaining)


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "group"), counted(1_200, "entry")
    ('1 group', '1,200 entries')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def answer_figures(answer: Answer) -> Figures | None:
    """How an answer's values are written: counts whole, shares in percent, decimals in line."""
    from dpxplain.results.formula_answer import FormulaAnswer

    kind, intervals = answer.statement.query.aggregate.kind, [row.interval for row in answer.rows]
    is_whole = kind in ("count", "persons") and not isinstance(answer, FormulaAnswer)
    return Figures.of(intervals, whole=is_whole, percent=answer.in_percent)


def answer_title(answer: Answer | Answers) -> str:
    """The answer's number; a count under truncation is called what it is."""
    from dpxplain.results.sentences import rows_counted

    names = [rows_counted(query, answer.schema) for query in answer.statement.queries]
    return ": ".join([f"Answer {answer.id}", *sorted({name for name in names if name})])


def more(count: int, noun: str) -> str:
    """What is not shown, or nothing: … and 480 more groups."""
    return f"… and {counted(count, f'more {noun}')}" if count > 0 else ""


def each_interval(confidence: float, subject: str = "") -> str:
    """What the intervals of an answer promise, and of what: "clamped averages"."""
    of = f" of {subject}" if subject else ""
    return f"{level(confidence)} intervals{of}, each by itself. Privacy noise only, not sampling."


def here(question: QuestionLike) -> str:
    """The verdict on the data at hand; named so where another one stands beside it."""
    return f"In these data: {question.finding}" if question.population else question.finding


def in_general(question: QuestionLike) -> str:
    """The verdict on the population with its badge in words; empty where it was not asked."""
    if question.in_general is None:
        return question.general_finding
    return f"In general ({question.in_general.verdict.value}): {question.general_finding}"


def verdicts(question: QuestionLike) -> tuple[str, ...]:
    """What is said of a question before anything explains it: of these data, of its order, in general."""
    return tuple(clean(text) for text in (here(question), question.note, in_general(question)) if text)


def scope(question: QuestionLike) -> str:
    """What the intervals of a question cover."""
    return NOISE_ONLY if question.in_general is None else "“In these data” speaks of privacy noise only."


def general_notes(question: QuestionLike) -> tuple[str, ...]:
    """How the population is reasoned about, and where it must not be."""
    return (question.answer.general_basis, GENERAL_USE) if question.in_general is not None else ()


def population_notes(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Notes on the population for the values of an answer."""
    if not answers or not answers[0].population:
        return ()
    return (*dict.fromkeys(answer.general_basis for answer in answers), GENERAL_USE)


def price_summary(price: Price, *, once: bool = False) -> str:
    """The price in one sentence; `once` where it pays for every further why as well."""
    if price.free:
        return (
            "Free: this was asked before, and its stored answer is read again."
            if price.rho
            else "Free: this answer was prepared before."
        )
    cost, remaining = f"{price.rho:.6g}", f"{price.remaining:.6g}"
    if not price.affordable:
        return f"Costs {cost}, but only {remaining} is left."
    return f"Costs {cost} of {remaining} left{', once' if once else ''}."


def expected_margin(preview: QueryPreview, name: str = "") -> str:
    """How far off each group's value may be."""
    begin = f"{clean(name)}: expected" if name else "Expected"
    sure = f"({level(preview.confidence)} interval)"
    if preview.margin is not None:
        return f"{begin} ±{number(preview.margin)} per group {sure}."
    if not preview.margin_by_group_size:  # of a quantile
        return f"{begin} interval unknown before asking, as its width depends on the values."
    sizes = [f"±{number(m)} in a group of {size:,}" for size, m in preview.margin_by_group_size]
    return f"{begin} {', '.join(sizes)} rows {sure}."


def expected_count(margin: float, confidence: float) -> str:
    """How far off each count of rows may be."""
    return f"Expected ±{number(margin)} rows per count ({level(confidence)} interval)."


EPSILON = (
    "ρ adds up over requests; ε does not, and each is converted by itself: what was spent by how it was "
    "spent, the rest for whatever it will be spent on. If answers decide when to stop, what holds is the "
    "limit's ε."
)
DISCOVERY_DELTA = "Discovering values adds at most {:g} to this δ."


def discovered_delta(spent: float, total: float) -> str:
    """Said beside an ε at δ where values were discovered."""
    return (
        f"Discovering values has spent up to δ = {spent:g} as well. "
        f"Everything asked together is (ε, {total:g})-differentially private."
    )


def threshold(least: int, delta: float) -> str:
    """What it takes for a value to be discovered."""
    return (
        f"Found are values whose noisy number of units exceeds {least:,}; one that a single unit has is "
        f"found with a chance below δ = {delta:.3g}, which is spent beside ρ."
    )


def quality_limits(quality: Quality) -> tuple[str, ...]:
    """What the shares of a data set's quality do not tell."""
    shares = (
        "Shares are of all rows, not of single groups. How far values lie beyond their bounds is not told, "
        "so how far clamping moved a sum or an average cannot be bounded."
    )
    unit = clean(quality.schema.privacy.unit)
    if unit == "row":
        return (shares,)
    return (shares, f"How many rows the largest {unit} has is not told: one alone could have any number.")


def units_misfit(max_rows: int) -> str:
    return f"more than {max_rows:,} rows"


def rows_lost(quality: Quality) -> str:
    """The rows that max_rows leaves out."""
    return lost(*quality.rows_lost)


def lost(low: float, high: float) -> str:
    return f"{interval(low, high)} lost" if math.isfinite(high) else f"at least {number(low)} lost"


def expected_influence(preview: ExplanationPreview) -> str:
    """How far off the table's figures may be."""
    name = preview.measured
    if preview.relative_margin:
        margin = f"±{number(preview.relative_margin * 100)}%"
        meaning = f"the {name}'s relative change, weighted by the share of rows that remain"
        text = f"relative influence ({meaning}) to about {margin}"
    else:
        text = f"influence (the weighted effect) to about ±{number(preview.influence_margin)}"
    if preview.gap_margin:
        text += f", and the {name} without each condition to about ±{preview.unit.number(preview.gap_margin)}"
    return f"Expected: {text}."


def table_cost(table: Explanation) -> str:
    """What an explanation cost; one that is read off prepared cells is free, and so are all that follow."""
    if table.mechanism != "marginals":
        return cost(table.rho, table.spends, table.free)
    if table.free:
        return f"Free: read off what was prepared once for {rho(table.rho)}, like every why on this answer."
    return f"{cost(table.rho, table.spends)}. Every further why on this answer is free."


def mechanism(table: Explanation) -> str:
    """Which mechanism, why that one, and what its intervals promise."""
    from dpxplain.privacy.mechanisms.rank_bounds import LOWER_SHARE

    promise = f"{level(table.confidence)} intervals"
    if table.mechanism == "marginals":
        promise += f", which hold for all {table.family_size:,} conditions at once"
    eta = table.plan.lower_share
    lower = "" if eta in (None, LOWER_SHARE) else f" Of the ρ for ranks, {eta:.4g} is for their lower bounds."
    return f"Mechanism: {table.mechanism} ({table.plan.reason}). {promise}.{lower}"


def effects(question: QuestionLike) -> tuple[str, str]:
    """What leaving the rows out does to the question's number, for influence above and below zero."""
    if question.measured != "gap":
        return f"lowers the {question.measured}", f"raises the {question.measured}"
    if question.verdict is Verdict.REAL and question.contrast.at_least == 0:
        return "narrows the gap", "widens the gap"
    # Without a clear gap in the direction asked, "narrower" would say the wrong thing.
    first, second = (question.answer.groups.label(index) for index in question.contrast.groups)
    return f"lowers {first} against {second}", f"raises {first} against {second}"


def short_effects(question: QuestionLike) -> tuple[str, str]:
    """Effects without the groups' names, where space is short."""
    name = question.measured
    if name == "gap" and question.verdict is Verdict.REAL and question.contrast.at_least == 0:
        return "narrows the gap", "widens the gap"
    return f"lowers the {name}", f"raises the {name}"


def influence_meaning(table: Explanation) -> str:
    """Said once above the table: what the numbers are, and what they are not."""
    question = table.question
    name, constant = question.measured, question.contrast.at_least
    narrows, widens = effects(question)
    change = f"how much the {name} changes when these rows are left out"
    signs = f"Above zero, leaving them out {narrows}; below zero, it {widens}."
    if question.ratio is not None:
        return f"{_ratio_meaning(table)} {signs}"
    if not table.relative:
        return (
            f"Influence is {change}, {_weighting(question)}. {signs} Relative influence is not shown: the "
            f"released {name} is too close to {as_given(constant)}, or a group too small, for the privacy "
            "noise, so dividing by it would mean nothing."
        )
    base = f"the {name}" if name == "gap" and constant == 0 else f"its distance from {as_given(constant)}"
    return (
        f"Relative influence is {change}, as a share of {base} and weighted by the share of rows that "
        f"remain; it is not the change itself. {signs}"
    )


def _ratio_meaning(table: Explanation) -> str:
    question = table.question
    released, first = number(question.estimate), question.labels[0]
    other = (
        f"{released} of the total"
        if question.measured == "share"
        else f"{released} times {question.labels[1]}"
    )
    lift = f"how far these rows lift {first} above {other}"
    if not table.relative:
        return f"Influence is {lift}, {_weighting(question)}."
    return (
        f"Relative influence is {lift}, as a share of {first} and weighted by the share of rows that remain."
    )


def tells_gaps(table: Explanation) -> bool:
    """Whether the table says what the question's number would be without a predicate's rows."""
    return table.release.gap is not None and any(row.gap_without is not None for row in table.rows)


def gap_text(table: Explanation) -> str:
    """The question's number, in the digits that its neighbours in the table have."""
    gap = table.release.gap
    return "" if gap is None else table.question.unit.number(gap, _gap_spread(table))


def _gap_spread(table: Explanation) -> float | None:
    """One width for the digits of a whole column: the middle one."""
    known_gaps = [row.gap_without for row in table.rows if row.gap_without is not None]
    widths = sorted(high - low for low, high in known_gaps if 0 < high - low < math.inf)
    return widths[len(widths) // 2] if widths else None


def gap_meaning(table: Explanation) -> str:
    """Said once above the column that everybody understands."""
    name = table.question.measured
    return (
        f"The {name} is {gap_text(table)}. “{name.capitalize()} without them” is what it would be if a "
        "condition's rows were left out."
    )


def gap_without_text(table: Explanation, row: ExplanationRow) -> str:
    """Where the question's number would be without these rows."""
    if row.gap_without is None or not all(map(math.isfinite, row.gap_without)):
        return "unknown"
    return table.question.unit.interval(*row.gap_without, spread=_gap_spread(table))


def influence_text(row: ExplanationRow) -> str:
    """The interval of relative influence, or of influence where that is meaningless."""
    return interval(*row.influence) if row.relative_influence is None else percent(*row.relative_influence)


def is_unclear(row: ExplanationRow) -> bool:
    """Whether the row's interval contains zero, so that it may push either way."""
    return row.influence[0] <= 0.0 <= row.influence[1]


def also(row: ExplanationRow) -> str:
    """What is folded under a row, and how nearly it is the same; empty if nothing is."""
    if not row.folded:
        return ""
    names = "; ".join(clean(condition.predicate.label) for condition in row.folded[:_FOLDED])
    further = len(row.folded) - _FOLDED
    listed_names = f"{names}; and {further:,} more" if further > 0 else names
    shares = [condition.same_rows for condition in row.folded if condition.same_rows is not None]
    if not shares:
        return f"Also: {listed_names} (one implies the other)."
    common_share = percent(min(low for low, _ in shares), max(high for _, high in shares))
    return f"Also: {listed_names} ({common_share} the same rows)."


def folded_notes(table: Explanation) -> tuple[str, ...]:
    """What the rows of the table stand for as well, a line for each that stands for more."""
    return tuple(f"{clean(row.predicate.label)}. {also(row)}" for row in table.rows if row.folded)


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
        f"{clean(row.predicate.label)}: {name} {influence_text(row)} (the {question.measured}'s change when "
        f"its rows are left out, {weighting}); ranked {ranks(*row.rank)} of {table.family_size:,}. "
        f"{clean(direction)} {also(row)}"
    ).rstrip()


def _gap_sentence(table: Explanation, row: ExplanationRow) -> str:
    name, without = table.question.measured, gap_without_text(table, row)
    would = f"the {name} would be {without} instead of {gap_text(table)}"
    if without == "unknown":
        would = f"the {name} cannot be told, as one of the groups may have no rows left"
    unclear = " It is unclear which way these rows push." if is_unclear(row) else ""
    return (
        f"Without rows with {clean(row.predicate.label)}, {would}.{unclear} "
        f"Rank {ranks(*row.rank)} of {table.family_size:,} by influence. Not proof of cause. {also(row)}"
    ).rstrip()


def _weighting(question: QuestionLike) -> str:
    """How an absolute influence is weighted (SPEC section 1: norm = m for AVG, m/(M + 1) otherwise)."""
    if question.answer.statement.query.aggregate.kind == "avg":
        return "times the number of rows that remain in the smallest group asked about"
    return "weighted by the share of rows that remain"
