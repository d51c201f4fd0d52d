"""Draws noise for releases: sources of randomness, the check of what a draw costs, Gaussian noise, and the
release of values whose noisy counts exceed a threshold.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import InternalError
from dpxplain.model.column import ValueCounts
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.model.hardening import require_exact_numbers
from dpxplain.model.process import check_stop
from dpxplain.model.schema import NoiseKind
from dpxplain.privacy.calibration import LARGEST_SCALE, gaussian_scale, normal_quantile
from dpxplain.privacy.mechanisms.samplers import (
    FamilyScores,
    Words,
    discrete_gaussian,
    gumbel_top_k,
    peel_top_k,
    saturating_sum,
    system_words,
)

# -- Sources of randomness ---------------------------------------------------------------------------------
#
# `VectorisedNoise` and `OpenDPNoise` draw from the same exact discrete laws on cryptographic generators, the
# first many times faster. `SeededNoise` is for experiments that must be repeatable; its results are marked as
# NOT private. `RehearsalNoise` replaces noise when a plan is tried without data.

Values = NDArray[np.int64]

DRAWS_AT_ONCE = 2048  # about 50 ms in OpenDP, which cannot be interrupted


class NoiseSource(Protocol):
    """Draws for one authorised OpenDP measurement."""

    private: bool

    def gaussian(self, measurement: Any, values: Values, scale: float) -> Values:
        """The values with discrete Gaussian noise of `scale`, which is the measurement's."""

    def top_k(self, measurement: Any, family: FamilyScores, k: int, scale: float) -> list[int]:
        """The k highest scores after Gumbel noise of `scale`: k runs of the measurement, each on the rest."""


class OpenDPNoise:
    """OpenDP's own samplers."""

    private = True

    def gaussian(self, measurement: Any, values: Values, scale: float) -> Values:
        return np.array(measurement(values), dtype=np.int64)

    def top_k(self, measurement: Any, family: FamilyScores, k: int, scale: float) -> list[int]:
        return peel_top_k(family, k, scale, lambda scores: self.pick(measurement, scores), secrets.randbelow)

    def pick(self, measurement: Any, scores: list[int]) -> int:
        # As an array: OpenDP converts lists element by element, in Python.
        return int(measurement(np.asarray(scores, dtype=np.int64))[0])


class VectorisedNoise:
    """Our own exact samplers (docs/proofs/discrete-gaussian.md, top-k.md). Values do not affect their time.

    Gaussian noise is drawn before it is added to the values; the race for the top k looks at all candidates.
    """

    private = True

    def __init__(self, words: Words = system_words) -> None:
        self._words = words

    def gaussian(self, measurement: Any, values: Values, scale: float) -> Values:
        return saturating_sum(values, discrete_gaussian(scale, len(values), self._words))

    def top_k(self, measurement: Any, family: FamilyScores, k: int, scale: float) -> list[int]:
        return gumbel_top_k(family, k, scale, self._words)


class SeededNoise:
    """Repeatable noise of the same distributions, for experiments only. Not private."""

    private = False

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._seeded = np.random.default_rng(seed)

    def gaussian(self, measurement: Any, values: Values, scale: float) -> Values:
        # The lattice is fine (see `add_gaussian`), so a rounded Gaussian stands in for the discrete one.
        return saturating_sum(values, np.rint(self._seeded.normal(0.0, scale, len(values))).astype(np.int64))

    def top_k(self, measurement: Any, family: FamilyScores, k: int, scale: float) -> list[int]:
        def below(bound: int) -> int:
            return int(self._seeded.integers(bound))

        return peel_top_k(family, k, scale, lambda scores: self.pick(scores, scale), below)

    def pick(self, scores: list[int], scale: float) -> int:
        noisy = np.asarray(scores, dtype=np.float64) + self._seeded.gumbel(0.0, scale, len(scores))
        return int(np.argmax(noisy))


class RehearsalNoise:
    """Numbers of the right size, to try a plan on a table without rows. Not noise, and not private."""

    private = False

    def gaussian(self, measurement: Any, values: Values, scale: float) -> Values:
        return np.rint(np.resize(_REHEARSED, len(values)) * scale).astype(np.int64)

    def top_k(self, measurement: Any, family: FamilyScores, k: int, scale: float) -> list[int]:
        return list(range(k))


_REHEARSED = np.array([0.75, -0.5, 1.25, -1.5])  # counts above and below 0


def private_noise(kind: NoiseKind) -> NoiseSource:
    """The source that a schema's `[privacy] noise` names."""
    return OpenDPNoise() if kind == "opendp" else VectorisedNoise()


# -- Authorised draws --------------------------------------------------------------------------------------


# OpenDP is imported where a measurement is built, because it loads slower than most commands run. It is not
# opendp.prelude, which would import polars, sklearn and more.


@cache
def enable_opendp() -> None:
    """Lets OpenDP build measurements, which it counts among its contributed features."""
    from opendp.mod import enable_features

    enable_features("contrib")


def draw_gaussian(noise: NoiseSource, measurement: Any, values: Values, scale: float) -> Values:
    """Values plus noise, added piece by piece, so that a request can be stopped in between.

    The coordinates' noises are independent and of one scale, so the pieces together have the law of the
    whole. `authorise` has checked the cost. The measurement's map is (distance/scale)²/2, rounded up from
    exact rationals, so exactly ½ at `scale` shows that `scale` is the measurement's own.
    """
    if measurement.map(scale) != 0.5:
        raise InternalError("The scale of the noise differs from the authorised one.")
    released = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), DRAWS_AT_ONCE):
        check_stop()
        piece = slice(start, start + DRAWS_AT_ONCE)
        released[piece] = noise.gaussian(measurement, values[piece], scale)
    return released


def authorise(
    build: Callable[[float], Any], scale: float, sensitivity: float, rho: float
) -> tuple[Any, float]:
    """The measurement, and its scale, that costs the planned ρ and no more by OpenDP's privacy map.

    OpenDP rounds its map up, so a scale computed in floats can cost a few units in the last place too much.
    It is widened until the map agrees.
    """
    require_exact_numbers(scale, sensitivity, rho)
    if not scale <= LARGEST_SCALE:
        raise InternalError("The planned noise is larger than the range of the released numbers.")
    for _ in range(8):
        scale *= 1.0 + 2.0**-48
        measurement = build(scale)
        cost = measurement.map(sensitivity)
        if cost <= rho:
            break
    if not rho * (1.0 - 1e-9) <= cost <= rho:
        raise InternalError("OpenDP's privacy map does not agree with the planned cost of a release.")
    return measurement, scale


# -- Gaussian noise ----------------------------------------------------------------------------------------
#
# On whole numbers: counts, fixed-point sums and influence scores. They are refined to a lattice much finer
# than the noise before discrete Gaussian noise is added. The cost is the same, and Gaussian intervals then
# hold as if the noise were continuous; on bare integers with σ = 0.5 a 95% interval would cover only 79%.
# Proof: docs/proofs/gaussian.md.

_FINENESS = 2**16  # lattice points per σ, at least
_LARGEST = 2**62  # clamping never raises a sensitivity, and keeps every draw inside 64 bits


@dataclass(frozen=True)
class NoisyValues:
    """Released values in the unit they came in, with the σ of their noise."""

    values: NDArray[np.float64]
    scale: float


@sealed
def add_gaussian(
    secret: Confidential[NDArray[np.int64]], *, sensitivity: float, rho: float, noise: NoiseSource
) -> NoisyValues:
    """Release a vector of whole numbers whose L2 sensitivity is `sensitivity`, for exactly `rho`."""
    scale = gaussian_scale(sensitivity, rho)
    fineness = max(1, 2 ** math.ceil(math.log2(_FINENESS / scale)))
    measurement, fine_scale = authorise(gaussian_measurement, scale * fineness, sensitivity * fineness, rho)
    largest = _LARGEST // fineness
    exact = np.clip(secret.reveal(), -largest, largest) * fineness
    released = draw_gaussian(noise, measurement, exact, fine_scale)
    return NoisyValues(released.astype(np.float64) / fineness, fine_scale / fineness)


def gaussian_measurement(scale: float) -> Any:
    """OpenDP's discrete Gaussian on vectors of 64-bit integers, costed by their L2 distance."""
    from opendp import domains, measurements, metrics

    enable_opendp()
    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T="f64")
    return measurements.make_gaussian(*space, scale=scale)


# -- Values above a threshold ------------------------------------------------------------------------------
#
# For values of an unknown domain: δ-approximate ρ-zCDP. A value that only one privacy unit has is released
# with a probability of at most δ, because its noisy count must exceed the threshold. docs/proofs/discovery.md
# has the proof.

_MOST_STEPS = 64  # the most that rounding may raise the threshold by


@dataclass(frozen=True)
class Threshold:
    """The noise of the counts, and the number that a noisy count must exceed."""

    scale: float
    least: int


@dataclass(frozen=True)
class ValuesAboveThreshold:
    """The values above the threshold, in order, and their noisy counts."""

    values: tuple[str, ...]
    counts: tuple[float, ...]


def threshold_for(changes: int, rho: float, delta: float) -> Threshold:
    """The scale and the threshold for `rho` and `delta`, where neighbours differ by 1 in `changes` counts.

    T is the least threshold that costs at most `delta` by OpenDP's map: the sum of P(1 + N > T) over the
    counts that are 0 on one side.
    """
    distance = math.nextafter(math.sqrt(changes), math.inf)
    _, scale = authorise(gaussian_measurement, gaussian_scale(distance, rho), distance, rho)
    least = 1 + max(0, math.floor(-normal_quantile(delta / changes) * scale))
    for _ in range(_MOST_STEPS):
        cost = threshold_measurement(scale, least).map((changes, distance, 1.0))
        if cost[1] <= delta:
            break
        least += 1
    if not (cost[0] <= rho and cost[1] <= delta):
        raise InternalError("OpenDP's privacy map does not agree with the planned cost of a discovery.")
    return Threshold(scale, least)


@sealed
def values_above(
    secret: Confidential[ValueCounts], *, changes: int, rho: float, delta: float, noise: NoiseSource
) -> ValuesAboveThreshold:
    """Release the values whose noisy count exceeds the threshold, for exactly `rho` and at most `delta`."""
    threshold = threshold_for(changes, rho, delta)
    counted = secret.reveal()
    # Sorted before the draw: an engine returns groups in any order. That order would reveal something about
    # the rows, and a seed would not repeat the noise of each value.
    order = sorted(range(len(counted.values)), key=counted.values.__getitem__)
    units = counted.units[order]
    noisy = draw_gaussian(noise, gaussian_measurement(threshold.scale), units, threshold.scale)
    # Strictly above: OpenDP's map bounds P(N ≥ T) for whole N by P(Z ≥ T − 1) for a Gaussian Z.
    above = np.flatnonzero(noisy > threshold.least).tolist()
    return ValuesAboveThreshold(
        tuple(counted.values[order[place]] for place in above), tuple(map(float, noisy[above]))
    )


def threshold_measurement(scale: float, threshold: int) -> Any:
    """OpenDP's threshold release of counts by key, costed by how many counts differ and by how much."""
    from opendp import domains, measurements, metrics

    enable_opendp()
    counts = domains.map_domain(domains.atom_domain(T="String"), domains.atom_domain(T="i64"))
    metric = metrics.l02inf_distance(metrics.absolute_distance(T="f64"))
    return measurements.make_gaussian_threshold(counts, metric, scale=scale, threshold=threshold)
