"""A budget, a history and discovered values as plain JSON values; loads no results, so they print at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpxplain.model.budget import Budget
from dpxplain.model.charge import Entry, HistoryPage, Spend
from dpxplain.privacy.accounting import epsilons
from dpxplain.wire.shapes import (
    Amounts,
    AmountTexts,
    BudgetFigures,
    BudgetPayload,
    DiscoveredValuePayload,
    DiscoveryPayload,
    HistoryLine,
    HistoryPayload,
    SpendPayload,
    WeightPayload,
)
from dpxplain.words import numbers

if TYPE_CHECKING:
    from dpxplain.results.discovery import Discovery


def budget_payload(budget: Budget) -> BudgetPayload:
    return BudgetPayload(kind="budget", **budget_figures(budget))


def history_payload(
    page: HistoryPage, stopped: Collection[int] = (), kept: Collection[int] = ()
) -> HistoryPayload:
    """A page of entries with their running totals, oldest first.

    `stopped` and `kept` are ledger rows: somebody asked to stop the former; the identical request takes over
    the charges of the latter.
    """
    records = history_records(page.entries, stopped, kept)
    return HistoryPayload(kind="history", entries=records, older=page.older)


def history_records(
    entries: Sequence[Entry], stopped: Collection[int] = (), kept: Collection[int] = ()
) -> list[HistoryLine]:
    return [
        HistoryLine(
            id=entry.id,
            address=entry.address,
            time=entry.time.isoformat(),
            analyst=entry.analyst,
            kind=entry.kind,
            state=entry.state,
            stopped=entry.row in stopped,
            kept=entry.row in kept and entry.state == "reserved",
            description=entry.description,
            rho=entry.rho,
            total_rho=entry.total_rho or entry.rho,
            spends=spend_payloads(entry.spends),
            request=None if entry.request is None else dict(entry.request),
            weights=request_weights(entry.request),
            key=entry.key,
            version=entry.version,
        )
        for entry in entries
    ]


def budget_figures(budget: Budget) -> BudgetFigures:
    """Limit, spent and remaining, in ρ and in ε."""
    epsilon = epsilons(budget)
    return BudgetFigures(
        rho=Amounts(limit=budget.limit, spent=budget.spent, remaining=budget.remaining),
        epsilon=Amounts(limit=epsilon.limit, spent=epsilon.spent, remaining=epsilon.remaining),
        epsilon_text=AmountTexts(
            limit=numbers.at_most(epsilon.limit),
            spent=numbers.at_most(epsilon.spent),
            remaining=numbers.at_most(epsilon.remaining),
        ),
        delta=budget.delta,
        discovered_delta=budget.discovered_delta,
        total_delta=budget.total_delta,
        gaussian=budget.gaussian,
        expires=None if budget.expires is None else budget.expires.isoformat(),
        shared_remaining=budget.shared_remaining,
    )


def spend_payloads(spends: Sequence[Spend]) -> list[SpendPayload]:
    return [
        SpendPayload(event=spend.event, of=spend.of, mechanism=str(spend), rho=spend.rho) for spend in spends
    ]


def request_weights(request: Mapping[str, Any] | None) -> list[WeightPayload]:
    """The groups that a stored request compares, labelled as its answer labels them."""
    weights = (request or {}).get("weights", ())
    if not weights:
        return []
    from dpxplain.model.groups import group_label  # brings in NumPy

    return [
        WeightPayload(
            group=group_label(group) if isinstance(group := term["group"], list) else group,
            weight=term["weight"],
        )
        for term in weights
    ]


def discovery_payload(discovery: Discovery, budget: Budget) -> DiscoveryPayload:
    return DiscoveryPayload(
        kind="discovery",
        id=discovery.id,
        column=discovery.column,
        rho=discovery.rho,
        delta=discovery.delta,
        free=discovery.free,
        private=discovery.private,
        threshold=discovery.threshold,
        values=[DiscoveredValuePayload(value=row.value, units=row.units) for row in discovery.rows],
        spends=spend_payloads(discovery.spends),
        budget=budget_figures(budget),
    )
