"""What a curator needs when a ledger was lost or put back: backups, the anchor, and declared losses.

A declared loss says that the ledger has lost records: what may have been spent is charged in full. How much
that is, the anchor knows for each analyst and data set. Where no anchor is left, everything that remains of
every budget is charged instead.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.account_totals import raise_numbers
from dpxplain.ledger.anchor_file import Head, KeptAnchor
from dpxplain.ledger.anchor_guard import AnchorGuard, full_mark, holds
from dpxplain.ledger.backup import Backup, raise_sequences, restore_backup, verified_backup, write_backup
from dpxplain.ledger.protocol import AuditReport, check_reason
from dpxplain.ledger.standing import standing
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, LIMITS, LOG, RELEASES

KIND = "loss"

_OF_DATASET = ENTRIES.c.dataset == sa.bindparam("dataset")
_OF_ANALYST = ENTRIES.c.analyst == sa.bindparam("analyst")
_LAST_TOTAL = sa.select(ENTRIES.c.total_units).where(_OF_DATASET).order_by(ENTRIES.c.id.desc()).limit(1)
_OWN_TOTAL = (
    sa.select(ENTRIES.c.own_units)
    .where(_OF_DATASET, _OF_ANALYST, ENTRIES.c.id <= sa.bindparam("entry"))
    .order_by(ENTRIES.c.id.desc())
    .limit(1)
)
_NEWEST_ENTRY = sa.select(sa.func.coalesce(sa.func.max(ENTRIES.c.id), 0))
_CHANGES_SINCE = (
    sa.select(LOG.c.details)
    .where(LOG.c.id > sa.bindparam("id"), LOG.c.action.in_(sorted(audit.CHANGES)))
    .order_by(LOG.c.id)
)
_DECLARATIONS = sa.select(LOG.c.details).where(LOG.c.action == audit.LOSS_DECLARED, LOG.c.dataset.is_(None))
_LAST_RECORD = sa.select(LOG.c.id, LOG.c.hash).order_by(LOG.c.id.desc()).limit(1)


@dataclass(frozen=True)
class Loss:
    """What one analyst may have spent of one data set without the ledger knowing; in the ledger's units."""

    dataset: str
    analyst: str
    units: int


def losses(
    connection: sa.Connection, guard: AnchorGuard | None, kept: KeptAnchor | None, *, everything: bool
) -> list[Loss]:
    """What would be charged now: the lost charges and, of `everything`, also all that remains.

    `kept` is what the guard's anchor says. The charges that follow the last record which ledger and anchor
    share count as lost in full, also if the ledger has gone on from there with others.
    """
    problem = None if guard is None else guard.problem(connection, with_totals=True)
    lost = [] if kept is None or problem is None else _lost_charges(connection, kept)
    if everything:
        return lost + _remaining(connection, lost)
    if problem is None:
        raise _nothing_lost(guard)
    if kept is None:
        raise BadRequest(
            f"{problem} What was spent cannot be known.",
            remedy="Put the file back from a copy; or charge all that remains: --everything",
        )
    return lost


def declare_loss(
    store: Store, guard: AnchorGuard | None, *, everything: bool, reason: str, by: str
) -> list[Loss]:
    """Charge what was lost, record it, and let the anchor begin anew where the ledger stands."""
    check_reason(reason)
    with store.writing() as connection:
        # Read once, and before all else: whatever is written to the anchor from here on is not covered.
        kept = None if guard is None else guard.readable()
        charges = losses(connection, guard, kept, everything=everything)
        last = connection.execute(_LAST_RECORD).one_or_none()
        _charge(connection, charges, 0 if kept is None else kept.entry, reason, by)
        details = {
            "reason": reason,
            "everything": everything,
            "anchor": None if kept is None else {"records": kept.head.records, "head": kept.head.hash},
            "ledger": None if last is None else {"records": last.id, "head": last.hash},
        }
        audit.append(connection, by, audit.LOSS_DECLARED, None, details)
        mark = full_mark(connection)
        # With them, the next loss begins at the last record that is shared, and not at the very first.
        earlier = [] if kept is None else _shared_heads(connection, kept)
    if guard is not None and mark is not None:
        guard.renew(mark, earlier, kept)
    return charges


def _lost_charges(connection: sa.Connection, kept: KeptAnchor) -> list[Loss]:
    """What each analyst had spent by the anchor and not by the last record that it shares with the ledger."""
    if _is_declared(connection, kept.head):
        return []  # charged before, by a command that could not write the new anchor
    shared = _last_shared_entry(connection, kept)
    lost = []
    for dataset, totals in sorted(kept.spent.items()):
        for analyst, units in sorted(totals.items()):
            of_analyst = {"dataset": dataset, "analyst": analyst, "entry": shared}
            before = connection.execute(_OWN_TOTAL, of_analyst).scalar_one_or_none() or 0
            if units > before:
                lost.append(Loss(dataset, analyst, units - before))
    return lost


def _remaining(connection: sa.Connection, lost: Sequence[Loss]) -> list[Loss]:
    """What the limits that the ledger knows leave of each data set, once `lost` is charged."""
    known = sa.select(LIMITS.c.dataset).distinct().order_by(LIMITS.c.dataset)
    datasets = connection.execute(known).scalars().all()
    if not datasets and not lost:
        raise BadRequest(
            "The ledger knows no data set, so nothing can be charged: their budgets would begin anew.",
            remedy="Restore a backup of any age first (dpxplain ledger restore). Without one, begin another "
            "ledger with limits that leave out all that may have been spent.",
        )
    charged = Counter[str]()
    for loss in lost:
        charged[loss.dataset] += loss.units
    remaining = [(dataset, standing(connection, dataset).left - charged[dataset]) for dataset in datasets]
    return [Loss(dataset, "", units) for dataset, units in remaining if units > 0]


def _charge(connection: sa.Connection, charges: Sequence[Loss], newest: int, reason: str, by: str) -> None:
    """Enter each loss; the entries are numbered after the lost ones.

    A number is not given twice: whoever measured a lost entry could store its release with another.
    """
    first = max(newest, connection.execute(_NEWEST_ENTRY).scalar_one()) + 1
    for id, loss in enumerate(charges, first):
        of_analyst = {"dataset": loss.dataset, "analyst": loss.analyst, "entry": id}
        total = connection.execute(_LAST_TOTAL, of_analyst).scalar_one_or_none() or 0
        own = connection.execute(_OWN_TOTAL, of_analyst).scalar_one_or_none() or 0
        row: dict[str, Any] = {
            "id": id,
            "dataset": loss.dataset,
            "analyst": loss.analyst,
            "time": audit.now(),
            "kind": KIND,
            "key": "",
            "description": f"charged for lost records: {reason}",
            "charge_units": loss.units,
            "total_units": total + loss.units,
            "own_units": own + loss.units,
            "spends": "[]",
        }
        entry = audit.insert(connection, ENTRIES, row)
        raise_numbers(connection, loss.dataset, loss.analyst, id)
        release = audit.insert(connection, RELEASES, {"entry": id, "payload": json.dumps({"reason": reason})})
        rows = {ENTRIES: entry, RELEASES: release}
        audit.append_change(connection, by, audit.LOSS_CHARGED, loss.dataset, rows, row["time"])
    raise_sequences(connection)


def _shared_heads(connection: sa.Connection, kept: KeptAnchor) -> list[Head]:
    """The anchor's heads that the ledger holds: all up to the newest one, as they are of one chain."""
    heads = kept.heads
    newest = next((at for at in reversed(range(len(heads))) if holds(connection, heads[at])), -1)
    return heads[: newest + 1]


def _last_shared_entry(connection: sa.Connection, kept: KeptAnchor) -> int:
    """The newest entry that the ledger shares with what the anchor has seen."""
    shared = _shared_heads(connection, kept)
    if not shared:
        return 0
    for details in connection.execute(_CHANGES_SINCE, {"id": shared[-1].records}).scalars():
        entry = audit.parsed(details).get(audit.NAMES[ENTRIES.name])
        if entry:
            return int(entry["id"]) - 1
    newest: int = connection.execute(_NEWEST_ENTRY).scalar_one()
    return newest


def _is_declared(connection: sa.Connection, head: Head) -> bool:
    anchor = {"records": head.records, "head": head.hash}
    declared = map(audit.parsed, connection.execute(_DECLARATIONS).scalars())
    return any(details.get("anchor") == anchor for details in declared)


def _nothing_lost(guard: AnchorGuard | None) -> BadRequest:
    if guard is None:
        return BadRequest(
            "Without an anchor it is not known what was lost.",
            remedy="Name the ledger's anchor: --anchor FILE; or charge all that remains: --everything",
        )
    return BadRequest(
        "The ledger goes on from its anchor: nothing was lost.",
        remedy="If both were put back from older copies, charge all that remains: --everything",
    )


class Recovery:
    """Backups, anchor and losses of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def anchor_file(self) -> Path | None:
        """What remembers the head of the log outside of the ledger."""
        return None if self._store.anchor is None else self._store.anchor.file.path

    @property
    def verification_key(self) -> Path | None:
        """Beside the anchor: signs where a server last found a long log intact."""
        file = self.anchor_file
        return None if file is None else file.with_name(f"{file.name}.key")

    def anchor_problem(self) -> str | None:
        """Why nothing is charged, with numbers, for the curator; None if the anchor is in the log."""
        if self._store.anchor is None:
            return None
        with self._store.reading() as connection:
            return self._store.anchor.problem(connection, with_totals=True)

    def keep_anchor(self) -> str | None:
        """Write what the log gained since the anchor was last written; refuse if it cannot be written.

        Returns why nothing is charged, as `anchor_problem`; then the anchor stays what it is.
        """
        anchor = self._store.anchor
        if anchor is None:
            return None
        with self._store.reading() as connection:
            problem = anchor.problem(connection)
            mark = None if problem else anchor.mark(connection)
        anchor.check_writable()
        self._store.keep_mark(mark)
        return problem

    def losses(self, *, everything: bool = False) -> list[Loss]:
        """What `declare_loss` would charge now."""
        anchor = self._store.anchor
        with self._store.snapshot() as connection:
            kept = None if anchor is None else anchor.readable()
            return losses(connection, anchor, kept, everything=everything)

    def declare_loss(self, *, reason: str, by: str, everything: bool = False) -> list[Loss]:
        """Charge in full what was lost between the ledger and its anchor; then the ledger goes on."""
        return declare_loss(self._store, self._store.anchor, everything=everything, reason=reason, by=by)

    def backup(self, file: Path) -> AuditReport:
        """Write a consistent copy of the ledger, as a SQLite file, and verify it."""
        return write_backup(self._store, file)

    def restore(self, file: Path, *, by: str) -> AuditReport:
        """Put a backup in place of all that the ledger holds; what it says of the backup."""
        with verified_backup(file) as backup:
            return self.restore_verified(backup, by=by)

    def restore_verified(self, backup: Backup, *, by: str) -> AuditReport:
        """Restore a backup that is open: it can be verified before the ledger is made."""
        return restore_backup(self._store, backup, by)
