"""Rows and sums of every predicate from dense arrays, in a time that depends on declared sizes alone.

Everything after the pass over the rows works on all cells that could be occupied, whether they are or not:
otherwise its time would reveal how many are (docs/timing.md). If there are too many declared cells for that,
`cells.py` works on the occupied ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpxplain.explanation.cells import Totals
from dpxplain.explanation.family import Family, Part
from dpxplain.explanation.influence import QuestionCells
from dpxplain.model.grouped_pass import (
    MOST_CELLS,
    AnyGrouped,
    Block,
    DenseGrouped,
    Grouped,
    IntArray,
    cell_number,
)
from dpxplain.model.groups import Groups

Blocks = tuple[tuple[str, ...], ...]
BYTES_PER_CELL = 16  # a count and a sum
LARGEST_PASS = BYTES_PER_CELL * MOST_CELLS


@dataclass(frozen=True)
class DenseCells:
    """Counts and sums of every (group, cell); the first axis of each array has the declared groups."""

    family: Family
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, grouped: AnyGrouped, groups: Groups, family: Family, blocks: Blocks) -> DenseCells:
        sizes = _code_numbers(groups, family)
        if isinstance(grouped, Grouped):
            grouped = _laid_out(grouped, groups.columns, blocks, sizes)
        depth = len(groups.columns)

        def of_groups(values: IntArray) -> IntArray:
            declared = values[(slice(1, None),) * depth]
            return declared.reshape(groups.size, *values.shape[depth:])

        return cls(family, tuple(_map(of_groups, block, block.columns[depth:]) for block in grouped.blocks))

    def question(self, totals: Totals, groups: tuple[int, ...]) -> QuestionCells:
        """Rows and sums of every predicate in the question's groups, all of them listed as active.

        If these would not fit in memory, the predicates that no row satisfies are left out.
        """
        index = list(groups)
        chosen = [_map(lambda values: values[index], block, block.columns) for block in self.blocks]
        is_complete = len(groups) * self.family.size <= MOST_CELLS
        active, counts, sums = [], [], []
        for (part, cells), offset in zip(_per_part(self.family, chosen), self.family.offsets, strict=False):
            count = part.sums(cells.count)
            total = np.zeros_like(count) if cells.total is None else part.sums(cells.total)
            active_columns = slice(None) if is_complete else np.flatnonzero(count.any(axis=0))
            active.append(np.arange(offset, offset + part.size)[active_columns])
            counts.append(count[:, active_columns])
            sums.append(total[:, active_columns])
        return QuestionCells(
            np.concatenate(active),
            totals.count[index],
            totals.total[index],
            np.concatenate(counts, axis=1),
            np.concatenate(sums, axis=1),
        )

    def marginals(self) -> Totals:
        """Rows and sums of every cell of the family's columns: per (part, group, cell), in that order."""
        counts, sums = [], []
        for part, cells in _per_part(self.family, self.blocks):
            counts.append(part.partition(cells.count).ravel())
            total = np.zeros_like(counts[-1]) if cells.total is None else part.partition(cells.total).ravel()
            sums.append(total)
        return Totals(np.concatenate(counts), np.concatenate(sums))


def is_dense(groups: Groups, family: Family, blocks: Blocks) -> bool:
    """Whether all cells that could be occupied fit in memory; depends on declared sizes only."""
    sizes = _code_numbers(groups, family)
    return cell_number(groups.columns, blocks, sizes) <= MOST_CELLS and family.size <= MOST_CELLS


def pass_bytes(groups: Groups, family: Family, blocks: Blocks) -> int:
    """The memory charged for a pass, from declared sizes, so that caching reveals no occupied cells."""
    cells = cell_number(groups.columns, blocks, _code_numbers(groups, family))
    return BYTES_PER_CELL * min(cells, MOST_CELLS)


def _code_numbers(groups: Groups, family: Family) -> dict[str, int]:
    sizes = {name: len(family.schema.domain(name)) + 1 for name in family.attributes}
    return sizes | {name: size + 1 for name, size in zip(groups.columns, groups.shape, strict=True)}


def _laid_out(
    grouped: Grouped, group_by: tuple[str, ...], blocks: Blocks, sizes: Mapping[str, int]
) -> DenseGrouped:
    """The occupied cells, each at its position in dense arrays."""
    laid_out = []
    for number, block in enumerate(blocks):
        columns = (*group_by, *block)
        shape = tuple(sizes[name] for name in columns)
        rows = np.flatnonzero(grouped.subset == number)
        place: IntArray = np.zeros(len(rows), dtype=np.int64)
        for name, size in zip(columns, shape, strict=True):
            place = place * size + grouped.codes[name][rows]
        count, total = (np.zeros(math.prod(shape), dtype=np.int64) for _ in range(2))
        count[place], total[place] = grouped.count[rows], grouped.total[rows]
        laid_out.append(Block(columns, count.reshape(shape), total.reshape(shape)))
    return DenseGrouped(tuple(laid_out))


def _per_part(family: Family, blocks: Sequence[Block]) -> Iterator[tuple[Part, Block]]:
    """Each part with its columns' cells, summed from the smallest block that contains them."""
    by_size = sorted(blocks, key=lambda block: block.count.size)
    named = [(frozenset(block.columns), block) for block in by_size]
    for part in family.parts:
        wide_block = next(block for names, block in named if names.issuperset(part.columns))
        others = tuple(1 + axis for axis, name in enumerate(wide_block.columns) if name not in part.columns)
        remaining = [name for name in wide_block.columns if name in part.columns]
        order = (0, *(1 + remaining.index(name) for name in part.columns))

        def onto(
            values: IntArray, others: tuple[int, ...] = others, order: tuple[int, ...] = order
        ) -> IntArray:
            summed: IntArray = values.sum(axis=others)
            return summed.transpose(order)

        yield part, _map(onto, wide_block, part.columns)


def _map(change: Callable[[IntArray], IntArray], block: Block, columns: tuple[str, ...]) -> Block:
    """The block with `change` applied to its counts and sums."""
    return Block(columns, change(block.count), None if block.total is None else change(block.total))
