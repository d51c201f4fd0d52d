"""Ledger files with flipped bits: refused, or `verify` finds it, or what the ledger says is unchanged."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mutations import with_flipped_bits

from dpxplain.errors import DPXPlainError
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.model.charge import Charge, Request, Spend


@dataclass
class LedgerFigures:
    tried: int = 0
    refused: int = 0  # at opening or reading
    found: int = 0  # by verify
    regained: int = 0  # of those, ledgers that would have let somebody spend more before verify was run
    intact: int = 0  # the bits were in free space, or in an index that says the same
    cut_off: int = 0  # a damaged journal: the newest charges are gone, and only a noted head shows it
    wrong: list[str] = field(default_factory=list)


def fuzz_ledgers(seed: int, numbers: Iterator[int], folder: Path) -> LedgerFigures:
    figures = LedgerFigures()
    whole = folder / "whole"
    head = make_ledger(whole)
    told = _told(whole / "closed" / "ledger.db")
    shutil.copytree(whole / "open", folder / "replayed")
    _judge(folder / "replayed" / "ledger.db", told, head, figures, is_journal=True)
    assert figures.intact == 1, "an undamaged journal is replayed whole"
    figures.intact = 0
    for number in numbers:
        rng = random.Random(f"ledger {seed} {number}")
        place = folder / f"{number}"
        shutil.copytree(whole / ("closed" if number % 4 else "open"), place)
        file = place / ("ledger.db" if number % 4 else "ledger.db-wal")
        file.write_bytes(with_flipped_bits(file.read_bytes(), rng))
        figures.tried += 1
        try:
            _judge(place / "ledger.db", told, head, figures, is_journal=number % 4 == 0)
        except Exception as failure:
            text = f"{type(failure).__name__}: {failure}"[:400]
            figures.wrong.append(f"--seed {seed} --start {number}: {text}")
        shutil.rmtree(place)
    return figures


def make_ledger(folder: Path) -> str:
    """A ledger with charges, grants, shares and tokens, once closed and once with its journal; its head."""
    (folder / "open").mkdir(parents=True)
    path = folder / "closed" / "ledger.db"
    with closing(open_ledger(path)) as ledger:
        ledger.open_dataset("adult", 3.0, 1e-6)
        for analyst in ("ann", "bob"):
            ledger.grant("adult", analyst, 1.0, reason="work", by="carol")
        ledger.top_up("adult", 0.5, reason="more", by="carol")
        ledger.share("adult", "ann", "bob", reason="same team", by="carol")
        ledger.tokens.create("ann", "analyst", expires=datetime.now(UTC) + timedelta(days=1), by="carol")
        for number in range(30):
            _charge(ledger, ("ann", "bob")[number % 2], number)
        for name in ("ledger.db", "ledger.db-wal"):  # as a killed process leaves it
            shutil.copy(path.with_name(name), folder / "open" / name)
        return ledger.verify_audit().head


def _charge(ledger: SQLLedger, analyst: str, number: int) -> None:
    request = Request("SELECT COUNT(*) FROM adult")
    account = ledger.account(analyst)
    entry = account.reserve(
        "adult",
        Charge("query", f"key {number}", request, 0.01 * (number % 3 + 1), (Spend("gaussian", 0.01),)),
    )
    if number % 5:
        account.release(entry.row, '{"values": [' + "1.5, " * 40 + "2]}")


def _told(path: Path) -> dict[str, Any]:
    """Everything that a ledger says, read without the library."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"'))) for name in tables}


def _judge(path: Path, told: dict[str, Any], head: str, figures: LedgerFigures, *, is_journal: bool) -> None:
    try:
        with closing(open_ledger(path)) as ledger:
            spent, limit = (getattr(ledger.budget("adult"), name) for name in ("spent", "limit"))
            ledger.history("adult")
            ledger.audit()
            ledger.tokens.list()
            ledger.shares("adult")
            ledger.allowances("adult")
            for analyst in ("ann", "bob"):
                ledger.account(analyst).budget("adult")
            problems = ledger.verify_audit().problems
            behind = ledger.verify_audit(head).problems
    except DPXPlainError as refusal:
        figures.refused += 1
        if not refusal.remedy:
            raise AssertionError("a refusal has no remedy") from refusal
        return
    regained = limit - spent > 3.5 - 0.6 + 1e-9
    if problems:
        figures.found += 1
        figures.regained += regained
    elif is_journal and behind:
        figures.cut_off += 1
    else:
        assert not regained, "budget was regained, and verify does not see it"
        assert is_journal or _told(path) == told, "the ledger says something else, and verify does not see it"
        figures.intact += 1
