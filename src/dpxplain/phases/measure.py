"""Measures data quality, histograms from which bounds are chosen, and the values of a column.

Each is measured once, with privacy, and stored. Everything read from it later is free.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpxplain.errors import BadRequest, InternalError
from dpxplain.ledger.protocol import LedgerView, exhausted_delta
from dpxplain.model.charge import Charge, Event, Request, Spend, check_rho, remainder, spends
from dpxplain.model.column import DiscoveryRelease
from dpxplain.model.confidential import Confidential
from dpxplain.model.hardening import did_you_mean, plain_number
from dpxplain.model.process import cached_property
from dpxplain.model.release import Released
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import (
    FitCounts,
    FitQuestion,
    Partition,
    QualityRelease,
    TuningRelease,
    declares_null,
    partitions,
    tuned_pairs,
    tuned_sizes,
    unit_sizes,
)
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.calibration import LARGEST_SCALE, gaussian_scale, two_sided_quantile
from dpxplain.privacy.intervals import Interval, NoisyCount, bin_bounds, pooled_total, share_interval
from dpxplain.privacy.mechanisms.noise import NoisyValues, add_gaussian, threshold_for, values_above
from dpxplain.privacy.sensitivity import count_sensitivity, fit_sensitivity

_UNITS_SHARE = 0.1  # of ρ; one unit changes its own count by 1, but counts of rows by up to max_rows

# -- Quality -----------------------------------------------------------------------------------------------
#
# Private counts of the rows that are NULL, capped or left out. Every later answer then says how much of the
# data its declarations touch. The sensitivities are proved in docs/proofs/quality.md.


@dataclass(frozen=True)
class QualityPlan:
    """The cost and noise of the counts, from public quantities only."""

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
        rows = _noisy_rows(self, counts, dataset)
        units = _noisy_units(self, counts, dataset) if self.rho_units else None
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


def _noisy_rows(
    plan: QualityPlan | TuningPlan, counts: Confidential[FitCounts], dataset: OpenDataset
) -> NoisyValues:
    rows = counts.map(lambda c: c.rows)
    return add_gaussian(rows, sensitivity=plan.rows_sensitivity, rho=plan.rho_rows, noise=dataset.noise)


def _noisy_units(
    plan: QualityPlan | TuningPlan, counts: Confidential[FitCounts], dataset: OpenDataset
) -> NoisyValues:
    units = counts.map(lambda c: c.units)
    return add_gaussian(units, sensitivity=plan.units_sensitivity, rho=plan.rho_units, noise=dataset.noise)


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


def read_quality(dataset: OpenDataset) -> QualityReading | None:
    """The reading of the newest stored quality; None if there is none under these declarations. Free.

    A server looks it up once per request. A session does so for each result that it shows, because somebody
    may have bought the quality meanwhile.
    """
    readings = {} if dataset.quality_readings is None else dataset.quality_readings
    joined = tuple(dataset.schema.joined)
    if joined not in readings:
        bought = find_quality(dataset)
        readings[joined] = None if bought is None else QualityReading(*bought, confidence=0.95)
    reading: QualityReading | None = readings[joined]
    return reading


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


# -- Tuning ------------------------------------------------------------------------------------------------
#
# Private histograms from which the bounds of columns and max_rows are chosen (docs/proofs/tuning.md).

TUNING = "tune"


@dataclass(frozen=True)
class TuningPlan:
    """The cost and noise of the histograms, from public quantities only."""

    columns: tuple[str, ...]
    rho: float
    rho_rows: float
    rho_units: float
    schema: Schema = field(compare=False, repr=False)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends((Event.BINS, self.rho_rows), (Event.UNIT_COUNTS, self.rho_units))

    @cached_property
    def asked(self) -> FitQuestion:
        return FitQuestion.of_tuning(self.schema, self.columns)

    @property
    def rows_sensitivity(self) -> float:
        """A row is in at most one bin of each column (docs/proofs/tuning.md, theorem 1)."""
        privacy = self.schema.privacy
        return fit_sensitivity(len(self.columns), privacy.max_rows, privacy.neighbours)

    @property
    def units_sensitivity(self) -> float:
        return count_sensitivity(1, self.schema.privacy.neighbours)

    @property
    def bins_scale(self) -> float | None:
        return gaussian_scale(self.rows_sensitivity, self.rho_rows) if self.columns else None

    @property
    def units_scale(self) -> float | None:
        return gaussian_scale(self.units_sensitivity, self.rho_units) if self.asked.sizes else None

    def key(self, dataset: OpenDataset) -> str:
        return dataset.request_key(TUNING, self.rho, *self.columns)

    @property
    def shape(self) -> Hashable:
        return self.columns

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge(TUNING, self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> TuningRelease:
        return TuningRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> TuningRelease:
        dataset.progress("Counting where the values lie")
        counts = dataset.fit(self.asked)
        bins: tuple[tuple[float, ...], ...] = ()
        units: tuple[float, ...] = ()
        if self.columns:
            rows = _noisy_rows(self, counts, dataset)
            ends = np.cumsum([len(part.categories) for part in self.asked.partitions])[:-1]
            bins = tuple(tuple(part.tolist()) for part in np.split(rows.values, ends))
        if self.asked.sizes:
            units = tuple(_noisy_units(self, counts, dataset).values.tolist())
        return TuningRelease(
            rho=self.rho,
            columns=self.columns,
            noisy_bins=bins,
            bin_edges=tuple(part.edges for part in self.asked.partitions),
            bins_scale=self.bins_scale,
            noisy_units=units,
            unit_sizes=self.asked.sizes,
            units_scale=self.units_scale,
            private=dataset.noise.private,
        )


def plan_tuning(schema: Schema, rho: float, columns: Sequence[str] = ()) -> TuningPlan:
    """Splits ρ, or refuses what cannot be tuned; reads no data. By default for all columns with bounds."""
    rho = check_rho(rho)
    chosen = _named_columns(schema, columns) or _bounded_columns(schema)
    has_units = bool(tuned_sizes(schema))
    if not chosen and not has_units:
        raise BadRequest(
            "There is nothing to tune: no bounds can be made narrower, and max_rows cannot be lowered.",
            remedy="Declare generous bounds for a numeric column from public knowledge. Tuning then makes "
            "them narrower. Or name a column with numeric edges. Tuning then chooses among these edges.",
        )
    of_units = 0.0 if not has_units else rho * _UNITS_SHARE if chosen else rho
    plan = TuningPlan(chosen, rho, remainder(rho, of_units) if chosen else 0.0, of_units, schema)
    scales = (plan.bins_scale, plan.units_scale)
    if not all(scale <= LARGEST_SCALE for scale in scales if scale is not None):
        raise BadRequest(f"rho={rho!r} is too small to measure anything.", remedy="Use a larger rho.")
    return plan


def _bounded_columns(schema: Schema) -> tuple[str, ...]:
    """The numeric columns whose bounds may become narrower.

    Expressions are left out, because their bounds follow from other columns.
    """
    return tuple(
        name
        for name, column in schema.columns.items()
        if column.is_summable and column.expression is None and len(tuned_pairs(column)) > 1
    )


def _named_columns(schema: Schema, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns asked for, in the order of the schema: one release for any order."""
    is_list = isinstance(columns, Sequence) and not isinstance(columns, str)
    if not is_list or not all(isinstance(name, str) for name in columns):
        raise BadRequest(
            "columns must be a list of column names.",
            remedy='Write columns=["pay"], or leave it out for all columns with bounds.',
        )
    for name in columns:
        _check_column(schema, name)
    return tuple(name for name in schema.columns if name in columns)


def _check_column(schema: Schema, name: str) -> None:
    if name not in schema.columns:
        raise BadRequest(
            f"{name!r} is not a declared column.",
            remedy=did_you_mean(name, schema.columns) or "Name a column with bounds or numeric edges.",
        )
    column = schema.column(name)
    if column.expression is not None:
        raise BadRequest(
            f"The bounds of {name} follow from its expression, so they cannot be tuned.",
            remedy="Tune the columns that the expression uses.",
        )
    if column.is_temporal or (column.bounds is None and column.edges is None):
        raise BadRequest(
            f"{name} has no numeric bounds or edges to tune.",
            remedy="Name a column with bounds or numeric edges. Only numbers are capped.",
        )
    if len(tuned_pairs(column)) == 1:
        raise BadRequest(
            f"The bounds or edges of {name} cannot be narrowed: no round number lies between them.",
            remedy="`quality` shows the share of values beyond them.",
        )


# -- Discovery ---------------------------------------------------------------------------------------------
#
# Finds those values of a column that enough privacy units have (docs/proofs/discovery.md). A column is
# discovered once for each version of the data; afterwards its values are part of the schema. The declared
# δ bounds what all discoveries spend together; the ledger checks it when it charges.

DISCOVERY = "discover"


@dataclass(frozen=True)
class DiscoveryPlan:
    """The cost of a discovery and the threshold of its counts, from public quantities only."""

    column: str
    rho: float
    delta: float
    changes: int
    """How many counts one privacy unit may change, by 1 each."""
    schema: Schema = field(compare=False, repr=False)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends((Event.VALUES, self.rho))

    @property
    def threshold(self) -> int:
        """A value is found if its noisy number of units exceeds this."""
        return threshold_for(self.changes, self.rho, self.delta).least

    @property
    def scale(self) -> float:
        return threshold_for(self.changes, self.rho, self.delta).scale

    def key(self, dataset: OpenDataset) -> str:
        return _latest_discovery(self.schema, self.column, dataset.ledger, dataset.seed)[0]

    @property
    def shape(self) -> Hashable:
        return self.column

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge(DISCOVERY, self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> DiscoveryRelease:
        return DiscoveryRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> DiscoveryRelease:
        dataset.progress(f"Discovering the values of {self.column}")
        counts = dataset.value_counts(self.column, self.schema.unknown[self.column].longest)
        frequent = values_above(
            counts, changes=self.changes, rho=self.rho, delta=self.delta, noise=dataset.noise
        )
        self._check_schema(frequent.values)
        return DiscoveryRelease(
            rho=self.rho,
            delta=self.delta,
            values=frequent.values,
            noisy_units=frequent.counts,
            threshold=self.threshold,
            scale=self.scale,
            private=dataset.noise.private,
        )

    def _check_schema(self, values: tuple[str, ...]) -> None:
        """Refuses to store values that a schema would lose when it is written and read again.

        This depends only on values to be released, so an error tells no more than the release would.
        """
        if not values:
            return
        schema = self.schema.with_discovered({self.column: values})
        written = json.loads(json.dumps(schema.model_dump(mode="json", exclude_defaults=True)))
        if Schema.load(written).domain(self.column) != values:
            raise InternalError("The discovered values do not fit into a schema.")


def plan_discovery(dataset: OpenDataset, column: str, rho: float, delta: float | None) -> DiscoveryPlan:
    """Plans a discovery, or refuses it; reads no data. By default columns share the declared δ evenly."""
    schema, rho = dataset.schema, check_rho(rho)
    if column not in schema.unknown:
        is_known = column in schema.columns
        problem = f"{column} has declared values." if is_known else f"{column!r} is not a declared column."
        near = did_you_mean(column, schema.unknown)
        remedy = 'Only columns with values = "discover" can be discovered.' if is_known or not near else near
        raise BadRequest(problem, remedy=remedy)
    declared = schema.privacy.delta
    share = even_share(schema) if delta is None else plain_number(delta)
    if share is None or not 0 < share <= declared:
        raise BadRequest(
            f"delta must be above 0 and at most the declared {declared:g}.", remedy="Leave out delta."
        )
    plan = DiscoveryPlan(column, rho, share, dataset.row_changes, schema)
    try:
        plan.threshold  # noqa: B018 - computed before anything is charged
    except InternalError:
        raise BadRequest(
            f"delta={share:g} is too small for a discovery.", remedy="Leave out delta."
        ) from None
    return plan


def even_share(schema: Schema) -> float:
    """The share of the declared δ for each column to be discovered, rounded down so that all shares fit."""
    return math.nextafter(schema.privacy.delta / len(schema.unknown), 0.0)


def check_share(dataset: OpenDataset, plan: DiscoveryPlan) -> None:
    """Refuses a δ that, with the column's earlier charges, exceeds its even share."""
    spent = dataset.ledger.spent_delta(dataset.name, plan.column, besides=plan.key(dataset))
    if math.fsum((spent, plan.delta)) > even_share(dataset.schema):
        raise BadRequest(
            f"{plan.column} may spend at most δ = {even_share(dataset.schema):g}, its share of the declared "
            "δ. This request would exceed it.",
            remedy="Leave out delta, or use a smaller one. Only the curator may use the shares of other "
            "columns.",
        )


def check_delta(dataset: OpenDataset, plan: DiscoveryPlan) -> None:
    """Refuses a discovery that the declared δ has no room for; a charge that it takes over does not count."""
    spent = dataset.ledger.spent_delta(dataset.name, besides=plan.key(dataset))
    declared = dataset.schema.privacy.delta
    if math.fsum((spent, plan.delta)) > declared:
        raise exhausted_delta(declared)


def discovery_key(schema: Schema, column: str, seed: int | None, attempt: int = 0) -> str:
    """Identity of a column's discovery, which does not depend on how other columns are declared."""
    table, privacy = schema.table, schema.privacy
    unit = [privacy.unit, privacy.max_rows, privacy.neighbours]
    longest = schema.unknown[column].longest
    parts = [DISCOVERY, table.name, table.version, unit, column, longest, seed, attempt]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def is_discovered_since(schema: Schema, ledger: LedgerView) -> bool:
    """Whether the values of a column were discovered after the schema was opened. Free."""
    return any(known_values(schema, name, ledger) for name in schema.unknown if name not in schema.columns)


def with_discovered(schema: Schema, ledger: LedgerView, seed: int | None = None) -> Schema:
    """The schema with the values of columns that were discovered before. Free, and reads no data."""
    discovered = {name: known_values(schema, name, ledger, seed) for name in schema.unknown}
    return schema.with_discovered(discovered) if any(discovered.values()) else schema


def known_values(schema: Schema, column: str, ledger: LedgerView, seed: int | None = None) -> tuple[str, ...]:
    """The values that a discovery of the column found; empty if none has found any."""
    return _latest_discovery(schema, column, ledger, seed)[1]


def _latest_discovery(
    schema: Schema, column: str, ledger: LedgerView, seed: int | None
) -> tuple[str, tuple[str, ...]]:
    """The key and values of the discovery that found some; or else the key of the next attempt.

    The ledger releases at most one discovery per key, so everybody has the same values. Each attempt is made
    only after the one before it was stored, so the last one can be found by bisection. That matters because
    every request looks it up, and many attempts may have found nothing.
    """

    def stored(attempt: int) -> tuple[str, ...] | None:
        release = ledger.discovered(schema.table.name, discovery_key(schema, column, seed, attempt))
        return None if release is None else DiscoveryRelease.from_json(release[1]).values

    attempt, values = 0, stored(0)
    if values == ():
        beyond = next(2**power for power in itertools.count() if stored(2**power) is None)
        attempt = bisect_left(range(beyond), True, lo=beyond // 2 + 1, key=lambda n: stored(n) is None)
        if values := stored(attempt - 1):
            attempt -= 1
    return discovery_key(schema, column, seed, attempt), values or ()
