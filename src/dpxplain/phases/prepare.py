"""Prepares an answer: releases its marginals, which make explanations free.

A row lies in one group and in one cell of each of the t parts, so all groups cost as much as one. The
sensitivity to one row is √t for counts and √t times the largest value for sums (docs/proofs/marginals.md).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from operator import itemgetter
from typing import Any

import numpy as np

from dpxplain.errors import BadRequest, ExplanationError
from dpxplain.explanation.family import Conjunctions, Part, PredicateFamily
from dpxplain.explanation.family_choice import FamilyChoice, eligible_attributes
from dpxplain.model.charge import (
    Charge,
    Entry,
    EntryId,
    Event,
    Request,
    Spend,
    check_rho,
    remainder,
    rho_of_units,
    spend_units,
    spends,
)
from dpxplain.model.groups import Groups
from dpxplain.model.hardening import plain
from dpxplain.model.query import Query, query_shape
from dpxplain.model.release import AnswerRelease, IntArray, PreparedRelease
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import measured_grid, measured_sums
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.calibration import LARGEST_SCALE, gaussian_scale, rounded_up
from dpxplain.privacy.marginals.inference import split_rho
from dpxplain.privacy.mechanisms.noise import add_gaussian
from dpxplain.privacy.sensitivity import count_sensitivity, mean_sum_sensitivity, sum_sensitivity

MOST_CELLS = 2_000_000  # every cell is released, occupied or not
_MOST_CHOICES = 32  # of a family that a stored preparation is compared with


@dataclass(frozen=True)
class Preparation:
    """The cost of preparing an answer and the noise of its cells, from public quantities only."""

    query: Query
    family: PredicateFamily
    rho: float
    rho_count: float
    rho_total: float
    count_sensitivity: float  # rows
    total_sensitivity: float  # grid units; doubled and centred for AVG
    total_unit: float

    @property
    def schema(self) -> Schema:
        return self.family.schema

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends((Event.CELL_COUNTS, self.rho_count), (Event.CELL_SUMS, self.rho_total))

    @property
    def count_scale(self) -> float:
        return gaussian_scale(self.count_sensitivity, self.rho_count)

    @property
    def total_scale(self) -> float | None:
        """σ of a total, in the unit of the column."""
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

    @property
    def shape(self) -> Hashable:
        return query_shape(self.query), self.family.key

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        subject = preparation_subject(self.query, dataset)
        return Charge("prepare", self.key(dataset), request, self.rho, self.spends, subject)

    def read(self, text: str) -> PreparedRelease:
        return PreparedRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> PreparedRelease:
        dataset.progress(f"Counting {self.cells:,} cells in one pass")
        true = dataset.marginals(self.query, self.family)
        dataset.progress("Adding noise to every cell")
        count = add_gaussian(
            true.map(lambda t: t.count),
            sensitivity=self.count_sensitivity,
            rho=self.rho_count,
            noise=dataset.noise,
        )
        total = None
        if self.rho_total:
            sums = measured_sums(true, self.query, dataset.schema)
            total = add_gaussian(
                sums, sensitivity=self.total_sensitivity, rho=self.rho_total, noise=dataset.noise
            )
        return PreparedRelease(
            rho=self.rho,
            cells=tuple(part.cells for part in self.family.parts),
            noisy_count=count.values,
            count_scale=count.scale,
            noisy_total=None if total is None else total.values * self.total_unit,
            total_scale=None if total is None else total.scale * self.total_unit,
            private=dataset.noise.private,
        )


def preparation_subject(query: Query, dataset: OpenDataset) -> str:
    """Identity of the query that preparations belong to, whatever their family and price."""
    return dataset.request_key("subject", query)


def preparation_key(query: Query, family: PredicateFamily, rho: float, dataset: OpenDataset) -> str:
    # ρ as the ledger rounds it, so that the key can be computed from the entry's ρ.
    return dataset.request_key("prepare", query, family.key, rho_of_units(spend_units(rho)))


def plan_preparation(
    query: Query, family: PredicateFamily, answer: AnswerRelease, schema: Schema, rho: float
) -> Preparation:
    """Split ρ between counts and sums by the released answer; reads no data."""
    rho = check_rho(plain(rho))
    overlap = rounded_up(math.sqrt(len(family.parts)))
    privacy, kind = schema.privacy, query.aggregate.explained
    rows = count_sensitivity(privacy.max_rows, privacy.neighbours) * overlap
    if kind == "count":
        plan = Preparation(query, family, rho, rho, 0.0, rows, 0.0, 1.0)
    else:
        grid = measured_grid(query, schema)
        measure = sum_sensitivity if kind == "sum" else mean_sum_sensitivity
        largest = measure(grid.low, grid.high, privacy.max_rows, privacy.neighbours) * overlap
        share = split_rho(kind, _centred_means(answer), grid.range * grid.unit / 2)
        unit = grid.unit if kind == "sum" else grid.unit / 2
        plan = Preparation(query, family, rho, rho * share, remainder(rho, rho * share), rows, largest, unit)
    if plan.cells > MOST_CELLS:
        raise ExplanationError(
            f"Preparing this answer would take {plan.cells:,} noisy numbers (cells). The limit is "
            f"{MOST_CELLS:,}.",
            remedy="Choose fewer attributes or conjuncts, or explain one question at a time.",
        )
    total = gaussian_scale(plan.total_sensitivity, plan.rho_total) if plan.rho_total else 0.0
    if not max(plan.count_scale, total) <= LARGEST_SCALE:
        raise ExplanationError(
            f"rho={rho!r} is too small to prepare an answer.", remedy="Use a larger rho, for example 0.02."
        )
    return plan


@dataclass(frozen=True)
class StoredPreparation:
    """A stored preparation, cut down to the parts that are asked about."""

    release: PreparedRelease
    entry: Entry
    worth: float
    """The ρ that preparing only these parts would have cost, for the same noise."""


class Preparations:
    """The stored preparations of one query: all of them, or only those in `named`.

    Each `find` lists them again, because somebody may have stored a more precise one. The release found last
    is kept, because releases never change and may be large.
    """

    def __init__(self, query: Query, dataset: OpenDataset, named: Sequence[EntryId] | None = None) -> None:
        self._query = query
        self._dataset = dataset
        self.named = named
        self._kept: tuple[Entry, PreparedRelease] | None = None

    @property
    def entries(self) -> list[Entry]:
        """All of them, oldest first, whether named or not."""
        subject = preparation_subject(self._query, self._dataset)
        return self._dataset.ledger.preparations(self._dataset.name, subject)

    def find(self, family: PredicateFamily) -> StoredPreparation | None:
        """The most precise one that may be read and has all parts of the family."""
        candidates = self._candidates(family, self._readable(self.entries))
        if not candidates:
            return None
        worth, entry, prepared = max(candidates, key=itemgetter(0))
        release = self._release(entry)
        if release is None:
            return None
        wanted_parts, numbers = _part_numbers(family), _part_numbers(prepared)
        parts = [numbers[name] for name in wanted_parts]
        orders = {
            number: _cell_order(part, stored_part)
            for number, part in zip(parts, family.parts, strict=True)
            if (stored_part := prepared.parts[number]).columns != part.columns
        }
        groups = Groups.of(self._query, self._dataset.schema).size
        return StoredPreparation(release.only(parts, groups, orders), entry, worth)

    def leaves_out_sharper(self, family: PredicateFamily) -> bool:
        """Whether `find` would return a more precise one if all of them could be read."""
        if self.named is None:
            return False
        entries = self.entries
        best, of_all = (
            max((worth for worth, _, _ in self._candidates(family, some)), default=0.0)
            for some in (self._readable(entries), entries)
        )
        return of_all > best

    def _readable(self, entries: list[Entry]) -> list[Entry]:
        named = self.named
        return entries if named is None else [entry for entry in entries if any(map(entry.is_named, named))]

    def _candidates(
        self, family: PredicateFamily, entries: list[Entry]
    ) -> list[tuple[float, Entry, PredicateFamily]]:
        """Those that have all parts of the family, each with what the family's parts are worth in it."""
        query, dataset, candidates = self._query, self._dataset, []
        wanted_parts = _part_numbers(family)
        for entry in entries:
            prepared = _prepared_family(query, family, entry, dataset)
            if prepared is not None and wanted_parts.keys() <= _part_numbers(prepared).keys():
                # Noise grows with √(parts / ρ), so fewer parts could have had the same noise for less.
                worth = entry.rho * len(family.parts) / len(prepared.parts)
                candidates.append((worth, entry, prepared))
        return candidates

    def _release(self, entry: Entry) -> PreparedRelease | None:
        kept = self._kept
        if kept is not None and kept[0].id == entry.id:
            return kept[1]
        stored = self._dataset.ledger.get(self._dataset.name, entry.id)
        if stored is None:
            return None
        release = PreparedRelease.from_json(stored[1])
        self._kept = entry, release
        return release


def _prepared_family(
    query: Query, family: PredicateFamily, entry: Entry, dataset: OpenDataset
) -> PredicateFamily | None:
    """The family that an entry prepared, if it belongs to this query under these declarations."""
    if entry.key == preparation_key(query, family, entry.rho, dataset):
        return family
    if entry.request is None:
        return None
    for choice in islice(_earlier_choices(entry.request["family"], query, dataset.schema), _MOST_CHOICES):
        try:
            prepared = dataset.family(query, choice)
        except BadRequest:  # it is for another query, or for an earlier schema
            continue
        if entry.key == preparation_key(query, prepared, entry.rho, dataset):
            return prepared
    return None


def _earlier_choices(body: Mapping[str, Any], query: Query, schema: Schema) -> Iterator[FamilyChoice]:
    """The choice of a request by the present schema, then as it was before columns were discovered.

    A choice without named attributes means all columns, and a discovery adds one to them.
    """
    try:
        choice = FamilyChoice.from_request(body, schema)
    except BadRequest:
        return
    yield choice
    if choice.attributes is not None or choice.predicates is not None:
        return
    eligible = eligible_attributes(schema, query)
    discovered = [name for name in schema.discovered if name in eligible and name not in choice.exclude]
    for number in range(len(discovered), 0, -1):
        for unknown in combinations(discovered, number):
            yield replace(choice, exclude=(*choice.exclude, *unknown))


def _part_numbers(family: PredicateFamily) -> dict[object, int]:
    """The position of each part, by its set of columns or by its conditions."""
    return {
        frozenset(part.columns) if isinstance(part, Conjunctions) else identity: number
        for number, (part, identity) in enumerate(zip(family.parts, family.positions, strict=True))
    }


def _cell_order(part: Part, prepared: Part) -> IntArray:
    """Positions of a part's cells in a preparation that names its columns in another order.

    Columns are named in the schema's order, which the curator may have changed since.
    """
    assert isinstance(part, Conjunctions)
    assert isinstance(prepared, Conjunctions)
    declared: IntArray = np.arange(prepared.size).reshape(prepared.shape)
    axes = [prepared.columns.index(name) for name in part.columns]
    return np.append(declared.transpose(axes).ravel(), prepared.size)


def _centred_means(answer: AnswerRelease) -> list[float] | None:
    """Phase 1's means relative to the middle of the bounds, for groups that are clearly not empty."""
    if answer.noisy_sum is None or answer.noisy_count is None or answer.count_scale is None:
        return None
    sums, counts = np.array(answer.noisy_sum), np.array(answer.noisy_count)
    clear = counts > 5 * answer.count_scale
    means: list[float] = (sums[clear] / counts[clear]).tolist()
    return means or None
