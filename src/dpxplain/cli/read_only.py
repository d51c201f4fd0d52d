"""A read-only session on a workspace: budget, history, stored answers and prices.

It reads no data, so it opens at once however large they are, and it measures nothing.
"""

from __future__ import annotations

from pathlib import Path

from dpxplain.cli.workspace_ledger import open_workspace_ledger
from dpxplain.engines.source_files import FileSource
from dpxplain.errors import BadRequest
from dpxplain.model.schema import Schema
from dpxplain.phases.data_guard import DataGuard
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.releaser import StoredReleaser
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.session import Session


def _not_open() -> BadRequest:
    return BadRequest("The data are not open, so nothing can be measured.", remedy="Pass --data PATH.")


def read_only_session(schema: Schema, workspace: str | Path, source: str | Path | None = None) -> Session:
    """A session on what the workspace's ledger already holds.

    If the files of `source` are there, they must be those that were answered from; they are read only if
    their size and times cannot tell.
    """
    table, ledger = schema.table, open_workspace_ledger(schema, workspace).ledger
    files = None if source is None else FileSource(source)
    guard = None
    if files is not None and files.exists:
        guard = DataGuard(ledger.versions, table.name, table.version, files)
    return Session(OpenDataset(schema, None, ledger, StoredReleaser(_not_open), OpenDPNoise(), guard=guard))
