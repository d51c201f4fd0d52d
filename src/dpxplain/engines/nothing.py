"""An engine without rows: for sessions that only look at what was released, here or at a server."""

from __future__ import annotations

from dpxplain.engines.engine import Grouped
from dpxplain.errors import InternalError
from dpxplain.model.confidential import Confidential
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema


class NoData:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def grouped(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Confidential[Grouped]:
        raise InternalError("Data were asked for in a session that has none.")

    def close(self) -> None:
        """There is nothing to close."""
