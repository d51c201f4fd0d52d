"""The result of preparing an answer, after which explanations of the answer are free."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import EntryId, Request, Spend
from dpxplain.model.contrast import Contrast, Verdict
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.hardening import Frozen
from dpxplain.model.release import PreparedRelease, Released
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.explain_marginals import MarginalsExplanation
from dpxplain.phases.plan import ExplanationTerms
from dpxplain.phases.prepare_answer import Preparation, plan_preparation
from dpxplain.privacy.intervals import DEFAULT_METHOD
from dpxplain.results.base import AnswerLike
from dpxplain.results.preview import Price
from dpxplain.results.requests import prepare_request
from dpxplain.words import numbers
from dpxplain.words.explanations import UNMATCHED
from dpxplain.words.forecasts import preparation_forecast

_CONFIDENCE = 0.95  # of a preview's forecast


@dataclass(frozen=True)
class Prepared(Displayed, Tabular):
    """Explanations of the answer by the prepared conditions are now free. All share the same noise."""

    answer: AnswerLike
    plan: Preparation
    released: Released[PreparedRelease]

    @property
    def sql(self) -> str:
        return self.answer.sql

    @property
    def summary(self) -> str:
        """What was prepared, in a sentence."""
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
    """What preparing an answer would cost, and how noisy its cells would be."""

    price: Price
    sql: str
    plan: Preparation
    smallest_clear: float | None = None
    """The smallest change that will be clear in the gap between the two largest groups; None if the groups
    are so small that hardly any change will be clear."""
    forecast: str = ""
    """What `smallest_clear` means, in a sentence or two."""

    @property
    def confidence(self) -> float:
        return _CONFIDENCE

    def records(self) -> list[Record]:
        further = {"remaining_after": self.price.remaining_after, "smallest_clear": self.smallest_clear}
        return [_summary(self.plan) | further]


class PlannedPreparation(Frozen):
    """A preparation of an answer, planned and not yet paid for."""

    def __init__(self, answer: AnswerLike, plan: Preparation, request: Request, dataset: OpenDataset) -> None:
        self.answer = answer
        self.plan = plan
        self.request = request
        self._dataset = dataset
        self.freeze()

    @property
    def key(self) -> str:
        """Identity of the request."""
        return self.plan.key(self._dataset)

    def preview(self) -> PreparationPreview:
        stored = self._dataset.find(self.plan) is not None
        price = Price.of(self.plan, self._dataset, free=stored)
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

    def run(self, dataset: OpenDataset | None = None) -> Prepared:
        """Finds the stored result or measures it, in the planned data set or another caller's view of it."""
        dataset = (dataset or self._dataset).joining(self._dataset.schema.joined)
        return dataset.find_or_measure(
            self.plan, self.request, lambda released: Prepared(self.answer, self.plan, released)
        )


def plan_prepared(
    answer: AnswerLike, rho: float, choice: FamilyChoice, dataset: OpenDataset
) -> PlannedPreparation:
    """Plans the preparation of an answer. The order of the chosen attributes does not matter."""
    query, ordered = answer.statement.query, choice.in_schema_order(dataset.schema)
    plan = plan_preparation(query, dataset.family(query, ordered), answer.release, dataset.schema, rho)
    return PlannedPreparation(answer, plan, prepare_request(answer, rho, ordered), dataset)


def _largest_groups(answer: AnswerLike) -> tuple[int, ...]:
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
