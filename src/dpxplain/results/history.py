"""Everything asked so far, as an analyst holds it."""

from __future__ import annotations

from dpxplain.model.charge import Entry
from dpxplain.model.display import Displayed


class History(list[Entry], Displayed):
    """A list of the ledger's entries, the oldest first, that prints as a table."""
