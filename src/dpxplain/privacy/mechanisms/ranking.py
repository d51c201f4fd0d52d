"""Mechanisms that choose, measure and rank predicates: one-shot, which is the paper's, and vector; and the
selection and search by distances in rows that custom influences use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.charge import Event, Spend, remainder, spends
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.model.hardening import require_exact_numbers
from dpxplain.model.process import stoppable_steps
from dpxplain.model.release import IntArray
from dpxplain.privacy.calibration import (
    gaussian_scale,
    gaussian_shortfall,
    gumbel_shortfall,
    range_quantile,
    rank_probes,
    rank_slack,
    rounded_up,
    top_k_scale,
)
from dpxplain.privacy.mechanisms.noise import (
    NoiseSource,
    add_gaussian,
    authorise,
    draw_gaussian,
    enable_opendp,
    gaussian_measurement,
)
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
    from opendp import domains, measurements, measures, metrics

    enable_opendp()
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
    lower_share: float,
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

    def leads(distance: Callable[[Envelope, int], int], positions: IntArray) -> IntArray:
        rows = map(distance, envelopes, positions.tolist())
        return np.fromiter(rows, np.int64, len(envelopes)) * POINTS_PER_ROW

    return search_positions(
        lambda positions: -leads(Envelope.behind, positions),
        partial(leads, Envelope.ahead),
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


# -- One-shot ----------------------------------------------------------------------------------------------
#
# The paper's explanation mechanism: Gumbel noise picks the k predicates, fresh Gaussian noise measures their
# influences, noisy binary searches bound their ranks. Each part is paid for separately
# (docs/specification.md, section 6.1).

DEFAULT_SPLIT = (1.0, 1.0, 2.0)  # select : influence : rank, the paper's 0.5 : 0.5 : 1.0


@dataclass(frozen=True)
class OneShotPlan:
    """Shares of ρ and the noise they buy, all from public quantities; scores have `sensitivity`."""

    k: int
    family_size: int
    sensitivity: int
    rho_select: float
    rho_influence: float
    rho_rank: float
    lower_share: float = LOWER_SHARE  # the paper's η: the part of the ranks' ρ for their lower bounds

    def __post_init__(self) -> None:
        require_exact_numbers(self.k, self.family_size, self.sensitivity, self.lower_share)
        require_exact_numbers(self.rho_select, self.rho_influence, self.rho_rank)

    @classmethod
    def share(
        cls,
        *,
        k: int,
        family_size: int,
        sensitivity: int,
        rho: float,
        split: tuple[float, float, float],
        lower_share: float = LOWER_SHARE,
    ) -> OneShotPlan:
        """Splits ρ; a part that has nothing to decide costs nothing, and its share goes to the others."""
        select, influence, rank = split
        if k == family_size:  # the table shows all predicates
            select = 0.0
        if rank_probes(family_size) == 0:  # the only predicate has rank 1
            rank = 0.0
        whole = select + influence + rank
        rho_select, rho_rank = rho * select / whole, rho * rank / whole
        rho_influence = remainder(rho, rho_select, rho_rank)
        return cls(k, family_size, sensitivity, rho_select, rho_influence, rho_rank, lower_share)

    @property
    def identity(self) -> tuple[object, ...]:
        """Part of a request's key; without a default η."""
        numbers = (self.k, self.family_size, self.sensitivity)
        shares = (self.rho_select, self.rho_influence, self.rho_rank)
        unusual = () if self.lower_share == LOWER_SHARE else (self.lower_share,)
        return type(self).__name__, (*numbers, *shares, *unusual)

    @property
    def largest_scale(self) -> float:
        """The widest noise the plan would draw, in scores."""
        scales = [self.influence_scale]
        if self.rho_select > 0:
            # Twice the sensitivity covers the rounding that buckets add to it.
            scales.append(top_k_scale(2 * self.sensitivity, self.k, self.rho_select))
        if self.rho_rank > 0:
            scales.append(self._probe_scale(min(self.lower_share, 1.0 - self.lower_share)))
        return max(scales)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends(
            (Event.TOP_K, self.rho_select),
            (Event.INFLUENCES, self.rho_influence),
            (Event.RANK_SEARCH, self.rho_rank),
        )

    @property
    def influence_sensitivity(self) -> float:
        """L2 sensitivity of the k selected scores: √k·Δ, so each costs ρ/k as in the paper."""
        return rounded_up(math.sqrt(self.k) * self.sensitivity)

    @property
    def influence_scale(self) -> float:
        """σ of each selected predicate's score."""
        return gaussian_scale(self.influence_sensitivity, self.rho_influence)

    def rank_resolution(self, confidence: float) -> float:
        """The difference of scores that the search for the upper rank detects with probability one half."""
        probes = rank_probes(self.family_size)
        if probes == 0:
            return 0.0
        return rank_slack(self._probe_scale(1.0 - self.lower_share), probes, (1.0 + confidence) / 2.0)

    def _probe_scale(self, share: float) -> float:
        """σ of one probe in the search that gets this share of a predicate's ρ."""
        per_probe = self.rho_rank / self.k * share / rank_probes(self.family_size)
        return gaussian_scale(2 * self.sensitivity, per_probe)

    def shortfall(self, confidence: float, *, distinct: bool = False) -> float:
        """The most that a chosen score is below the true k-th highest (docs/proofs/utility.md).

        With `distinct`, the most that it is below the highest score that was left to choose.
        """
        if self.k == self.family_size:
            return 0.0
        rho = self.rho_select
        widened = self.sensitivity + bucket_rounding(self.sensitivity, self.k, rho)
        scale = top_k_scale(widened, 1, rho / self.k) * (1.0 + 2.0**-20)
        if distinct:
            return scale * max(0.0, math.log((self.family_size - 1) * (self.k / (1.0 - confidence) - 1.0)))
        return scale * gumbel_shortfall(confidence, self.family_size, self.k)

    def rank_reach(self, confidence: float) -> tuple[float, float]:
        """The most that a chosen score's rank interval reaches below and above the score."""
        probes = rank_probes(self.family_size)
        if probes == 0:
            return 0.0, 0.0
        one_sided = (1.0 + confidence) / 2.0
        # A probe detects a lead of twice the slack unless its noise exceeds the slack.
        upper, lower = (
            2.0 * rank_slack(self._probe_scale(share), probes, one_sided)
            for share in (1.0 - self.lower_share, self.lower_share)
        )
        return upper, lower


@dataclass(frozen=True)
class Selected:
    """One released line: which predicate, its noisy score, and the bounds of its rank."""

    predicate: int
    score: float
    rank: tuple[int, int]


def select_and_measure(
    scores: Confidential[FamilyScores],
    plan: OneShotPlan,
    confidence: float,
    noise: NoiseSource,
    repeated_by: Callable[[int], Sequence[int]] | None = None,
) -> list[Selected]:
    """Release k predicates with noisy scores and rank intervals, for plan.spends.

    With `repeated_by` they are distinct: none is a repetition of another, and there may be fewer than k.
    """
    if plan.k < plan.family_size and repeated_by is not None:
        chosen = select_distinct(
            scores,
            size=plan.family_size,
            k=plan.k,
            sensitivity=plan.sensitivity,
            rho=plan.rho_select,
            noise=noise,
            repeated_by=repeated_by,
        )
    elif plan.k < plan.family_size:
        chosen = select_top_k(
            scores, k=plan.k, sensitivity=plan.sensitivity, rho=plan.rho_select, noise=noise
        )
    else:
        chosen = list(range(plan.family_size))
    measured = add_gaussian(
        scores.map(lambda family: family.scores_of(chosen)),
        sensitivity=plan.influence_sensitivity,
        rho=plan.rho_influence,
        noise=noise,
    )
    ranks = bound_ranks(
        scores,
        chosen,
        sensitivity=plan.sensitivity,
        rho=plan.rho_rank,
        confidence=confidence,
        noise=noise,
        lower_share=plan.lower_share,
    )
    return [
        Selected(predicate, score, rank)
        for predicate, score, rank in zip(chosen, measured.values.tolist(), ranks, strict=True)
    ]


# -- Vector ------------------------------------------------------------------------------------------------
#
# Releases all influences of a family at once with Gaussian noise (docs/specification.md). One row moves the
# whole vector of influences by at most Δ₂, however many predicates there are. Half of ρ pays for that vector,
# which decides the k chosen predicates and the bounds of their ranks. The other half measures the chosen k
# with fresh noise, so their intervals are independent of the selection (docs/proofs/vector.md).


@dataclass(frozen=True)
class VectorPlan:
    """Shares of ρ; `sensitivity` is for one score, `family_sensitivity` for all, in Euclidean length."""

    k: int
    family_size: int
    sensitivity: float
    family_sensitivity: float
    rho_all: float
    rho_fresh: float

    def __post_init__(self) -> None:
        require_exact_numbers(self.k, self.family_size, self.sensitivity, self.family_sensitivity)
        require_exact_numbers(self.rho_all, self.rho_fresh)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return (
            Spend(Event.ALL_INFLUENCES, self.rho_all),
            Spend(Event.CHOSEN_INFLUENCES, self.rho_fresh),
        )

    @property
    def all_scale(self) -> float:
        return gaussian_scale(self.family_sensitivity, self.rho_all)

    @property
    def fresh_sensitivity(self) -> float:
        """L2 sensitivity of the k chosen scores: at most √k times one score's, and at most that of all."""
        return min(rounded_up(math.sqrt(self.k) * self.sensitivity), self.family_sensitivity)

    @property
    def fresh_scale(self) -> float:
        return gaussian_scale(self.fresh_sensitivity, self.rho_fresh)

    def rank_resolution(self, confidence: float) -> float:
        """The bound that all differences of two noises stay below with probability `confidence`."""
        return range_quantile(confidence, self.family_size) * self.all_scale

    def shortfall(self, confidence: float) -> float:
        """The most that a chosen score is below the true k-th highest (docs/proofs/utility.md)."""
        return gaussian_shortfall(confidence, self.family_size, self.k) * self.all_scale


def release_vector(
    secret: Confidential[FamilyScores], plan: VectorPlan, confidence: float, noise: NoiseSource
) -> list[Selected]:
    """Releases all scores, chooses k by them, measures these k with fresh noise, and bounds their ranks."""
    all_scores = add_gaussian(
        secret.map(_dense), sensitivity=plan.family_sensitivity, rho=plan.rho_all, noise=noise
    )
    noisy = all_scores.values
    chosen = np.argsort(-noisy, kind="stable")[: plan.k]
    fresh = add_gaussian(
        secret.map(lambda family: _dense(family)[chosen]),
        sensitivity=plan.fresh_sensitivity,
        rho=plan.rho_fresh,
        noise=noise,
    )
    apart = plan.rank_resolution(confidence)
    ascending, own = np.sort(noisy), noisy[chosen]
    # More than `apart` higher is certainly above; at most `apart` lower is possibly above.
    low = 1 + len(noisy) - np.searchsorted(ascending, own + apart, side="right")
    high = len(noisy) - np.searchsorted(ascending, own - apart, side="left")
    ranks = zip(low.tolist(), np.maximum(low, high).tolist(), strict=True)
    lines = zip(chosen.tolist(), fresh.values.tolist(), ranks, strict=True)
    return [Selected(*line) for line in stoppable_steps(lines)]


def _dense(family: FamilyScores) -> IntArray:
    scores = np.zeros(family.size, dtype=np.int64)
    scores[family.active] = family.scores
    return scores
