"""What a curator needs when a ledger was lost or put back: backups, the anchor, and declared losses."""

from __future__ import annotations

from pathlib import Path

from dpxplain.ledger.backup import Backup, restore_backup, verified_backup, write_backup
from dpxplain.ledger.loss import Loss, declare_loss, losses
from dpxplain.ledger.protocol import AuditReport
from dpxplain.ledger.store import Store


class Recovery:
    """Of one ledger."""

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
            return self._store.anchor.problem(connection)

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
        with self._store.snapshot() as connection:
            return losses(connection, self._store.anchor, everything=everything)

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
        """The same of a backup that is open: it can be verified before the ledger is made."""
        return restore_backup(self._store, backup, by)
