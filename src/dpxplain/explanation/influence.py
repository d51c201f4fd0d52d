"""Influence of every predicate at once, from grouped counts and sums (docs/specification.md, definitions).

Removing a predicate's rows changes each group's count and sum by the predicate's own cell, so no
predicate is evaluated on its own. Sums are in grid units; influences come out in grid units too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpxplain.explanation.cells import Cells, IntArray, Totals
from dpxplain.model.arrays import FloatArray
from dpxplain.model.schema import AggregateKind
from dpxplain.privacy.sensitivity import SCORE_GRID


@dataclass(frozen=True)
class QuestionCells:
    """Rows and sums of a question's groups: totals (groups), and per active predicate (groups × active).

    Predicates that are not active have influence 0: no row of the question's groups satisfies them. Active
    does not mean satisfied by a row: if the family is small enough, all its predicates are active.
    """

    active: IntArray
    count: IntArray
    total: IntArray
    predicate_count: IntArray
    predicate_total: IntArray


def of_question(totals: Totals, cells: Cells, groups: tuple[int, ...]) -> QuestionCells:
    """Select the question's groups and lay the cells of their active predicates out densely."""
    in_question = np.isin(cells.group, groups)
    active, position = np.unique(cells.predicate[in_question], return_inverse=True)
    counts = np.zeros((len(groups), len(active)), dtype=np.int64)
    sums = np.zeros((len(groups), len(active)), dtype=np.int64)
    order = np.argsort(groups)
    row = order[np.searchsorted(groups, cells.group[in_question], sorter=order)]
    counts[row, position] = cells.count[in_question]
    sums[row, position] = cells.total[in_question]
    index = list(groups)
    return QuestionCells(active, totals.count[index], totals.total[index], counts, sums)


def influences(
    kind: AggregateKind, weights: tuple[float, ...], data: QuestionCells, middle: int = 0
) -> FloatArray:
    """Inf(p) for every active predicate, in float64.

    `middle` is low + high, twice the middle of an averaged column's bounds. Averages are computed from
    sums around it, doubled to stay whole, because a difference of averages does not depend on the origin
    but its rounding error does; docs/proofs/sensitivity.md bounds it for this order of operations.
    """
    w = np.asarray(weights, dtype=np.float64)[:, None]
    n = data.count[:, None]
    a = data.predicate_count
    remaining = n - a
    smallest = remaining.min(axis=0).astype(np.float64)  # m
    if kind == "avg":
        U = (2 * data.predicate_total - middle * a).astype(np.float64)
        S = (2 * data.total[:, None] - middle * n).astype(np.float64)
        numerator = smallest * (n * U - a * S)
        denominator = 2.0 * n * remaining
        # m = 0 makes the influence 0 whatever the averages are, so the empty denominator never matters.
        per_group = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
        influence: FloatArray = (w * per_group).sum(axis=0)
        return np.where(smallest == 0, 0.0, influence)
    removed = a if kind == "count" else data.predicate_total
    change = (w * removed.astype(np.float64)).sum(axis=0)
    result: FloatArray = change * smallest / (float(data.count.max()) + 1.0)
    return result


def values_without(kind: AggregateKind, weights: tuple[float, ...], data: QuestionCells) -> FloatArray:
    """Q(¬p) = Σ w·agg without the rows of each active predicate; NaN for an average over no rows."""
    w = np.asarray(weights, dtype=np.float64)[:, None]
    count = (data.count[:, None] - data.predicate_count).astype(np.float64)
    total = (data.total[:, None] - data.predicate_total).astype(np.float64)
    if kind == "avg":
        average = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
        return np.asarray((w * average).sum(axis=0))
    return np.asarray((w * (count if kind == "count" else total)).sum(axis=0))


def scores(influence: FloatArray, sensitivity: float) -> IntArray:
    """Influences as whole multiples of sensitivity / 2^20, the integer scores of the mechanisms.

    In these units the sensitivity is SCORE_GRID + SCORE_SLACK, the slack covering the rounding here and
    the float64 error above (docs/proofs/sensitivity.md).
    """
    # |influence| is at most the sensitivity times the number of rows, so the clamp never changes a score;
    # it keeps the cast to integers defined whatever happens before it.
    exact = np.nan_to_num(influence / sensitivity * SCORE_GRID, nan=0.0)
    return np.rint(np.clip(exact, -(2.0**52), 2.0**52)).astype(np.int64)
