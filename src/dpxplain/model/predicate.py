"""Explanation predicates as trees that print as SQL.

`Predicate` is a conjunction of conditions `attribute = value`, each value from the declared domain;
`FilterPredicate` is any condition on declared columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.model.expression import sql_literal, sql_name
from dpxplain.model.query import And, Comparison, Filter, IsNull, Membership, Not, Or
from dpxplain.model.schema import Bin, DomainValue, label


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
