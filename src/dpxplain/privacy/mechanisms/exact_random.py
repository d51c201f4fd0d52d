"""Exact random numbers from the operating system: uniform integers, coins that show heads with probability
e^-x, and geometric numbers.

A uniform real number is known by its first bits. Floats decide where their error cannot matter; otherwise
more bits are drawn and compared with certified bounds of e^-x. Proof: docs/proofs/discrete-gaussian.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.arrays import FloatArray

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
