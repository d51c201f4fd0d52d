"""How rows fit the declarations: the kinds of misfit of each column, and noisy counts of them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpxplain.model.schema import Schema

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
    made = []
    for name, column in schema.columns.items():
        if column.expression is not None:
            continue
        if column.values is not None:
            made.append(Partition(name, "values", ("fits", "undeclared", "null")))
        if column.edges is not None:
            made.append(Partition(name, "edges", ("fits", "below", "above", "null")))
        if column.bounds is not None:
            made.append(Partition(name, "bounds", ("fits", "below", "above", "null")))
    return tuple(made)


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
