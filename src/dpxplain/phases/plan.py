"""The terms of an explanation, and the plan that every mechanism makes before anything is spent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dpxplain.errors import ExplanationError
from dpxplain.explanation.family import PredicateFamily
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import Request, Spend, check_rho
from dpxplain.model.column import Grid
from dpxplain.model.contrast import Contrast, Ratio
from dpxplain.model.hardening import plain, plain_number, plain_numbers
from dpxplain.model.process import cached_property
from dpxplain.model.query import AggregateKind, Query
from dpxplain.model.release import AnswerRelease, ExplanationRelease, Released, ReleasedLine
from dpxplain.model.schema import Schema
from dpxplain.phases.assess import Assessment
from dpxplain.phases.dataset import OpenDataset, Show, T
from dpxplain.privacy.intervals import check_asked_confidence
from dpxplain.privacy.mechanisms.ranking import DEFAULT_SPLIT, LOWER_SHARE
from dpxplain.privacy.sensitivity import Neighbours

LARGEST_LAYOUT = 400_000_000  # groups × predicates; fixed, as running out of memory may tell about data
SensitivityChoice = Literal["tight", "paper"]
Split = tuple[float, float, float]


@dataclass(frozen=True)
class ExplanationOptions:
    """The arguments of `Question.explain`, not yet checked."""

    choice: FamilyChoice = field(default_factory=FamilyChoice)
    k: int = 5
    rho: float | None = None
    mechanism: str = "auto"
    confidence: float | None = None  # None: the question's
    split: Split | Literal["best"] = DEFAULT_SPLIT
    sensitivity: SensitivityChoice = "tight"
    distinct: bool | None = None  # None: if conditions have several columns
    lower_share: float = LOWER_SHARE
    epsilon: float | None = None  # the price, in place of ρ


@dataclass(frozen=True)
class ExplanationTerms:
    """The terms of an explanation. Every mechanism plans from them, once `check_terms` has accepted them.

    Public quantities only: the released answer is the one the question was asked about.
    """

    query: Query
    contrast: Contrast
    family: PredicateFamily
    answer: AnswerRelease
    k: int
    rho: float
    confidence: float
    sensitivity: SensitivityChoice = "tight"
    distinct: bool = False  # fold conditions that say nearly the same
    ratio: tuple[Ratio, float] | None = None  # a question about a ratio, and its released value

    @property
    def kind(self) -> AggregateKind:
        return self.query.aggregate.explained

    @property
    def neighbours(self) -> Neighbours:
        return self.family.schema.privacy.neighbours

    @property
    def rows_per_unit(self) -> int:
        """The most rows that count per privacy unit; sensitivities are multiplied by it.

        See docs/specification.md, privacy units.
        """
        return self.family.schema.privacy.max_rows

    @cached_property
    def _grid(self) -> Grid | None:
        """The fixed-point grid of the aggregated column; None for a count."""
        column = self.query.aggregate.column
        return None if column is None or self.kind == "count" else self.family.schema.column(column).grid

    @property
    def bounds(self) -> tuple[int, int]:
        """The aggregated column's bounds, in whole grid units; 0 and 1 for a count."""
        return (0, 1) if self._grid is None else (self._grid.low, self._grid.high)

    @property
    def unit(self) -> float:
        """The size of a grid unit, in the unit of the column."""
        return 1.0 if self._grid is None else self._grid.unit

    def key(self, dataset: OpenDataset, *parts: object) -> str:
        """Identity of the request, without the question's constant: no influence depends on it."""
        groups_and_weights = (self.contrast.groups, self.contrast.weights)
        options = (self.k, self.rho, self.confidence, self.sensitivity)
        return dataset.request_key(
            "explain", self.query, groups_and_weights, self.family.key, options, *parts
        )


def check_terms(terms: ExplanationTerms) -> ExplanationTerms:
    """The terms as plain values, checked for what every mechanism needs; reads no data."""
    rho, confidence = check_rho(plain(terms.rho)), check_asked_confidence(plain(terms.confidence))
    k, contrast = plain_k(terms.k, terms.family), plain_contrast(terms.contrast, terms.family)
    sensitivity, distinct = plain(terms.sensitivity), terms.distinct
    if sensitivity not in ("tight", "paper"):
        raise ExplanationError(
            f"sensitivity must be 'tight' or 'paper', not {sensitivity!r}.", remedy="Use 'tight'."
        )
    if distinct not in (True, False):
        raise ExplanationError(f"distinct must be True or False, not {distinct!r}.", remedy="Leave it out.")
    return replace(
        terms,
        contrast=contrast,
        k=k,
        rho=rho,
        confidence=confidence,
        sensitivity=sensitivity,
        distinct=bool(distinct),
    )


def plain_k(k: int, family: PredicateFamily) -> int:
    """k as a plain number; raises unless it is from 1 to the number of predicates."""
    k = plain(k)
    if type(k) is not int or not 1 <= k <= family.size:
        raise ExplanationError(
            f"k must be a whole number from 1 to the number of conditions ({family.size:,}), not {k!r}.",
            remedy=f"Use k={min(5, family.size)}, or allow more attributes or conjuncts.",
        )
    return k


def plain_contrast(contrast: Contrast, family: PredicateFamily) -> Contrast:
    """The contrast with plain values; raises if it cannot be explained."""
    groups, weights = tuple(map(plain, contrast.groups)), plain_numbers(contrast.weights)
    at_least = plain_number(contrast.at_least)
    # Beyond these sizes products of weights, values and noise would leave the range of floats.
    if weights is None or at_least is None or not all(1e-9 < abs(weight) < 1e9 for weight in weights):
        raise ExplanationError(
            "The weights of a question must not be extremely large or small, and its constant must be "
            "finite.",
            remedy='Ask answer.why({"A": 1, "B": -1}).',
        )
    if len(set(groups)) < len(groups):  # sensitivities assume that a row lies in at most one of them
        raise ExplanationError(
            "A question may use each group only once.", remedy='Ask answer.why({"A": 1, "B": -1}).'
        )
    if len(groups) * family.size > LARGEST_LAYOUT:
        raise ExplanationError(
            f"{len(groups):,} groups with {family.size:,} conditions each do not fit in memory.",
            remedy="Ask about fewer groups, or choose fewer attributes or conjuncts.",
        )
    return Contrast(groups, weights, at_least)


class ExplanationPlan(ABC):
    """One mechanism, calibrated for one explanation from public quantities."""

    mechanism: str
    reason: str  # why this mechanism, in a few words
    terms: ExplanationTerms
    split: Split | None = None  # for mechanisms whose shares of ρ can be chosen
    lower_share: float | None = None  # for mechanisms that search for ranks: the paper's η

    @property
    def family(self) -> PredicateFamily:
        return self.terms.family

    @property
    def schema(self) -> Schema:
        return self.terms.family.schema

    @property
    def k(self) -> int:
        return self.terms.k

    @property
    def rho(self) -> float:
        """The ρ that it costs."""
        return self.terms.rho

    @property
    def confidence(self) -> float:
        return self.terms.confidence

    @property
    @abstractmethod
    def spends(self) -> tuple[Spend, ...]:
        """The shares of ρ, by mechanism."""

    @property
    @abstractmethod
    def influence_margin(self) -> float:
        """Half the expected width of an influence interval."""

    @property
    @abstractmethod
    def rank_resolution(self) -> float:
        """Predicates whose influences are closer than this may get overlapping ranks."""

    @property
    @abstractmethod
    def shortfall(self) -> float:
        """How far below the true k-th highest influence a shown predicate can be.

        Holds for all shown predicates at once, with the plan's confidence (docs/proofs/utility.md).
        """

    @property
    def rank_reach(self) -> tuple[float, float] | None:
        """How far below and above a predicate's influence its rank interval reaches; None if unproved."""
        return None

    @property
    def selects_distinct(self) -> bool:
        """Whether the mechanism selects distinct conditions; `shortfall` then refers to the best one left."""
        return False

    @property
    def gap_margin(self) -> float | None:
        """Half the expected width of the gap without a predicate's rows; None if that is not measured."""
        return None

    def gap(self, release: ExplanationRelease, confidence: float, method: str) -> Assessment | None:
        """The question's number if the explanation knows it better than Phase 1 did; else None."""
        return None

    @property
    def imprecision(self) -> float:
        """The number that `auto` compares: the influence margin times the rank resolution."""
        return self.influence_margin * max(self.rank_resolution, 1e-300)

    @abstractmethod
    def key(self, dataset: OpenDataset) -> str:
        """Identity of the release that it needs."""

    @abstractmethod
    def find(self, dataset: OpenDataset) -> Released[Any] | None:
        """The stored release that it would be read from, at no cost: its table, or a preparation."""

    def lines(self, release: ExplanationRelease) -> tuple[ReleasedLine, ...]:
        """The lines of the table, each with the conditions folded under it."""
        return release.lines

    @abstractmethod
    def explain(
        self,
        dataset: OpenDataset,
        request: Request,
        show: Show[ExplanationRelease, T],
        found: Released[Any] | None = None,
    ) -> T:
        """Shows the explanation from what is stored, which is free; or reserves, measures and stores it.

        `found` is what `find` returned, if it was called before.
        """
