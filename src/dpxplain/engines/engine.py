"""The protocol of every engine: one grouped pass over the rows that the declared schema admits.

An engine answers in codes and whole numbers (`Grouped`). It never raises an error that depends on a
value, and never prints one.
"""

from __future__ import annotations

from typing import Protocol

from dpxplain.model.confidential import Confidential
from dpxplain.model.fit import FitCounts
from dpxplain.model.grouped import Grouped
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema

__all__ = ["Engine", "Grouped"]


class Engine(Protocol):
    """One open data set.

    If the privacy unit has several rows, the engine keeps at most `privacy.max_rows` of each unit when it
    opens, and leaves out rows without a unit, because several of them may belong to one person.
    """

    schema: Schema

    def grouped(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Confidential[Grouped]:
        """Counts and sums by group and by each attribute subset, in one pass; `()` gives the totals."""
        ...

    def fit(self) -> Confidential[FitCounts]:
        """How the kept rows fit the declarations; and units by the number of all their rows."""
        ...

    def close(self) -> None: ...
