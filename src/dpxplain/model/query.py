"""A GROUP BY aggregate as a frozen tree: the meaning of a SQL text.

`WHERE` is a tree of comparisons on declared columns with SQL's three-valued logic. Output names, ORDER
BY, LIMIT, HAVING and arithmetic between aggregates only affect how a released answer is shown, so they are
not part of the query's identity.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal, get_args

from dpxplain.errors import InternalError
from dpxplain.model.column import Bin, DomainValue, label
from dpxplain.model.expression import (
    ComparisonOperator,
    Measured,
    OutputCondition,
    OutputFormula,
    Value,
    aggregates_of,
    condition_text,
    formula_text,
    sql_literal,
    sql_name,
)
from dpxplain.model.schema import Schema

# -- Query -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    column: str
    operator: ComparisonOperator
    value: Value


@dataclass(frozen=True)
class Membership:
    """column IN (values); NULL is never among them."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class IsNull:
    column: str


@dataclass(frozen=True)
class Not:
    part: Filter


@dataclass(frozen=True)
class And:
    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Filter, ...]


Filter = Comparison | Membership | IsNull | Not | And | Or


AggregateKind = Literal["count", "sum", "avg"]
VarianceKind = Literal["var_samp", "var_pop", "stddev_samp", "stddev_pop"]
MeasuredKind = Literal[AggregateKind, VarianceKind, "persons", "quantile"]
VARIANCES: tuple[VarianceKind, ...] = get_args(VarianceKind)


@dataclass(frozen=True)
class Aggregate:
    """COUNT(*) has no column. COUNT, SUM and AVG can be explained; the others can only be answered.

    >>> str(Aggregate("avg", "income"))
    'AVG(income)'
    """

    kind: MeasuredKind
    column: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(MeasuredKind) or (
            self.column is None and self.kind not in ("count", "persons")
        ):
            raise ValueError("This is not an aggregate. Every aggregate except a count needs a column.")

    @property
    def has_influence(self) -> bool:
        """Whether a predicate has an influence on it that can be explained (docs/specification.md)."""
        return self.kind in get_args(AggregateKind)

    @property
    def explained(self) -> AggregateKind:
        """The kind of an aggregate that can be explained; raises for any other."""
        if self.kind == "count" or self.kind == "sum" or self.kind == "avg":
            return self.kind
        raise InternalError(f"{self} has no influence, and was about to be explained.")

    def __str__(self) -> str:
        return f"{self.kind.upper()}({self.column or '*'})"


@dataclass(frozen=True)
class Persons(Aggregate):
    """COUNT(DISTINCT unit): how many privacy units have rows in a group.

    >>> str(Persons("persons", None, "tailnum"))
    'COUNT(DISTINCT tailnum)'
    """

    unit: str = ""

    def __str__(self) -> str:
        return f"COUNT(DISTINCT {self.unit})"


@dataclass(frozen=True)
class Quantile(Aggregate):
    """The value that a share `level` of a group's values does not exceed, interpolated like QUANTILE_CONT.

    >>> str(Quantile("quantile", "pay", 0.5)), str(Quantile("quantile", "pay", 0.9))
    ('MEDIAN(pay)', 'QUANTILE_CONT(pay, 0.9)')
    """

    level: float = 0.5

    def __str__(self) -> str:
        return (
            f"MEDIAN({self.column})" if self.level == 0.5 else f"QUANTILE_CONT({self.column}, {self.level})"
        )


@dataclass(frozen=True)
class Histogram(Aggregate):
    """How many of a group's values lie in each bin of `width` grid units, from the lower bound up."""

    width: int = 1


@dataclass(frozen=True)
class OrderKey:
    """`output` is a position in the SELECT list, counted from 0, or a formula that is not selected."""

    output: int | OutputFormula
    descending: bool = False


@dataclass(frozen=True)
class Query:
    table: str
    group_by: tuple[str, ...]
    aggregate: Aggregate
    where: Filter | None = None


Subsets = tuple[tuple[str, ...], ...]
"""Sets of attributes, for each of which a pass counts the cells of every group; () counts the groups."""


@dataclass(frozen=True)
class Output:
    """One column of the SELECT list: a group-by column, an aggregate, or a formula over aggregates."""

    name: str
    column: str | None  # None for a value
    aggregate: int = 0  # which one of the statement's aggregates, if it is one
    formula: OutputFormula | None = None  # for a value that is not just one aggregate
    digits: int | None = None  # from ROUND(...)

    @property
    def value(self) -> OutputFormula:
        """The formula that the column shows for each group; only for values, not for group-by columns."""
        return Measured(self.aggregate) if self.formula is None else self.formula


@dataclass(frozen=True)
class Presentation:
    """How the released answer is shown; acts after the noise, costs nothing."""

    outputs: tuple[Output, ...]
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    having: OutputCondition | None = None

    @property
    def values(self) -> tuple[Output, ...]:
        """The outputs that are not group-by columns."""
        return tuple(output for output in self.outputs if output.column is None)

    @property
    def columns(self) -> tuple[Output, ...]:
        """The outputs that are group-by columns."""
        return tuple(output for output in self.outputs if output.column is not None)


@dataclass(frozen=True)
class Statement:
    """A parsed and admitted SQL text: one query, or several that differ in their aggregate only."""

    sql: str
    query: Query  # with the first aggregate
    presentation: Presentation
    more: tuple[Aggregate, ...] = ()  # the further aggregates, those of the SELECT list first

    @property
    def queries(self) -> tuple[Query, ...]:
        """One query per aggregate: those of the SELECT list, then what only HAVING and ORDER BY use."""
        return (self.query, *(replace(self.query, aggregate=aggregate) for aggregate in self.more))

    @property
    def names(self) -> tuple[str, ...]:
        """The values' names in the SELECT list, in its order."""
        return tuple(output.name for output in self.presentation.values)

    @property
    def is_table(self) -> bool:
        """Whether it has several values, or one that is computed: an `Answers` rather than an `Answer`."""
        return bool(self.more) or any(output.formula is not None for output in self.presentation.values)

    @property
    def is_computed(self) -> bool:
        """Whether anything is computed from the released values, group by group."""
        presentation = self.presentation
        keys = (key.output for key in presentation.order)
        return (
            presentation.having is not None
            or any(output.formula is not None for output in presentation.values)
            or any(not isinstance(key, int) for key in keys)
        )

    @property
    def aggregate_names(self) -> tuple[str, ...]:
        """The aggregates as SQL, in the order of `queries`."""
        return tuple(str(query.aggregate) for query in self.queries)

    @property
    def measured_names(self) -> tuple[str, ...]:
        """The name of each aggregate: its name in the SELECT list, or its SQL."""
        selected = {o.aggregate: o.name for o in self.presentation.values if o.formula is None}
        return tuple(selected.get(i, text) for i, text in enumerate(self.aggregate_names))

    @property
    def unselected(self) -> tuple[str, ...]:
        """The aggregates that are measured only for HAVING or ORDER BY, as SQL."""
        used = set().union(*(aggregates_of(output.value) for output in self.presentation.values))
        return tuple(text for i, text in enumerate(self.aggregate_names) if i not in used)

    @property
    def having_text(self) -> str:
        """The condition of HAVING as SQL; empty without one."""
        having = self.presentation.having
        return "" if having is None else condition_text(having, self.aggregate_names)

    def text_of(self, formula: OutputFormula) -> str:
        """A formula over the aggregates as SQL."""
        return formula_text(formula, self.aggregate_names)

    def alone(self, number: int) -> Statement:
        """The statement with one aggregate only, and without HAVING, ORDER BY and LIMIT."""
        selected = [o for o in self.presentation.values if o.formula is None and o.aggregate == number]
        values = selected or [Output(self.aggregate_names[number], None)]
        outputs = [
            output for output in self.presentation.outputs if output.column is not None or output in values
        ]
        outputs += [] if selected else values
        presentation = Presentation(tuple(replace(output, aggregate=0) for output in outputs))
        return Statement(self.sql, self.queries[number], presentation)

    def computing(self, output: Output) -> Statement:
        """The statement with one computed value only, over the same aggregates."""
        return replace(self, presentation=Presentation((*self.presentation.columns, output)))


def filter_columns(node: Filter | None) -> set[str]:
    """The columns a filter reads."""
    match node:
        case None:
            return set()
        case Comparison() | Membership() | IsNull():
            return {node.column}
        case Not(part):
            return filter_columns(part)
        case And(parts) | Or(parts):
            return set().union(*(filter_columns(p) for p in parts))


def query_shape(query: Query) -> Query:
    """The query with each constant replaced by its type."""
    return replace(query, where=filter_shape(query.where))


def filter_shape(node: Filter | None) -> Filter | None:
    """The filter with each constant replaced by its type; unusual constants stay, because they may matter.

    >>> filter_shape(Not(Comparison("age", ">", 30)))
    Not(part=Comparison(column='age', operator='>', value='int'))
    """
    match node:
        case Comparison():
            return replace(node, value=_constant_shape(node.value))
        case Membership():
            return replace(node, values=tuple(dict.fromkeys(map(_constant_shape, node.values))))
        case Not(part):
            return Not(filter_shape(part))  # type: ignore[arg-type]
        case And(parts) | Or(parts):
            return replace(node, parts=tuple(map(filter_shape, parts)))  # type: ignore[arg-type]
        case _:
            return node


def _constant_shape(value: Any) -> Any:
    is_usual = abs(value) < 2**31 if isinstance(value, int | float) else str(value).isprintable()
    return type(value).__name__ if is_usual else value


_PLAIN = (str, int, float, bool, type(None))
_CONDITIONS = (Comparison, Membership, IsNull, Not, And, Or)


def identity(value: Any) -> Any:
    """A JSON-able form that is equal for equal trees; used to recognise a repeated request.

    >>> identity(Comparison("age", ">", 30))
    ['Comparison', ['age', '>', 30]]
    """
    if type(value) in _PLAIN:
        return value
    if type(value) in (date, datetime):
        return [type(value).__name__, value.isoformat()]
    if type(value) is tuple:
        return [identity(v) for v in value]
    # A subclass of a condition could print as one condition and be evaluated as another.
    is_subclass = isinstance(value, _CONDITIONS) and type(value) not in _CONDITIONS
    if is_subclass or not hasattr(value, "__dataclass_fields__"):
        raise InternalError(f"A {type(value).__name__} cannot be part of a request's identity.")
    return [type(value).__name__, [identity(getattr(value, f)) for f in value.__dataclass_fields__]]


# -- Predicates --------------------------------------------------------------------------------------------
#
# The conditions of explanations print as SQL. `Predicate` is a conjunction of conditions `attribute = value`,
# each value from the declared domain; `FilterPredicate` is any condition on declared columns.


@dataclass(frozen=True)
class Condition:
    """attribute = value, where a bin stands for its interval and NULL for itself."""

    column: str
    value: DomainValue

    def __str__(self) -> str:
        name = sql_name(self.column)
        if self.value is None:
            return f"{name} IS NULL"
        if isinstance(self.value, Bin):
            return f"{name} > {sql_literal(self.value.low)} AND {name} <= {sql_literal(self.value.high)}"
        return f"{name} = {sql_literal(self.value)}"

    @property
    def label(self) -> str:
        """The predicate for people: `age in (40, 50]` rather than two comparisons."""
        if isinstance(self.value, Bin):
            return f"{self.column} in {self.value}"
        return f"{self.column} = {label(self.value)}"


@dataclass(frozen=True)
class Predicate:
    """A conjunction of conditions on different attributes.

    >>> p = Predicate((Condition("education", "Bachelors"), Condition("age", Bin(40, 50))))
    >>> print(p)
    education = 'Bachelors' AND age > 40 AND age <= 50
    >>> p.label
    'education = Bachelors and age in (40, 50]'
    """

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return " AND ".join(map(str, self.conditions))

    @property
    def label(self) -> str:
        return " and ".join(c.label for c in self.conditions)


@dataclass(frozen=True)
class FilterPredicate:
    """Any condition on declared values.

    >>> from dpxplain.model.query import Comparison, Or
    >>> p = FilterPredicate(Or((Comparison("a", "=", "x"), Comparison("b", "=", "x"))))
    >>> print(p)
    a = 'x' OR b = 'x'
    """

    condition: Filter

    def __str__(self) -> str:
        return _sql(self.condition)

    @property
    def label(self) -> str:
        return _sql(self.condition).replace(" AND ", " and ").replace(" OR ", " or ")


def _sql(node: Filter) -> str:
    match node:
        case Comparison(name, operator, value):
            return f"{sql_name(name)} {operator} {sql_literal(value)}"
        case Membership(name, values):
            return f"{sql_name(name)} IN ({', '.join(sql_literal(v) for v in values)})"
        case IsNull(name):
            return f"{sql_name(name)} IS NULL"
        case Not(IsNull(name)):
            return f"{sql_name(name)} IS NOT NULL"
        case Not(part):
            return f"NOT ({_sql(part)})"
        case And(parts):
            return " AND ".join(f"({_sql(p)})" if isinstance(p, Or) else _sql(p) for p in parts)
        case Or(parts):
            return " OR ".join(f"({_sql(p)})" if isinstance(p, And) else _sql(p) for p in parts)


# -- Names of the encoded table ----------------------------------------------------------------------------

ENCODED = "encoded"
CONDENSED = "condensed"
PERSON = "person_hash"  # a hash of the privacy unit, if it is not the row
UNIT = "person_text"  # the privacy unit itself, only while tables must still be joined by it
CELLS = "cells"  # the cells of a pass that counts by texts
NAMED_CELLS = "named_cells"  # the same cells with the texts encoded
ROW_CELLS = "row_cells"  # each row once per subset of a wide pass, with the number of its cell
DERIVED = "with_derived"  # the encoded table with the columns of a query's own expressions


@dataclass
class Parameters:
    """The values of one statement, each referred to by its number from 1, as often as needed."""

    values: list[Any] = field(default_factory=list)

    def bind(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values)


def code_column(schema: Schema, name: str) -> str:
    return f"code_{column_number(schema, name)}"


def units_column(schema: Schema, name: str) -> str:
    return f"units_{column_number(schema, name)}"


def value_column(schema: Schema, name: str) -> str:
    return f"value_{column_number(schema, name)}"


def column_number(schema: Schema, name: str) -> str:
    """The position of a declared column; for a query's own expression, a hash of its name.

    The hash is not shortened: an analyst who found two expressions with the same hash could have one charged
    by the other's sensitivity. It is in base 32, because PostgreSQL cuts names after 63 bytes.
    """
    if name in schema.columns:
        return str(list(schema.columns).index(name))
    return "x" + b32encode(hashlib.sha256(name.encode()).digest()).decode().rstrip("=").lower()
