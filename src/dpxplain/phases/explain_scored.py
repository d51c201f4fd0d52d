"""Mechanisms that score influences and release some or all of the scores: one-shot and vector.

One-shot is the paper's: select, measure, bound the ranks. Vector releases all influences at once
(docs/specification.md, mechanisms).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

from dpxplain.errors import ExplanationError
from dpxplain.explanation.cells import IntArray
from dpxplain.explanation.distinct import (
    MOST_NESTING_WORK,
    can_nest,
    fold_implied,
    nested_with,
    nesting_work,
)
from dpxplain.explanation.family import Family
from dpxplain.explanation.influence import FloatArray, influences, scores
from dpxplain.model.cancellation import checking
from dpxplain.model.charge import Charge, Request, Spend
from dpxplain.model.confidential import Confidential
from dpxplain.model.contrast import Contrast
from dpxplain.model.hardening import plain_number, plain_numbers
from dpxplain.model.query import Query, query_shape
from dpxplain.model.release import ExplanationLine, ExplanationRelease, Released
from dpxplain.phases.dataset import OpenDataset, Show, T
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms, Split
from dpxplain.privacy.calibration import LARGEST_SCALE, two_sided_quantile
from dpxplain.privacy.mechanisms.noise import NoiseSource
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT, OneShotPlan, Selected, select_and_measure
from dpxplain.privacy.mechanisms.rank_bounds import LOWER_SHARE
from dpxplain.privacy.mechanisms.scores import FamilyScores
from dpxplain.privacy.mechanisms.vector import VectorPlan, release_vector
from dpxplain.privacy.sensitivity import SCORE_GRID, SCORE_SLACK, family_sensitivity, influence_sensitivity

_LEAST_SHARE = 1e-6  # of either rank bound: a part that rounds to nothing would not be paid for
LARGEST_VECTOR = 1_000_000  # every predicate is released, so each needs a noise draw


@dataclass(frozen=True)
class Scoring:
    """score = round(influence · 2^20 / sensitivity), so one privacy unit moves it by at most 2^20 + slack."""

    sensitivity: float  # of one influence, in grid units of the aggregated column (rows for COUNT)
    per_score: float  # influence per score, in the unit of the column

    @classmethod
    def of(cls, terms: ExplanationTerms) -> Scoring:
        per_row = influence_sensitivity(
            terms.kind,
            terms.contrast.weights,
            *terms.bounds,
            paper=terms.sensitivity == "paper",
            neighbours=terms.neighbours,
        )
        sensitivity = per_row * terms.rows_per_unit
        return cls(sensitivity, sensitivity / SCORE_GRID * terms.unit)

    @property
    def of_one(self) -> int:
        """Sensitivity of one score."""
        return SCORE_GRID + SCORE_SLACK


@dataclass(frozen=True)
class ActiveInfluences:
    """True influences, in grid units, of the listed predicates: all, or those that some row satisfies."""

    active: IntArray
    influence: FloatArray


def true_influences(
    query: Query, contrast: Contrast, family: Family, dataset: OpenDataset
) -> Confidential[ActiveInfluences]:
    """Influence of every predicate of the family; those not listed have influence 0."""
    dataset.progress(f"Counting {family.size:,} conditions in one pass")
    cells = dataset.question_cells(query, family, contrast.groups)
    kind, weights, middle = query.aggregate.explained, contrast.weights, 0
    if kind == "avg":
        assert query.aggregate.column is not None
        grid = dataset.schema.column(query.aggregate.column).grid
        middle = grid.low + grid.high
    return cells.map(lambda data: ActiveInfluences(data.active, influences(kind, weights, data, middle)))


def true_scores(
    terms: ExplanationTerms, scoring: Scoring, dataset: OpenDataset
) -> Confidential[FamilyScores]:
    true = true_influences(terms.query, terms.contrast, terms.family, dataset)
    return true.map(
        lambda t: FamilyScores(t.active, scores(t.influence, scoring.sensitivity), terms.family.size)
    )


class ScoredPlan(ExplanationPlan):
    """A mechanism that releases scores of influences and stores its table (one-shot, vector)."""

    scoring: Scoring

    @property
    @abstractmethod
    def score_scale(self) -> float:
        """σ of each released score."""

    @abstractmethod
    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        """Choose and measure k predicates under privacy."""

    @property
    def influence_margin(self) -> float:
        """Half the width of an influence interval; its slack covers the rounding of scores."""
        reach = two_sided_quantile(self.confidence) * self.score_scale + SCORE_SLACK
        return reach * self.scoring.per_score

    def _influence_of(self, difference: float) -> float:
        """A difference of two scores as influence, with slack because both are rounded."""
        return (difference + 2 * SCORE_SLACK) * self.scoring.per_score if difference else 0.0

    def measure(self, dataset: OpenDataset) -> ExplanationRelease:
        scores = true_scores(self.terms, self.scoring, dataset)
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

    @property
    def shape(self) -> Hashable:
        terms = self.terms
        return query_shape(terms.query), terms.family.key, len(terms.contrast.groups), terms.k, terms.distinct

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge("explain", self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> ExplanationRelease:
        return ExplanationRelease.from_json(text)

    def lines(self, release: ExplanationRelease) -> tuple[ExplanationLine, ...]:
        return fold_implied(self.family, release.lines) if self.terms.distinct else release.lines

    def find(self, dataset: OpenDataset) -> Released[ExplanationRelease] | None:
        return dataset.find(self)

    def explain(
        self,
        dataset: OpenDataset,
        request: Request,
        show: Show[ExplanationRelease, T],
        found: Released[ExplanationRelease] | None = None,
    ) -> T:
        return dataset.find_or_measure(self, request, show, found=found)


@dataclass(frozen=True)
class OneShotExplanation(ScoredPlan):
    terms: ExplanationTerms
    scoring: Scoring
    one_shot: OneShotPlan
    mechanism: str = "one-shot"
    reason: str = "asked for by name"
    split: Split | None = DEFAULT_SPLIT
    lower_share: float | None = LOWER_SHARE

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
        selection = ["distinct"] if self.selects_distinct else []
        return self.terms.key(dataset, self.mechanism, self.one_shot.identity, *selection)

    @property
    def shortfall(self) -> float:
        return self._influence_of(self.one_shot.shortfall(self.confidence, distinct=self.selects_distinct))

    @property
    def rank_reach(self) -> tuple[float, float]:
        below, above = map(self._influence_of, self.one_shot.rank_reach(self.confidence))
        return below, above

    @property
    def selects_distinct(self) -> bool:
        return self.terms.distinct and can_nest(self.family)

    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        repeated_by = partial(nested_with, self.family) if self.selects_distinct else None
        return select_and_measure(scores, self.one_shot, self.confidence, noise, repeated_by)


def check_shares(terms: ExplanationTerms, split: Split, lower_share: float) -> tuple[Split, float]:
    """The split of ρ and the lower share as plain numbers; raises if one-shot cannot use them."""
    shares = usable_split(split)
    if shares is None:
        raise ExplanationError(
            "split must be three positive numbers (select, influence, rank), none of them more than a "
            f"million times another, not {split!r}.",
            remedy="Use split=(1, 1, 2).",
        )
    lower = plain_number(lower_share)
    if lower is None or not _LEAST_SHARE <= lower <= 1 - _LEAST_SHARE:
        raise ExplanationError(
            f"lower_share must be a number between 0 and 1, such as 0.1, not {lower_share!r}.",
            remedy="Leave out lower_share. A tenth of the ρ for ranks then goes to their lower bounds, as in "
            "the paper.",
        )
    if terms.distinct and terms.k * nesting_work(terms.family) > MOST_NESTING_WORK:
        raise ExplanationError(
            f"Comparing each of {terms.k:,} conditions with all {terms.family.size:,} takes too long.",
            remedy="Use a smaller k, fewer conditions, or distinct=False.",
        )
    return shares, lower


def plan_one_shot(
    terms: ExplanationTerms, split: Split = DEFAULT_SPLIT, lower_share: float = LOWER_SHARE
) -> OneShotExplanation:
    shares, lower = check_shares(terms, split, lower_share)
    scoring = Scoring.of(terms)
    one_shot = OneShotPlan.share(
        k=terms.k,
        family_size=terms.family.size,
        sensitivity=scoring.of_one,
        rho=terms.rho,
        split=shares,
        lower_share=lower,
    )
    # The selection multiplies the scale by a logarithm of the family's size, at most 20.
    if not one_shot.largest_scale * 32 <= LARGEST_SCALE:
        raise too_small(terms)
    return OneShotExplanation(terms, scoring, one_shot, split=shares, lower_share=lower)


def too_small(terms: ExplanationTerms) -> ExplanationError:
    return ExplanationError(
        f"rho={terms.rho!r} is too small for k={terms.k} conditions.",
        remedy="Use a larger rho or a smaller k.",
    )


def usable_split(split: object) -> Split | None:
    """The three shares; None if one is so small that its part would round to nothing and not be paid for."""
    shares = plain_numbers(split)
    if shares is None or len(shares) != 3:
        return None
    usable = all(1e-100 < part < 1e100 for part in shares) and max(shares) <= 1e6 * min(shares)
    return (shares[0], shares[1], shares[2]) if usable else None


@dataclass(frozen=True)
class VectorExplanation(ScoredPlan):
    terms: ExplanationTerms
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

    @property
    def shortfall(self) -> float:
        return self._influence_of(self.vector.shortfall(self.confidence))

    @property
    def rank_reach(self) -> tuple[float, float]:
        """Scores in a rank interval differ by at most one resolution with noise, so by two without it."""
        reach = self._influence_of(2 * self.vector.rank_resolution(self.confidence))
        return reach, reach

    def key(self, dataset: OpenDataset) -> str:
        return self.terms.key(dataset, self.mechanism, self.vector)

    def draw(self, scores: Confidential[FamilyScores], noise: NoiseSource) -> list[Selected]:
        return release_vector(scores, self.vector, self.confidence, noise)


def plan_vector(terms: ExplanationTerms) -> VectorExplanation:
    if terms.sensitivity == "paper":
        raise ExplanationError(
            "The vector mechanism is not in the paper, so it has no published sensitivity.",
            remedy="Use mechanism='one-shot' with sensitivity='paper'.",
        )
    if terms.family.size > LARGEST_VECTOR:
        raise ExplanationError(
            f"This mechanism measures every condition, and {terms.family.size:,} conditions are too many for "
            "it.",
            remedy="Use mechanism='one-shot', or fewer attributes or conjuncts.",
        )
    scoring = Scoring.of(terms)
    together = terms.rows_per_unit * family_sensitivity(
        terms.kind,
        terms.contrast.weights,
        *terms.bounds,
        overlap=terms.family.overlap,
        neighbours=terms.neighbours,
    )
    # Rounding moves each score by its slack, in the worst case all of them (docs/proofs/sensitivity.md).
    of_all = SCORE_GRID * (together / scoring.sensitivity) + SCORE_SLACK * math.sqrt(terms.family.size)
    half = terms.rho / 2
    plan = VectorPlan(
        terms.k, terms.family.size, scoring.of_one, of_all * (1 + 2.0**-50), terms.rho - half, half
    )
    if not max(plan.all_scale, plan.fresh_scale) <= LARGEST_SCALE:
        raise too_small(terms)
    return VectorExplanation(terms, scoring, plan)
