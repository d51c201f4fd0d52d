"""Phase 1: a noisy answer for every declared group (SPEC section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpxplain.errors import BadRequest
from dpxplain.explanation.cells import Totals
from dpxplain.model.budget import check_rho, remainder, split_rho
from dpxplain.model.charge import Charge, Event, Request, Spend, spends
from dpxplain.model.confidential import Confidential
from dpxplain.model.groups import Groups
from dpxplain.model.query import Query
from dpxplain.model.release import AnswerRelease, AnswersRelease
from dpxplain.model.schema import Grid, Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.calibration import LARGEST_SCALE, gaussian_scale
from dpxplain.privacy.mechanisms.gaussian import add_gaussian
from dpxplain.privacy.sensitivity import count_sensitivity, mean_sum_sensitivity, sum_sensitivity


@dataclass(frozen=True)
class QueryPlan:
    """What an answer will cost and how noisy it will be, from public quantities only.

    Sensitivities are in rows for the count, in grid units for the sum. An average's sum is centred and
    doubled, Σ(2x − low − high), which keeps the middle of the bounds on the grid.
    """

    query: Query
    rho: float
    rho_count: float
    rho_sum: float
    count_sensitivity: float
    sum_sensitivity: float
    sum_unit: float
    schema: Schema = field(compare=False, repr=False)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return spends((Event.COUNTS, self.rho_count), (Event.SUMS, self.rho_sum))

    @property
    def count_scale(self) -> float | None:
        return gaussian_scale(self.count_sensitivity, self.rho_count) if self.rho_count else None

    @property
    def sum_scale(self) -> float | None:
        """σ of the released sum, in the unit of the column."""
        return gaussian_scale(self.sum_sensitivity, self.rho_sum) * self.sum_unit if self.rho_sum else None

    def key(self, dataset: OpenDataset) -> str:
        """How the answer is shown is not part of its identity."""
        return dataset.request_key("query", self.query, self.rho)

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge("query", self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> AnswerRelease:
        return AnswerRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> AnswerRelease:
        dataset.progress("Counting the groups")
        totals = dataset.totals(self.query)
        count = total = None
        if self.rho_count:
            count = add_gaussian(
                totals.map(lambda t: t.count),
                sensitivity=self.count_sensitivity,
                rho=self.rho_count,
                noise=dataset.noise,
            )
        if self.rho_sum:
            total = add_gaussian(
                measured_sums(totals, self.query, dataset.schema),
                sensitivity=self.sum_sensitivity,
                rho=self.rho_sum,
                noise=dataset.noise,
            )
        return AnswerRelease(
            rho=self.rho,
            noisy_count=None if count is None else tuple(count.values.tolist()),
            count_scale=None if count is None else count.scale,
            noisy_sum=None if total is None else tuple((total.values * self.sum_unit).tolist()),
            sum_scale=None if total is None else total.scale * self.sum_unit,
            private=dataset.noise.private,
        )


@dataclass(frozen=True)
class QueriesPlan:
    """What several aggregates of one SELECT will cost together, and how noisy each will be (docs/adr/0008).

    Every aggregate gets an equal share of ρ and is measured as if it were asked alone, with noise of its own.
    Nothing is shared, not even between AVG(x), SUM(x) and COUNT(x): intervals of formulas over released
    values rest on their noises being independent.
    """

    rho: float
    parts: tuple[QueryPlan, ...]  # in canonical order
    schema: Schema = field(compare=False, repr=False)

    @property
    def spends(self) -> tuple[Spend, ...]:
        return tuple(
            replace(spend, of=str(part.query.aggregate)) for part in self.parts for spend in part.spends
        )

    def part(self, query: Query) -> QueryPlan:
        return next(part for part in self.parts if part.query == query)

    def key(self, dataset: OpenDataset) -> str:
        """The order of the aggregates is not part of its identity."""
        return dataset.request_key("queries", tuple(part.query for part in self.parts), self.rho)

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        """The whole ρ at once: nothing is read before all of it is reserved."""
        return Charge("query", self.key(dataset), request, self.rho, self.spends)

    def read(self, text: str) -> AnswersRelease:
        return AnswersRelease.from_json(text)

    def measure(self, dataset: OpenDataset) -> AnswersRelease:
        return AnswersRelease(self.rho, tuple(part.measure(dataset) for part in self.parts))


def plan_query(query: Query, schema: Schema, rho: float) -> QueryPlan:
    """Split ρ over what the aggregate needs: COUNT a count, SUM a sum, AVG half and half."""
    rho = check_rho(rho)
    Groups.of(query, schema)
    unit = schema.privacy.max_rows, schema.privacy.neighbours
    rows, kind = count_sensitivity(*unit), query.aggregate.kind
    if kind == "count":
        plan = QueryPlan(query, rho, rho, 0.0, rows, 0.0, 1.0, schema)
    else:
        grid = measured_grid(query, schema)
        if kind == "sum":
            total = sum_sensitivity(grid.low, grid.high, *unit)
            plan = QueryPlan(query, rho, 0.0, rho, rows, total, grid.unit, schema)
        else:
            total = mean_sum_sensitivity(grid.low, grid.high, *unit)
            half = rho / 2
            plan = QueryPlan(query, rho, half, remainder(rho, half), rows, total, grid.unit / 2, schema)
    if not gaussian_scale(max(rows, plan.sum_sensitivity), rho / 2) <= LARGEST_SCALE:
        raise BadRequest(
            f"rho={rho!r} is too small for the declared bounds.",
            remedy="Use a larger rho, or a coarser step.",
        )
    return plan


def measured_grid(query: Query, schema: Schema) -> Grid:
    """The fixed-point grid of the aggregated column."""
    assert query.aggregate.column is not None
    return schema.column(query.aggregate.column).grid


def measured_sums(
    totals: Confidential[Totals], query: Query, schema: Schema
) -> Confidential[NDArray[np.int64]]:
    """The sums that get noise, in grid units; an average's are doubled and centred: Σ(2x − low − high)."""
    if query.aggregate.kind != "avg":
        return totals.map(lambda t: t.total)
    grid = measured_grid(query, schema)
    return totals.map(lambda t: 2 * t.total - (grid.low + grid.high) * t.count)


def plan_queries(queries: Sequence[Query], schema: Schema, rho: float) -> QueriesPlan:
    """Split ρ over the aggregates, all of it and not a digit more; reads no data."""
    rho, queries = check_rho(rho), canonical(queries)
    for query in queries:
        plan_query(query, schema, rho)  # what is refused anyway is refused in the words for one query
    try:
        shares = split_rho(rho, len(queries))
        parts = [plan_query(query, schema, share) for query, share in zip(queries, shares, strict=True)]
    except BadRequest:
        raise BadRequest(
            f"rho={rho!r} is too small to be shared by {len(queries)} aggregates.",
            remedy="Use a larger rho, or ask for fewer aggregates at once.",
        ) from None
    return QueriesPlan(rho, tuple(parts), schema)


def canonical(queries: Sequence[Query]) -> tuple[Query, ...]:
    """The queries in one order, whatever the order of their aggregates in the SELECT list."""

    def place(query: Query) -> tuple[str, bool, str]:
        aggregate = query.aggregate
        return aggregate.kind, aggregate.column is not None, aggregate.column or ""

    return tuple(sorted(queries, key=place))
