"""How rows fit the declarations: the kinds of misfit in each column, noisy counts of them for analysts, and
exact figures for the curator.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

from dpxplain.model.column import Column
from dpxplain.model.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DOUBLINGS = 10
_FEWEST_PARTS = 10
_DECADES = 6
_ROUND_SIZES = (10, 15, 20, 30, 50, 70)  # tenths of a power of ten


@dataclass(frozen=True)
class Partition:
    """Categories of a column's values; a row is in at most one. The first means "fits", except in bins."""

    column: str
    domain: str
    """"values", "edges", "bounds" or "bins": what the categories compare with."""
    categories: tuple[str, ...]
    edges: tuple[float, ...] = ()
    """The edges of bins. Every bin includes its upper edge, the first also its lower edge; none has NULL."""


def partitions(schema: Schema, discovered: Sequence[str] = ()) -> tuple[Partition, ...]:
    """The partitions of each declared column, then of the discovered columns that are counted too.

    A column with edges and bounds is counted by both. A request names the discovered columns, because the
    schema may gain them at any time. NULL is counted separately, whether or not it is declared
    (`declares_null`).

    Derived columns are not counted: their inferred values always fit. Where the curator declares narrower
    ones beside the expression, the quality does not show how many rows are capped or left out.
    """
    parts = []
    declared = (name for name in schema.columns if name not in schema.unknown)
    for name in (*declared, *discovered):
        column = schema.columns[name]
        if column.expression is not None:
            continue
        if column.values is not None:
            parts.append(Partition(name, "values", ("fits", "undeclared", "null")))
        if column.edges is not None:
            parts.append(Partition(name, "edges", ("fits", "below", "above", "null")))
        if column.bounds is not None:
            parts.append(Partition(name, "bounds", ("fits", "below", "above", "null")))
    return tuple(parts)


def declares_null(column: Column) -> bool:
    """Whether NULL is one of the column's declared values, so that its rows are a group of their own."""
    return None in (column.domain or ())


def unit_sizes(schema: Schema) -> tuple[int, ...]:
    """The limits of the bins in which privacy units are counted by their rows; empty if a row is the unit.

    The limits are max_rows and its doublings. Every unit is in exactly one bin, however many rows it has.
    """
    if schema.privacy.unit == "row":
        return ()
    return tuple(schema.privacy.max_rows * 2**power for power in range(_DOUBLINGS + 1))


def bins(column: str, edges: tuple[float, ...]) -> Partition:
    """The values below the first edge, in each bin, and above the last edge."""
    inner = tuple(f"up to {edge:.15g}" for edge in edges[1:])
    return Partition(column, "bins", ("below", *inner, "above"), edges)


def tuned_edges(column: Column) -> tuple[float, ...]:
    """The numbers among which the bounds of a column are chosen: its declared edges, or round numbers.

    Round numbers within the declared bounds are multiples of a step that divides them into 10 to 25 parts.
    Closer to 0 than this step, where the size of numbers is often not known beforehand, they are 1, 2 and 5
    times powers of ten.

    >>> tuned_edges(Column(bounds=[-10, 100]))[:12]
    (-10.0, -5.0, -2.0, -1.0, -0.5, -0.2, -0.1, -0.05, -0.02, -0.01, -0.005, -0.002)
    >>> tuned_edges(Column(bounds=[1901, 1925.5]))[:5], tuned_edges(Column(bounds=[0, 1], step=1))
    ((1901.0, 1902.0, 1904.0, 1906.0, 1908.0), (0.0, 1.0))
    """
    if column.bounds is None:
        return tuple(map(float, column.edges or ()))
    low, high = (Decimal(repr(float(end))) for end in column.bounds)
    sizes = _round_numbers(high - low, float(column.step or 0.0))
    step = next((size for size in sizes if (high - low) / size >= _FEWEST_PARTS), sizes[-1])
    multiples = [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]
    near_zero = [side * size for size in sizes if size < step for side in (-1, 1)]
    inside = {float(number) for number in (*multiples, *near_zero) if low < number < high}
    ends = {float(end) for end in column.bounds}
    return tuple(sorted(inside | ends))


def tuned_pairs(column: Column) -> tuple[tuple[int, int], ...]:
    """Pairs of `tuned_edges` that may become the bounds of a column; the declared bounds are one of them.

    Any other pair must enclose the declared center, values beside the bounds, and at least one step, as the
    schema requires.

    >>> tuned_pairs(Column(bounds=[0, 1], step=1)), len(tuned_pairs(Column(bounds=[0, 5], step=1)))
    (((0, 1),), 15)
    """
    edges = tuned_edges(column)
    last = len(edges) - 1
    enclosed: list[Any] = [value for value in (column.center, *(column.values or ())) if value is not None]

    def is_allowed(i: int, j: int) -> bool:
        if (i, j) == (0, last):
            return True
        is_around = (i == 0 or all(edges[i] <= value for value in enclosed)) and (
            j == last or all(edges[j] >= value for value in enclosed)
        )
        return is_around and _holds_a_step(edges[i], edges[j], column.step)

    return tuple(pair for pair in combinations(range(len(edges)), 2) if is_allowed(*pair))


def _holds_a_step(low: float, high: float, step: float | None) -> bool:
    if step is None:
        return True
    first, last = (Fraction(repr(end)) / Fraction(repr(float(step))) for end in (low, high))
    return math.ceil(first) < math.floor(last)


def _round_numbers(width: Decimal, least: float) -> list[Decimal]:
    """1, 2 and 5 times powers of ten up to a width, the largest first; none smaller than `least`."""
    powers = range(width.adjusted(), width.adjusted() - _DECADES, -1)
    numbers = [Decimal(digit).scaleb(power) for power in powers for digit in (5, 2, 1)]
    usable = [number for number in numbers if float(number) >= least and number <= width]
    return usable or [width]


def tuned_sizes(schema: Schema) -> tuple[int, ...]:
    """The numbers among which max_rows is chosen: the declared one, and round numbers below it.

    Empty if a row is the unit, or if max_rows is 1, which cannot be lowered.

    >>> privacy = {"rho": 1, "unit": "person", "max_rows": 40}
    >>> columns = {"a": {"values": ["x"]}}
    >>> tuned_sizes(Schema.load({"table": {"name": "t"}, "privacy": privacy, "columns": columns}))
    (1, 2, 3, 5, 7, 10, 15, 20, 30, 40)
    """
    most = schema.privacy.max_rows
    if schema.privacy.unit == "row" or most == 1:
        return ()
    rounded = {digits * 10**power // 10 for power in range(len(str(most))) for digits in _ROUND_SIZES}
    return (*sorted(size for size in rounded if size < most), most)


@dataclass(frozen=True)
class FitQuestion:
    """What is counted: rows by partition, and privacy units by their number of rows."""

    partitions: tuple[Partition, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of_quality(cls, schema: Schema, discovered: Sequence[str] = ()) -> FitQuestion:
        """How the rows fit the declarations."""
        return cls(partitions(schema, discovered), unit_sizes(schema))

    @classmethod
    def of_tuning(cls, schema: Schema, columns: tuple[str, ...]) -> FitQuestion:
        """Where the values of columns lie among the possible bounds."""
        return cls(
            tuple(bins(name, tuned_edges(schema.column(name))) for name in columns), tuned_sizes(schema)
        )


@dataclass(frozen=True)
class FitCounts:
    """True counts: rows by category, partition after partition; and units by their number of rows."""

    rows: NDArray[np.int64]
    units: NDArray[np.int64]


@dataclass(frozen=True)
class QualityRelease:
    """Noisy counts of rows per category and of privacy units per number of rows."""

    rho: float
    noisy_rows: tuple[float, ...]
    rows_scale: float
    noisy_units: tuple[float, ...]
    units_scale: float | None
    private: bool = True
    discovered: tuple[str, ...] = ()
    """The discovered columns that were counted, after the declared ones."""
    nulls_apart: bool = False
    """Whether a column declares NULL. Its NULLs are counted as "null", not as "fits"."""

    def to_json(self) -> str:
        left_out = {name for name in ("discovered", "nulls_apart") if not getattr(self, name)}
        return json.dumps({name: value for name, value in vars(self).items() if name not in left_out})

    @classmethod
    def from_json(cls, text: str) -> QualityRelease:
        raw = {"discovered": ()} | json.loads(text)
        lists = {name: tuple(raw[name]) for name in ("noisy_rows", "noisy_units", "discovered")}
        return cls(**(raw | lists))


@dataclass(frozen=True)
class TuningRelease:
    """Noisy histograms of columns, and of privacy units by their number of rows."""

    rho: float
    columns: tuple[str, ...]
    noisy_bins: tuple[tuple[float, ...], ...]
    """For each column, the counts below the first edge, in every bin, and above the last edge."""
    bin_edges: tuple[tuple[float, ...], ...]
    bins_scale: float | None
    noisy_units: tuple[float, ...]
    """The counts of units above the previous size and up to each size, then of units above the last size."""
    unit_sizes: tuple[int, ...]
    units_scale: float | None
    private: bool = True

    def to_json(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> TuningRelease:
        raw = json.loads(text)
        lists = {name: tuple(map(tuple, raw[name])) for name in ("noisy_bins", "bin_edges")}
        flat = {name: tuple(raw[name]) for name in ("columns", "noisy_units", "unit_sizes")}
        return cls(**(raw | lists | flat))


@dataclass(frozen=True)
class ColumnFigures:
    """How one declared column's rows fit, exactly: for the curator, NOT private."""

    rows: int
    nulls: int  # NULL, or NaN in a numeric column
    codes: Mapping[int, int]  # rows by position in the declared domain, from 1; 0: undeclared
    odd: int  # filled rows without a declared value, or without a number in a numeric column
    odd_texts: tuple[tuple[str, int], ...]  # the most frequent of them, with their rows
    numbers: NumberFigures | None = None

    @property
    def filled(self) -> int:
        return self.rows - self.nulls


@dataclass(frozen=True)
class NumberFigures:
    """The numbers of one numeric column against its bounds and edges."""

    low: float | None
    high: float | None
    mean: float | None
    below: int  # rows below the bounds, clamped to the lower one
    above: int
    clamped_mean: float | None
    under_edges: int  # rows at or below the lowest edge, outside every bin
    at_lowest_edge: int  # of these, exactly on it
    over_edges: int


@dataclass(frozen=True)
class UnitCandidate:
    """A column whose values repeat like the key of a person, for the curator: NOT private."""

    column: str
    values: int  # how many different ones
    rows: int  # rows that have a value
    most_rows: int  # rows of the value that has the most
    usual_rows: int  # a max_rows that keeps 99% of the rows


@dataclass(frozen=True)
class SourceFigures:
    """How a source fits a schema, exactly: for the curator, NOT private."""

    rows: int
    without_unit: int  # rows that name no privacy unit
    rows_per_unit: Mapping[int, int]  # number of units by their number of rows; empty if a row is the unit
    columns: Mapping[str, ColumnFigures]
    unit_candidates: tuple[UnitCandidate, ...] = ()  # looked for in files and frames if a row is the unit
