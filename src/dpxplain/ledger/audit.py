"""The audit log: a hash chain of records that repeat every row written to the ledger, and its verification.

Rows and their record are written in one transaction. A payload, a secret or the hash of a secret is repeated
as its SHA-256. Nothing else in the ledger is confidential, so all other values are repeated unchanged.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger.protocol import UNREADABLE, AuditRecord, AuditReport, damage_explained
from dpxplain.ledger.tables import (
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
    primary_key,
    unguarded,
    wrong_accounts,
)

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
