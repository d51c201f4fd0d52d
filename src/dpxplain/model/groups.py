"""The declared groups of a query, numbered. Each is measured, and shown unless the WHERE excludes it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import accumulate, islice, product
from operator import and_, or_
from typing import Any

import numpy as np

from dpxplain.errors import QueryRefused, QuestionError
from dpxplain.model.column import Bin, Column, DomainValue, comparable, label
from dpxplain.model.expression import (
    COMPARE,
    OPPOSITES,
    Among,
    Compared,
    ComparisonOperator,
    Constant,
    Every,
    Expression,
    Missing,
    Opposite,
    OutputFormula,
    Reference,
    Some,
    read_expression,
    sql_of,
)
from dpxplain.model.hardening import did_you_mean
from dpxplain.model.process import cached_property
from dpxplain.model.query import (
    And,
    Comparison,
    Filter,
    IsNull,
    Membership,
    Not,
    Or,
    Output,
    Presentation,
    Query,
    Subsets,
)
from dpxplain.model.release import BoolArray, IntArray
from dpxplain.model.schema import Schema, SchemaKey

# -- Possible groups ---------------------------------------------------------------------------------------
#
# Which declared groups can have rows under a WHERE, decided from the declarations alone.
#
# A condition on a group-by column may be true, false or unknown for the rows of a group. A condition on any
# other column may be anything. A group is ruled out only if no combination of these makes the WHERE true.

Outcomes = tuple[bool, bool]  # whether a condition may be true, and whether it may be false
_ANYTHING: Outcomes = (True, True)
_UNKNOWN: Outcomes = (False, False)


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
    may_hold, _ = _WhereOutcomes(query.group_by, schema).of(query.where)
    return None if may_hold.all() else np.broadcast_to(may_hold, shape).reshape(-1)


@dataclass(frozen=True)
class _WhereOutcomes:
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


def _compared(value: DomainValue, operator: ComparisonOperator, constant: Any, column: Column) -> Outcomes:
    if isinstance(value, Bin):
        return _Span.of(value, column).compared(operator, comparable(constant))
    holds = COMPARE[operator](comparable(value), comparable(constant))
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

    def compared(self, operator: ComparisonOperator, constant: Any) -> Outcomes:
        match operator:
            case "<":
                return self.low < constant, self.high >= constant
            case "<=":
                return self._reaches_down_to(constant), self.high > constant
            case "=":
                is_inside = self._reaches_down_to(constant) and constant <= self.high
                return is_inside, True
        may_fail, may_hold = self.compared(OPPOSITES[operator], constant)
        return may_hold, may_fail

    def _reaches_down_to(self, constant: Any) -> bool:
        return bool(self.low < constant or (self.has_low and self.low == constant))


# -- Groups ------------------------------------------------------------------------------------------------

LARGEST_ANSWER = 1_000_000
JOINT = ", "  # between the values of a group of several columns, as it is printed
ALL_ROWS = "all rows"  # the one group of a query without GROUP BY
_JOINTS = (JOINT, "→", "->", " / ", ",")  # earlier versions printed or advised the others
_MOST_EXAMPLES = 12  # groups or values named in a refusal
_SPARE_JOINTS = 64  # the most inside values; a text with more names no group


def group_label(key: Iterable[DomainValue]) -> str:
    """A group as text for people; the one group of a query without GROUP BY is all rows."""
    return JOINT.join(map(label, key)) or ALL_ROWS


@dataclass(frozen=True)
class Groups:
    """All combinations of the group-by columns' declared values, the last column fastest.

    >>> from dpxplain.model.query import Aggregate
    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [0, 30, 60]}}})
    >>> groups = Groups.of(Query("t", ("sex", "age"), Aggregate("count")), schema)
    >>> groups.size, groups.label(1), groups.find(("F", "(30, 60]"))
    (4, 'F, (30, 60]', 1)
    """

    columns: tuple[str, ...]
    domains: tuple[tuple[DomainValue, ...], ...]
    declared: tuple[Column, ...] = field(compare=False)
    possible: BoolArray | None = field(default=None, compare=False)
    """Per group, whether the WHERE leaves it any rows; None if it does so for all groups."""

    @classmethod
    def of(cls, query: Query, schema: Schema) -> Groups:
        declared = tuple(map(schema.column, query.group_by))
        groups = cls(query.group_by, tuple(map(schema.domain, query.group_by)), declared)
        if groups.size > LARGEST_ANSWER:
            raise QueryRefused(
                f"GROUP BY {', '.join(query.group_by)} makes {groups.size:,} groups; one query can have "
                f"{LARGEST_ANSWER:,} at most.",
                remedy="Group by fewer columns.",
            )
        return replace(groups, possible=possible_groups(query, schema))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(domain) for domain in self.domains)

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def keys(self) -> Iterator[tuple[DomainValue, ...]]:
        """The values of all groups in their order: `key` of each, in one go."""
        return product(*self.domains)

    @property
    def labels(self) -> Iterator[str]:
        """The texts of all groups in their order: `label` of each, in one go."""
        return (
            JOINT.join(key) or ALL_ROWS for key in product(*(map(label, domain) for domain in self.domains))
        )

    @cached_property
    def remaining(self) -> Sequence[int]:
        """The numbers of the groups that the WHERE leaves: the ones that are shown."""
        return range(self.size) if self.possible is None else np.flatnonzero(self.possible).tolist()

    @property
    def value_labels(self) -> list[str]:
        """What the shown groups of a single column stand for, where labels are declared."""
        if len(self.columns) != 1:
            return []
        labels = (self.declared[0].value_label(self.domains[0][index]) for index in self.remaining)
        return [text for text in labels if text]

    @property
    def first(self) -> int:
        """The number of the first group that is shown, to be named in examples."""
        return next(iter(self.remaining), 0)

    @property
    def has_null(self) -> bool:
        """Whether None names a group, rather than the absence of one."""
        if len(self.columns) != 1 or None not in self.domains[0]:
            return False
        return self.possible is None or bool(self.possible[self.domains[0].index(None)])

    def key(self, index: int) -> tuple[DomainValue, ...]:
        """The values of one group, one per group-by column."""
        if not 0 <= index < self.size:
            raise ValueError("There is no group of that number.")
        codes = [self._code(index, place) for place in range(len(self.shape))]
        return tuple(domain[code] for domain, code in zip(self.domains, codes, strict=True))

    def _code(self, index: int, place: int) -> int:
        """Which value of the column at `place` a group has; the last column changes fastest."""
        return index // math.prod(self.shape[place + 1 :]) % self.shape[place]

    def label(self, index: int) -> str:
        return group_label(self.key(index))

    def arranged(
        self,
        presentation: Presentation,
        values: Callable[[OutputFormula], Sequence[float]],
        among: Iterable[int] | None = None,
    ) -> list[int]:
        """The groups after ORDER BY and LIMIT, which act on the noisy `values`.

        A group whose value is NaN comes last, because nothing is known about it.
        """
        order = list(self.remaining if among is None else among)
        for key in reversed(presentation.order):
            output = presentation.outputs[key.output] if isinstance(key.output, int) else key.output
            if isinstance(output, Output) and output.column is not None:
                column = self.columns.index(output.column)
                places: Sequence[float] = [self._code(index, column) for index in range(self.size)]
            else:
                places = values(output.value if isinstance(output, Output) else output)
            order.sort(key=places.__getitem__, reverse=key.descending)
            order.sort(key=lambda group, places=places: math.isnan(places[group]))  # type: ignore[misc]
        return order[: presentation.limit]

    @cached_property
    def _codes(self) -> tuple[dict[object, int], ...]:
        """Per column, the code of each value, printed text and label. Values take precedence over texts."""
        tables: list[dict[object, int]] = []
        for domain, column in zip(self.domains, self.declared, strict=True):
            codes: dict[object, int] = {label(value): code for code, value in enumerate(domain)}
            codes.update((value, code) for code, value in enumerate(domain))
            labels = [column.value_label(value) for value in domain]
            counts = Counter(labels)
            for code, (value, text) in enumerate(zip(domain, labels, strict=True)):
                if text:
                    codes.setdefault(column.text(value), code)
                if text and counts[text] == 1:
                    codes.setdefault(text, code)
            tables.append(codes)
        return tuple(tables)

    def find(self, address: object) -> int:
        """The number of the group that a person names: as printed, by values or labels, or by a JSON array.

        Refuses a group that the WHERE excludes.
        """
        if not self.columns:
            if address in ((), None, ALL_ROWS):
                return 0
            raise QuestionError("This answer has only one group.", remedy="Name it 'all rows'.")
        parts = self._parts(address)
        if len(parts) != len(self.columns):
            values = "1 value" if len(self.columns) == 1 else f"{len(self.columns)} values"
            sample = tuple(label(v) if isinstance(v, Bin) else v for v in self.key(self.first))
            given = f"{len(parts)} {'was' if len(parts) == 1 else 'were'} given"
            raise QuestionError(
                f"A group of this answer has {values} ({', '.join(self.columns)}); {given}.",
                remedy=f"Write it as it is printed, {self.label(self.first)!r}, or as a tuple, {sample!r}.",
            )
        index = 0
        for place, (part, codes) in enumerate(zip(parts, self._codes, strict=True)):
            if not isinstance(part, str | int | float | date | Bin | None) or part not in codes:
                raise self._unknown_value(part, place)
            index = index * self.shape[place] + codes[part]
        if self.possible is not None and not self.possible[index]:
            raise QuestionError(
                f"The WHERE condition excludes {self.label(index)}, so this group has no rows.",
                remedy=f"Choose one of: {_examples(map(self.label, self.remaining))}",
            )
        return index

    def _unknown_value(self, part: object, place: int) -> QuestionError:
        """The error for a part of an address that names no value, or several, of the column at `place`."""
        name, column, domain = self.columns[place], self.declared[place], self.domains[place]
        same = [value for value in domain if part and column.value_label(value) == part]
        if same:
            return QuestionError(
                f"{part!r} is the label of several values of {name}: {', '.join(map(label, same))}.",
                remedy="Name the value itself.",
            )
        known_texts = ["NULL" if known is None else str(known) for known in self._codes[place]]
        hint = did_you_mean(str(part), known_texts)
        return QuestionError(
            f"{part!r} is not one of the values of {name}.",
            remedy=hint or f"Choose one of: {_examples(map(column.text, self._remaining_values(place)))}",
        )

    def _remaining_values(self, place: int) -> list[DomainValue]:
        """The values of a column that occur in the groups that the WHERE leaves."""
        if self.possible is None:
            return list(self.domains[place])
        others = tuple(axis for axis in range(len(self.shape)) if axis != place)
        codes = np.flatnonzero(self.possible.reshape(self.shape).any(axis=others))
        return [self.domains[place][code] for code in codes]

    def written(self, index: int) -> str:
        """The group as text that `find` reads: as printed, or as a JSON array if that is ambiguous."""
        printed = self.label(index)
        try:
            if self.find(printed) == index:
                return printed
        except QuestionError:  # several groups print alike
            pass
        values = [label(value) if isinstance(value, Bin) else value for value in self.key(index)]
        return json.dumps(values, ensure_ascii=False)

    def _parts(self, address: object) -> tuple[object, ...]:
        """The values that an address names, one per column if it is valid."""
        if isinstance(address, tuple | list):
            return tuple(address)
        if not isinstance(address, str) or (len(self.columns) == 1 and address in self._codes[0]):
            return (address,)
        if (array := _json_array(address)) is not None:
            return array
        return (address,) if len(self.columns) == 1 else self._split(address)

    def _split(self, address: str) -> tuple[str, ...]:
        """Splits one text that names a group of several columns, such as 'Queens, Brooklyn'."""
        for joint in _JOINTS:
            readings = self._readings(address.split(joint), joint)
            if len(readings) > 1:
                raise QuestionError(
                    f"{address!r} could be more than one group of this answer.",
                    remedy=f"Name the values as a tuple or a JSON array: {json.dumps(readings[0])}",
                )
            if readings:
                return readings[0]
        # No declared group: a part is misspelt, or there are too few or too many. `find` reports it.
        wrong = (address.split(joint) for joint in _JOINTS)
        return next((tuple(map(str.strip, p)) for p in wrong if len(p) == len(self.columns)), (address,))

    def _readings(self, pieces: Sequence[str], joint: str) -> list[tuple[str, ...]]:
        """Ways to read the pieces as one declared value per column, two at most; values may hold joints."""
        if not len(self.columns) <= len(pieces) <= len(self.columns) + _SPARE_JOINTS:
            return []
        readings: dict[int, list[tuple[str, ...]]] = {0: [()]}  # by the number of pieces read
        for codes in self._codes:
            longer: dict[int, list[tuple[str, ...]]] = {}
            for start, before in readings.items():
                for end in range(start + 1, len(pieces) + 1):
                    part = joint.join(pieces[start:end]).strip()
                    if part in codes:
                        longer.setdefault(end, []).extend((*reading, part) for reading in before)
            readings = {end: several[:2] for end, several in longer.items()}
        return readings.get(len(pieces), [])


def _json_array(text: str) -> tuple[object, ...] | None:
    if not text.startswith("["):
        return None
    try:
        array = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple(array) if isinstance(array, list) else None


def _examples(texts: Iterable[str]) -> str:
    first = list(islice(texts, _MOST_EXAMPLES + 1))
    return ", ".join(first[:_MOST_EXAMPLES]) + (", ..." if len(first) > _MOST_EXAMPLES else ".")


# -- Grouped pass ------------------------------------------------------------------------------------------
#
# The result of one grouped pass over the data, in codes and whole numbers.
#
# Code 0 means outside the declared domain, code i the i-th declared value.

BIN = "(bin)"
"""The key of the bins in the codes of a histogram's pass; no declared column has this name."""

MOST_CELLS = 2**23  # the most that are counted in dense arrays: 128 MB of counts and sums


def cell_count(group_by: Sequence[str], subsets: Subsets, sizes: Mapping[str, int]) -> int:
    """The number of cells in all subsets, including code 0; `sizes` says how many codes each column has."""
    groups = math.prod(sizes[name] for name in group_by)
    return groups * sum(math.prod(sizes[name] for name in subset) for subset in subsets)


def cell_starts(subsets: Subsets, sizes: Mapping[str, int]) -> list[int]:
    """The number of each subset's first cell, where the cells of all subsets are numbered from 0.

    >>> cell_starts([("a",), ("a", "b"), ("b",)], {"a": 3, "b": 2})
    [0, 3, 9]
    """
    cells = [math.prod(sizes[name] for name in subset) for subset in subsets]
    return list(accumulate(cells[:-1], initial=0))


@dataclass(frozen=True)
class Grouped:
    """One array entry per non-empty cell.

    Codes are in a mapping of their own, because a declared column may be called `count` or `total`.
    """

    codes: Mapping[str, IntArray]  # by group-by column and attribute; 0 where not part of the subset
    subset: IntArray  # the position of the cell's attribute subset
    count: IntArray
    total: IntArray  # the sum in grid units; 0 for COUNT


@dataclass(frozen=True)
class Block:
    """Counts and sums of every cell of some columns, empty ones too; axis i has the codes of column i."""

    columns: tuple[str, ...]
    count: IntArray
    total: IntArray | None  # None for COUNT, which adds nothing up


@dataclass(frozen=True)
class DenseGrouped:
    """One block per subset, over the group-by columns and the subset's. Its size says nothing about the rows.

    The properties list the non-empty cells, as in a `Grouped`.
    """

    blocks: tuple[Block, ...]

    @property
    def codes(self) -> Mapping[str, IntArray]:
        return self._occupied.codes

    @property
    def subset(self) -> IntArray:
        return self._occupied.subset

    @property
    def count(self) -> IntArray:
        return self._occupied.count

    @property
    def total(self) -> IntArray:
        return self._occupied.total

    @cached_property
    def _occupied(self) -> Grouped:
        occupied = [np.flatnonzero(block.count) for block in self.blocks]
        starts = np.cumsum([0, *map(len, occupied)])
        names = dict.fromkeys(name for block in self.blocks for name in block.columns)
        codes: dict[str, IntArray] = {name: np.zeros(starts[-1], dtype=np.int64) for name in names}
        for cells, block, start in zip(occupied, self.blocks, starts, strict=False):
            rest = cells.astype(np.int32)
            for name, size in zip(reversed(block.columns), reversed(block.count.shape), strict=True):
                rest, codes[name][start : start + len(cells)] = np.divmod(rest, size)
        pairs = list(zip(self.blocks, occupied, strict=True))
        return Grouped(
            codes,
            np.repeat(np.arange(len(occupied)), [len(cells) for cells in occupied]),
            np.concatenate([block.count.ravel()[cells] for block, cells in pairs]),
            np.concatenate(
                [
                    np.zeros(len(cells), np.int64) if block.total is None else block.total.ravel()[cells]
                    for block, cells in pairs
                ]
            ),
        )


AnyGrouped = Grouped | DenseGrouped
