"""Gaussian noise on whole numbers: counts, fixed-point sums and influence scores.

Values are refined to a lattice much finer than the noise before discrete Gaussian noise is added.
The cost is the same, and Gaussian intervals then hold as if the noise were continuous; on bare integers
with σ = 0.5 a 95% interval would cover only 79%. Proof: docs/proofs/gaussian.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.confidential import Confidential, sealed
from dpxplain.privacy.calibration import gaussian_scale
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise, draw_gaussian

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
    from dpxplain.privacy.mechanisms.opendp_parts import domains, measurements, metrics

    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T="f64")
    return measurements.make_gaussian(*space, scale=scale)
