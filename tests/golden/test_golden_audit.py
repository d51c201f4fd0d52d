"""The audit chain: which records are written, and exactly what is hashed."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from golden_tables import (
    AVERAGE,
    COUNT,
    chain,
    command,
    explained,
    ledger_rows,
    opened,
    prepared,
    putting,
    queried,
)

from golden import check


@pytest.fixture(autouse=True)
def usual_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("DPXPLAIN_LEDGER")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_requests_are_recorded_with_their_releases(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        queried(COUNT)(session)
        prepared()(session)
        explained(mechanism="one-shot")(session)
        session.quality(rho=0.5)
    with opened(tmp_path, putting("privacy.rho", 2000.0), putting("table.version", "2025")) as session:
        queried(COUNT)(session)
    with opened(tmp_path, putting("privacy.delta", 1e-5)):
        pass
    check("audit_chain", chain(tmp_path), "requests")


def test_administration_is_recorded(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    place = ("--by", "carol", "--ledger", str(tmp_path / "ledger.sqlite"))
    for words in (
        ("token", "create", "ann", "--dataset", "people", "--rho", "1.5"),
        ("token", "create", "dora", "--role", "curator", "--expires", "2100-12-31"),
        ("allow", "set", "people", "bob", "--rho", "2", "--expires", "2100-12-31", "--reason", "a thesis"),
        ("allow", "top-up", "people", "--rho", "5", "--reason", "more questions"),
        ("allow", "top-up", "people", "--rho", "1", "--analyst", "bob", "--reason", "a chapter more"),
        ("allow", "share", "people", "bob", "ann", "--reason", "they work together"),
        ("allow", "share", "people", "bob", "ann", "--stop", "--reason", "no longer"),
        ("allow", "forgive", "people", "bob", "--reason", "a power cut"),
    ):
        assert command(*words, *place) == 0
    [token] = ledger_rows(tmp_path, "SELECT id FROM tokens WHERE name = 'ann'")
    assert command("token", "revoke", token["id"], *place) == 0
    assert command("token", "revoke", "--made-by", "carol", *place) == 0
    check("audit_chain", chain(tmp_path), "administration")


def test_an_interrupted_request_and_its_continuation_are_recorded(tmp_path: Path) -> None:
    folder, copy = tmp_path / "workspace", tmp_path / "copy"

    def stop_while_counting(stage: str) -> None:
        """Leaves a copy of the ledger as it would be if the process died now."""
        if stage == "Counting the groups" and not copy.exists():
            shutil.copytree(folder, copy)

    with opened(folder, progress=stop_while_counting) as session:
        session.query(AVERAGE, rho=0.5)
    silence(copy)
    with opened(copy) as session:
        session.query(AVERAGE, rho=0.5)
    check("audit_chain", chain(copy), "an interruption")


def silence(folder: Path) -> None:
    """As if the processes of this ledger had last been heard of long ago."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        database.execute("UPDATE flights SET heard = '2024-01-01T00:00:00+00:00'")


def test_a_failed_request_is_recorded(tmp_path: Path) -> None:
    def fail_while_counting(stage: str) -> None:
        if stage == "Counting the groups":
            raise ArithmeticError

    with opened(tmp_path, progress=fail_while_counting) as session, pytest.raises(ArithmeticError):
        session.query(AVERAGE, rho=0.5)
    check("audit_chain", chain(tmp_path), "a failure")
