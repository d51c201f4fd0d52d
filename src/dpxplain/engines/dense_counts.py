"""Counts and sums per cell in dense arrays, added up from batches of encoded rows.

A cell's place follows from its codes, so nothing is hashed or sorted: a fraction of the time that GROUPING
SETS takes, and a time that hardly depends on which values the rows have. All sums are of 64-bit integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.grouped import MOST_CELLS, Block, DenseGrouped, cell_number

FEW_SUBSETS = 4  # up to here reading the rows out of the database takes longer than grouping them there
ROWS_AT_ONCE = 2**17  # their places stay in the processor's cache

Codes = Mapping[str, NDArray[np.integer]]


def suits_dense(
    group_by: Sequence[str], subsets: Sequence[tuple[str, ...]], sizes: Mapping[str, int]
) -> bool:
    """Whether dense arrays are the faster way; depends on the declared domains only."""
    return len(subsets) > FEW_SUBSETS and cell_number(group_by, subsets, sizes) <= MOST_CELLS


class DenseCounts:
    """The count and total of every (group, cell of a subset), the codes 0 included.

    >>> counts = DenseCounts(("g",), (("a",),), {"g": 3, "a": 4})
    >>> codes = {"g": np.array([1, 1, 2]), "a": np.array([3, 3, 0])}
    >>> counts.add(codes, np.array([1, 1, 1]), np.array([5, 6, 7]))
    >>> cells = counts.grouped()
    >>> cells.codes["g"].tolist(), cells.codes["a"].tolist(), cells.count.tolist(), cells.total.tolist()
    ([1, 2], [3, 0], [2, 1], [11, 7])
    """

    def __init__(
        self,
        group_by: tuple[str, ...],
        subsets: Sequence[tuple[str, ...]],
        sizes: Mapping[str, int],
        has_total: bool = True,
    ) -> None:
        """`sizes` says how many codes each column has."""
        self._columns = [(*group_by, *subset) for subset in subsets]
        self._shapes = [tuple(sizes[name] for name in columns) for columns in self._columns]
        self._counts = [np.zeros(math.prod(shape), dtype=np.int64) for shape in self._shapes]
        self._totals = [np.zeros_like(count) if has_total else None for count in self._counts]

    def add(self, codes: Codes, count: NDArray[np.integer], total: NDArray[np.integer] | None) -> None:
        """Adds rows: the codes of each, and what it adds to the count and the total of its cells."""
        count = count.astype(np.int64)
        total = None if total is None else total.astype(np.int64)
        for columns, shape, counts, totals in zip(
            self._columns, self._shapes, self._counts, self._totals, strict=True
        ):
            place = np.zeros(len(count), dtype=np.int32)  # cells are far fewer than 2^31
            for name, size in zip(columns, shape, strict=True):
                place *= size
                place += codes[name].astype(np.int32)
            place = place.astype(np.intp)
            np.add.at(counts, place, count)
            if total is not None and totals is not None:
                np.add.at(totals, place, total)

    def grouped(self) -> DenseGrouped:
        """All cells, subset by subset."""
        return DenseGrouped(
            tuple(
                Block(columns, counts.reshape(shape), None if totals is None else totals.reshape(shape))
                for columns, shape, counts, totals in zip(
                    self._columns, self._shapes, self._counts, self._totals, strict=True
                )
            )
        )
