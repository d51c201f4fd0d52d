"""What a workspace's ledger says of one data set: its budget and its history.

Needs neither the data nor the parts of the library that measure and explain, so it opens at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.ledger.place import LEDGER_FILE
from dpxplain.model.budget import Budget
from dpxplain.model.charge import Entry
from dpxplain.model.schema import Schema


@dataclass(frozen=True)
class WorkspaceLedger:
    """The part of a session that only the ledger is needed for."""

    ledger: SQLLedger
    name: str

    @property
    def budget(self) -> Budget:
        return self.ledger.budget(self.name)

    @property
    def history(self) -> list[Entry]:
        return self.ledger.history(self.name)


def open_workspace_ledger(schema: Schema, workspace: str | Path) -> WorkspaceLedger:
    """The ledger in the workspace, with the data set entered if it is new there."""
    ledger = open_ledger(Path(workspace) / LEDGER_FILE)
    try:
        ledger.open_dataset(schema.table.name, schema.privacy.rho, schema.privacy.delta)
    except BaseException:
        ledger.close()
        raise
    return WorkspaceLedger(ledger, schema.table.name)
