"""A table that lives in a database: the curator's `table.version` names the snapshot, because nothing about a
live table tells cheaply and surely that its rows are still the same (ADR 20 and 28).
"""

from __future__ import annotations

import json
from collections.abc import Callable

from dpxplain.errors import SchemaError, SourceError
from dpxplain.model.confidential import ContentDigest
from dpxplain.model.schema import Schema


class LiveTable:
    """The source of an engine that reads a table where it lives."""

    def __init__(self, schema: Schema, place: str, check_readable: Callable[[], None]) -> None:
        """`place` names the table for good: the kind of database, its name, the table's; no host."""
        if not schema.table.version:
            raise SchemaError(
                "table.version: is missing. The rows of a table in a database can change at any time, so "
                "the schema must name the state that its answers are of.",
                remedy='Set version, such as "2026-11", and change it whenever the rows have changed.',
                mistakes=[("table.version", "is missing")],
            )
        self._digest = ContentDigest.of(json.dumps([place, schema.table.version]).encode())
        self._check_readable = check_readable

    def check_readable(self) -> None:
        """Says only that the table does not fit: by now it is an analyst who asks, not the curator."""
        try:
            self._check_readable()
        except SchemaError:
            raise SourceError(
                "The data do not fit their declarations. Nothing was charged.",
                remedy="Ask the curator, whom dpxplain schema check tells why.",
            ) from None

    def state(self) -> None:
        return None

    def digest(self) -> ContentDigest:
        """Of the declared version and the table's place, not of its rows."""
        return self._digest

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        return False

    def present_state(self) -> None:
        return None
