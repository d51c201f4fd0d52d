"""Influence functions that an analyst supplies, whose sensitivity is unknown or too large to be useful.

Each comes with bounds of the influences after d rows are added or removed; mechanisms then work on
distances in rows (paper, appendix on arbitrary influence functions). docs/proofs/custom-influence.md says
which condition the bounds must meet and why the paper's is not enough. A formula on ranges meets it.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import json
import math
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import ExplanationError
from dpxplain.explanation.influence import QuestionCells
from dpxplain.model.contrast import Contrast
from dpxplain.model.process import stoppable_steps
from dpxplain.model.query import AggregateKind
from dpxplain.model.release import FloatArray, IntArray
from dpxplain.privacy.mechanisms.ranking import Envelope
from dpxplain.privacy.mechanisms.samplers import FamilyScores

# -- Influence functions -----------------------------------------------------------------------------------


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
    for d in stoppable_steps(range(reach)):
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
                problem = _broken_rule(influence, more, less) or _broken_rule(influence, less, more)
        except Exception as failure:
            # The rows are made up, so the message can be passed on.
            problem = f"it fails on a small table ({type(failure).__name__}: {failure})"
        if problem:
            return f"The influence {influence.name!r} cannot be used: {problem}."
    return ""


def _broken_rule(influence: CustomInfluence, cells: QuestionCells, neighbour: QuestionCells) -> str:
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
    half_bounds = influence.bounds(_only(cells, half), 1)
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


def _only(cells: QuestionCells, at: IntArray | slice) -> QuestionCells:
    return QuestionCells(
        cells.active[at], cells.count, cells.total, cells.predicate_count[:, at], cells.predicate_total[:, at]
    )


# -- Distances ---------------------------------------------------------------------------------------------
#
# Counted in rows, to select and rank predicates by a custom influence; their sensitivity is 1.
#
# At distance d a predicate's rank lies between b(p, d), one more than the predicates certainly above it, and
# B(p, d), the predicates not certainly below it. One row shifts both by at most one step of d, so every
# "least d at which …" has sensitivity 1 (docs/proofs/custom-influence.md). Predicates that no row satisfies
# all have the same bounds, so one column stands for them.


def selection_scores(
    influence: CustomInfluence, cells: QuestionCells, k: int, size: int, reach: int
) -> FamilyScores:
    """Scores: how many rows must change before a predicate leaves the top k; negative, before it enters.

    Scores are relative to that of idle predicates, because adding a constant to all changes no choice.
    """
    idle = size - len(cells.active)
    safe = np.zeros(len(cells.active) + 1, dtype=np.int64)  # least d at which B(p, d) > k
    away = np.zeros_like(safe)  # least d at which b(p, d) ≤ k
    for low, high in widening(influence, with_idle(cells), reach):
        safe += low > _nth_highest(high, idle, k + 1)
        away += high < _nth_highest(low, idle, k)
    # The first row that pushes p out may carry it straight to the other side, hence the −1.
    scores = np.maximum(safe - 1, 0) - away
    return FamilyScores(cells.active, scores[:-1] - scores[-1], size)


def rank_envelopes(
    influence: CustomInfluence, cells: QuestionCells, chosen: list[int], size: int, reach: int
) -> list[Envelope]:
    """b(p, d) and B(p, d) of the chosen predicates, for every d below `reach`."""
    idle, at = size - len(cells.active), _listed_columns(cells, chosen)
    lowest, highest = np.empty((2, reach, len(chosen)), dtype=np.int64)
    for d, (low, high) in enumerate(widening(influence, with_idle(cells), reach)):
        listed_low, listed_high = np.sort(low[:-1]), np.sort(high[:-1])
        above = len(listed_low) - np.searchsorted(listed_low, high[at], side="right")
        below = np.searchsorted(listed_high, low[at], side="left")
        lowest[d] = 1 + above + idle * (low[-1] > high[at])
        highest[d] = size - below - idle * (high[-1] < low[at])
    return [Envelope(b, B) for b, B in zip(lowest.T, highest.T, strict=True)]


def influence_envelopes(
    influence: CustomInfluence, cells: QuestionCells, chosen: list[int], reach: int
) -> list[Envelope]:
    """Positions of the chosen influences among the thresholds: position r is the r-th gap, from 1."""
    at, ends = _listed_columns(cells, chosen), np.array(influence.thresholds, dtype=np.float64)
    lowest, highest = np.empty((2, reach, len(chosen)), dtype=np.int64)
    for d, (low, high) in enumerate(widening(influence, _only(with_idle(cells), at), reach)):
        lowest[d] = 1 + np.searchsorted(ends, low, side="right")
        highest[d] = 1 + np.searchsorted(ends, high, side="right")
    return [Envelope(b, B) for b, B in zip(lowest.T, highest.T, strict=True)]


def between(influence: CustomInfluence, positions: tuple[int, int]) -> tuple[float, float]:
    """The interval of influences that a range of positions means; infinite beyond the last threshold."""
    ends = (-np.inf, *influence.thresholds, np.inf)
    return float(ends[positions[0] - 1]), float(ends[positions[1]])


def _listed_columns(cells: QuestionCells, chosen: list[int]) -> IntArray:
    """The column of each chosen predicate; idle ones have the last column."""
    at = np.searchsorted(cells.active, chosen)
    listed = np.append(cells.active, -1)[at] == chosen
    return np.where(listed, at, len(cells.active))


def _nth_highest(values: FloatArray, idle: int, n: int) -> float:
    """The n-th highest of the family; the last value counts `idle` times, of which at most n matter."""
    family = np.append(values[:-1], np.full(min(idle, n), values[-1]))
    return float(np.partition(family, len(family) - n)[len(family) - n])


# -- Code identity -----------------------------------------------------------------------------------------
#
# A hash of an influence function: its code and every value the code computes with. It is part of a request's
# identity, so that a changed function is never answered with the release of the old one. A function that uses
# a value which cannot be serialised is refused.

_METHODS = ("refusal", "influence", "bounds")
_INTERNAL = ("_abc_impl", "_is_protocol", "_is_runtime_protocol")  # what typing adds to a class
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def code_identity(influence: object) -> str:
    """A hash, equal for influences with the same code, closures, defaults, globals and attributes."""
    serialiser = _Serialiser()
    methods = [serialiser.json(getattr(type(influence), name, None)) for name in _METHODS]
    content = [methods, serialiser.json(_state(influence))]
    if helpers := _class_attributes(type(influence)):
        content.append(serialiser.json(helpers))
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _class_attributes(kind: type) -> dict[str, Any]:
    """Constants and helper methods of the analyst's own classes, base classes included."""
    return {
        f"{base.__qualname__}.{name}": value
        for base in kind.__mro__
        if not _is_installed(base.__module__, getattr(sys.modules.get(base.__module__), "__file__", None))
        for name, value in vars(base).items()
        if name not in _INTERNAL
        and not (name.startswith("__") and name.endswith("__") and name != "__call__")
        if not isinstance(value, MemberDescriptorType)
    }


def _is_installed(module: str, file: str | None) -> bool:
    """Whether code belongs to Python, an installed package or this library; its name then identifies it."""
    return module == "builtins" or module.startswith("dpxplain.") or (file or "").startswith(_INSTALLED)


def _state(value: Any) -> dict[str, Any]:
    names = [part.name for part in fields(value)] if is_dataclass(value) else []
    return {name: getattr(value, name) for name in names} | dict(getattr(value, "__dict__", {}))


class _Serialiser:
    """Turns values into JSON; a function that refers to itself is written once and then by its number."""

    def __init__(self) -> None:
        self._functions: list[Any] = []

    def json(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes, Fraction, Decimal, range):
            return [kind.__name__, repr(value)]
        if kind in (tuple, list):
            return [kind.__name__, self._all(value)]
        if kind in (set, frozenset):
            return [kind.__name__, sorted(self._all(value), key=json.dumps)]
        if kind is dict:
            return ["dict", self._all(value.items())]
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            return ["array", value.dtype.str, list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
        if isinstance(value, CodeType):
            names = map(list, (value.co_names, value.co_varnames, value.co_freevars))
            byte_code = value.co_code.hex(), value.co_exceptiontable.hex()
            return ["code", *byte_code, self._all(value.co_consts), *names]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return ["method", self.json(value.__func__), self.json(value.__self__)]
        if isinstance(value, staticmethod | classmethod):
            return [kind.__name__, self.json(value.__func__)]
        if isinstance(value, property | functools.cached_property):
            return ["property", self.json(value.fget if isinstance(value, property) else value.func)]
        if isinstance(value, functools.partial):
            return ["partial", self.json(value.func), self.json(value.args), self.json(value.keywords)]
        if isinstance(value, ModuleType | type | BuiltinFunctionType | np.ufunc):
            return ["name", getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)]
        if is_dataclass(value):
            return [kind.__module__, kind.__qualname__, self.json(_state(value))]
        raise ExplanationError(
            f"An influence function must not use a {kind.__name__}: DPXPlain could not detect changes to it.",
            remedy="Use only numbers, strings, lists, arrays and functions.",
        )

    def _all(self, values: Iterable[Any]) -> list[Any]:
        return [self.json(value) for value in values]

    def _function(self, function: FunctionType) -> Any:
        code, closure = function.__code__, function.__closure__ or ()
        if _is_installed(function.__module__, code.co_filename):
            return ["name", function.__module__, function.__qualname__]
        if function in self._functions:
            return ["again", self._functions.index(function)]
        self._functions.append(function)
        used_globals = {
            name: function.__globals__[name] for name in _globals(code) if name in function.__globals__
        }
        return [
            "function",
            self.json(code),
            self._all((function.__defaults__, function.__kwdefaults__)),
            self._all(_content(cell) for cell in closure),
            self.json(used_globals),
        ]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def _globals(code: CodeType) -> list[str]:
    """The global names that the code reads, inner functions included."""
    read = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = (name for part in code.co_consts if isinstance(part, CodeType) for name in _globals(part))
    return sorted({*read, *inner})
