"""Which declared cells satisfy a condition, decided from the schema alone.

A predicate is true, false or unknown for every combination of codes: unknown where a value is outside its
domain (code 0), as in SQL. Only cells where it is true satisfy it, so an undeclared value satisfies neither a
condition nor its negation (docs/specification.md, declared domains).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.model.arrays import BoolArray
from dpxplain.model.dates import comparable, edge_text
from dpxplain.model.query import And, Comparison, Filter, IsNull, Membership, Not, Or
from dpxplain.model.schema import Bin, DomainValue, Schema

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip


class Truth:
    """Evaluates conditions on some columns; each comparison is evaluated once and cached.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"age": {"edges": [0, 30, 60, 90]}}})
    >>> Truth(("age",), schema).cells(Comparison("age", ">", 30)).tolist()
    [False, False, True, True]
    """

    def __init__(self, columns: tuple[str, ...], schema: Schema) -> None:
        self.columns = columns
        self.schema = schema
        self._comparison = cache(self._evaluate)

    def cells(self, condition: Filter) -> BoolArray:
        """Which cells (a code per column, 0 for undeclared) certainly satisfy the condition."""
        shape = tuple(len(self.schema.domain(name)) + 1 for name in self.columns)
        return np.broadcast_to(self._kleene(condition)[0], shape)

    def _kleene(self, node: Filter) -> tuple[BoolArray, BoolArray]:
        """Where the condition is true, and where it is false; unknown in neither."""
        match node:
            case And(parts):
                sides = [self._kleene(part) for part in parts]
                return reduce(and_, (holds for holds, _ in sides)), reduce(or_, (fails for _, fails in sides))
            case Or(parts):
                sides = [self._kleene(part) for part in parts]
                return reduce(or_, (holds for holds, _ in sides)), reduce(and_, (fails for _, fails in sides))
            case Not(part):
                holds, fails = self._kleene(part)
                return fails, holds
        return self._comparison(node)

    def _evaluate(self, node: Comparison | Membership | IsNull) -> tuple[BoolArray, BoolArray]:
        return self._along(node.column, self._tests(node))

    def _tests(self, node: Comparison | Membership | IsNull) -> list[bool | None]:
        """Whether the condition holds on each declared value of its column; None where it is unknown."""
        name, domain = node.column, self.schema.domain(node.column)
        match node:
            case Comparison(_, operator, value):
                return [_compare(name, cell, operator, value) for cell in domain]
            case Membership(_, values):
                return [_any([_compare(name, cell, "=", value) for value in values]) for cell in domain]
            case IsNull():
                if None not in domain:
                    raise ExplanationError(
                        f"NULL is not a declared value of {name}, so it cannot be part of an explanation.",
                        remedy=f"Declare it with null = true in columns.{name}, or leave out IS NULL.",
                    )
                return [cell is None for cell in domain]

    def _along(self, name: str, tests: list[bool | None]) -> tuple[BoolArray, BoolArray]:
        """The tests as two arrays along the column's axis, true and false; code 0 is in neither."""
        shape = [1] * len(self.columns)
        shape[self.columns.index(name)] = len(tests) + 1
        holds = np.array([False, *(test is True for test in tests)]).reshape(shape)
        fails = np.array([False, *(test is False for test in tests)]).reshape(shape)
        return holds, fails


def _any(tests: list[bool | None]) -> bool | None:
    return True if any(tests) else None if None in tests else False


def _compare(name: str, cell: DomainValue, operator: str, value: Any) -> bool | None:
    """Whether the comparison holds for the whole cell; None for NULL. Raises if it splits a bin."""
    if cell is None:
        return None
    if not isinstance(cell, Bin):
        return _COMPARE[operator](comparable(cell), comparable(value))
    low, high, moment = comparable(cell.low), comparable(cell.high), comparable(value)
    if operator in ("=", "<>"):
        raise ExplanationError(
            f"{name} {operator} {value!r} splits the declared range {cell}.",
            remedy=f"Use > and <= with declared edges, for example {name} > {edge_text(cell.low)}.",
        )
    # A bin is open below: all of it lies above its lower edge, but its upper edge belongs to it.
    touched = moment == high and operator in ("<", ">=")
    inside = touched or low < moment < high
    if inside:
        raise ExplanationError(
            f"{name} {operator} {value!r} splits the declared range {cell}.",
            remedy=f"Use > or <= with a declared edge: {edge_text(cell.low)} or {edge_text(cell.high)}.",
        )
    above = low >= moment
    return above if operator in (">", ">=") else not above
