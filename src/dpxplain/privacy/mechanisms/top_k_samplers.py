"""Two exact samplers of the k highest scores after Gumbel noise. Proof: docs/proofs/top-k.md.

The race takes a time that does not depend on the scores. Each candidate has a uniform real number R, of which
64 bits are drawn. Its key is score/scale − ln(−ln(1 − R)), and the highest keys win. Floats decide where
their error cannot matter; otherwise more bits are drawn and compared in certified decimals. Candidates are
visited in random order, so the time for sorting, too, depends only on their number and k.

Peeling uses OpenDP's own exponential mechanism, and its time depends on the scores. OpenDP samples by
rejection, which takes long when few of many scores are high. So each choice is made in two steps that
together have the same distribution: first among buckets of similar scores, where a bucket's score is
scale·ln Σ exp(score / scale) over its members, then among the members. A family's idle predicates, all of
score 0, form a bucket whose members are never listed (paper, appendix on large domains). The proof shows that
this is the exact mechanism on scores off by at most a unit.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cmp_to_key

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.arrays import FloatArray
from dpxplain.model.cancellation import check_stop, checking
from dpxplain.privacy.mechanisms.exact_random import Words, one_word, seeded_shuffler
from dpxplain.privacy.mechanisms.scores import FamilyScores, IntArray

_AT_ONCE = 2**16  # candidates: their keys stay in the processor's cache, and a request can stop in between
_BITS = 64
_NEAR_ZERO, _NEAR_ONE = np.uint64(2**10), np.uint64(2**64 - 2**12)  # outside, floats are too coarse for R


@dataclass(frozen=True)
class _Field:
    """Candidates that can still be among the k highest, with bounds of their keys."""

    index: IntArray
    low: FloatArray
    high: FloatArray
    drawn: NDArray[np.uint64]

    def best(self, k: int) -> _Field:
        """The field without candidates that k others certainly beat."""
        if len(self.index) <= k:
            return self
        place = len(self.low) - k
        return self.at(self.high >= np.partition(self.low, place)[place])

    def at(self, places: NDArray[np.bool_] | IntArray) -> _Field:
        return _Field(self.index[places], self.low[places], self.high[places], self.drawn[places])

    def joined(self, other: _Field) -> _Field:
        return _Field(
            np.concatenate([self.index, other.index]),
            np.concatenate([self.low, other.low]),
            np.concatenate([self.high, other.high]),
            np.concatenate([self.drawn, other.drawn]),
        )


def gumbel_top_k(family: FamilyScores, k: int, scale: float, words: Words) -> list[int]:
    """The k winners in order, with the law of k exponential mechanisms, each on the candidates left."""
    highest = family.highest
    shuffler = seeded_shuffler()
    empty = np.zeros(0)
    field = _Field(empty.astype(np.int64), empty, empty, empty.astype(np.uint64))
    for start in checking(range(0, family.size, _AT_ONCE)):
        stop = min(start + _AT_ONCE, family.size)
        drawn = words(stop - start)
        low, high = key_bounds((family.between(start, stop) - highest) / scale, drawn)
        field = field.joined(_Field(np.arange(start, stop), low, high, drawn))
        field = field.at(shuffler.permutation(len(field.index))).best(k)
    chosen: list[int] = []
    for tied in _decided(field):
        if len(chosen) >= k:
            break
        if len(tied.index) > 1:
            leads = family.scores_of(tied.index.tolist()) - highest
            chosen += _exact_order(tied, leads, scale, words)
        else:
            chosen += tied.index.tolist()
    return chosen[:k]


def _decided(field: _Field) -> Iterator[_Field]:
    """The field, highest first, cut wherever all keys before are certainly above all keys after."""
    field = field.at(np.argsort(-field.low))
    highest_after = np.maximum.accumulate(field.high[::-1])[::-1][1:]
    ends = np.flatnonzero(field.low[:-1] > highest_after) + 1
    for places in np.split(np.arange(len(field.index)), ends):
        yield field.at(places)


def key_bounds(leads: FloatArray, drawn: NDArray[np.uint64]) -> tuple[FloatArray, FloatArray]:
    """Bounds of lead − ln(−ln(1 − R)), for R between drawn/2^64 and (drawn + 1)/2^64.

    They allow for the errors of the logarithms, of R's position inside its 2^-64, of its rounding, which
    near 1 is large compared with 1 − R, and of the lead's division (docs/proofs/top-k.md).
    """
    middle = drawn * 2.0**-_BITS
    middle += 2.0 ** -(_BITS + 1)
    np.minimum(middle, 1.0 - 2.0**-53, out=middle)
    error = 2.0**-40 + 2.0**-50 / (1.0 - middle) + 2.0**-60 / middle + 2.0**-50 * np.abs(leads)
    error[(drawn < _NEAR_ZERO) | (drawn >= _NEAR_ONE)] = np.inf
    key = leads - np.log(-np.log1p(-middle))
    return key - error, key + error


def _exact_order(field: _Field, leads: IntArray, scale: float, words: Words) -> list[int]:
    """The field's candidates, highest key first; draws as many bits as needed."""
    exact_scale = Fraction(scale)
    candidates = [
        _Candidate(index, lead / exact_scale, drawn)
        for index, lead, drawn in zip(field.index.tolist(), leads.tolist(), field.drawn.tolist(), strict=True)
    ]
    candidates.sort(key=cmp_to_key(lambda first, other: _compare(first, other, words)))
    return [candidate.index for candidate in candidates]


class _Candidate:
    """A candidate's key between two bounds, which further bits bring together."""

    def __init__(self, index: int, lead: Fraction, drawn: int) -> None:
        self.index = index
        self._lead, self._drawn, self._bits = lead, drawn, _BITS
        self.low, self.high = self._bounds()

    def refine(self, words: Words) -> None:
        self._drawn, self._bits = self._drawn << _BITS | one_word(words), self._bits + _BITS
        self.low, self.high = self._bounds()

    def _bounds(self) -> tuple[Decimal, Decimal]:
        with decimal.localcontext(
            prec=self._bits + 40, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN
        ) as context:
            lead = Decimal(self._lead.numerator) / Decimal(self._lead.denominator)
            margin = (abs(lead) + self._bits) * Decimal(10) ** (5 - context.prec)
            low = lead - _log_exponential(self._drawn + 1, self._bits) - margin
            return low, lead - _log_exponential(self._drawn, self._bits) + margin


def _log_exponential(numerator: int, bits: int) -> Decimal:
    """ln(−ln(1 − numerator/2^bits)). Decimal logarithms are correctly rounded; the division is exact."""
    whole = 1 << bits
    if numerator in (0, whole):
        return Decimal("Infinity") if numerator else Decimal("-Infinity")
    return (-(Decimal(whole - numerator) / whole).ln()).ln()


def _compare(first: _Candidate, second: _Candidate, words: Words) -> int:
    """Negative if the first is ahead."""
    while True:
        check_stop()
        if first.low > second.high:
            return -1
        if second.low > first.high:
            return 1
        first.refine(words)
        second.refine(words)


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
    """The predicates that can still be chosen, in buckets one scale wide from the highest score down."""

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
        """The score of each bucket."""
        idle = {_IDLE: round(self.scale * math.log(self.idle))} if self.idle else {}
        return self._together | idle

    def members(self, bucket: int) -> list[int]:
        scores: list[int] = self.family.scores[self._members[bucket]].tolist()
        return scores

    def take(self, bucket: int, member: int) -> int:
        """Takes a member of a bucket out of the race and returns its index."""
        members = self._members.pop(bucket)
        del self._together[bucket]
        if len(members) > 1:
            self._put(bucket, np.delete(members, member))
        return int(self.family.active[members[member]])

    def take_idle(self, n: int) -> int:
        """Takes the n-th idle predicate that is still in the race and returns its index."""
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
