"""How rows fit the declarations: the kinds of misfit of each column, noisy counts of them for analysts, and
exact figures for the curator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpxplain.model.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DOUBLINGS = 10


@dataclass(frozen=True)
class Partition:
    """Every row is in exactly one of the categories of a column; the first one fits."""

    column: str
    domain: str
    """"values", "edges" or "bounds": what the categories compare with."""
    categories: tuple[str, ...]


def partitions(schema: Schema) -> tuple[Partition, ...]:
    """What is counted of each declared column; a column with edges and bounds is counted by both.

    Derived columns are made of declared values only, so that nothing of them can be outside.
    """
    parts = []
    for name, column in schema.columns.items():
        if column.expression is not None:
            continue
        if column.values is not None:
            parts.append(Partition(name, "values", ("fits", "undeclared", "null")))
        if column.edges is not None:
            parts.append(Partition(name, "edges", ("fits", "below", "above", "null")))
        if column.bounds is not None:
            parts.append(Partition(name, "bounds", ("fits", "below", "above", "null")))
    return tuple(parts)


def unit_sizes(schema: Schema) -> tuple[int, ...]:
    """The numbers of rows that privacy units are told apart by; empty where a row is the unit.

    At max_rows and its doublings: every unit is in exactly one bin, however many rows it has.
    """
    if schema.privacy.unit == "row":
        return ()
    return tuple(schema.privacy.max_rows * 2**power for power in range(_DOUBLINGS + 1))


@dataclass(frozen=True)
class FitCounts:
    """True counts: rows by category, partition after partition; and units by their number of rows."""

    rows: NDArray[np.int64]
    units: NDArray[np.int64]


@dataclass(frozen=True)
class QualityRelease:
    """Noisy counts of rows per category and of privacy units per number of rows."""

    rho: float
    noisy_rows: tuple[float, ...]
    rows_scale: float
    noisy_units: tuple[float, ...]
    units_scale: float | None
    private: bool = True

    def to_json(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> QualityRelease:
        raw = json.loads(text)
        return cls(**(raw | {name: tuple(raw[name]) for name in ("noisy_rows", "noisy_units")}))


@dataclass(frozen=True)
class ColumnFigures:
    """How one declared column's rows fit, exactly: for the curator, NOT private."""

    rows: int
    nulls: int  # NULL, or NaN in a numeric column
    codes: Mapping[int, int]  # rows by position in the declared domain, from 1; 0: undeclared
    odd: int  # filled rows that are no declared value, or no number where one is declared
    odd_texts: tuple[tuple[str, int], ...]  # the most frequent of them, with their rows
    numbers: NumberFigures | None = None

    @property
    def filled(self) -> int:
        return self.rows - self.nulls


@dataclass(frozen=True)
class NumberFigures:
    """The numbers of one numeric column against its bounds and edges."""

    low: float | None
    high: float | None
    mean: float | None
    below: int  # rows below the bounds, clamped to the lower one
    above: int
    clamped_mean: float | None
    under_edges: int  # rows at or below the lowest edge, outside every bin
    at_lowest_edge: int  # of these, exactly on it
    over_edges: int


@dataclass(frozen=True)
class SourceFigures:
    """How a source fits a schema, exactly: for the curator, NOT private."""

    rows: int
    without_unit: int  # rows that name no privacy unit
    rows_per_unit: Mapping[int, int]  # number of units by their number of rows; empty where a row is the unit
    columns: Mapping[str, ColumnFigures]
