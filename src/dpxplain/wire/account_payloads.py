"""A budget, a history and discovered values as plain JSON values; loads no results, so they print at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from dpxplain.model.budget import Budget
from dpxplain.model.charge import Entry, EntryId, HistoryPage, Spend
from dpxplain.model.public import PUBLIC, public
from dpxplain.privacy.accounting import epsilons
from dpxplain.wire.shapes import (
    Amounts,
    AmountTexts,
    BudgetFigures,
    BudgetPayload,
    DiscoveryPayload,
    WeightPayload,
)
from dpxplain.words import numbers

if TYPE_CHECKING:
    from dpxplain.results.discovery import Discovery


@public(
    "HistoryLine",
    "id address time analyst kind state stopped kept description rho total_rho spends request weights key "
    "version",
)
@dataclass(frozen=True, kw_only=True)
class HistoryLine(Entry):
    """An entry as a history shows it."""

    stopped: bool = False
    """Whether somebody asked to stop it once it was charged."""
    kept: bool = False
    """Whether it ended without a release, and asking the same again costs nothing more."""

    @property
    def weights(self) -> list[WeightPayload]:
        """The groups that the request compares, by their labels."""
        return request_weights(self.request)


class HistoryPayload(TypedDict):
    kind: Literal["history"]
    entries: list[HistoryLine]  # oldest first
    older: EntryId | None  # the value of `before` for the preceding page; null if there is none


def budget_payload(budget: Budget) -> BudgetPayload:
    return BudgetPayload(kind="budget", **budget_figures(budget))


def history_payload(
    page: HistoryPage, stopped: Collection[int] = (), kept: Collection[int] = ()
) -> HistoryPayload:
    """A page of entries with their running totals, oldest first.

    `stopped` and `kept` are ledger rows: somebody asked to stop the former; the identical request takes over
    the charges of the latter.
    """
    lines = [
        history_line(
            entry,
            stopped=entry.row in stopped,
            kept=entry.row in kept and entry.state == "reserved",
        )
        for entry in page.entries
    ]
    return HistoryPayload(kind="history", entries=lines, older=page.older)


def history_line(entry: Entry, **marks: bool) -> HistoryLine:
    """The entry as a line; `marks` are `stopped` and `kept`."""
    return HistoryLine(**vars(entry) | {"total_rho": entry.total_rho or entry.rho} | marks)


_READ = [
    field.name
    for field in fields(Entry)
    if field.name in PUBLIC[HistoryLine] and field.name not in ("time", "spends")
]


def read_entry(line: Mapping[str, Any]) -> Entry:
    """The entry in a line that a server sent."""
    spends = tuple(Spend(spend["event"], spend["rho"], spend["of"]) for spend in line["spends"])
    read = {"time": datetime.fromisoformat(line["time"]), "spends": spends}
    return Entry(**{name: line[name] for name in _READ} | read)


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
        values=discovery.rows,
        spends=discovery.spends,
        budget=budget_figures(budget),
    )
