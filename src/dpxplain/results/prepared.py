"""Prepare once, ask freely: what an analyst holds after preparing an answer."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import EntryId, Request, Spend
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.hardening import Frozen
from dpxplain.model.release import PreparedRelease, Released
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.prepare_answer import Preparation, plan_preparation
from dpxplain.results.base import AnswerLike
from dpxplain.results.preview import Price
from dpxplain.results.requests import prepare_request
from dpxplain.results.sentences import UNMATCHED


@dataclass(frozen=True)
class Prepared(Displayed, Tabular):
    """Every question on the answer is now explained for free, with the same noise behind all of them."""

    answer: AnswerLike
    plan: Preparation
    released: Released[PreparedRelease]

    @property
    def sql(self) -> str:
        return self.answer.sql

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

    @property
    def confidence(self) -> float:
        return 0.95

    def records(self) -> list[Record]:
        return [_summary(self.plan) | {"remaining_after": self.price.remaining_after}]


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
        return PreparationPreview(Price.of(self.plan, self._dataset, free=stored), self.answer.sql, self.plan)

    def run(self, dataset: OpenDataset | None = None) -> Prepared:
        """Finds or measures it, in the data set it was planned on or in another caller's view of it."""
        dataset = (dataset or self._dataset).joining(self._dataset.schema.joined)
        return dataset.find_or_measure(
            self.plan, self.request, lambda released: Prepared(self.answer, self.plan, released)
        )


def plan_prepared(
    answer: AnswerLike, rho: float, choice: FamilyChoice, dataset: OpenDataset
) -> PlannedPreparation:
    """The preparation of an answer by a choice of conditions, whatever the order of its attributes."""
    query = answer.statement.query

    def plan(choice: FamilyChoice) -> Preparation:
        family = dataset.family(query, choice)
        return plan_preparation(query, family, answer.release, dataset.schema, rho)

    choice = dataset.asked_order(choice, lambda ordered: dataset.find(plan(ordered)) is not None)
    return PlannedPreparation(answer, plan(choice), prepare_request(answer, rho, choice), dataset)


def _summary(plan: Preparation) -> Record:
    return {
        "rho": plan.rho,
        "groups": plan.groups,
        "predicates": plan.family.size,
        "cells": plan.cells,
        "count_scale": plan.count_scale,
        "total_scale": plan.total_scale,
    }
