"""A server whose charge another took over shows the other's release, not its own."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

import dpxplain as dpx
from dpxplain.errors import LedgerUnavailable
from dpxplain.ledger.tables import FLIGHTS
from dpxplain.phases.concurrency import KeyedLocks
from dpxplain.server.context import TaskReleaser
from dpxplain.server.pool import Task
from opened import dataset_of

SQL = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
SCHEMA = {"table": {"name": "people"}, "privacy": {"rho": 1.0}, "columns": {"sex": {"values": ["F", "M"]}}}


def test_of_two_measurements_of_one_charge_only_the_stored_one_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"sex": ["F", "M"] * 50})
    with (
        dpx.connect(rows, SCHEMA, workspace=tmp_path) as here,
        dpx.connect(rows, SCHEMA, workspace=tmp_path) as there,
    ):
        ledger: Any = dataset_of(here).releaser.ledger
        dataset_of(here).releaser = TaskReleaser(ledger, Task(), KeyedLocks(), nullcontext)
        answers: list[Any] = []

        def lose_the_ledger(*_release: Any) -> None:
            """It is away for so long that the other process takes this one for dead."""
            monkeypatch.undo()
            with ledger.store.updating() as connection:
                connection.execute(sa.update(FLIGHTS).values(heard="2020-01-01T00:00:00+00:00"))
            answers.append(there.query(SQL, rho=0.5))
            raise LedgerUnavailable("It is away.")

        monkeypatch.setattr(ledger, "release", lose_the_ledger)
        answers.append(here.query(SQL, rho=0.5))
        first, second = (answer.release.noisy_count for answer in answers)
        assert first == second
        assert here.budget.spent == 0.5
