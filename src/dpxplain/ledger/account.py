"""The ledger as one analyst, or the local owner, may use it: the protocol of base.py on a database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest, InternalError
from dpxplain.ledger import audit
from dpxplain.ledger.amounts import charge_units, rho_text
from dpxplain.ledger.protocol import EVERYONE, Entry
from dpxplain.ledger.standing import add_notice, known_limit, latest_limit, rho_number, standing
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, LIMITS, RELEASES, SHARES
from dpxplain.model.budget import Budget, check_rho, limit_units, rho_of_units
from dpxplain.model.charge import Charge, Spend

# Statements are made once: SQLAlchemy takes longer to build one than SQLite to run it.
_FIRST_RELEASE = sa.select(ENTRIES, RELEASES.c.payload).join(RELEASES).order_by(ENTRIES.c.id).limit(1)
_LINES = (
    sa.select(ENTRIES, RELEASES.c.entry.is_not(None).label("released"))
    .outerjoin(RELEASES)
    .order_by(ENTRIES.c.id)
)
_WITH_KEY = ENTRIES.c.key == sa.bindparam("key")
_WITH_ID = ENTRIES.c.id == sa.bindparam("entry")
_OF_DATASET = ENTRIES.c.dataset == sa.bindparam("dataset")
# The names first, which an index finds; a notice to all goes by no name.
_VISIBLE = sa.and_(
    ENTRIES.c.analyst.in_(sa.bindparam("names", expanding=True)),
    sa.or_(ENTRIES.c.analyst.in_(sa.bindparam("owners", expanding=True)), ENTRIES.c.charge_units == 0),
)

# By whether the reader sees all.
_ENTRIES_SEEN = {True: _OF_DATASET, False: sa.and_(_OF_DATASET, _VISIBLE)}
_BY_KEY = {all: _FIRST_RELEASE.where(seen, _WITH_KEY) for all, seen in _ENTRIES_SEEN.items()}
_BY_ID = {all: _FIRST_RELEASE.where(seen, _WITH_ID) for all, seen in _ENTRIES_SEEN.items()}
_HISTORY = {all: _LINES.where(seen) for all, seen in _ENTRIES_SEEN.items()}

_CHARGED = (
    sa.select(ENTRIES.c.dataset, RELEASES.c.entry.is_not(None).label("released"))
    .outerjoin(RELEASES)
    .where(_WITH_ID, ENTRIES.c.analyst == sa.bindparam("analyst"))
)
_SHARES = (
    sa.select(SHARES.c.owner, SHARES.c.reader, SHARES.c.shared)
    .where(
        SHARES.c.dataset == sa.bindparam("dataset"),
        SHARES.c.reader.in_(sa.bindparam("readers", expanding=True)),
    )
    .order_by(SHARES.c.id)
)


class Account:
    """What `analyst` may spend and see; "" is the local owner, who sees everything.

    `default_limit` (in units) is the allowance where none was granted; None leaves it to the data set's.
    """

    def __init__(
        self, store: Store, analyst: str = "", *, sees_all: bool = True, default_limit: int | None = None
    ) -> None:
        self._store = store
        self._analyst = analyst
        self._sees_all = sees_all or not analyst
        self._default_limit = default_limit

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        declared = limit_units(check_rho(limit, "limit"))
        if not 0 < delta < 1:
            raise BadRequest(f"delta must lie between 0 and 1, not {delta!r}.", remedy="Try delta=1e-6.")
        with self._store.reading() as connection:  # mostly nothing has changed, and nobody need wait
            known = latest_limit(connection, dataset)
        if known is not None and (known.declared_units, known.delta) == (declared, delta):
            return
        with self._store.writing() as connection:
            _declare(connection, dataset, declared, delta)

    def budget(self, dataset: str) -> Budget:
        with self._store.reading() as connection:
            return standing(connection, dataset, self._analyst, self._default_limit).budget()

    def reserve(self, dataset: str, charge: Charge) -> int:
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
        }
        with self._store.writing() as connection:
            state = standing(connection, dataset, self._analyst, self._default_limit)
            if refusal := state.refusal(dataset, self._analyst, units):
                raise refusal
            time = audit.now()
            entry = audit.insert(connection, ENTRIES, row | {"time": time} | state.totals(units))
            audit.append_change(connection, self._analyst, audit.RESERVED, dataset, {ENTRIES: entry}, time)
        number: int = entry["id"]
        return number

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

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return self._first_release(_BY_KEY, dataset, key=key)

    def get(self, dataset: str, entry: int) -> tuple[Entry, str] | None:
        # A typed id may be larger than a database can hold; no entry has it.
        return self._first_release(_BY_ID, dataset, entry=max(0, min(entry, 2**63 - 1)))

    def history(self, dataset: str) -> list[Entry]:
        with self._store.reading() as connection:
            seen = self._seen(connection, dataset)
            rows = connection.execute(_HISTORY[self._sees_all], seen).all()
        return [_entry(row, released=row.released) for row in rows]

    def close(self) -> None:
        """Nothing: the ledger stays open for the other accounts."""

    def _first_release(
        self, statements: Mapping[bool, sa.Select[Any]], dataset: str, **wanted: str | int
    ) -> tuple[Entry, str] | None:
        with self._store.reading() as connection:
            seen = self._seen(connection, dataset)
            row = connection.execute(statements[self._sees_all], seen | wanted).one_or_none()
        return None if row is None else (_entry(row, released=True), row.payload)

    def _seen(self, connection: sa.Connection, dataset: str) -> dict[str, Any]:
        """Which entries this account may see, as parameters of the statements above."""
        known_limit(connection, dataset)
        if self._sees_all:
            return {"dataset": dataset}
        owners = [self._analyst, *_shared_with(connection, dataset, self._analyst)]
        return {"dataset": dataset, "owners": owners, "names": [*owners, ""]}


def _declare(connection: sa.Connection, dataset: str, declared: int, delta: float) -> None:
    """Write down what the schema declares, if that is news."""
    known = latest_limit(connection, dataset)
    if known is not None and (known.declared_units, known.delta) == (declared, delta):
        return  # another process was faster
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
    """Whose entries this reader may see; of each share the latest word counts."""
    said = connection.execute(_SHARES, {"dataset": dataset, "readers": [reader, EVERYONE]})
    latest = {(row.owner, row.reader): row.shared for row in said}
    return sorted({owner for (owner, _), shared in latest.items() if shared})


def _entry(row: sa.Row[Any], *, released: bool) -> Entry:
    return Entry(
        id=row.id,
        time=datetime.fromisoformat(row.time),
        kind=row.kind,
        description=row.description,
        rho=rho_of_units(row.charge_units),
        spends=tuple(map(Spend.from_row, json.loads(row.spends))),
        state="released" if released else "reserved",
        key=row.key,
        analyst=row.analyst,
        request=None if row.request is None else json.loads(row.request),
    )
