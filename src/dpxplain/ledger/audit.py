"""The audit log: a hash chain of records that repeat every row written to the ledger, its verification, and
the limits and spending that the rows add up to.

Rows and their record are written in one transaction. A payload, a secret or the hash of a secret is repeated
as its SHA-256. Nothing else in the ledger is confidential, so all other values are repeated unchanged.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest, BudgetExhausted, InternalError
from dpxplain.ledger.protocol import (
    EVERYONE,
    UNREADABLE,
    AuditRecord,
    AuditReport,
    damage_explained,
    exhausted_delta,
)
from dpxplain.ledger.tables import (
    ACCOUNTS,
    ENTRIES,
    GRANTS,
    LIMITS,
    LOG,
    MISSING_RELEASES,
    RELEASES,
    REVOCATIONS,
    SHARES,
    STATE,
    TOKENS,
    UNRELEASED,
    VERSIONS,
    count_entry,
    matching,
    primary_key,
    unguarded,
    wrong_accounts,
)
from dpxplain.model.charge import (
    LARGEST_RHO,
    UNITS_PER_RHO,
    Budget,
    Charge,
    Spend,
    check_rho,
    rho_of_units,
    spend_units,
)

# -- Records and verification ------------------------------------------------------------------------------

GENESIS = "0" * 64
"""The hash before the first record."""

OPENED, LIMIT_CHANGED, DELTA_CHANGED = "data set opened", "limit changed", "delta changed"
RESERVED, RELEASED = "reserved", "released"
GRANTED, TOPPED_UP = "allowance granted", "topped up"
SHARED, UNSHARED = "shared", "unshared"
TOKEN_CREATED, TOKEN_REVOKED = "token created", "token revoked"
VERSION_OPENED = "data version opened"
UPGRADED, RESTORED = "ledger upgraded", "ledger restored"
SIGNED_IN, INTERRUPTED, TAKEN_OVER = "signed in", "interrupted", "taken over"
SESSIONS_ENDED, CANCELLED = "browser sessions ended", "cancelled"
LOSS_CHARGED, LOSS_DECLARED = "loss charged", "loss declared"

CHANGES = frozenset(
    {
        *(OPENED, LIMIT_CHANGED, DELTA_CHANGED, RESERVED, RELEASED, GRANTED, TOPPED_UP, SHARED, UNSHARED),
        *(TOKEN_CREATED, TOKEN_REVOKED, VERSION_OPENED, LOSS_CHARGED),
    }
)
"""Actions whose details repeat rows; the details of any other action have no fixed form."""

NAMES = {
    LIMITS.name: "limit",
    GRANTS.name: "grant",
    ENTRIES.name: "entry",
    RELEASES.name: "release",
    SHARES.name: "share",
    TOKENS.name: "token",
    REVOCATIONS.name: "revocation",
    VERSIONS.name: "version",
}
"""The name of each table's rows in a record's details."""
_KEYS = {NAMES[table.name]: primary_key(table).name for table in STATE}

_ROWS_AT_ONCE = 500

LAST_RECORD = sa.select(LOG.c.id, LOG.c.hash).order_by(LOG.c.id.desc()).limit(1)
_RECORD_HASH = sa.select(LOG.c.hash).where(LOG.c.id == sa.bindparam("id"))
_AS_DIGEST = {"payload": "sha256", "secret_hash": "secret_hash_sha256", "secret": "secret_sha256"}
_AS_JSON = frozenset({"spends", "request"})
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_OPTIONAL_COLUMNS = frozenset({"subject", "version", "declarations", "maker", "number"})
"""Columns that a record repeats only where they are not NULL. A column that a new format adds belongs here,
so that earlier records still match their rows."""


def now() -> str:
    """The present time as the ledger stores it."""
    return datetime.now(UTC).isoformat()


def canonical(value: object) -> str:
    """The canonical JSON text of a value: equal values always give the same text."""
    return _ENCODER.encode(value)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(text: str) -> bytes:
    """The SHA-256 of a text as bytes, which take half the memory of the hexadecimal form."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def chained(previous: str, record: Mapping[str, Any]) -> str:
    """The hash of a record: sha256 of the previous hash followed by the record as canonical JSON."""
    return sha256(previous + canonical(record))


def image(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row in the form that a record repeats."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if name in _OPTIONAL_COLUMNS and value is None:
            continue
        if name in _AS_DIGEST:
            values[_AS_DIGEST[name]] = sha256(value)
        else:
            values[name] = parsed(value) if name in _AS_JSON and value is not None else value
    return values


def parsed(text: Any) -> Any:
    """Parses JSON from an untrusted row; returns the value unchanged if it is not JSON."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def insert(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Inserts the row and returns it, with the id that the database gave it."""
    check_text(values)
    key = primary_key(table)
    row = {column.name: values.get(column.name) for column in table.columns if column is not key}
    if key.name in values:
        row = {key.name: values[key.name]} | row
    return {key.name: connection.execute(_insertion(table), row).scalar_one()} | row


@cache
def _insertion(table: sa.Table) -> sa.Executable:
    """The INSERT of a table, built once: SQLAlchemy takes longer to build it than SQLite to run it."""
    return sa.insert(table).returning(primary_key(table))


def head(connection: sa.Connection) -> tuple[int, str]:
    """The number and the hash of the log's last record; 0 and GENESIS if the log is empty."""
    last = connection.execute(LAST_RECORD).one_or_none()
    return (0, GENESIS) if last is None else (last.id, last.hash)


def record_hash(connection: sa.Connection, id: int) -> str | None:
    """The hash of the log's record with this number; None if there is none."""
    return connection.execute(_RECORD_HASH, {"id": id}).scalar_one_or_none()


def append(
    connection: sa.Connection,
    actor: str,
    action: str,
    dataset: str | None,
    details: Mapping[str, Any],
    time: str | None = None,
) -> None:
    """Adds a record to the log. The caller's transaction must hold the writers' lock."""
    text = canonical(details)
    last, previous = head(connection)
    record = {
        "id": last + 1,
        "time": time or now(),
        "actor": actor,
        "action": action,
        "dataset": dataset,
        "details": json.loads(text),  # in the form that is read back: keys of JSON objects are texts
    }
    row = record | {"details": text, "previous": previous, "hash": chained(previous, record)}
    check_text(row)
    connection.execute(_insertion(LOG), row)


def append_change(
    connection: sa.Connection,
    actor: str,
    action: str,
    dataset: str | None,
    rows: Mapping[sa.Table, Mapping[str, Any]],
    time: str | None = None,
) -> None:
    """Adds the record of a change: it repeats the rows that `insert` has just written."""
    images = {NAMES[table.name]: image(row) for table, row in rows.items()}
    append(connection, actor, action, dataset, images, time)


@damage_explained()
def record_of(row: sa.Row[Any]) -> AuditRecord:
    return AuditRecord(
        **row._asdict() | {"time": datetime.fromisoformat(row.time), "details": json.loads(row.details)}
    )


def check_text(values: Mapping[str, Any]) -> None:
    """Raises for texts that one of the databases cannot store, so that both store the same."""
    for name, value in values.items():
        if isinstance(value, str) and not _can_be_stored(value):
            raise BadRequest(
                f"The {name} contains a character that cannot be stored.",
                remedy="Remove NUL characters and unpaired surrogates.",
            )


def _can_be_stored(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def verify(connection: sa.Connection, head: str | None) -> AuditReport:
    """Checks the chain, then every table against the records; `connection` must see one snapshot.

    Reports altered, deleted, inserted and reordered records, and altered, deleted and inserted rows. It
    cannot see that the newest rows and records were cut off together, or that the whole chain was computed
    anew. Only a `head` noted down elsewhere shows that.
    """
    tables = RecordedTables()
    chain = check_chain(connection, tables, sa.select(LOG).order_by(LOG.c.id))
    problems = unprotected(connection) + chain.problems
    hashes = stream(connection, sa.select(LOG.c.hash))
    # Compared in Python, because the noted text may be anything; to the end, so that no cursor stays open.
    if head not in (None, GENESIS) and not sum(row.hash == head for row in hashes):
        problems.append(
            "The head that you noted is not in the log. The log was rewritten, or its end was cut off."
        )
    problems += tables.differences(connection)
    problems += _wrong_totals(connection)
    problems += _wrong_unreleased(connection)
    problems += wrong_accounts(connection)
    return AuditReport(chain.records, chain.head, problems)


def check_chain(
    connection: sa.Connection,
    tables: RecordedTables,
    statement: sa.Select[Any],
    records: int = 0,
    head: str = GENESIS,
) -> AuditReport:
    """Checks the records that the statement reads, and adds their changes to the tables.

    They follow the first `records` records, the last of which has the hash `head`.
    """
    problems = []
    for row in stream(connection, statement):
        records += 1
        problems += _broken_link(row, head)
        head = str(row.hash)
        if row.action in CHANGES:
            problems += tables.add(row)
    return AuditReport(records, head, problems)


def unprotected(connection: sa.Connection) -> list[str]:
    """One sentence for each append-only table with a missing, altered or disabled trigger."""
    return [
        f"The table {table} is not protected against changes: its triggers are missing, changed or switched "
        "off."
        for table in unguarded(connection)
    ]


def _broken_link(row: sa.Row[Any], previous: str) -> list[str]:
    """What is wrong with a record, or with its place after the record with the hash `previous`."""
    if row.previous == previous and row.action in CHANGES and _is_as_written(row):
        return []
    record = {name: getattr(row, name) for name in ("id", "time", "actor", "action", "dataset")}
    try:
        altered = row.hash != chained(row.previous, record | {"details": parsed(row.details)})
    except UNREADABLE:
        altered = True
    if altered:
        return [f"Log record {row.id} was altered."]
    if row.previous != previous:
        return [f"Log record {row.id} does not follow the one before it. Records were removed or inserted."]
    return []


def _is_as_written(row: Sequence[Any]) -> bool:
    """Whether the hash matches the record, taking its stored details as canonical JSON without parsing them.

    False if the details have another form; then `_broken_link` parses them.
    """
    id, time, actor, action, dataset, details, previous, hash = row
    try:
        before = f'{{"action":{canonical(action)},"actor":{canonical(actor)},"dataset":{canonical(dataset)}'
        text = f'{before},"details":{details},"id":{id},"time":{canonical(time)}}}'
        return bool(hash == sha256(previous + text))
    except UNREADABLE:
        return False


class RecordedTables:
    """The state of the tables according to the records: a digest of every row, and the current limits."""

    def __init__(self) -> None:
        self.digests: dict[str, dict[Any, bytes]] = {}  # by the row's kind and key
        self._limits: dict[str, int] = {}  # by data set
        self._grants: dict[tuple[str, str], int] = {}  # by data set and analyst

    def add(self, row: sa.Row[Any]) -> list[str]:
        """Adds a record of a change. Returns what is wrong with it."""
        problems = []
        try:
            text = row.details
            details = parsed(text)
            for kind, values in details.items():
                key = values.get(_KEYS[kind]) if kind in _KEYS and isinstance(values, dict) else None
                digests = self.digests.setdefault(kind, {})
                if key in digests:
                    problems.append(
                        f"Log record {row.id} repeats {kind} {key}, which an earlier record already has."
                    )
                # The details are canonical JSON: the image of a single row is cut out of them.
                image_text = text[len(kind) + 4 : -1] if len(details) == 1 else canonical(values)
                digests[key] = digest(image_text)
            problems += self._exceeded_limits(row.action, details)
        except UNREADABLE:
            problems.append(f"Log record {row.id} cannot be read.")
        return problems

    def differences(self, connection: sa.Connection, tables: Sequence[sa.Table] = STATE) -> list[str]:
        """Compares every row of these tables with the records. Each table can be compared only once."""
        problems = []
        for table in tables:
            kind = NAMES[table.name]
            recorded = self.digests.pop(kind, {})
            for key, stored in row_digests(table, stream(connection, all_rows(table))):
                expected = recorded.pop(key, None)
                if expected is None:
                    problems.append(inserted_row(kind, key))
                elif expected != stored:
                    problems.append(altered_row(kind, key))
            problems += [deleted_row(kind, key) for key in recorded]
        return problems

    def _exceeded_limits(self, action: str, details: Mapping[str, Any]) -> list[str]:
        """Adds limits and grants. Reports a charge that exceeds the limits of its time.

        Charges of an analyst without a grant are compared with the data set's limit only.
        """
        if limit := details.get(NAMES[LIMITS.name]):
            self._limits[limit["dataset"]] = limit["declared_units"] + limit["top_up_units"]
        if grant := details.get(NAMES[GRANTS.name]):
            self._grants[grant["dataset"], grant["analyst"]] = grant["limit_units"]
        entry = details.get(NAMES[ENTRIES.name])
        if action != RESERVED or not entry or entry["charge_units"] == 0:
            return []
        dataset, analyst = entry["dataset"], entry["analyst"]
        allowance = self._grants.get((dataset, analyst), entry["own_units"])
        problems = []
        if entry["total_units"] > self._limits.get(dataset, 0):
            problems.append(f"Entry {entry['id']} exceeds the limit that {dataset!r} had at that time.")
        if entry["own_units"] > allowance:
            problems.append(f"Entry {entry['id']} exceeds the allowance that {analyst!r} had at that time.")
        return problems


def inserted_row(kind: str, key: object) -> str:
    return f"The {kind} {key} was inserted: the log does not have it."


def altered_row(kind: str, key: object) -> str:
    return f"The {kind} {key} was altered: it differs from the log."


def deleted_row(kind: str, key: object) -> str:
    return f"The {kind} {key} was deleted: the log has it, the table does not."


def all_rows(table: sa.Table) -> sa.Select[Any]:
    return sa.select(table).order_by(primary_key(table))


def row_digests(table: sa.Table, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, bytes | None]]:
    """Key and digest of each row as its record repeats it; None if the ledger cannot have written the row."""
    names = [column.name for column in table.columns]
    key_index = names.index(primary_key(table).name)
    for row in rows:
        try:
            yield row[key_index], digest(canonical(image(dict(zip(names, row, strict=True)))))
        except UNREADABLE:
            yield row[key_index], None


def _wrong_totals(connection: sa.Connection) -> list[str]:
    """One sentence for each entry whose running totals are not the sums of the charges so far."""
    problems, sums = [], Counter[tuple[str, ...]]()
    columns = ("id", "dataset", "analyst", "charge_units", "total_units", "own_units")
    statement = sa.select(*(ENTRIES.c[name] for name in columns)).order_by(ENTRIES.c.id)
    rows: Iterable[Sequence[Any]] = stream(connection, statement)
    for id, dataset, analyst, charge, total, own in rows:
        of_dataset, of_analyst = (dataset,), (dataset, analyst)
        if not all(isinstance(units, int) for units in (charge, total, own)):
            problems.append(f"The running total of entry {id} does not match the entries before it.")
            continue
        sums[of_dataset] += charge
        sums[of_analyst] += charge
        if (total, own) != (sums[of_dataset], sums[of_analyst]):
            problems.append(f"The running total of entry {id} does not match the entries before it.")
            sums[of_dataset], sums[of_analyst] = total, own
    return problems


def _wrong_unreleased(connection: sa.Connection) -> list[str]:
    """One sentence for each entry that the table of charges without a release has wrongly, or lacks."""
    all_listed = sa.select(UNRELEASED.c.entry, UNRELEASED.c.dataset, UNRELEASED.c.analyst)
    listed, expected = (
        {tuple(row) for row in connection.execute(statement)} for statement in (all_listed, MISSING_RELEASES)
    )
    return [
        f"The table of charges without a result was altered at entry {entry}."
        for entry in sorted({row[0] for row in listed ^ expected})
    ]


def stream(connection: sa.Connection, statement: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
    """The rows, read in batches because releases may be large."""
    yield from connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(statement)


# -- Limits and spending -----------------------------------------------------------------------------------
#
# In units of a trillionth of ρ, with the errors that refuse further charges.

_STILL_FREE = "Earlier answers stay free."


def _newest(table: sa.Table, *columns: str, value: str | None = None) -> sa.Select[Any]:
    """The newest row in which these columns equal the statement's parameters, or one value of that row."""
    selected = sa.select(table) if value is None else sa.select(table.c[value])
    return selected.where(matching(table, *columns)).order_by(table.c.id.desc()).limit(1)


_LATEST_LIMIT = _newest(LIMITS, "dataset")
_LATEST_GRANT = _newest(GRANTS, "dataset", "analyst")
_LAST_TOTAL = _newest(ENTRIES, "dataset", value="total_units")
_LAST_OWN_TOTAL = _newest(ENTRIES, "dataset", "analyst", value="own_units")


def _analysts_statement(table: sa.Table) -> sa.Select[Any]:
    """The distinct analysts of a table, each found by one step in its index by analyst."""

    def first_after(name: Any) -> sa.ScalarSelect[str]:
        later = (matching(table, "dataset"), table.c.analyst > name)
        return sa.select(sa.func.min(table.c.analyst)).where(*later).scalar_subquery()

    names = sa.select(first_after("").label("name")).cte("names", recursive=True)
    names = names.union_all(sa.select(first_after(names.c.name)).where(names.c.name.is_not(None)))
    return sa.select(names.c.name).where(names.c.name.is_not(None))


DISCOVERY, LOSS = "discover", "loss"
"""Kinds of entries that spend δ."""
_DELTA_CHARGES = sa.select(ENTRIES.c.id, ENTRIES.c.kind, ENTRIES.c.request).where(
    matching(ENTRIES, "dataset"), ENTRIES.c.kind.in_((DISCOVERY, LOSS))
)
_LARGEST_DELTA = sa.select(sa.func.max(LIMITS.c.delta)).where(matching(LIMITS, "dataset"))
_ANALYSTS = [_analysts_statement(table) for table in (ENTRIES, GRANTS)]


def _standing_statement() -> sa.Select[Any]:
    limit, grant = _LATEST_LIMIT.subquery(), _LATEST_GRANT.subquery()
    gaussian = sa.select(ACCOUNTS.c.gaussian_units).where(matching(ACCOUNTS, "dataset"))
    return sa.select(
        *(limit.c.declared_units, limit.c.top_up_units, limit.c.delta, grant.c.limit_units, grant.c.expires),
        _LAST_TOTAL.scalar_subquery().label("spent"),
        _LAST_OWN_TOTAL.scalar_subquery().label("own_spent"),
        gaussian.where(ACCOUNTS.c.analyst == EVERYONE).scalar_subquery().label("gaussian"),
        gaussian.where(matching(ACCOUNTS, "analyst")).scalar_subquery().label("own_gaussian"),
        _DELTA_CHARGES.exists().label("has_discoveries"),
    ).select_from(limit.outerjoin(grant, sa.true()))


_STANDING = _standing_statement()


@dataclass(frozen=True)
class Standing:
    """A data set's limit and spending and, for one analyst, the analyst's own."""

    limit: int
    spent: int
    delta: float
    own_limit: int | None = None
    """None: limited by the data set only."""
    own_spent: int = 0
    expires: datetime | None = None
    gaussian: int = 0
    """The part of `spent` that paid for Gaussian noise."""
    own_gaussian: int = 0
    has_discoveries: bool = False
    """Whether any analyst's entry has spent δ of the data set: a discovery or a declared loss."""

    @property
    def left(self) -> int:
        return max(0, self.limit - self.spent)

    def totals(self, charge: int) -> dict[str, int]:
        """The running totals of an entry that adds this charge."""
        return {"total_units": self.spent + charge, "own_units": self.own_spent + charge}

    def budget(self, discovered_delta: float = 0.0) -> Budget:
        """The budget to be shown; `discovered_delta` is the δ that discoveries have spent."""
        if self.own_limit is None:
            limit, spent, gaussian = self.limit, self.spent, self.gaussian
        else:
            limit, spent, gaussian = self.own_limit, self.own_spent, self.own_gaussian
        return Budget(
            limit=rho_of_units(limit),
            spent=rho_of_units(spent),
            delta=self.delta,
            expires=None if self.own_limit is None else self.expires,
            shared_remaining=None if self.own_limit is None else rho_of_units(self.left),
            gaussian=rho_of_units(gaussian),
            discovered_delta=discovered_delta,
        )

    def refusal(self, dataset: str, analyst: str, charge: int) -> BudgetExhausted | None:
        """The error that refuses the charge (allowance expired, or too little is left); None if it fits."""
        if self.expires is not None and self.expires <= datetime.now(UTC):
            return expired(dataset, analyst, self.expires)
        if self.own_limit is not None:
            own_left = max(0, self.own_limit - self.own_spent)
            if charge > own_left and own_left <= self.left:
                return own_exhausted(dataset, analyst, charge=charge, left=own_left, limit=self.own_limit)
        if charge > self.left:
            return exhausted(dataset, charge=charge, left=self.left, limit=self.limit)
        return None


def standing(
    connection: sa.Connection, dataset: str, analyst: str = "", default_limit: int | None = None
) -> Standing:
    """The data set's standing and, except for the local owner, the analyst's.

    `default_limit` is the allowance without a grant; None: only the data set's limit applies.
    """
    row = connection.execute(_STANDING, {"dataset": dataset, "analyst": analyst}).one_or_none()
    if row is None:
        raise unknown_dataset(dataset)
    return Standing(
        limit=row.declared_units + row.top_up_units,
        spent=row.spent or 0,
        delta=row.delta,
        own_limit=default_limit if row.limit_units is None else row.limit_units,
        own_spent=row.own_spent or 0,
        expires=moment(row.expires),
        gaussian=row.gaussian or 0,
        own_gaussian=row.own_gaussian or 0,
        has_discoveries=bool(row.has_discoveries),
    )


def spent_delta(
    connection: sa.Connection, dataset: str, column: str | None = None, *, besides: int | None = None
) -> float:
    """The δ of all charged discoveries, or of those of a column, whether or not they succeeded.

    The entry `besides` is left out. Infinite once a loss was declared, because a discovery may be among the
    lost records.
    """
    charges = connection.execute(_DELTA_CHARGES, {"dataset": dataset}).all()
    if any(charge.kind == LOSS for charge in charges):
        return math.inf
    requests = [json.loads(charge.request or "{}") for charge in charges if charge.id != besides]
    if any(type(request.get("delta")) is not float for request in requests):
        raise InternalError("The history has a discovery without its δ.")
    return math.fsum(request["delta"] for request in requests if column in (None, request.get("column")))


def discovered_delta(connection: sa.Connection, dataset: str) -> float:
    """An upper bound on the δ that discoveries have spent; after a loss, the largest δ ever declared."""
    spent = spent_delta(connection, dataset)
    if math.isfinite(spent):
        return spent
    return float(connection.execute(_LARGEST_DELTA, {"dataset": dataset}).scalar_one())


def check_delta(connection: sa.Connection, dataset: str, charge: Charge) -> None:
    """Raises if the declared δ does not cover a discovery. Call it in the transaction of the charge."""
    declared, asked = known_limit(connection, dataset).delta, (charge.request.body or {}).get("delta")
    if type(asked) is not float:
        raise InternalError("A discovery is charged with its δ.")
    if math.fsum((spent_delta(connection, dataset), asked)) > declared:
        raise exhausted_delta(declared)


def analysts(connection: sa.Connection, dataset: str) -> list[str]:
    """Every analyst who has a grant or has asked something, sorted by name."""
    names: set[str] = set()
    for statement in _ANALYSTS:
        names |= set(connection.execute(statement, {"dataset": dataset}).scalars())
    return sorted(names)


def total_spent(connection: sa.Connection, dataset: str) -> int | None:
    """What all analysts have spent, in units: the running total of the last entry; None without entries."""
    return connection.execute(_LAST_TOTAL, {"dataset": dataset}).scalar_one_or_none()


def own_spent(connection: sa.Connection, dataset: str, analyst: str) -> int:
    """What the analyst has spent, in units: the running total of their last entry."""
    wanted = {"dataset": dataset, "analyst": analyst}
    return connection.execute(_LAST_OWN_TOTAL, wanted).scalar_one_or_none() or 0


def latest_limit(connection: sa.Connection, dataset: str) -> sa.Row[Any] | None:
    return connection.execute(_LATEST_LIMIT, {"dataset": dataset}).one_or_none()


def known_limit(connection: sa.Connection, dataset: str) -> sa.Row[Any]:
    """The latest limit. Raises BadRequest if the data set was never opened."""
    limit = latest_limit(connection, dataset)
    if limit is None:
        raise unknown_dataset(dataset)
    return limit


def latest_grant(connection: sa.Connection, dataset: str, analyst: str) -> sa.Row[Any] | None:
    return connection.execute(_LATEST_GRANT, {"dataset": dataset, "analyst": analyst}).one_or_none()


def add_notice(
    connection: sa.Connection, row: dict[str, Any], kind: str, description: str, payload: dict[str, Any]
) -> dict[sa.Table, dict[str, Any]]:
    """Adds an entry without a charge to the history, to show the changed limit or allowance in `row`."""
    analyst = row.get("analyst", "")
    entry = insert(
        connection,
        ENTRIES,
        {
            "dataset": row["dataset"],
            "analyst": analyst,
            "time": row["time"],
            "kind": kind,
            "key": "",
            "description": description,
            "charge_units": 0,
            "spends": "[]",
            "number": count_entry(connection, row["dataset"], analyst, 0, 0),
        }
        | standing(connection, row["dataset"], analyst).totals(0),
    )
    release = insert(connection, RELEASES, {"entry": entry["id"], "payload": json.dumps(payload)})
    return {ENTRIES: entry, RELEASES: release}


def notice_text(action: str, units: int, reason: str) -> str:
    """A notice's description. Everyone who sees the notice also sees the reason."""
    return f"{action} rho {rho_text(units)}: {reason}" if reason else f"{action} rho {rho_text(units)}"


def rho_number(units: int) -> int | float:
    """ρ for JSON: 2 rather than 2.0, as the curator wrote it.

    >>> rho_number(2 * 10**12), rho_number(5 * 10**11)
    (2, 0.5)
    """
    return units // UNITS_PER_RHO if units % UNITS_PER_RHO == 0 else rho_of_units(units)


def checked_total(units: int) -> int:
    """A limit after a top-up. Raises if it exceeds what the ledger can count."""
    if units > LARGEST_RHO * UNITS_PER_RHO:
        raise BadRequest(
            f"The limit would be more than {LARGEST_RHO:,}.", remedy="Add a smaller amount of rho."
        )
    return units


@damage_explained()
def moment(text: str | None) -> datetime | None:
    """The time that a text in the ledger stands for; None for None."""
    return None if text is None else datetime.fromisoformat(text)


def charge_units(rho: float, spends: Sequence[Spend]) -> int:
    """The units to charge for a plan whose mechanisms share `rho`.

    The total is rounded once, not share by share: thirds of 0.1 still make 0.1.

    >>> charge_units(0.1, [Spend("gaussian", 0.1 / 3)] * 3)
    100000000000
    """
    check_rho(rho)
    # Written so that NaN fails the comparison instead of passing it.
    if not all(spend.rho >= 0 for spend in spends):
        raise InternalError("A planned mechanism has a negative or undefined rho.")
    if not math.fsum(spend.rho for spend in spends) <= rho * (1 + 1e-9):
        raise InternalError(f"The planned mechanisms cost more than the requested rho of {rho!r}.")
    return spend_units(rho)


def rho_text(units: int) -> str:
    """Units as an exact decimal, to be shown and typed back.

    >>> rho_text(300_000_000_000), rho_text(5 * UNITS_PER_RHO), rho_text(1)
    ('0.3', '5', '0.000000000001')
    """
    return f"{(Decimal(units) / UNITS_PER_RHO).normalize():f}"


def exhausted(dataset: str, *, charge: int, left: int, limit: int) -> BudgetExhausted:
    """The refusal of a charge that the data set's limit does not cover; amounts in units.

    >>> print(exhausted("adult", charge=5 * 10**11, left=3 * 10**11, limit=10**12).problem)
    The request costs rho 0.5, but 'adult' has only 0.3 of its 1 left.
    """
    return BudgetExhausted(
        f"The request costs rho {rho_text(charge)}, but {dataset!r} has only {rho_text(left)} of its "
        f"{rho_text(limit)} left.",
        remedy=f"{_at_most(left)}{_STILL_FREE} Only the curator can raise the limit.",
    )


def own_exhausted(dataset: str, analyst: str, *, charge: int, left: int, limit: int) -> BudgetExhausted:
    """The refusal of a charge that the analyst's allowance does not cover; amounts in units.

    >>> print(own_exhausted("adult", "ann", charge=5 * 10**11, left=3 * 10**11, limit=10**12).problem)
    The request costs rho 0.5, but 'ann' has only 0.3 of 1 left on 'adult'.
    """
    if not limit:
        return BudgetExhausted(
            f"{analyst!r} has no allowance on {dataset!r}.", remedy=f"{_STILL_FREE} Ask the curator for one."
        )
    return BudgetExhausted(
        f"The request costs rho {rho_text(charge)}, but {analyst!r} has only {rho_text(left)} of "
        f"{rho_text(limit)} left on {dataset!r}.",
        remedy=f"{_at_most(left)}{_STILL_FREE} Ask the curator for more.",
    )


def expired(dataset: str, analyst: str, when: datetime) -> BudgetExhausted:
    """The refusal of a charge after the allowance has ended."""
    return BudgetExhausted(
        f"The allowance of {analyst!r} on {dataset!r} expired on {when:%Y-%m-%d at %H:%M} UTC.",
        remedy=f"{_STILL_FREE} Ask the curator to renew it.",
    )


def unknown_dataset(dataset: str) -> BadRequest:
    """The refusal of a data set that was never opened in the ledger."""
    return BadRequest(
        f"The ledger has no data set {dataset!r}.",
        remedy="Check the name. A data set is added when its server starts, or when somebody connects to it.",
    )


def _at_most(left: int) -> str:
    return f"Ask for at most rho={rho_text(left)}. " if left else ""
