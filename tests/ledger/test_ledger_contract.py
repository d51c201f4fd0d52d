"""The contract on every database: SQLite in memory, SQLite in a file, and PostgreSQL."""

from __future__ import annotations

from ledger_contract import LedgerContract, SharedLedgerContract


class TestLedger(LedgerContract):
    pass


class TestLedgerShared(SharedLedgerContract):
    pass
