"""Ledgers on every database we support: a test that takes `ledger` runs on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpxplain.ledger.ledger import SQLLedger, open_ledger


def _address(database: str, request: pytest.FixtureRequest, folder: Path) -> str | None:
    if database == "memory":
        return None
    if database == "file":
        return str(folder / ".dpxplain" / "ledger.sqlite")
    address: str = request.getfixturevalue("postgres_address")  # only now: no server is started in vain
    return address


@pytest.fixture(params=["memory", "file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Where a new ledger may be opened."""
    return _address(request.param, request, tmp_path)


@pytest.fixture(params=["file", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    """Where a new ledger may be opened by several processes."""
    return _address(request.param, request, tmp_path)


@pytest.fixture
def ledger(place: str | None) -> Iterator[SQLLedger]:
    """An open ledger that knows "adult" with a limit of 1."""
    ledger = open_ledger(place)
    ledger.open_dataset("adult", 1.0, 1e-6)
    yield ledger
    ledger.close()
