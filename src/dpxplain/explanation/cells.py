"""Rows and sums per group, per (group, predicate) and per (group, cell), from the codes of a grouped pass.

Engines answer with codes (0 = outside the declared domain, i = the i-th declared value). Rows outside
a domain satisfy no predicate on that attribute (SPEC section 2, item 6), so their cells are dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpxplain.explanation.family import Family
from dpxplain.model.grouped import Grouped, IntArray

__all__ = ["Cells", "IntArray", "Totals", "cells", "group_index", "marginals", "totals"]


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


def group_index(grouped: Grouped, group_by: tuple[str, ...], shape: tuple[int, ...]) -> IntArray:
    """Position of each row's group among the declared ones, -1 for rows outside the declared domain."""
    rows = len(grouped.count)
    index: IntArray = np.zeros(rows, dtype=np.int64)
    inside = np.ones(rows, dtype=bool)
    for name, size in zip(group_by, shape, strict=True):
        codes = grouped.codes[name]
        index = index * size + (codes - 1)
        inside &= codes > 0
    index[~inside] = -1
    return index


def totals(grouped: Grouped, group_by: tuple[str, ...], shape: tuple[int, ...]) -> Totals:
    """Dense totals of all declared groups, empty ones included."""
    groups = group_index(grouped, group_by, shape)
    inside = groups >= 0
    size = math.prod(shape)
    count, total = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    count[groups[inside]] = grouped.count[inside]
    total[groups[inside]] = grouped.total[inside]
    return Totals(count, total)


def cells(
    grouped: Grouped,
    group_by: tuple[str, ...],
    shape: tuple[int, ...],
    family: Family,
    blocks: tuple[tuple[str, ...], ...],
) -> Cells:
    """Rows and sums of every non-empty (group, predicate).

    Each part of the family is summed from the smallest block, a subset of the grouped pass, that contains
    its columns.
    """
    groups = group_index(grouped, group_by, shape)
    occupied = (groups >= 0) & (grouped.count > 0)
    rows_of = [np.flatnonzero(occupied & (grouped.subset == number)) for number in range(len(blocks))]
    columns: list[tuple[IntArray, ...]] = []
    for part, offset in zip(family.parts, family.offsets, strict=False):
        rows = min(
            (rows_of[number] for number, block in enumerate(blocks) if set(part.columns) <= set(block)),
            key=len,
        )
        matching, predicate = part.satisfied([grouped.codes[name][rows] for name in part.columns])
        rows = rows[matching]
        index = groups[rows] * part.size + predicate
        order = np.argsort(index, kind="stable")
        rows, index = rows[order], index[order]
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        group, predicate = np.divmod(index[starts], part.size)
        # reduceat adds integers exactly; an empty pass has no segment to add.
        sums = [
            np.add.reduceat(a[rows], starts) if len(starts) else a[rows]
            for a in (grouped.count, grouped.total)
        ]
        columns.append((group, offset + predicate, *sums))
    return Cells(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))


def marginals(
    grouped: Grouped,
    group_by: tuple[str, ...],
    shape: tuple[int, ...],
    family: Family,
    blocks: tuple[tuple[str, ...], ...],
) -> Totals:
    """Rows and sums of every cell of the family's columns: one entry per (part, group, cell), in that order.

    `prepare` releases them. A part's cells partition each group, rows with undeclared values included, so
    one row lies in exactly one cell per part, whatever the predicates are.
    """
    groups = group_index(grouped, group_by, shape)
    number = math.prod(shape)
    counts: list[IntArray] = []
    totals: list[IntArray] = []
    for part in family.parts:
        block = next(i for i, columns in enumerate(blocks) if set(part.columns) <= set(columns))
        rows = np.flatnonzero((groups >= 0) & (grouped.subset == block))
        cell = groups[rows] * part.cells + part.cell_of([grouped.codes[name][rows] for name in part.columns])
        for sums, values in ((counts, grouped.count), (totals, grouped.total)):
            dense = np.zeros(number * part.cells, dtype=np.int64)
            np.add.at(dense, cell, values[rows])
            sums.append(dense)
    return Totals(np.concatenate(counts), np.concatenate(totals))
