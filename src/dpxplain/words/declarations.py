"""How numbers were counted: the declarations that shaped a result, as sentences.

Everything here follows from the schema, the query and what was released, so it is public and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from dpxplain.model.column import Column, label
from dpxplain.model.derivation import can_exceed_declaration
from dpxplain.model.query import Aggregate, And, Comparison, Filter, IsNull, Not, Or, Query, filter_columns
from dpxplain.model.schema import Schema, parts
from dpxplain.words.numbers import a_noun, clean, level, number, percent, shortened, uncapitalised
from dpxplain.words.sentences import capped

if TYPE_CHECKING:
    from dpxplain.phases.measure import QualityReading
    from dpxplain.privacy.intervals import Interval


_CAVEAT_NAME = 3  # words of a name in a caveat
_LISTED = 5  # values of a derived column that are named


def shaped_by(
    queries: Sequence[Query], schema: Schema, quality: QualityReading | None = None
) -> tuple[str, ...]:
    """One sentence for each declaration that changes what is counted or added up in these queries.

    With a measured `quality`, the sentences also say how much of the data each declaration touches.

    >>> from dpxplain.model.query import Aggregate
    >>> flights = Schema.load({"table": {"name": "flights"},
    ...     "privacy": {"rho": 1, "unit": "tailnum", "max_rows": 50},
    ...     "columns": {"origin": {"values": ["EWR", "JFK"]}, "dep_delay": {"bounds": [-90, 300]}}})
    >>> for sentence in shaped_by([Query("flights", ("origin",), Aggregate("avg", "dep_delay"))], flights):
    ...     print(sentence)
    At most 50 rows of each tailnum are counted. Rows without a tailnum are not counted.
    Values of dep_delay above 300 count as 300, and values below -90 as -90.
    Rows without a dep_delay are not counted.
    Rows without a listed origin are not counted.
    """
    parts = (_row_limits, _expressions, _measured, _grouped, _filtered)
    sentences = (text for part in parts for query in queries for text in part(query, schema, quality))
    distinct = tuple(dict.fromkeys(sentences))
    if quality is None or not distinct:
        return distinct
    return (
        *distinct,
        f"Each share has its own {level(quality.confidence)} interval, from data quality measurement "
        f"{quality.id}.",
    )


@dataclass(frozen=True)
class Counting:
    """Sentences on how the numbers of a result were counted, and the most urgent one as a caveat."""

    sentences: tuple[str, ...]
    caveat: str  # empty unless a declaration surely touches rows

    @classmethod
    def of(cls, queries: Sequence[Query], schema: Schema, quality: QualityReading | None) -> Counting:
        return cls(shaped_by(queries, schema, quality), main_caveat(queries, schema, quality))


def rows_counted(query: Query, schema: Schema) -> str:
    """The rows that a COUNT counts if max_rows limits the rows per unit; "" if every row counts."""
    privacy = schema.privacy
    if query.aggregate.kind != "count" or privacy.unit == "row":
        return ""
    return f"rows counted, at most {privacy.max_rows:,} per {clean(privacy.unit)}"


def footnotes(query: Query, schema: Schema) -> tuple[str, ...]:
    """Short notes on what shaped the numbers, for below a chart, where sentences do not fit."""
    notes, privacy = [], schema.privacy
    if privacy.unit != "row":
        notes.append(f"at most {privacy.max_rows:,} rows per {clean(privacy.unit)}")
    cap = capped(query.aggregate, schema)
    if cap:
        notes.append(f"{_named(query.aggregate.column or '', schema)}{cap}")
    return tuple(notes)


def _row_limits(query: Query, schema: Schema, quality: QualityReading | None) -> Iterator[str]:
    privacy = schema.privacy
    if privacy.unit == "row":
        return
    unit, most = clean(privacy.unit), privacy.max_rows
    rows = "one row" if most == 1 else f"{most:,} rows"
    if schema.joined:
        cuts = {clean(name): part.privacy.max_rows for name, part in parts(schema).items()}
        row_limits = ", ".join(f"{n:,} {'row' if n == 1 else 'rows'} of {name}" for name, n in cuts.items())
        yield f"For each {unit}, at most {row_limits} are joined: at most {rows} in all."
        noun = a_noun(unit)
        yield f"A{noun[1:]} without rows in one of these tables is not counted, nor is a row without {noun}."
        return
    counted = f"{rows} of each {unit} {'is' if most == 1 else 'are'} counted"
    yield f"At most {counted}. Rows without {a_noun(unit)} are not counted."
    if quality is not None:
        least = quality.rows_lost[0]
        lost = f" At least {number(least)} rows are left out that way." if least else ""
        yield f"{percent(*quality.units_above)} of the {unit} values have more rows.{lost}"


def _expressions(query: Query, schema: Schema, quality: QualityReading | None) -> Iterator[str]:
    """Sentences on expressions: what is inferred about them, and how they see the columns they read."""
    measured = () if query.aggregate.column is None else (query.aggregate.column,)
    for name in dict.fromkeys((*query.group_by, *measured, *sorted(filter_columns(query.where)))):
        column = schema.column(name)
        if column.expression is None:
            continue
        if column.joined is not None:
            table, key = clean(column.joined[0]), clean(column.expression)
            yield f"{clean(name)} is looked up in the public table {table} by {key}."
            yield f"A{a_noun(key)[1:]} that is not in its list, or not in {table}, has no {clean(name)}."
            continue
        if name not in filter_columns(query.where) or name in (*query.group_by, *measured):
            yield _values_of_derived(name, column, schema)
        for source in sorted(schema.sources((name,))):
            read = schema.column(source)
            if read.bounds is not None and read.is_numeric:  # dates are clamped too
                yield _capping(source, read, schema)
            else:
                called = _named(source, schema)
                yield f"In an expression, {a_noun(called)} that is not in the list counts as missing."


def _values_of_derived(name: str, column: Column, schema: Schema) -> str:
    """The values of a derived column, which are inferred or declared beside its expression."""
    if column.values is not None:
        listed = [label(value) for value in column.values[:_LISTED]]
        more = len(column.values) - len(listed)
        values = ", ".join(listed) + (f" and {more:,} more" if more else "")
        reason = "declared" if can_exceed_declaration(column, schema.columns) else "its expression says"
        return f"{clean(name)} has the values {clean(values)}, as {reason}."
    if column.bounds is None:
        return f"{clean(name)} is grouped into ranges."
    if can_exceed_declaration(column, schema.columns):
        return _capping(name, column, schema)
    low, high = _ends(column)
    return f"{clean(name)} lies between {low} and {high}, because of the declared limits of its columns."


def _capping(name: str, column: Column, schema: Schema) -> str:
    low, high = _ends(column)
    return f"Values of {_named(name, schema)} above {high} count as {high}, and values below {low} as {low}."


def _named(name: str, schema: Schema) -> str:
    """A column within a sentence: by its label, unless that names a share and not a value."""
    text = schema.column(name).label
    return clean(name if not text or text.lower().startswith("share") else uncapitalised(text))


def _measured(query: Query, schema: Schema, quality: QualityReading | None) -> Iterator[str]:
    if query.aggregate.column is None:
        return
    name, column = query.aggregate.column, schema.column(query.aggregate.column)
    if column.expression is not None:
        yield f"Rows without {a_noun(clean(name))} are not counted."
        return
    if column.values is not None and column.bounds is None:
        share = _shares_outside(quality, name, column)
        yield f"Rows without a listed {_named(name, schema)} are not counted{share}."
        return
    is_zero_one = column.bounds == (0, 1) and column.step == 1  # capping and rounding would say nothing
    if column.bounds is not None and query.aggregate.kind != "count" and not is_zero_one:
        yield _capping(name, column, schema)
        if column.step is not None:
            yield f"Values of {_named(name, schema)} are rounded to {_multiples(column.step)}."
        if quality is not None:
            low, high = _ends(column)
            below, above = (percent(*quality.share(name, "bounds", end)) for end in ("below", "above"))
            yield (
                f"{below} of all rows are below {low}, and {above} above {high}. How much this changed the "
                "numbers is not known."
            )
    share = ""
    if quality is not None and column.is_summable:
        share = f" ({percent(*quality.share(name, 'bounds', 'null'))} of all rows)"
    yield f"Rows without {a_noun(_named(name, schema))} are not counted{share}."


def _grouped(query: Query, schema: Schema, quality: QualityReading | None) -> Iterator[str]:
    for name, column in ((name, schema.column(name)) for name in query.group_by):
        has_null, share = None in (column.domain or ()), _shares_outside(quality, name, column)
        called = _named(name, schema)
        if column.edges is not None:
            ends = f"({_number(column.edges[0])}, {_number(column.edges[-1])}]"
            missing = "" if has_null else " or missing"
            yield f"Rows whose {called} is outside {ends}{missing} are not counted{share}."
        elif has_null:
            yield f"Rows whose {called} is not in the list are not counted{share}."
        else:
            yield f"Rows without a listed {called} are not counted{share}."
        is_counted = query.aggregate == Aggregate("count") and len(query.group_by) == 1
        if quality is not None and is_counted and quality.covers(name):
            most = quality.most_left_out(name, "values" if column.edges is None else "edges")
            yield f"With these rows, no group would grow by more than {number(most)}."


def _shares_outside(quality: QualityReading | None, name: str, column: Column) -> str:
    """The shares of rows outside a discrete column's domain, in brackets."""
    if quality is None or not quality.covers(name):
        return ""
    if column.edges is None:
        parts = {"undeclared": "not in the list"}
    else:
        parts = {"below": "below", "above": "above"}
    if None not in (column.domain or ()):  # a declared NULL is a group of its own
        parts["null"] = "NULL"
    domain = "values" if column.edges is None else "edges"
    shares = [f"{word} {percent(*quality.share(name, domain, key))}" for key, word in parts.items()]
    return f" ({', '.join(shares)} of all rows)"


def _filtered(query: Query, schema: Schema, quality: QualityReading | None) -> Iterator[str]:
    null_tests = _null_tests(query.where)
    names = filter_columns(query.where)
    for name in (declared for declared in schema.columns if declared in names):
        column, called = schema.column(name), _named(name, schema)
        if column.bounds is not None and column.is_numeric:
            low, high = _ends(column)
            rounding = "" if column.step is None else f" and rounded to {_multiples(column.step)}"
            yield f"The filter sees {called} capped at {low} and {high}{rounding}."
        elif column.values is not None and name in null_tests and None not in (column.domain or ()):
            share = _shares_outside(quality, name, column)
            yield f"In the filter, {a_noun(called)} that is not in the list counts as missing{share}."
        elif column.values is not None and name in _negated(query.where):
            share = _shares_outside(quality, name, column)
            yield f"Rows with an unlisted {called} match neither the filter nor its opposite{share}."


def _negated(node: Filter | None) -> set[str]:
    """The columns that a filter uses under NOT or in `<>`."""
    match node:
        case Comparison(column, "<>"):
            return {column}
        case Not(part):
            return set(filter_columns(part))
        case And(parts) | Or(parts):
            return set().union(*map(_negated, parts))
    return set()


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
    """The lowest and highest value after capping; a declared step may keep them inside the bounds."""
    assert column.bounds is not None
    if column.step is None:
        return _number(column.bounds[0]), _number(column.bounds[1])
    grid = column.grid
    return _number(float(grid.low * grid.step)), _number(float(grid.high * grid.step))


def _multiples(step: float) -> str:
    return "whole numbers" if step == 1 else f"multiples of {_number(step)}"


def _number(value: Any) -> str:
    """A declared number with all its digits, or a date.

    >>> _number(200000.0), _number(0.1)
    ('200,000', '0.1')
    """
    return str(value) if isinstance(value, date) else f"{value:,.15g}"


def main_caveat(queries: Sequence[Query], schema: Schema, quality: QualityReading | None) -> str:
    """A sentence about the declaration that surely touches the largest share; empty if none surely does.

    At most 15 words. Needs a measured `quality`.
    """
    if quality is None:
        return ""
    touched = [fact for query in queries for fact in _affected_rows(query, schema, quality)]
    least, sentence = max(touched, default=(0.0, ""))
    return sentence if least > 0 else ""


def _affected_rows(query: Query, schema: Schema, quality: QualityReading) -> Iterator[tuple[float, str]]:
    """The least share of rows, or units, that each declaration touches, with a sentence about it."""

    def called(name: str) -> str:
        return shortened(clean(name), _CAVEAT_NAME)

    if schema.privacy.unit != "row" and not schema.joined:
        unit, most, share = called(schema.privacy.unit), schema.privacy.max_rows, quality.units_above
        yield (
            share[0],
            f"{_share_range(share)} of {unit} values have over {most:,} rows; further rows are cut.",
        )
    name = query.aggregate.column
    if name is not None and query.aggregate.kind != "count" and quality.covers(name):
        column = schema.column(name)
        if column.expression is None and column.bounds is not None and column.is_numeric:
            low, high = _ends(column)
            for end, key in ((high, "above"), (low, "below")):
                share = quality.share(name, "bounds", key)
                text = f"{_share_range(share)} of rows have {called(name)} {key} {end}, counted as {end}."
                yield share[0], text
    for grouped in query.group_by:
        column = schema.column(grouped)
        if quality.covers(grouped) and column.values is not None:
            share = quality.share(grouped, "values", "undeclared")
            text = f"{_share_range(share)} of rows have no listed {called(grouped)} and are not counted."
            yield share[0], text


def _share_range(share: Interval) -> str:
    return percent(*share).replace("% to ", "–")
