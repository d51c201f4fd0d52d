"""Charges that no release followed, and what the curator said about them.

That a charged request failed may depend on the data, and unlike its answer has no noise. A server counts such
failures; here they are found, and forgiven by a note in the audit log.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.standing import known_limit
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, LOG, RELEASES
from dpxplain.ledger.validation import check_name, check_reason

FORGIVEN = "failures forgiven"

_UNRELEASED = (
    sa.select(ENTRIES.c.id, ENTRIES.c.time)
    .outerjoin(RELEASES)
    .where(
        ENTRIES.c.dataset == sa.bindparam("dataset"),
        ENTRIES.c.analyst == sa.bindparam("analyst"),
        ENTRIES.c.charge_units > 0,
        RELEASES.c.entry.is_(None),
    )
    .order_by(ENTRIES.c.id)
)
_NOTES = (
    sa.select(LOG.c.details)
    .where(LOG.c.dataset == sa.bindparam("dataset"), LOG.c.action == sa.bindparam("action"))
    .order_by(LOG.c.id.desc())
)


@dataclass(frozen=True)
class Unreleased:
    """An entry that is running, or has failed."""

    id: int
    time: datetime


class Failures:
    """Of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def unreleased(self, dataset: str, analyst: str) -> list[Unreleased]:
        """What the analyst was charged for and has no release, beginning after what was forgiven."""
        with self._store.reading() as connection:
            asked = {"dataset": dataset, "analyst": analyst}
            found = [
                Unreleased(row.id, datetime.fromisoformat(row.time))
                for row in connection.execute(_UNRELEASED, asked)
            ]
            if not found:  # as nearly always: the log need not be searched
                return []
            notes = connection.execute(_NOTES, {"dataset": dataset, "action": FORGIVEN}).scalars()
            said = (audit.parsed(text) for text in notes)
            up_to = next((one["up_to"] for one in said if one["analyst"] == analyst), 0)
        return [one for one in found if one.id > up_to]

    def forgive(self, dataset: str, analyst: str, *, reason: str, by: str) -> None:
        """Let what failed so far count no longer; the charges stay."""
        check_name(analyst)
        check_reason(reason)
        with self._store.writing() as connection:
            known_limit(connection, dataset)
            last = sa.select(sa.func.max(ENTRIES.c.id)).where(ENTRIES.c.dataset == dataset)
            up_to = connection.execute(last).scalar() or 0
            details = {"analyst": analyst, "reason": reason, "up_to": up_to}
            audit.append(connection, by, FORGIVEN, dataset, details)
