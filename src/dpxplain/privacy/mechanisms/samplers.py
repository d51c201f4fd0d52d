"""Exact samplers on random bits of the operating system: discrete Gaussian noise, and the k highest scores
after Gumbel noise.
"""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, cmp_to_key, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.process import cached_property, check_stop, stoppable_steps
from dpxplain.model.release import FloatArray, IntArray
from dpxplain.privacy.calibration import LARGEST_SCALE

# -- Random numbers ----------------------------------------------------------------------------------------
#
# Uniform integers, coins that show heads with probability e^-x, and geometric numbers.
#
# A uniform real number is known by its first bits. Floats decide where their error cannot matter; otherwise
# more bits are drawn and compared with certified bounds of e^-x. Proof: docs/proofs/discrete-gaussian.md.

Words = Callable[[int], NDArray[np.uint64]]
"""Returns the given number of 64-bit words of independent fair bits."""


def system_words(count: int) -> NDArray[np.uint64]:
    """Words of the operating system's cryptographic generator.

    Nothing is buffered between calls, so no word can reach two threads or two forked processes.
    """
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def seeded_shuffler() -> np.random.Generator:
    """A generator seeded by the operating system; only for the order of work, never for an outcome."""
    return np.random.default_rng()  # seeded, and quick


def one_word(words: Words) -> int:
    return int(words(1)[0])


def uniform_below(bound: int, count: int, words: Words) -> NDArray[np.uint64]:
    """Independent integers, each of 0..bound-1 equally likely; `bound` is at most 2^63.

    A word at or above the largest multiple of `bound` is drawn again: below it, every remainder has
    equally many words.
    """
    drawn = words(count)
    largest = np.uint64(2**64 - 2**64 % bound - 1)
    while len(rejected := np.flatnonzero(drawn > largest)):
        drawn = drawn.copy()  # words from the system are read-only
        drawn[rejected] = words(len(rejected))
    divisor = np.uint64(bound)
    return drawn - drawn // divisor * divisor  # NumPy's division by one number is faster than its remainder


TOLERANCE = 2.0**-45
"""More than twice the total error of `_exponential` and of the exponents it is given."""

_FAR = 40.0  # e^-40 is below 2^-57: exponents beyond it make no difference to the floats
_LOG2_E, _LN_2 = 1.4426950408889634, 0.6931471805599453  # written out: no library's log is trusted
_TAYLOR = tuple((-1) ** n / math.factorial(n) for n in range(13))
_GEOMETRIC_BITS = 63


def flip_coins(
    exponents: FloatArray, exact_exponent: Callable[[int], Fraction], words: Words
) -> NDArray[np.bool_]:
    """True with probability e^-x for each exponent x, independently.

    `exponents` are rounded; `exact_exponent` gives the exact one at an index. The two may differ in e^-x
    by at most 6·2^-53.
    """
    drawn = words(len(exponents))
    lead = _exponential(exponents)
    lead -= (drawn >> np.uint64(11)) * 2.0**-53
    heads = lead > 0.0
    for index in np.flatnonzero(np.abs(lead) <= TOLERANCE).tolist():
        heads[index] = is_below_exponential(int(drawn[index]), 64, exact_exponent(index), words)
    return heads


def _exponential(exponents: FloatArray) -> FloatArray:
    """e^-x with an error of at most 2^-47, from additions and multiplications alone.

    IEEE 754 bounds the rounding of these, so nothing is assumed about a library's exp.
    """
    rest = np.minimum(exponents, _FAR)
    halvings = np.rint(rest * _LOG2_E)
    rest -= halvings * _LN_2
    power = np.full_like(rest, _TAYLOR[-1])
    for coefficient in _TAYLOR[-2::-1]:
        power *= rest
        power += coefficient
    power *= _POWERS_OF_HALF.take(halvings.astype(np.int64))
    return power


_POWERS_OF_HALF = np.ldexp(1.0, -np.arange(64))  # exact, which a vectorised pow need not be


def geometric(uniform: NDArray[np.uint64], words: Words) -> NDArray[np.int64]:
    """For each uniform R in [0, 1), of which the first 63 bits are given: how many j ≥ 1 have R < e^-j.

    P(at least j) = e^-j, which is the geometric law. Where the bits equal a threshold's first 63, more bits
    are drawn.
    """
    thresholds = _geometric_thresholds()
    place = np.searchsorted(thresholds, uniform)
    numbers = len(thresholds) - place
    undecided = thresholds.take(place, mode="clip") == uniform
    for index in np.flatnonzero(undecided).tolist():
        numbers[index] = exact_geometric(int(uniform[index]), _GEOMETRIC_BITS, words)
    return numbers


@cache
def _geometric_thresholds() -> NDArray[np.uint64]:
    """⌊2^63·e^-j⌋ in ascending order, from the first j for which it is 0 to j = 1."""
    thresholds = [_first_bits(j) for j in range(1, 45)]
    return np.array(thresholds[::-1], dtype=np.uint64)


def _first_bits(number: int) -> int:
    """⌊2^63·e^-number⌋."""
    guard = 64
    while True:
        low, high = (
            bound >> guard for bound in exponential_bounds(Fraction(number), _GEOMETRIC_BITS + guard)
        )
        if low == high:
            return low
        guard *= 2


def exact_geometric(prefix: int, bits: int, words: Words) -> int:
    """How many j ≥ 1 have R < e^-j, for the uniform R whose first `bits` bits are `prefix`."""
    number = 0
    while True:
        low, high = exponential_bounds(Fraction(number + 1), bits)
        if prefix < low:
            number += 1
        elif prefix >= high:
            return number
        else:
            prefix, bits = prefix << 64 | one_word(words), bits + 64


def is_below_exponential(prefix: int, bits: int, exponent: Fraction, words: Words) -> bool:
    """Whether R < e^-exponent, for the uniform R in [0, 1) whose first `bits` bits are `prefix`."""
    if exponent == 0:
        return True
    while True:
        low, high = exponential_bounds(exponent, bits)
        if prefix < low:
            return True  # R < (prefix + 1)/2^bits ≤ e^-exponent
        if prefix >= high:
            return False
        prefix, bits = prefix << 64 | one_word(words), bits + 64


def exponential_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Integers, low ≤ 2^bits · e^-exponent ≤ high, that differ by little; `exponent` is not negative."""
    if exponent > bits:
        return 0, 1
    squarings = math.ceil(exponent).bit_length()  # e^-x = (e^-y)^(2^squarings) with y = x/2^squarings ≤ 1
    width = bits + 2 * squarings + 32
    scaled = exponent * 2 ** (width - squarings)
    low, high = _series(math.ceil(scaled), width)[0], _series(math.floor(scaled), width)[1]
    for _ in range(squarings):
        low, high = low * low >> width, -(-high * high >> width)
    spare = width - bits
    return low >> spare, -(-high >> spare)


def _series(argument: int, width: int) -> tuple[int, int]:
    """Bounds of 2^width · e^-y for y = argument/2^width in [0, 1].

    Each term is rounded down from the one before it, so it is less than 2 too small; what is left out
    after the last one is alternating and begins below 2.
    """
    term, total, terms = 1 << width, 0, 0
    while term > 0:
        total += -term if terms % 2 else term
        terms += 1
        term = (term * argument >> width) // terms
    slack = 2 * terms + 2
    return max(total - slack, 0), total + slack


# -- Discrete Gaussian -------------------------------------------------------------------------------------
#
# The rejection sampler of Canonne, Kamath and Steinke (2020) over arrays. A candidate has a sign and the
# magnitude u + v·width, with u uniform below `width` and v geometric; a coin keeps it or not. The samplers
# never see a true value. docs/proofs/discrete-gaussian.md has the proof.

Integers = NDArray[Any]
"""64-bit integers, or Python integers if 64 bits are too few, which has a chance below 2^-700."""

_CANDIDATES_PER_SAMPLE = 2.2  # the Gaussian keeps 0.48 of them at any large scale
_MOST_CANDIDATES = 2**14  # in one round: its arrays stay in the processor's cache
_MOST_SCALE = 2 * LARGEST_SCALE  # `authorise` widens the scales that it admits, by a few units
_FAR_STRIP = 2**9  # from here on a magnitude may exceed 63 bits: width is below 2^53 + 1


class Law(Protocol):
    """A symmetric law on the integers, as candidates and the probability e^-exponent of keeping them."""

    width: int

    def exponents(self, u: Integers, v: Integers) -> FloatArray:
        """The exponents, rounded; e^-exponent is off by at most 6·2^-53."""

    def exact_exponent(self, u: int, v: int) -> Fraction: ...

    def magnitudes(self, u: Integers, v: Integers) -> Integers: ...


class GaussianLaw:
    """P(n) proportional to e^(-n²/(2·scale²)), where `scale` is exactly the float's value."""

    def __init__(self, scale: float) -> None:
        if not 0.0 < scale <= _MOST_SCALE:
            raise ValueError("The scale of noise must be above 0 and at most 2^51.")
        sigma = Fraction(scale)
        self.width = math.floor(sigma) + 1
        self._centre = sigma**2 / self.width  # in integers; below, in strips
        self._variance = sigma**2
        self._shift = float(self._centre / self.width)
        # Below σ = 2^-32 all magnitudes but 0 are as good as impossible, with this steepness too.
        self._steepness = float(min(self.width**2 / (2 * self._variance), Fraction(2**64)))

    def exponents(self, u: Integers, v: Integers) -> FloatArray:
        inside = u.astype(np.float64)
        inside /= self.width
        distance = v + inside
        distance -= self._shift
        distance *= distance
        distance *= self._steepness
        distance += inside
        return distance

    def exact_exponent(self, u: int, v: int) -> Fraction:
        distance = u + v * self.width - self._centre
        return Fraction(u, self.width) + distance**2 / (2 * self._variance)

    def magnitudes(self, u: Integers, v: Integers) -> Integers:
        whole: Integers = u + v * self.width
        return whole


@lru_cache(maxsize=64)
def _gaussian_law(scale: float) -> GaussianLaw:
    return GaussianLaw(scale)


def discrete_gaussian(scale: float, count: int, words: Words = system_words) -> Integers:
    """Independent samples of the discrete Gaussian law."""
    return sample(_gaussian_law(scale), count, words)


def sample(law: Law, count: int, words: Words) -> Integers:
    """The first `count` accepted candidates; the number of rounds says nothing about their values."""
    pieces: list[Integers] = [np.empty(0, dtype=np.int64)]
    missing = count
    while missing:
        candidates = min(int(_CANDIDATES_PER_SAMPLE * missing) + 64, _MOST_CANDIDATES)
        pieces.append(_accepted(law, candidates, words)[:missing])
        missing -= len(pieces[-1])
    return np.concatenate(pieces)


def _accepted(law: Law, candidates: int, words: Words) -> Integers:
    """Draws the given number of candidates and returns the accepted ones."""
    u: Integers = uniform_below(law.width, candidates, words).view(np.int64)
    signed = words(candidates)
    v: Integers = geometric(signed >> np.uint64(1), words)
    negative = (signed & np.uint64(1)).astype(np.bool_)
    keep = flip_coins(law.exponents(u, v), lambda i: law.exact_exponent(int(u[i]), int(v[i])), words)
    if v.max() >= _FAR_STRIP:
        u, v = u.astype(object), v.astype(object)
    magnitudes = law.magnitudes(u, v)
    keep &= ~negative | (magnitudes != 0)  # else 0 would come twice, as 0 and as -0
    samples = magnitudes[keep]
    np.negative(samples, out=samples, where=negative[keep])
    return samples


def saturating_sum(values: NDArray[np.int64], noise: Integers) -> NDArray[np.int64]:
    """Values plus noise, limited to the 64-bit range as OpenDP does."""
    if noise.dtype == object:
        limits = np.iinfo(np.int64)
        total: Integers = np.clip(values.astype(object) + noise, limits.min, limits.max)
        return total.astype(np.int64)
    total = values + noise
    overflow = ((values ^ total) & (noise ^ total)) < 0  # the sum has another sign than both
    return np.where(overflow, np.where(noise < 0, np.int64(-(2**63)), np.int64(2**63 - 1)), total)


# -- Scores ------------------------------------------------------------------------------------------------
#
# The integer scores of a whole family of predicates, stored sparsely. A predicate that no row of the
# question's groups satisfies is idle: its influence is 0 whatever the question. A family whose declared cells
# fit in memory lists every predicate as active, so that no running time depends on how many are. For larger
# families only the active predicates are stored.

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


# -- The k highest scores ----------------------------------------------------------------------------------
#
# Two exact samplers of the k highest scores after Gumbel noise. Proof: docs/proofs/top-k.md.
#
# The race takes a time that does not depend on the scores. Each candidate has a uniform real number R, of
# which 64 bits are drawn. Its key is score/scale − ln(−ln(1 − R)), and the highest keys win. Floats decide
# where their error cannot matter; otherwise more bits are drawn and compared in certified decimals.
# Candidates are visited in random order, so the time for sorting, too, depends only on their number and k.
#
# Peeling uses OpenDP's own exponential mechanism, and its time depends on the scores. OpenDP samples by
# rejection, which takes long when few of many scores are high. So each choice is made in two steps that
# together have the same distribution: first among buckets of similar scores, where a bucket's score is
# scale·ln Σ exp(score / scale) over its members, then among the members. A family's idle predicates, all of
# score 0, form a bucket whose members are never listed (paper, appendix on large domains). The proof shows
# that this is the exact mechanism on scores off by at most a unit.

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
    for start in stoppable_steps(range(0, family.size, _AT_ONCE)):
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
    for _ in stoppable_steps(range(k)):
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
