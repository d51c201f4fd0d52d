"""A read-only session on a workspace: budget, history, stored answers and prices.

It reads no data, so it opens at once however large they are, and it measures nothing.
"""

from __future__ import annotations

from pathlib import Path

from dpxplain.cli.workspace_ledger import open_workspace_ledger
from dpxplain.errors import BadRequest
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.releaser import StoredReleaser
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.session import Session


def _not_open() -> BadRequest:
    return BadRequest("The data are not open, so nothing can be measured.", remedy="Pass --data PATH.")


def read_only_session(schema: Schema, workspace: str | Path) -> Session:
    """A session on what the workspace's ledger already holds."""
    ledger = open_workspace_ledger(schema, workspace).ledger
    return Session(OpenDataset(schema, None, ledger, StoredReleaser(_not_open), OpenDPNoise()))
