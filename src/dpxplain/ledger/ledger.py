"""Opens a ledger: the local owner's account, the curator's decisions about all accounts, what each budget
protects, and what analysts used and ask for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from dpxplain.errors import BadRequest, SchemaError
from dpxplain.ledger import audit
from dpxplain.ledger.account import Account, SQLDataVersions
from dpxplain.ledger.address import database_address
from dpxplain.ledger.anchor import LONG_LOG, Anchor, verify_since
from dpxplain.ledger.anchor_guard import anchor_path, check_not_gone
from dpxplain.ledger.backup import Recovery
from dpxplain.ledger.balances import (
    add_notice,
    analysts,
    checked_total,
    known_limit,
    latest_grant,
    moment,
    notice_text,
    own_spent,
    rho_number,
    standing,
)
from dpxplain.ledger.credentials import BrowserSessions, Tokens
from dpxplain.ledger.jobs import Jobs, Processes
from dpxplain.ledger.protocol import (
    EVERYONE,
    Allowance,
    AuditRecord,
    AuditReport,
    Share,
    check_name,
    check_reason,
    damage_explained,
    utc_text,
)
from dpxplain.ledger.single_flight import Failures, Flights
from dpxplain.ledger.store import BUSY_SECONDS, SQLiteStore, Store, guard_with_anchor
from dpxplain.ledger.tables import ENTRIES, GRANTS, LIMITS, LOG, SHARES, matching
from dpxplain.model.charge import Budget, check_rho, limit_units, rho_of_units
from dpxplain.model.display import public
from dpxplain.model.schema import Privacy

# -- Ledger ------------------------------------------------------------------------------------------------


def open_ledger(
    place: str | Path | None,
    *,
    create: bool = True,
    anchor: str | Path | None = None,
    is_recovery: bool = False,
    busy_seconds: float = BUSY_SECONDS,
) -> SQLLedger:
    """The ledger at a path (SQLite), in memory (None), or at a `postgresql://` address.

    Creates a missing ledger if `create`; raises otherwise.

    `anchor` is the file that remembers the charges outside of the ledger, or "off". By default it is beside a
    SQLite ledger, and other ledgers have none. An empty ledger whose anchor shows charges is not opened,
    unless `is_recovery`. If other writers keep the ledger locked, a call waits for `busy_seconds`.

    >>> from dpxplain.model.charge import Charge, Request
    >>> ledger = open_ledger(None)
    >>> ledger.open_dataset("adult", limit=1.0, delta=1e-6)
    >>> entry = ledger.reserve("adult", Charge("query", "k", Request("SELECT COUNT(*)"), 0.25))
    >>> ledger.release(entry.row, '{"count": 48839}')
    >>> ledger.find("adult", "k")[1], ledger.budget("adult").remaining
    ('{"count": 48839}', 0.75)
    >>> ledger.close()
    """
    database = None if place is None else database_address(place)
    file = anchor_path(None if place is None or database is not None else Path(place), anchor)
    if place is None:
        store: Store = SQLiteStore(None)
    elif database is None:
        if file is not None and not (is_recovery and create):
            check_not_gone(Path(place), file)
        store = SQLiteStore(Path(place), create=create, busy_seconds=busy_seconds)
    else:
        from dpxplain.ledger.postgres import PostgresStore  # psycopg is an optional dependency

        store = PostgresStore(database, create=create, busy_seconds=busy_seconds)
    if file is not None:
        guard_with_anchor(store, file, is_recovery=is_recovery)
    return SQLLedger(store)


class SQLLedger(Account):
    """Budgets, releases, accounts, tokens, jobs and the audit log of one database."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, Flights(store))
        self.recovery = Recovery(store)
        self.processes = Processes(store)
        self.tokens = Tokens(store)
        self.sessions = BrowserSessions(store)
        self.jobs = Jobs(store)
        self.failures = Failures(store, self.flights)
        self.analysts = AnalystRecords(store)
        self.privacy_units = PrivacyUnits(store)
        self.versions = SQLDataVersions(store)
        self.verified: Anchor | None = None  # the log's position when this object last found it intact

    def __repr__(self) -> str:
        return f"<{self.store.name}>"

    @property
    def name(self) -> str:
        """The file or database as the subject of a sentence, without a password."""
        return self.store.name

    @property
    def has_datasets(self) -> bool:
        """Whether any data set was ever opened in the ledger."""
        with self.store.reading() as connection:
            return connection.execute(sa.select(LIMITS.c.id).limit(1)).first() is not None

    def close(self) -> None:
        self.store.close()

    def account(self, analyst: str, *, sees_all: bool = False, default_limit: float | None = 0.0) -> Account:
        """The ledger bound to one analyst.

        `default_limit` is what they may spend on a data set without a grant. With None or infinity only the
        data set's limit applies, as it always does for "", the local owner.
        """
        if not analyst:
            return Account(self.store, self.flights)
        unlimited = default_limit is None or default_limit == math.inf
        default = None if unlimited else _allowance_units(default_limit or 0.0)
        name = check_name(analyst)
        return Account(self.store, self.flights, name, sees_all=sees_all, default_limit=default)

    def grant(
        self,
        dataset: str,
        analyst: str,
        rho: float,
        *,
        expires: datetime | None = None,
        reason: str,
        by: str,
    ) -> None:
        """Sets the analyst's total allowance and its expiry; 0 allows nothing. Replaces earlier grants."""
        units, until = _allowance_units(rho), None if expires is None else utc_text(expires)
        check_reason(reason)
        with self.store.recording() as connection:
            known_limit(connection, dataset)
            _add_grant(connection, audit.GRANTED, dataset, check_name(analyst), units, until, reason, by)

    def top_up(
        self,
        dataset: str,
        rho: float,
        *,
        analyst: str | None = None,
        reason: str,
        by: str,
        default_limit: float | None = 0.0,
    ) -> None:
        """Adds to the data set's limit or, if `analyst` is given, to the analyst's.

        `default_limit` is what an analyst without a grant could spend until now; None if that is not known.
        """
        more = limit_units(check_rho(rho))
        check_reason(reason)
        with self.store.recording() as connection:
            if analyst is None:
                _raise_limit(connection, dataset, more, reason, by)
                return
            known_limit(connection, dataset)
            grant = latest_grant(connection, dataset, check_name(analyst))
            if grant is None and default_limit is None:
                raise unknown_allowance(dataset, analyst)
            before = _allowance_units(default_limit or 0.0) if grant is None else grant.limit_units
            until, total = None if grant is None else grant.expires, checked_total(before + more)
            _add_grant(connection, audit.TOPPED_UP, dataset, analyst, total, until, reason, by)

    def allowances(self, dataset: str, *, default_limit: float = 0.0) -> list[Allowance]:
        """The allowance of every analyst who has a grant or has asked something, sorted by name."""
        default = _allowance_units(default_limit)
        with self.store.reading() as connection:
            left = standing(connection, dataset).left
            names = analysts(connection, dataset)
            grants = {name: latest_grant(connection, dataset, name) for name in names}
            spent = {name: own_spent(connection, dataset, name) for name in names}
        return [_allowance(name, grants[name], spent[name], default, left) for name in names]

    def share(self, dataset: str, owner: str, reader: str, *, reason: str, by: str) -> None:
        """Lets `reader` ("*": everyone) see the past and future requests of `owner` on the data set."""
        self._set_share(dataset, owner, reader, True, reason, by)

    def unshare(self, dataset: str, owner: str, reader: str, *, reason: str, by: str) -> None:
        """Ends a share. Raises if there is none."""
        self._set_share(dataset, owner, reader, False, reason, by)

    def shares(self, dataset: str) -> list[Share]:
        """The shares that apply now."""
        with self.store.reading() as connection:
            known_limit(connection, dataset)
            return _shares(connection, dataset)

    def note(
        self, actor: str, action: str, dataset: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        """Records an event that changes no table: a login, a true value viewed, a schema edited."""
        if action in audit.CHANGES:
            raise BadRequest(
                f"The action name {action!r} is reserved for the ledger itself.", remedy="Use another name."
            )
        with self.store.recording() as connection:
            audit.append(connection, actor, action, dataset, dict(details or {}))

    def audit(self, after: int = 0, limit: int = 500) -> list[AuditRecord]:
        """The records that follow the one with the id `after`, oldest first."""
        records = sa.select(LOG).where(LOG.c.id > max(-1, min(after, 2**63 - 1))).order_by(LOG.c.id)
        with self.store.reading() as connection:
            rows = connection.execute(records.limit(max(0, min(limit, 2**31)))).all()
        return [audit.record_of(row) for row in rows]

    def verify_audit(
        self,
        head: str | None = None,
        anchor: Anchor | None = None,
        *,
        since: Anchor | None = None,
        full: bool | None = True,
    ) -> AuditReport:
        """Recomputes the log's chain and compares every table with it.

        Unless `full`, it verifies only the records since the last verification: since `since`, or since this
        object found the log intact. If `full` is None, a short log is still verified in full.

        `head` is a head noted earlier: if its record is missing, the log was cut or rewritten. An `anchor`
        shows the same and also what happened; so does the ledger's own anchor file.
        """
        start = None if full or head is not None else since or self.verified
        if start is not None and full is None and start.records < LONG_LOG:
            start = None
        with self.store.snapshot() as connection:
            anchor_guard = self.store.anchor
            problem = None if anchor_guard is None else anchor_guard.problem(connection, with_totals=True)
            differences = [] if anchor is None else anchor.differences(connection)
            if start is None or not start.records or differences or start.differences(connection):
                report = audit.verify(connection, head)
            else:
                report = verify_since(connection, start)
            if problem is not None:
                differences.append(problem)
            report = replace(report, problems=differences + report.problems)
            self.verified = Anchor.of(connection) if report.intact else None
        return report

    def head(self) -> tuple[int, str]:
        """How many records the audit log has, and the hash of its last one."""
        with self.store.single_read() as connection:
            return audit.head(connection)

    def anchor(self) -> Anchor:
        """An anchor of the present log, to be kept elsewhere."""
        with self.store.snapshot() as connection:
            return Anchor.of(connection)

    def continues(self, anchor: Anchor) -> bool:
        """Whether the log continues from this anchor."""
        with self.store.snapshot() as connection:
            return not anchor.differences(connection)

    def _set_share(self, dataset: str, owner: str, reader: str, shared: bool, reason: str, by: str) -> None:
        check_reason(reason)
        if owner:
            check_name(owner)
        if reader != EVERYONE:
            check_name(reader)
        with self.store.recording() as connection:
            known_limit(connection, dataset)
            is_shared = (owner, reader) in {
                (share.owner, share.reader) for share in _shares(connection, dataset)
            }
            if is_shared == shared:
                problem = "is already shared" if is_shared else "is not shared"
                raise BadRequest(
                    f"The history of {owner!r} on {dataset!r} {problem} with {reader!r}.",
                    remedy="Look at the list of shares.",
                )
            time = audit.now()
            row = {
                "dataset": dataset,
                "owner": owner,
                "reader": reader,
                "shared": shared,
                "time": time,
                "reason": reason,
                "by": by,
            }
            rows = {SHARES: audit.insert(connection, SHARES, row)}
            action = audit.SHARED if shared else audit.UNSHARED
            audit.append_change(connection, by, action, dataset, rows, time)


def _allowance_units(rho: float) -> int:
    return limit_units(check_rho(rho)) if rho != 0 else 0


def _raise_limit(connection: sa.Connection, dataset: str, more: int, reason: str, by: str) -> None:
    latest = known_limit(connection, dataset)
    old = latest.declared_units + latest.top_up_units
    new = checked_total(old + more)
    time = audit.now()
    row = latest._asdict() | {
        "time": time,
        "top_up_units": latest.top_up_units + more,
        "reason": reason,
        "by": by,
    }
    del row["id"]
    limit = audit.insert(connection, LIMITS, row)
    payload = {"old_limit": rho_number(old), "new_limit": rho_number(new), "reason": reason}
    notice = add_notice(connection, limit, "top-up", notice_text("limit raised to", new, reason), payload)
    audit.append_change(connection, by, audit.TOPPED_UP, dataset, {LIMITS: limit} | notice, time)


def _add_grant(
    connection: sa.Connection,
    action: str,
    dataset: str,
    analyst: str,
    units: int,
    expires: str | None,
    reason: str,
    by: str,
) -> None:
    time = audit.now()
    row = {
        "dataset": dataset,
        "analyst": analyst,
        "time": time,
        "limit_units": units,
        "expires": expires,
        "reason": reason,
        "by": by,
    }
    grant = audit.insert(connection, GRANTS, row)
    kind, words = (
        ("grant", "allowance set to") if action == audit.GRANTED else ("top-up", "allowance raised to")
    )
    payload = {"analyst": analyst, "limit": rho_number(units), "expires": expires, "reason": reason}
    notice = add_notice(connection, grant, kind, notice_text(words, units, reason), payload)
    audit.append_change(connection, by, action, dataset, {GRANTS: grant} | notice, time)


def _allowance(analyst: str, grant: sa.Row[Any] | None, spent: int, default: int, left: int) -> Allowance:
    budget = Budget(
        limit=rho_of_units(default if grant is None else grant.limit_units),
        spent=rho_of_units(spent),
        delta=math.nan,  # not shown
        expires=None if grant is None else moment(grant.expires),
        shared_remaining=rho_of_units(left),
    )
    return Allowance(
        analyst=analyst,
        limit=budget.limit,
        spent=budget.spent,
        remaining=budget.remaining,
        expires=budget.expires,
        reason="" if grant is None else grant.reason,
        by="" if grant is None else grant.by,
        time=None if grant is None else moment(grant.time),
    )


@damage_explained()
def _shares(connection: sa.Connection, dataset: str) -> list[Share]:
    """The shares that apply: only the newest row per (owner, reader) counts."""
    rows = connection.execute(sa.select(SHARES).where(SHARES.c.dataset == dataset).order_by(SHARES.c.id))
    latest = {(row.owner, row.reader): row for row in rows}
    return [
        Share(dataset, row.owner, row.reader, row.reason, row.by, datetime.fromisoformat(row.time))
        for row in sorted(latest.values(), key=lambda row: row.id)
        if row.shared
    ]


# -- Privacy units -----------------------------------------------------------------------------------------
#
# Once some budget is spent, the promise cannot become stronger.

_DECLARED = "protection declared"
_LATEST_DECLARATION = (
    sa.select(LOG.c.details)
    .where(matching(LOG, "dataset"), LOG.c.action == _DECLARED)
    .order_by(LOG.c.id.desc())
    .limit(1)
)


class PrivacyUnits:
    """What each data set's budget protects (rows, persons, ...), as the audit log records it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check_and_record(self, dataset: str, privacy: Privacy, by: str = "") -> None:
        """Records the declaration. Raises if it promises more than the budget already spent can cover."""
        declared = {"unit": privacy.unit, "max_rows": privacy.max_rows, "neighbours": privacy.neighbours}
        with self._store.reading() as connection:  # usually nothing has changed, and no lock is needed
            if _latest_declaration(connection, dataset) == declared:
                return
        with self._store.recording() as connection:
            # Read again under the lock: another process may have declared or charged meanwhile.
            before = _latest_declaration(connection, dataset)
            if before == declared:
                return
            if before and not _covers_promise(before, declared) and standing(connection, dataset).spent > 0:
                raise SchemaError(
                    "privacy: unit, neighbours and max_rows cannot be changed to promise more. The answers "
                    f"already given on {dataset} protect only {_unit_in_words(before)}.",
                    remedy="Keep them, or declare the data as a new data set with its own budget.",
                )
            audit.append(connection, by, _DECLARED, dataset, declared)


def _latest_declaration(connection: sa.Connection, dataset: str) -> Any:
    """The newest declaration; None if there is none."""
    text = connection.execute(_LATEST_DECLARATION, {"dataset": dataset}).scalar_one_or_none()
    return None if text is None else audit.parsed(text)


def _covers_promise(before: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
    """Whether the budget spent under the declaration `before` also keeps the promise of `declared`.

    It does for the same unit with as many rows or fewer. Different units, or kinds of neighbours, do not
    cover each other.
    """
    is_same_unit = all(declared[name] == before[name] for name in ("unit", "neighbours"))
    return is_same_unit and bool(declared["max_rows"] <= before["max_rows"])


def _unit_in_words(declaration: Mapping[str, Any]) -> str:
    rows = "" if declaration["unit"] == "row" else f" with up to {declaration['max_rows']} rows"
    return f"each {declaration['unit']}{rows} ({declaration['neighbours']})"


# -- Use and requests --------------------------------------------------------------------------------------
#
# Requests for more budget are records of the audit log.

ASKED, DECLINED = "budget asked for", "budget request declined"
MOST_OPEN = 3  # waiting requests of one analyst
_MOST_RECORDS = 500
_MOST_CHARGES = 20_000
_LATEST_RECORDS = (
    sa.select(LOG).where(matching(LOG, "dataset", "action")).order_by(LOG.c.id.desc()).limit(_MOST_RECORDS)
)
_GRANTS_IN_ORDER = sa.select(GRANTS).where(matching(GRANTS, "dataset", "analyst")).order_by(GRANTS.c.id)
_LATEST_CHARGES = (
    sa.select(ENTRIES.c.time, ENTRIES.c.analyst, ENTRIES.c.charge_units)
    .where(matching(ENTRIES, "dataset"), ENTRIES.c.charge_units > 0)
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


@public("BudgetAnswer", "asked_at rho state given decided_at reason")
@dataclass(frozen=True)
class BudgetAnswer:
    """An analyst's newest request for more budget, and what became of it."""

    asked_at: datetime
    rho: float
    state: Literal["waiting", "granted", "declined"]
    given: float | None = None
    """How much more they may spend since the grant that answered it; 0 if it allowed no more."""
    decided_at: datetime | None = None
    reason: str | None = None
    """The curator's."""


@public("UseLine", "day analyst rho", description="What one analyst was charged on one day, in UTC.")
@dataclass(frozen=True)
class DayOfUse:
    """What one analyst was charged on one day, in UTC."""

    day: str
    analyst: str
    rho: float


class AnalystRecords:
    """What the analysts of one ledger used, and what they ask for."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @damage_explained()
    def use(self, dataset: str) -> list[DayOfUse]:
        """Charges by day and analyst, oldest first; only the latest ones if the history is long."""
        with self._store.reading() as connection:
            known_limit(connection, dataset)
            rows = connection.execute(_LATEST_CHARGES, {"dataset": dataset}).all()
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

    def waiting(self, datasets: Iterable[str]) -> int:
        """How many requests wait for a curator, on these data sets together."""
        with self._store.reading() as connection:
            return sum(len(_waiting_requests(connection, dataset)) for dataset in datasets)

    @damage_explained()
    def newest_request(self, dataset: str, analyst: str, default_limit: float) -> BudgetAnswer | None:
        """The analyst's newest request; None without one. `default_limit` is theirs without a grant."""
        with self._store.reading() as connection:
            asked = [each for each in _records_of(connection, dataset, ASKED) if each.actor == analyst]
            if not asked:
                return None
            refusals = _records_of(connection, dataset, DECLINED)
            grants = connection.execute(_GRANTS_IN_ORDER, {"dataset": dataset, "analyst": analyst}).all()
        request = asked[0]
        answer = BudgetAnswer(request.time, request.details["rho"], "waiting")
        for refusal in refusals:
            if refusal.details.get("request") == request.id:
                reason = refusal.details["reason"]
                return replace(answer, state="declined", decided_at=refusal.time, reason=reason)
        before = limit_units(default_limit)
        for grant in grants:
            time = datetime.fromisoformat(grant.time)
            if time >= request.time:
                more = rho_of_units(max(0, grant.limit_units - before))
                return replace(answer, state="granted", given=more, decided_at=time, reason=grant.reason)
            before = grant.limit_units
        return answer


def unknown_allowance(dataset: str, analyst: str) -> BadRequest:
    """The error for a top-up when the amount allowed by the server's configuration is not known."""
    return BadRequest(
        f"{analyst} has no grant on {dataset} yet, so there is no amount to add to. The default "
        "allowance is in the server's configuration, which this command cannot see.",
        remedy=f"Set the total that they may spend: dpxplain allow set {dataset} {analyst} --rho ...",
    )


@damage_explained()
def _waiting_requests(connection: sa.Connection, dataset: str) -> list[BudgetRequest]:
    requests, refusals = (_records_of(connection, dataset, action) for action in (ASKED, DECLINED))
    grants = {name: latest_grant(connection, dataset, name) for name in {r.actor for r in requests}}
    declined = {refusal.details.get("request") for refusal in refusals}
    return [
        BudgetRequest(record.id, record.actor, record.details["rho"], record.details["reason"], record.time)
        for record in requests
        for grant in [grants[record.actor]]
        if record.id not in declined and (grant is None or datetime.fromisoformat(grant.time) < record.time)
    ]


def _records_of(connection: sa.Connection, dataset: str, action: str) -> list[AuditRecord]:
    rows = connection.execute(_LATEST_RECORDS, {"dataset": dataset, "action": action})
    return [audit.record_of(row) for row in rows]
