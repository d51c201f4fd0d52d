"""Where the ledger is kept by default: the same place for the library, the commands and the server."""

from __future__ import annotations

WORKSPACE = ".dpxplain"  # of the current folder; for a server, of its configuration's folder
LEDGER_FILE = "ledger.sqlite"
DEFAULT_LEDGER = f"{WORKSPACE}/{LEDGER_FILE}"
