"""Influence functions that an analyst supplies, whose sensitivity is unknown or too large to be useful.

Each comes with bounds of the influences after d rows are added or removed; mechanisms then work on distances
in rows (paper, appendix on arbitrary influence functions). docs/proofs/custom-influence.md says which
condition the bounds must meet and why the paper's is not enough. A formula on ranges meets it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpxplain.explanation.cells import IntArray
from dpxplain.explanation.code_identity import code_identity
from dpxplain.explanation.influence import FloatArray, QuestionCells
from dpxplain.model.cancellation import checking
from dpxplain.model.contrast import Contrast
from dpxplain.model.schema import AggregateKind


def thresholds(smallest: float = 1e-4, largest: float = 1e4, per_sign: int = 4095) -> tuple[float, ...]:
    """Public values, dense around zero, between which an influence is located.

    By default they are 0.45% apart, less than the noise at usual prices; each halving costs one more probe
    of a search. They are rounded, because they identify a request and the last digits of NumPy's powers
    depend on the processor.

    >>> thresholds(1, 100, 4)
    (-100.0, -21.544347, -4.6415888, -1.0, 0.0, 1.0, 4.6415888, 21.544347, 100.0)
    """
    positive = [float(f"{x:.8g}") for x in np.geomspace(smallest, largest, per_sign).tolist()]
    return (*(-x for x in reversed(positive)), 0.0, *positive)


class CustomInfluence(Protocol):
    """The protocol of an analyst's influence. It runs on true counts, so it is trusted code like a mechanism.

    Influence and bounds of a predicate may depend only on the groups' totals and the predicate's own counts
    and sums; all entries of a row are computed at once. For neighbouring tables D and D' the bounds must
    nest, low(d+1; D') ≤ low(d; D) and high(d; D) ≤ high(d+1; D'), and contain the influence at d = 0. Such
    bounds hold within d changes. Bounds that hold within d changes but do not nest are not enough.
    """

    @property
    def name(self) -> str:
        """Identifies the function: the same request under the same name is answered from the ledger."""
        ...

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Increasing public values; influence intervals end at them."""
        ...

    def refusal(self, kind: AggregateKind, contrast: Contrast) -> str:
        """The reason why it does not fit the question, as a sentence; empty if it does."""
        ...

    def influence(self, cells: QuestionCells) -> FloatArray:
        """Influence of every listed predicate."""
        ...

    def bounds(self, cells: QuestionCells, d: int) -> tuple[FloatArray, FloatArray]:
        """Least and greatest influence of every listed predicate within d added or removed rows."""
        ...


@dataclass(frozen=True, eq=False)
class Range:
    """All numbers from `low` to `high`, elementwise; arithmetic on them bounds a formula over moving counts.

    A result contains the formula's value for all numbers inside the ranges, and wider ranges give wider
    results. Privacy rests on the second property (docs/proofs/custom-influence.md), which holds to the last
    bit in float64: rounding to nearest never reverses an order, and every end is the least or greatest of
    correctly rounded results.

    >>> x, y = Range.of(2, 3), Range.of(-1, 4)
    >>> x + y, x - y, x * y, y / x, 1 / y
    ([1, 7], [-2, 4], [-3, 12], [-0.5, 2], [-inf, inf])
    """

    low: FloatArray
    high: FloatArray
    __array_ufunc__ = None  # so that a NumPy number on the left calls __radd__ and the like

    def __post_init__(self) -> None:
        """Replaces a NaN end by an infinite one, so that a wider input never gives a narrower range."""
        for name, open_end in (("low", -np.inf), ("high", np.inf)):
            end = getattr(self, name)
            if np.isnan(end).any():
                object.__setattr__(self, name, np.where(np.isnan(end), open_end, end))

    @classmethod
    def of(cls, low: float, high: float) -> Range:
        return cls(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))

    def __add__(self, other: Range | float) -> Range:
        other = _range(other)
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range | float) -> Range:
        other = _range(other)
        return Range(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Range | float) -> Range:
        # 0 · ∞ is 0: an infinite end stands for arbitrarily large finite numbers.
        return self._corners(other, lambda x, y: np.where((x == 0) | (y == 0), 0.0, x * y))

    def __truediv__(self, other: Range | float) -> Range:
        other = _range(other)
        quotient = self._corners(other, np.divide)
        # A quotient by a range that contains zero, or of two unbounded ranges, may be anything.
        is_unbounded = ~(np.isfinite(self.low) & np.isfinite(self.high))
        divisor_unbounded = ~(np.isfinite(other.low) & np.isfinite(other.high))
        undefined = ((other.low <= 0) & (other.high >= 0)) | (is_unbounded & divisor_unbounded)
        return Range(np.where(undefined, -np.inf, quotient.low), np.where(undefined, np.inf, quotient.high))

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Range:
        return _range(other) - self

    def __rtruediv__(self, other: float) -> Range:
        return _range(other) / self

    def at_least(self, floor: float) -> Range:
        """The larger of each number and `floor`."""
        if not math.isfinite(floor):
            raise ValueError("at_least needs a finite number")
        return Range(np.maximum(self.low, floor), np.maximum(self.high, floor))

    def where_positive(self, condition: Range) -> Range:
        """This range where `condition` is above zero, 0 elsewhere; for quotients by a count that may be 0."""
        never, always = condition.high <= 0, condition.low > 0
        low = np.where(always, self.low, np.minimum(self.low, 0.0))
        high = np.where(always, self.high, np.maximum(self.high, 0.0))
        return Range(np.where(never, 0.0, low), np.where(never, 0.0, high))

    def _corners(self, other: Range | float, operation: Callable[..., FloatArray]) -> Range:
        other = _range(other)
        with np.errstate(all="ignore"):
            ends = [operation(x, y) for x in (self.low, self.high) for y in (other.low, other.high)]
        return Range(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def __repr__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]" if self.low.ndim == 0 else f"<Range of {self.low.shape}>"


def _range(value: Range | float) -> Range:
    if isinstance(value, Range):
        return value
    if not math.isfinite(value):
        raise ValueError("a formula may use finite numbers only")
    return Range.of(value, value)


@dataclass(frozen=True)
class Counts:
    """Ranges of row counts in tables at most d rows away, summed over the named groups.

    One row changes a sum over several groups by one, so such a sum is narrower than a sum of ranges.
    """

    cells: QuestionCells
    d: int

    def matching(self, *groups: int) -> Range:
        """Rows that satisfy the predicate; groups by their position in the question, all by default."""
        return self._around(self.cells.predicate_count, groups)

    def remaining(self, *groups: int) -> Range:
        """Rows that do not satisfy the predicate."""
        return self._around(self.cells.count[:, None] - self.cells.predicate_count, groups)

    def all(self, *groups: int) -> Range:
        """Rows with and without the predicate."""
        return self._around(self.cells.count[:, None], groups)

    def _around(self, counts: IntArray, groups: tuple[int, ...]) -> Range:
        # A row lies in one group. A group named twice would move the sum twice, but d is added only once.
        if len(set(groups)) != len(groups) or not all(0 <= g < len(counts) for g in groups):
            raise ValueError("groups are named by their position in the question, each once")
        now = (counts[list(groups)] if groups else counts).sum(axis=0).astype(np.float64)
        return Range(np.maximum(now - self.d, 0.0), now + self.d)


@dataclass(frozen=True)
class FormulaInfluence:
    """An influence given as a formula of row counts; its bounds follow, and nest, by range arithmetic.

    The formula may use + − × ÷, `at_least` and `where_positive`, and may not look inside a range.

    >>> share = FormulaInfluence("share", lambda counts: 1 / (1 + counts.remaining() / counts.matching()))
    >>> cells = QuestionCells(*(np.array(x) for x in ([0], [8], [0], [[4]], [[0]])))
    >>> share.influence(cells), share.bounds(cells, 1)
    (array([0.5]), (array([0.375]), array([0.625])))
    """

    name: str
    formula: Callable[[Counts], Range]
    thresholds: tuple[float, ...] = field(default_factory=thresholds)

    def refusal(self, kind: AggregateKind, contrast: Contrast) -> str:
        return ""

    def influence(self, cells: QuestionCells) -> FloatArray:
        low, high = self.bounds(cells, 0)
        return np.where(low == high, low, 0.0)  # a quotient by zero is unknown, and counts as 0

    def bounds(self, cells: QuestionCells, d: int) -> tuple[FloatArray, FloatArray]:
        value, shape = self.formula(Counts(cells, d)), cells.predicate_count.shape[1:]
        return np.broadcast_to(value.low, shape), np.broadcast_to(value.high, shape)


@dataclass(frozen=True)
class RatioInfluence(FormulaInfluence):
    """How much a predicate's rows raise the ratio of two groups' counts (paper, appendix).

    For counts n₁ and n₂ of which c₁ and c₂ remain without the predicate's rows:
    (share of the groups' rows that remain) · (n₁/n₂ − c₁/c₂), and 0 where c₂ = 0.

    >>> cells = QuestionCells(*(np.array(x) for x in ([0], [40, 20], [0, 0], [[20], [0]], [[0], [0]])))
    >>> RatioInfluence().influence(cells)  # 2/3 of the rows remain, and the ratio falls from 2 to 1
    array([0.66666667])
    """

    name: str = "ratio of counts"
    formula: Callable[[Counts], Range] = field(default_factory=lambda: _ratio)

    def refusal(self, kind: AggregateKind, contrast: Contrast) -> str:
        if kind != "count":
            return "The ratio influence explains a ratio of counts, but the query is not a COUNT."
        if len(contrast.weights) != 2 or not contrast.weights[0] > 0 > contrast.weights[1]:
            return "The ratio influence needs two groups: first the numerator, then the denominator."
        return ""


def is_our_own(influence: object) -> bool:
    """Whether this is the library's `RatioInfluence`; the curator must trust any other code explicitly."""
    return type(influence) is RatioInfluence and influence.formula is _ratio


def code_of(influence: object) -> str:
    """The hash of an influence's code in a request's identity; empty for the library's own.

    The byte code of a function differs between Python versions, so the library's is identified by its name.
    """
    return "" if is_our_own(influence) else code_identity(influence)


def _ratio(counts: Counts) -> Range:
    c1, c2 = counts.remaining(0), counts.remaining(1)
    divisor = c2.at_least(1)
    # n₁/n₂ − c₁/c₂ = (a₁ − a₂·c₁/c₂)/n₂: as few repeated counts as possible keep the ranges narrow.
    gap = (counts.matching(0) - counts.matching(1) * (c1 / divisor)) / counts.all(1).at_least(1)
    share = 1 / (1 + counts.matching() / counts.remaining().at_least(1))
    return (gap * share).where_positive(c2)


def with_idle(cells: QuestionCells) -> QuestionCells:
    """The cells plus a last predicate that no row satisfies; it stands for all idle ones, which are equal."""
    empty = np.zeros((len(cells.count), 1), dtype=np.int64)
    return QuestionCells(
        np.append(cells.active, -1),
        cells.count,
        cells.total,
        np.hstack([cells.predicate_count, empty]),
        np.hstack([cells.predicate_total, empty]),
    )


def widening(
    influence: CustomInfluence, cells: QuestionCells, reach: int
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Bounds for d = 0, 1, … below `reach`, made monotone in d.

    Warnings are silenced because whether a division overflows depends on the data.
    """
    shape = cells.predicate_count.shape[1:]
    lowest, highest = np.full(shape, np.inf), np.full(shape, -np.inf)
    for d in checking(range(reach)):
        with np.errstate(all="ignore"):
            low, high = influence.bounds(cells, d)
        lowest = np.minimum(lowest, np.nan_to_num(low, nan=-np.inf, posinf=np.inf, neginf=-np.inf))
        highest = np.maximum(highest, np.nan_to_num(high, nan=np.inf, posinf=np.inf, neginf=-np.inf))
        yield lowest, highest


_TABLES, _MOST_ROWS, _PREDICATES, _FURTHEST = 60, 24, 40, 4
Bounds = tuple[FloatArray, FloatArray]


def try_out(influence: CustomInfluence, groups: int, low: int, high: int) -> str:
    """Tries a custom influence on small random tables, before it sees any data; values lie in [low, high].

    Returns the first mistake as a sentence, or an empty text. Mistakes are bounds that are wrong, do not nest
    or depend on other predicates, and code that fails on empty groups. It proves nothing;
    docs/proofs/custom-influence.md says what must be proved.
    """
    random = np.random.default_rng(1)  # seeded: made-up tables to try influences on, no noise
    for table in range(_TABLES):
        rows = 1 + table % _MOST_ROWS
        group = random.integers(groups, size=rows)
        value = random.integers(low, high, size=rows, endpoint=True)
        matches = random.random((rows, _PREDICATES)) < np.linspace(0.0, 1.0, _PREDICATES)
        more = _cells(group, value, matches, groups)
        less = _cells(group[1:], value[1:], matches[1:], groups)
        try:
            with np.errstate(all="ignore"):
                problem = _compare(influence, more, less) or _compare(influence, less, more)
        except Exception as failure:
            # The rows are made up, so the message can be passed on.
            problem = f"it fails on a small table ({type(failure).__name__}: {failure})"
        if problem:
            return f"The influence {influence.name!r} cannot be used: {problem}."
    return ""


def _compare(influence: CustomInfluence, cells: QuestionCells, neighbour: QuestionCells) -> str:
    """The first rule that the influence breaks on a table and a neighbouring one, or an empty text."""
    value, shape = influence.influence(cells), cells.active.shape
    bounds = [influence.bounds(cells, d) for d in range(_FURTHEST)]
    neighbour_bounds = [influence.bounds(neighbour, d + 1) for d in range(_FURTHEST)]
    if any(np.shape(array) != shape for array in (value, *bounds[0])):
        return "influence and bounds must have one entry per predicate"
    if not np.isfinite(value).all() or any(np.isnan(end).any() for pair in bounds for end in pair):
        return "an influence must be a finite number, and a bound must not be NaN"
    if not _inside((value, value), bounds[0]):
        return "an influence lies outside its own bounds at distance 0"
    for d in range(_FURTHEST):
        if not _inside(bounds[d], neighbour_bounds[d]):
            return f"one row more or less takes the bounds at distance {d} outside those at {d + 1}"
    half = slice(len(cells.active) // 2)
    half_bounds = influence.bounds(_part(cells, half), 1)
    if not all(np.array_equal(end, whole[half]) for end, whole in zip(half_bounds, bounds[1], strict=True)):
        return "the bounds of a predicate depend on other predicates"
    return ""


def _inside(inner: Bounds, outer: Bounds) -> bool:
    return bool(np.all(outer[0] <= inner[0]) and np.all(inner[1] <= outer[1]))


def _cells(group: IntArray, value: IntArray, matches: NDArray[np.bool_], groups: int) -> QuestionCells:
    member = (group == np.arange(groups)[:, None]).astype(np.int64)
    return QuestionCells(
        np.arange(matches.shape[1]),
        member.sum(axis=1),
        member @ value,
        member @ matches,
        (member * value) @ matches,
    )


def _part(cells: QuestionCells, part: slice) -> QuestionCells:
    return QuestionCells(
        cells.active[part],
        cells.count,
        cells.total,
        cells.predicate_count[:, part],
        cells.predicate_total[:, part],
    )
