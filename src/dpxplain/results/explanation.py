"""Phase 3's result as an analyst holds it: the explanation table, by one of the three mechanisms or by an
influence of the analyst's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpxplain.errors import ExplanationError
from dpxplain.explanation.custom import CustomInfluence
from dpxplain.explanation.family import Family
from dpxplain.model.cancellation import checking
from dpxplain.model.charge import Request, Spend
from dpxplain.model.display import Charted, Displayed, Record, check_report_name, renderer
from dpxplain.model.hardening import Frozen
from dpxplain.model.predicate import FilterPredicate, Predicate
from dpxplain.model.release import ExplanationRelease, FoldedLine, Released
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_custom import CustomPlan, CustomRelease, plan_custom
from dpxplain.phases.plan import ExplanationPlan
from dpxplain.privacy.intervals import Interval
from dpxplain.results.base import QuestionLike, ReleasedRows, Row, Truth, require_curator
from dpxplain.results.preview import ExplanationPreview
from dpxplain.results.sentences import UNMATCHED


@dataclass(frozen=True)
class FoldedCondition:
    """A condition that says nearly the same as the row that it is folded under."""

    predicate: Predicate | FilterPredicate
    same_rows: Interval | None
    """The rows that meet both, as a share of those that meet either; None where only structure tells."""


@dataclass(frozen=True)
class ExplanationRow:
    """One predicate: intervals of its influence, relative influence and rank."""

    predicate: Predicate | FilterPredicate
    estimate: float  # noisy influence, the middle of its interval
    influence: Interval
    relative_influence: Interval | None  # None where the released gap is too uncertain to divide by
    rank: tuple[int, int]
    index: int  # in the family
    gap_without: Interval | None = None  # the question's value without these rows, if the mechanism tells it
    folded: tuple[FoldedCondition, ...] = ()  # what the row stands for as well


Release = TypeVar("Release", ExplanationRelease, CustomRelease)


class PredicateRows(ReleasedRows[Release, Row]):
    """Predicates that explain a question, as planned and released."""

    question: QuestionLike
    plan: ExplanationPlan | CustomPlan

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

    def __getitem__(self, position: int) -> Row:
        return self.rows[position]


class Explanation(Frozen, Charted, PredicateRows[ExplanationRelease, ExplanationRow]):
    """The k selected predicates, by the upper bound of their influence, then of their rank.

    >>> import dpxplain as dpx
    >>> sql = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
    >>> answer = dpx.example("adult").query(sql, rho=0.1)
    >>> table = answer.why("Married-civ-spouse", "Never-married").explain(k=3, rho=2.0)
    >>> len(table), table.family_size
    (3, 103)
    """

    def __init__(
        self,
        question: QuestionLike,
        plan: ExplanationPlan,
        released: Released[ExplanationRelease],
        dataset: OpenDataset,
        *,
        request: Mapping[str, Any],
    ) -> None:
        self.question = question
        self.plan: ExplanationPlan = plan
        super().__init__(released)
        self.request = request  # what was asked, as the history keeps it
        self._dataset = dataset
        self.rows = self._ordered()
        self.freeze()

    @property
    def mechanism(self) -> str:
        return self.release.mechanism

    @property
    def distinct(self) -> bool:
        """Whether conditions that say nearly the same are folded under one row."""
        return self.plan.terms.distinct

    @property
    def relative(self) -> bool:
        """Whether relative influences are meaningful here."""
        return self.question.relative_to is not None

    def records(self) -> list[Record]:
        return [
            {
                "predicate": str(row.predicate),
                "influence_low": row.influence[0],
                "influence_high": row.influence[1],
                "relative_influence_low": row.relative_influence and row.relative_influence[0],
                "relative_influence_high": row.relative_influence and row.relative_influence[1],
                "rank_low": row.rank[0],
                "rank_high": row.rank[1],
                "gap_without_low": row.gap_without and row.gap_without[0],
                "gap_without_high": row.gap_without and row.gap_without[1],
                "folded": "; ".join(str(condition.predicate) for condition in row.folded),
            }
            for row in self.rows
        ]

    def save(self, path: str | Path) -> Path:
        """Write the whole story, question and table, as one self-contained HTML file."""
        check_report_name(Path(path))
        return Path(renderer("report").save_report(self, path))

    def truth(self) -> Truth:
        """Curator only: true influence and rank of the predicates in the table."""
        return require_curator(self._dataset).table_truth(self)

    def _ordered(self) -> tuple[ExplanationRow, ...]:
        """SPEC section 6: by upper bound of relative influence, ties by upper bound of rank."""
        divisor = self.question.relative_to
        rows = [
            ExplanationRow(
                predicate=self.plan.family.predicate(line.predicate),
                estimate=line.influence,
                influence=line.influence_interval,
                relative_influence=None
                if divisor is None
                else (line.influence_interval[0] / divisor, line.influence_interval[1] / divisor),
                rank=line.rank,
                index=line.predicate,
                gap_without=line.gap_without_interval,
                folded=tuple(map(self._condition, line.folded)),
            )
            for line in checking(self.plan.lines(self.release))
        ]
        return tuple(sorted(rows, key=lambda row: (-row.influence[1], row.rank[1])))

    def _condition(self, folded: FoldedLine) -> FoldedCondition:
        predicate = self.plan.family.predicate(folded.predicate)
        if folded.kept is not None and isinstance(predicate, Predicate):
            predicate = Predicate(tuple(predicate.conditions[position] for position in folded.kept))
        return FoldedCondition(predicate, folded.same_rows)


class PlannedExplanation(Frozen):
    """An explanation of a question, planned and not yet paid for."""

    def __init__(
        self, question: QuestionLike, plan: ExplanationPlan, request: Request, dataset: OpenDataset
    ) -> None:
        self.question = question
        self.plan = plan
        self.request = request
        self._dataset = dataset
        self.freeze()

    @property
    def key(self) -> str:
        """Identity of the request."""
        return self.plan.key(self._dataset)

    def preview(self) -> ExplanationPreview:
        return ExplanationPreview.of(self.plan, self.question, self._dataset)

    def run(self, dataset: OpenDataset | None = None) -> Explanation:
        """Finds or measures it, in the data set it was planned on or in another caller's view of it."""
        dataset = (dataset or self._dataset).joining(self._dataset.schema.joined)
        body = self.request.body or {}
        return self.plan.explain(
            dataset,
            self.request,
            lambda released: Explanation(self.question, self.plan, released, dataset, request=body),
        )


@dataclass(frozen=True)
class CustomRow:
    """One predicate: intervals of its influence and rank; an infinite end says that nothing is known."""

    predicate: Predicate | FilterPredicate
    influence: Interval
    rank: tuple[int, int]
    index: int  # in the family


class CustomExplanation(Displayed, PredicateRows[CustomRelease, CustomRow]):
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
