"""Private selection of the k highest scores, and private bounds of a predicate's rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.confidential import Confidential, sealed
from dpxplain.model.release import IntArray
from dpxplain.privacy.calibration import gaussian_scale, rank_probes, rank_slack, top_k_scale
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise, draw_gaussian, gaussian_measurement
from dpxplain.privacy.mechanisms.samplers import FamilyScores

# -- Selection ---------------------------------------------------------------------------------------------
#
# Adding Gumbel noise to every score and taking the k highest is the same as k exponential mechanisms, each
# on the scores that are left (docs/specification.md, one-shot). The noise source decides how to draw: our
# race takes a time that does not depend on the scores; with `noise = "opendp"` OpenDP chooses, in buckets.
# Proof: docs/proofs/top-k.md.


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


# -- Bounds of ranks ---------------------------------------------------------------------------------------
#
# Noisy binary search (paper, RankBound). Each probe compares the predicate's score with the t-th highest
# one; both move by at most Δ when one row is added or removed, so their difference moves by at most 2Δ.
# Each search makes N = ⌊log2 |P|⌋ probes (docs/proofs/rank-bounds.md).
#
# Where the sensitivity of an influence is unknown, the same search uses distances in rows: how many rows
# must change before the predicate may no longer be ahead of position t, or 0 if it is not ahead. Their
# sensitivity is 1 for every influence (docs/proofs/custom-influence.md). Positions are ranks, or gaps
# between public thresholds.

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
    """A rank interval for each chosen predicate, all together for `rho`."""
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
    """The scores, clamped: this never raises a sensitivity, and keeps leads and noise inside 64 bits."""
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
    # "Before t" is "at t − 1 or before": the lower search asks about t − 1, where a tie counts as yes.
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


POINTS_PER_ROW = 2**20  # lattice points per row: noise is drawn on integers, much finer than one row
_SURE = 6.0  # σ beyond the slack at which a probe is as good as certain
_RARE = 14.0  # e^-14: how often a selection may err because distances are capped at its reach


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
        return np.array([-envelope.behind(t) * POINTS_PER_ROW for envelope, t in pairs], dtype=np.int64)

    def ahead(positions: IntArray) -> IntArray:
        pairs = zip(envelopes, positions.tolist(), strict=True)
        return np.array([envelope.ahead(t) * POINTS_PER_ROW for envelope, t in pairs], dtype=np.int64)

    return search_positions(
        behind,
        ahead,
        len(envelopes),
        size,
        change=float(rows * POINTS_PER_ROW),
        rho=rho,
        confidence=confidence,
        noise=noise,
        lower_share=lower_share,
    )


def search_reach(
    size: int, searches: int, *, rows: int, rho: float, confidence: float, lower_share: float
) -> int:
    """The distance at which a search is certain; a cap there keeps the sensitivity (proof, section 5)."""
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
    fine = scores.map(lambda family: FamilyScores(family.active, family.scores * POINTS_PER_ROW, family.size))
    return select_top_k(fine, k=k, sensitivity=rows * POINTS_PER_ROW, rho=rho, noise=noise)


def selection_reach(size: int, k: int, *, rows: int, rho: float) -> int:
    """The distance at which a selection is certain anyway."""
    return 1 + math.ceil(top_k_scale(rows, k, rho) * (math.log(size) + _RARE))
