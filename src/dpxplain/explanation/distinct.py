"""Finds conditions that say nearly the same, and folds all but one of them away in the table.

For a prepared answer, the released cells tell how many rows two conditions share; this takes no data and no
budget. Otherwise only the structure is known: one condition may imply another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.explanation.family import Conjunctions, Listed, PredicateFamily
from dpxplain.model.process import cached_property, check_stop, stoppable_steps
from dpxplain.model.query import And, Filter, FilterPredicate, Not, Or, Predicate
from dpxplain.model.release import BoolArray, FloatArray, FoldedLine, IntArray, ReleasedLine
from dpxplain.privacy.marginals.estimates import simultaneous_quantile

NEARLY_SAME = 0.9
"""Conditions are folded if at least this share of their rows is estimated to be common (Jaccard index)."""
LEAST_SURE = 0.7
"""The interval of that share must not reach below this, either."""
_CANDIDATES = 10  # compared per line of the table
MOST_NESTING_WORK = 2 * 10**10
"""The most bytes to compare to find the conditions that imply others: about ten seconds."""
_MOST_FOLDED, _FOLDING_WORK = 1_000, 4 * 10**9  # lines of a table without cells, and bytes compared for them
_MOST_COMPARED = 300  # candidates; all their pairs are compared, and time grows with the cube

Node = frozenset[tuple[str, int]] | tuple[int, int]
"""A conjunction by its columns and codes, or a listed condition by its part and number."""


@dataclass(frozen=True)
class Overlap:
    """The rows that meet both of two conditions, as a share of the rows that meet either."""

    low: float
    estimate: float
    high: float

    @property
    def is_same(self) -> bool:
        return self.estimate >= NEARLY_SAME and self.low >= LEAST_SURE


def is_folded_by_default(family: PredicateFamily) -> bool:
    """Whether conditions read several columns: conjunctions repeat their parts, single conditions do not."""
    return any(len(part.columns) > 1 for part in family.parts)


@dataclass(frozen=True)
class ReleasedCells:
    """Noisy rows of every cell of every part, added up over the groups of a question."""

    family: PredicateFamily
    counts: tuple[FloatArray, ...]  # one array of cells per part
    scale: float  # σ of each of them
    confidence: float

    def fold(self, order: IntArray, k: int) -> dict[int, tuple[FoldedLine, ...]]:
        """The first k predicates of `order` that are distinct, each with those that say nearly the same.

        Compares `_CANDIDATES` predicates per line, `_MOST_COMPARED` in all; those that follow have lower
        influence. Beyond `_MOST_COMPARED` the table ends with lines that are not folded.
        """
        compared, rest = np.split(order, [min(_CANDIDATES * k, _MOST_COMPARED)])
        folded = itertools.islice(_Distances(self, compared.tolist()).folds(), k)
        if len(compared) < _MOST_COMPARED:
            return dict(folded)
        plain = ((predicate, ()) for predicate in rest.tolist())
        return dict(itertools.islice(itertools.chain(folded, plain), k))

    def rows(self, part: int, cells: BoolArray) -> tuple[float, float]:
        """The rows of some cells of a part, and their margin of error."""
        reach = float(self.reach(np.array(np.count_nonzero(cells))))
        return float(self.counts[part][cells].sum()), reach

    def reach(self, cells: NDArray[Any]) -> FloatArray:
        """The margin of error of sums over the given numbers of cells."""
        return np.asarray(self._quantile * self.scale * np.sqrt(cells))

    @cached_property
    def _quantile(self) -> float:
        """The quantile at which all sums hold at once: the same noise decides which of them are compared."""
        shapes = [p.shape if isinstance(p, Conjunctions) else (p.size,) for p in self.family.parts]
        sums = sum(math.prod(size + 1 for size in shape) for shape in shapes)
        return simultaneous_quantile(self.confidence, 2 * sums * sums)


class _Distances:
    """How many rows meet exactly one of two conditions, for the candidates and for their simpler parts.

    That number is a distance, so its values for (a, s), (s, t) and (t, b) bound it for (a, b). Adding the
    same condition to both cannot make it larger. Within one part of the family it is a sum of cells.
    """

    def __init__(self, cells: ReleasedCells, candidates: Sequence[int]) -> None:
        self._cells, self._family, self._candidates = cells, cells.family, list(candidates)
        self._numbers: dict[Node, int] = {}
        # For each candidate, the numbers of itself and of its simpler parts, and the conditions of each.
        self._nodes_of: list[list[int]] = []
        self._positions_of: list[list[tuple[int, ...]]] = []
        for predicate in self._candidates:
            nodes, positions = zip(*_nodes(self._family, predicate), strict=True)
            self._nodes_of.append([self._numbers.setdefault(node, len(self._numbers)) for node in nodes])
            self._positions_of.append(list(positions))
        size = len(self._numbers)
        self._rows, self._reach = np.zeros(size), np.full(size, np.inf)
        self._least = np.zeros((size, size))
        self._likely, self._most = np.full((size, size), np.inf), np.full((size, size), np.inf)
        np.fill_diagonal(self._likely, 0.0)
        np.fill_diagonal(self._most, 0.0)
        for number in range(len(self._family.parts)):
            self._measure(number)
        self._use_shortest_paths()
        self._use_common_conditions()
        self._use_shortest_paths()

    def folds(self) -> Iterator[tuple[int, tuple[FoldedLine, ...]]]:
        """Distinct predicates in the given order, each with the lines folded under it."""

        def same_as(first: int) -> BoolArray:
            own = self._nodes_of[first][0]
            return np.array([self._overlap(own, nodes[0]).is_same for nodes in self._nodes_of], dtype=bool)

        for first, others in _folds(self._family, self._candidates, same_as):
            yield self._candidates[first], self._folded(first, others)

    def _folded(self, first: int, others: list[int]) -> tuple[FoldedLine, ...]:
        """The lines folded under one: parts of it that say nearly the same, then other candidates."""
        own, *parts = self._nodes_of[first]
        simpler = [
            FoldedLine(self._candidates[first], positions, (overlap.low, overlap.high))
            for node, positions in zip(parts, self._positions_of[first][1:], strict=True)
            if (overlap := self._overlap(own, node)).is_same
        ]
        overlaps = [(other, self._overlap(own, self._nodes_of[other][0])) for other in others]
        return (
            *simpler,
            *(FoldedLine(self._candidates[other], None, (o.low, o.high)) for other, o in overlaps),
        )

    def _overlap(self, first: int, second: int) -> Overlap:
        """The Jaccard index (S − D)/(S + D): S adds both conditions' rows, D are rows that meet only one."""
        rows = self._rows[first] + self._rows[second]
        reach = self._reach[first] + self._reach[second]
        return Overlap(
            _index(rows - reach, self._most[first, second]),
            _index(rows, self._likely[first, second]),
            _index(rows + reach, self._least[first, second]),
        )

    def _measure(self, number: int) -> None:
        """Compares the conditions that one part of the family can tell apart.

        Rows of a part's undeclared cell may meet a condition that is not about all of its columns.
        """
        known = [
            (node, mask, is_open)
            for key, node in self._numbers.items()
            for mask, is_open in _masks(self._family, number, key)
        ]
        last = np.zeros(self._family.parts[number].cells, dtype=bool)
        last[-1] = True
        undeclared = max(0.0, sum(self._cells.rows(number, last)))
        for node, mask, is_open in known:
            rows, reach = self._cells.rows(number, mask)
            if (reach := reach + is_open * undeclared) < self._reach[node]:
                self._rows[node], self._reach[node] = rows, reach
        if known:
            self._compare(number, known, undeclared)

    def _compare(self, number: int, known: list[tuple[int, BoolArray, bool]], undeclared: float) -> None:
        """Bounds the rows that meet exactly one of two conditions, for all pairs at once.

        Their number is the number for both conditions added up, less twice the common rows.
        """
        masks = np.array([mask for _, mask, _ in known], dtype=float)
        counts, sizes = self._cells.counts[number], masks.sum(axis=1)
        totals = masks @ counts
        rows = totals[:, None] + totals - 2.0 * (masks * counts) @ masks.T
        cells = sizes[:, None] + sizes - 2.0 * masks @ masks.T
        reach = self._cells.reach(cells)
        is_open = np.array([is_open for _, _, is_open in known])
        most = rows + reach + (is_open[:, None] | is_open) * undeclared
        apart = ~np.eye(len(known), dtype=bool)
        nodes = [node for node, _, _ in known]
        pairs = np.ix_(nodes, nodes)
        self._least[pairs] = np.where(apart, np.maximum(self._least[pairs], rows - reach), 0.0)
        self._likely[pairs] = np.where(apart, np.minimum(self._likely[pairs], np.maximum(rows, 0.0)), 0.0)
        self._most[pairs] = np.where(apart, np.minimum(self._most[pairs], np.maximum(most, 0.0)), 0.0)

    def _use_shortest_paths(self) -> None:
        """Lowers distances to those of the shortest paths (Floyd and Warshall)."""
        for distances in (self._likely, self._most):
            for middle in stoppable_steps(range(len(distances))):
                np.minimum(distances, distances[:, middle, None] + distances[None, middle], out=distances)

    def _use_common_conditions(self) -> None:
        """Lowers distances: (x and e) and (y and e) differ in no more rows than x and y."""
        conjunctions = {n: node for node, n in self._numbers.items() if isinstance(node, frozenset)}
        whole = [nodes[0] for nodes in self._nodes_of if nodes[0] in conjunctions]
        for i, j in itertools.combinations(whole, 2):
            common = conjunctions[i] & conjunctions[j]
            x, y = (self._numbers.get(conjunctions[n] - common) for n in (i, j))
            if common and x is not None and y is not None:
                for distances in (self._likely, self._most):
                    distances[i, j] = distances[j, i] = min(distances[i, j], distances[x, y])


def _index(rows: float, apart: float) -> float:
    """The Jaccard index of two conditions whose rows add up to `rows`, where `apart` rows meet only one."""
    rows, apart = max(0.0, float(rows)), max(0.0, float(apart))
    return 0.0 if apart >= rows else (rows - apart) / (rows + apart)


def _nodes(family: PredicateFamily, predicate: int) -> Iterator[tuple[Node, tuple[int, ...]]]:
    """A predicate, then the conjunctions of fewer of its conditions, each with their positions."""
    number, index = family.place(predicate)
    part = family.parts[number]
    if not isinstance(part, Conjunctions):
        yield (number, index), ()
        return
    codes = [int(code) for code in np.unravel_index(index, part.shape)]
    conditions = list(zip(part.columns, codes, strict=True))
    everything = range(len(conditions))
    for size in (len(conditions), *range(1, len(conditions))):
        for positions in itertools.combinations(everything, size):
            yield frozenset(conditions[position] for position in positions), positions


def _masks(family: PredicateFamily, number: int, node: Node) -> Iterator[tuple[BoolArray, bool]]:
    """The cells of a part where the node holds, and whether rows of its undeclared cell may meet it too.

    Yields nothing if the part says nothing about the node.
    """
    part = family.parts[number]
    if isinstance(part, Conjunctions):
        codes = dict(node) if isinstance(node, frozenset) else {}
        if codes and codes.keys() <= set(part.columns):
            grid = np.zeros(part.shape, dtype=bool)
            grid[tuple(codes.get(name, slice(None)) for name in part.columns)] = True
            yield np.append(grid.ravel(), False), len(codes) < len(part.columns)
    elif not isinstance(node, frozenset) and node[0] == number:
        mask = np.zeros(part.cells, dtype=bool)
        mask[part.cells_of(node[1])] = True
        yield mask, False


def _folds(
    family: PredicateFamily, predicates: Sequence[int], same_as: Callable[[int], BoolArray]
) -> Iterator[tuple[int, list[int]]]:
    """Positions of distinct predicates, each with those folded under it.

    In the given order, except that the simplest of the predicates that say the same takes the place of the
    first. A predicate that says the same as that first one, but not as the simplest, stays a line of its own.
    """
    lengths = np.array([_comparisons(family.predicate(predicate)) for predicate in predicates])
    left = np.ones(len(predicates), dtype=bool)
    while left.any():
        check_stop()
        first = int(np.argmax(left))
        same = left & same_as(first)
        same[first] = True
        positions = np.flatnonzero(same)
        simplest = int(positions[np.argmin(lengths[positions])])
        others = left & same_as(simplest)
        others[first] = True
        others[simplest] = False
        yield simplest, np.flatnonzero(others).tolist()
        left &= ~others
        left[simplest] = False


def _comparisons(node: Predicate | FilterPredicate | Filter) -> int:
    """The number of comparisons in a condition: fewer are simpler."""
    match node:
        case Predicate(conditions):
            return len(conditions)
        case FilterPredicate(condition):
            return _comparisons(condition)
        case And(parts) | Or(parts):
            return sum(map(_comparisons, parts))
        case Not(part):
            return _comparisons(part)
    return 1


def fold_implied(family: PredicateFamily, lines: Sequence[ReleasedLine]) -> tuple[ReleasedLine, ...]:
    """The lines without those that imply, or are implied by, a line whose interval they overlap.

    For mechanisms that release no cells. By structure one condition's rows are among the other's, and with
    overlapping intervals neither is known to matter more. Compares as many lines as a second or two allow;
    the lines after them stay as they are.
    """
    if not can_nest(family):
        return tuple(lines)
    most = min(_MOST_FOLDED, _FOLDING_WORK // max(1, nesting_work(family)))
    compared, rest = lines[:most], lines[most:]
    predicates = np.array([line.predicate for line in compared], dtype=np.int64)
    low, high = np.array([line.influence_interval for line in compared]).reshape(-1, 2).T

    def same_as(first: int) -> BoolArray:
        overlaps = np.maximum(low, low[first]) <= np.minimum(high, high[first])
        return np.asarray(overlaps & np.isin(predicates, nested_with(family, int(predicates[first]))))

    folded = (
        replace(
            lines[first], folded=tuple(FoldedLine(lines[other].predicate, None, None) for other in others)
        )
        for first, others in _folds(family, predicates.tolist(), same_as)
    )
    return (*folded, *rest)


def can_nest(family: PredicateFamily) -> bool:
    """Whether some predicate may imply another by structure alone: listed conditions on the same columns."""
    return any(isinstance(part, Listed) and part.size > 1 for part in family.parts)


def nesting_work(family: PredicateFamily) -> int:
    """The bytes that `nested_with` compares at most for one predicate, from public sizes."""
    return max((part.comparisons // 8 for part in family.parts if isinstance(part, Listed)), default=0)


def nested_with(family: PredicateFamily, predicate: int) -> list[int]:
    """The predicates on the same columns that imply this one, or that it implies; not itself."""
    number, index = family.place(predicate)
    part = family.parts[number]
    if not isinstance(part, Listed):  # conjunctions of one value of each column exclude each other
        return []
    others = np.flatnonzero(part.nested_with(index))
    return [family.offsets[number] + int(other) for other in others if other != index]
