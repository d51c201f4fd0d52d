"""The predicates that may explain a gap: a family, numbered 0..size-1 without being listed.

It is made of parts, each over one set of columns: `Conjunctions` are all combinations of declared values,
`Listed` are arbitrary conditions. The overlap that sensitivities need, the most predicates one row can
satisfy (t in docs/specification.md, definitions), follows from the parts' structure alone.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from functools import cache, reduce
from operator import and_, or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import ExplanationError
from dpxplain.model.column import Bin, DomainValue, comparable, edge_text
from dpxplain.model.expression import COMPARE
from dpxplain.model.process import cached_property
from dpxplain.model.query import (
    And,
    Comparison,
    Condition,
    Filter,
    FilterPredicate,
    IsNull,
    Membership,
    Not,
    Or,
    Predicate,
    identity,
)
from dpxplain.model.release import BoolArray, IntArray
from dpxplain.model.schema import Schema

# -- Families ----------------------------------------------------------------------------------------------
#
# The columns of a part split the rows into cells: one per combination of declared values, and others for rows
# with undeclared values. `Conjunctions` has one such cell, its last. `Listed` has one per combination of
# codes, code 0 included, since a disjunction may hold where one of its columns is undeclared.

_CODE = np.dtype(np.int32)
PART_BYTES, CONDITION_BYTES = 600, 400  # of Python objects, identities included


@dataclass(frozen=True)
class Conjunctions:
    """All predicates `column = value AND ...` over the columns' declared values."""

    schema: Schema
    columns: tuple[str, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(self.schema.domain(name)) for name in self.columns)

    @property
    def size(self) -> int:
        """The number of predicates."""
        return math.prod(self.shape)

    @property
    def overlap(self) -> int:
        """The most of the predicates that one row can satisfy."""
        return 1

    def predicate(self, index: int) -> Predicate:
        codes = np.unravel_index(index, self.shape)
        return Predicate(
            tuple(
                Condition(name, self.schema.domain(name)[int(code)])
                for name, code in zip(self.columns, codes, strict=True)
            )
        )

    def satisfied(self, codes: list[IntArray]) -> tuple[IntArray, IntArray]:
        """Pairs (row, predicate): which predicates the rows with these codes satisfy."""
        declared = np.flatnonzero(np.logical_and.reduce([column > 0 for column in codes]))
        return declared, np.ravel_multi_index([column[declared] - 1 for column in codes], self.shape)

    def sums(self, cells: IntArray) -> IntArray:
        """Sums by (group, predicate) of the values of all cells; axes: groups, then codes, 0 included.

        The work does not depend on the values.
        """
        declared = (slice(None), *(slice(1, None) for _ in self.columns))
        return cells[declared].reshape(len(cells), self.size)

    def partition(self, cells: IntArray) -> IntArray:
        """The same values by group and cell, (groups, self.cells), in the order of `cell_of`."""
        declared = self.sums(cells)
        undeclared = cells.reshape(len(cells), -1).sum(axis=1) - declared.sum(axis=1)
        return np.hstack([declared, undeclared[:, None]])

    def identity(self) -> object:
        """Equal for equal parts; part of a request's identity."""
        return ["conjunctions", list(self.columns)]

    @property
    def bytes(self) -> int:
        """Its size in memory once it is tabulated; computed without tabulating it."""
        return PART_BYTES

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.size + 1

    def cell_of(self, codes: list[IntArray]) -> IntArray:
        """The cell of each row with these codes; the last cell has the rows with an undeclared value."""
        rows, index = self.satisfied(codes)
        cell: IntArray = np.full(len(codes[0]), self.size, dtype=np.int64)
        cell[rows] = index
        return cell

    def cells_of(self, index: int) -> list[int]:
        """The cells whose rows satisfy a predicate."""
        return [index]


@dataclass(frozen=True)
class Listed:
    """Conditions on the same columns, each the set of declared cells where it holds.

    Its methods are those of `Conjunctions`.

    >>> from dpxplain.model.query import Comparison
    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"age": {"edges": [0, 30, 60, 90]}}})
    >>> part = Listed(schema, ("age",), (Comparison("age", ">", 30), Comparison("age", ">", 60)))
    >>> part.overlap
    2
    """

    schema: Schema
    columns: tuple[str, ...]
    conditions: tuple[Filter, ...]

    @property
    def size(self) -> int:
        return len(self.conditions)

    @property
    def overlap(self) -> int:
        return int(np.diff(self._starts).max(initial=0))

    def predicate(self, index: int) -> FilterPredicate:
        return FilterPredicate(self.conditions[index])

    def satisfied(self, codes: list[IntArray]) -> tuple[IntArray, IntArray]:
        cell = np.ravel_multi_index(codes, self._shape)
        start = self._starts[cell]
        number = self._starts[cell + 1] - start
        rows = np.repeat(np.arange(len(cell)), number)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number)
        predicates: IntArray = self._predicates[np.repeat(start, number) + within].astype(np.int64)
        return rows, predicates

    @property
    def cells(self) -> int:
        return math.prod(self._shape)

    def cell_of(self, codes: list[IntArray]) -> IntArray:
        last = [(column - 1) % size for column, size in zip(codes, self._shape, strict=True)]
        return np.ravel_multi_index(last, self._shape)  # code 0 goes last, so the last cell is undeclared

    def cells_of(self, index: int) -> list[int]:
        holds = self._truth.cells(self.conditions[index])
        for axis in range(holds.ndim):
            holds = np.roll(holds, -1, axis=axis)
        cells: list[int] = np.flatnonzero(holds).tolist()
        return cells

    def nested_with(self, index: int) -> BoolArray:
        """Which conditions imply this one, or are implied by it; itself included."""
        own = self._packed[index]
        common = self._packed & own
        return np.asarray((common == own).all(axis=1) | (common == self._packed).all(axis=1))

    @cached_property
    def _packed(self) -> NDArray[np.uint8]:
        """The cells of every condition, eight to a byte."""
        return np.array([np.packbits(self._truth.cells(condition)) for condition in self.conditions])

    def sums(self, cells: IntArray) -> IntArray:
        flat = cells.reshape(len(cells), -1)
        cell, predicate = np.repeat(np.arange(self.cells), np.diff(self._starts)), self._predicates
        added: IntArray = np.zeros((len(cells), self.size), dtype=np.int64)
        for group, values in zip(added, flat, strict=True):
            np.add.at(group, predicate, values[cell])
        return added

    def partition(self, cells: IntArray) -> IntArray:
        axes = tuple(range(1, cells.ndim))
        return np.roll(cells, -1, axis=axes).reshape(len(cells), -1)  # code 0 goes last

    def identity(self) -> object:
        return ["listed", list(self.columns), [identity(condition) for condition in self.conditions]]

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        """Codes per column, 0 included: a disjunction may hold where one of its columns is undeclared."""
        return tuple(len(self.schema.domain(name)) + 1 for name in self.columns)

    @cached_property
    def _truth(self) -> TruthTable:
        return TruthTable(self.columns, self.schema)

    @property
    def comparisons(self) -> int:
        """The number of (cell, condition) pairs to look at when the part is tabulated."""
        return self.cells * self.size

    @property
    def bytes(self) -> int:
        # Looks at one condition at a time, so that this itself needs little memory.
        packed = self.comparisons // 8 + self.size
        tabulated = _CODE.itemsize * (self.cells + 1 + self._pairs)
        return PART_BYTES + CONDITION_BYTES * self.size + packed + tabulated

    @cached_property
    def _pairs(self) -> int:
        """The number of (cell, predicate) where the predicate holds."""
        return sum(int(np.count_nonzero(self._truth.cells(condition))) for condition in self.conditions)

    @cached_property
    def _starts(self) -> NDArray[np.int32]:
        """Where the predicates of each cell begin, and the end of the last."""
        starts = np.zeros(self.cells + 1, dtype=_CODE)
        for condition in self.conditions:
            starts[1:] += self._truth.cells(condition).ravel()
        return np.cumsum(starts, dtype=_CODE, out=starts)

    @cached_property
    def _predicates(self) -> NDArray[np.int32]:
        """The predicates that hold in each cell, by cell."""
        predicates, ends = np.empty(self._pairs, dtype=_CODE), self._starts[:-1].copy()
        for number, condition in enumerate(self.conditions):
            holds = self._truth.cells(condition).ravel()
            predicates[ends[holds]] = number
            ends[holds] += 1
        return predicates


Part = Conjunctions | Listed


@dataclass(frozen=True)
class PredicateFamily:
    """The predicates of all parts, one part after the other.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [0, 30, 60]}}})
    >>> family = PredicateFamily.conjunctions(schema, ("sex", "age"), 2)
    >>> family.size, family.overlap, str(family.predicate(1))
    (4, 1, "sex = 'F' AND age > 30 AND age <= 60")
    """

    schema: Schema
    parts: tuple[Part, ...]

    @classmethod
    def conjunctions(cls, schema: Schema, attributes: tuple[str, ...], *conjuncts: int) -> PredicateFamily:
        """All conjunctions of `conjuncts` equalities over the attributes; several sizes may be given."""
        subsets = (subset for size in conjuncts for subset in itertools.combinations(attributes, size))
        return cls(schema, tuple(Conjunctions(schema, subset) for subset in subsets))

    @property
    def subsets(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each part."""
        return tuple(part.columns for part in self.parts)

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Number of each part's first predicate; the last entry is the family's size."""
        return (0, *itertools.accumulate(part.size for part in self.parts))

    @property
    def size(self) -> int:
        return self.offsets[-1]

    @property
    def overlap(self) -> int:
        """The most predicates that one row can satisfy."""
        return max(1, sum(part.overlap for part in self.parts))  # conditions may hold nowhere at all

    @property
    def bytes(self) -> int:
        """The size of its parts in memory once they are tabulated."""
        return sum(part.bytes for part in self.parts)

    @cached_property
    def key(self) -> str:
        """Equal for equal families."""
        return json.dumps([part.identity() for part in self.parts])

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each part, by its identity."""
        return {json.dumps(part.identity()): number for number, part in enumerate(self.parts)}

    def place(self, index: int) -> tuple[int, int]:
        """The part of a predicate, and its number within the part."""
        number = int(np.searchsorted(self.offsets, index, side="right")) - 1
        return number, index - self.offsets[number]

    def predicate(self, index: int) -> Predicate | FilterPredicate:
        number, within = self.place(index)
        return self.parts[number].predicate(within)


# -- Truth tables ------------------------------------------------------------------------------------------
#
# Which declared cells satisfy a condition, decided from the schema alone.
#
# A predicate is true, false or unknown for every combination of codes: unknown where a value is outside its
# domain (code 0), as in SQL. Only cells where it is true satisfy it, so an undeclared value satisfies
# neither a condition nor its negation (docs/specification.md, declared domains).


class TruthTable:
    """Evaluates conditions on some columns; each comparison is evaluated once and cached.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"age": {"edges": [0, 30, 60, 90]}}})
    >>> TruthTable(("age",), schema).cells(Comparison("age", ">", 30)).tolist()
    [False, False, True, True]
    """

    def __init__(self, columns: tuple[str, ...], schema: Schema) -> None:
        self.columns = columns
        self.schema = schema
        self._comparison = cache(lambda node: self._along(node.column, self._tests(node)))

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
                        remedy=f"Leave out IS NULL. The curator can declare null = true for {name}.",
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
        return COMPARE[operator](comparable(cell), comparable(value))
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
