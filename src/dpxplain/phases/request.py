"""What an explanation is asked for, checked once; every mechanism's plan starts from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from dpxplain.errors import ExplanationError
from dpxplain.explanation.family import Family
from dpxplain.model.budget import check_rho
from dpxplain.model.contrast import Contrast
from dpxplain.model.hardening import plain, plain_number, plain_numbers
from dpxplain.model.query import Query
from dpxplain.model.release import AnswerRelease
from dpxplain.model.schema import AggregateKind
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.intervals import check_confidence
from dpxplain.privacy.sensitivity import Neighbours

LARGEST_LAYOUT = 400_000_000  # groups × predicates, whatever the data: running out of memory would tell
SensitivityChoice = Literal["tight", "paper"]


@dataclass(frozen=True)
class ExplanationRequest:
    """Public quantities only: the released answer is the one the question was asked about."""

    query: Query
    contrast: Contrast
    family: Family
    answer: AnswerRelease
    k: int
    rho: float
    confidence: float
    sensitivity: SensitivityChoice = "tight"

    @property
    def kind(self) -> AggregateKind:
        return self.query.aggregate.kind

    @property
    def neighbours(self) -> Neighbours:
        return self.family.schema.privacy.neighbours

    @property
    def rows_per_unit(self) -> int:
        """What one privacy unit may change: every sensitivity is multiplied by it (SPEC section 7)."""
        return self.family.schema.privacy.max_rows

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Of the aggregated column, in whole grid units; rows count as 0 to 1."""
        if self.query.aggregate.column is None or self.kind == "count":
            return 0, 1
        grid = self.family.schema.column(self.query.aggregate.column).grid
        return grid.low, grid.high

    @property
    def unit(self) -> float:
        """What one grid unit is worth."""
        if self.query.aggregate.column is None or self.kind == "count":
            return 1.0
        return self.family.schema.column(self.query.aggregate.column).grid.unit

    def key(self, dataset: OpenDataset, *parts: object) -> str:
        """Identity of the request. The constant a question compares with moves no influence."""
        groups_and_weights = (self.contrast.groups, self.contrast.weights)
        asked = (self.k, self.rho, self.confidence, self.sensitivity)
        return dataset.request_key("explain", self.query, groups_and_weights, self.family.key, asked, *parts)


def request_explanation(
    query: Query,
    contrast: Contrast,
    family: Family,
    answer: AnswerRelease,
    *,
    k: int,
    rho: float,
    confidence: float,
    sensitivity: SensitivityChoice = "tight",
) -> ExplanationRequest:
    """Check what every mechanism needs; reads no data."""
    rho, confidence = check_rho(plain(rho)), check_confidence(plain(confidence))
    k, contrast, sensitivity = plain_k(k, family), plain_contrast(contrast, family), plain(sensitivity)
    if sensitivity not in ("tight", "paper"):
        raise ExplanationError(
            f"sensitivity must be 'tight' or 'paper', not {sensitivity!r}.", remedy="Use 'tight'."
        )
    return ExplanationRequest(query, contrast, family, answer, k, rho, confidence, sensitivity)


def plain_k(k: int, family: Family) -> int:
    """How many predicates are wanted, or a refusal."""
    k = plain(k)
    if type(k) is not int or not 1 <= k <= family.size:
        raise ExplanationError(
            f"k must be a whole number from 1 to the number of predicates ({family.size:,}), not {k!r}.",
            remedy=f"Use k={min(5, family.size)}, or allow more attributes or conjuncts.",
        )
    return k


def plain_contrast(contrast: Contrast, family: Family) -> Contrast:
    """The weighted groups as sensitivities take them, or a refusal."""
    groups, weights = tuple(map(plain, contrast.groups)), plain_numbers(contrast.weights)
    at_least = plain_number(contrast.at_least)
    # Beyond these sizes products of weights, values and noise would leave the range of floats.
    if weights is None or at_least is None or not all(1e-9 < abs(weight) < 1e9 for weight in weights):
        raise ExplanationError(
            "A question is explained by weights of a usual size and a finite constant.",
            remedy='Ask answer.why({"A": 1, "B": -1}).',
        )
    if len(groups) * family.size > LARGEST_LAYOUT:
        raise ExplanationError(
            f"{len(groups):,} groups with {family.size:,} predicates each do not fit in memory.",
            remedy="Ask about fewer groups, or choose fewer attributes or conjuncts.",
        )
    return Contrast(groups, weights, at_least)
