"""The paper's mechanism as a phase: select, measure, bound the ranks (SPEC section 6, mechanism 1)."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.errors import ExplanationError
from dpxplain.model.budget import Spend
from dpxplain.model.confidential import Confidential
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.plan import ScoredPlan
from dpxplain.phases.request import ExplanationRequest
from dpxplain.phases.scoring import Scoring
from dpxplain.privacy.calibration import LARGEST_SCALE
from dpxplain.privacy.mechanisms.noise import NoiseSource
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT, OneShotPlan, Selected, select_and_measure
from dpxplain.privacy.mechanisms.scores import FamilyScores

Split = tuple[float, float, float]


@dataclass(frozen=True)
class OneShotExplanation(ScoredPlan):
    request: ExplanationRequest
    scoring: Scoring
    one_shot: OneShotPlan
    mechanism: str = "one-shot"
    reason: str = "asked for by name"
    split: Split | None = DEFAULT_SPLIT

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.one_shot.spends

    @property
    def score_scale(self) -> float:
        return self.one_shot.influence_scale

    @property
    def rank_resolution(self) -> float:
        return self.one_shot.rank_resolution(self.confidence) * self.scoring.per_score

    def key(self, dataset: OpenDataset) -> str:
        return self.request.key(dataset, self.mechanism, self.one_shot)

    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        return select_and_measure(scores, self.one_shot, self.confidence, noise)


def plan_one_shot(request: ExplanationRequest, split: Split = DEFAULT_SPLIT) -> OneShotExplanation:
    if not _usable_split(split):
        raise ExplanationError(
            f"split must be three positive numbers (select, influence, rank), none a million times another, "
            f"not {split!r}.",
            remedy="Use split=(1, 1, 2).",
        )
    scoring = Scoring.of(request)
    one_shot = OneShotPlan.share(
        k=request.k,
        family_size=request.family.size,
        sensitivity=scoring.of_one,
        rho=request.rho,
        split=split,
    )
    # The selection multiplies the scale by a logarithm of the family's size, at most 20.
    if not one_shot.largest_scale * 32 <= LARGEST_SCALE:
        raise too_small(request)
    return OneShotExplanation(request, scoring, one_shot, split=split)


def too_small(request: ExplanationRequest) -> ExplanationError:
    return ExplanationError(
        f"rho={request.rho!r} is too small to be shared by k={request.k} predicates.",
        remedy="Use a larger rho or a smaller k.",
    )


def _usable_split(split: object) -> bool:
    """A share that rounds to nothing would be a part that is not paid for."""
    if not isinstance(split, tuple | list) or len(split) != 3:
        return False
    if not all(isinstance(part, int | float) and not isinstance(part, bool) for part in split):
        return False
    return all(1e-100 < part < 1e100 for part in split) and max(split) <= 1e6 * min(split)
