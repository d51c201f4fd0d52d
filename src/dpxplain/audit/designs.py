"""Pairs of neighbouring tables, and the questions about them.

A design's table may hold many copies of one situation, in groups of their own. A fair coin decides for each
copy whether it has the row in question, so one query tests many pairs of neighbours at once. For all outcomes
of the other coins, the tables with and without one copy's row are neighbours, so the privacy promise also
holds on average over them. The confidence bounds also need releases of different copies to be independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpxplain as dpx
from dpxplain.model.arrays import FloatArray

Row = Mapping[str, object]


@dataclass(frozen=True)
class Releases:
    """What was released about each copy, and the ρ that was charged for it."""

    names: Sequence[str]
    numbers: FloatArray  # one row for each copy
    charged: float


@dataclass(frozen=True)
class Design:
    """A question about one of two neighbouring tables.

    `rows(copy, present)` returns the rows of one copy, with or without the row, or person, in question.
    """

    name: str
    mechanism: str
    aggregate: str
    unit: str  # "row" or "person"
    neighbours: str  # "one more" or "replaced"
    schema: Mapping[str, Any]
    rows: Callable[[int, bool], list[Row]]
    ask: Callable[[dpx.Session, float], Releases]
    rho: float = 2.0
    copies: int = 1
    per_table: int = 100  # questions before a new table is made
    has_lattice: bool = False  # whether the numbers are released as they were drawn
    trusted_code: bool = False
    common: Sequence[Row] = ()  # rows that belong to no copy

    def table(self, present: NDArray[np.bool_]) -> list[Row]:
        return [
            *self.common,
            *(row for copy, is_present in enumerate(present.tolist()) for row in self.rows(copy, is_present)),
        ]


ROWS_OF_PERSON = 3


def schema(columns: Mapping[str, Any], *, person: bool = False, replaced: bool = False) -> dict[str, Any]:
    """Declarations of a table `t` with more budget than an audit can spend."""
    privacy: dict[str, Any] = {"rho": 1e6}
    if person:
        privacy |= {"unit": "person", "max_rows": ROWS_OF_PERSON}
    if replaced:
        privacy["neighbours"] = "bounded"
    return {"table": {"name": "t"}, "privacy": privacy, "columns": dict(columns)}
