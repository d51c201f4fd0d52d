"""Measures data quality: private counts of the rows that are NULL, capped or left out.

Measured once and stored. Every later answer then says how much of the data its declarations touch. The
sensitivities are proved in docs/proofs/quality.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from dpxplain.errors import BadRequest
from dpxplain.model.budget import check_rho, remainder
from dpxplain.model.charge import Charge, Event, Request, Spend, spends
from dpxplain.model.release import Released
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import (
    FitQuestion,
    Partition,
    QualityRelease,
    declares_null,
    partitions,
    unit_sizes,
)
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.aggregate_intervals import NoisyCount, bin_bounds, pooled_total, share_interval
from dpxplain.privacy.calibration import LARGEST_SCALE, gaussian_scale, two_sided_quantile
from dpxplain.privacy.intervals import Interval
from dpxplain.privacy.mechanisms.gaussian import add_gaussian
from dpxplain.privacy.sensitivity import count_sensitivity, fit_sensitivity

_UNITS_SHARE = 0.1  # of ρ; one unit changes its own count by 1, but counts of rows by up to max_rows


@dataclass(frozen=True)
class QualityPlan:
    """What the counts will cost and how noisy they will be, from public quantities only."""

    rho: float
    rho_rows: float
    rho_units: float
    rows_sensitivity: float
    units_sensitivity: float
    discovered: tuple[str, ...]
    """The discovered columns that are counted beside the declared ones."""
    schema: Schema = field(compare=False, repr=False)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends((Event.FIT_COUNTS, self.rho_rows), (Event.UNIT_COUNTS, self.rho_units))

    @property
    def rows_scale(self) -> float:
        return gaussian_scale(self.rows_sensitivity, self.rho_rows)

    @property
    def units_scale(self) -> float | None:
        return gaussian_scale(self.units_sensitivity, self.rho_units) if self.rho_units else None

    def key(self, dataset: OpenDataset) -> str:
        """Identity of the request, with the discovered columns, which the declarations' hash leaves out."""
        return dataset.request_key("quality", self.rho, *self.discovered)

    @property
    def shape(self) -> Hashable:
        return self.discovered

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge("quality", self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> QualityRelease:
        return QualityRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> QualityRelease:
        dataset.progress("Counting what fits the declarations")
        counts = dataset.fit(FitQuestion.of_quality(self.schema, self.discovered))
        rows = add_gaussian(
            counts.map(lambda c: c.rows),
            sensitivity=self.rows_sensitivity,
            rho=self.rho_rows,
            noise=dataset.noise,
        )
        units = None
        if self.rho_units:
            units = add_gaussian(
                counts.map(lambda c: c.units),
                sensitivity=self.units_sensitivity,
                rho=self.rho_units,
                noise=dataset.noise,
            )
        return QualityRelease(
            rho=self.rho,
            noisy_rows=tuple(rows.values.tolist()),
            rows_scale=rows.scale,
            noisy_units=() if units is None else tuple(units.values.tolist()),
            units_scale=None if units is None else units.scale,
            private=dataset.noise.private,
            discovered=self.discovered,
            nulls_apart=any(
                declares_null(self.schema.column(part.column))
                for part in partitions(self.schema, self.discovered)
            ),
        )


def plan_quality(schema: Schema, rho: float, discovered: Sequence[str] | None = None) -> QualityPlan:
    """Split ρ between the counts of rows and of units; reads no data.

    `discovered` are the discovered columns to count; by default all that the schema has.
    """
    rho, privacy = check_rho(rho), schema.privacy
    columns = tuple(schema.discovered if discovered is None else discovered)
    parts = partitions(schema, columns)
    of_units = rho * _UNITS_SHARE if unit_sizes(schema) else 0.0
    plan = QualityPlan(
        rho=rho,
        rho_rows=remainder(rho, of_units),
        rho_units=of_units,
        rows_sensitivity=fit_sensitivity(len(parts), privacy.max_rows, privacy.neighbours),
        units_sensitivity=count_sensitivity(1, privacy.neighbours),
        discovered=columns,
        schema=schema,
    )
    if not gaussian_scale(plan.rows_sensitivity, rho * _UNITS_SHARE) <= LARGEST_SCALE:
        raise BadRequest(f"rho={rho!r} is too small to measure anything.", remedy="Use a larger rho.")
    return plan


def find_quality(dataset: OpenDataset) -> tuple[QualityPlan, Released[QualityRelease]] | None:
    """The latest stored quality, with its plan; None if there is none under these declarations. Free.

    It does not count columns that were discovered since; the counts of the others stay right.
    """
    entry = dataset.ledger.latest(dataset.name, "quality")
    stored = None if entry is None else dataset.ledger.get(dataset.name, entry.id)
    if stored is None:
        return None
    release = QualityRelease.from_json(stored[1])
    if not set(release.discovered) <= dataset.schema.columns.keys():
        return None  # discovered after this data set was opened
    plan = plan_quality(dataset.schema, release.rho, release.discovered)
    return (plan, Released(release, stored[0], free=True)) if plan.key(dataset) == stored[0].key else None


class QualityReading:
    """How much of the data each declaration touches, according to a stored quality. Reads no data."""

    def __init__(self, plan: QualityPlan, released: Released[QualityRelease], confidence: float) -> None:
        self.plan = plan
        self.release = released.value
        self.id = released.entry.id
        self.confidence = confidence
        self._partitions = partitions(plan.schema, plan.discovered)
        self._counts = _by_category(self._partitions, self.release)
        self._total = pooled_total([list(counts.values()) for counts in self._counts.values()])

    @property
    def schema(self) -> Schema:
        """The curator's schema, which is public."""
        return self.plan.schema

    def covers(self, column: str) -> bool:
        """Whether the column's rows were counted. A column that was discovered later is not covered."""
        return any(name == column for name, _ in self._counts)

    def share(self, column: str, domain: str, category: str) -> Interval:
        """The share of rows in a category of `model.schema_fit.Partition`."""
        return share_interval(self._counts[column, domain][category], self._total, self.confidence)

    def most_left_out(self, column: str, domain: str) -> float:
        """The most rows that are in no group of this column."""
        kept = {"fits", "null"} if declares_null(self.schema.column(column)) else {"fits"}
        counts = [count for category, count in self._counts[column, domain].items() if category not in kept]
        together = sum(count.value for count in counts)
        scale = math.sqrt(len(counts)) * self.release.rows_scale
        return max(0.0, together + two_sided_quantile(self.confidence) * scale)

    @property
    def units_above(self) -> Interval:
        """The share of privacy units with more than max_rows rows; (0, 0) if a row is the unit."""
        units = self._units()
        if not units:
            return 0.0, 0.0
        above = NoisyCount(sum(unit.value for unit in units[1:]), math.sqrt(len(units) - 1) * units[0].scale)
        return share_interval(above, pooled_total([units]), self.confidence)

    @property
    def rows_lost(self) -> Interval:
        """How many rows are beyond max_rows. The upper end is infinite if a unit may exceed the last size."""
        units, sizes = self._units(), unit_sizes(self.schema)
        if not units:
            return 0.0, 0.0
        counts = bin_bounds(units[1:], self.confidence)
        most = sizes[0]
        ends = zip(sizes, (*sizes[1:], math.inf), counts, strict=True)
        lost = [
            ((low + 1 - most) * few, (high - most) * many if many else 0.0) for low, high, (few, many) in ends
        ]
        return sum(low for low, _ in lost), sum(high for _, high in lost)

    def _units(self) -> list[NoisyCount]:
        scale = self.release.units_scale
        return [] if scale is None else [NoisyCount(value, scale) for value in self.release.noisy_units]


def read_quality(dataset: OpenDataset, confidence: float = 0.95) -> QualityReading | None:
    """What the quality that was measured last says; None if there is none under these declarations. Free."""
    bought = find_quality(dataset)
    return None if bought is None else QualityReading(*bought, confidence)


def _by_category(
    parts: Sequence[Partition], release: QualityRelease
) -> dict[tuple[str, str], dict[str, NoisyCount]]:
    """The counts by column and domain, then by category."""
    values = iter(release.noisy_rows)
    return {
        (part.column, part.domain): {
            category: NoisyCount(next(values), release.rows_scale) for category in part.categories
        }
        for part in parts
    }
