"""What analysts spent over time, and their requests for more budget, which are records of the audit log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.protocol import AuditRecord, check_reason, damage_explained
from dpxplain.ledger.standing import known_limit, latest_grant
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, LOG
from dpxplain.model.budget import check_rho, rho_of_units
from dpxplain.model.public import public

ASKED, DECLINED = "budget asked for", "budget request declined"
MOST_OPEN = 3  # waiting requests of one analyst
_MOST_RECORDS = 500
_MOST_CHARGES = 20_000
_RECORDS = (
    sa.select(LOG)
    .where(LOG.c.dataset == sa.bindparam("dataset"), LOG.c.action == sa.bindparam("action"))
    .order_by(LOG.c.id.desc())
    .limit(_MOST_RECORDS)
)
_CHARGES = (
    sa.select(ENTRIES.c.time, ENTRIES.c.analyst, ENTRIES.c.charge_units)
    .where(ENTRIES.c.dataset == sa.bindparam("dataset"), ENTRIES.c.charge_units > 0)
    .order_by(ENTRIES.c.id.desc())
    .limit(_MOST_CHARGES)
)


@public("BudgetRequestLine", "id? analyst rho reason time")
@dataclass(frozen=True)
class BudgetRequest:
    """An analyst's request for more budget that the curator has not answered yet."""

    id: int | None
    """None for an analyst, because ids count everybody's requests."""
    analyst: str
    rho: float
    reason: str
    time: datetime


@public("UseLine", "day analyst rho", description="What one analyst was charged on one day, in UTC.")
@dataclass(frozen=True)
class DayOfUse:
    """What one analyst was charged on one day, in UTC."""

    day: str
    analyst: str
    rho: float


class Analysts:
    """What the analysts of one ledger used, and what they ask for."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @damage_explained()
    def use(self, dataset: str) -> list[DayOfUse]:
        """Charges by day and analyst, oldest first; only the latest ones if the history is long."""
        with self._store.reading() as connection:
            known_limit(connection, dataset)
            rows = connection.execute(_CHARGES, {"dataset": dataset}).all()
        units: Counter[tuple[str, str]] = Counter()
        for row in rows:
            units[row.time[:10], row.analyst] += row.charge_units
        return [DayOfUse(day, name, rho_of_units(units[day, name])) for day, name in sorted(units)]

    def ask(self, dataset: str, analyst: str, rho: float, reason: str) -> None:
        """Records that an analyst asks for more. Raises if they have too many waiting requests."""
        check_rho(rho)
        check_reason(reason)
        with self._store.recording() as connection:
            known_limit(connection, dataset)
            waiting = [
                request for request in _waiting_requests(connection, dataset) if request.analyst == analyst
            ]
            if len(waiting) >= MOST_OPEN:
                raise BadRequest(
                    f"You already have {MOST_OPEN} requests waiting.",
                    remedy="Wait until the curator answers.",
                )
            audit.append(connection, analyst, ASKED, dataset, {"rho": rho, "reason": reason})

    def decline(self, dataset: str, request: int, reason: str, by: str) -> None:
        """Records that the curator declined a request."""
        check_reason(reason)
        with self._store.recording() as connection:
            known_limit(connection, dataset)
            if all(waiting.id != request for waiting in _waiting_requests(connection, dataset)):
                raise BadRequest(
                    "There is no such request.", remedy="The curator may have answered it in the meantime."
                )
            audit.append(connection, by, DECLINED, dataset, {"request": request, "reason": reason})

    def requests(self, dataset: str) -> list[BudgetRequest]:
        """Waiting requests, the newest first; a later grant to the analyst answers them all."""
        with self._store.reading() as connection:
            known_limit(connection, dataset)
            return _waiting_requests(connection, dataset)


def unknown_allowance(dataset: str, analyst: str) -> BadRequest:
    """The error for a top-up when the amount allowed by the server's configuration is not known."""
    return BadRequest(
        f"{analyst} has no grant on {dataset} yet, so there is no amount to add to. The default "
        "allowance is in the server's configuration, which this command cannot see.",
        remedy=f"Set the total that they may spend: dpxplain allow set {dataset} {analyst} --rho ...",
    )


@damage_explained()
def _waiting_requests(connection: sa.Connection, dataset: str) -> list[BudgetRequest]:
    requests, refusals = (_records(connection, dataset, action) for action in (ASKED, DECLINED))
    grants = {name: latest_grant(connection, dataset, name) for name in {r.actor for r in requests}}
    declined = {refusal.details.get("request") for refusal in refusals}
    return [
        BudgetRequest(record.id, record.actor, record.details["rho"], record.details["reason"], record.time)
        for record in requests
        for grant in [grants[record.actor]]
        if record.id not in declined and (grant is None or datetime.fromisoformat(grant.time) < record.time)
    ]


def _records(connection: sa.Connection, dataset: str, action: str) -> list[AuditRecord]:
    rows = connection.execute(_RECORDS, {"dataset": dataset, "action": action})
    return [audit.record_of(row) for row in rows]
