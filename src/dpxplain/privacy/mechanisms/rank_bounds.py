"""Private bounds of a predicate's rank by noisy binary search (paper, RankBound; SPEC section 2).

Each probe compares the predicate's score with the t-th highest one; both move by at most Δ when one
row is added or removed, so their difference moves by at most 2Δ. Each search makes N = ⌊log2 |P|⌋ probes
(docs/proofs/rank-bounds.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.confidential import Confidential, sealed
from dpxplain.privacy.calibration import gaussian_scale, rank_probes, rank_slack
from dpxplain.privacy.mechanisms.gaussian import gaussian_measurement
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise, draw_gaussian
from dpxplain.privacy.mechanisms.scores import FamilyScores, IntArray

_LARGEST = 2**60  # far above any score: 2^20 for each row that a predicate can move
LOWER_SHARE = 0.1  # the paper's η: the upper bound says more, so it gets the larger share


@sealed
def bound_ranks(
    secret: Confidential[FamilyScores],
    chosen: list[int],
    *,
    sensitivity: int,
    rho: float,
    confidence: float,
    noise: NoiseSource,
    lower_share: float = LOWER_SHARE,
) -> list[tuple[int, int]]:
    """A rank interval for each chosen position, all together for `rho`."""
    family = secret.reveal()
    scores = _clamped(family.scores_of(chosen))

    def lead(ranks: IntArray) -> IntArray:
        return scores - _clamped(family.at_ranks(ranks))

    return search_positions(
        lead,
        lead,
        len(chosen),
        family.size,
        change=2.0 * sensitivity,
        rho=rho,
        confidence=confidence,
        noise=noise,
        lower_share=lower_share,
    )


def _clamped(scores: IntArray) -> IntArray:
    """Clamping never raises a sensitivity, and keeps leads and their noise inside 64 bits."""
    return np.clip(scores, -_LARGEST, _LARGEST)


Leads = Callable[[IntArray], IntArray]
"""How far each predicate is ahead of its position t: ≤ 0 where it is not ahead, never decreasing in t."""


def search_positions(
    behind: Leads,
    ahead: Leads,
    searches: int,
    size: int,
    *,
    change: float,
    rho: float,
    confidence: float,
    noise: NoiseSource,
    lower_share: float = LOWER_SHARE,
) -> list[tuple[int, int]]:
    """An interval of positions 1..size for each predicate, all together for `rho`.

    `behind` decides the lower bounds and is ≥ 0 from the true position on, `ahead` decides the upper bounds
    and is ≤ 0 up to it. One privacy unit moves a lead by at most `change`.
    """
    probes = rank_probes(size)
    if probes == 0:
        return [(1, 1)] * searches
    one_sided = (1.0 + confidence) / 2.0
    per_search = rho / searches
    below = _Probes(change, per_search * lower_share, probes, one_sided, noise, searches)
    above = _Probes(change, per_search * (1.0 - lower_share), probes, one_sided, noise, searches)
    # "Before t" is "at t − 1 or before": the lower search asks it of t − 1, where a tie counts as yes.
    low, _ = _search(lambda step, t: below.probe(step, behind(t - 1)) >= -below.slack, searches, size)
    _, high = _search(lambda step, t: above.probe(step, ahead(t)) >= above.slack, searches, size)
    ends = np.minimum(low, high).tolist(), np.maximum(low, high).tolist()
    return list(zip(*ends, strict=True))


class _Probes:
    """Noisy probes of leads, and the slack beyond which their sign can be trusted.

    The noise of all probes that the searches might make is drawn at once, on zeros: adding it to the leads
    afterwards has the same law as OpenDP's own addition, and the number of draws does not depend on the data.
    """

    def __init__(
        self, change: float, rho: float, probes: int, confidence: float, noise: NoiseSource, searches: int
    ) -> None:
        measurement, scale = authorise(
            gaussian_measurement, gaussian_scale(change, rho / probes), change, rho / probes
        )
        self.slack = rank_slack(scale, probes, confidence)
        zeros = np.zeros(searches * probes, dtype=np.int64)
        self._noise = draw_gaussian(noise, measurement, zeros, scale).reshape(searches, probes)

    def probe(self, step: int, leads: IntArray) -> IntArray:
        """The leads that all searches look at in one step, with noise."""
        noisy: IntArray = leads + self._noise[:, step]
        return noisy


def _search(
    precedes: Callable[[int, IntArray], NDArray[np.bool_]], searches: int, size: int
) -> tuple[IntArray, IntArray]:
    """The ends of binary searches over positions 1..size, step by step for all of them at once.

    `precedes(step, t)` is the noisy decision that each position is below its t. When it errs only towards no,
    `high` stays an upper bound of the position; when it errs only towards yes, `low` stays a lower bound.

    N = ⌊log2 size⌋ probes tell 2^N blocks apart: the first of one position each, the last of two, since ranks
    near the top are those that a table shows.
    """
    probes = rank_probes(size)
    single = 2 ** (probes + 1) - size  # 1 to 2^N

    def first(block: IntArray) -> IntArray:
        rank: IntArray = 1 + block + np.maximum(block - single, 0)
        return rank

    block: IntArray = np.zeros(searches, dtype=np.int64)
    for step in range(probes):
        middle = block + 2 ** (probes - 1 - step)
        block = np.where(precedes(step, first(middle)), block, middle)
    return first(block), first(block + 1) - 1
