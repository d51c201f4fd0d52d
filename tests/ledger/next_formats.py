"""Steps to formats that do not exist yet, and a program that knows them, to test the ladder of upgrades."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from dpxplain.ledger import FORMAT, store


def add_colour(connection: sa.Connection) -> dict[str, Any]:
    connection.exec_driver_sql("ALTER TABLE entries ADD COLUMN colour TEXT")
    connection.exec_driver_sql("CREATE INDEX entries_by_colour ON entries (dataset, colour)")
    return {}


def add_moods(connection: sa.Connection) -> dict[str, Any]:
    """The table is filled from the entries."""
    connection.exec_driver_sql("CREATE TABLE moods (entry BIGINT PRIMARY KEY, mood TEXT)")
    moods = connection.exec_driver_sql("INSERT INTO moods SELECT id, 'calm' FROM entries").rowcount
    return {"moods": moods}


def add_moods_and_die(connection: sa.Connection) -> dict[str, Any]:
    add_moods(connection)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


@contextmanager
def later_program(*steps: store.Step) -> Iterator[None]:
    """Context manager: this process reads ledgers like a later version, whose ladder has these steps too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "STEPS", store.STEPS | dict(enumerate(steps, FORMAT)))
        patch.setattr(store, "FORMAT", FORMAT + len(steps))
        yield
