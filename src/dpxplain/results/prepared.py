"""Prepare once, ask freely: what an analyst holds after preparing an answer."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.model.charge import Spend
from dpxplain.model.prepared import PreparedRelease
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.prepare_answer import Preparation
from dpxplain.results.displayed import Displayed, Record, Tabular
from dpxplain.results.preview import Price


@dataclass(frozen=True)
class Prepared(Displayed, Tabular):
    """Every question on the answer is now explained for free, with the same noise behind all of them."""

    sql: str
    plan: Preparation
    release: PreparedRelease
    id: int
    free: bool

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

    @classmethod
    def of(cls, plan: Preparation, sql: str, dataset: OpenDataset) -> PreparationPreview:
        remaining = dataset.ledger.budget(dataset.name).remaining
        stored = dataset.ledger.find(dataset.name, plan.key(dataset)) is not None
        return cls(Price(plan.rho, plan.spends, remaining, stored), sql, plan)

    def records(self) -> list[Record]:
        return [_summary(self.plan) | {"remaining_after": self.price.remaining_after}]


def _summary(plan: Preparation) -> Record:
    return {
        "rho": plan.rho,
        "groups": plan.groups,
        "predicates": plan.family.size,
        "cells": plan.cells,
        "count_scale": plan.count_scale,
        "total_scale": plan.total_scale,
    }
