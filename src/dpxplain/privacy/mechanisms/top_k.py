"""Private selection of the k highest scores (docs/specification.md, one-shot).

Adding Gumbel noise to every score and taking the k highest is the same as k exponential mechanisms, each on
the scores that are left. The noise source decides how to draw: our race takes a time that does not depend on
the scores; with `noise = "opendp"` OpenDP chooses, in buckets. Proof: docs/proofs/top-k.md.
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
    """Indices of k predicates, chosen one after the other, where no choice repeats an earlier one.

    `repeated_by` names the predicates to leave out after a choice; it reads no data. So each of the k choices
    is an exponential mechanism on a set that follows from what was released, and costs ρ/k
    (docs/proofs/top-k.md, "Distinct conditions"). Fewer than k if no more are left.
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
    """The increase of the sensitivity because a bucket's score is rounded (docs/proofs/top-k.md).

    Rounding moves a score by half a unit at most. Another 2^-40 of the scale is far more than the error of
    the logarithm in floats. Both errors may depend on the data, so they count twice. The race rounds nothing,
    but a second formula would save only a millionth of the scale.
    """
    return 2 + math.ceil(2 * top_k_scale(2 * sensitivity, 1, rho / k) * 2.0**-40)


def _exponential(scale: float) -> Any:
    """OpenDP's exact exponential mechanism: one index, costed by the largest change of a score."""
    from dpxplain.privacy.mechanisms.opendp_parts import domains, measurements, measures, metrics

    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.linf_distance(T="i64")
    divergence = measures.zero_concentrated_divergence()
    return measurements.make_noisy_top_k(*space, output_measure=divergence, k=1, scale=scale)
