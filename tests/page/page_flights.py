"""A server on flights that do not all fit what is declared of them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from page_servers import GENEROUS

from dpxplain.server.app import single_user_config
from server_fixture import RunningServer, running_server

ORIGINS = ("EWR", "JFK", "LGA")
ROWS = 60_000
DELAYED = 600  # minutes; the declared bounds end at 300
SCHEMA = """
[table]
name = "flights"
source = "flights.parquet"
[privacy]
rho = 10.0
[columns.origin]
values = ["EWR", "JFK", "LGA"]
[columns.carrier]
values = ["one", "two"]
value_labels = { two = "The other airline, which flies at night" }
[columns.delay]
bounds = [-60, 300]
[columns.distance]
bounds = [0, 5000]
[columns.late]
expression = "CASE WHEN delay > 15 THEN 1 ELSE 0 END"
[columns.region]
expression = "origin"
groups = { "New Jersey, across the Hudson River" = ["EWR"], "New York, Queens borough" = ["JFK", "LGA"] }
"""


def flights_server(folder: Path) -> AbstractContextManager[RunningServer]:
    """One flight in ten is delayed beyond the bounds, one in twenty starts at an undeclared airport."""
    rows = range(ROWS)
    columns = {
        "origin": ["ewr" if row % 20 == 7 else ORIGINS[row % 3] for row in rows],
        "carrier": [("one", "two")[row // 3 % 2] for row in rows],
        "delay": [DELAYED if row % 10 == 0 else row % 3 * 20 for row in rows],
        "distance": [500 + row % 3 * 400 for row in rows],
    }
    pq.write_table(pa.table(columns), folder / "flights.parquet")
    schema = folder / "flights.toml"
    schema.write_text(SCHEMA, encoding="utf-8")
    return running_server(single_user_config(schema).model_copy(update={"limits": GENEROUS}))
