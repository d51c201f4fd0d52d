"""Budgets, charges, releases, tokens and jobs, in SQLite or PostgreSQL.

The default place of the file is the same for the library, the commands and the server.
"""

WORKSPACE = ".dpxplain"  # in the current folder; for a server, in its configuration's folder
LEDGER_FILE = "ledger.sqlite"
DEFAULT_LEDGER = f"{WORKSPACE}/{LEDGER_FILE}"
CONFIGURATION = "server.toml"  # a server's, looked for in the current folder if no other is named
ANCHOR_FILE = "ledger.anchor"  # of a ledger in PostgreSQL, beside the server's configuration
FORMAT = 9  # of the tables as tables.py declares them; a new one needs a new version of the program
ANCHOR_VARIABLE = "DPXPLAIN_ANCHOR"
OFF = "off"
"""In place of an anchor file: no anchor is kept."""
