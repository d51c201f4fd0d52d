"""The ledger as one analyst, or the local owner, may use it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest, ChargeTakenOver, InternalError, LedgerUnavailable, SchemaError
from dpxplain.ledger import audit
from dpxplain.ledger.account_totals import count_entry
from dpxplain.ledger.data_versions import check_or_open
from dpxplain.ledger.single_flight import Flights, may_follow, put_back
from dpxplain.ledger.standing import (
    add_notice,
    charge_units,
    check_delta,
    discovered_delta,
    latest_limit,
    rho_number,
    rho_text,
    spent_delta,
    standing,
)
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, FLIGHTS, LIMITS, RELEASES, UNRELEASED
from dpxplain.ledger.visible_entries import LARGEST_PAGE, VisibleEntries
from dpxplain.model.budget import Budget, check_rho, limit_units, rho_of_units
from dpxplain.model.charge import Charge, Ending, Entry, EntryId, HistoryPage, gaussian_units, whole_history

_CHARGED_ENTRY = (
    sa.select(
        *(ENTRIES.c.dataset, ENTRIES.c.kind, ENTRIES.c.key, RELEASES.c.entry.is_not(None).label("released")),
        *(FLIGHTS.c.entry.is_not(None).label("is_measured"), FLIGHTS.c.process),
    )
    .select_from(ENTRIES)
    .outerjoin(RELEASES)
    .outerjoin(FLIGHTS, FLIGHTS.c.entry == ENTRIES.c.id)
    .where(ENTRIES.c.id == sa.bindparam("entry"), ENTRIES.c.analyst == sa.bindparam("analyst"))
)

_CHARGES_OF_KEY = (
    sa.select(RELEASES.c.entry.label("released"), FLIGHTS.c.heard)
    .select_from(ENTRIES)
    .outerjoin(RELEASES)
    .outerjoin(FLIGHTS, FLIGHTS.c.entry == ENTRIES.c.id)
    .where(
        ENTRIES.c.dataset == sa.bindparam("dataset"),
        ENTRIES.c.key == sa.bindparam("key"),
        ENTRIES.c.id != sa.bindparam("besides"),
    )
)
_ADD_UNRELEASED = sa.insert(UNRELEASED)
_DELETE_UNRELEASED = sa.delete(UNRELEASED).where(UNRELEASED.c.entry == sa.bindparam("released"))


class Account:
    """The protocol `Ledger` for one analyst; "" is the local owner, who sees everything.

    `default_limit`, in units, is the allowance without a grant; None: only the data set's limit applies.
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
        self._visible = VisibleEntries(store, analyst, sees_all=sees_all)
        self._default_limit = default_limit

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        declared = limit_units(check_rho(limit, "limit"))
        if not 0 < delta < 1:
            raise BadRequest(f"delta must be between 0 and 1, not {delta!r}.", remedy="Try delta=1e-6.")
        with self._store.reading() as connection:  # usually nothing has changed, and no lock is needed
            latest = latest_limit(connection, dataset)
        if latest is not None and (latest.declared_units, latest.delta) == (declared, delta):
            return
        with self._store.recording() as connection:
            _declare(connection, dataset, declared, delta)

    def budget(self, dataset: str) -> Budget:
        with self._store.single_read() as connection:
            state = standing(connection, dataset, self._analyst, self._default_limit)
        if not state.has_discoveries:  # nearly always
            return state.budget()
        with self._store.single_read() as connection:
            return state.budget(discovered_delta(connection, dataset))

    def reserve(self, dataset: str, charge: Charge) -> Entry:
        with self._store.charging() as connection:
            return self._charge(connection, dataset, charge)

    def reserve_once(self, dataset: str, charge: Charge) -> Entry | None:
        request = self._request(dataset, charge.key)
        entry = None
        try:
            with self._store.charging() as connection:
                flight = self._flights.end_silent(connection).get((dataset, self._analyst, charge.key))
                kept = self._kept_charge(connection, dataset, charge, flight)
                if kept is not None:
                    entry = kept
                    self._flights.take_over(connection, request, entry.row, flight)
                    return entry
                if self._flights.is_settled(connection, request, flight):
                    return None
                entry = self._charge(connection, dataset, charge)
                self._flights.begin(connection, request, entry.row)
        except LedgerUnavailable:
            if entry is not None:  # it may be committed; the heartbeat marks it once the ledger is back
                self._flights.doubt(entry.row)
            raise
        except BaseException:
            if entry is not None:  # nothing was charged, and another entry may get its row
                self._flights.let_go(entry.row)
            raise
        return entry

    def _kept_charge(
        self, connection: sa.Connection, dataset: str, charge: Charge, flight: sa.Row[Any] | None
    ) -> Entry | None:
        """The entry of an identical charge, if it was never released and no process is measuring it."""
        id = self._flights.kept_charge(connection, self._request(dataset, charge.key), flight)
        if id is None:
            return None
        stored = connection.execute(sa.select(ENTRIES).where(ENTRIES.c.id == id)).mappings().one()
        if any(stored[name] != value for name, value in self._row(dataset, charge).items()):
            return None
        if charge.kind == "discover":
            _check_undiscovered(connection, dataset, charge.key, besides=id)
        if charge.data is not None:
            check_or_open(connection, dataset, charge.data, self._analyst)
        return self._entry(charge, dict(stored))

    def is_measured(self, dataset: str, key: str) -> bool:
        return self._flights.is_measured(self._request(dataset, key))

    def abandon(self, entry: int, ending: Ending = Ending.FAILED) -> None:
        self._flights.abandon(entry, ending)

    def _request(self, dataset: str, key: str) -> dict[str, Any]:
        """The key of a flight. It names the analyst: analysts do not wait for each other's requests."""
        return {"dataset": dataset, "analyst": self._analyst, "key": key}

    def _charge(self, connection: sa.Connection, dataset: str, charge: Charge) -> Entry:
        """Checks and writes a charge. The transaction must hold the writers' lock."""
        row = self._row(dataset, charge)
        units = row["charge_units"]
        state = standing(connection, dataset, self._analyst, self._default_limit)
        if self._store.anchor is not None:
            self._store.anchor.check_spent(dataset, self._analyst, state.spent, state.own_spent)
        if refusal := state.refusal(dataset, self._analyst, units):
            raise refusal
        if charge.kind == "discover":
            _check_undiscovered(connection, dataset, charge.key)
            check_delta(connection, dataset, charge)
        if charge.data is not None:
            check_or_open(connection, dataset, charge.data, self._analyst)
        time = audit.now()
        gaussian = gaussian_units(units, charge.spends)
        number = {"number": count_entry(connection, dataset, self._analyst, units, gaussian)}
        line = audit.insert(connection, ENTRIES, row | {"time": time} | number | state.totals(units))
        audit.append_change(connection, self._analyst, audit.RESERVED, dataset, {ENTRIES: line}, time)
        unreleased = {"entry": line["id"], "dataset": dataset, "analyst": self._analyst}
        connection.execute(_ADD_UNRELEASED, unreleased)
        return self._entry(charge, line)

    def _row(self, dataset: str, charge: Charge) -> dict[str, Any]:
        """The columns of an entry that its charge determines: all but its time, number and totals."""
        return {
            "dataset": dataset,
            "analyst": self._analyst,
            "kind": charge.kind,
            "key": charge.key,
            "description": charge.request.words,
            "charge_units": charge_units(charge.rho, charge.spends),
            "spends": audit.canonical([spend.to_row() for spend in charge.spends]),
            "request": None if charge.request.body is None else audit.canonical(charge.request.body),
            "subject": charge.subject,
            "version": None if charge.data is None else charge.data.version,
            "declarations": charge.declarations,
        }

    def _entry(self, charge: Charge, row: Mapping[str, Any]) -> Entry:
        return Entry(
            id=row["id"] if row["number"] is None else row["number"],
            row=row["id"],
            time=datetime.fromisoformat(row["time"]),
            kind=charge.kind,
            description=charge.request.words,
            rho=rho_of_units(charge_units(charge.rho, charge.spends)),
            spends=charge.spends,
            state="reserved",
            key=charge.key,
            analyst=self._analyst,
            request=charge.request.body,
            version=None if charge.data is None else charge.data.version,
        )

    def check_affordable(self, dataset: str, rho: float, key: str) -> None:
        """Raises the budget error that reserving this request would raise now. Charges nothing."""
        with self._store.reading() as connection:
            state = standing(connection, dataset, self._analyst, self._default_limit)
            if self._flights.is_kept(connection, self._request(dataset, key)):
                return  # `reserve_once` checks whether the charge is identical
        if refusal := state.refusal(dataset, self._analyst, charge_units(rho, ())):
            raise refusal

    def release(self, entry: int, payload: str) -> None:
        with self._store.writing() as connection:
            self._check_not_put_back(connection)
            row = connection.execute(_CHARGED_ENTRY, {"entry": entry, "analyst": self._analyst}).one_or_none()
            is_flight_of_other = row is not None and row.is_measured and row.process != self._flights.process
            if is_flight_of_other or (row is not None and row.released and self._flights.measures(entry)):
                self._flights.let_go(entry)
                raise ChargeTakenOver("Another process took over this request.", remedy="Ask again.")
            if row is None or row.released:
                raise InternalError(
                    f"Entry {entry} cannot be released: it was never reserved, or was released before."
                )
            if self._flights.measures(entry) and not row.is_measured:
                self._flights.check_own(connection, row.dataset, entry)
            if row.kind == "discover":  # another process may have made it while this one was silent
                _check_undiscovered(connection, row.dataset, row.key, besides=entry)
            release = audit.insert(connection, RELEASES, {"entry": entry, "payload": payload})
            audit.append_change(connection, self._analyst, audit.RELEASED, row.dataset, {RELEASES: release})
            connection.execute(_DELETE_UNRELEASED, {"released": entry})
            self._flights.land(connection, entry)
        self._flights.let_go(entry)

    def _check_not_put_back(self, connection: sa.Connection) -> None:
        """Raises if the ledger is an older copy: it may lack a later take-over or release of this charge."""
        anchor = self._store.anchor
        if anchor is not None and anchor.readable() is not None and anchor.problem(connection) is not None:
            raise put_back()

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return self._visible.by_key(dataset, key)

    def get(self, dataset: str, entry: EntryId) -> tuple[Entry, str] | None:
        stored = self._visible.by_id(dataset, entry)
        return None if stored is None or stored[1] is None else (stored[0], stored[1])

    def history_page(
        self, dataset: str, before: EntryId | None = None, limit: int = LARGEST_PAGE
    ) -> HistoryPage:
        return self._visible.page(dataset, before, limit)

    def history(self, dataset: str) -> list[Entry]:
        return whole_history(lambda before: self.history_page(dataset, before))

    def discovered(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return VisibleEntries(self._store, self._analyst, sees_all=True).by_key(dataset, key)

    def spent_delta(self, dataset: str, column: str | None = None, *, besides: str = "") -> float:
        with self._store.reading() as connection:
            kept = self._flights.kept_entry(connection, self._request(dataset, besides))
            return spent_delta(connection, dataset, column, besides=kept)

    def entry(self, dataset: str, id: EntryId) -> Entry | None:
        stored = self._visible.by_id(dataset, id)
        return None if stored is None else stored[0]

    def at_row(self, dataset: str, row: int) -> Entry | None:
        """The entry in this row, as a job or a flight names it."""
        stored = self._visible.at_row(dataset, row)
        return None if stored is None else stored[0]

    def latest(self, dataset: str, kind: str, version: str | None = None) -> Entry | None:
        return self._visible.latest(dataset, kind, version)

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        return self._visible.preparations(dataset, subject)

    def close(self) -> None:
        """Does nothing: the ledger stays open for the other accounts."""


def _check_undiscovered(connection: sa.Connection, dataset: str, key: str, besides: int = 0) -> None:
    """Raises if the column was discovered before, or a running request may still discover it."""
    charges = connection.execute(_CHARGES_OF_KEY, {"dataset": dataset, "key": key, "besides": besides})
    if any(row.released is not None or may_follow(row.heard) for row in charges):
        raise BadRequest(
            "The values of this column have already been discovered, or are being discovered right now.",
            remedy="Look at the schema again in a moment. It lists the values found.",
        )


def _declare(connection: sa.Connection, dataset: str, declared: int, delta: float) -> None:
    """Record the declared limit and delta, if they have changed."""
    latest = latest_limit(connection, dataset)
    if latest is not None and (latest.declared_units, latest.delta) == (declared, delta):
        return  # another process has recorded it meanwhile
    if latest is not None and delta < latest.delta:
        spent = discovered_delta(connection, dataset)
        if delta < spent:
            raise SchemaError(
                f"privacy.delta cannot be lowered to {delta:g}: discovering values has already spent "
                f"up to δ = {spent:g}.",
                remedy=f"Keep delta = {latest.delta:g}. Budget that was spent cannot be taken back.",
            )
    time = audit.now()
    row = {
        "dataset": dataset,
        "time": time,
        "declared_units": declared,
        "top_up_units": 0 if latest is None else latest.top_up_units,
        "delta": delta,
        "reason": "declared in the schema",
        "by": "",
    }
    rows = {LIMITS: audit.insert(connection, LIMITS, row)}
    action = audit.OPENED
    if latest is not None and latest.declared_units == declared:
        action = audit.DELTA_CHANGED
    elif latest is not None:
        action = audit.LIMIT_CHANGED
        old, new = latest.declared_units + latest.top_up_units, declared + latest.top_up_units
        rows |= add_notice(
            connection,
            rows[LIMITS],
            "limit",
            f"limit changed from rho {rho_text(old)} to rho {rho_text(new)}",
            {"old_limit": rho_number(old), "new_limit": rho_number(new)},
        )
    audit.append_change(connection, "", action, dataset, rows, time)
