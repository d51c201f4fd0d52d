"""Flights as people have them: planes that fly often, delays beyond bounds, misspelt and missing values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dpxplain as dpx
from dpxplain.session import Session

BOUNDS = (-90, 300)
MAX_ROWS = 50
SCHEMA: dict[str, Any] = {
    "table": {"name": "flights"},
    "privacy": {"rho": 100.0, "unit": "tailnum", "max_rows": MAX_ROWS},
    "columns": {
        "origin": {"values": ["EWR", "JFK", "LGA"]},
        "carrier": {"values": ["UA", "B6"], "null": True},
        "hour": {"edges": [0, 6, 12, 18, 24]},
        "dep_delay": {"bounds": list(BOUNDS)},
        "distance": {"bounds": [0, 5000], "step": 0.5},
    },
}


def flights(rows: int = 4000) -> pa.Table:
    """The same rows every time; about one in forty delays lies above the bounds, none below."""
    generator = np.random.default_rng(11)
    delay = generator.gamma(0.6, 120.0, rows) - 20
    return pa.table(
        {
            "tailnum": [f"N{number}" for number in np.minimum(generator.zipf(1.4, rows), 120)],
            "origin": generator.choice(["EWR", "JFK", "LGA", "Ewr"], rows, p=[0.4, 0.3, 0.25, 0.05]).tolist(),
            "carrier": generator.choice(["UA", "B6", "??"], rows).tolist(),
            "hour": generator.uniform(-1, 24, rows),
            "dep_delay": np.where(generator.random(rows) < 0.03, np.nan, delay),
            "distance": generator.uniform(0, 3000, rows),
        }
    )


def open_flights(folder: Path, *, unit: str = "tailnum", curator: bool = False) -> Session:
    privacy = SCHEMA["privacy"] if unit == "tailnum" else {"rho": 100.0}
    return dpx.connect(flights(), SCHEMA | {"privacy": privacy}, workspace=folder, curator=curator)
