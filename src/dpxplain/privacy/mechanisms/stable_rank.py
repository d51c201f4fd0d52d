"""Private bounds of a position from distances in rows, for influences of unknown sensitivity.

The noisy binary search is that of `rank_bounds`; only the indicator differs: how many rows must change before
position t might not be beaten any more, 0 where it is not beaten. Its sensitivity is 1 whatever the influence
(docs/proofs/custom-influence.md). Positions are ranks, or gaps between public thresholds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpxplain.model.confidential import Confidential, sealed
from dpxplain.privacy.calibration import gaussian_scale, rank_probes, rank_slack, top_k_scale
from dpxplain.privacy.mechanisms.noise import NoiseSource
from dpxplain.privacy.mechanisms.rank_bounds import search_positions
from dpxplain.privacy.mechanisms.scores import FamilyScores, IntArray
from dpxplain.privacy.mechanisms.top_k import select_top_k

_FINE = 2**20  # lattice points per row: noise is drawn on integers, much finer than one row
_SURE = 6.0  # σ beyond the slack at which a probe is as good as certain
_RARE = 14.0  # e^-14: how often a selection may err because distances end at its reach


@dataclass(frozen=True)
class Envelope:
    """The lowest and highest position in any table within d = 0, 1, … rows.

    >>> envelope = Envelope(np.array([3, 2, 1, 1]), np.array([3, 3, 4, 6]))
    >>> [envelope.ahead(t) for t in (3, 4, 5, 7)], [envelope.behind(t) for t in (3, 2, 1)]
    ([0, 2, 3, 4], [0, 1, 2])
    """

    lowest: IntArray  # never increasing
    highest: IntArray  # never decreasing

    def ahead(self, t: int) -> int:
        """The paper's ω: rows that must change before position t or a later one is possible."""
        return int(np.count_nonzero(self.highest < t))

    def behind(self, t: int) -> int:
        """The mirror of `ahead`: rows that must change before position t or an earlier one is possible."""
        return int(np.count_nonzero(self.lowest > t))


@sealed
def bound_positions(
    secret: Confidential[list[Envelope]],
    *,
    size: int,
    rows: int,
    rho: float,
    confidence: float,
    lower_share: float,
    noise: NoiseSource,
) -> list[tuple[int, int]]:
    """Positions 1..size for each envelope, all together for `rho`; one privacy unit is `rows` rows."""
    envelopes = secret.reveal()

    def behind(positions: IntArray) -> IntArray:
        pairs = zip(envelopes, positions.tolist(), strict=True)
        return np.array([-envelope.behind(t) * _FINE for envelope, t in pairs], dtype=np.int64)

    def ahead(positions: IntArray) -> IntArray:
        pairs = zip(envelopes, positions.tolist(), strict=True)
        return np.array([envelope.ahead(t) * _FINE for envelope, t in pairs], dtype=np.int64)

    return search_positions(
        behind,
        ahead,
        len(envelopes),
        size,
        change=float(rows * _FINE),
        rho=rho,
        confidence=confidence,
        noise=noise,
        lower_share=lower_share,
    )


def search_reach(
    size: int, searches: int, *, rows: int, rho: float, confidence: float, lower_share: float
) -> int:
    """The distance at which a search is certain anyway; capping there keeps the sensitivity (proof, 5)."""
    probes = rank_probes(size)
    if probes == 0:
        return 1
    share = rho / searches * min(lower_share, 1.0 - lower_share)
    scale = gaussian_scale(rows, share / probes)
    return 1 + math.ceil(rank_slack(scale, probes, (1.0 + confidence) / 2.0) + _SURE * scale)


def select_by_distance(
    scores: Confidential[FamilyScores], *, k: int, rows: int, rho: float, noise: NoiseSource
) -> list[int]:
    """k predicates, with high probability those furthest inside the top k; one row moves a score by ≤ 1."""
    fine = scores.map(lambda family: FamilyScores(family.active, family.scores * _FINE, family.size))
    return select_top_k(fine, k=k, sensitivity=rows * _FINE, rho=rho, noise=noise)


def selection_reach(size: int, k: int, *, rows: int, rho: float) -> int:
    """The distance at which a selection is certain anyway."""
    return 1 + math.ceil(top_k_scale(rows, k, rho) * (math.log(size) + _RARE))
