"""Private selection of the k highest scores (SPEC section 6, mechanism 1).

Gumbel noise on every score and the k highest is the same as k exponential mechanisms, each on what the
ones before it left. How it is drawn is the noise source's: our race takes a time that does not depend on the
scores; with `noise = "opendp"` OpenDP chooses, in buckets. docs/proofs/top-k.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import numpy as np

from dpxplain.model.confidential import Confidential, sealed
from dpxplain.privacy.calibration import top_k_scale
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise
from dpxplain.privacy.mechanisms.scores import FamilyScores, IntArray


@sealed
def select_top_k(
    secret: Confidential[FamilyScores], *, k: int, sensitivity: int, rho: float, noise: NoiseSource
) -> list[int]:
    """Indices of k predicates, likely the highest; any one score changes by at most `sensitivity`."""
    widened = sensitivity + bucket_rounding(sensitivity, k, rho)
    measurement, scale = authorise(_exponential, top_k_scale(widened, 1, rho / k), widened, rho / k)
    return noise.top_k(measurement, secret.reveal(), k, scale)


def select_distinct(
    secret: Confidential[FamilyScores],
    *,
    size: int,
    k: int,
    sensitivity: int,
    rho: float,
    noise: NoiseSource,
    repeated_by: Callable[[int], Sequence[int]],
) -> list[int]:
    """k predicates one after the other, each chosen from those that no earlier one makes a repetition.

    `repeated_by` a chosen predicate are others that are left out from then on; it knows no data. So each of
    the k choices is an exponential mechanism on a set that follows from what was released, and costs ρ/k
    (docs/proofs/top-k.md, section 5). Fewer than k if no more are left.
    """
    candidates: IntArray = np.arange(size)
    chosen: list[int] = []
    while len(chosen) < k and len(candidates):
        scores = secret.map(methodcaller("only", candidates))
        position = select_top_k(scores, k=1, sensitivity=sensitivity, rho=rho / k, noise=noise)[0]
        chosen.append(int(candidates[position]))
        candidates = np.setdiff1d(candidates, [chosen[-1], *repeated_by(chosen[-1])], assume_unique=True)
    return chosen


def bucket_rounding(sensitivity: int, k: int, rho: float) -> int:
    """What the sensitivity grows by because a bucket's score is rounded (docs/proofs/top-k.md).

    Half a unit either way, and 2^-40 of the scale for the floats in the logarithm, which is far more than
    they can be off; how much it is may depend on the data, so it counts twice. The race rounds nothing, but
    two formulas for a millionth of the scale would not be worth it.
    """
    return 2 + math.ceil(2 * top_k_scale(2 * sensitivity, 1, rho / k) * 2.0**-40)


def _exponential(scale: float) -> Any:
    """OpenDP's exact exponential mechanism: one index, costed by the largest change of a score."""
    from dpxplain.privacy.mechanisms.opendp_parts import domains, measurements, measures, metrics

    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.linf_distance(T="i64")
    divergence = measures.zero_concentrated_divergence()
    return measurements.make_noisy_top_k(*space, output_measure=divergence, k=1, scale=scale)
