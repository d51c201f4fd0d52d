"""Private discovery of a column's values: those that enough privacy units have (docs/proofs/discovery.md).

A column is discovered once for each version of the data; afterwards its values are part of the schema. The
declared δ bounds what all discoveries spend together; the ledger checks it when it charges.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, field

from dpxplain.errors import BadRequest, InternalError
from dpxplain.ledger.protocol import LedgerView, exhausted_delta
from dpxplain.model.budget import check_rho
from dpxplain.model.charge import Charge, Event, Request, Spend, spends
from dpxplain.model.hardening import plain_number
from dpxplain.model.schema import Schema
from dpxplain.model.spelling import did_you_mean
from dpxplain.model.unknown_column import DiscoveryRelease
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.mechanisms.threshold import threshold_for, values_above

KIND = "discover"


@dataclass(frozen=True)
class DiscoveryPlan:
    """What a discovery will cost and what it will find, from public quantities only."""

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
        return _latest(self.schema, self.column, dataset.ledger, getattr(dataset.noise, "seed", None))[0]

    @property
    def shape(self) -> Hashable:
        return self.column

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        return Charge(KIND, self.key(dataset), request, self.rho, self.spends)

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


def discovery_key(schema: Schema, column: str, seed: int | None = None, attempt: int = 0) -> str:
    """Identity of a column's discovery, which does not depend on how other columns are declared."""
    table, privacy = schema.table, schema.privacy
    unit = [privacy.unit, privacy.max_rows, privacy.neighbours]
    parts = [KIND, table.name, table.version, unit, column, schema.unknown[column].longest, seed, attempt]
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
    return _latest(schema, column, ledger, seed)[1]


def _latest(schema: Schema, column: str, ledger: LedgerView, seed: int | None) -> tuple[str, tuple[str, ...]]:
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
