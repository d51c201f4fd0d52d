"""Budgets, charges, releases, tokens and jobs, in SQLite or PostgreSQL.

The default place of the file is the same for the library, the commands and the server.
"""

WORKSPACE = ".dpxplain"  # in the current folder; for a server, in its configuration's folder
LEDGER_FILE = "ledger.sqlite"
DEFAULT_LEDGER = f"{WORKSPACE}/{LEDGER_FILE}"
CONFIGURATION = "server.toml"  # a server's file, read from the current folder if no other is named
ANCHOR_FILE = "ledger.anchor"  # for a ledger in PostgreSQL, beside the server's configuration
FORMAT = 9  # the version of the tables in tables.py; a new format needs a new version of the program
ANCHOR_VARIABLE = "DPXPLAIN_ANCHOR"
OFF = "off"
"""The value that means "keep no anchor", in place of an anchor file."""
