"""Rows and sums per group, per (group, predicate) and per (group, cell), from the codes of a grouped pass;
and the choice of the attribute subsets that a pass groups by.

Engines answer with codes (0 = outside the declared domain, i = the i-th declared value). Rows outside a
domain satisfy no predicate on that attribute, so their cells are dropped (docs/specification.md, section 2).

Few, wide subsets contain all the narrow ones of a family. Counts by (a, b) are sums of counts by (a, b, c):
seven attributes have 35 triples, but 12 quadruples contain them all. Grouping rows is expensive; summing a
few thousand cells afterwards is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpxplain.explanation.family import Family
from dpxplain.model.grouped_pass import AnyGrouped, IntArray

_DENSE = 8  # filling a dense array of up to this many cells per row is quicker than sorting the rows

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


def group_index(grouped: AnyGrouped, group_by: tuple[str, ...], shape: tuple[int, ...]) -> IntArray:
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


def totals(grouped: AnyGrouped, group_by: tuple[str, ...], shape: tuple[int, ...]) -> Totals:
    """Dense totals of all declared groups, empty ones included."""
    groups = group_index(grouped, group_by, shape)
    inside = groups >= 0
    size = math.prod(shape)
    count, total = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    count[groups[inside]] = grouped.count[inside]
    total[groups[inside]] = grouped.total[inside]
    return Totals(count, total)


def histogram(
    grouped: AnyGrouped, group_by: tuple[str, ...], shape: tuple[int, ...], name: str, bins: int
) -> IntArray:
    """Rows of every (group, bin), in that order; `name` is the column of the bins' codes."""
    groups, codes = group_index(grouped, group_by, shape), grouped.codes[name]
    inside = (groups >= 0) & (codes > 0) & (codes <= bins)
    dense = np.zeros(math.prod(shape) * bins, dtype=np.int64)
    np.add.at(dense, groups[inside] * bins + codes[inside] - 1, grouped.count[inside])
    return dense


def cells(
    grouped: AnyGrouped,
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
    rows_of = _rows_of_blocks(grouped, (groups >= 0) & (grouped.count > 0), len(blocks))
    columns: list[tuple[IntArray, ...]] = []
    for part, holders, offset in zip(family.parts, _holders(family, blocks), family.offsets, strict=False):
        rows = min((rows_of[number] for number in holders), key=len)
        matching, predicate = part.satisfied([grouped.codes[name][rows] for name in part.columns])
        rows = rows[matching]
        index, *sums = _summed(
            groups[rows] * part.size + predicate,
            (grouped.count[rows], grouped.total[rows]),
            math.prod(shape) * part.size,
        )
        group, predicate = np.divmod(index, part.size)
        columns.append((group, offset + predicate, *sums))
    return Cells(*(np.concatenate(parts) for parts in zip(*columns, strict=True)))


def _summed(index: IntArray, values: tuple[IntArray, IntArray], size: int) -> tuple[IntArray, ...]:
    """The distinct indices in order, and the sums of both values for each; exact integers.

    The first value is positive, so an index occurs where its sum is not 0.
    """
    if size <= _DENSE * len(index) + 1:
        sums = [np.zeros(size, dtype=np.int64) for _ in values]
        for dense, added in zip(sums, values, strict=True):
            np.add.at(dense, index, added)
        occurring = np.flatnonzero(sums[0])
        return occurring, *(dense[occurring] for dense in sums)
    order = np.argsort(index, kind="stable")
    index = index[order]
    starts = np.flatnonzero(np.diff(index, prepend=-1))
    if not len(starts):  # reduceat needs a segment to add
        return index, *values
    return index[starts], *(np.add.reduceat(added[order], starts) for added in values)


def _rows_of_blocks(grouped: AnyGrouped, is_wanted: NDArray[np.bool_], blocks: int) -> list[IntArray]:
    """The positions of the wanted rows, block by block."""
    order = np.argsort(grouped.subset, kind="stable")
    ends = np.searchsorted(grouped.subset[order], np.arange(1, blocks))
    return [rows[is_wanted[rows]] for rows in np.split(order, ends)]


def _holders(family: Family, blocks: tuple[tuple[str, ...], ...]) -> list[list[int]]:
    """The blocks that contain all columns of a part, for every part."""
    sets = [frozenset(block) for block in blocks]
    return [
        [number for number, block in enumerate(sets) if block.issuperset(part.columns)]
        for part in family.parts
    ]


def marginals(
    grouped: AnyGrouped,
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
    rows_of = _rows_of_blocks(grouped, groups >= 0, len(blocks))
    for part, holders in zip(family.parts, _holders(family, blocks), strict=True):
        rows = min((rows_of[block] for block in holders), key=len)
        cell = groups[rows] * part.cells + part.cell_of([grouped.codes[name][rows] for name in part.columns])
        for sums, values in ((counts, grouped.count), (totals, grouped.total)):
            dense = np.zeros(number * part.cells, dtype=np.int64)
            np.add.at(dense, cell, values[rows])
            sums.append(dense)
    return Totals(np.concatenate(counts), np.concatenate(totals))


_SMALL = 1024  # cells up to which merging is always worth it
_GROWTH = 24  # how many times larger than the largest narrow subset a wider one may be,
_CACHED = 16_384  # as long as its cells fit a processor's cache
_MOST_SUBSETS = 5000  # beyond, finding a cover could take longer than the group-bys it saves

Subset = tuple[str, ...]


def cover(subsets: tuple[Subset, ...], sizes: Mapping[str, int]) -> tuple[Subset, ...]:
    """Wider subsets such that each given subset is contained in one of them; depends on domain sizes only.

    >>> cover((("a",), ("b",), ("c",)), {"a": 10, "b": 20, "c": 1000})
    (('c', 'a'), ('b',))
    """
    return _cover(subsets, tuple(sorted(sizes.items())))


@lru_cache(maxsize=64)
def _cover(subsets: tuple[Subset, ...], sizes: tuple[tuple[str, int], ...]) -> tuple[Subset, ...]:
    size = dict(sizes)
    names = list(dict.fromkeys(name for subset in subsets for name in subset))
    if len(names) > 62 or len(subsets) > _MOST_SUBSETS:  # subsets are bit masks below
        return subsets
    bit = {name: 1 << i for i, name in enumerate(names)}
    cells = [math.prod(size[name] for name in subset) for subset in subsets]
    largest = max(cells)
    most = max(_SMALL, min(_GROWTH * largest, _CACHED), 2 * largest)
    # The largest first: they can be widened the least.
    order = sorted(range(len(subsets)), key=lambda i: -cells[i])
    waiting = np.array([sum(bit[name] for name in subsets[i]) for i in order], dtype=np.int64)
    blocks: list[Subset] = []
    while len(waiting):
        mask = int(waiting[0])
        block = [name for name in names if mask & bit[name]]
        block.sort(key=lambda name: -size[name])
        while True:
            room = most // math.prod(size[name] for name in block)
            gains = {
                name: int(np.count_nonzero((waiting & ~np.int64(mask | bit[name])) == 0))
                for name in names
                if not mask & bit[name] and size[name] <= room
            }
            covered = int(np.count_nonzero((waiting & ~np.int64(mask)) == 0))
            # Most newly contained subsets; among equals the attribute that adds the fewest cells.
            best = max(gains, key=lambda name: (gains[name], -size[name]), default=None)
            if best is None or gains[best] <= covered:
                break
            block.append(best)
            mask |= bit[best]
        blocks.append(tuple(block))
        waiting = waiting[(waiting & ~np.int64(mask)) != 0]
    return tuple(blocks)
