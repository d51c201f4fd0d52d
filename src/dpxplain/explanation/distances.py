"""Distances in rows, used to select and rank predicates by a custom influence; their sensitivity is 1.

At distance d a predicate's rank lies between b(p, d), one more than the predicates certainly above it, and
B(p, d), the predicates not certainly below it. One row shifts both by at most one step of d, so every
"least d at which …" has sensitivity 1 (docs/proofs/custom-influence.md). Predicates that no row satisfies
all have the same bounds, so one column stands for them.
"""

from __future__ import annotations

import numpy as np

from dpxplain.explanation.cells import IntArray
from dpxplain.explanation.custom import CustomInfluence, widening, with_idle
from dpxplain.explanation.influence import FloatArray, QuestionCells
from dpxplain.privacy.mechanisms.rank_bounds import Envelope
from dpxplain.privacy.mechanisms.scores import FamilyScores


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
    idle, at = size - len(cells.active), _columns(cells, chosen)
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
    at, ends = _columns(cells, chosen), np.array(influence.thresholds, dtype=np.float64)
    lowest, highest = np.empty((2, reach, len(chosen)), dtype=np.int64)
    for d, (low, high) in enumerate(widening(influence, _only(with_idle(cells), at), reach)):
        lowest[d] = 1 + np.searchsorted(ends, low, side="right")
        highest[d] = 1 + np.searchsorted(ends, high, side="right")
    return [Envelope(b, B) for b, B in zip(lowest.T, highest.T, strict=True)]


def between(influence: CustomInfluence, positions: tuple[int, int]) -> tuple[float, float]:
    """The interval of influences that a range of positions means; infinite beyond the last threshold."""
    ends = (-np.inf, *influence.thresholds, np.inf)
    return float(ends[positions[0] - 1]), float(ends[positions[1]])


def _columns(cells: QuestionCells, chosen: list[int]) -> IntArray:
    """The column of each chosen predicate; idle ones have the last column."""
    at = np.searchsorted(cells.active, chosen)
    listed = np.append(cells.active, -1)[at] == chosen
    return np.where(listed, at, len(cells.active))


def _only(cells: QuestionCells, at: IntArray) -> QuestionCells:
    return QuestionCells(
        cells.active[at], cells.count, cells.total, cells.predicate_count[:, at], cells.predicate_total[:, at]
    )


def _nth_highest(values: FloatArray, idle: int, n: int) -> float:
    """The n-th highest of the family; the last value counts `idle` times, of which at most n matter."""
    family = np.append(values[:-1], np.full(min(idle, n), values[-1]))
    return float(np.partition(family, len(family) - n)[len(family) - n])
