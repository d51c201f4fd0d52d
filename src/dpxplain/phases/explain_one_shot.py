"""The paper's mechanism as a phase: select, measure, bound the ranks (SPEC section 6, mechanism 1)."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.errors import ExplanationError
from dpxplain.model.charge import Spend
from dpxplain.model.confidential import Confidential
from dpxplain.model.hardening import plain_numbers
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
    shares = usable_split(split)
    if shares is None:
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
        split=shares,
    )
    # The selection multiplies the scale by a logarithm of the family's size, at most 20.
    if not one_shot.largest_scale * 32 <= LARGEST_SCALE:
        raise too_small(request)
    return OneShotExplanation(request, scoring, one_shot, split=shares)


def too_small(request: ExplanationRequest) -> ExplanationError:
    return ExplanationError(
        f"rho={request.rho!r} is too small to be shared by k={request.k} predicates.",
        remedy="Use a larger rho or a smaller k.",
    )


def usable_split(split: object) -> Split | None:
    """The three shares; none of them so small that its part would round to nothing and not be paid for."""
    shares = plain_numbers(split)
    if shares is None or len(shares) != 3:
        return None
    usable = all(1e-100 < part < 1e100 for part in shares) and max(shares) <= 1e6 * min(shares)
    return (shares[0], shares[1], shares[2]) if usable else None
