"""Aggregates, groups, filters, conditions, questions and explanations in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import combinations, groupby
from typing import TYPE_CHECKING

from dpxplain.model.charge import Entry, EntryId
from dpxplain.model.column import Bin, edge_text, label
from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.expression import ComparisonOperator, Value
from dpxplain.model.groups import ALL_ROWS, Groups
from dpxplain.model.query import (
    Aggregate,
    And,
    Comparison,
    Condition,
    Filter,
    FilterPredicate,
    IsNull,
    Membership,
    Not,
    Or,
    Output,
    Predicate,
    Quantile,
    Statement,
)
from dpxplain.model.schema import Schema
from dpxplain.privacy.mechanisms.ranking import LOWER_SHARE
from dpxplain.words.findings import Effect, Explained, Interval, share_text, these_rows
from dpxplain.words.numbers import (
    PLAIN,
    Unit,
    as_given,
    clean,
    interval,
    level,
    listed,
    percent,
    rho,
    uncapitalised,
    whole_percent,
)

if TYPE_CHECKING:
    from dpxplain.phases.assess import Assessment

# -- Titles ------------------------------------------------------------------------------------------------
#
# The question behind an answer as one sentence: what is measured, by which groups, for which rows. It
# follows from the statement and the declared labels alone, so it is public.


def answer_title(statement: Statement, schema: Schema) -> str:
    """The whole question.

    >>> from dpxplain.sql.parse import parse
    >>> people = Schema.load({"table": {"name": "people"}, "privacy": {"rho": 1}, "columns": {
    ...     "sex": {"values": ["F", "M"], "value_labels": {"F": "women"}}, "age": {"bounds": [0, 99]},
    ...     "pay": {"bounds": [0, 9], "label": "monthly pay", "unit": "dollars"}}})
    >>> sql = "SELECT sex, AVG(pay) FROM people WHERE age > 20 AND age <= 60 GROUP BY sex"
    >>> answer_title(parse(sql, people), people)
    'Average monthly pay (dollars), capped at 9, by sex, only where age is above 20 and at most 60'
    """
    words = [value_words(output, statement, schema) for output in statement.presentation.values]
    return _sentence(listed(words), statement, schema)


def value_title(part: Statement, whole: Statement, schema: Schema) -> str:
    """The question about one value of a statement; `part` has that value alone."""
    return _sentence(value_words(part.presentation.values[0], part, schema), whole, schema)


def question_filter(question: str, statement: Statement, schema: Schema) -> str:
    """The question with the filter of its answer, because the groups are compared within these rows."""
    where = statement.query.where
    return (
        clean(question)
        if where is None
        else f"{clean(question)} Only where {condition_words(where, schema)}."
    )


def _sentence(values: str, statement: Statement, schema: Schema) -> str:
    query = statement.query
    groups = listed([_subject(name, schema) for name in query.group_by])
    if ", capped at " in values:
        values += ","
    of = f" by {groups}" if groups else "" if query.where is not None else " of all rows"
    where = "" if query.where is None else f", only where {condition_words(query.where, schema)}"
    having = f", shown where {clean(statement.having_text)}" if statement.having_text else ""
    return f"{values}{of}{where}{having}"


def caption(schema: Schema, entry: Entry, confidence: float, source: str = "") -> str:
    """The caption of a result that leaves the page: the data, the cost, the date and the confidence.

    `source` is what it was read off, if that is more than the entry (`source_text`).
    """
    return (
        f"{clean(schema.table.name)} · {source or f'number {entry.id}'} · cost {rho(entry.rho)} · "
        f"{entry.time:%Y-%m-%d} · {level(confidence)} intervals, for privacy noise only"
    )


def source_text(answer: Entry, releases: Sequence[EntryId]) -> str:
    """The numbers of an answer and of the measurements that an explanation of it was read off.

    With these numbers, the same explanation can be shown again.
    """
    measurements = f"measurement{'s' if len(releases) > 1 else ''} {listed(list(map(str, releases)))}"
    return f"answer {answer.address}, {measurements}"


# -- Values and groups -------------------------------------------------------------------------------------

_MEASURES = {
    "sum": "Sum of",
    "avg": "Average of",
    "var_samp": "Variance of",
    "var_pop": "Variance (of all rows) of",
    "stddev_samp": "Standard deviation of",
    "stddev_pop": "Standard deviation (of all rows) of",
}


def value_words(output: Output, statement: Statement, schema: Schema) -> str:
    """The name of a value: the one that the query gives it, or else words for what it measures."""
    if output.formula is not None:
        return clean(output.name)
    aggregate = statement.queries[output.aggregate].aggregate
    return clean(output.name) if output.name != str(aggregate) else aggregate_words(aggregate, schema)


def aggregate_words(aggregate: Aggregate, schema: Schema) -> str:
    """
    >>> income = {"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": {
    ...     "rich": {"bounds": [0, 1], "step": 1, "label": "high income"}}}
    >>> aggregate_words(Aggregate("avg", "rich"), Schema.load(income))
    'Share with high income'
    """
    if aggregate.kind == "persons":
        return f"Number of different {clean(schema.privacy.unit)}s"
    if aggregate.column is None:
        return f"Number of rows{_row_limit(schema)}"
    name = column_words(aggregate.column, schema)
    if aggregate.kind == "count":
        return f"Number of rows with {name}{_row_limit(schema)}"
    if is_share(aggregate, schema):
        return _share_words(aggregate.column, schema)
    if aggregate.kind == "sum" and _is_zero_one(aggregate.column, schema):
        return f"Number{_share_words(aggregate.column, schema)[len('Share') :]}"
    if isinstance(aggregate, Quantile):
        which = "Median" if aggregate.level == 0.5 else f"{level(aggregate.level)} quantile"
        return f"{which} of {name}{capped(aggregate, schema)}"
    words = _MEASURES[aggregate.kind]
    short = words.removesuffix(" of") if aggregate.kind == "avg" else words
    return f"{short} {uncapitalised(name)}{capped(aggregate, schema)}"


def _row_limit(schema: Schema) -> str:
    """The limit of rows per privacy unit, as part of a name; empty if every row counts."""
    privacy = schema.privacy
    return "" if privacy.unit == "row" else f" (at most {privacy.max_rows:,} per {clean(privacy.unit)})"


def _share_words(name: str, schema: Schema) -> str:
    text = clean(schema.column(name).label)
    if not text:
        return f"Share with {clean(name)} = 1"
    return text if text.lower().startswith("share ") else f"Share with {text}"


def capped(aggregate: Aggregate, schema: Schema) -> str:
    """The caps on values, as part of a name; empty for counts, shares, 0/1 columns and expressions.

    >>> pay = {"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": {
    ...     "pay": {"bounds": [0, 200_000]}, "delay": {"bounds": [-90, 300]}}}
    >>> capped(Aggregate("avg", "pay"), Schema.load(pay)), capped(Aggregate("sum", "delay"), Schema.load(pay))
    (', capped at 200,000', ', capped at -90 and 300')
    """
    if aggregate.column is None or aggregate.kind in ("count", "persons") or is_share(aggregate, schema):
        return ""
    column = schema.column(aggregate.column)
    if column.expression is not None or column.bounds is None or not column.is_summable:
        return ""
    if _is_zero_one(aggregate.column, schema):
        return ""
    low, high = (f"{float(end):,.15g}" for end in column.bounds)
    return f", capped at {high}" if low == "0" else f", capped at {low} and {high}"


def is_share(aggregate: Aggregate, schema: Schema) -> bool:
    """Whether the aggregate averages a column with bounds 0 and 1, and step 1 or a label "share …"."""
    if aggregate.kind != "avg" or aggregate.column is None:
        return False
    column = schema.column(aggregate.column)
    says_so = column.step == 1 or column.label.lower().startswith("share")
    return column.bounds == (0, 1) and says_so


def _is_zero_one(name: str, schema: Schema) -> bool:
    """Whether a column has zeros and ones only."""
    column = schema.column(name)
    return column.bounds == (0, 1) and column.step == 1


def in_percent(aggregate: Aggregate, schema: Schema) -> bool:
    """Whether the values are written in percent: by `is_share`, or because of `unit = "share"`."""
    if is_share(aggregate, schema):
        return True
    name = aggregate.column if aggregate.kind in ("avg", "quantile") else None
    return name is not None and schema.column(name).unit == "share"


def column_words(name: str, schema: Schema) -> str:
    """A column's label with its unit, or else its name."""
    return clean(schema.column(name).heading(name))


def group_name(groups: Groups, index: int, schema: Schema) -> str:
    """A group's name in a sentence, with the declared labels of its values."""
    columns = [schema.column(name) for name in groups.columns]
    texts = [
        column.value_label(value) or label(value)
        for column, value in zip(columns, groups.key(index), strict=True)
    ]
    return clean(", ".join(texts)) or ALL_ROWS


# -- Filters -----------------------------------------------------------------------------------------------

_LISTED = 6  # values of a condition that are named
_VERBS: dict[ComparisonOperator, str] = {
    "=": "is",
    "<>": "is not",
    "<": "is below",
    "<=": "is at most",
    ">": "is above",
    ">=": "is at least",
}


def condition_words(node: Filter, schema: Schema) -> str:
    """A filter as a clause: sex is F, and age is above 20."""
    match node:
        case Comparison():
            return f"{_subject(node.column, schema)} {_comparison(node, schema)}"
        case Membership(column, values):
            return f"{_subject(column, schema)} is {_any_of(column, values, schema)}"
        case IsNull(column):
            return f"{_subject(column, schema)} is NULL"
        case Not(IsNull(column)):
            return f"{_subject(column, schema)} is not NULL"
        case Not(Membership(column, values)):
            return f"{_subject(column, schema)} is not {_any_of(column, values, schema)}"
        case Not(part):
            return f"not ({condition_words(part, schema)})"
        case And(parts):
            return " and ".join(_conjuncts(parts, schema))
        case Or(parts):
            return " or ".join(condition_words(part, schema) for part in parts)


def _conjuncts(parts: Sequence[Filter], schema: Schema) -> list[str]:
    """The clauses. Neighbouring comparisons of one column are joined: age is above 20 and at most 60."""
    clauses: list[str] = []
    for column, run in groupby(parts, lambda part: part.column if isinstance(part, Comparison) else None):
        if column is None:
            clauses += [
                f"({condition_words(part, schema)})"
                if isinstance(part, Or)
                else condition_words(part, schema)
                for part in run
            ]
        else:
            first, *further = [_comparison(part, schema) for part in run if isinstance(part, Comparison)]
            clauses += [
                f"{_subject(column, schema)} {first}",
                *(text.removeprefix("is ") for text in further),
            ]
    return clauses


def _comparison(node: Comparison, schema: Schema) -> str:
    return f"{_VERBS[node.operator]} {_value(node.column, node.value, schema)}"


def _any_of(column: str, values: Sequence[Value], schema: Schema) -> str:
    texts = [_value(column, value, schema) for value in values[:_LISTED]]
    more = len(values) - len(texts)
    return f"one of {', '.join(texts)} and {more:,} more" if more else listed(texts, "or")


def _value(name: str, value: Value, schema: Schema) -> str:
    column = schema.column(name)
    if isinstance(value, float):
        return f"{value:,.15g}"
    return clean(label(value) if column.values is None else column.text(value))


def _subject(name: str, schema: Schema) -> str:
    """A column within a sentence."""
    return clean(uncapitalised(schema.column(name).label) or name)


# -- Conditions --------------------------------------------------------------------------------------------

AnyPredicate = Predicate | FilterPredicate


def condition_label(predicate: AnyPredicate, schema: Schema) -> str:
    """The condition in a table: with the declared labels of its columns and values.

    >>> flights = Schema.load({"table": {"name": "flights"}, "privacy": {"rho": 1}, "columns": {
    ...     "dest": {"values": ["JFK"], "label": "Destination", "value_labels": {"JFK": "Kennedy"}},
    ...     "hour": {"edges": [0, 6, 12]}}})
    >>> early = Predicate((Condition("dest", "JFK"), Condition("hour", Bin(0, 6))))
    >>> condition_label(early, flights), condition_phrase(early, flights)
    ('Destination = JFK (Kennedy) and hour in (0, 6]', 'destination “Kennedy” and hour 0–6')
    """
    if isinstance(predicate, FilterPredicate):
        return clean(predicate.label)
    return clean(" and ".join(_table_text(condition, schema) for condition in predicate.conditions))


def condition_phrase(predicate: AnyPredicate, schema: Schema) -> str:
    """The condition within a sentence, as a noun."""
    if isinstance(predicate, FilterPredicate):
        return clean(f"rows where {condition_words(predicate.condition, schema)}")
    return clean(" and ".join(_sentence_text(condition, schema) for condition in predicate.conditions))


def _table_text(condition: Condition, schema: Schema) -> str:
    column = schema.column(condition.column)
    name = column.label or condition.column
    if isinstance(condition.value, Bin):
        return f"{name} in {column.text(condition.value)}"
    return f"{name} = {column.text(condition.value)}"


def _sentence_text(condition: Condition, schema: Schema) -> str:
    column, value = schema.column(condition.column), condition.value
    name = uncapitalised(column.label) if column.label else condition.column.replace("_", " ")
    meaning = column.value_label(value)
    if meaning:
        return f"{name} “{meaning}”"
    if value is None:
        return f"{name} missing"
    if isinstance(value, Bin):
        dash = " to " if isinstance(value.low, date) else "–"
        return f"{name} {edge_text(value.low)}{dash}{edge_text(value.high)}"
    return f"{name} “{label(value)}”"


# -- Notes -------------------------------------------------------------------------------------------------

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


# -- Questions ---------------------------------------------------------------------------------------------


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


# -- Explanations ------------------------------------------------------------------------------------------
#
# Each row's effect and sentence, and the notes below a table.

UNMATCHED = "A row whose value is not in a column's list matches no condition on that column."
LOST_IN_NOISE = "{count}, too noisy to tell"
AS_ASKED = "{count}, for the difference as it was asked"
CUSTOM_INTERVALS = (
    "{} intervals. Each says how many rows would have to change to make the influence or the rank different."
)
MAY_MISS = "A condition that matters slightly more may be missing from the table."
STORY_ORDER = "Which condition comes first at each step is an estimate."
TABLE_DIFFERS = (
    "The table begins with {}. A story is stricter: the effect must be certain, and rows of each group must "
    "remain."
)
STORY_ADVICE = "A larger ρ, or fewer columns with attributes=[…], may show more."
ORDER_PRICE = "The order would be clear for about {rho}."
_FOLDED = 4  # conditions named under a row; the others are counted


def effect_text(effect: Effect) -> str:
    """A condition's effect in a few words: shrinks, widens or unclear, and by how much.

    >>> effect_text(Effect("x", "shrinks", (1, 2), share=(0.09, 0.11)))
    'shrinks by 9–11%'
    >>> effect_text(Effect("x", "widens", (-2, -1), share=(-0.2, -0.1)))
    'widens by 10–20%'
    >>> effect_text(Effect("x", "unclear", (-1, 2))), effect_text(Effect("x", "shrinks", (1, 2)))
    ('unclear', 'shrinks')
    """
    if effect.share is None or effect.effect == "unclear":
        return effect.effect
    low, high = effect.share
    if effect.effect == "shrinks":
        return f"shrinks by {share_text(effect.share)}"
    least, most = (f"{whole_percent(-end):,}" for end in (high, low))
    return f"widens by {least}%" if least == most else f"widens by {least}–{most}%"


def row_sentence(table: Explained, effect: Effect) -> str:
    """One condition in a sentence that claims no more than its interval."""
    asked, rows = table.asked, these_rows(effect)
    if effect.without is None or table.gap is None:
        if effect.effect == "unclear":
            return f"Leaving out {rows} has no clear effect on the {asked.measured}."
        return f"Leaving out {rows} {effect.effect} the {asked.measured}."
    if not all(map(math.isfinite, effect.without)):
        return f"Without {rows}, one of the groups may be empty, so the {asked.measured} is unknown."
    gap = asked.unit.bare(table.gap, asked.interval[1] - asked.interval[0])
    without = asked.unit.span(*effect.without, asked.constant)
    change = f"Without {rows}, the {asked.measured} of {gap} would be {without}"
    return f"{change}. That is no clear change." if effect.effect == "unclear" else f"{change}."


def folded_note(names: Sequence[str], shares: Sequence[Interval]) -> str:
    """A note on conditions that nearly repeat a row's; `shares` are intervals of the common rows.

    >>> folded_note(["a = 1", "b = 2"], [(0.9, 0.95)])
    'Also: a = 1; b = 2 (90.0% to 95.0% the same rows).'
    """
    further = len(names) - _FOLDED
    conditions = "; ".join(names[:_FOLDED]) + (f"; and {further:,} more" if further > 0 else "")
    if not shares:
        return f"Also: {conditions} (one implies the other)."
    common = percent(min(low for low, _ in shares), max(high for _, high in shares))
    return f"Also: {conditions} ({common} the same rows)."


def short_effects(measured: str, verdict: Verdict) -> tuple[str, str]:
    """The effects of leaving rows out: for an influence above zero, and for one below."""
    if measured == "gap" and verdict is Verdict.REAL:
        return "shrinks the gap", "widens the gap"
    return f"lowers the {measured}", f"raises the {measured}"


def relative_text(influence: Interval, relative: Interval | None) -> str:
    """The interval of relative influence, or of influence if there is no relative one."""
    return interval(*influence) if relative is None else percent(*relative)


def influence_note(kind: str, measured: str, *, is_relative: bool) -> str:
    """The meaning of influence, for tables that show it."""
    scaled = "scaled down when few rows would remain"
    if is_relative:
        return (
            f"Relative influence: the share of the {measured} that disappears without these rows, {scaled}."
        )
    if kind == "avg":
        scaled = "times the rows that remain in the smallest group"
    return f"Influence: how much of the {measured} disappears without these rows, {scaled}."


def promise(confidence: float, family_size: int, *, together: bool) -> str:
    """The promise of a table's intervals."""
    intervals = f"All {family_size:,} intervals hold together" if together else "Each interval holds"
    return f"{intervals} with {level(confidence)} confidence. Intervals cover privacy noise only."


def mechanism_note(mechanism: str, reason: str, lower_share: float | None) -> str:
    """The mechanism of a table and why it was used; also `lower_share` if it is not the default."""
    note = f"Mechanism: {mechanism} ({reason})."
    if lower_share in (None, LOWER_SHARE):
        return note
    return f"{note} {100 * lower_share:.4g}% of the ρ for ranks is spent on their lower bounds."


# -- Advice ------------------------------------------------------------------------------------------------
#
# What to try if the order or the effects are not clear.

_MOST_TIMES = 1_000.0  # times the budget spent; beyond that no price is named
_MANY_VALUES = 20  # of a column: with so many, noise alone can fill a table with them


def enough_rho(spent: float, intervals: Sequence[Interval]) -> float | None:
    """The budget at which no two intervals would overlap, if the estimates are right.

    None if none overlap now, or if it is too large. Noise shrinks with the square root of the budget.

    >>> enough_rho(0.1, [(4.0, 6.0), (3.0, 5.0)])
    0.4
    """
    needed = 1.0
    for (low, high), (below, above) in combinations(intervals, 2):
        distance = abs((low + high) - (below + above)) / 2
        reach = (high - low + above - below) / 2
        if reach > distance:
            needed = max(needed, (reach / distance) ** 2 if distance > 0 else math.inf)
    return _rounded_up(spent * needed) if 1 < needed <= _MOST_TIMES else None


def clear_rho(spent: float, intervals: Iterable[Interval]) -> float | None:
    """The budget at which the strongest interval would exclude zero, if its estimate is right.

    >>> clear_rho(0.1, [(-1.0, 3.0), (-2.0, 2.5)]), clear_rho(0.1, [(-1.0, 1.0)])
    (0.4, None)
    """
    needed = math.inf
    for low, high in intervals:
        middle, reach = abs(low + high) / 2, (high - low) / 2
        if 0 < middle <= reach < math.inf:
            needed = min(needed, (reach / middle) ** 2)
    return _rounded_up(spent * needed) if needed <= _MOST_TIMES else None


def _rounded_up(value: float) -> float:
    """The price rounded up to one digit, so that it is not too low."""
    power: float = 10.0 ** -math.floor(math.log10(value))
    return math.ceil(round(value * power, 9)) / power


@dataclass(frozen=True)
class Circumstances:
    """The facts that `advice` needs: the budget spent and left, and what the table was chosen from."""

    spent: float
    remaining: float | None  # None if it is not known
    conditions: int  # in the family
    columns: tuple[str, ...]  # the first column of each row's condition
    values: dict[str, int]  # how many values each column declares
    conjuncts: int = 1


@dataclass(frozen=True)
class Advice:
    """What to try if nothing is clear: at most two sentences, and the change that they propose."""

    text: str = ""
    exclude: str | None = None  # a column to leave out
    conjuncts: int | None = None  # how many columns a condition should combine
    rho: float | None = None  # what to spend


def advice(intervals: Sequence[Interval], known: Circumstances) -> Advice:
    """What to try if nothing is clear, with no price above the remaining budget."""
    crowd = max(set(known.columns), key=known.columns.count, default="")
    crowded = known.columns.count(crowd) * 2 > len(known.columns)
    if crowded and len(known.values) > 1 and known.values.get(crowd, 0) >= _MANY_VALUES:
        places = f"{known.columns.count(crowd)} of the {len(known.columns)} places in the table"
        text = (
            f"Try again without the column {crowd} (exclude=[{crowd!r}]): by chance alone, its "
            f"{known.values[crowd]:,} values took {places}."
        )
        return Advice(text, exclude=crowd)
    if known.conjuncts > 1:
        text = (
            f"Single conditions (conjuncts=1) are easier to tell apart than these {known.conditions:,} "
            "combinations."
        )
        return Advice(text, conjuncts=1)
    enough = clear_rho(known.spent, intervals)
    if known.remaining is None:
        return Advice()
    if enough is not None and enough <= known.remaining:
        text = (
            f"Spending about {rho(enough)} of the privacy budget ({rho(known.remaining)} is left) would "
            "probably make one condition clear."
        )
        return Advice(text, rho=enough)
    too_small = "The remaining budget is probably too small to make any condition clear."
    return Advice(f"{too_small} Try fewer columns: attributes=[…]." if len(known.values) > 2 else too_small)
