"""Phase 3 for a custom influence, which has bounds within d changed rows instead of a sensitivity.

Selection, influence intervals and ranks all come from distances in rows, whose sensitivity is 1 whatever the
influence is (docs/proofs/custom-influence.md).
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from dpxplain.errors import ExplanationError
from dpxplain.explanation.custom import (
    CustomInfluence,
    RatioInfluence,
    between,
    code_of,
    influence_envelopes,
    is_our_own,
    rank_envelopes,
    selection_scores,
    try_out,
)
from dpxplain.explanation.family import PredicateFamily
from dpxplain.model.charge import Charge, Event, Request, Spend, check_rho, spends
from dpxplain.model.contrast import Contrast
from dpxplain.model.hardening import plain, plain_numbers
from dpxplain.model.query import Query, query_shape
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import measured_grid
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.plan import plain_contrast, plain_k
from dpxplain.privacy.intervals import check_asked_confidence
from dpxplain.privacy.mechanisms.ranking import (
    DEFAULT_SPLIT,
    LOWER_SHARE,
    POINTS_PER_ROW,
    OneShotPlan,
    bound_positions,
    search_reach,
    select_by_distance,
    selection_reach,
)

FURTHEST = 20_000  # rows; bounds are evaluated at every distance up to where the noise no longer matters
_INFLUENCE_SHARE = 0.5  # both ends of an influence interval matter equally


@dataclass(frozen=True)
class CustomLine:
    """One predicate: its index in the family, intervals of its influence and rank."""

    predicate: int
    influence: tuple[float | None, float | None]  # None: beyond the last threshold
    rank: tuple[int, int]


@dataclass(frozen=True)
class CustomRelease:
    """The k lines as released."""

    rho: float
    influence: str
    confidence: float
    lines: tuple[CustomLine, ...]
    private: bool = True

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CustomRelease:
        raw: dict[str, Any] = json.loads(text)
        raw["lines"] = tuple(
            CustomLine(line["predicate"], tuple(line["influence"]), tuple(line["rank"]))
            for line in raw["lines"]
        )
        return cls(**raw)


@dataclass(frozen=True)
class CustomPlan:
    """The cost of the explanation and the distances that it looks at, from public quantities only."""

    query: Query
    contrast: Contrast
    family: PredicateFamily
    influence: CustomInfluence
    rho: float
    confidence: float
    rows: int  # added or removed between neighbours
    shares: OneShotPlan

    @property
    def schema(self) -> Schema:
        return self.family.schema

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends(
            (Event.TOP_K_BY_DISTANCE, self.shares.rho_select),
            (Event.INFLUENCE_SEARCH_BY_DISTANCE, self.shares.rho_influence),
            (Event.RANK_SEARCH_BY_DISTANCE, self.shares.rho_rank),
        )

    @property
    def selection_reach(self) -> int:
        if self.shares.rho_select == 0:
            return 0
        return selection_reach(self.family.size, self.shares.k, rows=self.rows, rho=self.shares.rho_select)

    @property
    def shortfall(self) -> int | None:
        """The most rows that must change before a chosen predicate may be among the highest k.

        Judged by its bounds; holds for all k at once with the plan's confidence (docs/proofs/utility.md,
        section 4). None if it exceeds the distances that are looked at.
        """
        if self.shares.rho_select == 0:
            return 0
        fine = replace(self.shares, sensitivity=self.rows * POINTS_PER_ROW)
        rows = math.floor(fine.shortfall(self.confidence) / POINTS_PER_ROW)
        return rows if rows < self.selection_reach else None

    @property
    def influence_reach(self) -> int:
        return self._reach(self.positions, self.shares.rho_influence, _INFLUENCE_SHARE)

    @property
    def rank_reach(self) -> int:
        return self._reach(self.family.size, self.shares.rho_rank, LOWER_SHARE)

    @property
    def positions(self) -> int:
        """Gaps between the influence's thresholds."""
        return len(self.influence.thresholds) + 1

    def key(self, dataset: OpenDataset) -> str:
        plain_ends = tuple(map(plain, self.influence.thresholds))
        return dataset.request_key(
            "explain custom",
            self.query,
            self.contrast.groups,
            self.family.key,
            (type(self.influence).__qualname__, plain(self.influence.name), plain_ends),
            code_of(self.influence),
            (self.rho, self.confidence, self.rows, self.shares.identity),
        )

    @property
    def shape(self) -> Hashable:
        """Includes every value that the influence uses, not its address, which may be reused later."""
        return (
            query_shape(self.query),
            self.family.key,
            len(self.contrast.groups),
            self.shares.k,
            (type(self.influence), tuple(map(plain, self.influence.thresholds)), code_of(self.influence)),
        )

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge("explain", self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> CustomRelease:
        return CustomRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> CustomRelease:
        influence, size, k = self.influence, self.family.size, self.shares.k
        dataset.progress(f"Counting {size:,} conditions in one pass")
        cells = dataset.question_cells(self.query, self.family, self.contrast.groups)
        dataset.progress("Selecting and measuring explanations under privacy")
        chosen = list(range(size))
        if k < size:
            chosen = select_by_distance(
                cells.map(lambda data: selection_scores(influence, data, k, size, self.selection_reach)),
                k=k,
                rows=self.rows,
                rho=self.shares.rho_select,
                noise=dataset.noise,
            )
        bound = partial(bound_positions, rows=self.rows, confidence=self.confidence, noise=dataset.noise)
        gaps = bound(
            cells.map(lambda data: influence_envelopes(influence, data, chosen, self.influence_reach)),
            size=self.positions,
            rho=self.shares.rho_influence,
            lower_share=_INFLUENCE_SHARE,
        )
        ranks = bound(
            cells.map(lambda data: rank_envelopes(influence, data, chosen, size, self.rank_reach)),
            size=size,
            rho=self.shares.rho_rank,
            lower_share=LOWER_SHARE,
        )
        lines = tuple(
            CustomLine(predicate, _finite(between(influence, gap)), rank)
            for predicate, gap, rank in zip(chosen, gaps, ranks, strict=True)
        )
        return CustomRelease(self.rho, influence.name, self.confidence, lines, dataset.noise.private)

    def _reach(self, positions: int, rho: float, lower_share: float) -> int:
        return search_reach(
            positions,
            self.shares.k,
            rows=self.rows,
            rho=rho,
            confidence=self.confidence,
            lower_share=lower_share,
        )


def plan_custom(
    dataset: OpenDataset,
    query: Query,
    contrast: Contrast,
    family: PredicateFamily,
    influence: CustomInfluence,
    k: int,
    rho: float,
    confidence: float,
) -> CustomPlan:
    """Check the request, try the influence on made-up tables, and share ρ out; reads no data."""
    rho, confidence = check_rho(plain(rho)), check_asked_confidence(plain(confidence))
    k, contrast = plain_k(k, family), plain_contrast(contrast, family)
    if is_our_own(influence):
        # A new object with the caller's thresholds, as the caller's object may have any attributes.
        influence = RatioInfluence(thresholds=_plain_thresholds(influence))
    elif not dataset.trusted_code:
        raise ExplanationError(
            "A custom influence function is code that runs on true counts, so the curator must trust it.",
            remedy="Ask the curator to open the data with trusted_code=True, or use dpx.RatioInfluence(), "
            "which everyone may use.",
        )
    _check_influence(influence, query, contrast, dataset)
    shares = OneShotPlan.share(
        k=k, family_size=family.size, sensitivity=dataset.row_changes, rho=rho, split=DEFAULT_SPLIT
    )
    plan = CustomPlan(query, contrast, family, influence, rho, confidence, dataset.row_changes, shares)
    if max(plan.selection_reach, plan.influence_reach, plan.rank_reach) > FURTHEST:
        raise ExplanationError(
            f"rho={rho!r} is too small for k={k}: the noise would hide even a condition whose influence "
            f"would stay the same if {FURTHEST:,} rows changed.",
            remedy="Use a larger rho or a smaller k.",
        )
    return plan


def _finite(interval: tuple[float, float]) -> tuple[float | None, float | None]:
    """The interval with None for infinity, which JSON lacks."""
    low, high = (end if math.isfinite(end) else None for end in interval)
    return low, high


def _check_influence(
    influence: CustomInfluence, query: Query, contrast: Contrast, dataset: OpenDataset
) -> None:
    for part in ("name", "thresholds", "refusal", "influence", "bounds"):
        if isinstance(influence, type) or not hasattr(influence, part):
            raise ExplanationError(
                f"influence must be an influence function, not {influence!r}.",
                remedy="Use influence=RatioInfluence(), or a FormulaInfluence of your own.",
            )
    _plain_thresholds(influence)
    if refusal := influence.refusal(query.aggregate.explained, contrast):
        raise ExplanationError(refusal, remedy="Ask another question, or use another influence.")
    if is_our_own(influence):
        return  # proved in docs/proofs/custom-influence.md, and tried by the tests
    low = high = 0
    if query.aggregate.kind != "count":
        grid = measured_grid(query, dataset.schema)
        low, high = grid.low, grid.high
    if problem := try_out(influence, len(contrast.groups), low, high):
        raise ExplanationError(
            problem, remedy="docs/proofs/custom-influence.md lists what the bounds must satisfy."
        )


def _plain_thresholds(influence: CustomInfluence) -> tuple[float, ...]:
    thresholds = influence.thresholds
    ends = plain_numbers(thresholds) if issubclass(type(thresholds), tuple) else None
    if not ends or not all(x < y for x, y in itertools.pairwise(ends)):
        raise ExplanationError(
            f"The thresholds of the influence {influence.name!r} must be a tuple of increasing numbers.",
            remedy="Leave out thresholds, or use dpxplain.explanation.custom.thresholds(smallest, largest).",
        )
    return ends
