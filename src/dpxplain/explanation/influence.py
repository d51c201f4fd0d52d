"""Influences of all predicates at once, from the rows and sums of the cells of a grouped pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpxplain.explanation.family import Part, PredicateFamily
from dpxplain.model.groups import MOST_CELLS, AnyGrouped, Block, DenseGrouped, Grouped, Groups, cell_count
from dpxplain.model.query import AggregateKind, Subsets
from dpxplain.model.release import FloatArray, IntArray
from dpxplain.privacy.sensitivity import SCORE_GRID

# -- Cells -------------------------------------------------------------------------------------------------
#
# Rows and sums per group, per (group, predicate) and per (group, cell), from the codes of a grouped pass;
# and the choice of the attribute subsets that a pass groups by.
#
# Engines answer with codes (0 = outside the declared domain, i = the i-th declared value). Rows outside a
# domain satisfy no predicate on that attribute, so their cells are dropped (docs/specification.md, section
# 2).
#
# Few, wide subsets contain all the narrow ones of a family. Counts by (a, b) are sums of counts by (a, b, c):
# seven attributes have 35 triples, but 12 quadruples contain them all. Grouping rows is expensive; summing a
# few thousand cells afterwards is not.

_DENSE = 8  # filling a dense array of up to this many cells per row is quicker than sorting the rows


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


def group_index(grouped: AnyGrouped, groups: Groups) -> IntArray:
    """Position of each row's group among the declared ones, -1 for rows outside the declared domain."""
    rows = len(grouped.count)
    index: IntArray = np.zeros(rows, dtype=np.int64)
    inside = np.ones(rows, dtype=bool)
    for name, size in zip(groups.columns, groups.shape, strict=True):
        codes = grouped.codes[name]
        index = index * size + (codes - 1)
        inside &= codes > 0
    index[~inside] = -1
    return index


def totals(grouped: AnyGrouped, groups: Groups) -> Totals:
    """Dense totals of all declared groups, empty ones included."""
    group = group_index(grouped, groups)
    inside = group >= 0
    count, total = np.zeros((2, groups.size), dtype=np.int64)
    count[group[inside]] = grouped.count[inside]
    total[group[inside]] = grouped.total[inside]
    return Totals(count, total)


def histogram(grouped: AnyGrouped, groups: Groups, name: str, bins: int) -> IntArray:
    """Rows of every (group, bin), in that order; `name` is the column of the bins' codes."""
    group, codes = group_index(grouped, groups), grouped.codes[name]
    inside = (group >= 0) & (codes > 0) & (codes <= bins)
    dense = np.zeros(groups.size * bins, dtype=np.int64)
    np.add.at(dense, group[inside] * bins + codes[inside] - 1, grouped.count[inside])
    return dense


def cells(grouped: AnyGrouped, groups: Groups, family: PredicateFamily, blocks: Subsets) -> Cells:
    """Rows and sums of every non-empty (group, predicate).

    Each part of the family is summed from the smallest block, a subset of the grouped pass, that contains
    its columns.
    """
    group_of = group_index(grouped, groups)
    rows_of = _rows_of_blocks(grouped, (group_of >= 0) & (grouped.count > 0), len(blocks))
    columns: list[tuple[IntArray, ...]] = []
    for part, holders, offset in zip(family.parts, _holders(family, blocks), family.offsets, strict=False):
        rows = min((rows_of[number] for number in holders), key=len)
        matching, predicate = part.satisfied([grouped.codes[name][rows] for name in part.columns])
        rows = rows[matching]
        index, *sums = _summed(
            group_of[rows] * part.size + predicate,
            (grouped.count[rows], grouped.total[rows]),
            groups.size * part.size,
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


def _holders(family: PredicateFamily, blocks: Subsets) -> list[list[int]]:
    """The blocks that contain all columns of a part, for every part."""
    sets = [frozenset(block) for block in blocks]
    return [
        [number for number, block in enumerate(sets) if block.issuperset(part.columns)]
        for part in family.parts
    ]


def marginals(grouped: AnyGrouped, groups: Groups, family: PredicateFamily, blocks: Subsets) -> Totals:
    """Rows and sums of every cell of the family's columns: one entry per (part, group, cell), in that order.

    `prepare` releases them. A part's cells partition each group, rows with undeclared values included, so
    one row lies in exactly one cell per part, whatever the predicates are.
    """
    group = group_index(grouped, groups)
    counts: list[IntArray] = []
    totals: list[IntArray] = []
    rows_of = _rows_of_blocks(grouped, group >= 0, len(blocks))
    for part, holders in zip(family.parts, _holders(family, blocks), strict=True):
        rows = min((rows_of[block] for block in holders), key=len)
        cell = group[rows] * part.cells + part.cell_of([grouped.codes[name][rows] for name in part.columns])
        for sums, values in ((counts, grouped.count), (totals, grouped.total)):
            dense = np.zeros(groups.size * part.cells, dtype=np.int64)
            np.add.at(dense, cell, values[rows])
            sums.append(dense)
    return Totals(np.concatenate(counts), np.concatenate(totals))


_SMALL = 1024  # cells up to which merging is always worth it
_GROWTH = 24  # how many times larger than the largest narrow subset a wider one may be,
_CACHED = 16_384  # as long as its cells fit a processor's cache
_MOST_SUBSETS = 5000  # beyond, finding a cover could take longer than the group-bys it saves


def cover(subsets: Subsets, sizes: Mapping[str, int]) -> Subsets:
    """Wider subsets such that each given subset is contained in one of them; depends on domain sizes only.

    >>> cover((("a",), ("b",), ("c",)), {"a": 10, "b": 20, "c": 1000})
    (('c', 'a'), ('b',))
    """
    return _cover(subsets, tuple(sorted(sizes.items())))


@lru_cache(maxsize=64)
def _cover(subsets: Subsets, sizes: tuple[tuple[str, int], ...]) -> Subsets:
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
    blocks: list[tuple[str, ...]] = []
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


# -- Dense cells -------------------------------------------------------------------------------------------
#
# The same from dense arrays, in a time that depends on declared sizes alone. Everything after the pass over
# the rows works on all cells that could be occupied, whether they are or not: otherwise its time would reveal
# how many are (docs/timing.md). If there are too many declared cells for that, `cells` works on the occupied
# ones.

BYTES_PER_CELL = 16  # a count and a sum
LARGEST_PASS = BYTES_PER_CELL * MOST_CELLS


@dataclass(frozen=True)
class DenseCells:
    """Counts and sums of every (group, cell); the first axis of each array has the declared groups."""

    family: PredicateFamily
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, grouped: AnyGrouped, groups: Groups, family: PredicateFamily, blocks: Subsets) -> DenseCells:
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


def is_dense(groups: Groups, family: PredicateFamily, blocks: Subsets) -> bool:
    """Whether all cells that could be occupied fit in memory; depends on declared sizes only."""
    sizes = _code_numbers(groups, family)
    return cell_count(groups.columns, blocks, sizes) <= MOST_CELLS and family.size <= MOST_CELLS


def pass_bytes(groups: Groups, family: PredicateFamily, blocks: Subsets) -> int:
    """The memory charged for a pass, from declared sizes, so that caching reveals no occupied cells."""
    cells = cell_count(groups.columns, blocks, _code_numbers(groups, family))
    return BYTES_PER_CELL * min(cells, MOST_CELLS)


def _code_numbers(groups: Groups, family: PredicateFamily) -> dict[str, int]:
    sizes = {name: len(family.schema.domain(name)) + 1 for name in family.attributes}
    return sizes | {name: size + 1 for name, size in zip(groups.columns, groups.shape, strict=True)}


def _laid_out(
    grouped: Grouped, group_by: tuple[str, ...], blocks: Subsets, sizes: Mapping[str, int]
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


def _per_part(family: PredicateFamily, blocks: Sequence[Block]) -> Iterator[tuple[Part, Block]]:
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


# -- Influences --------------------------------------------------------------------------------------------
#
# Removing a predicate's rows changes each group's count and sum by the predicate's own cell, so no predicate
# is evaluated on its own. Sums are in grid units; influences come out in grid units too. Definitions:
# docs/specification.md.


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


def question_cells(totals: Totals, cells: Cells, groups: tuple[int, ...]) -> QuestionCells:
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
