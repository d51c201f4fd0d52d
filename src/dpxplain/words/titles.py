"""The question behind an answer as one sentence: what is measured, by which groups, for which rows.

It follows from the statement and the declared labels alone, so it is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dpxplain.model.charge import Entry
from dpxplain.model.groups import ALL_ROWS, Groups
from dpxplain.model.query import (
    Aggregate,
    And,
    Comparison,
    Filter,
    IsNull,
    Literal_,
    Membership,
    Not,
    Operator,
    Or,
    Output,
    Quantile,
    Statement,
)
from dpxplain.model.schema import Schema, label
from dpxplain.words.numbers import clean, level, rho, uncapitalised

_LISTED = 6  # values of a condition that are named
_VERBS: dict[Operator, str] = {
    "=": "is",
    "<>": "is not",
    "<": "is below",
    "<=": "is at most",
    ">": "is above",
    ">=": "is at least",
}
_MEASURES = {
    "sum": "Sum of",
    "avg": "Average of",
    "var_samp": "Variance of",
    "var_pop": "Variance (of all rows) of",
    "stddev_samp": "Standard deviation of",
    "stddev_pop": "Standard deviation (of all rows) of",
}


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
    return _sentence(_listed(words), statement, schema)


def value_title(part: Statement, whole: Statement, schema: Schema) -> str:
    """The question about one value of a statement; `part` has that value alone."""
    return _sentence(value_words(part.presentation.values[0], part, schema), whole, schema)


def caption(schema: Schema, entry: Entry, confidence: float) -> str:
    """The caption of a result that leaves the page: the data, the cost, the date and the confidence."""
    return (
        f"{clean(schema.table.name)} · number {entry.id} · cost {rho(entry.rho)} · {entry.time:%Y-%m-%d} · "
        f"{level(confidence)} intervals, for privacy noise only"
    )


def question_filter(question: str, statement: Statement, schema: Schema) -> str:
    """The question with the filter of its answer, because the groups are compared within these rows."""
    where = statement.query.where
    return (
        clean(question)
        if where is None
        else f"{clean(question)} Only where {condition_words(where, schema)}."
    )


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
        return f"Number of rows{_cut(schema)}"
    name = column_words(aggregate.column, schema)
    if aggregate.kind == "count":
        return f"Number of rows with {name}{_cut(schema)}"
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


def _cut(schema: Schema) -> str:
    """How many rows of each privacy unit count, as part of a name; empty where every row does."""
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


def group_name(groups: Groups, index: int, schema: Schema) -> str:
    """A group's name in a sentence, with the declared labels of its values."""
    columns = [schema.column(name) for name in groups.columns]
    texts = [
        column.value_label(value) or label(value)
        for column, value in zip(columns, groups.key(index), strict=True)
    ]
    return clean(", ".join(texts)) or ALL_ROWS


def is_share(aggregate: Aggregate, schema: Schema) -> bool:
    """Whether it averages a column with bounds 0 and 1 and either step 1 or a label that begins "share"."""
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
    """Whether its values are shares, written in percent: by `is_share`, or because of `unit = "share"`."""
    if is_share(aggregate, schema):
        return True
    name = aggregate.column if aggregate.kind in ("avg", "quantile") else None
    return name is not None and schema.column(name).unit == "share"


def column_words(name: str, schema: Schema) -> str:
    """A column's label with its unit, or else its name."""
    return clean(schema.column(name).heading(name))


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


def _sentence(values: str, statement: Statement, schema: Schema) -> str:
    query = statement.query
    groups = _listed([_subject(name, schema) for name in query.group_by])
    if ", capped at " in values:
        values += ","
    of = f" by {groups}" if groups else "" if query.where is not None else " of all rows"
    where = "" if query.where is None else f", only where {condition_words(query.where, schema)}"
    having = f", shown where {clean(statement.having_text)}" if statement.having_text else ""
    return f"{values}{of}{where}{having}"


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


def _any_of(column: str, values: Sequence[Literal_], schema: Schema) -> str:
    listed = [_value(column, value, schema) for value in values[:_LISTED]]
    more = len(values) - len(listed)
    if more:
        return f"one of {', '.join(listed)} and {more:,} more"
    return " or ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def _value(name: str, value: Literal_, schema: Schema) -> str:
    column = schema.column(name)
    if isinstance(value, float):
        return f"{value:,.15g}"
    return clean(label(value) if column.values is None else column.text(value))


def _subject(name: str, schema: Schema) -> str:
    """A column within a sentence."""
    return clean(uncapitalised(schema.column(name).label) or name)


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
