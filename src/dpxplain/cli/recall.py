"""A session on what the ledger already knows: budget, history, stored answers and prices.

It needs no data, so it opens at once however large they are; and it can reserve nothing, so nothing asked
of it can spend.
"""

from __future__ import annotations

from pathlib import Path

from dpxplain.engines.engine import NoData
from dpxplain.errors import BadRequest
from dpxplain.ledger.sqlite import SQLiteLedger
from dpxplain.model.charge import Charge
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.session import Session


class _SealedLedger(SQLiteLedger):
    """A ledger for looking only: `reserve` is the one gate to spending, and it is shut."""

    def reserve(self, dataset: str, charge: Charge) -> int:
        raise BadRequest("The data are not open, so nothing can be measured.", remedy="Pass --data PATH.")


def recall(schema: Schema, workspace: str | Path) -> Session:
    """The data set as its workspace remembers it."""
    ledger = _SealedLedger(Path(workspace) / "ledger.sqlite")
    try:
        ledger.open_dataset(schema.table.name, schema.privacy.rho, schema.privacy.delta)
    except BaseException:
        ledger.close()
        raise
    return Session(OpenDataset(schema, NoData(schema), ledger, OpenDPNoise()))
