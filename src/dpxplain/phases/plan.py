"""What every mechanism's plan tells before anything is spent, and how it is carried out."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dpxplain.explanation.family import Family
from dpxplain.model.cancellation import checking
from dpxplain.model.charge import Request, Spend
from dpxplain.model.confidential import Confidential
from dpxplain.model.release import ExplanationLine, ExplanationRelease
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.request import ExplanationRequest
from dpxplain.phases.scoring import Scoring, true_scores
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.privacy.mechanisms.noise import NoiseSource
from dpxplain.privacy.mechanisms.one_shot import Selected
from dpxplain.privacy.mechanisms.scores import FamilyScores
from dpxplain.privacy.sensitivity import SCORE_SLACK


class ExplanationPlan(ABC):
    """One mechanism, calibrated for one request from public quantities."""

    mechanism: str
    reason: str  # why this one, in a few words
    request: ExplanationRequest
    split: tuple[float, float, float] | None = None  # of a mechanism that shares ρ by choice

    @property
    def family(self) -> Family:
        return self.request.family

    @property
    def k(self) -> int:
        return self.request.k

    @property
    def rho(self) -> float:
        """What it costs."""
        return self.request.rho

    @property
    def confidence(self) -> float:
        return self.request.confidence

    @property
    @abstractmethod
    def spends(self) -> tuple[Spend, ...]:
        """How ρ is shared."""

    @property
    @abstractmethod
    def influence_margin(self) -> float:
        """Half the expected width of an influence interval."""

    @property
    @abstractmethod
    def rank_resolution(self) -> float:
        """Predicates whose influences are closer than this may get overlapping ranks."""

    @property
    def gap_margin(self) -> float | None:
        """Half the expected width of the gap without a predicate's rows, where the mechanism tells it."""
        return None

    @property
    def imprecision(self) -> float:
        """What `auto` compares: how wide the table will be, in influences and in ranks alike."""
        return self.influence_margin * max(self.rank_resolution, 1e-300)

    @abstractmethod
    def is_stored(self, dataset: OpenDataset) -> bool:
        """Whether it would cost nothing, because what it needs is released already."""

    @abstractmethod
    def explain(self, dataset: OpenDataset, asked: Request) -> tuple[ExplanationRelease, int, bool]:
        """Reserve, measure, release; or find the release of the identical request, which is free.

        Returns the release, its entry in the ledger, and whether it was free.
        """


class ScoredPlan(ExplanationPlan):
    """A mechanism that releases scores of influences and stores its table (one-shot, vector)."""

    scoring: Scoring

    @property
    @abstractmethod
    def score_scale(self) -> float:
        """σ of each released score."""

    @abstractmethod
    def key(self, dataset: OpenDataset) -> str: ...

    @abstractmethod
    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        """Choose and measure k predicates under privacy."""

    @property
    def influence_margin(self) -> float:
        """The slack covers the rounding of scores."""
        reach = two_sided_quantile(self.confidence) * self.score_scale + SCORE_SLACK
        return reach * self.scoring.per_score

    def measure(self, dataset: OpenDataset) -> ExplanationRelease:
        scores = true_scores(self.request, self.scoring, dataset)
        dataset.progress("Choosing and measuring explanations under privacy")
        lines, margin = [], self.influence_margin
        for line in checking(self.draw(scores, dataset.noise)):
            influence = line.score * self.scoring.per_score
            interval = (influence - margin, influence + margin)
            lines.append(ExplanationLine(line.predicate, influence, interval, line.rank))
        return ExplanationRelease(
            rho=self.rho,
            mechanism=self.mechanism,
            confidence=self.confidence,
            lines=tuple(lines),
            influence_scale=self.score_scale * self.scoring.per_score,
            private=dataset.noise.private,
        )

    def is_stored(self, dataset: OpenDataset) -> bool:
        return dataset.ledger.find(dataset.name, self.key(dataset)) is not None

    def explain(self, dataset: OpenDataset, asked: Request) -> tuple[ExplanationRelease, int, bool]:
        return dataset.once(
            "explain",
            self.key(dataset),
            asked,
            self.rho,
            self.spends,
            lambda: self.measure(dataset),
            ExplanationRelease.from_json,
        )
