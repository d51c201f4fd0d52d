"""Phase 3: the k predicates that matter most, with private intervals of influence and rank (SPEC 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpxplain.errors import ExplanationError
from dpxplain.explanation.cells import IntArray
from dpxplain.explanation.family import Family
from dpxplain.explanation.influence import FloatArray, influences, of_question, scores
from dpxplain.model.budget import Spend, check_rho
from dpxplain.model.confidential import Confidential
from dpxplain.model.query import Query
from dpxplain.model.question import Contrast
from dpxplain.model.release import ExplanationLine, ExplanationRelease
from dpxplain.phases.answer_query import measured_grid
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.calibration import LARGEST_SCALE, two_sided_quantile
from dpxplain.privacy.intervals import check_confidence
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT, OneShotPlan, select_and_measure
from dpxplain.privacy.mechanisms.scores import FamilyScores
from dpxplain.privacy.sensitivity import SCORE_GRID, SCORE_SLACK, influence_sensitivity

MECHANISMS = ("one-shot",)
LARGEST_LAYOUT = 400_000_000  # groups × predicates, whatever the data: running out of memory would tell
Split = tuple[float, float, float]
SensitivityChoice = Literal["tight", "paper"]


@dataclass(frozen=True)
class ExplanationPlan:
    """What an explanation will cost and how precise it will be, from public quantities only."""

    query: Query
    contrast: Contrast
    family: Family
    rho: float
    confidence: float
    sensitivity: float  # of one influence, in grid units of the aggregated column (rows for COUNT)
    unit: float  # what one grid unit is worth
    one_shot: OneShotPlan
    mechanism: str = "one-shot"

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.one_shot.spends

    def key(self, dataset: OpenDataset) -> str:
        """Identity of the request. The constant a question compares with moves no influence."""
        return dataset.request_key(
            "explain",
            self.query,
            (self.contrast.groups, self.contrast.weights),
            self.family.key,
            (self.mechanism, self.rho, self.confidence, self.sensitivity, self.one_shot),
        )

    @property
    def per_score(self) -> float:
        """Influence per score, in the unit of the column."""
        return self.sensitivity / SCORE_GRID * self.unit

    @property
    def influence_scale(self) -> float:
        """σ of each influence."""
        return self.one_shot.influence_scale * self.per_score

    @property
    def influence_margin(self) -> float:
        """Half the width of each influence interval; the slack covers the rounding of scores."""
        reach = two_sided_quantile(self.confidence) * self.one_shot.influence_scale + SCORE_SLACK
        return reach * self.per_score

    @property
    def rank_resolution(self) -> float:
        """Predicates whose influences differ by less are not told apart by the rank search."""
        return self.one_shot.rank_resolution(self.confidence) * self.per_score


def plan_explanation(
    query: Query,
    contrast: Contrast,
    family: Family,
    dataset: OpenDataset,
    *,
    k: int,
    rho: float,
    confidence: float,
    mechanism: str = "auto",
    split: Split = DEFAULT_SPLIT,
    sensitivity: SensitivityChoice = "tight",
) -> ExplanationPlan:
    """Check the request and calibrate the mechanism; reads no data."""
    if mechanism not in ("auto", *MECHANISMS):
        raise ExplanationError(
            f"There is no mechanism {mechanism!r}.",
            remedy=f"Choose auto or one of: {', '.join(MECHANISMS)}.",
        )
    rho, confidence = check_rho(rho), check_confidence(confidence)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= family.size:
        raise ExplanationError(
            f"k must be a whole number from 1 to the number of predicates ({family.size:,}), not {k!r}.",
            remedy="Use k=5, or allow more attributes or conjuncts.",
        )
    if not _usable_split(split):
        raise ExplanationError(
            f"split must be three positive numbers (select, influence, rank), none a million times another, "
            f"not {split!r}.",
            remedy="Use split=(1, 1, 2).",
        )
    if sensitivity not in ("tight", "paper"):
        raise ExplanationError(
            f"sensitivity must be 'tight' or 'paper', not {sensitivity!r}.", remedy="Use 'tight'."
        )
    if len(contrast.groups) * family.size > LARGEST_LAYOUT:
        raise ExplanationError(
            f"{len(contrast.groups):,} groups with {family.size:,} predicates each do not fit in memory.",
            remedy="Ask about fewer groups, or choose fewer attributes or conjuncts.",
        )
    low, high, unit = 0, 1, 1.0
    if query.aggregate.kind != "count":
        grid = measured_grid(query, dataset.schema)
        low, high, unit = grid.low, grid.high, grid.unit
    per_row = influence_sensitivity(
        query.aggregate.kind,
        contrast.weights,
        low,
        high,
        paper=sensitivity == "paper",
        neighbours=dataset.schema.privacy.neighbours,
    )
    one_shot = OneShotPlan.share(
        k=k, family_size=family.size, sensitivity=SCORE_GRID + SCORE_SLACK, rho=rho, split=split
    )
    # The selection multiplies the scale by a logarithm of the family's size, at most 20.
    if not one_shot.largest_scale * 32 <= LARGEST_SCALE:
        raise ExplanationError(
            f"rho={rho!r} is too small to be shared by k={k} predicates.",
            remedy="Use a larger rho or a smaller k.",
        )
    return ExplanationPlan(
        query=query,
        contrast=contrast,
        family=family,
        rho=rho,
        confidence=confidence,
        sensitivity=per_row * dataset.rows_per_unit,
        unit=unit,
        one_shot=one_shot,
    )


def _usable_split(split: object) -> bool:
    """A share that rounds to nothing would be a part that is not paid for."""
    if not isinstance(split, tuple | list) or len(split) != 3:
        return False
    numbers = all(isinstance(part, int | float) and not isinstance(part, bool) for part in split)
    return numbers and all(0 < part < 1e100 for part in split) and max(split) <= 1e6 * min(split)


def explain_answer(
    plan: ExplanationPlan, dataset: OpenDataset, description: str
) -> tuple[ExplanationRelease, int, bool]:
    """The release, its entry in the ledger, and whether it was stored already (then it is free)."""
    key = plan.key(dataset)
    if stored := dataset.ledger.find(dataset.name, key):
        return ExplanationRelease.from_json(stored[1]), stored[0].id, True
    entry = dataset.ledger.reserve(dataset.name, "explain", key, description, plan.rho, plan.spends)
    release = _measure(plan, dataset)
    dataset.ledger.release(entry, release.to_json())
    return release, entry, False


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
        grid = measured_grid(query, dataset.schema)
        middle = grid.low + grid.high
    laid_out = totals.zip(cells).map(lambda both: of_question(*both, contrast.groups))
    return laid_out.map(lambda data: ActiveInfluences(data.active, influences(kind, weights, data, middle)))


def _measure(plan: ExplanationPlan, dataset: OpenDataset) -> ExplanationRelease:
    true = true_influences(plan.query, plan.contrast, plan.family, dataset)
    dataset.progress("Selecting and measuring explanations under privacy")
    selected = select_and_measure(
        true.map(lambda t: FamilyScores(t.active, scores(t.influence, plan.sensitivity), plan.family.size)),
        plan.one_shot,
        plan.confidence,
        dataset.noise,
    )
    lines = tuple(
        ExplanationLine(
            predicate=line.predicate,
            influence=line.score * plan.per_score,
            influence_interval=(
                line.score * plan.per_score - plan.influence_margin,
                line.score * plan.per_score + plan.influence_margin,
            ),
            rank=line.rank,
        )
        for line in selected
    )
    return ExplanationRelease(
        rho=plan.rho,
        mechanism=plan.mechanism,
        confidence=plan.confidence,
        influence_scale=plan.influence_scale,
        lines=lines,
        private=dataset.noise.private,
    )
