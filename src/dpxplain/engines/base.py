"""What every engine offers: one grouped pass over the rows that the declared schema admits.

An engine answers in codes and whole numbers. Code 0 means outside the declared domain, code i the i-th
declared value. It never raises an error that depends on a value, and never prints one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.confidential import Confidential
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema

Grouped = Mapping[str, NDArray[np.int64]]
"""Columns of a grouped pass: the group-by columns' and attributes' codes (0 where an attribute is not
part of the row's subset), `subset` (which one), `count`, and `total` (the sum in grid units; 0 for
COUNT)."""


class Engine(Protocol):
    """One open data set.

    A privacy unit of several rows is already cut down to `privacy.max_rows` when the engine is open.
    """

    schema: Schema

    def grouped(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Confidential[Grouped]:
        """Counts and sums by group and by each attribute subset, in one pass; `()` gives the totals."""
        ...

    def close(self) -> None: ...
