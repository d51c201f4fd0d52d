"""The discovered values of a column, and what discovering them would cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpxplain.errors import BadRequest
from dpxplain.model.charge import Request, Spend
from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.hardening import Frozen
from dpxplain.model.release import Released
from dpxplain.model.unknown_column import DiscoveredValue, DiscoveryRelease
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.discover_values import (
    DiscoveryPlan,
    check_delta,
    check_share,
    discovery_key,
    known_values,
    plan_discovery,
)
from dpxplain.privacy.normal import normal_quantile
from dpxplain.results.base import ReleasedRows
from dpxplain.results.planned import Planned
from dpxplain.results.preview import Price


class Discovery(Frozen, Displayed, ReleasedRows[DiscoveryRelease, DiscoveredValue]):
    """The values whose noisy count of privacy units is above the threshold, in order."""

    def __init__(self, column: str, released: Released[DiscoveryRelease], spends: tuple[Spend, ...]) -> None:
        super().__init__(released)
        self.column = column
        self.spends = spends
        counts = zip(self.release.values, self.release.noisy_units, strict=True)
        self.rows = tuple(DiscoveredValue(value, units) for value, units in counts)
        self.freeze()

    @property
    def values(self) -> tuple[str, ...]:
        return self.release.values

    @property
    def delta(self) -> float:
        """The δ that this discovery spent."""
        return self.release.delta

    @property
    def threshold(self) -> int:
        """The number that the noisy count of units exceeds for every discovered value."""
        return self.release.threshold

    def records(self) -> list[Record]:
        return [{"value": row.value, "units": row.units} for row in self.rows]


@dataclass(frozen=True)
class DiscoveryPreview(Displayed, Tabular):
    """What a discovery would cost, and how many privacy units a value needs to be found."""

    price: Price
    column: str
    delta: float
    threshold: int
    scale: float
    confidence: float = 0.95

    @property
    def found_units(self) -> int:
        """How many units must have a value for it to be found with this confidence."""
        return math.ceil(self.threshold + 1 - normal_quantile(1 - self.confidence) * self.scale)

    @property
    def shaped_by(self) -> tuple[str, ...]:
        return ()

    def records(self) -> list[Record]:
        return [
            {
                "column": self.column,
                "rho": self.price.rho,
                "delta": self.delta,
                "threshold": self.threshold,
                "remaining_after": self.price.remaining_after,
            }
        ]


class PlannedDiscovery(Planned[DiscoveryRelease, Discovery]):
    """A discovery, planned and not yet paid for."""

    plan: DiscoveryPlan

    def __init__(self, column: str, rho: float, delta: float | None, dataset: OpenDataset) -> None:
        plan = plan_discovery(dataset, column, rho, delta)
        body = {"column": column, "rho": rho, "delta": plan.delta}
        super().__init__(plan, Request(f"discover {column}", body), dataset)
        self.freeze()

    def show(self, released: Released[DiscoveryRelease]) -> Discovery:
        return Discovery(self.plan.column, released, self.plan.spends)

    @property
    def key(self) -> str:
        """Identity of the request, the same for every attempt."""
        return discovery_key(self.plan.schema, self.plan.column, getattr(self._dataset.noise, "seed", None))

    def _find(self) -> Released[DiscoveryRelease] | None:
        """The stored discovery, whatever its price was; None if no attempt has found values. Free."""
        stored = super()._find()
        return stored if stored is not None and stored.value.values else None

    def check(self, *, only_share: bool = False) -> None:
        """Raises, before any charge, if the column is discovered already or if less δ is left than asked for.

        With `only_share`, also raises if δ exceeds the column's even share.
        """
        plan, dataset = self.plan, self._dataset
        seed = getattr(dataset.noise, "seed", None)
        is_known = bool(known_values(plan.schema, plan.column, dataset.ledger, seed))
        if is_known or plan.column in dataset.schema.columns:
            raise BadRequest(
                f"The values of {self.plan.column} are already discovered.",
                remedy="Query it like any other column.",
            )
        check_delta(dataset, plan)
        if only_share:
            check_share(dataset, plan)

    def preview(self) -> DiscoveryPreview:
        is_stored = self.is_stored
        if not is_stored:
            self.check()
        price = Price.of(self.plan, self._dataset, free=is_stored)
        plan = self.plan
        return DiscoveryPreview(price, plan.column, plan.delta, plan.threshold, plan.scale)

    def run(self, dataset: OpenDataset | None = None) -> Discovery:
        """Finds the stored result or measures it, in the planned data set or the same caller's view of it."""
        if not self.is_stored:
            self.check()
        return super().run(dataset)
