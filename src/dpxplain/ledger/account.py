"""The ledger as one analyst, or the local owner, may use it, and the failed charges of analysts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from dpxplain.errors import BadRequest, InternalError
from dpxplain.ledger import audit
from dpxplain.ledger.data_versions import check_or_open
from dpxplain.ledger.protocol import EVERYONE, damage_explained
from dpxplain.ledger.single_flight import Flights
from dpxplain.ledger.standing import (
    add_notice,
    charge_units,
    known_limit,
    latest_limit,
    rho_number,
    rho_text,
    standing,
)
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, LIMITS, LOG, RELEASES, SHARES
from dpxplain.ledger.validation import check_name, check_reason
from dpxplain.model.budget import Budget, check_rho, limit_units, rho_of_units
from dpxplain.model.charge import Charge, Entry, Spend

# Statements are built once: SQLAlchemy takes longer to build one than SQLite to run it.
_OF_DATASET = ENTRIES.c.dataset == sa.bindparam("dataset")
_OF_ANALYST = ENTRIES.c.analyst == sa.bindparam("analyst")
_WITH_ID = ENTRIES.c.id == sa.bindparam("entry")
_IS_RELEASED = RELEASES.c.entry.is_not(None).label("released")
# Of an analyst: entries of the owners whose entries they may see, and notices, which may have no analyst. The
# names come first, so that the index by analyst is used.
_OF_OWNERS = sa.and_(
    _OF_DATASET,
    ENTRIES.c.analyst.in_(sa.bindparam("names", expanding=True)),
    sa.or_(ENTRIES.c.analyst.in_(sa.bindparam("owners", expanding=True)), ENTRIES.c.charge_units == 0),
)
_SHARES = (
    sa.select(SHARES.c.owner, SHARES.c.reader, SHARES.c.shared)
    .where(
        SHARES.c.dataset == sa.bindparam("dataset"),
        SHARES.c.reader.in_(sa.bindparam("readers", expanding=True)),
    )
    .order_by(SHARES.c.id)
)


class _Reads(NamedTuple):
    """The statements of one kind of account: they return only entries that it may see."""

    by_key: sa.Select[Any]
    by_id: sa.Select[Any]
    history: sa.Select[Any]
    entry: sa.Select[Any]
    latest: sa.Select[Any]
    latest_of_version: sa.Select[Any]
    preparations: sa.Select[Any]


def _reads(visible: sa.ColumnElement[bool]) -> _Reads:
    entries = sa.select(ENTRIES, _IS_RELEASED).where(visible)
    released = entries.join(RELEASES)
    first_release = released.add_columns(RELEASES.c.payload).order_by(ENTRIES.c.id).limit(1)
    of_kind = ENTRIES.c.kind == sa.bindparam("kind")
    # Two searches by index: with OR, SQLite would go through all entries of the kind.
    of_subject = sa.union_all(
        sa.select(ENTRIES.c.id).where(_OF_DATASET, of_kind, ENTRIES.c.subject == sa.bindparam("subject")),
        sa.select(ENTRIES.c.id).where(_OF_DATASET, of_kind, ENTRIES.c.subject.is_(None)),
    )
    latest = released.where(of_kind).order_by(ENTRIES.c.id.desc()).limit(1)
    of_version = sa.or_(ENTRIES.c.version == sa.bindparam("version"), ENTRIES.c.version.is_(None))
    return _Reads(
        by_key=first_release.where(ENTRIES.c.key == sa.bindparam("key")),
        by_id=first_release.where(_WITH_ID),
        history=entries.outerjoin(RELEASES).order_by(ENTRIES.c.id),
        entry=entries.outerjoin(RELEASES).where(_WITH_ID),
        latest=latest,
        latest_of_version=latest.where(of_version),
        preparations=released.where(ENTRIES.c.id.in_(of_subject)).order_by(ENTRIES.c.id),
    )


_ALL, _VISIBLE = _reads(_OF_DATASET), _reads(_OF_OWNERS)
_CHARGED = sa.select(ENTRIES.c.dataset, _IS_RELEASED).outerjoin(RELEASES).where(_WITH_ID, _OF_ANALYST)
_UNRELEASED = (
    sa.select(ENTRIES.c.id, ENTRIES.c.time)
    .outerjoin(RELEASES)
    .where(_OF_DATASET, _OF_ANALYST, ENTRIES.c.charge_units > 0, RELEASES.c.entry.is_(None))
    .order_by(ENTRIES.c.id)
)
_FORGIVEN, _CANCELLED = "failures forgiven", "cancelled"
_FORGIVENESS = (
    sa.select(LOG.c.details)
    .where(LOG.c.dataset == sa.bindparam("dataset"), LOG.c.action == _FORGIVEN)
    .order_by(LOG.c.id.desc())
)
_CANCELLATIONS = sa.select(LOG.c.details).where(
    LOG.c.dataset == sa.bindparam("dataset"),
    LOG.c.action == _CANCELLED,
    LOG.c.actor == sa.bindparam("analyst"),
)


class Account:
    """The protocol `Ledger` for one analyst; "" is the local owner, who sees everything.

    `default_limit` (in units) is the allowance where none was granted; None leaves it to the data set's.
    """

    def __init__(
        self,
        store: Store,
        flights: Flights,
        analyst: str = "",
        *,
        sees_all: bool = True,
        default_limit: int | None = None,
    ) -> None:
        self._store = store
        self._flights = flights
        self._analyst = analyst
        self._statements = _ALL if sees_all or not analyst else _VISIBLE
        self._default_limit = default_limit

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        declared = limit_units(check_rho(limit, "limit"))
        if not 0 < delta < 1:
            raise BadRequest(f"delta must lie between 0 and 1, not {delta!r}.", remedy="Try delta=1e-6.")
        with self._store.reading() as connection:  # usually nothing has changed, and no lock is needed
            known = latest_limit(connection, dataset)
        if known is not None and (known.declared_units, known.delta) == (declared, delta):
            return
        with self._store.writing() as connection:
            _declare(connection, dataset, declared, delta)

    def budget(self, dataset: str) -> Budget:
        with self._store.single_read() as connection:
            return standing(connection, dataset, self._analyst, self._default_limit).budget()

    def reserve(self, dataset: str, charge: Charge) -> Entry:
        with self._store.writing() as connection:
            return self._charge(connection, dataset, charge)

    def reserve_once(self, dataset: str, charge: Charge) -> Entry | None:
        request = self._request(dataset, charge.key)
        entry = None
        try:
            with self._store.writing() as connection:
                if self._flights.is_settled(connection, request):
                    return None
                entry = self._charge(connection, dataset, charge)
                self._flights.begin(connection, request, entry.id)
        except BaseException:
            if entry is not None:  # nothing was charged, and its number may become another entry's
                self._flights.let_go(entry.id)
            raise
        return entry

    def is_measured(self, dataset: str, key: str) -> bool:
        return self._flights.is_measured(self._request(dataset, key))

    def abandon(self, entry: int) -> None:
        self._flights.abandon(entry)

    def _request(self, dataset: str, key: str) -> dict[str, Any]:
        """What a flight is found by. Of other analysts none is: they do not notice each other."""
        return {"dataset": dataset, "analyst": self._analyst, "key": key}

    def _charge(self, connection: sa.Connection, dataset: str, charge: Charge) -> Entry:
        """Check and write a charge; the transaction must hold the writers' lock."""
        units = charge_units(charge.rho, charge.spends)
        row = {
            "dataset": dataset,
            "analyst": self._analyst,
            "kind": charge.kind,
            "key": charge.key,
            "description": charge.request.words,
            "charge_units": units,
            "spends": audit.canonical([spend.to_row() for spend in charge.spends]),
            "request": None if charge.request.body is None else audit.canonical(charge.request.body),
            "subject": charge.subject,
            "version": None if charge.data is None else charge.data.version,
            "declarations": charge.declarations,
        }
        state = standing(connection, dataset, self._analyst, self._default_limit)
        if refusal := state.refusal(dataset, self._analyst, units):
            raise refusal
        if charge.data is not None:
            check_or_open(connection, dataset, charge.data, self._analyst)
        time = audit.now()
        line = audit.insert(connection, ENTRIES, row | {"time": time} | state.totals(units))
        audit.append_change(connection, self._analyst, audit.RESERVED, dataset, {ENTRIES: line}, time)
        return Entry(
            id=line["id"],
            time=datetime.fromisoformat(time),
            kind=charge.kind,
            description=charge.request.words,
            rho=rho_of_units(units),
            spends=charge.spends,
            state="reserved",
            key=charge.key,
            analyst=self._analyst,
            request=charge.request.body,
            version=None if charge.data is None else charge.data.version,
        )

    def check_affordable(self, dataset: str, rho: float) -> None:
        """The refusal that reserving would meet now, if any; nothing is charged."""
        with self._store.reading() as connection:
            state = standing(connection, dataset, self._analyst, self._default_limit)
        if refusal := state.refusal(dataset, self._analyst, charge_units(rho, ())):
            raise refusal

    def release(self, entry: int, payload: str) -> None:
        with self._store.writing() as connection:
            row = connection.execute(_CHARGED, {"entry": entry, "analyst": self._analyst}).one_or_none()
            if row is None or row.released:
                raise InternalError(
                    f"Entry {entry} cannot be released: it was never reserved, or was released before."
                )
            release = audit.insert(connection, RELEASES, {"entry": entry, "payload": payload})
            audit.append_change(connection, self._analyst, audit.RELEASED, row.dataset, {RELEASES: release})
            self._flights.land(connection, entry)

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return self._release(self._statements.by_key, dataset, key=key)

    def get(self, dataset: str, entry: int) -> tuple[Entry, str] | None:
        return self._release(self._statements.by_id, dataset, entry=_storable(entry))

    def history(self, dataset: str) -> list[Entry]:
        return [_entry(row) for row in self._rows(self._statements.history, dataset)]

    def entry(self, dataset: str, id: int) -> Entry | None:
        rows = self._rows(self._statements.entry, dataset, entry=_storable(id))
        return _entry(rows[0]) if rows else None

    def latest(self, dataset: str, kind: str, version: str | None = None) -> Entry | None:
        if version is None:
            rows = self._rows(self._statements.latest, dataset, kind=kind)
        else:
            rows = self._rows(self._statements.latest_of_version, dataset, kind=kind, version=version)
        return _entry(rows[0]) if rows else None

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        rows = self._rows(self._statements.preparations, dataset, kind="prepare", subject=subject)
        return [_entry(row) for row in rows]

    def close(self) -> None:
        """Nothing: the ledger stays open for the other accounts."""

    def _release(
        self, statement: sa.Select[Any], dataset: str, **wanted: str | int
    ) -> tuple[Entry, str] | None:
        rows = self._rows(statement, dataset, **wanted)
        return (_entry(rows[0]), rows[0].payload) if rows else None

    def _rows(self, statement: sa.Select[Any], dataset: str, **wanted: str | int) -> Sequence[sa.Row[Any]]:
        parameters: dict[str, Any] = {"dataset": dataset, **wanted}
        with self._store.reading() as connection:
            if self._statements is _VISIBLE:
                owners = [self._analyst, *_shared_with(connection, dataset, self._analyst)]
                parameters |= {"owners": owners, "names": [*owners, ""]}
            rows = connection.execute(statement, parameters).all()
            if not rows:
                known_limit(connection, dataset)
        return rows


@dataclass(frozen=True)
class Unreleased:
    """A charged entry without a release: it is running, or has failed."""

    id: int
    time: datetime


@dataclass(frozen=True)
class Suspects:
    """Charges of one analyst that may be, or are, failures."""

    unreleased: tuple[Unreleased, ...]
    cancelled: frozenset[int]
    """Of those that somebody asked to cancel, whether or not a release followed."""


class Failures:
    """Charges of a ledger that failed or were to be cancelled, and the curator's decisions to forgive them.

    That a charged request failed may depend on the data and, unlike its answer, has no noise. A server limits
    the number of such failures; the curator resets it by a record in the audit log. Cancelling counts by what
    was asked: if it counted only where no release followed, one of its two outcomes could be seen for free.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def record_cancellation(self, dataset: str, analyst: str, entry: int) -> None:
        """Record that the analyst asked to cancel a charged request."""
        with self._store.writing() as connection:
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
            tuple(Unreleased(row.id, datetime.fromisoformat(row.time)) for row in rows if row.id > up_to),
            frozenset(entry for entry in cancelled if entry > up_to),
        )

    def forgive(self, dataset: str, analyst: str, *, reason: str, by: str) -> None:
        """Stop counting the analyst's failures so far; the charges stay."""
        check_name(analyst)
        check_reason(reason)
        with self._store.writing() as connection:
            known_limit(connection, dataset)
            last = sa.select(sa.func.max(ENTRIES.c.id)).where(ENTRIES.c.dataset == dataset)
            up_to = connection.execute(last).scalar() or 0
            details = {"analyst": analyst, "reason": reason, "up_to": up_to}
            audit.append(connection, by, _FORGIVEN, dataset, details)


def _declare(connection: sa.Connection, dataset: str, declared: int, delta: float) -> None:
    """Record the declared limit and delta, if they have changed."""
    known = latest_limit(connection, dataset)
    if known is not None and (known.declared_units, known.delta) == (declared, delta):
        return  # another process has recorded it meanwhile
    time = audit.now()
    row = {
        "dataset": dataset,
        "time": time,
        "declared_units": declared,
        "top_up_units": 0 if known is None else known.top_up_units,
        "delta": delta,
        "reason": "declared in the schema",
        "by": "",
    }
    rows = {LIMITS: audit.insert(connection, LIMITS, row)}
    action = audit.OPENED
    if known is not None and known.declared_units == declared:
        action = audit.DELTA_CHANGED
    elif known is not None:
        action = audit.LIMIT_CHANGED
        old, new = known.declared_units + known.top_up_units, declared + known.top_up_units
        rows |= add_notice(
            connection,
            rows[LIMITS],
            "limit",
            f"limit changed from rho {rho_text(old)} to rho {rho_text(new)}",
            {"old_limit": rho_number(old), "new_limit": rho_number(new)},
        )
    audit.append_change(connection, "", action, dataset, rows, time)


def _shared_with(connection: sa.Connection, dataset: str, reader: str) -> list[str]:
    """Whose entries this reader may see. Only the newest share per (owner, reader) applies."""
    rows = connection.execute(_SHARES, {"dataset": dataset, "readers": [reader, EVERYONE]})
    newest = {(row.owner, row.reader): row.shared for row in rows}
    return sorted({owner for (owner, _), shared in newest.items() if shared})


def _storable(id: int) -> int:
    """The id, or one that no entry has if it is larger than a database can store."""
    return max(0, min(id, 2**63 - 1))


@damage_explained()
def _entry(row: sa.Row[Any]) -> Entry:
    return Entry(
        id=row.id,
        time=datetime.fromisoformat(row.time),
        kind=row.kind,
        description=row.description,
        rho=rho_of_units(row.charge_units),
        spends=tuple(map(Spend.from_row, json.loads(row.spends))),
        state="released" if row.released else "reserved",
        key=row.key,
        analyst=row.analyst,
        request=None if row.request is None else json.loads(row.request),
        version=row.version,
    )
