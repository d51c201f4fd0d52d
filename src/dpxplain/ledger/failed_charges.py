"""Charges of analysts that failed or were cancelled, and the curator's decisions to forgive them."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dpxplain.ledger import audit
from dpxplain.ledger.protocol import check_name, check_reason, damage_explained
from dpxplain.ledger.single_flight import may_follow
from dpxplain.ledger.standing import known_limit
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, FLIGHTS, LOG, UNRELEASED

# Statements are built once: SQLAlchemy takes longer to build one than SQLite to run it.
_UNRELEASED = (
    sa.select(UNRELEASED.c.entry.label("id"), FLIGHTS.c.heard)
    .outerjoin(FLIGHTS, FLIGHTS.c.entry == UNRELEASED.c.entry)
    .where(UNRELEASED.c.dataset == sa.bindparam("dataset"), UNRELEASED.c.analyst == sa.bindparam("analyst"))
    .order_by(UNRELEASED.c.entry)
)
_FORGIVEN, _CANCELLED = "failures forgiven", "cancelled"
_FORGIVENESS = (
    sa.select(LOG.c.details)
    .where(LOG.c.dataset == sa.bindparam("dataset"), LOG.c.action == _FORGIVEN)
    .order_by(LOG.c.id.desc())
)
_EVERY_CANCELLATION = sa.select(LOG.c.details).where(
    LOG.c.dataset == sa.bindparam("dataset"), LOG.c.action == _CANCELLED
)
_CANCELLATIONS = sa.select(LOG.c.details).where(
    LOG.c.dataset == sa.bindparam("dataset"),
    LOG.c.action == _CANCELLED,
    LOG.c.actor == sa.bindparam("analyst"),
)


@dataclass(frozen=True)
class Unreleased:
    """A charged entry without a release: it is running, or has failed."""

    id: int
    is_running: bool
    """Whether a living process measures it, or will when it is asked again."""


@dataclass(frozen=True)
class Suspects:
    """Charges of one analyst that may be, or are, failures."""

    unreleased: tuple[Unreleased, ...]
    cancelled: frozenset[int]
    """Entries that the analyst asked to cancel, whether or not a release followed."""


class Failures:
    """Charges of a ledger that failed or were to be cancelled, and the curator's decisions to forgive them.

    Whether a charged request fails may depend on the data and, unlike its answer, has no noise. A server
    limits the number of such failures; the curator resets it by a record in the audit log. A cancellation
    counts once it is asked for: if it counted only where no release followed, analysts could see for free
    that one did.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def record_cancellation(self, dataset: str, analyst: str, entry: int) -> None:
        """Record that the analyst asked to cancel a charged request."""
        with self._store.recording() as connection:
            audit.append(connection, analyst, _CANCELLED, dataset, {"entry": entry})

    @damage_explained()
    def suspects(self, dataset: str, analyst: str) -> Suspects:
        """The analyst's charges without a release, or to be cancelled, since failures were last forgiven."""
        parameters = {"dataset": dataset, "analyst": analyst}
        with self._store.reading() as connection:
            rows = connection.execute(_UNRELEASED, parameters).all()
            cancelled = [
                audit.parsed(text)["entry"]
                for text in connection.execute(_CANCELLATIONS, parameters).scalars()
            ]
            if not rows and not cancelled:  # nearly always
                return Suspects((), frozenset())
            records = map(audit.parsed, connection.execute(_FORGIVENESS, {"dataset": dataset}).scalars())
            up_to = next((record["up_to"] for record in records if record["analyst"] == analyst), 0)
        return Suspects(
            tuple(Unreleased(row.id, may_follow(row.heard)) for row in rows if row.id > up_to),
            frozenset(entry for entry in cancelled if entry > up_to),
        )

    @damage_explained()
    def cancelled(self, dataset: str) -> frozenset[int]:
        """Every entry of the data set that somebody asked to cancel."""
        with self._store.reading() as connection:
            details = connection.execute(_EVERY_CANCELLATION, {"dataset": dataset}).scalars().all()
        return frozenset(audit.parsed(text)["entry"] for text in details)

    def forgive(self, dataset: str, analyst: str, *, reason: str, by: str) -> None:
        """Stop counting the analyst's failures so far; the charges stay."""
        check_name(analyst)
        check_reason(reason)
        with self._store.recording() as connection:
            known_limit(connection, dataset)
            last = sa.select(sa.func.max(ENTRIES.c.id)).where(ENTRIES.c.dataset == dataset)
            up_to = connection.execute(last).scalar() or 0
            details = {"analyst": analyst, "reason": reason, "up_to": up_to}
            audit.append(connection, by, _FORGIVEN, dataset, details)
