"""Random 64-bit words from the operating system, and uniform integers made of them."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = Callable[[int], NDArray[np.uint64]]
"""Gives so many words of independent fair bits."""


def system_words(count: int) -> NDArray[np.uint64]:
    """Words of the operating system's cryptographic generator.

    Nothing is buffered between calls, so no word can reach two threads or two forked processes.
    """
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def seeded_shuffler() -> np.random.Generator:
    """Seeded by the operating system; for the order in which work is done only, never for an outcome."""
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
