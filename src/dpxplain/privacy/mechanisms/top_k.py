"""Private selection of the k highest scores (SPEC section 6, mechanism 1).

Gumbel noise on every score and the k highest is the same as k exponential mechanisms, each on what the
ones before it left. How it is drawn is the noise source's: our race takes a time that does not depend on the
scores; with `noise = "opendp"` OpenDP chooses, in buckets. docs/proofs/top-k.md.
"""

from __future__ import annotations

import math
from typing import Any

from dpxplain.model.confidential import Confidential, sealed
from dpxplain.privacy.calibration import top_k_scale
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise
from dpxplain.privacy.mechanisms.scores import FamilyScores


@sealed
def select_top_k(
    secret: Confidential[FamilyScores], *, k: int, sensitivity: int, rho: float, noise: NoiseSource
) -> list[int]:
    """Indices of k predicates, likely the highest; any one score changes by at most `sensitivity`."""
    widened = sensitivity + bucket_rounding(sensitivity, k, rho)
    measurement, scale = authorise(_exponential, top_k_scale(widened, 1, rho / k), widened, rho / k)
    return noise.top_k(measurement, secret.reveal(), k, scale)


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
