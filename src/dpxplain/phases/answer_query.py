"""Phase 1: a noisy answer for every declared group (docs/specification.md, answers)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import BadRequest
from dpxplain.explanation.influence import Totals
from dpxplain.model.charge import UNITS_PER_RHO, Charge, Event, Request, Spend, apportion, check_rho
from dpxplain.model.column import Grid
from dpxplain.model.confidential import Confidential
from dpxplain.model.groups import BIN, Groups
from dpxplain.model.process import cached_property
from dpxplain.model.query import VARIANCES, Aggregate, Histogram, Query, query_shape
from dpxplain.model.release import AnswerRelease, AnswersRelease, FloatArray, Noise
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.calibration import LARGEST_SCALE
from dpxplain.privacy.intervals import bin_number
from dpxplain.privacy.mechanisms.noise import add_gaussian
from dpxplain.privacy.shared_measurement import (
    AskedColumn,
    CountPrecision,
    MeasuredBlock,
    Measurement,
    RhoShares,
    allocate,
    bins_block,
    centred_block,
    persons_block,
    rows_block,
    squares_block,
    total_block,
    values_block,
)

# -- Shared measurement ------------------------------------------------------------------------------------
#
# The parts measured for the aggregates of one SELECT, and how each aggregate is computed from them. COUNT(*),
# COUNT(x), SUM(x) and AVG(x) share one noisy count of rows and, per column, one noisy count of values, one of
# NULLs and one centred sum (docs/proofs/shared-measurement.md, docs/adr/0016).

# Assumed means, as squared distances from the middle of the bounds in units of half the range: half-way out
# if nothing is known, at a bound in the worst case, and a quarter away from a declared center.
_TYPICAL, _WORST, _AROUND_CENTER = 0.25, 1.0, 0.0625

_EVENTS = {"rows": Event.COUNTS, "values": Event.COUNTS, "centred": Event.SUMS, "total": Event.SUMS}
_EVENTS |= {"squares": Event.SQUARES, "persons": Event.PERSONS, "bins": Event.BINS}

Weights = Mapping[str, float]


@dataclass(frozen=True)
class Readout:
    """How an aggregate is computed from the measured parts: weighted sums for its count, sum and squares."""

    count: Weights | None
    total: Weights | None
    squares: Weights | None = None


@dataclass(frozen=True)
class ExpectedNoise:
    """The σ of an aggregate's count, sum and squares, in the unit of the column."""

    query: Query
    count_scale: float | None
    sum_scale: float | None
    squares_scale: float | None = None


@dataclass(frozen=True)
class SharedMeasurement:
    """One measurement for all aggregates of a SELECT, from public quantities only."""

    queries: tuple[Query, ...]
    rho: float
    schema: Schema

    @cached_property
    def _kinds(self) -> Mapping[str, set[str]]:
        """The aggregates asked of each column."""
        kinds: dict[str, set[str]] = {}
        for aggregate in (query.aggregate for query in self.queries):
            if aggregate.column is not None:
                kinds.setdefault(aggregate.column, set()).add(aggregate.kind)
        return kinds

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        """The aggregated columns, each once; a quantile has a measurement of its own."""
        return tuple(column for column, kinds in self._kinds.items() if kinds != {"quantile"})

    @cached_property
    def _counts_rows(self) -> bool:
        return Aggregate("count") in (query.aggregate for query in self.queries)

    def _is_direct(self, column: str) -> bool:
        """Whether the column's SUM shares nothing with other aggregates, and so is measured directly."""
        return self._kinds[column] == {"sum"} and not self._counts_rows

    @cached_property
    def _shares(self) -> RhoShares:
        if not self._columns and not self._counts_rows:
            return RhoShares(0.0, (), (), ())
        columns = tuple(
            AskedColumn(
                is_counted="count" in self._kinds[name],
                offsets=self._offsets(name),
                is_direct=self._is_direct(name),
                is_squared=not self._kinds[name].isdisjoint(VARIANCES),
            )
            for name in self._columns
        )
        return allocate(columns, counts_rows=self._counts_rows)

    def _offsets(self, column: str) -> tuple[float, ...]:
        kinds = self._kinds[column]
        if self._is_direct(column):
            return (0.0,)
        if not kinds & {"sum", "avg"}:
            return ()
        grid = self.schema.column(column).grid
        middle = (grid.low + grid.high) / grid.range
        return (
            *((middle**2,) if "sum" in kinds else ()),
            *((self._mean_offset(column),) if "avg" in kinds else ()),
        )

    def _mean_offset(self, column: str) -> float:
        """The squared offset of the declared center; without one, a typical offset or the worst one."""
        declared = self.schema.column(column)
        if declared.center is not None and declared.bounds is not None:
            low, high = map(float, declared.bounds)
            return ((2 * declared.center - low - high) / (high - low)) ** 2 + _AROUND_CENTER
        return _WORST if len(self.queries) == 1 else _TYPICAL

    @cached_property
    def measurement(self) -> Measurement:
        privacy, shares = self.schema.privacy, self._shares
        # Persons and bins share no part with other aggregates: each of K gets 1/K of ρ, which is optimal.
        persons = tuple(query for query in self.queries if query.aggregate.kind == "persons")
        binned = [query.aggregate.column for query in self.queries if query.aggregate.kind == "quantile"]
        others = 1.0 - (len(persons) + len(binned)) / len(self.queries)
        rows = (rows_block(shares.rows * others),) if self._counts_rows else ()
        split = ((share * others for share in part) for part in (shares.counts, shares.sums, shares.squares))
        blocks = (*rows, *map(self._block, self._columns, *split))
        for query in persons:
            groups = min(privacy.max_rows, Groups.of(query, self.schema).size)
            blocks = (*blocks, persons_block(privacy.unit, groups, 1.0 / len(self.queries)))
        for column in dict.fromkeys(binned):
            blocks = (*blocks, bins_block(str(column), binned.count(column) / len(self.queries)))
        return Measurement(blocks, self.rho, privacy.max_rows, privacy.neighbours)

    def _block(self, column: str, count_share: float, sum_share: float, square_share: float) -> MeasuredBlock:
        if not sum_share:
            return values_block(column, count_share, counts_nulls=self._counts_rows)
        grid = self.schema.column(column).grid
        if self._is_direct(column):
            return total_block(column, grid.low, grid.high, grid.unit, sum_share)
        centred = centred_block(
            column, grid.low, grid.high, grid.unit, count_share, sum_share, counts_nulls=self._counts_rows
        )
        if not square_share:
            return centred
        return squares_block(centred, column, grid.square_reach, grid.square_unit, square_share)

    @property
    def spends(self) -> tuple[Spend, ...]:
        """The parts' shares of ρ; NULLs are not listed, because counting them too costs nothing more."""
        several = len(self.queries) > 1
        parts = [part for part in self.measurement.parts if part.kind != "nulls"]
        amounts = apportion(self.rho, [part.share for part in parts])
        return tuple(
            Spend(_EVENTS[part.kind], rho, of=(part.column or "COUNT(*)") if several else "")
            for part, rho in zip(parts, amounts, strict=True)
        )

    @cached_property
    def _scales(self) -> Mapping[str, float]:
        """σ of every part in the unit of its column."""
        return {part.name: self.measurement.scale(part) * part.unit for part in self.measurement.parts}

    def expected_noise(self, query: Query) -> ExpectedNoise:
        if query.aggregate.kind == "quantile":
            return ExpectedNoise(query, None, None)
        readout = self._readout(query.aggregate, self._precision(self._scales))
        parts = (readout.count, readout.total, readout.squares)
        scales = (None if weights is None else _deviation(weights, self._scales) for weights in parts)
        return ExpectedNoise(query, *scales)

    def measure(self, dataset: OpenDataset) -> tuple[AnswerRelease, ...]:
        """Reads the data and draws the noise: one release per query, in their order."""
        dataset.progress("Counting the groups")
        self.measurement.check()
        true = self._true_parts(dataset)
        noisy = {
            part.name: add_gaussian(
                true[part.name],
                sensitivity=self.measurement.sensitivity(part),
                rho=self.measurement.rhos[part.name],
                noise=dataset.noise,
            )
            for part in self.measurement.parts
        }
        values = {part.name: noisy[part.name].values * part.unit for part in self.measurement.parts}
        scales = {part.name: noisy[part.name].scale * part.unit for part in self.measurement.parts}
        precision, private = self._precision(scales), dataset.noise.private
        return tuple(self._release(query, values, scales, precision, private) for query in self.queries)

    def _true_parts(self, dataset: OpenDataset) -> dict[str, Confidential[NDArray[np.int64]]]:
        parts: dict[str, Confidential[NDArray[np.int64]]] = {}
        if self._counts_rows:
            rows = dataset.totals(self._query_of(None)).map(lambda t: t.count)
            parts["rows"] = rows
        for query in self.queries:
            if query.aggregate.kind == "persons":
                counted = dataset.totals(query).map(lambda t: t.count)
                parts[f"persons {self.schema.privacy.unit}"] = counted
            elif query.aggregate.kind == "quantile":
                column = str(query.aggregate.column)
                name, aggregate, edges = self._bins(column)
                binned = replace(query, aggregate=aggregate)
                parts[f"bins {column}"] = dataset.histogram(binned, name, len(edges) - 1)
        for column in self._columns:
            totals = dataset.totals(self._query_of(column))
            parts[f"values {column}"] = totals.map(lambda t: t.count)
            parts[f"total {column}"] = totals.map(lambda t: t.total)
            if self._kinds[column] - {"count", "quantile"}:
                parts[f"centred {column}"] = centred_sums(totals, self.schema.column(column).grid)
            if self._kinds[column] & {*VARIANCES}:
                squared = dataset.totals(replace(self.queries[0], aggregate=Aggregate("var_pop", column)))
                reach = self.schema.column(column).grid.square_reach
                parts[f"squares {column}"] = squared.map(partial(_centred_squares, reach))
            if self._counts_rows:
                parts[f"nulls {column}"] = rows.zip(parts[f"values {column}"]).map(lambda p: p[0] - p[1])
        return parts

    def _bins(self, column: str) -> tuple[str, Aggregate, tuple[float, ...]]:
        """The name under which bins are read, the aggregate that reads them, and their edges."""
        declared = self.schema.column(column)
        if not declared.is_summable:
            return column, Aggregate("count"), tuple(declared.edges or ())
        grid, privacy = declared.grid, self.schema.privacy
        width = -(-(grid.range + 1) // bin_number(self.rho, privacy.max_rows))
        ends = range(grid.low + width - 1, grid.high, width)
        edges = (grid.low, *ends, grid.high)
        return BIN, Histogram("quantile", column, width), tuple(edge * grid.unit for edge in edges)

    def _query_of(self, column: str | None) -> Query:
        """The query whose pass counts and adds up the column's values; an asked one, if possible."""
        queries = [
            query
            for query in self.queries
            if query.aggregate.column == column and query.aggregate.kind not in ("persons", "quantile")
        ]
        summed = [query for query in queries if query.aggregate.kind in ("sum", "avg")]
        if summed or all(query.aggregate.kind == "count" for query in queries):
            return [*summed, *queries][0]
        return replace(queries[0], aggregate=Aggregate("avg", column))

    def _release(
        self,
        query: Query,
        values: Mapping[str, FloatArray],
        scales: Mapping[str, float],
        precision: CountPrecision | None,
        private: bool,
    ) -> AnswerRelease:
        if query.aggregate.kind == "quantile":
            name, edges = f"bins {query.aggregate.column}", self._bins(str(query.aggregate.column))[2]
            return AnswerRelease(
                rho=self.rho,
                noisy_count=None,
                count_scale=None,
                noisy_sum=None,
                sum_scale=None,
                private=private,
                noisy_bins=tuple(values[name].tolist()),
                bins_scale=scales[name],
                bin_edges=edges,
            )
        readout, several = self._readout(query.aggregate, precision), len(self.queries) > 1

        def read(weights: Weights | None) -> tuple[tuple[float, ...] | None, float | None, Noise]:
            if weights is None:
                return None, None, ()
            value = np.sum([weight * values[name] for name, weight in weights.items()], axis=0)
            noise = tuple((name, weight * scales[name]) for name, weight in weights.items())
            return tuple(value.tolist()), _deviation(weights, scales), noise if several else ()

        noisy_count, count_scale, count_noise = read(readout.count)
        noisy_sum, sum_scale, sum_noise = read(readout.total)
        noisy_squares, squares_scale, squares_noise = read(readout.squares)
        return AnswerRelease(
            rho=self.rho,
            noisy_count=noisy_count,
            count_scale=count_scale,
            noisy_sum=noisy_sum,
            sum_scale=sum_scale,
            private=private,
            count_noise=count_noise,
            sum_noise=sum_noise,
            noisy_squares=noisy_squares,
            squares_scale=squares_scale,
            squares_noise=squares_noise,
        )

    def _readout(self, aggregate: Aggregate, precision: CountPrecision | None) -> Readout:
        column = aggregate.column
        if aggregate.kind == "persons":
            return Readout({f"persons {self.schema.privacy.unit}": 1.0}, None)
        if column is not None and self._is_direct(column):
            return Readout(None, {f"total {column}": 1.0})
        count = self._count_weights(column, precision)
        if aggregate.kind == "count":
            return Readout(count, None)
        centred = {f"centred {column}": 1.0}
        if aggregate.kind == "avg":
            return Readout(count, centred)
        if aggregate.kind in VARIANCES:
            return Readout(count, centred, {f"squares {column}": 1.0})
        assert column is not None
        grid = self.schema.column(column).grid
        middle = (grid.low + grid.high) / 2 * grid.unit
        return Readout(None, centred | {name: middle * weight for name, weight in count.items()})

    def _precision(self, scales: Mapping[str, float]) -> CountPrecision | None:
        """The precisions of all measured counts; None where no rows are counted, so nothing is shared."""
        if not self._counts_rows:
            return None
        values, nulls = (
            np.array([scales[f"{kind} {name}"] for name in self._columns]) for kind in ("values", "nulls")
        )
        return CountPrecision(scales["rows"] ** -2, values**-2, nulls**-2)

    def _count_weights(self, column: str | None, precision: CountPrecision | None) -> Weights:
        """The best linear unbiased estimate of the rows, or of a column's values, from all counts."""
        if precision is None:
            return {f"values {column}": 1.0}
        if not self._columns:
            return {"rows": 1.0}
        rows, values, nulls = precision.weights(None if column is None else self._columns.index(column))
        weights = {"rows": rows}
        for name, of_values, of_nulls in zip(self._columns, values.tolist(), nulls.tolist(), strict=True):
            weights[f"values {name}"], weights[f"nulls {name}"] = of_values, of_nulls
        return weights


def centred_sums(totals: Confidential[Totals], grid: Grid) -> Confidential[NDArray[np.int64]]:
    """The sums around the middle of the bounds, in half grid units to stay whole: Σ(2x − low − high)."""
    return totals.map(lambda t: 2 * t.total - (grid.low + grid.high) * t.count)


def _centred_squares(reach: int, totals: Totals) -> NDArray[np.int64]:
    """Σ(2z² − reach), from Σz²: half the noise of the squares themselves, as the count is known too."""
    return 2 * totals.total - reach * totals.count


def _deviation(weights: Weights, scales: Mapping[str, float]) -> float:
    """σ of a weighted sum of parts, whose noises are independent."""
    if len(weights) == 1:
        ((name, weight),) = weights.items()
        return abs(weight) * scales[name]
    return float(np.linalg.norm([weight * scales[name] for name, weight in weights.items()]))


# -- Plans -------------------------------------------------------------------------------------------------


class _MeasurementPlan(ABC):
    """The common part of the plans of one aggregate and of several."""

    rho: float

    @property
    @abstractmethod
    def measurement(self) -> SharedMeasurement: ...

    @abstractmethod
    def key(self, dataset: OpenDataset) -> str: ...

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.measurement.spends

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        """The whole ρ at once: nothing is read before all of it is reserved."""
        return Charge("query", self.key(dataset), request, self.rho, self.spends)


@dataclass(frozen=True)
class QueryPlan(_MeasurementPlan):
    """The cost and noise of an answer, from public quantities only."""

    query: Query
    rho: float
    schema: Schema = field(compare=False, repr=False)

    @cached_property
    def measurement(self) -> SharedMeasurement:
        return SharedMeasurement((self.query,), self.rho, self.schema)

    def key(self, dataset: OpenDataset) -> str:
        """Identity of the request, without how the answer is shown."""
        return dataset.request_key("query", self.query, self.rho)

    @property
    def shape(self) -> Hashable:
        return query_shape(self.query)

    def read(self, text: str) -> AnswerRelease:
        return AnswerRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> AnswerRelease:
        (release,) = self.measurement.measure(dataset)
        return release


@dataclass(frozen=True)
class QueriesPlan(_MeasurementPlan):
    """The cost and noise of several aggregates of one SELECT together (docs/adr/0016)."""

    queries: tuple[Query, ...]  # in canonical order
    rho: float
    schema: Schema = field(compare=False, repr=False)

    @cached_property
    def measurement(self) -> SharedMeasurement:
        return SharedMeasurement(self.queries, self.rho, self.schema)

    def key(self, dataset: OpenDataset) -> str:
        """Identity of the request, without the order of the aggregates."""
        return dataset.request_key("queries", self.queries, self.rho)

    @property
    def shape(self) -> Hashable:
        return tuple(map(query_shape, self.queries))

    def read(self, text: str) -> AnswersRelease:
        return AnswersRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> AnswersRelease:
        return AnswersRelease(self.rho, self.measurement.measure(dataset))


def plan_query(query: Query, schema: Schema, rho: float) -> QueryPlan:
    """The plan of one aggregate; reads no data. AVG splits ρ between a count and a sum."""
    plan = QueryPlan(query, check_rho(rho), schema)
    Groups.of(query, schema)
    if not _is_measurable(plan.measurement):
        raise BadRequest(
            f"rho={rho!r} is too small for the declared bounds.",
            remedy="Use a larger rho, or a coarser step.",
        )
    return plan


def plan_queries(queries: Sequence[Query], schema: Schema, rho: float) -> QueriesPlan:
    """The plan of several aggregates, which share measured parts; reads no data."""
    plan = QueriesPlan(canonical(queries), check_rho(rho), schema)
    for query in queries:
        plan_query(query, schema, rho)  # a query that is refused on its own gets its own error message
    if not _is_measurable(plan.measurement):
        raise BadRequest(
            f"rho={rho!r} is too small for {len(queries)} aggregates.",
            remedy="Use a larger rho, or ask for fewer aggregates at once.",
        )
    return plan


def _is_measurable(measurement: SharedMeasurement) -> bool:
    """Whether every part's noise stays in the range of numbers and its share of ρ does not round to 0."""
    parts = measurement.measurement
    return all(parts.scale(part) <= LARGEST_SCALE for part in parts.parts) and all(
        spend.rho * UNITS_PER_RHO >= 0.5 for spend in measurement.spends
    )


def measured_grid(query: Query, schema: Schema) -> Grid:
    """The fixed-point grid of the aggregated column."""
    assert query.aggregate.column is not None
    return schema.column(query.aggregate.column).grid


def measured_sums(
    totals: Confidential[Totals], query: Query, schema: Schema
) -> Confidential[NDArray[np.int64]]:
    """The sums that get noise in a preparation, in grid units; an average's are centred and doubled."""
    if query.aggregate.kind != "avg":
        return totals.map(lambda t: t.total)
    return centred_sums(totals, measured_grid(query, schema))


def canonical(queries: Sequence[Query]) -> tuple[Query, ...]:
    """The queries in one order, whatever the order of their aggregates in the SELECT list."""

    def place(query: Query) -> tuple[str, bool, str, str]:
        aggregate = query.aggregate
        return aggregate.kind, aggregate.column is not None, aggregate.column or "", str(aggregate)

    return tuple(sorted(queries, key=place))
