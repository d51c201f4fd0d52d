"""Anchors: signed notes of where the audit log stood, kept outside of the ledger.

A person who can write the whole database can cut off the log's end, put an older copy back or compute a
new chain. An anchor kept elsewhere shows this. The curator's HMAC key signs the anchor, so nobody without the
key can forge one. But an older anchor agrees with an older copy of the ledger, so people who can write the
ledger must not be able to replace the anchor file.

`verify_since` verifies only the records after an anchor, so its work grows with their number.
It assumes that everything before the anchor was verified when the anchor was made. Only a full verification
finds older rows that were altered since; every backup runs one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.anchor_guard import create_synced, sync_folder
from dpxplain.ledger.balances import rho_text, total_spent
from dpxplain.ledger.protocol import UNREADABLE, AuditReport
from dpxplain.ledger.tables import ENTRIES, LIMITS, LOG, RELEASES, STATE, primary_key
from dpxplain.model.display import public

LONG_LOG = 20_000
"""A log with at most this many records is always verified in full, a longer one from its last anchor."""

_FORMAT = "dpxplain-anchor-1"
_KEY_BYTES = 32
_MOST_BYTES = 10_000_000
_LARGE_TABLES = (ENTRIES, RELEASES)
_SMALL_TABLES = [table for table in STATE if table not in _LARGE_TABLES]
_RARE_ACTIONS = sorted(audit.CHANGES - {audit.RESERVED, audit.RELEASED})
_KEYS_AT_ONCE = 500

_FIRST_HASH = sa.select(LOG.c.hash).order_by(LOG.c.id).limit(1)
_DATASETS = sa.select(LIMITS.c.dataset).distinct()


@public("Anchor", "first records head time spent")
@dataclass(frozen=True)
class Anchor:
    """Where a log stood at some time."""

    first: str
    """The hash of the log's first record: no two ledgers share it."""
    records: int
    head: str
    time: str
    spent: Mapping[str, int]
    """The amount spent on each data set, in the ledger's units."""

    @classmethod
    def of(cls, connection: sa.Connection) -> Anchor:
        """An anchor of the log as it is now."""
        records, head = audit.head(connection)
        return cls(
            first=connection.execute(_FIRST_HASH).scalar_one_or_none() or audit.GENESIS,
            records=records,
            head=head,
            time=audit.now(),
            spent=_spent(connection),
        )

    @property
    def age(self) -> timedelta:
        """The time since the anchor was made; negative if a clock was or is wrong."""
        return datetime.now(UTC) - datetime.fromisoformat(self.time)

    def signed(self, key: bytes) -> str:
        """The text of an anchor file."""
        content = {"format": _FORMAT} | asdict(self)
        return json.dumps({"anchor": content, "hmac_sha256": _signature(content, key)}, indent=2) + "\n"

    @classmethod
    def read(cls, text: str, key: bytes) -> Anchor:
        """The anchor in a file's text. Raises if this key has not signed it."""
        try:
            document = json.loads(text)
            content, signature = document["anchor"], document["hmac_sha256"]
            genuine = hmac.compare_digest(_signature(content, key), signature)
            fields = {name: value for name, value in content.items() if name != "format"}
            if genuine and content["format"] == _FORMAT:
                return cls(**fields)
        except UNREADABLE:
            raise BadRequest(
                "This is not an anchor file.", remedy="Name a file that dpxplain audit anchor has written."
            ) from None
        raise BadRequest(
            "The anchor was altered, or signed with a different key.",
            remedy="Use the key that signed it, or an older anchor.",
        )

    def differences(self, connection: sa.Connection) -> list[str]:
        """One sentence per sign that the log does not continue from this anchor; empty if it does."""
        if self.records == 0:
            return []
        last, _ = audit.head(connection)
        made_at = f"the anchor was made at record {self.records} ({self.time[:16].replace('T', ' ')} UTC)"
        if last == 0:
            return [f"The log is empty, but {made_at}. Somebody replaced the ledger by an empty one."]
        problems = []
        if connection.execute(_FIRST_HASH).scalar_one() != self.first:
            problems.append(
                "The log begins differently from the one that the anchor was made for. It was rewritten, or "
                "belongs to another ledger."
            )
        elif last < self.records:
            problems.append(
                f"The log ends at record {last}, but {made_at}. Its end was cut off, or an older copy was "
                "put back."
            )
        elif audit.record_hash(connection, self.records) != self.head:
            problems.append(
                f"Record {self.records} differs from the one in the anchor. The log was rewritten, or "
                "continued from an older copy."
            )
        spent = _spent(connection)
        return problems + [
            f"{dataset!r} had spent rho {rho_text(units)} when the anchor was made, but only rho "
            f"{rho_text(spent.get(dataset, 0))} now. Charges were removed."
            for dataset, units in self.spent.items()
            if spent.get(dataset, 0) < units
        ]


def read_anchor(file: Path, key: bytes) -> Anchor:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise BadRequest(
                "This is not an anchor file.", remedy="Name a file that dpxplain audit anchor has written."
            )
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise BadRequest(
            f"The anchor {str(file)!r} cannot be read.", remedy="Make one: dpxplain audit anchor FILE"
        ) from None
    return Anchor.read(text, key)


def write_anchor(file: Path, anchor: Anchor, key: bytes) -> None:
    """Writes or replaces the file, synced to disk. After a failure the old file is unchanged."""
    if anchor.records == 0:
        raise BadRequest(
            "The audit log is empty, so an anchor would fit every ledger.",
            remedy="Make the anchor after you have added a data set or a token.",
        )
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        create_synced(draft, anchor.signed(key).encode(), mode=0o666)
        draft.replace(file)
        sync_folder(file.absolute().parent)
    except OSError:
        draft.unlink(missing_ok=True)
        raise BadRequest(f"{str(file)!r} cannot be written.", remedy="Choose another place.") from None


def read_key(file: Path) -> bytes:
    """The key that signs anchors. Raises if other users may read the file."""
    try:
        if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise BadRequest(f"The key {str(file)!r} can be read by other users.", remedy=f"chmod 600 {file}")
        key = bytes.fromhex(file.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise BadRequest(
            f"The anchor key {str(file)!r} does not exist, or is not a key.",
            remedy="Name the key that signed the anchor: --key FILE",
        )
    return key


def make_key(file: Path) -> None:
    """Creates a random key that only its owner can read, unless the file exists."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_synced(file, f"{secrets.token_hex(_KEY_BYTES)}\n".encode())
        sync_folder(file.absolute().parent)
    except FileExistsError:
        return
    except OSError:
        raise BadRequest(f"{str(file)!r} cannot be written.", remedy="Choose another place.") from None


def _signature(content: Any, key: bytes) -> str:
    return hmac.new(key, audit.canonical(content).encode(), hashlib.sha256).hexdigest()


def _spent(connection: sa.Connection) -> dict[str, int]:
    """The amount spent on each data set, by the running totals, which a verification checks."""
    datasets = connection.execute(_DATASETS).scalars().all()
    totals = {name: total_spent(connection, name) for name in datasets}
    return {name: int(total) for name, total in totals.items() if total is not None}


def last_verified(key: Path, today: Anchor) -> Anchor | None:
    """The last verified position of the audit log, signed with this key; None if there is none.

    `today` is the log as it stands now.
    """
    file = _verified_file(key, today)
    return read_anchor(file, read_key(key)) if today.records > LONG_LOG and file.exists() else None


def remember_verified(key: Path, verified: Anchor | None) -> None:
    """Stores the verified position of a long log, signed with this key. Creates the key if it is missing."""
    if verified is None or verified.records < LONG_LOG:
        return
    make_key(key)
    write_anchor(_verified_file(key, verified), verified, read_key(key))


def _verified_file(key: Path, anchor: Anchor) -> Path:
    """The file beside the key (not the ledger), named by the first record, which no two ledgers share."""
    return key.with_name(f"{key.name}.verified-{anchor.first[:16]}")


def verify_since(connection: sa.Connection, anchor: Anchor) -> AuditReport:
    """Checks the records after the anchor, the rows that they describe, every row of the small tables, and
    the amounts spent. The caller compares the anchor itself with the log; `connection` must see one snapshot.
    """
    problems = audit.unprotected(connection)
    tables = audit.RecordedTables()
    for row in _rare_records(connection, anchor.records):
        problems += tables.add(row)
    older = {kind: set(digests) for kind, digests in tables.digests.items()}
    later = sa.select(LOG).where(LOG.c.id > anchor.records).order_by(LOG.c.id)
    chain = audit.check_chain(connection, tables, later, anchor.records, anchor.head)
    problems += chain.problems
    problems += tables.differences(connection, _SMALL_TABLES)
    last_entry = _last_entry(connection, anchor.records)
    for table in _LARGE_TABLES:
        kind = audit.NAMES[table.name]
        digests, older_keys = tables.digests.get(kind, {}), older.get(kind, set())
        newer = {key: digest for key, digest in digests.items() if key not in older_keys}
        problems += _changed_rows(connection, table, newer, last_entry)
    problems += _wrong_totals(connection, anchor, last_entry)
    return AuditReport(chain.records, chain.head, problems)


def _rare_records(connection: sa.Connection, until: int) -> Iterator[sa.Row[Any]]:
    """The records up to the anchor about rows of small tables, found by the index of the log."""
    rows: list[sa.Row[Any]] = []
    for dataset in (None, *_logged_datasets(connection)):
        for action in _RARE_ACTIONS:
            of_action = sa.select(LOG).where(
                LOG.c.dataset == dataset, LOG.c.action == action, LOG.c.id <= until
            )
            rows += connection.execute(of_action).all()
    yield from sorted(rows, key=lambda row: int(row.id))


def _logged_datasets(connection: sa.Connection) -> Iterator[str]:
    """The data sets that the log names. Each takes one index lookup, however long the log is."""
    first = sa.select(sa.func.min(LOG.c.dataset))
    dataset = connection.execute(first).scalar_one()
    while dataset is not None:
        yield dataset
        dataset = connection.execute(first.where(LOG.c.dataset > dataset)).scalar_one()


def _last_entry(connection: sa.Connection, until: int) -> int:
    """The newest entry that a record up to the anchor describes."""
    while until > 0:
        batch = sa.select(LOG.c.id, LOG.c.details).where(LOG.c.id <= until).order_by(LOG.c.id.desc())
        rows = connection.execute(batch.limit(_KEYS_AT_ONCE)).all()
        for row in rows:
            content = audit.parsed(row.details)
            if isinstance(content, dict) and isinstance(entry := content.get("entry"), dict):
                return int(entry.get("id", 0))
        until = rows[-1].id - 1 if rows else 0
    return 0


def _changed_rows(
    connection: sa.Connection, table: sa.Table, recorded: dict[Any, bytes], last_entry: int
) -> list[str]:
    """Problems with rows newer than the anchor: altered, gone, or not in the log."""
    kind, key, problems, missing = audit.NAMES[table.name], primary_key(table), [], dict(recorded)
    for number, digest in audit.row_digests(table, _rows_with_keys(connection, table, recorded)):
        if missing.pop(number) != digest:
            problems.append(audit.altered_row(kind, number))
    problems += [audit.deleted_row(kind, number) for number in missing]
    newer = sa.select(key).where(key > last_entry).order_by(key)
    return problems + [
        audit.inserted_row(kind, row[0]) for row in audit.stream(connection, newer) if row[0] not in recorded
    ]


def _rows_with_keys(connection: sa.Connection, table: sa.Table, keys: Iterable[Any]) -> Iterator[sa.Row[Any]]:
    numbers = list(keys)
    for start in range(0, len(numbers), _KEYS_AT_ONCE):
        chosen = primary_key(table).in_(numbers[start : start + _KEYS_AT_ONCE])
        yield from connection.execute(sa.select(table).where(chosen))


def _wrong_totals(connection: sa.Connection, anchor: Anchor, last_entry: int) -> list[str]:
    """Problems with the amounts spent: each must be the anchor's amount plus the charges since then."""
    spent, problems = dict(anchor.spent), []
    columns = (ENTRIES.c.id, ENTRIES.c.dataset, ENTRIES.c.charge_units, ENTRIES.c.total_units)
    for row in audit.stream(
        connection, sa.select(*columns).where(ENTRIES.c.id > last_entry).order_by(ENTRIES.c.id)
    ):
        spent[row.dataset] = spent.get(row.dataset, 0) + row.charge_units
        if row.total_units != spent[row.dataset]:
            problems.append(f"The running total of entry {row.id} does not match the entries before it.")
            spent[row.dataset] = row.total_units
    for dataset, units in spent.items():
        if (total_spent(connection, dataset) or 0) != units:
            problems.append(
                f"The amount spent on {dataset!r} does not match the anchor plus the later charges."
            )
    return problems
