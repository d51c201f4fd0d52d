"""A result in plain words: the declarations that shaped its numbers, the question and its verdict.

Everything here follows from the schema, the query and what was released, so it is public and costs nothing.
The verdict is true to the definitions (SPEC section 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from dpxplain.model.column import Column
from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.joined_schema import parts
from dpxplain.model.query import Aggregate, And, Filter, IsNull, Not, Or, Query, filter_columns
from dpxplain.model.schema import Schema, label
from dpxplain.results.formats import PLAIN, Unit, as_given, clean, level, number, percent

if TYPE_CHECKING:
    from dpxplain.phases.assess_question import Assessment
    from dpxplain.privacy.intervals import Interval
    from dpxplain.results.base import QualityLike

_LISTED = 5  # values of a derived column that are named

UNMATCHED = "A row with an undeclared value in a column matches no condition on that column."
"""Said of everything that compares conditions."""


def shaped_by(
    queries: Sequence[Query], schema: Schema, quality: QualityLike | None = None
) -> tuple[str, ...]:
    """One sentence for each declaration that changes what is counted or added up in these queries.

    With `quality`, which somebody bought, also how much of the data each of them touches.

    >>> from dpxplain.model.query import Aggregate
    >>> flights = Schema.load({"table": {"name": "flights"},
    ...     "privacy": {"rho": 1, "unit": "tailnum", "max_rows": 50},
    ...     "columns": {"origin": {"values": ["EWR", "JFK"]}, "dep_delay": {"bounds": [-90, 300]}}})
    >>> for sentence in shaped_by([Query("flights", ("origin",), Aggregate("avg", "dep_delay"))], flights):
    ...     print(sentence)
    At most 50 rows of each tailnum are counted; its other rows, and rows without one, are left out.
    Values of dep_delay below -90 or above 300 count as -90 or 300.
    Rows whose dep_delay is NULL or NaN are left out.
    Rows with an undeclared origin are left out, NULL included.
    """
    parts = (_kept_rows, _derived, _measured, _grouped, _filtered)
    sentences = (text for part in parts for query in queries for text in part(query, schema, quality))
    distinct = tuple(dict.fromkeys(sentences))
    if quality is None or not distinct:
        return distinct
    return (
        *distinct,
        f"Shares are {level(quality.confidence)} intervals, each by itself, from quality {quality.id}.",
    )


def rows_counted(query: Query, schema: Schema) -> str:
    """What a count under truncation is a count of; "" where every row counts."""
    privacy = schema.privacy
    if query.aggregate.kind != "count" or privacy.unit == "row":
        return ""
    return f"rows counted, at most {privacy.max_rows:,} per {clean(privacy.unit)}"


def footnotes(query: Query, schema: Schema) -> tuple[str, ...]:
    """What shaped the numbers, in a few words each: for below a chart, where sentences do not fit."""
    notes, privacy, measured = [], schema.privacy, query.aggregate.column
    if privacy.unit != "row":
        notes.append(f"at most {privacy.max_rows:,} rows per {clean(privacy.unit)}")
    if measured is not None and query.aggregate.kind != "count":
        column = schema.column(measured)
        if column.bounds is not None and column.expression is None:
            notes.append(f"{clean(measured)} clamped to {' to '.join(_ends(column))}")
    if query.group_by or query.where is not None or measured is not None:
        notes.append("without undeclared rows")
    return tuple(notes)


def subject(query: Query, schema: Schema) -> str:
    """What a released value is called where its name alone would promise too much; "" where it would not."""
    aggregate = query.aggregate
    if aggregate.kind in ("persons", "quantile"):
        return ""
    clamped = aggregate.kind != "count" and schema.column(aggregate.column or "").is_summable
    if clamped:
        return {"avg": "clamped averages", "sum": "clamped sums"}.get(aggregate.kind, "clamped values")
    return "" if schema.privacy.unit == "row" else "counted rows"


def _kept_rows(query: Query, schema: Schema, quality: QualityLike | None) -> Iterator[str]:
    privacy = schema.privacy
    if privacy.unit == "row":
        return
    unit, most = clean(privacy.unit), privacy.max_rows
    rows = "one row" if most == 1 else f"{most:,} rows"
    if schema.joined:
        cuts = {clean(name): part.privacy.max_rows for name, part in parts(schema).items()}
        row_limits = ", ".join(f"{n:,} {'row' if n == 1 else 'rows'} of {name}" for name, n in cuts.items())
        yield f"Of each {unit} at most {row_limits} are kept and then joined: at most {rows} in all."
        yield f"A {unit} without rows in one of these tables, and rows without a {unit}, are left out."
        return
    counted = f"{rows} of each {unit} {'is' if most == 1 else 'are'} counted"
    yield f"At most {counted}; its other rows, and rows without one, are left out."
    if quality is not None:
        least = quality.rows_lost[0]
        lost = f"; at least {number(least)} rows are left out that way" if least else ""
        yield f"{percent(*quality.units_above)} of them have more rows{lost}. How many more is not told."


def _derived(query: Query, schema: Schema, quality: QualityLike | None) -> Iterator[str]:
    """What is inferred of expressions, and what they see of the columns that they read."""
    measured = () if query.aggregate.column is None else (query.aggregate.column,)
    for name in dict.fromkeys((*query.group_by, *measured, *sorted(filter_columns(query.where)))):
        column = schema.column(name)
        if column.expression is None:
            continue
        if column.joined is not None:
            table, key = clean(column.joined[0]), clean(column.expression)
            yield f"{clean(name)} is looked up in the public table {table} by {key}."
            yield f"A {key} that is undeclared, or not in {table}, has no {clean(name)}."
            continue
        if name not in filter_columns(query.where) or name in (*query.group_by, *measured):
            yield f"{clean(name)} {_inferred(column)}."
        for source in sorted(schema.sources((name,))):
            read = schema.column(source)
            if read.bounds is not None and read.is_numeric:  # dates are clamped too
                low, high = _ends(read)
                yield f"Values of {clean(source)} below {low} or above {high} count as {low} or {high}."
            else:
                yield f"In an expression, an undeclared {clean(source)} reads as NULL."


def _inferred(column: Column) -> str:
    """The values of a derived column, in words."""
    if column.values is not None:
        listed = [label(value) for value in column.values[:_LISTED]]
        more = len(column.values) - len(listed)
        values = ", ".join(listed) + (f" and {more:,} more" if more else "")
        return f"has the values {clean(values)}, as its expression says"
    if column.bounds is not None:
        low, high = _ends(column)
        return f"lies between {low} and {high}, by the declarations of what it is made of"
    return "is binned"


def _measured(query: Query, schema: Schema, quality: QualityLike | None) -> Iterator[str]:
    if query.aggregate.column is None:
        return
    name, column = query.aggregate.column, schema.column(query.aggregate.column)
    clean_name = clean(name)
    is_count = query.aggregate.kind == "count"
    if column.expression is not None:
        yield f"Rows where {clean_name} is NULL are {'not counted' if is_count else 'left out'}."
        return
    if column.values is not None:
        share = _outside(quality, name, column)
        yield f"Rows with an undeclared {clean_name} are not counted, nor is NULL{share}."
        return
    if column.bounds is not None and not is_count:
        low, high = _ends(column)
        yield f"Values of {clean_name} below {low} or above {high} count as {low} or {high}."
        if column.step is not None:
            yield f"Values of {clean_name} are rounded to {_multiples(column.step)}."
        if quality is not None:
            below, above = (percent(*quality.share(name, "bounds", end)) for end in ("below", "above"))
            yield (
                f"{below} of all rows lie below {low}, {above} above {high}. How far clamping moved the "
                "numbers cannot be bounded: nothing declared bounds the values beyond."
            )
    share = ""
    if quality is not None and column.is_summable:
        share = f" ({percent(*quality.share(name, 'bounds', 'null'))} of all rows)"
    yield f"Rows whose {clean_name} is NULL or NaN are {'not counted' if is_count else 'left out'}{share}."


def _grouped(query: Query, schema: Schema, quality: QualityLike | None) -> Iterator[str]:
    for name, column in ((name, schema.column(name)) for name in query.group_by):
        null = "" if None in (column.domain or ()) else ", NULL included"
        share = _outside(quality, name, column)
        if column.edges is None:
            yield f"Rows with an undeclared {clean(name)} are left out{null}{share}."
        else:
            ends = f"({_number(column.edges[0])}, {_number(column.edges[-1])}]"
            yield f"Rows whose {clean(name)} is outside {ends} are left out{null}{share}."
        is_counted = query.aggregate == Aggregate("count") and len(query.group_by) == 1
        if quality is not None and is_counted and quality.covers(name):
            most = quality.most_left_out(name, "values" if column.edges is None else "edges")
            yield f"With these rows, no group would grow by more than {number(most)}."


def _outside(quality: QualityLike | None, name: str, column: Column) -> str:
    """The shares of rows outside a discrete column's domain, in brackets."""
    if quality is None or not quality.covers(name):
        return ""
    if column.edges is None:
        parts = {"undeclared": "undeclared", "null": "NULL"}
    else:
        parts = {"below": "below", "above": "above", "null": "NULL"}
    domain = "values" if column.edges is None else "edges"
    shares = [f"{word} {percent(*quality.share(name, domain, key))}" for key, word in parts.items()]
    return f" ({', '.join(shares)} of all rows)"


def _filtered(query: Query, schema: Schema, quality: QualityLike | None) -> Iterator[str]:
    null_tests = _null_tests(query.where)
    names = filter_columns(query.where)
    for name in (declared for declared in schema.columns if declared in names):
        column, clean_name = schema.column(name), clean(name)
        if column.bounds is not None and column.is_numeric:
            low, high = _ends(column)
            rounding = "" if column.step is None else f" and rounded to {_multiples(column.step)}"
            yield f"WHERE compares {clean_name} after it is clamped to {low} to {high}{rounding}."
        elif column.values is not None and name in null_tests and None not in (column.domain or ()):
            yield f"In WHERE, an undeclared {clean_name} reads as NULL{_outside(quality, name, column)}."
        elif column.values is not None:
            share = _outside(quality, name, column)
            yield f"In WHERE, an undeclared {clean_name} meets neither a condition nor its opposite{share}."


def _null_tests(node: Filter | None) -> set[str]:
    """The columns that a filter tests for NULL."""
    match node:
        case IsNull(column):
            return {column}
        case Not(part):
            return _null_tests(part)
        case And(parts) | Or(parts):
            return set().union(*map(_null_tests, parts))
    return set()


def _ends(column: Column) -> tuple[str, str]:
    """The values that clamping ends at; a declared step may keep them inside the bounds."""
    assert column.bounds is not None
    if column.step is None:
        return _number(column.bounds[0]), _number(column.bounds[1])
    grid = column.grid
    return _number(float(grid.low * grid.step)), _number(float(grid.high * grid.step))


def _multiples(step: float) -> str:
    return "whole numbers" if step == 1 else f"multiples of {_number(step)}"


def _number(value: Any) -> str:
    """A declared number to its last digit, or a date.

    >>> _number(200000.0), _number(0.1)
    ('200,000', '0.1')
    """
    return str(value) if isinstance(value, date) else f"{value:,.15g}"


NOISE_ONLY = "It speaks of privacy noise only, not of sampling."
GENERAL_USE = (
    "“In general” takes the rows as drawn at random, one independent of the other, from a larger population. "
    "Do not use it for a census of everybody, as nobody is left to generalise to, nor for rows drawn in "
    "clusters (households, schools, days), by weights or by choice: there it is too narrow."
)
NOT_PRIVATE = "NOT PRIVATE: drawn with a seeded source of noise, for experiments only. Do not publish."


def unselected_note(aggregate: str) -> str:
    """Said of an aggregate that only HAVING or ORDER BY uses."""
    return f"{aggregate} is measured too, as HAVING or ORDER BY uses it; it shares ρ with the others."


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


def ratio_text(aggregate: str, labels: Sequence[str], ratio: Ratio) -> str:
    """The question about a ratio or a share as a person would ask it."""
    constant = as_given(ratio.at_least)
    if ratio.is_share:
        return f"Why is the share of {labels[0]} in the total of {aggregate} at least {constant}?"
    return f"Why is the ratio of {aggregate} of {labels[0]} to that of {labels[1]} at least {constant}?"


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
    name: str = "",
    unit: Unit = PLAIN,
) -> str:
    """The verdict in plain words; it speaks of privacy noise only.

    `subject` says what is compared where that is not what the data hold: "clamped averages"; `name` what the
    number is called, if it is no weighted sum.
    """
    name, between = name or measured(contrast), unit.between(*ends, contrast.at_least)
    number_name = f"{name} of {subject}" if subject else name
    if name == "gap" and contrast.at_least == 0:
        above, below = f"{labels[0]} is higher than {labels[1]}.", f"{labels[0]} is lower than {labels[1]}."
    else:
        constant = as_given(contrast.at_least)
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


def finding_in_general(
    general: Assessment, contrast: Contrast, confidence: float, name: str, unit: Unit = PLAIN
) -> str:
    """The verdict on the population in plain words: privacy noise and sampling error together."""
    between = unit.between(*general.interval, contrast.at_least)
    sure = f"({level(confidence)} confidence)"
    if general.verdict is Verdict.UNCLEAR:
        return (
            f"We cannot tell. In the population that the rows were drawn from, the {name} could be anything "
            f"{between} {sure}: privacy noise and the luck of the draw may explain what you see."
        )
    side = "above" if general.verdict is Verdict.REAL else "below"
    return (
        f"In the population that the rows were drawn from, the {name} is {side} "
        f"{as_given(contrast.at_least)}: {between} {sure}, privacy noise and the luck of the draw included."
    )
