"""Phase 1: a noisy answer for every declared group (docs/specification.md, answers)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import BadRequest
from dpxplain.explanation.cells import Totals
from dpxplain.model.budget import UNITS_PER_RHO, check_rho
from dpxplain.model.caching import cached_property
from dpxplain.model.charge import Charge, Request, Spend
from dpxplain.model.confidential import Confidential
from dpxplain.model.groups import Groups
from dpxplain.model.query import Query, query_shape
from dpxplain.model.release import AnswerRelease, AnswersRelease
from dpxplain.model.schema import Grid, Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.shared_measurement import SharedMeasurement, centred_sums
from dpxplain.privacy.calibration import LARGEST_SCALE


@dataclass(frozen=True)
class ExpectedNoise:
    """How noisy an aggregate will be: σ of its count, its sum and its squares, in the unit of the column."""

    query: Query
    count_scale: float | None
    sum_scale: float | None
    squares_scale: float | None = None


class _MeasurementPlan(ABC):
    """What the plans of one and of several aggregates have in common."""

    rho: float

    @property
    @abstractmethod
    def measurement(self) -> SharedMeasurement: ...

    @abstractmethod
    def key(self, dataset: OpenDataset) -> str: ...

    @property
    def spends(self) -> tuple[Spend, ...]:
        return self.measurement.spends

    def expected(self, query: Query) -> ExpectedNoise:
        return ExpectedNoise(query, *self.measurement.expected_noise(query))

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        """The whole ρ at once: nothing is read before all of it is reserved."""
        return Charge("query", self.key(dataset), request, self.rho, self.spends)


@dataclass(frozen=True)
class QueryPlan(_MeasurementPlan):
    """What an answer will cost and how noisy it will be, from public quantities only."""

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
    """What several aggregates of one SELECT cost together, and how noisy each will be (docs/adr/0016)."""

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
