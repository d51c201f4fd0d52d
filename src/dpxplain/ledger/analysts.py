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


@dataclass(frozen=True)
class BudgetRequest:
    """More budget that an analyst asked for, and that was neither granted nor declined yet."""

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
            waiting = [
                request for request in _waiting_requests(connection, dataset) if request.analyst == analyst
            ]
            if len(waiting) >= MOST_OPEN:
                raise BadRequest(
                    f"{MOST_OPEN} requests of yours wait already.",
                    remedy="Wait until the curator has answered.",
                )
            audit.append(connection, analyst, ASKED, dataset, {"rho": rho, "reason": reason})

    def decline(self, dataset: str, request: int, reason: str, by: str) -> None:
        """Record that a request is declined."""
        check_reason(reason)
        with self._store.recording() as connection:
            known_limit(connection, dataset)
            if all(waiting.id != request for waiting in _waiting_requests(connection, dataset)):
                raise BadRequest("There is no such request.", remedy="It may have been answered meanwhile.")
            audit.append(connection, by, DECLINED, dataset, {"request": request, "reason": reason})

    def requests(self, dataset: str) -> list[BudgetRequest]:
        """Waiting requests, the newest first; a later grant to the analyst answers them all."""
        with self._store.reading() as connection:
            known_limit(connection, dataset)
            return _waiting_requests(connection, dataset)


def unknown_allowance(dataset: str, analyst: str) -> BadRequest:
    """The refusal to add to what an analyst may spend by a server's configuration, which was not told."""
    return BadRequest(
        f"{analyst} was granted nothing on {dataset} so far. What a server allows without a grant stands in "
        "its configuration, so it is not known to what this would be added.",
        remedy=f"Say what they may spend in all: dpxplain allow set {dataset} {analyst} --rho ...",
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
