"""Limits and spending, in units of a trillionth of ρ, with the errors that refuse further charges."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest, BudgetExhausted, InternalError
from dpxplain.ledger.audit import insert
from dpxplain.ledger.protocol import EVERYONE, damage_explained, exhausted_delta
from dpxplain.ledger.tables import ACCOUNTS, ENTRIES, GRANTS, LIMITS, RELEASES, count_entry, matching
from dpxplain.model.charge import (
    LARGEST_RHO,
    UNITS_PER_RHO,
    Budget,
    Charge,
    Spend,
    check_rho,
    rho_of_units,
    spend_units,
)

_STILL_FREE = "Earlier answers stay free."


def _newest(table: sa.Table, *columns: str, value: str | None = None) -> sa.Select[Any]:
    """The newest row in which these columns equal the statement's parameters, or one value of that row."""
    selected = sa.select(table) if value is None else sa.select(table.c[value])
    return selected.where(matching(table, *columns)).order_by(table.c.id.desc()).limit(1)


_LATEST_LIMIT = _newest(LIMITS, "dataset")
_LATEST_GRANT = _newest(GRANTS, "dataset", "analyst")
_LAST_TOTAL = _newest(ENTRIES, "dataset", value="total_units")
_LAST_OWN_TOTAL = _newest(ENTRIES, "dataset", "analyst", value="own_units")


def _analysts_statement(table: sa.Table) -> sa.Select[Any]:
    """The distinct analysts of a table, each found by one step in its index by analyst."""

    def first_after(name: Any) -> sa.ScalarSelect[str]:
        later = (matching(table, "dataset"), table.c.analyst > name)
        return sa.select(sa.func.min(table.c.analyst)).where(*later).scalar_subquery()

    names = sa.select(first_after("").label("name")).cte("names", recursive=True)
    names = names.union_all(sa.select(first_after(names.c.name)).where(names.c.name.is_not(None)))
    return sa.select(names.c.name).where(names.c.name.is_not(None))


DISCOVERY, LOSS = "discover", "loss"
"""Kinds of entries that spend δ."""
_DELTA_CHARGES = sa.select(ENTRIES.c.id, ENTRIES.c.kind, ENTRIES.c.request).where(
    matching(ENTRIES, "dataset"), ENTRIES.c.kind.in_((DISCOVERY, LOSS))
)
_LARGEST_DELTA = sa.select(sa.func.max(LIMITS.c.delta)).where(matching(LIMITS, "dataset"))
_ANALYSTS = [_analysts_statement(table) for table in (ENTRIES, GRANTS)]


def _standing_statement() -> sa.Select[Any]:
    limit, grant = _LATEST_LIMIT.subquery(), _LATEST_GRANT.subquery()
    gaussian = sa.select(ACCOUNTS.c.gaussian_units).where(matching(ACCOUNTS, "dataset"))
    return sa.select(
        *(limit.c.declared_units, limit.c.top_up_units, limit.c.delta, grant.c.limit_units, grant.c.expires),
        _LAST_TOTAL.scalar_subquery().label("spent"),
        _LAST_OWN_TOTAL.scalar_subquery().label("own_spent"),
        gaussian.where(ACCOUNTS.c.analyst == EVERYONE).scalar_subquery().label("gaussian"),
        gaussian.where(matching(ACCOUNTS, "analyst")).scalar_subquery().label("own_gaussian"),
        _DELTA_CHARGES.exists().label("has_discoveries"),
    ).select_from(limit.outerjoin(grant, sa.true()))


_STANDING = _standing_statement()


@dataclass(frozen=True)
class Standing:
    """A data set's limit and spending and, for one analyst, the analyst's own."""

    limit: int
    spent: int
    delta: float
    own_limit: int | None = None
    """None: limited by the data set only."""
    own_spent: int = 0
    expires: datetime | None = None
    gaussian: int = 0
    """The part of `spent` that paid for Gaussian noise."""
    own_gaussian: int = 0
    has_discoveries: bool = False
    """Whether any analyst's entry has spent δ of the data set: a discovery or a declared loss."""

    @property
    def left(self) -> int:
        return max(0, self.limit - self.spent)

    def totals(self, charge: int) -> dict[str, int]:
        """The running totals of an entry that adds this charge."""
        return {"total_units": self.spent + charge, "own_units": self.own_spent + charge}

    def budget(self, discovered_delta: float = 0.0) -> Budget:
        """The budget to be shown; `discovered_delta` is the δ that discoveries have spent."""
        if self.own_limit is None:
            limit, spent, gaussian = self.limit, self.spent, self.gaussian
        else:
            limit, spent, gaussian = self.own_limit, self.own_spent, self.own_gaussian
        return Budget(
            limit=rho_of_units(limit),
            spent=rho_of_units(spent),
            delta=self.delta,
            expires=None if self.own_limit is None else self.expires,
            shared_remaining=None if self.own_limit is None else rho_of_units(self.left),
            gaussian=rho_of_units(gaussian),
            discovered_delta=discovered_delta,
        )

    def refusal(self, dataset: str, analyst: str, charge: int) -> BudgetExhausted | None:
        """The error that refuses the charge (allowance expired, or too little is left); None if it fits."""
        if self.expires is not None and self.expires <= datetime.now(UTC):
            return expired(dataset, analyst, self.expires)
        if self.own_limit is not None:
            own_left = max(0, self.own_limit - self.own_spent)
            if charge > own_left and own_left <= self.left:
                return own_exhausted(dataset, analyst, charge=charge, left=own_left, limit=self.own_limit)
        if charge > self.left:
            return exhausted(dataset, charge=charge, left=self.left, limit=self.limit)
        return None


def standing(
    connection: sa.Connection, dataset: str, analyst: str = "", default_limit: int | None = None
) -> Standing:
    """The data set's standing and, except for the local owner, the analyst's.

    `default_limit` is the allowance without a grant; None: only the data set's limit applies.
    """
    row = connection.execute(_STANDING, {"dataset": dataset, "analyst": analyst}).one_or_none()
    if row is None:
        raise unknown_dataset(dataset)
    return Standing(
        limit=row.declared_units + row.top_up_units,
        spent=row.spent or 0,
        delta=row.delta,
        own_limit=default_limit if row.limit_units is None else row.limit_units,
        own_spent=row.own_spent or 0,
        expires=moment(row.expires),
        gaussian=row.gaussian or 0,
        own_gaussian=row.own_gaussian or 0,
        has_discoveries=bool(row.has_discoveries),
    )


def spent_delta(
    connection: sa.Connection, dataset: str, column: str | None = None, *, besides: int | None = None
) -> float:
    """The δ of all charged discoveries, or of those of a column, whether or not they succeeded.

    The entry `besides` is left out. Infinite once a loss was declared, because a discovery may be among the
    lost records.
    """
    charges = connection.execute(_DELTA_CHARGES, {"dataset": dataset}).all()
    if any(charge.kind == LOSS for charge in charges):
        return math.inf
    requests = [json.loads(charge.request or "{}") for charge in charges if charge.id != besides]
    if any(type(request.get("delta")) is not float for request in requests):
        raise InternalError("The history has a discovery without its δ.")
    return math.fsum(request["delta"] for request in requests if column in (None, request.get("column")))


def discovered_delta(connection: sa.Connection, dataset: str) -> float:
    """An upper bound on the δ that discoveries have spent; after a loss, the largest δ ever declared."""
    spent = spent_delta(connection, dataset)
    if math.isfinite(spent):
        return spent
    return float(connection.execute(_LARGEST_DELTA, {"dataset": dataset}).scalar_one())


def check_delta(connection: sa.Connection, dataset: str, charge: Charge) -> None:
    """Raises if the declared δ does not cover a discovery. Call it in the transaction of the charge."""
    declared, asked = known_limit(connection, dataset).delta, (charge.request.body or {}).get("delta")
    if type(asked) is not float:
        raise InternalError("A discovery is charged with its δ.")
    if math.fsum((spent_delta(connection, dataset), asked)) > declared:
        raise exhausted_delta(declared)


def analysts(connection: sa.Connection, dataset: str) -> list[str]:
    """Every analyst who has a grant or has asked something, sorted by name."""
    names: set[str] = set()
    for statement in _ANALYSTS:
        names |= set(connection.execute(statement, {"dataset": dataset}).scalars())
    return sorted(names)


def total_spent(connection: sa.Connection, dataset: str) -> int | None:
    """What all analysts have spent, in units: the running total of the last entry; None without entries."""
    return connection.execute(_LAST_TOTAL, {"dataset": dataset}).scalar_one_or_none()


def own_spent(connection: sa.Connection, dataset: str, analyst: str) -> int:
    """What the analyst has spent, in units: the running total of their last entry."""
    wanted = {"dataset": dataset, "analyst": analyst}
    return connection.execute(_LAST_OWN_TOTAL, wanted).scalar_one_or_none() or 0


def latest_limit(connection: sa.Connection, dataset: str) -> sa.Row[Any] | None:
    return connection.execute(_LATEST_LIMIT, {"dataset": dataset}).one_or_none()


def known_limit(connection: sa.Connection, dataset: str) -> sa.Row[Any]:
    """The latest limit. Raises BadRequest if the data set was never opened."""
    limit = latest_limit(connection, dataset)
    if limit is None:
        raise unknown_dataset(dataset)
    return limit


def latest_grant(connection: sa.Connection, dataset: str, analyst: str) -> sa.Row[Any] | None:
    return connection.execute(_LATEST_GRANT, {"dataset": dataset, "analyst": analyst}).one_or_none()


def add_notice(
    connection: sa.Connection, row: dict[str, Any], kind: str, description: str, payload: dict[str, Any]
) -> dict[sa.Table, dict[str, Any]]:
    """Adds an entry without a charge to the history, to show the changed limit or allowance in `row`."""
    analyst = row.get("analyst", "")
    entry = insert(
        connection,
        ENTRIES,
        {
            "dataset": row["dataset"],
            "analyst": analyst,
            "time": row["time"],
            "kind": kind,
            "key": "",
            "description": description,
            "charge_units": 0,
            "spends": "[]",
            "number": count_entry(connection, row["dataset"], analyst, 0, 0),
        }
        | standing(connection, row["dataset"], analyst).totals(0),
    )
    release = insert(connection, RELEASES, {"entry": entry["id"], "payload": json.dumps(payload)})
    return {ENTRIES: entry, RELEASES: release}


def notice_text(action: str, units: int, reason: str) -> str:
    """A notice's description. Everyone who sees the notice also sees the reason."""
    return f"{action} rho {rho_text(units)}: {reason}" if reason else f"{action} rho {rho_text(units)}"


def rho_number(units: int) -> int | float:
    """ρ for JSON: 2 rather than 2.0, as the curator wrote it.

    >>> rho_number(2 * 10**12), rho_number(5 * 10**11)
    (2, 0.5)
    """
    return units // UNITS_PER_RHO if units % UNITS_PER_RHO == 0 else rho_of_units(units)


def checked_total(units: int) -> int:
    """A limit after a top-up. Raises if it exceeds what the ledger can count."""
    if units > LARGEST_RHO * UNITS_PER_RHO:
        raise BadRequest(
            f"The limit would be more than {LARGEST_RHO:,}.", remedy="Add a smaller amount of rho."
        )
    return units


@damage_explained()
def moment(text: str | None) -> datetime | None:
    """The time that a text in the ledger stands for; None for None."""
    return None if text is None else datetime.fromisoformat(text)


def charge_units(rho: float, spends: Sequence[Spend]) -> int:
    """The units to charge for a plan whose mechanisms share `rho`.

    The total is rounded once, not share by share: thirds of 0.1 still make 0.1.

    >>> charge_units(0.1, [Spend("gaussian", 0.1 / 3)] * 3)
    100000000000
    """
    check_rho(rho)
    # Written so that NaN fails the comparison instead of passing it.
    if not all(spend.rho >= 0 for spend in spends):
        raise InternalError("A planned mechanism has a negative or undefined rho.")
    if not math.fsum(spend.rho for spend in spends) <= rho * (1 + 1e-9):
        raise InternalError(f"The planned mechanisms cost more than the requested rho of {rho!r}.")
    return spend_units(rho)


def rho_text(units: int) -> str:
    """Units as an exact decimal, to be shown and typed back.

    >>> rho_text(300_000_000_000), rho_text(5 * UNITS_PER_RHO), rho_text(1)
    ('0.3', '5', '0.000000000001')
    """
    return f"{(Decimal(units) / UNITS_PER_RHO).normalize():f}"


def exhausted(dataset: str, *, charge: int, left: int, limit: int) -> BudgetExhausted:
    """The refusal of a charge that the data set's limit does not cover; amounts in units.

    >>> print(exhausted("adult", charge=5 * 10**11, left=3 * 10**11, limit=10**12).problem)
    The request costs rho 0.5, but 'adult' has only 0.3 of its 1 left.
    """
    return BudgetExhausted(
        f"The request costs rho {rho_text(charge)}, but {dataset!r} has only {rho_text(left)} of its "
        f"{rho_text(limit)} left.",
        remedy=f"{_at_most(left)}{_STILL_FREE} Only the curator can raise the limit.",
    )


def own_exhausted(dataset: str, analyst: str, *, charge: int, left: int, limit: int) -> BudgetExhausted:
    """The refusal of a charge that the analyst's allowance does not cover; amounts in units.

    >>> print(own_exhausted("adult", "ann", charge=5 * 10**11, left=3 * 10**11, limit=10**12).problem)
    The request costs rho 0.5, but 'ann' has only 0.3 of 1 left on 'adult'.
    """
    if not limit:
        return BudgetExhausted(
            f"{analyst!r} has no allowance on {dataset!r}.", remedy=f"{_STILL_FREE} Ask the curator for one."
        )
    return BudgetExhausted(
        f"The request costs rho {rho_text(charge)}, but {analyst!r} has only {rho_text(left)} of "
        f"{rho_text(limit)} left on {dataset!r}.",
        remedy=f"{_at_most(left)}{_STILL_FREE} Ask the curator for more.",
    )


def expired(dataset: str, analyst: str, when: datetime) -> BudgetExhausted:
    """The refusal of a charge after the allowance has ended."""
    return BudgetExhausted(
        f"The allowance of {analyst!r} on {dataset!r} expired on {when:%Y-%m-%d at %H:%M} UTC.",
        remedy=f"{_STILL_FREE} Ask the curator to renew it.",
    )


def unknown_dataset(dataset: str) -> BadRequest:
    """The refusal of a data set that was never opened in the ledger."""
    return BadRequest(
        f"The ledger has no data set {dataset!r}.",
        remedy="Check the name. A data set is added when its server starts, or when somebody connects to it.",
    )


def _at_most(left: int) -> str:
    return f"Ask for at most rho={rho_text(left)}. " if left else ""
