"""True influences of a whole family, and the whole scores that mechanisms work on."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.explanation.cells import IntArray
from dpxplain.explanation.family import Family
from dpxplain.explanation.influence import FloatArray, influences, of_question, scores
from dpxplain.model.confidential import Confidential
from dpxplain.model.contrast import Contrast
from dpxplain.model.query import Query
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.request import ExplanationRequest
from dpxplain.privacy.mechanisms.scores import FamilyScores
from dpxplain.privacy.sensitivity import SCORE_GRID, SCORE_SLACK, influence_sensitivity


@dataclass(frozen=True)
class Scoring:
    """score = round(influence · 2^20 / sensitivity), so that one unit moves a score by 2^20 + slack."""

    sensitivity: float  # of one influence, in grid units of the aggregated column (rows for COUNT)
    per_score: float  # influence per score, in the unit of the column

    @classmethod
    def of(cls, request: ExplanationRequest) -> Scoring:
        per_row = influence_sensitivity(
            request.kind,
            request.contrast.weights,
            *request.bounds,
            paper=request.sensitivity == "paper",
            neighbours=request.neighbours,
        )
        sensitivity = per_row * request.rows_per_unit
        return cls(sensitivity, sensitivity / SCORE_GRID * request.unit)

    @property
    def of_one(self) -> int:
        """Sensitivity of one score."""
        return SCORE_GRID + SCORE_SLACK


@dataclass(frozen=True)
class ActiveInfluences:
    """True influences, in grid units, of the predicates that some row in question satisfies."""

    active: IntArray
    influence: FloatArray


def true_influences(
    query: Query, contrast: Contrast, family: Family, dataset: OpenDataset
) -> Confidential[ActiveInfluences]:
    """Influence of every predicate of the family; those not listed have influence 0."""
    dataset.progress(f"Counting {family.size:,} predicates in one pass")
    totals = dataset.totals(query)
    cells = dataset.cells(query, family)
    kind, weights, middle = query.aggregate.kind, contrast.weights, 0
    if kind == "avg":
        assert query.aggregate.column is not None
        grid = dataset.schema.column(query.aggregate.column).grid
        middle = grid.low + grid.high
    laid_out = totals.zip(cells).map(lambda both: of_question(*both, contrast.groups))
    return laid_out.map(lambda data: ActiveInfluences(data.active, influences(kind, weights, data, middle)))


def true_scores(
    request: ExplanationRequest, scoring: Scoring, dataset: OpenDataset
) -> Confidential[FamilyScores]:
    true = true_influences(request.query, request.contrast, request.family, dataset)
    return true.map(
        lambda t: FamilyScores(t.active, scores(t.influence, scoring.sensitivity), request.family.size)
    )
