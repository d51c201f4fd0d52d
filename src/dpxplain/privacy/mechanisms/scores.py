"""The integer scores of a whole family of predicates, stored sparsely.

A predicate that no row of the question's groups satisfies is idle: its influence is 0 whatever the question.
A family whose declared cells fit in memory lists every predicate as active, so that no running time depends
on how many are. For larger families only the active predicates are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpxplain.model.arrays import IntArray
from dpxplain.model.caching import cached_property
from dpxplain.privacy.mechanisms.exact_random import seeded_shuffler

_LARGEST = 2**52  # up to here float64 holds every whole number and its half


@dataclass(frozen=True)
class FamilyScores:
    """The scores of `size` predicates: `scores` for the `active` ones (increasing indices), else 0.

    >>> family = FamilyScores(np.array([1, 3]), np.array([7, -2]), size=5)
    >>> family.scores_of(range(5)).tolist(), family.at_ranks(np.arange(1, 6)).tolist()
    ([0, 7, 0, -2, 0], [7, 0, 0, 0, -2])
    """

    active: IntArray
    scores: IntArray
    size: int

    @property
    def idle(self) -> int:
        """The number of idle predicates."""
        return self.size - len(self.active)

    def scores_of(self, indices: Sequence[int]) -> IntArray:
        predicates = np.asarray(indices, dtype=np.int64)
        position = np.searchsorted(self.active, predicates)
        is_active = np.append(self.active, -1)[position] == predicates
        return np.where(is_active, np.append(self.scores, 0)[position], 0)

    def only(self, indices: IntArray) -> FamilyScores:
        """The scores of some predicates (increasing indices), numbered anew from 0."""
        is_chosen = np.isin(self.active, indices)
        return FamilyScores(
            np.searchsorted(indices, self.active[is_chosen]), self.scores[is_chosen], size=len(indices)
        )

    def between(self, start: int, stop: int) -> IntArray:
        """The scores of predicates start..stop-1, idle ones included."""
        if not self.idle:
            return self.scores[start:stop]
        dense: IntArray = np.zeros(stop - start, dtype=np.int64)
        first, last = np.searchsorted(self.active, [start, stop])
        dense[self.active[first:last] - start] = self.scores[first:last]
        return dense

    @property
    def highest(self) -> int:
        return int(self.scores.max(initial=0 if self.idle else np.iinfo(np.int64).min))

    def at_ranks(self, ranks: IntArray) -> IntArray:
        """For each rank t the t-th highest score of the whole family, counted from 1."""
        above = self._not_below_zero
        idle = (ranks > above) & (ranks <= above + self.idle)
        position = np.where(ranks <= above, ranks, ranks - self.idle) - 1
        return np.where(idle, 0, np.append(self._descending, 0)[np.where(idle, -1, position)])

    def nth_idle(self, n: int, taken: set[int]) -> int:
        """The n-th (from 0) idle index that is not among `taken` idle ones."""
        used = np.sort(np.concatenate([self.active, np.fromiter(taken, np.int64, len(taken))]))
        # The j-th used index has (used[j] − j) free ones before it.
        return n + int(np.searchsorted(used - np.arange(len(used)), n, side="right"))

    @cached_property
    def _descending(self) -> IntArray:
        """The scores in descending order, made distinct and shuffled before sorting.

        So the time taken reveals no ties and no order. A random fraction below one half makes equal scores
        different, and is cut off afterwards. Scores beyond ±2^52, which no influence has, are clamped.
        """
        shuffler = seeded_shuffler()
        keys = np.clip(self.scores, -_LARGEST, _LARGEST) + shuffler.random(len(self.scores)) / 2
        shuffler.shuffle(keys)
        keys.sort()
        return np.floor(keys[::-1]).astype(np.int64)

    @cached_property
    def _not_below_zero(self) -> int:
        return int(np.count_nonzero(self.scores >= 0))
