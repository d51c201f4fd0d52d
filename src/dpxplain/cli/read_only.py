"""A read-only session on a workspace: budget, history, stored answers and prices.

It reads no data, so it opens at once however large they are, and its ledger refuses every charge.
"""

from __future__ import annotations

from pathlib import Path

from dpxplain.engines.engine import NoData
from dpxplain.errors import BadRequest
from dpxplain.ledger.ledger import SQLLedger
from dpxplain.ledger.sqlite import SQLiteStore
from dpxplain.model.charge import Charge
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.session import Session


class ReadOnlyLedger(SQLLedger):
    """Read-only ledger: `reserve` always raises."""

    def reserve(self, dataset: str, charge: Charge) -> int:
        raise BadRequest("The data are not open, so nothing can be measured.", remedy="Pass --data PATH.")


def read_only_session(schema: Schema, workspace: str | Path) -> Session:
    """A session on what the workspace's ledger already holds."""
    ledger = ReadOnlyLedger(SQLiteStore(Path(workspace) / "ledger.sqlite"))
    try:
        ledger.open_dataset(schema.table.name, schema.privacy.rho, schema.privacy.delta)
    except BaseException:
        ledger.close()
        raise
    return Session(OpenDataset(schema, NoData(schema), ledger, OpenDPNoise()))
