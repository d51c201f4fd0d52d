"""The ledger as one analyst, or the local owner, may use it: charges and releases, the history that they may
see, and the data that each version of a data set names.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from dpxplain.errors import (
    BadRequest,
    ChargeTakenOver,
    DataChanged,
    InternalError,
    LedgerUnavailable,
    SchemaError,
)
from dpxplain.ledger import audit
from dpxplain.ledger.balances import (
    DISCOVERY,
    add_notice,
    charge_units,
    check_delta,
    discovered_delta,
    known_limit,
    latest_limit,
    rho_number,
    rho_text,
    spent_delta,
    standing,
)
from dpxplain.ledger.protocol import EVERYONE, DataVersion, damage_explained
from dpxplain.ledger.single_flight import Flights, may_follow, older_copy_restored
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import (
    ENTRIES,
    FILE_STATES,
    FLIGHTS,
    LIMITS,
    PUBLIC_NOTICE,
    RELEASES,
    SHARES,
    UNRELEASED,
    VERSIONS,
    WITH_SUBJECT,
    count_entry,
    matching,
)
from dpxplain.model.charge import (
    LARGEST_NUMBER,
    NOTICE_OWNER,
    Budget,
    Charge,
    DataState,
    Ending,
    Entry,
    EntryId,
    HistoryPage,
    Spend,
    check_rho,
    gaussian_units,
    limit_units,
    read_id,
    rho_of_units,
    whole_history,
    written_id,
)
from dpxplain.model.confidential import ContentDigest

# -- Visible entries ---------------------------------------------------------------------------------------
#
# Every read uses an index, however long the history is.
#
# Entries shared by several analysts are read analyst by analyst and merged: one statement for all analysts
# would have to read and sort everything that they asked.

LARGEST_PAGE = 1_000
"""Lines read at once. Meanwhile other requests of this process may wait for the database."""
_NOTICE_KINDS = frozenset({"limit", "top-up", "grant"})
"""Kinds of entries that charge nothing."""
MOST_PREPARATIONS = 200
"""Preparations considered for one query: the most expensive ones, which are the most precise."""

_OF_DATASET = matching(ENTRIES, "dataset")
_IS_NOTICE = sa.and_(ENTRIES.c.analyst == "", ENTRIES.c.charge_units == 0)
_ROW_ID = attrgetter("id")
_IS_RELEASED = RELEASES.c.entry.is_not(None).label("released")
_SHARES = (
    sa.select(SHARES.c.owner, SHARES.c.reader, SHARES.c.shared)
    .where(matching(SHARES, "dataset"), SHARES.c.reader.in_(sa.bindparam("readers", expanding=True)))
    .order_by(SHARES.c.id)
)


class _Statements(NamedTuple):
    """The statements that read one range of entries: all of a data set, or those of one analyst."""

    by_key: sa.Select[Any]
    page: sa.Select[Any]
    latest: sa.Select[Any]
    preparations: sa.Select[Any]


_ENTRIES = sa.select(ENTRIES, _IS_RELEASED)
_AT_ROW = _ENTRIES.outerjoin(RELEASES).where(_OF_DATASET, ENTRIES.c.id == sa.bindparam("number"))
_WITHOUT_NUMBER = _AT_ROW.where(ENTRIES.c.number.is_(None))
_AT_NUMBER = _ENTRIES.outerjoin(RELEASES).where(matching(ENTRIES, "dataset", "number"))
_BY_NUMBER = _AT_NUMBER.where(ENTRIES.c.analyst == sa.bindparam("owner"), sa.not_(_IS_NOTICE))
_NOTICE_BY_NUMBER = _AT_NUMBER.where(_IS_NOTICE)
_PAYLOAD = sa.select(RELEASES.c.payload).where(RELEASES.c.entry == sa.bindparam("of_entry"))
_VERSION_NAMES = sa.select(VERSIONS.c.version).where(matching(VERSIONS, "dataset"))


def _statements(*conditions: sa.ColumnElement[bool]) -> _Statements:
    entries = _ENTRIES.where(_OF_DATASET, *conditions)
    released = entries.join(RELEASES)
    of_kind = sa.select(ENTRIES.c.id).join(RELEASES).where(matching(ENTRIES, "dataset", "kind"), *conditions)
    # Two index searches, because with OR the databases would read all entries of the kind.
    newest = [
        sa.select(of_kind.where(version).order_by(ENTRIES.c.id.desc()).limit(1).subquery().c.id)
        for version in (matching(ENTRIES, "version"), ENTRIES.c.version.is_(None))
    ]
    most_precise = (
        sa.select(ENTRIES.c.id)
        .join(RELEASES)
        .where(matching(ENTRIES, "dataset", "subject"), *conditions, sa.text(WITH_SUBJECT))
        .order_by(ENTRIES.c.charge_units.desc())
        .limit(MOST_PREPARATIONS)
    )
    return _Statements(
        by_key=released.add_columns(RELEASES.c.payload)
        .where(matching(ENTRIES, "key"))
        .order_by(ENTRIES.c.id + 0)  # without + 0, both databases might read all entries in order
        .limit(1),
        page=entries.outerjoin(RELEASES)
        .where(ENTRIES.c.id < sa.bindparam("before"))
        .order_by(ENTRIES.c.id.desc())
        .limit(sa.bindparam("limit")),
        latest=_ENTRIES.join(RELEASES)
        .where(ENTRIES.c.id.in_(sa.union_all(*newest)))
        .order_by(ENTRIES.c.id.desc())
        .limit(1),
        preparations=_ENTRIES.join(RELEASES)
        .where(ENTRIES.c.id.in_(sa.select(most_precise.subquery().c.id)))
        .order_by(ENTRIES.c.id),
    )


_EVERY_ENTRY = _statements()
_ENTRIES_OF_OWNER = _statements(ENTRIES.c.analyst == sa.bindparam("owner"))
_NOTICES = _statements(sa.text(PUBLIC_NOTICE))  # type: ignore[arg-type]


class _Range(NamedTuple):
    """Entries that one statement reads; `owner` is set if they are one analyst's."""

    statements: _Statements
    owner: str | None


class VisibleEntries:
    """What `analyst` sees of a ledger: their own entries and those shared with them, or everything."""

    def __init__(self, store: Store, analyst: str = "", *, sees_all: bool = True) -> None:
        self.store = store
        self._analyst = analyst
        self._sees_all = sees_all or not analyst

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        rows = self._rows(dataset, lambda statements: statements.by_key, key=key)
        row = min(rows, key=_ROW_ID, default=None)
        return None if row is None else (self._entry(row._asdict()), row.payload)

    def get(self, dataset: str, entry: EntryId) -> tuple[Entry, str] | None:
        with self.store.reading() as connection:
            row = self._numbered(connection, dataset, entry)
            if row is None:  # a hidden release is not read either, because the time would reveal it
                return None
            payload = connection.execute(_PAYLOAD, {"of_entry": row.id}).scalar_one_or_none()
        return None if payload is None else (self._entry(row._asdict()), payload)

    def entry(self, dataset: str, id: EntryId) -> Entry | None:
        with self.store.reading() as connection:
            row = self._numbered(connection, dataset, id)
        return None if row is None else self._entry(row._asdict())

    def at_row(self, dataset: str, row: int) -> Entry | None:
        """The entry in this row, as a job or a flight names it."""
        with self.store.reading() as connection:
            stored = connection.execute(_AT_ROW, {"dataset": dataset, "number": row}).one_or_none()
            stored = self._if_visible(connection, dataset, stored)
        return None if stored is None else self._entry(stored._asdict())

    def _numbered(self, connection: sa.Connection, dataset: str, id: EntryId) -> sa.Row[Any] | None:
        """The row of an entry of the analyst, or of the owner whom the number names.

        A charge for lost records has its row's id in place of a number.
        """
        number, owner = read_id(id) or (0, None)
        wanted = {"dataset": dataset, "number": number, "owner": self._analyst if owner is None else owner}
        by_number = _NOTICE_BY_NUMBER if owner == NOTICE_OWNER else _BY_NUMBER
        for statement in (by_number, _WITHOUT_NUMBER):
            row = connection.execute(statement, wanted).one_or_none()
            if row is not None and (owner is None or by_number is _NOTICE_BY_NUMBER or row.analyst == owner):
                return self._if_visible(connection, dataset, row)
        known_limit(connection, dataset)
        return None

    def _if_visible(
        self, connection: sa.Connection, dataset: str, row: sa.Row[Any] | None
    ) -> sa.Row[Any] | None:
        if row is None or self._sees_all or row.analyst == self._analyst or _is_notice(row._asdict()):
            return row
        return row if row.analyst in self._owners(connection, dataset) else None

    def latest(self, dataset: str, kind: str, version: str | None = None) -> Entry | None:
        rows: list[sa.Row[Any]] = []
        with self.store.reading() as connection:
            wanted = {"dataset": dataset, "kind": kind}
            versions = [version]
            if version is None:
                versions = [*connection.execute(_VERSION_NAMES, {"dataset": dataset}).scalars(), ""]
            for statements, owner in self._ranges(connection, dataset, with_notices=kind in _NOTICE_KINDS):
                for of_version in versions:
                    parameters = wanted | {"owner": owner, "version": of_version}
                    rows += connection.execute(statements.latest, parameters).all()
            if not rows:
                known_limit(connection, dataset)
        row = max(rows, key=_ROW_ID, default=None)
        return None if row is None else self._entry(row._asdict())

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        rows = self._rows(dataset, lambda statements: statements.preparations, subject=subject)
        return [self._entry(row._asdict()) for row in sorted(rows, key=_ROW_ID)]

    def history_page(
        self, dataset: str, before: EntryId | None = None, limit: int = LARGEST_PAGE
    ) -> HistoryPage:
        count = max(1, min(limit, LARGEST_PAGE))
        rows: list[sa.Row[Any]] = []
        spent = 0  # in total, up to the newest of these lines
        with self.store.reading() as connection:
            end = LARGEST_NUMBER if before is None else self._row_of(connection, dataset, before)
            wanted = {"dataset": dataset, "before": end, "limit": count + 1}
            for statements, owner in self._ranges(connection, dataset, with_notices=True):
                newest = connection.execute(statements.page, wanted | {"owner": owner}).all()
                rows += newest
                if newest and self._sees_all:
                    spent = newest[0].total_units
                elif newest and statements is _ENTRIES_OF_OWNER:
                    spent += newest[0].own_units
            if not rows:
                known_limit(connection, dataset)
        rows = sorted(rows, key=_ROW_ID, reverse=True)
        page = rows[:count]
        entries = []
        for row in page:
            entries.append(self._entry(row._asdict(), spent))
            spent -= row.charge_units
        return HistoryPage(entries[::-1], entries[-1].id if len(rows) > count else None)

    def history(self, dataset: str) -> list[Entry]:
        return whole_history(lambda before: self.history_page(dataset, before))

    def _row_of(self, connection: sa.Connection, dataset: str, before: EntryId) -> int:
        """The row of the entry with this number. Raises BadRequest if the analyst cannot see it."""
        row = self._numbered(connection, dataset, before)
        if row is None:
            raise BadRequest(
                f"The history of {dataset!r} has no line {str(before)[:40]!r}.",
                remedy='To start with the newest lines, leave out "before".',
            )
        return int(row.id)

    def _rows(
        self,
        dataset: str,
        choose: Callable[[_Statements], sa.Select[Any]],
        **wanted: str | int,
    ) -> list[sa.Row[Any]]:
        """The rows that the chosen statement finds in each range."""
        rows: list[sa.Row[Any]] = []
        with self.store.reading() as connection:
            for statements, owner in self._ranges(connection, dataset, with_notices=False):
                parameters = {"dataset": dataset, "owner": owner, **wanted}
                rows += connection.execute(choose(statements), parameters).all()
            if not rows:
                known_limit(connection, dataset)
        return rows

    def _ranges(self, connection: sa.Connection, dataset: str, with_notices: bool) -> Iterator[_Range]:
        if self._sees_all:
            yield _Range(_EVERY_ENTRY, None)
            return
        owners = self._owners(connection, dataset)
        for owner in owners:
            yield _Range(_ENTRIES_OF_OWNER, owner)
        if with_notices and "" not in owners:
            yield _Range(_NOTICES, None)

    def _owners(self, connection: sa.Connection, dataset: str) -> Sequence[str]:
        """The people whose entries the analyst may see. Only the newest share per (owner, reader) applies."""
        rows = connection.execute(_SHARES, {"dataset": dataset, "readers": [self._analyst, EVERYONE]})
        newest = {(row.owner, row.reader): row.shared for row in rows}
        return sorted({self._analyst} | {owner for (owner, _), shared in newest.items() if shared})

    @damage_explained()
    def _entry(self, row: Mapping[str, Any], total_units: int = 0) -> Entry:
        """The entry in a row. A row that was just written does not say whether it is released."""
        is_own = row["analyst"] == self._analyst
        id: EntryId = row["id"] if row["number"] is None else row["number"]
        if row["number"] is not None and (_is_notice(row) or not is_own):
            id = written_id(row["number"], NOTICE_OWNER if _is_notice(row) else row["analyst"])
        request = None if row["request"] is None else json.loads(row["request"])
        return Entry(
            id=id,
            row=row["id"],
            time=datetime.fromisoformat(row["time"]),
            kind=row["kind"],
            description=row["description"],
            rho=rho_of_units(row["charge_units"]),
            spends=tuple(map(Spend.from_row, json.loads(row["spends"]))),
            state="released" if row.get("released") else "reserved",
            key=row["key"],
            analyst=row["analyst"],
            request=request if is_own else _with_owner(request, row["analyst"]),
            version=row["version"],
            total_rho=rho_of_units(total_units),
        )


def _with_owner(request: Any, owner: str) -> Any:
    """An analyst's request as other people may repeat it: the number of its answer also names the owner."""
    if isinstance(request, dict) and isinstance(number := request.get("answer"), int):
        return request | {"answer": written_id(number, owner)}
    return request


def _is_notice(row: Mapping[str, Any]) -> bool:
    return bool(row["analyst"] == "" and row["charge_units"] == 0)


# -- Account -----------------------------------------------------------------------------------------------

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
    .where(matching(ENTRIES, "dataset", "key"), ENTRIES.c.id != sa.bindparam("besides"))
)
_ADD_UNRELEASED = sa.insert(UNRELEASED)
_DELETE_UNRELEASED = sa.delete(UNRELEASED).where(UNRELEASED.c.entry == sa.bindparam("released"))


class Account(VisibleEntries):
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
        super().__init__(store, analyst, sees_all=sees_all)
        self.flights = flights
        self._default_limit = default_limit

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        declared = limit_units(check_rho(limit, "limit"))
        if not 0 < delta < 1:
            raise BadRequest(f"delta must be between 0 and 1, not {delta!r}.", remedy="Try delta=1e-6.")
        with self.store.reading() as connection:  # usually nothing has changed, and no lock is needed
            latest = latest_limit(connection, dataset)
        if latest is not None and (latest.declared_units, latest.delta) == (declared, delta):
            return
        with self.store.recording() as connection:
            _declare(connection, dataset, declared, delta)

    def budget(self, dataset: str) -> Budget:
        with self.store.single_read() as connection:
            state = standing(connection, dataset, self._analyst, self._default_limit)
        if not state.has_discoveries:  # nearly always
            return state.budget()
        with self.store.single_read() as connection:
            return state.budget(discovered_delta(connection, dataset))

    def reserve(self, dataset: str, charge: Charge) -> Entry:
        with self.store.charging() as connection:
            return self._charge(connection, dataset, charge)

    def reserve_once(self, dataset: str, charge: Charge) -> Entry | None:
        request = self._request(dataset, charge.key)
        entry = None
        try:
            with self.store.charging() as connection:
                flight = self.flights.end_silent(connection).get((dataset, self._analyst, charge.key))
                kept_entry = self._kept_charge(connection, dataset, charge, flight)
                if kept_entry is not None:
                    entry = kept_entry
                    self.flights.take_over(connection, request, entry.row, flight)
                    return entry
                if self.flights.is_settled(connection, request, flight):
                    return None
                entry = self._charge(connection, dataset, charge)
                self.flights.begin(connection, request, entry.row)
        except LedgerUnavailable:
            if entry is not None:  # it may be committed; the heartbeat marks it once the ledger is back
                self.flights.mark_doubtful(entry.row)
            raise
        except BaseException:
            if entry is not None:  # nothing was charged, and another entry may get its row
                self.flights.stop_heartbeat(entry.row)
            raise
        return entry

    def _kept_charge(
        self, connection: sa.Connection, dataset: str, charge: Charge, flight: sa.Row[Any] | None
    ) -> Entry | None:
        """The entry of an identical charge, if it was never released and no process is measuring it.

        Identical includes the description: if the request's words have changed, it is charged anew.
        """
        id = self.flights.kept_entry(connection, self._request(dataset, charge.key), flight)
        if id is None:
            return None
        stored = connection.execute(sa.select(ENTRIES).where(ENTRIES.c.id == id)).mappings().one()
        if any(stored[name] != value for name, value in self._row(dataset, charge).items()):
            return None
        if charge.kind == DISCOVERY:
            _check_undiscovered(connection, dataset, charge.key, besides=id)
        if charge.data is not None:
            check_or_open(connection, dataset, charge.data, self._analyst)
        return self._entry(dict(stored))

    def is_measured(self, dataset: str, key: str) -> bool:
        return self.flights.is_measured(self._request(dataset, key))

    def abandon(self, entry: int, ending: Ending = Ending.FAILED) -> None:
        self.flights.abandon(entry, ending)

    def _request(self, dataset: str, key: str) -> dict[str, Any]:
        """The key of a flight. It names the analyst: analysts do not wait for each other's requests."""
        return {"dataset": dataset, "analyst": self._analyst, "key": key}

    def _charge(self, connection: sa.Connection, dataset: str, charge: Charge) -> Entry:
        """Checks and writes a charge. The transaction must hold the writers' lock."""
        row = self._row(dataset, charge)
        units = row["charge_units"]
        state = standing(connection, dataset, self._analyst, self._default_limit)
        if self.store.anchor is not None:
            self.store.anchor.check_spent(dataset, self._analyst, state.spent, state.own_spent)
        if refusal := state.refusal(dataset, self._analyst, units):
            raise refusal
        if charge.kind == DISCOVERY:
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
        return self._entry(line)

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

    def check_affordable(self, dataset: str, rho: float, key: str) -> None:
        """Raises the budget error that reserving this request would raise now. Charges nothing."""
        with self.store.reading() as connection:
            state = standing(connection, dataset, self._analyst, self._default_limit)
            if self.flights.is_kept(connection, self._request(dataset, key)):
                return  # `reserve_once` checks whether the charge is identical
        if refusal := state.refusal(dataset, self._analyst, charge_units(rho, ())):
            raise refusal

    def release(self, entry: int, payload: str) -> None:
        with self.store.writing() as connection:
            self._check_not_restored(connection)
            row = connection.execute(_CHARGED_ENTRY, {"entry": entry, "analyst": self._analyst}).one_or_none()
            is_flight_of_other = row is not None and row.is_measured and row.process != self.flights.process
            if is_flight_of_other or (row is not None and row.released and self.flights.measures(entry)):
                self.flights.stop_heartbeat(entry)
                raise ChargeTakenOver("Another process took over this request.", remedy="Ask again.")
            if row is None or row.released:
                raise InternalError(
                    f"Entry {entry} cannot be released: it was never reserved, or was released before."
                )
            if self.flights.measures(entry) and not row.is_measured:
                self.flights.check_own(connection, row.dataset, entry)
            if row.kind == DISCOVERY:  # another process may have made it while this one was silent
                _check_undiscovered(connection, row.dataset, row.key, besides=entry)
            release = audit.insert(connection, RELEASES, {"entry": entry, "payload": payload})
            audit.append_change(connection, self._analyst, audit.RELEASED, row.dataset, {RELEASES: release})
            connection.execute(_DELETE_UNRELEASED, {"released": entry})
            self.flights.end_with_release(connection, entry)
        self.flights.stop_heartbeat(entry)

    def _check_not_restored(self, connection: sa.Connection) -> None:
        """Raises if the ledger is an older copy: it may lack a later take-over or release of this charge."""
        anchor = self.store.anchor
        if anchor is not None and anchor.readable() is not None and anchor.problem(connection) is not None:
            raise older_copy_restored()

    def discovered(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return VisibleEntries(self.store, self._analyst).find(dataset, key)

    def spent_delta(self, dataset: str, column: str | None = None, *, besides: str = "") -> float:
        with self.store.reading() as connection:
            request = self._request(dataset, besides)
            kept_entry = self.flights.kept_entry(connection, request, self.flights.find(connection, request))
            return spent_delta(connection, dataset, column, besides=kept_entry)

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
    """Records the declared limit and delta, if they have changed."""
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


# -- Data versions -----------------------------------------------------------------------------------------
#
# Data are recognised by keyed fingerprints of their content.

_VERSION_BY_NAME = sa.select(VERSIONS).where(matching(VERSIONS, "dataset", "version"))
_ALL_VERSIONS = sa.select(VERSIONS).where(matching(VERSIONS, "dataset")).order_by(VERSIONS.c.id)
_CHARGES_BY_VERSION = (
    sa.select(ENTRIES.c.version, sa.func.sum(ENTRIES.c.charge_units))
    .where(matching(ENTRIES, "dataset"), ENTRIES.c.charge_units > 0)
    .group_by(ENTRIES.c.version)
)
_KNOWN_STATE = sa.select(FILE_STATES.c.version).where(matching(FILE_STATES, "version", "state"))
_ADD_STATE = sa.text(
    "INSERT INTO file_states (version, state) VALUES (:version, :state) ON CONFLICT DO NOTHING"
)


class SQLDataVersions:
    """The protocol `DataVersions` on a ledger's database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, dataset: str, version: str) -> DataVersion | None:
        with self._store.single_read() as connection:
            return _find_version(connection, dataset, version)

    def list(self, dataset: str) -> list[DataVersion]:
        """All versions, in the order in which they were opened."""
        with self._store.reading() as connection:
            return [_version_of(row) for row in connection.execute(_ALL_VERSIONS, {"dataset": dataset})]

    def open(self, dataset: str, version: str, digest: ContentDigest, by: str = "") -> DataVersion:
        with self._store.recording() as connection:
            opened = _find_version(connection, dataset, version)
            return opened or _open_version(connection, dataset, version, digest, by)

    def charges(self, dataset: str) -> dict[str | None, float]:
        """The ρ charged to each version; the key None is for lost records.

        Reads all entries: for the curator's commands only.
        """
        with self._store.snapshot() as connection:
            rows = connection.execute(_CHARGES_BY_VERSION, {"dataset": dataset}).all()
        return {version: rho_of_units(int(units)) for version, units in rows}

    def recognises(self, version: DataVersion, state: str) -> bool:
        wanted = {"version": version.id, "state": version.keyed_state(state)}
        with self._store.single_read() as connection:
            return connection.execute(_KNOWN_STATE, wanted).first() is not None

    def remember(self, version: DataVersion, state: str) -> None:
        if not self.recognises(version, state):
            with self._store.updating() as connection:
                row = {"version": version.id, "state": version.keyed_state(state)}
                connection.execute(_ADD_STATE, row)


def check_or_open(connection: sa.Connection, dataset: str, data: DataState, by: str) -> None:
    """Raises if the data are not those of the charge's version. The first charge of a version opens it.

    The caller's transaction must hold the writers' lock. So if two processes have different data, one opens
    the version and the other is refused.
    """
    version = _find_version(connection, dataset, data.version)
    if version is not None:
        if data.digest is not None and not version.fits(data.digest):
            raise DataChanged.of(dataset)
        return
    if data.digest is None:
        raise InternalError("The data match a version that was never opened.")
    _open_version(connection, dataset, data.version, data.digest, by)


def _open_version(
    connection: sa.Connection, dataset: str, version: str, digest: ContentDigest, by: str
) -> DataVersion:
    secret, time = secrets.token_hex(32), audit.now()
    row = audit.insert(
        connection,
        VERSIONS,
        {
            "dataset": dataset,
            "version": version,
            "time": time,
            "by": by,
            "secret": secret,
            "fingerprint": digest.keyed(secret),
        },
    )
    audit.append_change(connection, by, audit.VERSION_OPENED, dataset, {VERSIONS: row}, time)
    return DataVersion(**row | {"time": datetime.fromisoformat(time)})


def _find_version(connection: sa.Connection, dataset: str, version: str) -> DataVersion | None:
    row = connection.execute(_VERSION_BY_NAME, {"dataset": dataset, "version": version}).one_or_none()
    return None if row is None else _version_of(row)


@damage_explained()
def _version_of(row: sa.Row[Any]) -> DataVersion:
    return DataVersion(**row._asdict() | {"time": datetime.fromisoformat(row.time)})
