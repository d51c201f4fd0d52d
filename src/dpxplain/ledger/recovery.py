"""Recovery after a ledger was lost or an older copy put back: backups, the anchor, and declared losses.

When the ledger has lost records, the curator declares a loss, which charges everything that may have been
spent. The anchor has the amount for each analyst and data set. Without an anchor, all remaining budgets are
charged.
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
from dpxplain.ledger.single_flight import end_all_flights
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
    """What one analyst may have spent on one data set unknown to the ledger, in the ledger's units."""

    dataset: str
    analyst: str
    units: int


def losses(
    connection: sa.Connection, guard: AnchorGuard | None, anchor: KeptAnchor | None, *, everything: bool
) -> list[Loss]:
    """The losses to charge now: the lost charges and, with `everything`, all remaining budget too.

    `anchor` is the content of the guard's file. All charges in the anchor after the last record that it
    shares with the ledger count as lost, even if the ledger continued from there with other charges.
    """
    problem = None if guard is None else guard.problem(connection, with_totals=True)
    lost = [] if anchor is None or problem is None else _lost_charges(connection, anchor)
    if everything:
        return lost + _remaining(connection, lost)
    if problem is None:
        raise _nothing_lost(guard)
    if anchor is None:
        raise BadRequest(
            f"{problem} So nobody can know what was spent.",
            remedy="Put the file back from a copy, or charge all remaining budget: --everything",
        )
    return lost


def declare_loss(
    store: Store, guard: AnchorGuard | None, *, everything: bool, reason: str, by: str
) -> list[Loss]:
    """Charges and records the lost amounts, then restarts the anchor at the ledger's last record."""
    check_reason(reason)
    with store.writing() as connection:
        # Read once and first: lines written to the anchor after this are not part of the declared loss.
        anchor = None if guard is None else guard.readable()
        charges = losses(connection, guard, anchor, everything=everything)
        last = connection.execute(_LAST_RECORD).one_or_none()
        _charge(connection, charges, 0 if anchor is None else anchor.entry, reason, by)
        details = {
            "reason": reason,
            "everything": everything,
            "anchor": None if anchor is None else _head_details(anchor.head),
            "ledger": None if last is None else {"records": last.id, "head": last.hash},
        }
        end_all_flights(connection)  # before the declaration, so that none of these charges is kept
        audit.append(connection, by, audit.LOSS_DECLARED, None, details)
        mark = full_mark(connection)
        # With these heads, the next loss begins at the last shared record instead of the first.
        earlier = [] if anchor is None else _shared_heads(connection, anchor)
    if guard is not None and mark is not None:
        guard.renew(mark, earlier, anchor)
    return charges


def _lost_charges(connection: sa.Connection, anchor: KeptAnchor) -> list[Loss]:
    """What each analyst had spent at the anchor, beyond the last record that it shares with the ledger."""
    if _is_loss_declared(connection, anchor.head):
        return []  # already charged, by a command that could not write the new anchor
    shared = _last_shared_entry(connection, anchor)
    lost = []
    for dataset, totals in sorted(anchor.spent.items()):
        for analyst, units in sorted(totals.items()):
            of_analyst = {"dataset": dataset, "analyst": analyst, "entry": shared}
            before = connection.execute(_OWN_TOTAL, of_analyst).scalar_one_or_none() or 0
            if units > before:
                lost.append(Loss(dataset, analyst, units - before))
    return lost


def _remaining(connection: sa.Connection, lost: Sequence[Loss]) -> list[Loss]:
    """What is left of each data set's limit in the ledger, after `lost` is charged."""
    known = sa.select(LIMITS.c.dataset).distinct().order_by(LIMITS.c.dataset)
    datasets = connection.execute(known).scalars().all()
    if not datasets and not lost:
        raise BadRequest(
            "The ledger has no data sets, so there is no budget to charge the loss to.",
            remedy="First restore a backup of any age (dpxplain ledger restore). Without one, create a new "
            "ledger, and lower its limits by everything that may have been spent.",
        )
    charged = Counter[str]()
    for loss in lost:
        charged[loss.dataset] += loss.units
    remaining = [(dataset, standing(connection, dataset).left - charged[dataset]) for dataset in datasets]
    return [Loss(dataset, "", units) for dataset, units in remaining if units > 0]


def _charge(connection: sa.Connection, charges: Sequence[Loss], newest: int, reason: str, by: str) -> None:
    """Writes an entry for each loss. Their ids follow those of the lost entries (see `raise_sequences`)."""
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


def _shared_heads(connection: sa.Connection, anchor: KeptAnchor) -> list[Head]:
    """The anchor's heads that the ledger holds: all up to the newest such head, as they form one chain."""
    heads = anchor.heads
    newest = next((index for index in reversed(range(len(heads))) if holds(connection, heads[index])), -1)
    return heads[: newest + 1]


def _last_shared_entry(connection: sa.Connection, anchor: KeptAnchor) -> int:
    """The newest entry that the ledger shares with the anchor."""
    shared = _shared_heads(connection, anchor)
    if not shared:
        return 0
    for details in connection.execute(_CHANGES_SINCE, {"id": shared[-1].records}).scalars():
        entry = audit.parsed(details).get(audit.NAMES[ENTRIES.name])
        if entry:
            return int(entry["id"]) - 1
    newest: int = connection.execute(_NEWEST_ENTRY).scalar_one()
    return newest


def _is_loss_declared(connection: sa.Connection, head: Head) -> bool:
    """Whether a loss was declared for the anchor with this head."""
    declarations = map(audit.parsed, connection.execute(_DECLARATIONS).scalars())
    return any(details.get("anchor") == _head_details(head) for details in declarations)


def _head_details(head: Head) -> dict[str, Any]:
    """A head in the form that the record of a declared loss repeats."""
    return {"records": head.records, "head": head.hash}


def _nothing_lost(guard: AnchorGuard | None) -> BadRequest:
    if guard is None:
        return BadRequest(
            "Without an anchor, nobody can know what was lost.",
            remedy="Name the ledger's anchor (--anchor FILE), or charge all remaining budget: --everything",
        )
    return BadRequest(
        "Nothing was lost: the ledger continues from its anchor.",
        remedy="If both the ledger and its anchor are older copies, charge all remaining budget: "
        "--everything",
    )


class Recovery:
    """Backups, anchor and losses of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def anchor_file(self) -> Path | None:
        """The anchor file, which remembers the head of the log outside of the ledger."""
        return None if self._store.anchor is None else self._store.anchor.file.path

    @property
    def verification_key(self) -> Path | None:
        """The key file beside the anchor. It signs the place up to which a long log was last found intact."""
        file = self.anchor_file
        return None if file is None else file.with_name(f"{file.name}.key")

    def anchor_problem(self) -> str | None:
        """Why the anchor blocks charges, with numbers, for the curator; None if it does not."""
        if self._store.anchor is None:
            return None
        with self._store.reading() as connection:
            return self._store.anchor.problem(connection, with_totals=True)

    def keep_anchor(self) -> str | None:
        """Writes the log's present position to the anchor. Raises if the anchor cannot be written.

        If the anchor blocks charges, leaves it unchanged and returns the reason; does not compare totals.
        """
        guard = self._store.anchor
        if guard is None:
            return None
        with self._store.reading() as connection:
            problem = guard.problem(connection)
            mark = None if problem else guard.mark(connection)
        guard.check_writable()
        self._store.keep_mark(mark)
        return problem

    def losses(self, *, everything: bool = False) -> list[Loss]:
        """The losses that `declare_loss` would charge now."""
        guard = self._store.anchor
        with self._store.snapshot() as connection:
            anchor = None if guard is None else guard.readable()
            return losses(connection, guard, anchor, everything=everything)

    def declare_loss(self, *, reason: str, by: str, everything: bool = False) -> list[Loss]:
        """Charges everything lost between the ledger and its anchor. The ledger can then be used again."""
        return declare_loss(self._store, self._store.anchor, everything=everything, reason=reason, by=by)

    def backup(self, file: Path) -> AuditReport:
        """Writes a consistent copy of the ledger, as a SQLite file, and verifies it."""
        return write_backup(self._store, file)

    def restore(self, file: Path, *, by: str) -> AuditReport:
        """Replaces the ledger's content with a backup. Returns the backup's report."""
        with verified_backup(file) as backup:
            return self.restore_verified(backup, by=by)

    def restore_verified(self, backup: Backup, *, by: str) -> AuditReport:
        """Restores a backup that is already open, so that it can be verified before the ledger is created."""
        return restore_backup(self._store, backup, by)
