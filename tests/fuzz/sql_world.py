"""A random table inside its declarations, so that plain DuckDB computes what DPXPlain must.

Values lie within bounds and on their grid, listed columns hold listed values or NULL, a binned column has one
value per bin (so that DuckDB's groups are the bins), and nobody has more rows than max_rows.
"""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa

_DAYS = [date(2025, 1, 1), date(2025, 3, 31), date(2025, 7, 1), date(2025, 12, 31)]
_BORN = [date(2025, 2, 1), date(2025, 2, 28), date(2025, 11, 30)]
_COLUMNS: dict[str, Any] = {
    "sex": {"values": ["F", "M"], "null": True},
    "city": {"values": ["north", "south", "it's", "São %"]},
    "kids": {"values": [0, 1, 2, 3, 7]},
    "active": {"values": [True, False]},
    "age": {"edges": [0, 10, 20, 30, 60], "bounds": [0, 60]},
    "height": {"edges": [0, 1.5, 2.5], "null": True},
    "pay": {"bounds": [-50, 1000], "step": 0.5},
    "score": {"bounds": [0, 1]},
    "day": {"edges": [d.isoformat() for d in _DAYS]},
    "born": {"values": [d.isoformat() for d in _BORN]},
    "seen": {"bounds": ["2025-01-01 00:00:00", "2025-12-31 23:59:59"]},
    "Group": {"values": ["a", "b"]},
    "late": {"expression": "CASE WHEN pay > 100 THEN 1 ELSE 0 END"},
    "region": {"expression": "city", "groups": {"East": ["north", "it's"], "West": ["south"]}},
    "twice": {"expression": "pay * 2"},
}
# The derived columns once more, in DuckDB's SQL and by another hand.
_VIEW = """
CREATE VIEW people AS SELECT *, (pay IS NOT NULL AND pay > 100)::BIGINT AS late, pay + pay AS twice,
CASE city WHEN 'north' THEN 'East' WHEN 'it''s' THEN 'East' WHEN 'south' THEN 'West' END AS region FROM rows_
"""
MOST_ROWS = 4


class World:
    """The schema, the rows as an Arrow table, and DuckDB's own connection to them."""

    def __init__(self, seed: int, number: int) -> None:
        rng = random.Random(f"world {seed} {number}")
        self.rows = _rows(rng)
        self.schema = {
            "table": {"name": "people"},
            "privacy": {"rho": 1e6, **_privacy(number)},
            "columns": _COLUMNS,
        }
        self.reference = duckdb.connect(config={"threads": 1})
        self.reference.register("arrow_rows", self.rows)
        self.reference.execute("CREATE TABLE rows_ AS SELECT * FROM arrow_rows")
        self.reference.execute(_VIEW)


def _privacy(number: int) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {},
        {"unit": "person", "max_rows": MOST_ROWS},
        {"neighbours": "bounded"},
    ]
    return kinds[number % len(kinds)]


def _rows(rng: random.Random) -> pa.Table:
    size = rng.choice([0, 1, 3, 20, 150, 400])
    ages = [rng.randint(low + 1, high) for low, high in ((0, 10), (10, 20), (20, 30), (30, 60))]
    heights = [rng.choice([0.25, 1.0, 1.5]), rng.choice([1.75, 2.0, 2.5])]
    ends = pairwise(_DAYS)
    days = [low + timedelta(rng.randint(1, (high - low).days)) for low, high in ends]
    start = datetime(2025, 1, 1)

    def column(make: Any, kind: pa.DataType) -> pa.Array:
        missing = rng.choice([0, 0, 0.1, 0.5])
        return pa.array([None if rng.random() < missing else make() for _ in range(size)], kind)

    def listed(values: list[Any]) -> Any:
        weights = [rng.random() ** 3 + 0.001 for _ in values]  # skewed
        return lambda: rng.choices(values, weights)[0]

    rows_each = rng.randint(1, MOST_ROWS)
    persons = [i // rows_each for i in range(size)]
    return pa.table(
        {
            "person": pa.array(persons, pa.int64()),
            "sex": column(listed(["F", "M"]), pa.string()),
            "city": column(listed(["north", "south", "it's", "São %"]), pa.string()),
            "kids": column(listed([0, 1, 2, 3, 7]), pa.int64()),
            "active": column(listed([True, False]), pa.bool_()),
            "age": column(listed(ages), pa.int64()),
            "height": column(listed(heights), pa.float64()),
            "pay": column(lambda: rng.choice([0, 250, rng.randint(-100, 2000)]) / 2, pa.float64()),
            "score": column(lambda: rng.randint(0, 64) / 64, pa.float64()),
            "day": column(listed(days), pa.date32()),
            "born": column(listed(_BORN), pa.date32()),
            "seen": column(lambda: start + timedelta(minutes=rng.randrange(525600)), pa.timestamp("us")),
            "Group": column(listed(["a", "b"]), pa.string()),
        }
    )
