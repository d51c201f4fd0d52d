"""Exact samples of the discrete Gaussian law, many at a time.

The rejection sampler of Canonne, Kamath and Steinke (2020) over arrays. A candidate has a sign and the
magnitude u + v·width, with u uniform below `width` and v geometric; a coin keeps it or not. The samplers
never see a true value. docs/proofs/discrete-gaussian.md has the proof.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpxplain.privacy.calibration import LARGEST_SCALE
from dpxplain.privacy.mechanisms.exact_random import (
    FloatArray,
    Words,
    flip_coins,
    geometric,
    system_words,
    uniform_below,
)

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
        pieces.append(_kept(law, candidates, words)[:missing])
        missing -= len(pieces[-1])
    return np.concatenate(pieces)


def _kept(law: Law, candidates: int, words: Words) -> Integers:
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
