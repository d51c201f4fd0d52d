"""Selection of k of many scores by OpenDP's own exponential mechanism, two draws a choice.

OpenDP samples by rejection, which takes long when few of many scores are high. So each choice is made in
two steps that together are the same: first among buckets of similar scores, a bucket standing with
scale·ln Σ exp(score / scale) for its members, then among the members. The idle predicates of a family, all
of score 0, are a bucket that is never even listed (paper, appendix on large domains). docs/proofs/top-k.md
shows that this is the exact mechanism on scores off by at most a unit. Its time depends on the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpxplain.model.cancellation import checking
from dpxplain.privacy.mechanisms.scores import FamilyScores, IntArray

_DEEPEST = 63  # everything that far below the highest score shares the last bucket
_IDLE = -1


def peel_top_k(
    family: FamilyScores,
    k: int,
    scale: float,
    pick: Callable[[list[int]], int],
    below: Callable[[int], int],
) -> list[int]:
    """k choices in a row; `pick` is the exponential mechanism, `below` a uniform draw."""
    race = _Race(family, scale)
    chosen: list[int] = []
    for _ in checking(range(k)):
        buckets = race.buckets()
        bucket = list(buckets)[pick(list(buckets.values()))]
        if bucket == _IDLE:
            chosen.append(race.take_idle(below(race.idle)))
        else:
            members = race.members(bucket)
            chosen.append(race.take(bucket, 0 if len(members) == 1 else pick(members)))
    return chosen


class _Race:
    """Who can still be chosen, in buckets one scale wide counted down from the highest score."""

    def __init__(self, family: FamilyScores, scale: float) -> None:
        self.family = family
        self.scale = scale
        self.idle = family.idle
        self._idle_taken: set[int] = set()
        self._members: dict[int, IntArray] = {}
        self._together: dict[int, int] = {}
        if len(family.scores):
            depth = np.minimum((family.scores.max() - family.scores) / scale, _DEEPEST).astype(np.int64)
            order = np.argsort(depth, kind="stable")
            starts = np.flatnonzero(np.diff(depth[order], prepend=-1))
            for members in np.split(order, starts[1:]):
                self._put(int(depth[members[0]]), members)

    def buckets(self) -> dict[int, int]:
        """The score that each bucket stands with."""
        idle = {_IDLE: round(self.scale * math.log(self.idle))} if self.idle else {}
        return self._together | idle

    def members(self, bucket: int) -> list[int]:
        scores: list[int] = self.family.scores[self._members[bucket]].tolist()
        return scores

    def take(self, bucket: int, member: int) -> int:
        """Take a member of a bucket out of the race, and name it."""
        members = self._members.pop(bucket)
        del self._together[bucket]
        if len(members) > 1:
            self._put(bucket, np.delete(members, member))
        return int(self.family.active[members[member]])

    def take_idle(self, n: int) -> int:
        """The same for the n-th idle predicate still in the race."""
        index = self.family.nth_idle(n, self._idle_taken)
        self._idle_taken.add(index)
        self.idle -= 1
        return index

    def _put(self, bucket: int, members: IntArray) -> None:
        scores = self.family.scores[members]
        top = int(scores.max())
        weight = float(np.exp((scores - top) / self.scale).sum())
        self._members[bucket] = members
        self._together[bucket] = top + round(self.scale * math.log(weight))
