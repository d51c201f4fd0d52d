"""Influence of every predicate at once, from grouped counts and sums (SPEC section 1).

Removing a predicate's rows changes each group's count and sum by the predicate's own cell, so no
predicate is evaluated on its own. Sums are in grid units; influences come out in grid units too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpxplain.explanation.cells import Cells, IntArray, Totals
from dpxplain.model.schema import AggregateKind
from dpxplain.privacy.sensitivity import SCORE_GRID

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class QuestionCells:
    """A question's groups: totals (groups) and per-predicate rows and sums (groups × predicates)."""

    count: IntArray
    total: IntArray
    predicate_count: IntArray
    predicate_total: IntArray


def of_question(totals: Totals, cells: Cells, groups: tuple[int, ...], size: int) -> QuestionCells:
    """Select the question's groups and lay their cells out densely."""
    counts = np.zeros((len(groups), size), dtype=np.int64)
    sums = np.zeros((len(groups), size), dtype=np.int64)
    for row, group in enumerate(groups):
        mine = cells.group == group
        counts[row, cells.predicate[mine]] = cells.count[mine]
        sums[row, cells.predicate[mine]] = cells.total[mine]
    chosen = list(groups)
    return QuestionCells(totals.count[chosen], totals.total[chosen], counts, sums)


def influences(kind: AggregateKind, weights: tuple[float, ...], data: QuestionCells) -> FloatArray:
    """Inf(p) for every predicate of the family, in float64.

    The order of operations is the one whose rounding error docs/proofs/sensitivity.md bounds.
    """
    w = np.asarray(weights, dtype=np.float64)[:, None]
    n = data.count[:, None]
    a = data.predicate_count
    remaining = n - a
    smallest = remaining.min(axis=0).astype(np.float64)  # m
    if kind == "avg":
        U, S = data.predicate_total.astype(np.float64), data.total[:, None].astype(np.float64)
        numerator = smallest * (n * U - a * S)
        denominator = n.astype(np.float64) * remaining
        # m = 0 makes the influence 0 whatever the averages are, so the empty denominator never matters.
        per_group = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
        influence: FloatArray = (w * per_group).sum(axis=0)
        influence[smallest == 0] = 0.0
        return influence
    removed = a if kind == "count" else data.predicate_total
    change = (w * removed.astype(np.float64)).sum(axis=0)
    result: FloatArray = change * smallest / (float(data.count.max()) + 1.0)
    return result


def scores(influence: FloatArray, sensitivity: float) -> IntArray:
    """Influences as whole multiples of sensitivity / 2^20: what the mechanisms work on.

    In these units the sensitivity is SCORE_GRID + SCORE_SLACK, the slack covering the rounding here and
    the float64 error above (docs/proofs/sensitivity.md).
    """
    return np.rint(influence * (SCORE_GRID / sensitivity)).astype(np.int64)


def ranks(influence: FloatArray) -> IntArray:
    """Position of each predicate by descending influence, from 1; ties in the family's order."""
    order = np.argsort(-influence, kind="stable")
    rank = np.empty(len(influence), dtype=np.int64)
    rank[order] = np.arange(1, len(influence) + 1)
    return rank
