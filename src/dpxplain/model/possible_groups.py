"""Which declared groups can have rows under a WHERE, decided from the declarations alone.

A condition on a group-by column may be true, false or unknown for the rows of a group. A condition on any
other column may be anything. A group is ruled out only if no combination of these makes the WHERE true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import numpy as np

from dpxplain.model.arrays import BoolArray
from dpxplain.model.column import Column
from dpxplain.model.dates import comparable
from dpxplain.model.expression import (
    Among,
    Compared,
    Constant,
    Every,
    Expression,
    Missing,
    Opposite,
    Reference,
    Some,
    read_expression,
    sql_of,
)
from dpxplain.model.query import (
    And,
    Comparison,
    Filter,
    IsNull,
    Membership,
    Not,
    Operator,
    Or,
    Query,
)
from dpxplain.model.schema import Bin, DomainValue, Schema, SchemaKey

Outcomes = tuple[bool, bool]  # whether a condition may be true, and whether it may be false
_ANYTHING: Outcomes = (True, True)
_UNKNOWN: Outcomes = (False, False)

_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    "=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip


def possible_groups(query: Query, schema: Schema) -> BoolArray | None:
    """Per declared group, in order, whether its rows can satisfy the WHERE; None where all groups' rows can.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [0, 30, 60, 90]}}})
    >>> from dpxplain.model.query import Aggregate
    >>> where = Comparison("age", ">", 30)
    >>> possible_groups(Query("t", ("age",), Aggregate("count"), where), schema).tolist()
    [False, True, True]
    """
    if query.where is None or not query.group_by:
        return None
    shape = tuple(len(schema.domain(name)) for name in query.group_by)
    may_hold, _ = _Outcomes(query.group_by, schema).of(query.where)
    return None if may_hold.all() else np.broadcast_to(may_hold, shape).reshape(-1)


@dataclass(frozen=True)
class _Outcomes:
    """Whether conditions may be true and may be false, as arrays with one axis per group-by column."""

    columns: tuple[str, ...]
    schema: Schema

    def of(self, node: Filter | Expression) -> tuple[BoolArray, BoolArray]:
        match node:
            case And(parts) | Every(parts):
                true, false = zip(*map(self.of, parts), strict=True)
                return reduce(and_, true), reduce(or_, false)
            case Or(parts) | Some(parts):
                true, false = zip(*map(self.of, parts), strict=True)
                return reduce(or_, true), reduce(and_, false)
            case Not(part) | Opposite(part):
                may_hold, may_fail = self.of(part)
                return may_fail, may_hold
            case Comparison(name, "=", True) if name not in (*self.columns, *self.schema.columns):
                return self.of(_expression(name, SchemaKey(self.schema)))
            case Comparison() | Membership() | IsNull():
                return self._test(node)
        return self._test(self._on_group(node))

    def _on_group(self, node: Expression) -> Comparison | Membership | IsNull | None:
        """The expression as a condition on a group-by column with listed values; None if it is not one."""
        match node:
            case Compared(operator, part, Constant(value)) if value is not None:
                test: Comparison | Membership | IsNull = Comparison(_name(part), operator, value)
            case Among(part, values):
                constants = [v.value for v in values if isinstance(v, Constant) and v.value is not None]
                if len(constants) < len(values):
                    return None
                test = Membership(_name(part), tuple(constants))
            case Missing(part):
                test = IsNull(_name(part))
            case _:
                return None
        is_listed = test.column in self.columns and self.schema.column(test.column).values is not None
        return test if is_listed else None

    def _test(self, node: Comparison | Membership | IsNull | None) -> tuple[BoolArray, BoolArray]:
        shape = [1] * len(self.columns)
        outcomes = [_ANYTHING]
        if node is not None and node.column in self.columns:
            column = self.schema.column(node.column)
            outcomes = [_outcomes(node, value, column) for value in self.schema.domain(node.column)]
            shape[self.columns.index(node.column)] = len(outcomes)
        may_hold, may_fail = (np.array(side).reshape(shape) for side in zip(*outcomes, strict=True))
        return may_hold, may_fail


@lru_cache(maxsize=256)
def _expression(text: str, declared: SchemaKey) -> Expression:
    return read_expression(text, declared.schema.columns)


def _name(node: Expression) -> str:
    """The name of the column that an expression stands for in a query."""
    return node.column if isinstance(node, Reference) else sql_of(node)


def _outcomes(node: Comparison | Membership | IsNull, value: DomainValue, column: Column) -> Outcomes:
    """What a condition may be for rows whose column has a declared value, or a value in a declared bin."""
    match node:
        case IsNull():
            return value is None, value is not None
        case _ if value is None:
            return _UNKNOWN
        case Comparison(_, operator, constant):
            return _compared(value, operator, constant, column)
        case Membership(_, constants):
            equal = [_compared(value, "=", constant, column) for constant in constants]
            return any(may_hold for may_hold, _ in equal), all(may_fail for _, may_fail in equal)


def _compared(value: DomainValue, operator: Operator, constant: Any, column: Column) -> Outcomes:
    if isinstance(value, Bin):
        return _Span.of(value, column).compared(operator, comparable(constant))
    holds = _COMPARE[operator](comparable(value), comparable(constant))
    return holds, not holds


_INEXACT = 2.0**53  # from here on whole numbers are not exact as floats


@dataclass(frozen=True)
class _Span:
    """The values in a bin as a filter sees them: from `low`, which may be excluded, up to `high`."""

    low: Any
    high: Any
    has_low: bool

    @classmethod
    def of(cls, values: Bin, column: Column) -> _Span:
        low, high = comparable(values.low), comparable(values.high)
        if any(isinstance(end, int | float) and abs(end) >= _INEXACT for end in (low, high)):
            return cls(-math.inf, math.inf, has_low=True)  # there, rounded values decide a row's bin
        if column.bounds is None or not column.is_summable:
            return cls(low, high, has_low=False)
        # A filter compares values after they are capped and, with a step, rounded.
        if column.step is not None:
            step = column.grid.step
            low = float(math.floor(Fraction(repr(low)) / step) * step)
            high = float(math.ceil(Fraction(repr(high)) / step) * step)
        least, most = column.bounds
        is_moved = column.step is not None or low < least or low >= most
        return cls(min(max(low, least), most), min(max(high, least), most), has_low=is_moved)

    def compared(self, operator: Operator, constant: Any) -> Outcomes:
        match operator:
            case "<":
                return self.low < constant, self.high >= constant
            case "<=":
                return self._reaches_down_to(constant), self.high > constant
            case "=":
                is_inside = self._reaches_down_to(constant) and constant <= self.high
                return is_inside, True
        opposite: dict[Operator, Operator] = {">=": "<", ">": "<=", "<>": "="}
        may_fail, may_hold = self.compared(opposite[operator], constant)
        return may_hold, may_fail

    def _reaches_down_to(self, constant: Any) -> bool:
        return bool(self.low < constant or (self.has_low and self.low == constant))
