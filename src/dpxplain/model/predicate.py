"""Explanation predicates as trees that print as SQL.

`Predicate` is a conjunction of conditions `attribute = value`, each value from the declared domain;
`FilterPredicate` is any condition on declared columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpxplain.model.query import And, Comparison, Filter, IsNull, Membership, Not, Or
from dpxplain.model.schema import Bin, DomainValue, label

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_RESERVED = re.compile(
    "(?:and|as|between|by|case|distinct|end|else|false|from|group|having|in|is|join|limit|not|null|on|or|order"
    r"|select|then|true|union|when|where|with)\Z"
)


def sql_name(name: str) -> str:
    """An identifier as SQL, quoted only where it must be.

    >>> sql_name("native_country"), sql_name("hours per week")
    ('native_country', '"hours per week"')
    >>> sql_name("order")
    '"order"'
    """
    is_plain = _PLAIN_NAME.match(name) and not _RESERVED.match(name)
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def sql_literal(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"{value:.15g}"


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
        """For people: `age in (40, 50]` rather than two comparisons."""
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
