"""Damaged schemas are refused with a sentence and a remedy, or work: no other error comes out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import tomlkit
from mutations import garbled, mutated

import dpxplain as dpx
from dpxplain.errors import DPXPlainError, SchemaError

SCHEMA: dict[str, Any] = {
    "table": {"name": "people", "version": "1"},
    "privacy": {"rho": 5.0, "delta": 1e-6, "unit": "person", "max_rows": 2, "neighbours": "unbounded"},
    "columns": {
        "sex": {"values": ["F", "M"], "null": True, "description": "of a person"},
        "kids": {"values": [0, 1, 2]},
        "active": {"values": [True, False]},
        "age": {"edges": [0, 10, 20.5], "bounds": [0, 100]},
        "pay": {"bounds": [-5, 10], "step": 0.5, "center": 1.0},
        "day": {"edges": ["2025-01-01", "2025-07-01", "2026-01-01"]},
        "seen": {"bounds": ["2025-01-01 00:00:00", "2025-12-31 23:59:59"], "time_zone": "Europe/Berlin"},
        "late": {"expression": "CASE WHEN pay > 1 THEN 1 ELSE 0 END"},
        "half": {"expression": "sex", "groups": {"one": ["F"], "two": ["M"]}},
    },
}
ROWS = pa.table(
    {
        "person": [1, 1, 2, 3],
        "sex": ["F", "M", None, "x"],
        "kids": [0, 1, 2, 9],
        "active": [True, False, None, True],
        "age": [5, 15, 200, None],
        "pay": [0.25, -7.0, 10.0, None],
        "day": pa.array([20000, 20200, None, 30000], pa.date32()),
        "seen": pa.array([1_740_000_000_000_000, None, 0, 1], pa.timestamp("us")),
    }
)


@dataclass
class SchemaFigures:
    tried: int = 0
    refused: int = 0
    opened: int = 0
    wrong: list[str] = field(default_factory=list)


def fuzz_schemas(seed: int, numbers: Iterator[int], folder: Path, open_each: int = 5) -> SchemaFigures:
    """Tries damaged schemas, as a dict or as TOML; opens data with one in `open_each` that are accepted."""
    figures = SchemaFigures()
    for number in numbers:
        rng = random.Random(f"schema {seed} {number}")
        figures.tried += 1
        source: Any = None
        try:
            source = _source(rng, folder / f"{number}.toml")
            schema = dpx.Schema.load(source)
            if rng.randrange(open_each) == 0:
                figures.opened += 1
                _open(schema, folder / str(number))
        except SchemaError as refusal:
            figures.refused += 1
            if not refusal.remedy or not refusal.problem.endswith("."):
                figures.wrong.append(f"--seed {seed} --start {number}: {refusal.problem!r} has no remedy")
        except Exception as failure:
            shown = source.read_text("utf-8", "replace") if isinstance(source, Path) else repr(source)
            text = f"{type(failure).__name__}: {failure}"[:300]
            figures.wrong.append(f"--seed {seed} --start {number}: {text}\n    {shown[:1500]}")
    return figures


def _source(rng: random.Random, path: Path) -> Any:
    if rng.random() < 0.6:
        return mutated(SCHEMA, rng)
    path.write_text(garbled(tomlkit.dumps(SCHEMA), rng), encoding="utf-8")
    return path


def _open(schema: dpx.Schema, workspace: Path) -> None:
    """Opens data and asks for a count by each discrete column; an own error is a refusal too."""
    try:
        with dpx.connect(ROWS, schema, workspace=workspace) as session:
            table = '"' + schema.table.name.replace('"', '""') + '"'
            for name in list(schema.discrete())[:2]:
                column = '"' + name.replace('"', '""') + '"'
                session.query(f"SELECT {column}, COUNT(*) FROM {table} GROUP BY {column}", rho=1e-6)
    except DPXPlainError as refusal:
        if not refusal.problem.endswith((".", "?")):
            raise AssertionError("a refusal is no sentence") from refusal
