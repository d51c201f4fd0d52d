"""Releases values of an unknown domain whose noisy counts exceed a threshold: δ-approximate ρ-zCDP.

A value that only one privacy unit has is released with a probability of at most δ, because its noisy count
must exceed the threshold. docs/proofs/discovery.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpxplain.errors import InternalError
from dpxplain.model.column import ValueCounts
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.privacy.calibration import gaussian_scale, normal_quantile
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise, draw_gaussian, gaussian_measurement

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
    noisy = draw_gaussian(noise, gaussian_measurement(threshold.scale), counted.units, threshold.scale)
    # Strictly above: OpenDP's map bounds P(N ≥ T) for whole N by P(Z ≥ T − 1) for a Gaussian Z.
    above_threshold = [(value, count) for value, count in zip(counted.values, noisy.tolist(), strict=True)
            if count > threshold.least]  # fmt: skip
    above_threshold.sort()  # the order in which they were counted would reveal something about the rows
    return ValuesAboveThreshold(
        tuple(value for value, _ in above_threshold), tuple(float(count) for _, count in above_threshold)
    )


def threshold_measurement(scale: float, threshold: int) -> Any:
    """OpenDP's threshold release of counts by key, costed by how many counts differ and by how much."""
    from dpxplain.privacy.mechanisms.opendp_parts import domains, measurements, metrics

    counts = domains.map_domain(domains.atom_domain(T="String"), domains.atom_domain(T="i64"))
    metric = metrics.l02inf_distance(metrics.absolute_distance(T="f64"))
    return measurements.make_gaussian_threshold(counts, metric, scale=scale, threshold=threshold)
