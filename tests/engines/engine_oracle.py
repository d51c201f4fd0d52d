"""What an engine must answer, in plain Python and exact fractions; shares no code with the engines.

Values outside the declared domain are unknown to filters, belong to no group and match no predicate
(docs/specification.md, declared domains).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from dpxplain.model.column import Column
from dpxplain.model.groups import Grouped
from dpxplain.model.query import And, Comparison, Filter, IsNull, Membership, Not, Or, Query
from dpxplain.model.schema import Schema

Row = dict[str, Any]
Cell = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Position of the subset, codes of the group, codes of the subset's attributes."""


def number(value: Any) -> float | None:
    """A usable number: not NULL, not NaN, not some text."""
    if isinstance(value, bool):
        return float(value)
    usable = isinstance(value, int | float) and not math.isnan(value)
    return float(value) if usable else None


def code(column: Column, value: Any) -> int:
    """0 outside the domain, else the place in it; NULL comes last where it is declared."""
    has_null = column.null or None in (column.values or ())
    if column.values is not None:
        listed = [v for v in column.values if v is not None]
        if value is None:
            return len(listed) + 1 if has_null else 0
        same = [
            i for i, v in enumerate(listed) if v == value and isinstance(v, str) == isinstance(value, str)
        ]
        return same[0] + 1 if same else 0
    edges = column.edges or ()
    x = number(value)
    if x is None:
        return len(edges) if has_null else 0
    bins = [i for i in range(len(edges) - 1) if edges[i] < x <= edges[i + 1]]
    return bins[0] + 1 if bins else 0


def units(column: Column, value: Any) -> int | None:
    """The nearest point of the grid, halves away from zero, after clamping."""
    x = number(value)
    if x is None or column.bounds is None:
        return None
    low, high = column.bounds
    grid = column.grid
    exact = Fraction(min(max(x, low), high)) / grid.step
    nearest = int(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)
    return min(max(nearest, grid.low), grid.high)


def _scalar(column: Column, value: Any) -> Any:
    """What a filter compares with: None is SQL's NULL."""
    if column.bounds is not None:
        fixed = units(column, value)
        return None if fixed is None else fixed * column.grid.step
    if column.values is None:
        return number(value)
    place = code(column, value)
    listed = [v for v in column.values if v is not None]
    return listed[place - 1] if 1 <= place <= len(listed) else None


def _negate(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _all(truths: Iterable[bool | None]) -> bool | None:
    listed = list(truths)
    return False if False in listed else None if None in listed else True


def holds(node: Filter, row: Row, schema: Schema) -> bool | None:
    """SQL's three-valued logic."""
    match node:
        case And(parts):
            return _all(holds(p, row, schema) for p in parts)
        case Or(parts):
            return _negate(_all(_negate(holds(p, row, schema)) for p in parts))
        case Not(part):
            return _negate(holds(part, row, schema))
        case IsNull(name):
            column = schema.columns[name]
            declared_null = column.values is not None and (column.null or None in column.values)
            if declared_null:
                place = code(column, row[name])
                return None if place == 0 else row[name] is None
            return _scalar(column, row[name]) is None
        case Membership(name, values):
            return holds(Or(tuple(Comparison(name, "=", v) for v in values)), row, schema)
        case Comparison(name, operator, value):
            left = _scalar(schema.columns[name], row[name])
            right = Fraction(str(value)) if isinstance(left, Fraction) else value
            if left is None:
                return None
            return {
                "=": lambda: left == right,
                "<>": lambda: left != right,
                "<": lambda: left < right,
                "<=": lambda: left <= right,
                ">": lambda: left > right,
                ">=": lambda: left >= right,
            }[operator]()
    raise AssertionError(node)


def _measured(query: Query, row: Row, schema: Schema) -> bool:
    name = query.aggregate.column
    if name is None:
        return True
    column = schema.columns[name]
    if column.values is not None:
        return row[name] is not None and code(column, row[name]) > 0
    return number(row[name]) is not None


def expected(
    query: Query, subsets: tuple[tuple[str, ...], ...], rows: list[Row], schema: Schema
) -> dict[Cell, tuple[int, int]]:
    """Rows and sum of every non-empty cell."""
    found: dict[Cell, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        group = tuple(code(schema.columns[name], row[name]) for name in query.group_by)
        inside = 0 not in group and _measured(query, row, schema)
        if not inside or (query.where is not None and holds(query.where, row, schema) is not True):
            continue
        total = 0
        if query.aggregate.kind != "count":
            assert query.aggregate.column is not None
            total = units(schema.columns[query.aggregate.column], row[query.aggregate.column]) or 0
        for position, subset in enumerate(subsets):
            cell = found[position, group, tuple(code(schema.columns[n], row[n]) for n in subset)]
            cell[0] += 1
            cell[1] += total
    return {key: (cell[0], cell[1]) for key, cell in found.items()}


def answered(
    query: Query, subsets: tuple[tuple[str, ...], ...], grouped: Grouped
) -> dict[Cell, tuple[int, int]]:
    """An engine's answer in the oracle's form, with its shape checked on the way."""
    arrays = [*grouped.codes.values(), grouped.subset, grouped.count, grouped.total]
    assert {array.dtype.name for array in arrays} == {"int64"}
    assert len({len(array) for array in arrays}) == 1
    cells: dict[Cell, tuple[int, int]] = {}
    for i in range(len(grouped.count)):
        position = int(grouped.subset[i])
        subset = subsets[position]
        assert all(int(grouped.codes[n][i]) == 0 for s in subsets for n in s if n not in subset)
        group = tuple(int(grouped.codes[n][i]) for n in query.group_by)
        key = (position, group, tuple(int(grouped.codes[n][i]) for n in subset))
        assert key not in cells
        # An engine may list rows outside every group, and cells without rows: both are dropped later.
        if grouped.count[i] and 0 not in group:
            cells[key] = (int(grouped.count[i]), int(grouped.total[i]))
        else:
            assert grouped.count[i] or grouped.total[i] == 0
    return cells
