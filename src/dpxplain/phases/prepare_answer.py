"""Prepare once, ask freely: release the marginals of an answer (SPEC section 6, mechanism 3).

One row lies in one group and in one cell of each of the t parts, so all groups come at the price of one
and the sensitivity is plain: √t rows, √t times the largest value. docs/proofs/marginals.md.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from dpxplain.errors import BadRequest, ExplanationError
from dpxplain.explanation.family import Family
from dpxplain.explanation.recipes import read
from dpxplain.ledger.protocol import Entry
from dpxplain.model.budget import check_rho, remainder, rho_of_units, spend_units
from dpxplain.model.charge import Event, Request, Spend, spends
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import plain
from dpxplain.model.prepared import PreparedRelease
from dpxplain.model.query import Query
from dpxplain.model.release import AnswerRelease
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.calibration import LARGEST_SCALE, gaussian_scale
from dpxplain.privacy.marginals.forecast import split_rho
from dpxplain.privacy.mechanisms.gaussian import add_gaussian
from dpxplain.privacy.sensitivity import count_sensitivity, mean_sum_sensitivity, sum_sensitivity

MOST_CELLS = 2_000_000  # every cell is released, occupied or not


@dataclass(frozen=True)
class Preparation:
    """What preparing an answer will cost and how noisy its cells will be, from public quantities only."""

    query: Query
    family: Family
    rho: float
    rho_count: float
    rho_total: float
    count_sensitivity: float  # rows
    total_sensitivity: float  # grid units; doubled and centred for AVG
    total_unit: float

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends((Event.CELL_COUNTS, self.rho_count), (Event.CELL_SUMS, self.rho_total))

    @property
    def count_scale(self) -> float:
        return gaussian_scale(self.count_sensitivity, self.rho_count)

    @property
    def total_scale(self) -> float | None:
        """In the unit of the column."""
        if not self.rho_total:
            return None
        return gaussian_scale(self.total_sensitivity, self.rho_total) * self.total_unit

    @property
    def groups(self) -> int:
        return Groups.of(self.query, self.family.schema).size

    @property
    def cells(self) -> int:
        return self.groups * sum(part.cells for part in self.family.parts)

    def key(self, dataset: OpenDataset) -> str:
        return preparation_key(self.query, self.family, self.rho, dataset)


def preparation_key(query: Query, family: Family, rho: float, dataset: OpenDataset) -> str:
    # ρ as the ledger keeps it, so that the entry's own ρ leads back to the key.
    return dataset.request_key("prepare", query, family.key, rho_of_units(spend_units(rho)))


def plan_preparation(
    query: Query, family: Family, answer: AnswerRelease, schema: Schema, rho: float
) -> Preparation:
    """Split ρ between counts and sums by what is released already; reads no data."""
    rho = check_rho(plain(rho))
    overlap = math.sqrt(len(family.parts)) * (1 + 2.0**-50)
    privacy, kind = schema.privacy, query.aggregate.kind
    rows = count_sensitivity(privacy.max_rows, privacy.neighbours) * overlap
    if kind == "count":
        plan = Preparation(query, family, rho, rho, 0.0, rows, 0.0, 1.0)
    else:
        assert query.aggregate.column is not None
        grid = schema.column(query.aggregate.column).grid
        measure = sum_sensitivity if kind == "sum" else mean_sum_sensitivity
        largest = measure(grid.low, grid.high, privacy.max_rows, privacy.neighbours) * overlap
        share = split_rho(kind, _centred_means(answer), grid.range * grid.unit / 2)
        unit = grid.unit if kind == "sum" else grid.unit / 2
        plan = Preparation(query, family, rho, rho * share, remainder(rho, rho * share), rows, largest, unit)
    if plan.cells > MOST_CELLS:
        raise ExplanationError(
            f"Preparing this answer would release {plan.cells:,} cells, more than {MOST_CELLS:,}.",
            remedy="Choose fewer attributes or conjuncts, or explain one question at a time.",
        )
    total = gaussian_scale(plan.total_sensitivity, plan.rho_total) if plan.rho_total else 0.0
    if not max(plan.count_scale, total) <= LARGEST_SCALE:
        raise ExplanationError(
            f"rho={rho!r} is too small to prepare with.", remedy="Use a larger rho, for example 0.02."
        )
    return plan


def prepare_answer(
    plan: Preparation, dataset: OpenDataset, asked: Request
) -> tuple[PreparedRelease, int, bool]:
    """The release, its entry in the ledger, and whether it was stored already (then it is free)."""
    return dataset.once(
        "prepare",
        plan.key(dataset),
        asked,
        plan.rho,
        plan.spends,
        lambda: _measure(plan, dataset),
        PreparedRelease.from_json,
    )


@dataclass(frozen=True)
class StoredPreparation:
    """What was prepared before, cut down to the parts that are asked about."""

    release: PreparedRelease
    entry: int
    worth: float
    """The ρ that preparing only these parts would have cost, for the same noise."""


def find_prepared(query: Query, family: Family, dataset: OpenDataset) -> StoredPreparation | None:
    """The most precise stored preparation of this query that has all parts of the family."""
    best: tuple[float, Entry, list[int]] | None = None
    for entry in dataset.ledger.history(dataset.name):
        if entry.kind != "prepare" or entry.state != "released":
            continue
        places = _places(query, family, entry, dataset)
        if places is None:
            continue
        parts, of = places
        # Noise grows with √(parts / ρ), so fewer parts could have had the same noise for less.
        worth = entry.rho if len(parts) == of else entry.rho * len(parts) / of
        if best is None or worth > best[0]:
            best = worth, entry, parts
    stored = None if best is None else dataset.ledger.get(dataset.name, best[1].id)
    if best is None or stored is None:
        return None
    release = PreparedRelease.from_json(stored[1]).only(best[2], Groups.of(query, dataset.schema).size)
    return StoredPreparation(release, best[1].id, best[0])


def _places(query: Query, family: Family, entry: Entry, dataset: OpenDataset) -> tuple[list[int], int] | None:
    """Where the family's parts stand among those of a stored preparation, and how many that has."""
    if entry.key == preparation_key(query, family, entry.rho, dataset):
        return list(range(len(family.parts))), len(family.parts)
    asked = entry.request and entry.request.get("family")
    if not asked:  # stored before requests were
        return None
    predicates = asked["predicates"]
    try:
        prepared = dataset.family(
            query,
            asked["attributes"],
            asked["conjuncts"],
            asked["exclude"],
            None if predicates is None else [read(text, dataset.schema) for text in predicates],
        )
    except BadRequest:  # it was about another query, or the schema of that time
        return None
    # The key says whether it is this query's: then the family is what was prepared.
    if entry.key != preparation_key(query, prepared, entry.rho, dataset):
        return None
    place = {json.dumps(part.identity()): number for number, part in enumerate(prepared.parts)}
    found = [place.get(json.dumps(part.identity())) for part in family.parts]
    parts = [number for number in found if number is not None]
    return (parts, len(prepared.parts)) if len(parts) == len(found) else None


def _measure(plan: Preparation, dataset: OpenDataset) -> PreparedRelease:
    dataset.progress(f"Counting {plan.cells:,} cells in one pass")
    true = dataset.marginals(plan.query, plan.family)
    dataset.progress("Adding noise to every cell")
    count = add_gaussian(
        true.map(lambda t: t.count),
        sensitivity=plan.count_sensitivity,
        rho=plan.rho_count,
        noise=dataset.noise,
    )
    total = None
    if plan.rho_total:
        sums = true.map(lambda t: t.total)
        if plan.query.aggregate.kind == "avg":
            assert plan.query.aggregate.column is not None
            grid = dataset.schema.column(plan.query.aggregate.column).grid
            sums = true.map(lambda t: 2 * t.total - (grid.low + grid.high) * t.count)
        total = add_gaussian(
            sums, sensitivity=plan.total_sensitivity, rho=plan.rho_total, noise=dataset.noise
        )
    return PreparedRelease(
        rho=plan.rho,
        cells=tuple(part.cells for part in plan.family.parts),
        noisy_count=count.values,
        count_scale=count.scale,
        noisy_total=None if total is None else total.values * plan.total_unit,
        total_scale=None if total is None else total.scale * plan.total_unit,
        private=dataset.noise.private,
    )


def _centred_means(answer: AnswerRelease) -> list[float] | None:
    """Phase 1's means around the middle of the bounds, of groups that are clearly not empty."""
    if answer.noisy_sum is None or answer.noisy_count is None or answer.count_scale is None:
        return None
    sums, counts = np.array(answer.noisy_sum), np.array(answer.noisy_count)
    clear = counts > 5 * answer.count_scale
    means: list[float] = (sums[clear] / counts[clear]).tolist()
    return means or None
