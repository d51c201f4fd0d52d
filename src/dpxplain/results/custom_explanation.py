"""Phase 3's result for an influence of the analyst's own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpxplain.errors import ExplanationError
from dpxplain.explanation.custom import CustomInfluence
from dpxplain.explanation.family import Family
from dpxplain.model.charge import Request, Spend
from dpxplain.model.display import Displayed, Record
from dpxplain.model.predicate import FilterPredicate, Predicate
from dpxplain.model.release import Released
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_custom import CustomPlan, CustomRelease, plan_custom
from dpxplain.privacy.intervals import Interval
from dpxplain.results.base import ReleasedRows
from dpxplain.results.links import QuestionLike
from dpxplain.results.sentences import UNMATCHED


@dataclass(frozen=True)
class CustomRow:
    """One predicate: intervals of its influence and rank; an infinite end says that nothing is known."""

    predicate: Predicate | FilterPredicate
    influence: Interval
    rank: tuple[int, int]
    index: int  # in the family


class CustomExplanation(Displayed, ReleasedRows[CustomRelease, CustomRow]):
    """The k selected predicates, by the upper bound of their rank, then of their influence."""

    def __init__(self, question: QuestionLike, plan: CustomPlan, released: Released[CustomRelease]) -> None:
        self.question = question
        self.plan = plan
        super().__init__(released)
        rows = [
            CustomRow(
                plan.family.predicate(line.predicate),
                (
                    -math.inf if line.influence[0] is None else line.influence[0],
                    math.inf if line.influence[1] is None else line.influence[1],
                ),
                line.rank,
                line.predicate,
            )
            for line in released.value.lines
        ]
        # Influences are coarse here, so that ranks say more about the order.
        self.rows = tuple(sorted(rows, key=lambda row: (row.rank[1], -row.influence[1], row.rank[0])))

    @property
    def confidence(self) -> float:
        return self.release.confidence

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.plan.spends

    @property
    def family_size(self) -> int:
        return self.plan.family.size

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences."""
        return (*self.question.shaped_by, UNMATCHED)

    def __getitem__(self, position: int) -> CustomRow:
        return self.rows[position]

    def records(self) -> list[Record]:
        return [
            {
                "predicate": str(row.predicate),
                "influence_low": row.influence[0] if math.isfinite(row.influence[0]) else None,
                "influence_high": row.influence[1] if math.isfinite(row.influence[1]) else None,
                "rank_low": row.rank[0],
                "rank_high": row.rank[1],
            }
            for row in self.rows
        ]


def plan_by(
    influence: CustomInfluence,
    question: QuestionLike,
    family: Family,
    dataset: OpenDataset,
    *,
    k: int,
    rho: float | None,
    confidence: float | None,
) -> CustomPlan:
    """The plan of an explanation by a custom influence, which always has a price."""
    if rho is None:
        raise ExplanationError(
            "A custom influence cannot be explained from a preparation, so it needs a price.",
            remedy="Pass rho=0.5.",
        )
    return plan_custom(
        dataset,
        question.answer.statement.query,
        question.contrast,
        family,
        influence,
        k,
        rho,
        question.confidence if confidence is None else confidence,
    )


def explain_by(
    influence: CustomInfluence,
    question: QuestionLike,
    family: Family,
    dataset: OpenDataset,
    *,
    k: int,
    rho: float | None,
    confidence: float | None,
) -> CustomExplanation:
    """The k predicates of highest custom influence, for `rho`. Asking the identical thing again is free."""
    plan = plan_by(influence, question, family, dataset, k=k, rho=rho, confidence=confidence)
    released = dataset.find_or_measure(plan, Request(question.text))
    return CustomExplanation(question, plan, released)
