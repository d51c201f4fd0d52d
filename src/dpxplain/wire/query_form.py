"""A parsed query as the fields of a form: measures, groups, and declared values per filtered column."""

from __future__ import annotations

from collections.abc import Iterable

from dpxplain.model.dates import comparable
from dpxplain.model.query import And, Comparison, Filter, IsNull, Membership, Or, Statement, filter_columns
from dpxplain.model.schema import Bin, Schema, label
from dpxplain.wire.shapes import FormFilter, FormMeasure, QueryForm


def query_form(statement: Statement, schema: Schema) -> QueryForm | None:
    """The form of the same query; None if a form cannot express it, as with ORDER BY or expressions."""
    query, presentation = statement.query, statement.presentation
    aggregates = [query.aggregate for query in statement.queries]
    plain = [*query.group_by, *map(str, aggregates)]
    columns = {*query.group_by, *(a.column for a in aggregates if a.column), *filter_columns(query.where)}
    if not columns <= schema.columns.keys():
        return None
    filters = _filters(query.where, schema)
    if (
        statement.is_computed
        or not all(aggregate.has_influence for aggregate in aggregates)
        or any(output.digits is not None for output in presentation.values)
        or presentation.order
        or presentation.limit is not None
        or [o.name for o in presentation.outputs] != plain
        or filters is None
    ):
        return None
    return QueryForm(
        measures=[FormMeasure(aggregate=a.explained, column=a.column) for a in aggregates],
        groups=list(query.group_by),
        filters=filters,
    )


def _filters(where: Filter | None, schema: Schema) -> list[FormFilter] | None:
    """One filter per column, in the order written; None if a condition is not a choice of declared values."""
    parts: dict[str, list[Filter]] = {}
    for part in () if where is None else where.parts if isinstance(where, And) else (where,):
        column = _column(part)
        if column is None:
            return None
        parts.setdefault(column, []).append(part)
    filters = []
    for column, conditions in parts.items():
        labels = _labels(column, conditions, schema)
        if not labels:
            return None
        filters.append(FormFilter(column=column, values=labels))
    return filters


def _column(part: Filter) -> str | None:
    """The column that a condition is about; None if there is not exactly one."""
    match part:
        case Comparison() | Membership() | IsNull():
            return part.column
        case Or(parts):
            columns = {_column(alternative) for alternative in parts}
            return columns.pop() if len(columns) == 1 else None
    return None


def _labels(column: str, conditions: list[Filter], schema: Schema) -> list[str]:
    """The declared values that the conditions choose, in declared order; empty if they do not list any."""
    domain, is_binned = schema.columns[column].domain or (), schema.columns[column].edges is not None
    match conditions:
        case [Comparison(_, ">", low), Comparison(_, "<=", high)]:
            bins = [value for value in domain if isinstance(value, Bin)]
            ends = comparable(low), comparable(high)
            inside = [b for b in bins if ends[0] <= comparable(b.low) and comparable(b.high) <= ends[1]]
            is_whole = bool(inside) and (inside[0].low, inside[-1].high) == (low, high)
            return [label(b) for b in inside] if is_whole else []
        case [Comparison() | Membership() | IsNull() as alone]:
            values = _values((alone,))
        case [Or(parts)]:
            values = _values(parts)
        case _:
            return []
    if values is None or is_binned or any(value not in domain for value in values):
        return []
    return [label(value) for value in domain if value in values]


def _values(alternatives: Iterable[Filter]) -> list[object] | None:
    values: list[object] = []
    for part in alternatives:
        match part:
            case Comparison(_, "=", value):
                values.append(value)
            case Membership(_, several):
                values.extend(several)
            case IsNull():
                values.append(None)
            case _:
                return None
    return values
