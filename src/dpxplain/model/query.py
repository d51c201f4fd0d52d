"""A GROUP BY aggregate as a frozen tree: what the SQL text means, without the text.

`WHERE` is a tree of comparisons on declared columns with SQL's three-valued logic. Output names, ORDER
BY and LIMIT concern only how a released answer is shown, so they are not part of the query's identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    """One column of the SELECT list: a group-by column, or the aggregate (None)."""

    name: str
    column: str | None


@dataclass(frozen=True)
class Presentation:
    """How the released answer is shown; acts after the noise, costs nothing."""

    outputs: tuple[Output, ...]
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None


@dataclass(frozen=True)
class Statement:
    """A parsed and admitted SQL text."""

    sql: str
    query: Query
    presentation: Presentation


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


def identity(value: Any) -> Any:
    """A JSON-able form that is equal for equal trees; used to recognise a repeated request.

    >>> identity(Comparison("age", ">", 30))
    ['Comparison', ['age', '>', 30]]
    """
    if isinstance(value, tuple):
        return [identity(v) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        return [type(value).__name__, [identity(getattr(value, f)) for f in value.__dataclass_fields__]]
    return value
