"""Private selection of the k highest scores (SPEC section 6, mechanism 1).

Gumbel noise on every score and the k highest is the same as k exponential mechanisms, each on what the
ones before it left. OpenDP samples one by rejection, which takes long when few of many scores are high,
so each choice is made in two steps that together are the same: first among buckets of similar scores,
a bucket standing with scale·ln Σ exp(score / scale) for its members, then among the members. The idle
predicates of a family, all of score 0, are a bucket that is never even listed (paper, appendix on large
domains). docs/proofs/top-k.md shows that this is the exact mechanism on scores off by at most a unit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpxplain.model.cancellation import checking
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.privacy.calibration import top_k_scale
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise
from dpxplain.privacy.mechanisms.scores import FamilyScores, IntArray

_DEEPEST = 63  # everything that far below the highest score shares the last bucket
_IDLE = -1
_FEW = 256  # candidates that OpenDP runs through quickly by themselves


@sealed
def select_top_k(
    secret: Confidential[FamilyScores], *, k: int, sensitivity: int, rho: float, noise: NoiseSource
) -> list[int]:
    """Indices of k predicates, likely the highest; any one score changes by at most `sensitivity`."""
    widened = sensitivity + bucket_rounding(sensitivity, k, rho)
    measurement, scale = authorise(_exponential, top_k_scale(widened, 1, rho / k), widened, rho / k)
    race = _Race(secret.reveal(), scale)
    chosen: list[int] = []
    for _ in checking(range(k)):
        buckets = race.buckets()
        bucket = list(buckets)[noise.pick(measurement, list(buckets.values()), scale)]
        if bucket == _IDLE:
            chosen.append(race.take_idle(noise.below(race.idle)))
        else:
            members = race.members(bucket)
            alone = len(members) == 1
            chosen.append(race.take(bucket, 0 if alone else noise.pick(measurement, members, scale)))
    return chosen


def bucket_rounding(sensitivity: int, k: int, rho: float) -> int:
    """What the sensitivity grows by because a bucket's score is rounded (docs/proofs/top-k.md).

    Half a unit either way, and 2^-40 of the scale for the floats in the logarithm, which is far more than
    they can be off; how much it is may depend on the data, so it counts twice.
    """
    return 2 + math.ceil(2 * top_k_scale(2 * sensitivity, 1, rho / k) * 2.0**-40)


class _Race:
    """Who can still be chosen, in buckets one scale wide counted down from the highest score."""

    def __init__(self, family: FamilyScores, scale: float) -> None:
        self.family = family
        self.scale = scale
        self.idle = family.idle
        self._idle_taken: set[int] = set()
        self._members: dict[int, IntArray] = {}
        self._together: dict[int, int] = {}
        if len(family.scores) <= _FEW:
            # Nothing to gain: each is a bucket of its own, with its own score.
            self._together = dict(enumerate(family.scores.tolist()))
            self._members = {position: np.array([position]) for position in self._together}
        else:
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


def _exponential(scale: float) -> Any:
    """OpenDP's exact exponential mechanism: one index, costed by the largest change of a score."""
    from dpxplain.privacy.mechanisms.opendp_parts import domains, measurements, measures, metrics

    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.linf_distance(T="i64")
    divergence = measures.zero_concentrated_divergence()
    return measurements.make_noisy_top_k(*space, output_measure=divergence, k=1, scale=scale)
