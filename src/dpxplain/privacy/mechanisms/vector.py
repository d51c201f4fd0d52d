"""Releases all influences of a family at once with Gaussian noise (docs/specification.md).

One row moves the whole vector of influences by at most Δ₂, however many predicates there are. Half of ρ
pays for that vector, which decides the k chosen predicates and the bounds of their ranks. The other half
measures the chosen k with fresh noise, so their intervals are independent of the selection
(docs/proofs/vector.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpxplain.model.charge import Event, Spend
from dpxplain.model.confidential import Confidential
from dpxplain.model.hardening import insist_on_numbers
from dpxplain.model.process import stoppable_steps
from dpxplain.model.release import IntArray
from dpxplain.privacy.calibration import gaussian_scale, gaussian_shortfall, range_quantile
from dpxplain.privacy.mechanisms.noise import NoiseSource, add_gaussian
from dpxplain.privacy.mechanisms.one_shot import Selected
from dpxplain.privacy.mechanisms.samplers import FamilyScores


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
        insist_on_numbers(self.k, self.family_size, self.sensitivity, self.family_sensitivity)
        insist_on_numbers(self.rho_all, self.rho_fresh)

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
        return min(math.sqrt(self.k) * self.sensitivity * (1.0 + 2.0**-50), self.family_sensitivity)

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
