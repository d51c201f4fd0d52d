"""Influence functions of the analyst's own, whose sensitivity is unknown or too large to be of use.

Such a function comes with bounds of what each influence can become when d rows come or go. Distances in rows
then take the place of differences of influence (paper, appendix on arbitrary influence functions). What
the bounds must satisfy for this to be private, and why the paper's "loose bounds will do" is not enough, is
in docs/proofs/custom-influence.md; a formula on ranges satisfies it by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dpxplain.explanation.cells import IntArray
from dpxplain.explanation.code_identity import code_identity
from dpxplain.explanation.influence import FloatArray, QuestionCells
from dpxplain.explanation.ranges import Range
from dpxplain.model.cancellation import checking
from dpxplain.model.contrast import Contrast
from dpxplain.model.schema import AggregateKind


def thresholds(smallest: float = 1e-4, largest: float = 1e4, per_sign: int = 127) -> tuple[float, ...]:
    """Public values, dense around zero, between which an influence is located.

    >>> thresholds(1, 100, 3)
    (-100.0, -10.0, -1.0, 0.0, 1.0, 10.0, 100.0)
    """
    positive = np.geomspace(smallest, largest, per_sign).tolist()
    return (*(-x for x in reversed(positive)), 0.0, *positive)


class CustomInfluence(Protocol):
    """What an analyst supplies. It runs on true counts, so it is trusted code like a mechanism.

    Influence and bounds of a predicate may depend on the groups' totals and the predicate's own counts and
    sums, on nothing else; all entries of a row are computed at once. For neighbouring tables D and D' the
    bounds must nest, low(d+1; D') ≤ low(d; D) and high(d; D) ≤ high(d+1; D'), and contain the influence at
    d = 0. That they hold within d changes follows; that they merely hold does not suffice.
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
        """Why it does not fit the question, as a sentence; empty if it does."""
        ...

    def influence(self, cells: QuestionCells) -> FloatArray:
        """Influence of every listed predicate."""
        ...

    def bounds(self, cells: QuestionCells, d: int) -> tuple[FloatArray, FloatArray]:
        """Least and greatest influence of every listed predicate within d added or removed rows."""
        ...


@dataclass(frozen=True)
class Counts:
    """Row counts that up to d rows more or less can lead to, summed over the groups named.

    One row changes a sum of counts by one however many groups it spans, so ask for sums, do not add up.
    """

    cells: QuestionCells
    d: int

    def matching(self, *groups: int) -> Range:
        """Rows that satisfy the predicate; groups by their position in the question, all by default."""
        return self._around(self.cells.predicate_count, groups)

    def remaining(self, *groups: int) -> Range:
        """Rows that do not."""
        return self._around(self.cells.count[:, None] - self.cells.predicate_count, groups)

    def all(self, *groups: int) -> Range:
        """Rows of either kind."""
        return self._around(self.cells.count[:, None], groups)

    def _around(self, counts: IntArray, groups: tuple[int, ...]) -> Range:
        # A row lies in one group: named twice it would move the sum twice, but d is added once.
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
        found, shape = self.formula(Counts(cells, d)), cells.predicate_count.shape[1:]
        return np.broadcast_to(found.low, shape), np.broadcast_to(found.high, shape)


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
            return "The ratio influence needs two groups: what is divided, then what it is divided by."
        return ""


def is_our_own(influence: object) -> bool:
    """Whether it is the library's code; any other runs on true counts, and must be trusted by the curator."""
    return type(influence) is RatioInfluence and influence.formula is _ratio


def code_of(influence: object) -> str:
    """What tells two influences of one name apart; ours is known by its name, whatever Python compiles it."""
    return "" if is_our_own(influence) else code_identity(influence)


def _ratio(counts: Counts) -> Range:
    c1, c2 = counts.remaining(0), counts.remaining(1)
    divisor = c2.at_least(1)
    # n₁/n₂ − c₁/c₂ = (a₁ − a₂·c₁/c₂)/n₂: as few repeated counts as possible keep the ranges narrow.
    gap = (counts.matching(0) - counts.matching(1) * (c1 / divisor)) / counts.all(1).at_least(1)
    share = 1 / (1 + counts.matching() / counts.remaining().at_least(1))
    return (gap * share).where_positive(c2)


def with_idle(cells: QuestionCells) -> QuestionCells:
    """The cells with a last predicate that no row satisfies: it stands for all idle ones, which are equal."""
    none = np.zeros((len(cells.count), 1), dtype=np.int64)
    return QuestionCells(
        np.append(cells.active, -1),
        cells.count,
        cells.total,
        np.hstack([cells.predicate_count, none]),
        np.hstack([cells.predicate_total, none]),
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
