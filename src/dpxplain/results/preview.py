"""Prices before spending: what a request costs and how precise it will be, from public quantities; and
preparations, whose previews forecast from released values.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import EntryId, Request, Spend
from dpxplain.model.contrast import Contrast, Verdict
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.query import VARIANCES
from dpxplain.model.release import AnswerRelease, PreparedRelease, Released
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import ExpectedNoise, measured_grid
from dpxplain.phases.assess import group_estimates
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_custom import CustomPlan
from dpxplain.phases.explain_marginals import MarginalsExplanation
from dpxplain.phases.plan import ExplanationPlan, ExplanationTerms
from dpxplain.phases.prepare import Preparation, plan_preparation
from dpxplain.privacy.calibration import two_sided_quantile
from dpxplain.privacy.intervals import DEFAULT_METHOD, NoisyMean, mean_interval
from dpxplain.results.base import Planned
from dpxplain.results.released_answer import AskedQuestion, ReleasedAnswer, prepare_request
from dpxplain.words import numbers
from dpxplain.words.declarations import shaped_by
from dpxplain.words.prices import Price, preparation_forecast
from dpxplain.words.sentences import UNMATCHED

# -- Queries -----------------------------------------------------------------------------------------------

_EXAMPLE_SIZES = (100, 1_000, 10_000)
MarginsBySize = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class QueryPreview(Displayed, Tabular):
    """A query's price and the expected half-width of its intervals.

    For COUNT and SUM the margin is the same for every group; for AVG it depends on the group's size,
    which is not known before asking, so it is shown for some sizes.
    """

    price: Price
    sql: str
    groups: int
    confidence: float
    margin: float | None
    margin_by_group_size: MarginsBySize
    shaped_by: tuple[str, ...] = ()
    """The declarations that will shape the numbers, including those inferred from expressions."""

    @classmethod
    def of(
        cls,
        noise: ExpectedNoise,
        sql: str,
        groups: int,
        price: Price,
        dataset: OpenDataset,
        confidence: float,
    ) -> QueryPreview:
        margin, by_size = _expected_margins(noise, dataset.schema, confidence)
        declarations = shaped_by([noise.query], dataset.schema)
        return cls(price, sql, groups, confidence, margin, by_size, declarations)

    def records(self) -> list[Record]:
        common = {"rho": self.price.rho, "remaining_after": self.price.remaining_after}
        if self.margin is not None:
            return [common | {"group_size": None, "margin": self.margin}]
        return [common | {"group_size": size, "margin": m} for size, m in self.margin_by_group_size]


def _expected_margins(
    noise: ExpectedNoise, schema: Schema, confidence: float
) -> tuple[float | None, MarginsBySize]:
    """The margin of every group, or else the margins of groups of some sizes. A quantile has neither."""
    kind = noise.query.aggregate.kind
    if kind == "quantile":
        return None, ()
    if kind in VARIANCES:
        return None, _variance_margins(noise, schema, confidence)
    if kind == "avg":
        return None, _mean_margins(noise, schema, confidence)
    scale = noise.sum_scale if kind == "sum" else noise.count_scale
    assert scale is not None
    return two_sided_quantile(confidence) * scale, ()


def _mean_margins(noise: ExpectedNoise, schema: Schema, confidence: float) -> MarginsBySize:
    assert noise.count_scale is not None
    assert noise.sum_scale is not None
    grid = measured_grid(noise.query, schema)
    low, high = grid.low * grid.unit, grid.high * grid.unit
    margins = []
    for size in _EXAMPLE_SIZES:
        # Away from the middle of the bounds the noisy count matters too; half-way out is typical.
        example = NoisyMean(size * (high - low) / 4, size, noise.sum_scale, noise.count_scale, low, high)
        interval = mean_interval(example, confidence)
        margins.append((size, (interval[1] - interval[0]) / 2))
    return tuple(margins)


def _variance_margins(noise: ExpectedNoise, schema: Schema, confidence: float) -> MarginsBySize:
    """Half-widths for groups whose values are spread evenly over the bounds."""
    grid = measured_grid(noise.query, schema)
    margins = []
    for size in _EXAMPLE_SIZES:
        squares = -size * grid.square_reach * grid.square_unit / 3
        example = AnswerRelease(
            rho=1.0,
            noisy_count=(float(size),),
            count_scale=noise.count_scale,
            noisy_sum=(0.0,),
            sum_scale=noise.sum_scale,
            noisy_squares=(squares,),
            squares_scale=noise.squares_scale,
        )
        ((_, (low, high), _),) = group_estimates(example, noise.query, schema, confidence)
        margins.append((size, (high - low) / 2))
    return tuple(margins)


@dataclass(frozen=True)
class QueriesPreview(Displayed, Tabular):
    """The price of several aggregates together, and the expected precision of each."""

    price: Price
    sql: str
    groups: int
    confidence: float
    parts: tuple[tuple[str, QueryPreview], ...]  # by the aggregate's name in the SELECT list
    notes: tuple[str, ...] = ()

    @property
    def shaped_by(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for _, part in self.parts for text in part.shaped_by))

    def __getitem__(self, name: str) -> QueryPreview:
        return dict(self.parts)[name]

    def records(self) -> list[Record]:
        return [{"aggregate": name} | record for name, part in self.parts for record in part.records()]


# -- Explanations ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExplanationPreview(Displayed, Tabular):
    """An explanation's price and the expected half-widths of its intervals."""

    price: Price
    question: str
    k: int
    family_size: int
    confidence: float
    mechanism: str
    reason: str  # why this mechanism
    influence_margin: float
    relative_margin: float | None
    rank_resolution: float  # influences closer than this may get overlapping ranks
    measured: str = "gap"  # the name of the question's number
    unit: numbers.Unit = numbers.PLAIN  # of that number
    gap_margin: float | None = None  # of the gap without a condition's rows, if it is estimated
    shortfall: float = 0.0  # how far below the true k-th highest influence a condition shown can be
    relative_shortfall: float | None = None
    rank_reach: tuple[float, float] | None = None  # how much lower or higher influences at these ranks can be
    proved: bool = True  # False if shortfall is a forecast
    selects_distinct: bool = False  # if so, shortfall counts from the best condition left to choose
    folds: bool = False  # whether conditions that say nearly the same are folded when the table is read

    @classmethod
    def of(cls, plan: ExplanationPlan, question: AskedQuestion, price: Price) -> ExplanationPreview:
        divisor = question.relative_to
        return cls(
            price=price,
            question=question.text,
            k=plan.k,
            family_size=plan.family.size,
            confidence=plan.confidence,
            mechanism=plan.mechanism,
            reason=plan.reason,
            influence_margin=plan.influence_margin,
            relative_margin=None if divisor is None else plan.influence_margin / divisor,
            rank_resolution=plan.rank_resolution,
            measured=question.measured,
            unit=question.unit,
            gap_margin=_gap_margin(plan.gap_margin, question),
            shortfall=plan.shortfall,
            relative_shortfall=None if divisor is None else plan.shortfall / divisor,
            rank_reach=plan.rank_reach,
            proved=plan.rank_reach is not None,
            selects_distinct=plan.selects_distinct,
            folds=plan.terms.distinct,
        )

    @property
    def promises(self) -> tuple[str, ...]:
        """Guarantees for the choice and its ranks, as sentences (docs/proofs/utility.md)."""
        return tuple(promise for promise in (self._choice_promise(), self._rank_promise()) if promise)

    def _choice_promise(self) -> str:
        if self.k == self.family_size:
            folded = "; nearly identical conditions share a row" if self.folds else ""
            return f"All conditions are {'chosen' if folded else 'shown'}, so none is missing{folded}."
        begin = f"With {numbers.level(self.confidence)} confidence"
        begin = begin if self.proved else f"Expected, not proved: {begin[0].lower()}{begin[1:]}"
        subject = f"each of the {self.k:,} shown has" if self.k > 1 else "the one shown has"
        below = self._amount(self.shortfall, self.relative_shortfall)
        best = "the highest that was left to choose" if self.selects_distinct else self._lowest_shown
        before = ", before nearly identical conditions are merged" if self.folds else ""
        return f"{begin} {subject} an influence at most {below} below {best}{before}."

    @property
    def _lowest_shown(self) -> str:
        return "the highest" if self.k == 1 else f"the true {numbers.ordinal(self.k)} highest"

    def _rank_promise(self) -> str:
        if self.rank_reach is None or self.family_size == 1:
            return ""
        below, above = map(numbers.number, self.rank_reach)
        several = ", for all of them at once" if self.mechanism == "vector" else ", for each of them"
        scope = several if self.k > 1 else ""
        return (
            f"With {numbers.level(self.confidence)} confidence{scope}: every condition whose rank lies "
            f"inside the interval has an influence at most {below} lower or {above} higher than the "
            "condition shown."
        )

    def _amount(self, influence: float, relative: float | None) -> str:
        if relative is None:
            return numbers.number(influence)
        return f"{numbers.number(influence)} ({numbers.number(relative * 100)}% relative influence)"

    def records(self) -> list[Record]:
        return [
            {
                "rho": self.price.rho,
                "remaining_after": self.price.remaining_after,
                "k": self.k,
                "predicates": self.family_size,
                "influence_margin": self.influence_margin,
                "relative_margin": self.relative_margin,
                "rank_resolution": self.rank_resolution,
                "gap_margin": self.gap_margin,
                "shortfall": self.shortfall,
                "relative_shortfall": self.relative_shortfall,
                "rank_reach_below": None if self.rank_reach is None else self.rank_reach[0],
                "rank_reach_above": None if self.rank_reach is None else self.rank_reach[1],
                "proved": self.proved,
                "mechanism": self.mechanism,
                "reason": self.reason,
            }
        ]


def _gap_margin(margin: float | None, question: AskedQuestion) -> float | None:
    """The margin of the question's number; for a ratio, that of A − r·B divided by B."""
    if margin is None or question.ratio is None:
        return margin
    divided = abs(question.answer.row(question.ratio.group).estimate)
    return margin * abs(question.estimate) / divided if divided else None


@dataclass(frozen=True)
class CustomPreview(Displayed, Tabular):
    """The price of an explanation by a custom influence, and how far its intervals may reach.

    Widths are in rows, the only unit that all influences share. An interval contains at most the values that
    adding or removing this many rows could lead to.
    """

    price: Price
    question: str
    influence: str
    k: int
    family_size: int
    confidence: float
    influence_rows: int
    rank_rows: int
    shortfall_rows: int | None  # None if nothing is promised about the choice

    @classmethod
    def of(cls, plan: CustomPlan, question: str, price: Price) -> CustomPreview:
        return cls(
            price=price,
            question=question,
            influence=plan.influence.name,
            k=plan.shares.k,
            family_size=plan.family.size,
            confidence=plan.confidence,
            influence_rows=plan.influence_reach,
            rank_rows=plan.rank_reach,
            shortfall_rows=plan.shortfall,
        )

    @property
    def promises(self) -> tuple[str, ...]:
        """Guarantees for the choice, as sentences (docs/proofs/utility.md, section 4)."""
        if self.k == self.family_size:
            return ("All conditions are shown, so none is missing.",)
        if self.shortfall_rows is None:
            return (
                f"At {numbers.level(self.confidence)} confidence, there is no guarantee that the right "
                "conditions are shown.",
            )
        subject = f"each of the {self.k:,} shown" if self.k > 1 else "the one shown"
        place = f"one of the {self.k:,}" if self.k > 1 else "the one"
        rows = "changed row separates" if self.shortfall_rows == 1 else "changed rows separate"
        return (
            f"With {numbers.level(self.confidence)} confidence, at most {self.shortfall_rows:,} {rows} "
            f"{subject} from being {place} with the highest influence, according to the influence's bounds.",
        )

    def records(self) -> list[Record]:
        return [
            {
                "rho": self.price.rho,
                "remaining_after": self.price.remaining_after,
                "k": self.k,
                "predicates": self.family_size,
                "influence": self.influence,
                "influence_rows": self.influence_rows,
                "rank_rows": self.rank_rows,
                "shortfall_rows": self.shortfall_rows,
            }
        ]


# -- Preparations ------------------------------------------------------------------------------------------
#
# After preparing an answer, explanations of the answer are free.

_CONFIDENCE = 0.95  # of a preview's forecast


@dataclass(frozen=True)
class Prepared(Displayed, Tabular):
    """Explanations of the answer by the prepared conditions are now free. All share the same noise."""

    answer: ReleasedAnswer
    plan: Preparation
    released: Released[PreparedRelease]

    @property
    def sql(self) -> str:
        return self.answer.sql

    @property
    def summary(self) -> str:
        """The number of conditions and groups that were measured, in a sentence."""
        plan = self.plan
        return (
            f"{numbers.counted(plan.family.size, 'condition')} measured, in "
            f"{numbers.counted(plan.groups, 'group')}."
        )

    @property
    def shaped_by(self) -> tuple[str, ...]:
        """The declarations that shaped the numbers, as sentences."""
        return (*self.answer.shaped_by, UNMATCHED)

    @property
    def release(self) -> PreparedRelease:
        return self.released.value

    @property
    def id(self) -> EntryId:
        """Its number in the history."""
        return self.released.entry.id

    @property
    def free(self) -> bool:
        return self.released.free

    @property
    def rho(self) -> float:
        return self.release.rho

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.plan.spends

    @property
    def private(self) -> bool:
        """False only for experiments with a seeded source of noise."""
        return self.release.private

    def records(self) -> list[Record]:
        return [_summary(self.plan) | {"id": self.id, "free": self.free}]


@dataclass(frozen=True)
class PreparationPreview(Displayed, Tabular):
    """The price of preparing an answer, and the noise that its cells would have."""

    price: Price
    sql: str
    plan: Preparation
    smallest_clear: float | None = None
    """The smallest change that will be clear in the gap between the two largest groups; None if the groups
    are so small that hardly any change will be clear."""
    forecast: str = ""
    """The meaning of `smallest_clear`, in a sentence or two."""

    @property
    def confidence(self) -> float:
        return _CONFIDENCE

    def records(self) -> list[Record]:
        further = {"remaining_after": self.price.remaining_after, "smallest_clear": self.smallest_clear}
        return [_summary(self.plan) | further]


class PlannedPreparation(Planned[PreparedRelease, Prepared]):
    """A preparation of an answer, planned and not yet paid for."""

    plan: Preparation

    def __init__(
        self, answer: ReleasedAnswer, plan: Preparation, request: Request, dataset: OpenDataset
    ) -> None:
        super().__init__(plan, request, dataset)
        self.answer = answer
        self.freeze()

    def show(self, released: Released[PreparedRelease]) -> Prepared:
        return Prepared(self.answer, self.plan, released)

    def preview(self) -> PreparationPreview:
        price = Price.of(self.plan, self._dataset, free=self.is_stored)
        return PreparationPreview(price, self.answer.sql, self.plan, *self._forecast())

    def _forecast(self) -> tuple[float | None, str]:
        """The smallest change that will be clear, and its sentence; from released values only."""
        answer, plan = self.answer, self.plan
        groups = _largest_groups(answer)
        contrast = Contrast(groups, (1.0, -1.0)[: len(groups)])
        terms = ExplanationTerms(plan.query, contrast, plan.family, answer.release, 1, plan.rho, _CONFIDENCE)
        smallest = MarginalsExplanation(terms, plan, stored=None).smallest_clear
        assessed = answer.assess(contrast, _CONFIDENCE, DEFAULT_METHOD)
        return smallest, preparation_forecast(
            smallest,
            None if assessed.verdict is Verdict.UNCLEAR else abs(assessed.estimate),
            [answer.groups.label(group) for group in groups],
            plan.rho,
            plan.schema.privacy,
            in_percent=answer.in_percent,
        )


def plan_prepared(
    answer: ReleasedAnswer, rho: float, choice: FamilyChoice, dataset: OpenDataset
) -> PlannedPreparation:
    """Plans the preparation of an answer. The order of the chosen attributes does not matter."""
    query, ordered = answer.statement.query, choice.in_schema_order(dataset.schema)
    plan = plan_preparation(query, dataset.family(query, ordered), answer.release, dataset.schema, rho)
    return PlannedPreparation(answer, plan, prepare_request(answer, rho, ordered), dataset)


def _largest_groups(answer: ReleasedAnswer) -> tuple[int, ...]:
    """The two groups with the largest noisy counts, or the largest sums if no counts were released."""
    release = answer.release
    sizes = release.noisy_count or [abs(total) for total in release.noisy_sum or ()]
    return tuple(sorted(range(len(sizes)), key=lambda group: -sizes[group])[:2])


def _summary(plan: Preparation) -> Record:
    return {
        "rho": plan.rho,
        "groups": plan.groups,
        "predicates": plan.family.size,
        "cells": plan.cells,
        "count_scale": plan.count_scale,
        "total_scale": plan.total_scale,
    }
