"""Where randomness comes from.

`OpenDPNoise` is the real one: exact discrete samplers on a cryptographic generator. `SeededNoise` is
for experiments that must be repeatable; whatever it touches is marked as not private.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import opendp.prelude as dp

from dpxplain.errors import InternalError

dp.enable_features("contrib")


class NoiseSource(Protocol):
    """Draws for one authorised OpenDP measurement."""

    private: bool

    def gaussian(self, measurement: Any, values: list[int], scale: float) -> list[int]: ...

    def top_k(self, measurement: Any, scores: list[int], k: int, scale: float) -> list[int]: ...


class OpenDPNoise:
    """OpenDP's own samplers."""

    private = True

    def gaussian(self, measurement: Any, values: list[int], scale: float) -> list[int]:
        return list(measurement(values))

    def top_k(self, measurement: Any, scores: list[int], k: int, scale: float) -> list[int]:
        return list(measurement(scores))


class SeededNoise:
    """Repeatable noise of the same distributions, for experiments only. Not private."""

    private = False

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._seeded = np.random.default_rng(seed)

    def gaussian(self, measurement: Any, values: list[int], scale: float) -> list[int]:
        # The lattice is fine (see gaussian.py), so a rounded Gaussian stands in for the discrete one.
        noise = np.rint(self._seeded.normal(0.0, scale, len(values))).astype(np.int64)
        return [value + int(extra) for value, extra in zip(values, noise, strict=True)]

    def top_k(self, measurement: Any, scores: list[int], k: int, scale: float) -> list[int]:
        noisy = np.asarray(scores, dtype=np.float64) + self._seeded.gumbel(0.0, scale, len(scores))
        return [int(i) for i in np.argsort(-noisy, kind="stable")[:k]]


def authorise(build: Callable[[float], Any], scale: float, sensitivity: int, rho: float) -> tuple[Any, float]:
    """The measurement whose cost, by OpenDP's privacy map, is the planned ρ and not a digit more.

    OpenDP rounds its map up, so a scale computed in floats can come out a few units in the last place
    too dear; it is widened until the map agrees.
    """
    for _ in range(64):
        measurement = build(scale)
        cost = measurement.map(sensitivity)
        if cost <= rho:
            break
        scale *= 1.0 + 2.0**-50
    if not rho * (1.0 - 1e-9) <= cost <= rho:
        raise InternalError("OpenDP's privacy map does not agree with the planned cost of a release.")
    return measurement, scale
