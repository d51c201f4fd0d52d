"""The result of one grouped pass over the data, in codes and whole numbers.

Code 0 means outside the declared domain, code i the i-th declared value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from dpxplain.model.arrays import IntArray
from dpxplain.model.caching import cached_property

BIN = "(bin)"
"""The key of the bins in the codes of a histogram's pass; no declared column has this name."""

MOST_CELLS = 2**23  # the most that are counted in dense arrays: 128 MB of counts and sums


def cell_number(group_by: Sequence[str], subsets: Sequence[tuple[str, ...]], sizes: Mapping[str, int]) -> int:
    """The number of cells in all subsets, including code 0; `sizes` says how many codes each column has."""
    groups = math.prod(sizes[name] for name in group_by)
    return groups * sum(math.prod(sizes[name] for name in subset) for subset in subsets)


def cell_starts(subsets: Sequence[tuple[str, ...]], sizes: Mapping[str, int]) -> list[int]:
    """The number of each subset's first cell, where the cells of all subsets are numbered from 0.

    >>> cell_starts([("a",), ("a", "b"), ("b",)], {"a": 3, "b": 2})
    [0, 3, 9]
    """
    cells = [math.prod(sizes[name] for name in subset) for subset in subsets]
    return list(accumulate(cells[:-1], initial=0))


@dataclass(frozen=True)
class Grouped:
    """One array entry per non-empty cell.

    Codes are in a mapping of their own, because a declared column may be called `count` or `total`.
    """

    codes: Mapping[str, IntArray]  # by group-by column and attribute; 0 where not part of the subset
    subset: IntArray  # the position of the cell's attribute subset
    count: IntArray
    total: IntArray  # the sum in grid units; 0 for COUNT


@dataclass(frozen=True)
class Block:
    """Counts and sums of every cell of some columns, empty ones too; axis i has the codes of column i."""

    columns: tuple[str, ...]
    count: IntArray
    total: IntArray | None  # None for COUNT, which adds nothing up


@dataclass(frozen=True)
class DenseGrouped:
    """One block per subset, over the group-by columns and the subset's. Its size says nothing about the rows.

    The properties list the non-empty cells, as in a `Grouped`.
    """

    blocks: tuple[Block, ...]

    @property
    def codes(self) -> Mapping[str, IntArray]:
        return self._listed.codes

    @property
    def subset(self) -> IntArray:
        return self._listed.subset

    @property
    def count(self) -> IntArray:
        return self._listed.count

    @property
    def total(self) -> IntArray:
        return self._listed.total

    @cached_property
    def _listed(self) -> Grouped:
        occupied = [np.flatnonzero(block.count) for block in self.blocks]
        starts = np.cumsum([0, *map(len, occupied)])
        names = dict.fromkeys(name for block in self.blocks for name in block.columns)
        codes: dict[str, IntArray] = {name: np.zeros(starts[-1], dtype=np.int64) for name in names}
        for cells, block, start in zip(occupied, self.blocks, starts, strict=False):
            rest = cells.astype(np.int32)
            for name, size in zip(reversed(block.columns), reversed(block.count.shape), strict=True):
                rest, codes[name][start : start + len(cells)] = np.divmod(rest, size)
        pairs = list(zip(self.blocks, occupied, strict=True))
        return Grouped(
            codes,
            np.repeat(np.arange(len(occupied)), [len(cells) for cells in occupied]),
            np.concatenate([block.count.ravel()[cells] for block, cells in pairs]),
            np.concatenate(
                [
                    np.zeros(len(cells), np.int64) if block.total is None else block.total.ravel()[cells]
                    for block, cells in pairs
                ]
            ),
        )


AnyGrouped = Grouped | DenseGrouped
