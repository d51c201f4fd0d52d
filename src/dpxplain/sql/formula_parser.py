"""Parses formulas over released aggregates: arithmetic in SELECT and ORDER BY, and HAVING.

`SUM(a) / COUNT(*)` is a formula over two aggregates. An aggregate that occurs several times is measured once.
An aggregate that only HAVING or ORDER BY uses is measured too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from dpxplain.model.expression import (
    OPPOSITES,
    Compared,
    ComparisonOperator,
    Constant,
    Every,
    Measured,
    Operation,
    OutputCondition,
    OutputFormula,
    Some,
    aggregates_of,
)
from dpxplain.model.query import Aggregate
from dpxplain.sql.scope import Scope, matching, number
from dpxplain.sql.vocabulary import ARITHMETIC, COMPARISONS, FORMULA_NODES

_REAL_TYPES = {exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL}
MOST_AGGREGATES = 256  # each of them reads every measured part
_LARGEST = 200  # nodes: each is computed for every group
_MOST_DIGITS = 12
_USAGE = "Write numbers and aggregates with + - * /, LN() or EXP(), such as 100 * SUM(a) / COUNT(*)."
_COMPARE = (
    "Compare an aggregate with a number or with another aggregate, such as HAVING COUNT(*) > 100 AND "
    "AVG(a) < 5."
)


@dataclass
class Aggregates:
    """The distinct aggregates of a statement, numbered as they are met."""

    recognises: Callable[[exp.Expr], bool]
    read: Callable[[exp.Expr], Aggregate]
    scope: Scope
    _numbers: dict[Aggregate, int] = field(default_factory=dict)

    @property
    def known(self) -> list[Aggregate]:
        return list(self._numbers)

    def number(self, node: exp.Expr) -> int:
        aggregate = self.read(node)
        number = self._numbers.setdefault(aggregate, len(self._numbers))
        if number == MOST_AGGREGATES:
            problem = f"The query has more than {MOST_AGGREGATES} aggregates, which is the limit."
            raise self.scope.refuse(problem, "Ask for them in several queries.", node)
        return number

    def occur_in(self, node: exp.Expr) -> bool:
        return any(self.recognises(part) for part in node.walk())


def rounding(node: exp.Expr, aggregates: Aggregates, scope: Scope) -> tuple[exp.Expr, int | None]:
    """The argument of ROUND and its digits; the node itself and None if it is not a ROUND of aggregates."""
    if not isinstance(node, exp.Round) or not aggregates.occur_in(node):
        return node, None
    digits = node.args.get("decimals")
    value = 0 if digits is None else number(digits.name) if _is_number(digits) else None
    if not isinstance(value, int) or not 0 <= value <= _MOST_DIGITS:
        remedy = f"Write a whole number from 0 to {_MOST_DIGITS}."
        raise scope.refuse("ROUND takes a number of digits.", remedy, digits)
    return node.this.unnest(), value


@dataclass(frozen=True)
class FormulaParser:
    """Parses formulas. `names` has the values of the SELECT list that HAVING and ORDER BY may refer to."""

    aggregates: Aggregates
    scope: Scope
    names: Mapping[str, OutputFormula] = field(default_factory=dict)

    def is_formula(self, node: exp.Expr) -> bool:
        """Whether the expression computes with aggregates or values of the SELECT list, not with columns."""
        plain = (c.this for c in node.find_all(exp.Column) if not c.args.get("table"))
        is_named = any(isinstance(name, exp.Identifier) and matching(name, self.names) for name in plain)
        return is_named or self.aggregates.occur_in(node)

    def formula(self, node: exp.Expr) -> OutputFormula:
        """The formula of an expression. Raises if it is not made of aggregates and numbers."""
        if sum(1 for _ in node.walk()) > _LARGEST:
            raise self.scope.refuse("This expression is too long.", "Compute it in parts.", node)
        return self._formula(node)

    def having(self, node: exp.Expr) -> OutputCondition:
        """The condition of HAVING."""
        if sum(1 for _ in node.walk()) > _LARGEST:
            raise self.scope.refuse("This condition is too long.", "Filter the answer afterwards.", node)
        return self._condition(node, negated=False)

    def _formula(self, node: exp.Expr) -> OutputFormula:
        node = node.unnest()
        if self.aggregates.recognises(node):
            return Measured(self.aggregates.number(node))
        match node:
            case exp.Literal() if _is_number(node):
                return Constant(self._number(node))
            case exp.Neg():
                inner = self._formula(node.this)
                return Constant(-inner.value) if isinstance(inner, Constant) else Operation("neg", (inner,))
            case exp.Div():
                return Operation("/", (self._formula(node.this), self._divisor(node.expression)))
            case exp.Add() | exp.Sub() | exp.Mul():
                parts = (self._formula(part) for part in (node.this, node.expression))
                return Operation(ARITHMETIC[type(node)], tuple(parts))
            case _ if type(node) in FORMULA_NODES:
                return Operation(FORMULA_NODES[type(node)], (self._formula(node.this),))
            case exp.Cast() if node.args["to"].this in _REAL_TYPES:
                return self._formula(node.this)  # released values are such numbers already
            case exp.Coalesce(expressions=[default]) if _is_zero(default):
                return self._formula(node.this)  # a sum over no rows is released as 0 with noise, never NULL
            case exp.Column():
                return self._named(node)
            case exp.Round():
                remedy = "Put ROUND around the whole expression."
                raise self.scope.refuse("ROUND inside an expression is not supported.", remedy, node)
        raise self.scope.refuse("This cannot be computed from aggregates.", _USAGE, node)

    def _divisor(self, node: exp.Expr) -> OutputFormula:
        node = node.unnest()
        if isinstance(node, exp.Nullif) and _is_zero(node.expression):
            node = node.this  # without NULLIF, a ratio to 0 has no value either
        divisor = self._formula(node)
        if divisor == Constant(0.0):
            raise self.scope.refuse("This divides by 0.", "Divide by another number.", node)
        return divisor

    def _number(self, node: exp.Expr) -> float:
        value = number(str(node.this))
        if value is None or abs(value) > 1e100:
            raise self.scope.refuse("This number is too large.", "Write one below 1e100.", node)
        return float(value)

    def _named(self, node: exp.Column) -> OutputFormula:
        is_plain = isinstance(node.this, exp.Identifier) and not node.args.get("table")
        names = matching(node.this, self.names) if is_plain else []
        if names:
            return self.names[names[0]]
        column = self.scope.column(node, otherwise=_USAGE)
        remedy = f"Aggregate it, such as AVG({column}); conditions on columns go into WHERE."
        raise self.scope.refuse(f"{column} is a column, not an aggregate.", remedy, node)

    def _condition(self, node: exp.Expr, *, negated: bool) -> OutputCondition:
        node = node.unnest()
        match node:
            case exp.And() | exp.Or():
                parts = tuple(self._condition(part, negated=negated) for part in node.flatten())
                return _joined(Every if isinstance(node, exp.And) != negated else Some, parts)
            case exp.Not():
                return self._condition(node.this, negated=not negated)
            case exp.Between():
                low = self._compared(node.this, ">=", node.args["low"], negated)
                high = self._compared(node.this, "<=", node.args["high"], negated)
                return _joined(Some if negated else Every, (low, high))
            case _ if type(node) in COMPARISONS:
                return self._compared(node.this, COMPARISONS[type(node)], node.expression, negated)
        raise self.scope.refuse("Expected a comparison of aggregates here.", _COMPARE, node)

    def _compared(
        self, left: exp.Expr, operator: ComparisonOperator, right: exp.Expr, negated: bool
    ) -> Compared[OutputFormula]:
        sides = self._formula(left), self._formula(right)
        condition = Compared(OPPOSITES[operator] if negated else operator, *sides)
        if not aggregates_of(condition):
            raise self.scope.refuse("This compares two plain numbers.", _COMPARE, left)
        return condition


def _joined(kind: type[Every[Any]] | type[Some[Any]], parts: Iterable[OutputCondition]) -> OutputCondition:
    return kind(tuple(p for part in parts for p in (part.parts if isinstance(part, kind) else (part,))))


def _is_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _is_zero(node: exp.Expr) -> bool:
    return _is_number(node) and number(str(node.this)) == 0
