"""A GROUP BY aggregate as a frozen tree: the meaning of a SQL text.

`WHERE` is a tree of comparisons on declared columns with SQL's three-valued logic. Output names, ORDER
BY and LIMIT only affect how a released answer is shown, so they are not part of the query's identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from dpxplain.errors import InternalError
from dpxplain.model.schema import AggregateKind

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
Literal_ = str | int | float | bool


@dataclass(frozen=True)
class Comparison:
    column: str
    operator: Operator
    value: Literal_


@dataclass(frozen=True)
class Membership:
    """column IN (values); NULL is never among them."""

    column: str
    values: tuple[Literal_, ...]


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


@dataclass(frozen=True)
class Aggregate:
    """COUNT(*) has no column.

    >>> str(Aggregate("avg", "income"))
    'AVG(income)'
    """

    kind: AggregateKind
    column: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("count", "sum", "avg") or (self.column is None and self.kind != "count"):
            raise ValueError("An aggregate is COUNT, SUM or AVG, of a column unless it counts rows.")

    def __str__(self) -> str:
        return f"{self.kind.upper()}({self.column or '*'})"


@dataclass(frozen=True)
class OrderKey:
    """`output` is a position in the SELECT list, counted from 0."""

    output: int
    descending: bool = False


@dataclass(frozen=True)
class Query:
    table: str
    group_by: tuple[str, ...]
    aggregate: Aggregate
    where: Filter | None = None


@dataclass(frozen=True)
class Output:
    """One column of the SELECT list: a group-by column, or an aggregate (None)."""

    name: str
    column: str | None
    aggregate: int = 0  # which one of the statement's aggregates, if it is one


@dataclass(frozen=True)
class Presentation:
    """How the released answer is shown; acts after the noise, costs nothing."""

    outputs: tuple[Output, ...]
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None


@dataclass(frozen=True)
class Statement:
    """A parsed and admitted SQL text: one query, or several that differ in their aggregate only."""

    sql: str
    query: Query  # with the first aggregate
    presentation: Presentation
    more: tuple[Aggregate, ...] = ()  # the further aggregates, in the order of the SELECT list

    @property
    def queries(self) -> tuple[Query, ...]:
        """One query per aggregate, in the order of the SELECT list."""
        return (self.query, *(replace(self.query, aggregate=aggregate) for aggregate in self.more))

    @property
    def names(self) -> tuple[str, ...]:
        """The aggregates' names in the SELECT list, in its order."""
        return tuple(output.name for output in self.presentation.outputs if output.column is None)

    def alone(self, number: int) -> Statement:
        """The statement with one aggregate only, without ORDER BY and LIMIT, which concern the whole."""
        outputs = (o for o in self.presentation.outputs if o.column is not None or o.aggregate == number)
        presentation = Presentation(tuple(replace(output, aggregate=0) for output in outputs))
        return Statement(self.sql, self.queries[number], presentation)


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


_PLAIN = (str, int, float, bool, type(None))
_CONDITIONS = (Comparison, Membership, IsNull, Not, And, Or)


def identity(value: Any) -> Any:
    """A JSON-able form that is equal for equal trees; used to recognise a repeated request.

    >>> identity(Comparison("age", ">", 30))
    ['Comparison', ['age', '>', 30]]
    """
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        return [identity(v) for v in value]
    # A subclass of a condition could print as one condition and be evaluated as another.
    is_subclass = isinstance(value, _CONDITIONS) and type(value) not in _CONDITIONS
    if is_subclass or not hasattr(value, "__dataclass_fields__"):
        raise InternalError(f"A {type(value).__name__} cannot be part of a request's identity.")
    return [type(value).__name__, [identity(getattr(value, f)) for f in value.__dataclass_fields__]]
