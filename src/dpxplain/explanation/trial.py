"""Tests a custom influence on small random tables before it sees any data.

It finds honest mistakes: bounds that are wrong, that do not nest or that depend on other predicates, and code
that fails on empty groups. It proves nothing; docs/proofs/custom-influence.md says what must be proved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpxplain.explanation.cells import IntArray
from dpxplain.explanation.custom import CustomInfluence
from dpxplain.explanation.influence import FloatArray, QuestionCells

_TABLES, _MOST_ROWS, _PREDICATES, _FURTHEST = 60, 24, 40, 4
Bounds = tuple[FloatArray, FloatArray]


def audit(influence: CustomInfluence, groups: int, low: int, high: int) -> str:
    """The first mistake found, as a sentence, or an empty text; values of rows lie in [low, high]."""
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
