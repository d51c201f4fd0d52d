"""The vector mechanism as a phase: one release of all influences (SPEC section 6, mechanism 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpxplain.errors import ExplanationError
from dpxplain.model.charge import Spend
from dpxplain.model.confidential import Confidential
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_one_shot import too_small
from dpxplain.phases.plan import ScoredPlan
from dpxplain.phases.request import ExplanationRequest
from dpxplain.phases.scoring import Scoring
from dpxplain.privacy.calibration import LARGEST_SCALE
from dpxplain.privacy.mechanisms.noise import NoiseSource
from dpxplain.privacy.mechanisms.one_shot import Selected
from dpxplain.privacy.mechanisms.scores import FamilyScores
from dpxplain.privacy.mechanisms.vector import VectorPlan, release_vector
from dpxplain.privacy.sensitivity import SCORE_GRID, SCORE_SLACK, family_sensitivity

LARGEST_VECTOR = 1_000_000  # each predicate is released, so each takes a draw


@dataclass(frozen=True)
class VectorExplanation(ScoredPlan):
    request: ExplanationRequest
    scoring: Scoring
    vector: VectorPlan
    mechanism: str = "vector"
    reason: str = "asked for by name"

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.vector.spends

    @property
    def score_scale(self) -> float:
        return self.vector.fresh_scale

    @property
    def rank_resolution(self) -> float:
        return self.vector.rank_resolution(self.confidence) * self.scoring.per_score

    def key(self, dataset: OpenDataset) -> str:
        return self.request.key(dataset, self.mechanism, self.vector)

    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        return release_vector(scores, self.vector, self.confidence, noise)


def plan_vector(request: ExplanationRequest) -> VectorExplanation:
    if request.sensitivity == "paper":
        raise ExplanationError(
            "The vector mechanism is not the paper's, so it has no published sensitivity.",
            remedy="Use mechanism='one-shot' with sensitivity='paper'.",
        )
    if request.family.size > LARGEST_VECTOR:
        raise ExplanationError(
            f"{request.family.size:,} predicates are too many to release each of them.",
            remedy="Use mechanism='one-shot', or fewer attributes or conjuncts.",
        )
    scoring = Scoring.of(request)
    together = request.rows_per_unit * family_sensitivity(
        request.kind,
        request.contrast.weights,
        *request.bounds,
        overlap=request.family.overlap,
        neighbours=request.neighbours,
    )
    # Rounding moves each score by its slack, in the worst case all of them (docs/proofs/sensitivity.md).
    of_all = SCORE_GRID * (together / scoring.sensitivity) + SCORE_SLACK * math.sqrt(request.family.size)
    half = request.rho / 2
    plan = VectorPlan(
        request.k, request.family.size, scoring.of_one, of_all * (1 + 2.0**-50), request.rho - half, half
    )
    if not max(plan.all_scale, plan.fresh_scale) <= LARGEST_SCALE:
        raise too_small(request)
    return VectorExplanation(request, scoring, plan)
