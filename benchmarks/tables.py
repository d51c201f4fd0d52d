"""The tables of the benchmarks: one with the shape of the paper's CPS table, and one with twenty attributes.

"Repeating" rows agree in all attributes with many others, so the engine keeps each combination once. Rows
that "hardly repeat" have independent, uniform attributes, the worst case for this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from experiments import census

ROWS = 1_146_552  # as many as the paper's CPS table has
LARGEST = 10_000_000
DECLARED: dict[str, Any] = {"rho": 1e6}  # more than all rounds spend
_WIDE_SIZES = (3, 4, 5, 4, 5) * 4  # 20 attributes with some 85,000 triples of values
_ROWS_PER_COMBINATION = 10  # in the wide table whose rows repeat


@dataclass(frozen=True)
class Shape:
    """A table that can be made with any number of rows."""

    name: str
    repeats: bool
    schema: dict[str, Any]
    make: Callable[[int], pa.Table]

    @property
    def rows_kind(self) -> str:
        return "repeating" if self.repeats else "hardly repeating"


def census_schema() -> dict[str, Any]:
    """A schema of eight attributes with 22, 3, 29, 8, 6, 15, 36 and 8 values, and an income."""
    return census.schema() | {"privacy": DECLARED}


def wide_schema() -> dict[str, Any]:
    """A schema of sex, twenty attributes with 3 to 5 values each, and an income."""
    columns: dict[str, Any] = {"sex": {"values": ["Male", "Female"]}}
    for number, size in enumerate(_WIDE_SIZES):
        columns[f"attribute_{number}"] = {"values": [f"value {value}" for value in range(size)]}
    columns["income"] = {"bounds": [0, 200_000], "step": 1}
    return {"table": {"name": "wide"}, "privacy": DECLARED, "columns": columns}


def shapes() -> list[Shape]:
    """Shapes with eight and twenty attributes, each with rows that hardly repeat and with rows that do."""
    eight, twenty = census_schema(), wide_schema()
    return [
        Shape("8 attributes", False, eight, lambda rows: uniform(eight, rows, rows)),
        Shape("8 attributes", True, eight, census.generate),
        Shape("20 attributes", False, twenty, lambda rows: uniform(twenty, rows, rows)),
        Shape(
            "20 attributes", True, twenty, lambda rows: uniform(twenty, rows, rows // _ROWS_PER_COMBINATION)
        ),
    ]


def uniform(schema: dict[str, Any], rows: int, combinations: int) -> pa.Table:
    """A table of independent, uniform values. Each row repeats one of `combinations`, if these are fewer."""
    rng = np.random.default_rng(0)  # seeded: test data, not privacy noise
    repeated = None if combinations >= rows else rng.integers(0, combinations, rows)
    columns: dict[str, Any] = {}
    for name, column in schema["columns"].items():
        if "values" in column:
            codes = rng.integers(0, len(column["values"]), combinations, dtype=np.int8)
            codes = codes if repeated is None else codes[repeated]
            columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(column["values"]))
        else:
            low, high = column["bounds"]
            columns[name] = rng.integers(low, high, rows)
    return pa.table(columns)


def plain_strings(table: pa.Table) -> pa.Table:
    """The same table without Arrow's dictionaries."""
    return pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )
