"""The paper's explanation mechanism: select, then measure what was selected.

Gumbel noise picks the k predicates, fresh Gaussian noise measures their influences, noisy binary searches
bound their ranks. Each part is paid for separately (docs/specification.md, section 6.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpxplain.model.charge import Event, Spend, remainder, spends
from dpxplain.model.confidential import Confidential
from dpxplain.model.hardening import insist_on_numbers
from dpxplain.privacy.calibration import (
    gaussian_scale,
    gumbel_shortfall,
    rank_probes,
    rank_slack,
    top_k_scale,
)
from dpxplain.privacy.mechanisms.noise import NoiseSource, add_gaussian
from dpxplain.privacy.mechanisms.ranking import (
    LOWER_SHARE,
    bound_ranks,
    bucket_rounding,
    select_distinct,
    select_top_k,
)
from dpxplain.privacy.mechanisms.samplers import FamilyScores

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
        insist_on_numbers(self.k, self.family_size, self.sensitivity, self.lower_share)
        insist_on_numbers(self.rho_select, self.rho_influence, self.rho_rank)

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
            smaller = min(self.lower_share, 1.0 - self.lower_share)
            per_probe = self.rho_rank / self.k * smaller / rank_probes(self.family_size)
            scales.append(gaussian_scale(2 * self.sensitivity, per_probe))
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
        return math.sqrt(self.k) * self.sensitivity * (1.0 + 2.0**-50)  # rounded up

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
