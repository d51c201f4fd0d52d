"""A workspace without its data: budget, history, stored answers and prices.

It opens no data, so it is quick however large they are, and it measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpxplain.errors import BadRequest
from dpxplain.ledger.address import find_ledger

if TYPE_CHECKING:
    from dpxplain.ledger.ledger import SQLLedger
    from dpxplain.model.charge import Budget, HistoryPage
    from dpxplain.model.schema import Schema
    from dpxplain.session import Session


@dataclass(frozen=True)
class WorkspaceLedger:
    """The part of a session that needs only the ledger."""

    ledger: SQLLedger
    name: str

    @property
    def budget(self) -> Budget:
        return self.ledger.budget(self.name)

    def history_pages(self, limit: int) -> Iterator[HistoryPage]:
        from dpxplain.model.charge import history_pages

        return history_pages(lambda before: self.ledger.history_page(self.name, before, limit))


def open_workspace_ledger(schema: Schema, workspace: str | Path | None) -> WorkspaceLedger:
    """The workspace's ledger, with the data set registered; in memory if the workspace was never used."""
    from dpxplain.ledger.ledger import open_ledger

    address = find_ledger(workspace=workspace)
    if address.is_unused:
        ledger = open_ledger(None)
    else:
        ledger = open_ledger(address.place, anchor=address.anchor, create=False)
    try:
        ledger.open_dataset(schema.table.name, schema.privacy.rho, schema.privacy.delta)
    except BaseException:
        ledger.close()
        raise
    return WorkspaceLedger(ledger, schema.table.name)


def read_only_session(
    schema: Schema,
    folder: Path,
    workspace: str | Path | None,
    source: str | Path | Sequence[str | Path] | None = None,
) -> Session:
    """A session on what the workspace's ledger already holds. Public tables are read from `folder`.

    If the files of `source` exist, they must be those that the answers came from. Their content is read only
    if size and times cannot tell.
    """
    # Imported here, so that budget and history need not load the parts of the library that explain.
    from dpxplain.engines.opening import source_state, with_public_tables
    from dpxplain.phases.dataset import OpenDataset, StoredReleaser, VersionCheck
    from dpxplain.phases.measure import with_discovered
    from dpxplain.privacy.mechanisms.noise import OpenDPNoise
    from dpxplain.session import Session

    table, ledger = schema.table, open_workspace_ledger(schema, workspace).ledger
    schema = with_public_tables(with_discovered(schema, ledger), folder)  # some tables have a discovered key
    state = None if source is None else source_state(source, schema)
    version_check = None if state is None else VersionCheck(ledger.versions, table.name, table.version, state)
    return Session(
        OpenDataset(
            schema, None, ledger, StoredReleaser(_not_open), OpenDPNoise(), version_check=version_check
        )
    )


def _not_open() -> BadRequest:
    return BadRequest("The data are not open, so nothing can be measured.", remedy="Pass --data PATH.")
