"""Phase 1 for several aggregates of one SELECT: one ρ, one charge, one stored release (docs/adr/0008).

Every aggregate gets an equal share of ρ and is measured as if it were asked alone, with noise of its own.
Nothing is shared, not even between AVG(x), SUM(x) and COUNT(x): intervals of formulas over released values
rest on their noises being independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpxplain.errors import BadRequest
from dpxplain.model.budget import check_rho, split_rho
from dpxplain.model.charge import Request, Spend
from dpxplain.model.query import Query
from dpxplain.model.release import AnswersRelease
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import QueryPlan, _measure, plan_query
from dpxplain.phases.dataset import OpenDataset


@dataclass(frozen=True)
class QueriesPlan:
    """What several aggregates will cost, and how noisy each will be."""

    rho: float
    parts: tuple[QueryPlan, ...]  # in canonical order

    @property
    def spends(self) -> tuple[Spend, ...]:
        return tuple(
            replace(spend, of=str(part.query.aggregate)) for part in self.parts for spend in part.spends
        )

    def part(self, query: Query) -> QueryPlan:
        return next(part for part in self.parts if part.query == query)


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
    return QueriesPlan(rho, tuple(parts))


def canonical(queries: Sequence[Query]) -> tuple[Query, ...]:
    """The queries in one order, whatever the order of their aggregates in the SELECT list."""

    def place(query: Query) -> tuple[str, bool, str]:
        aggregate = query.aggregate
        return aggregate.kind, aggregate.column is not None, aggregate.column or ""

    return tuple(sorted(queries, key=place))


def queries_key(queries: Sequence[Query], dataset: OpenDataset, rho: float) -> str:
    """Identity of the request; neither the order of the aggregates nor how they are shown is part of it."""
    return dataset.request_key("queries", canonical(queries), float(rho))


def answer_queries(
    queries: Sequence[Query], dataset: OpenDataset, rho: float, asked: Request
) -> tuple[AnswersRelease, int, bool]:
    """The release, its entry in the ledger, and whether it was stored already (then it is free)."""
    plan = plan_queries(queries, dataset.schema, rho)
    key = queries_key(queries, dataset, rho)

    def measure() -> AnswersRelease:
        return AnswersRelease(plan.rho, tuple(_measure(part, dataset) for part in plan.parts))

    # The whole ρ at once: nothing is read before all of it is reserved.
    return dataset.once("query", key, asked, plan.rho, plan.spends, measure, AnswersRelease.from_json)
