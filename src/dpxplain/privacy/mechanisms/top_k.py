"""Private selection of the k highest scores (SPEC section 6, mechanism 1).

Gumbel noise on every score and the k highest is the same as k exponential mechanisms, each on what the
ones before it left. We peel, because then all idle predicates of a family can run as one candidate
(paper, appendix on large domains): n of them with score 0 win like a single one with score scale·ln n.
"""

from __future__ import annotations

import math
from typing import Any

from opendp import domains, measurements, measures, metrics

from dpxplain.model.confidential import Confidential
from dpxplain.privacy.calibration import top_k_scale
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise
from dpxplain.privacy.mechanisms.scores import FamilyScores

_IDLE_ROUNDING = 2
"""scale·ln n is rounded to a whole score. That is the exact mechanism on idle scores that are off by up
to a half; how much may depend on the data, so the sensitivity is larger by one (and a bit)."""


def select_top_k(
    secret: Confidential[FamilyScores], *, k: int, sensitivity: int, rho: float, noise: NoiseSource
) -> list[int]:
    """Indices of k predicates, likely the highest; any one score changes by at most `sensitivity`."""
    widened = sensitivity + _IDLE_ROUNDING
    measurement, scale = authorise(_exponential, top_k_scale(widened, 1, rho / k), widened, rho / k)
    family = secret.reveal()
    active, scores = family.active.tolist(), family.scores.tolist()
    chosen: list[int] = []
    idle_chosen: set[int] = set()
    for _ in range(k):
        idle = family.idle - len(idle_chosen)
        together = [round(scale * math.log(idle))] if idle else []
        winner = noise.pick(measurement, scores + together, scale)
        if winner < len(scores):
            scores.pop(winner)
            chosen.append(active.pop(winner))
        else:
            drawn = family.nth_idle(noise.below(idle), idle_chosen)
            idle_chosen.add(drawn)
            chosen.append(drawn)
    return chosen


def _exponential(scale: float) -> Any:
    """OpenDP's exact exponential mechanism: one index, costed by the largest change of a score."""
    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.linf_distance(T="i64")
    divergence = measures.zero_concentrated_divergence()
    return measurements.make_noisy_top_k(*space, output_measure=divergence, k=1, scale=scale)
