"""Query trees to SQL over the encoded table, with every value bound as a parameter.

The encoded table has, for the i-th declared column, `code_i` if it is discrete (0 outside the domain),
`units_i` if it has bounds (fixed point, clamped, NULL for NULL and NaN) and `value_i` if it has only
edges. A filter sees a value outside the domain as unknown, so it satisfies neither a condition nor
its negation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Any, TypeVar

from sqlglot import exp

from dpxplain.model.query import And, Comparison, Filter, IsNull, Literal_, Membership, Not, Or, Query
from dpxplain.model.schema import Schema

ENCODED = "encoded"

T = TypeVar("T")

_OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}


_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


def code_column(schema: Schema, name: str) -> str:
    return f"code_{list(schema.columns).index(name)}"


def units_column(schema: Schema, name: str) -> str:
    return f"units_{list(schema.columns).index(name)}"


def value_column(schema: Schema, name: str) -> str:
    return f"value_{list(schema.columns).index(name)}"


@dataclass
class Rendered:
    """SQL text of one dialect and its parameters, in order."""

    tree: exp.Select
    parameters: list[int | float | bool] = field(default_factory=list)

    def sql(self, dialect: str) -> str:
        return self.tree.sql(dialect=dialect)


def grouping_parts(attributes: Sequence[T]) -> list[Sequence[T]]:
    """The attributes in parts whose GROUPING() bits fit into a signed 32-bit integer, as in PostgreSQL."""
    return [attributes[start : start + 31] for start in range(0, len(attributes), 31)]


def grouped_select(query: Query, schema: Schema, subsets: Sequence[tuple[str, ...]]) -> Rendered:
    """One pass of GROUPING SETS: (group-by columns + subset) for every subset."""
    parameters: list[int | float | bool] = []
    attributes = list(dict.fromkeys(name for subset in subsets for name in subset))
    shown: list[exp.Expr] = [exp.column(code_column(schema, name)) for name in (*query.group_by, *attributes)]
    if len(subsets) > 1:
        for number, part in enumerate(grouping_parts(attributes)):
            codes = [exp.column(code_column(schema, name)) for name in part]
            bits = exp.Anonymous(this="GROUPING", expressions=codes)
            shown.append(exp.alias_(bits, f"missing_{number}", copy=False))
    shown.append(exp.alias_(_counted(schema, query.aggregate.column), "count", copy=False))
    if query.aggregate.kind != "count":
        assert query.aggregate.column is not None
        units = exp.column(units_column(schema, query.aggregate.column))
        total = exp.Cast(this=exp.Sum(this=units), to=exp.DataType.build("BIGINT"))
        shown.append(exp.alias_(total, "total", copy=False))
    select = exp.select(*shown, copy=False).from_(exp.to_table(ENCODED), copy=False)
    if query.where is not None:
        select = select.where(_Conditions(schema, parameters).render(query.where), copy=False)
    keys = [[exp.column(code_column(schema, n)) for n in (*query.group_by, *s)] for s in subsets]
    if len(subsets) == 1:
        select = select.group_by(*keys[0], copy=False)
    else:
        sets = exp.GroupingSets(expressions=[exp.Tuple(expressions=key) for key in keys])
        select.set("group", exp.Group(expressions=[sets]))
    return Rendered(select, parameters)


def _counted(schema: Schema, name: str | None) -> exp.Count:
    """COUNT(*), or the rows that have a value: COUNT(x), SUM(x) and AVG(x) skip the others."""
    if name is None:
        return exp.Count(this=exp.Star())
    column = schema.column(name)
    if column.bounds is not None:
        return exp.Count(this=exp.column(units_column(schema, name)))
    if column.edges is not None:
        return exp.Count(this=exp.column(value_column(schema, name)))
    return exp.Count(this=_declared_or_null(schema, name))


def _declared_or_null(schema: Schema, name: str) -> exp.Condition:
    """The code of a declared value that is not NULL; otherwise SQL's NULL."""
    code: exp.Condition = exp.Nullif(
        this=exp.column(code_column(schema, name)), expression=exp.Literal.number(0)
    )
    domain = schema.domain(name)
    if None in domain:
        code = exp.Nullif(this=code, expression=exp.Literal.number(domain.index(None) + 1))
    return code


class _Conditions:
    """Renders a filter; values become parameters."""

    def __init__(self, schema: Schema, parameters: list[int | float | bool]) -> None:
        self.schema = schema
        self.parameters = parameters

    def render(self, node: Filter) -> exp.Condition:
        match node:
            case And(parts):
                return exp.paren(exp.and_(*(self.render(p) for p in parts)))
            case Or(parts):
                return exp.paren(exp.or_(*(self.render(p) for p in parts)))
            case Not(part):
                return exp.paren(exp.not_(self.render(part)))
            case IsNull(column):
                return self._is_null(column)
            case Comparison(column, operator, value):
                return exp.paren(self._compare(column, operator, value))
            case Membership(column, values):
                return exp.paren(exp.or_(*(self._compare(column, "=", v) for v in values)))

    def _bind(self, value: int | float) -> exp.Condition:
        self.parameters.append(value)
        return exp.Placeholder()

    def _is_null(self, name: str) -> exp.Condition:
        column = self.schema.column(name)
        if column.is_numeric:
            pick = units_column if column.bounds is not None else value_column
            return exp.paren(exp.column(pick(self.schema, name)).is_(exp.null()))
        code = exp.Nullif(this=exp.column(code_column(self.schema, name)), expression=exp.Literal.number(0))
        domain = self.schema.domain(name)
        if None not in domain:  # an undeclared value, NULL included, reads as NULL
            return exp.paren(code.is_(exp.null()))
        return exp.paren(exp.EQ(this=code, expression=exp.Literal.number(domain.index(None) + 1)))

    def _compare(self, name: str, operator: str, value: Literal_) -> exp.Condition:
        column = self.schema.column(name)
        if column.bounds is not None:
            return self._compare_units(name, operator, value)
        if column.edges is not None:
            this: exp.Condition = exp.column(value_column(self.schema, name))
            return _OPERATORS[operator](this=this, expression=self._bind(float(value)))
        domain = self.schema.domain(name)
        if operator in ("=", "<>"):
            this = _declared_or_null(self.schema, name)
            return _OPERATORS[operator](this=this, expression=self._bind(domain.index(value) + 1))
        matching = [v for v in domain if v is not None and _ORDERINGS[operator](v, value)]
        # An ordered comparison on whole-number categories is the set of declared values it admits.
        tests = [
            exp.EQ(this=_declared_or_null(self.schema, name), expression=self._bind(domain.index(v) + 1))
            for v in matching
        ]
        never = exp.NEQ(
            this=_declared_or_null(self.schema, name), expression=_declared_or_null(self.schema, name)
        )
        return exp.or_(*tests) if tests else never

    def _compare_units(self, name: str, operator: str, value: Literal_) -> exp.Condition:
        """Compare fixed-point units with an exact threshold, so that no rounding is involved."""
        this = exp.column(units_column(self.schema, name))
        exact = Fraction(str(value)) / self.schema.column(name).grid.step
        below, above = math.floor(exact), math.ceil(exact)
        if operator in ("=", "<>") and below != above:
            # No value on the grid equals it: false (or true), but still unknown for NULL.
            operator = {"=": "<", "<>": ">="}[operator]
            below = above = self.schema.column(name).grid.low
        threshold = below if operator in ("<=", ">") else above
        return _OPERATORS[operator](this=this, expression=self._bind(_within_64_bits(threshold)))


def _within_64_bits(threshold: int) -> int:
    return max(-(2**62), min(2**62, threshold))
