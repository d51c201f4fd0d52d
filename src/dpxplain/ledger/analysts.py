"""What analysts used over time, and what they ask a curator for. Requests are records of the audit log."""

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

ASKED, DECLINED = "budget asked for", "budget request declined"
MOST_OPEN = 3  # requests of one analyst that wait at a time
_MOST_READ = 500
_MOST_CHARGES = 20_000
_NOTES = (
    sa.select(LOG)
    .where(LOG.c.dataset == sa.bindparam("dataset"), LOG.c.action == sa.bindparam("action"))
    .order_by(LOG.c.id.desc())
    .limit(_MOST_READ)
)
_CHARGES = (
    sa.select(ENTRIES.c.time, ENTRIES.c.analyst, ENTRIES.c.charge_units)
    .where(ENTRIES.c.dataset == sa.bindparam("dataset"), ENTRIES.c.charge_units > 0)
    .order_by(ENTRIES.c.id.desc())
    .limit(_MOST_CHARGES)
)


@dataclass(frozen=True)
class BudgetRequest:
    """More budget that an analyst asked for and was not given or declined yet."""

    id: int
    analyst: str
    rho: float
    reason: str
    time: datetime


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
        """Charges by day and analyst, the first day first; of a long history the latest ones."""
        with self._store.reading() as connection:
            known_limit(connection, dataset)
            rows = connection.execute(_CHARGES, {"dataset": dataset}).all()
        units: Counter[tuple[str, str]] = Counter()
        for row in rows:
            units[row.time[:10], row.analyst] += row.charge_units
        return [DayOfUse(day, name, rho_of_units(units[day, name])) for day, name in sorted(units)]

    def ask(self, dataset: str, analyst: str, rho: float, reason: str) -> None:
        """Record that an analyst asks for more; refused while several requests of theirs wait."""
        check_rho(rho)
        check_reason(reason)
        with self._store.recording() as connection:
            known_limit(connection, dataset)
            if sum(request.analyst == analyst for request in _waiting(connection, dataset)) >= MOST_OPEN:
                raise BadRequest(
                    f"{MOST_OPEN} requests of yours wait already.",
                    remedy="Wait until the curator has answered.",
                )
            audit.append(connection, analyst, ASKED, dataset, {"rho": rho, "reason": reason})

    def decline(self, dataset: str, request: int, reason: str, by: str) -> None:
        """Record that a request is declined."""
        check_reason(reason)
        if all(waiting.id != request for waiting in self.requests(dataset)):
            raise BadRequest("There is no such request.", remedy="It may have been answered meanwhile.")
        with self._store.recording() as connection:
            audit.append(connection, by, DECLINED, dataset, {"request": request, "reason": reason})

    def requests(self, dataset: str) -> list[BudgetRequest]:
        """Requests that wait, the newest first: a later grant to the analyst answers them."""
        with self._store.reading() as connection:
            known_limit(connection, dataset)
            return _waiting(connection, dataset)


@damage_explained()
def _waiting(connection: sa.Connection, dataset: str) -> list[BudgetRequest]:
    asked, declined = (_notes(connection, dataset, action) for action in (ASKED, DECLINED))
    grants = {name: latest_grant(connection, dataset, name) for name in {r.actor for r in asked}}
    refused = {record.details.get("request") for record in declined}
    return [
        BudgetRequest(record.id, record.actor, record.details["rho"], record.details["reason"], record.time)
        for record in asked
        for grant in [grants[record.actor]]
        if record.id not in refused and (grant is None or datetime.fromisoformat(grant.time) < record.time)
    ]


def _notes(connection: sa.Connection, dataset: str, action: str) -> list[AuditRecord]:
    rows = connection.execute(_NOTES, {"dataset": dataset, "action": action})
    return [audit.record_of(row) for row in rows]
