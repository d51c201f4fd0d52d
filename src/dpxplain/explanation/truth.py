"""Which declared cells satisfy a condition, decided from the schema alone.

A predicate is true, false or unknown of every combination of declared values: unknown where a value is
outside its domain (code 0), as in SQL. Only cells where it is true satisfy it, so an undeclared value
satisfies neither a condition nor its negation (SPEC section 2, item 6).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import ExplanationError
from dpxplain.model.query import And, Comparison, Filter, IsNull, Membership, Not, Or
from dpxplain.model.schema import Bin, DomainValue, Schema

BoolArray = NDArray[np.bool_]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip


def truth(condition: Filter, columns: tuple[str, ...], schema: Schema) -> BoolArray:
    """A cell (code of each column, 0 for undeclared) is True where the condition certainly holds.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"age": {"edges": [0, 30, 60, 90]}}})
    >>> truth(Comparison("age", ">", 30), ("age",), schema).tolist()
    [False, False, True, True]
    """
    holds, _ = _kleene(condition, columns, schema)
    shape = tuple(len(schema.domain(name)) + 1 for name in columns)
    return np.broadcast_to(holds, shape)


def _kleene(node: Filter, columns: tuple[str, ...], schema: Schema) -> tuple[BoolArray, BoolArray]:
    """Where the condition is true, and where it is false; unknown in neither."""
    match node:
        case And(parts) | Or(parts):
            sides = [_kleene(part, columns, schema) for part in parts]
            every = sides[0][0] if isinstance(node, And) else sides[0][1]
            some = sides[0][1] if isinstance(node, And) else sides[0][0]
            for holds, fails in sides[1:]:
                every = every & (holds if isinstance(node, And) else fails)
                some = some | (fails if isinstance(node, And) else holds)
            return (every, some) if isinstance(node, And) else (some, every)
        case Not(part):
            holds, fails = _kleene(part, columns, schema)
            return fails, holds
        case Comparison(name, operator, value):
            test = [_compare(name, cell, operator, value) for cell in schema.domain(name)]
            return _along(name, test, columns)
        case Membership(name, values):
            tests = [[_compare(name, cell, "=", value) for cell in schema.domain(name)] for value in values]
            return _along(name, [_any(column) for column in zip(*tests, strict=True)], columns)
        case IsNull(name):
            if None not in schema.domain(name):
                raise ExplanationError(
                    f"NULL is not a declared value of {name}, so it cannot be explained by.",
                    remedy=f"Declare it with null = true in columns.{name}, or leave IS NULL out.",
                )
            return _along(name, [cell is None for cell in schema.domain(name)], columns)


def _any(tests: tuple[bool | None, ...]) -> bool | None:
    return True if any(tests) else None if None in tests else False


def _along(name: str, tests: list[bool | None], columns: tuple[str, ...]) -> tuple[BoolArray, BoolArray]:
    """Tests of one column's declared values, laid along its axis; code 0 is unknown."""
    shape = [1] * len(columns)
    shape[columns.index(name)] = len(tests) + 1
    holds = np.array([False, *(test is True for test in tests)]).reshape(shape)
    fails = np.array([False, *(test is False for test in tests)]).reshape(shape)
    return holds, fails


def _compare(name: str, cell: DomainValue, operator: str, value: Any) -> bool | None:
    """Whether all values of the cell compare so; None for NULL. A cell that is cut is refused."""
    if cell is None:
        return None
    if not isinstance(cell, Bin):
        return _COMPARE[operator](cell, value)
    if operator in ("=", "<>"):
        raise ExplanationError(
            f"{name} {operator} {value!r} cuts the declared bin {cell}.",
            remedy=f"Use > and <= with declared edges, for example {name} > {cell.low:.15g}.",
        )
    # A bin is open below: all of it is at or above its lower edge, but its upper edge belongs to it.
    touched = value == cell.high and operator in ("<", ">=")
    inside = touched or cell.low < value < cell.high
    if inside:
        raise ExplanationError(
            f"{name} {operator} {value!r} cuts the declared bin {cell}.",
            remedy=f"Use > or <= with a declared edge: {cell.low:.15g} or {cell.high:.15g}.",
        )
    above = cell.low >= value
    return above if operator in (">", ">=") else not above
