"""The grouped pass in a form that knows the family: which cell of which group holds how much.

Engines answer with codes (0 = outside the declared domain, i = the i-th declared value). Rows outside
a domain satisfy no predicate on that attribute (SPEC section 2, item 6), so their cells are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpxplain.explanation.family import Family

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Totals:
    """Rows and sum of the aggregated column (in grid units), one entry per declared group."""

    count: IntArray
    total: IntArray


@dataclass(frozen=True)
class Cells:
    """Non-empty (group, predicate) cells with their rows and sums."""

    group: IntArray
    predicate: IntArray
    count: IntArray
    total: IntArray


def group_index(
    columns: Mapping[str, IntArray], group_by: tuple[str, ...], shape: tuple[int, ...]
) -> IntArray:
    """Position of each row's group among the declared ones, -1 for rows outside the declared domain."""
    rows = len(next(iter(columns.values())))
    index: IntArray = np.zeros(rows, dtype=np.int64)
    inside = np.ones(rows, dtype=bool)
    for name, size in zip(group_by, shape, strict=True):
        codes = columns[name]
        index = index * size + (codes - 1)
        inside &= codes > 0
    index[~inside] = -1
    return index


def totals(columns: Mapping[str, IntArray], group_by: tuple[str, ...], shape: tuple[int, ...]) -> Totals:
    """Dense totals of all declared groups, empty ones included."""
    groups = group_index(columns, group_by, shape)
    inside = groups >= 0
    size = math.prod(shape)
    count, total = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    count[groups[inside]] = columns["count"][inside]
    total[groups[inside]] = columns["total"][inside]
    return Totals(count, total)


def cells(
    columns: Mapping[str, IntArray], group_by: tuple[str, ...], shape: tuple[int, ...], family: Family
) -> Cells:
    """Index the grouped pass by group and predicate. `subset` says which attribute subset a row is of."""
    groups = group_index(columns, group_by, shape)
    predicates: IntArray = np.full(len(groups), -1, dtype=np.int64)
    for number, (subset, sizes) in enumerate(zip(family.subsets, family.shapes, strict=True)):
        rows = np.flatnonzero(columns["subset"] == number)
        index: IntArray = np.zeros(len(rows), dtype=np.int64)
        inside = np.ones(len(rows), dtype=bool)
        for name, size in zip(subset, sizes, strict=True):
            codes = columns[name][rows]
            index = index * size + (codes - 1)
            inside &= codes > 0
        predicates[rows[inside]] = family.offsets[number] + index[inside]
    keep = (groups >= 0) & (predicates >= 0)
    return Cells(groups[keep], predicates[keep], columns["count"][keep], columns["total"][keep])
