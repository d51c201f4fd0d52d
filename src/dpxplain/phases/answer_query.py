"""Phase 1: a noisy answer for every declared group (SPEC section 4)."""

from __future__ import annotations

from dataclasses import dataclass

from dpxplain.errors import BadRequest
from dpxplain.model.budget import check_rho, remainder
from dpxplain.model.charge import Event, Request, Spend, spends
from dpxplain.model.groups import Groups
from dpxplain.model.query import Query
from dpxplain.model.release import AnswerRelease
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


def plan_query(query: Query, schema: Schema, rho: float) -> QueryPlan:
    """Split ρ over what the aggregate needs: COUNT a count, SUM a sum, AVG half and half."""
    rho = check_rho(rho)
    Groups.of(query, schema)
    unit = schema.privacy.max_rows, schema.privacy.neighbours
    rows, kind = count_sensitivity(*unit), query.aggregate.kind
    if kind == "count":
        plan = QueryPlan(query, rho, rho, 0.0, rows, 0.0, 1.0)
    else:
        grid = measured_grid(query, schema)
        if kind == "sum":
            total = sum_sensitivity(grid.low, grid.high, *unit)
            plan = QueryPlan(query, rho, 0.0, rho, rows, total, grid.unit)
        else:
            total = mean_sum_sensitivity(grid.low, grid.high, *unit)
            plan = QueryPlan(query, rho, rho / 2, remainder(rho, rho / 2), rows, total, grid.unit / 2)
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


def query_key(query: Query, dataset: OpenDataset, rho: float) -> str:
    """Identity of the request; how the answer is shown is not part of it."""
    return dataset.request_key("query", query, float(rho))


def answer_query(
    query: Query, dataset: OpenDataset, rho: float, asked: Request
) -> tuple[AnswerRelease, int, bool]:
    """The release, its entry in the ledger, and whether it was stored already (then it is free)."""
    plan = plan_query(query, dataset.schema, rho)
    key = query_key(query, dataset, rho)
    return dataset.once(
        "query", key, asked, rho, plan.spends, lambda: _measure(plan, dataset), AnswerRelease.from_json
    )


def _measure(plan: QueryPlan, dataset: OpenDataset) -> AnswerRelease:
    dataset.progress("Counting the groups")
    totals = dataset.totals(plan.query)
    count = total = None
    if plan.rho_count:
        count = add_gaussian(
            totals.map(lambda t: t.count),
            sensitivity=plan.count_sensitivity,
            rho=plan.rho_count,
            noise=dataset.noise,
        )
    if plan.rho_sum:
        sums = totals.map(lambda t: t.total)
        if plan.query.aggregate.kind == "avg":
            grid = measured_grid(plan.query, dataset.schema)
            sums = totals.map(lambda t: 2 * t.total - (grid.low + grid.high) * t.count)
        total = add_gaussian(sums, sensitivity=plan.sum_sensitivity, rho=plan.rho_sum, noise=dataset.noise)
    return AnswerRelease(
        rho=plan.rho,
        noisy_count=None if count is None else tuple(count.values.tolist()),
        count_scale=None if count is None else count.scale,
        noisy_sum=None if total is None else tuple((total.values * plan.sum_unit).tolist()),
        sum_scale=None if total is None else total.scale * plan.sum_unit,
        private=dataset.noise.private,
    )
