"""Why do ten times as many taxis go from Queens to Brooklyn as the other way? (the paper's second use case)

Trips are generated in the shape of two months of New York taxi data: seven boroughs, 127 zones, many rides
that start at the airports in Queens. Run it from the repository: python examples/taxi_imbalance.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

import dpxplain as dpx

ZONES = {
    "Manhattan": 40,
    "Brooklyn": 36,
    "Queens": 34,
    "Bronx": 9,
    "Staten Island": 6,
    "EWR": 1,
    "Unknown": 1,
}
AIRPORTS = {"Queens": ["JFK Airport", "LaGuardia Airport"], "EWR": ["Newark Airport"]}
TRIPS = {  # per thousand, between boroughs; the rest is spread thinly over all 49 pairs
    ("Manhattan", "Manhattan"): 560,
    ("Manhattan", "Queens"): 90,
    ("Queens", "Manhattan"): 110,
    ("Manhattan", "Brooklyn"): 70,
    ("Brooklyn", "Manhattan"): 40,
    ("Brooklyn", "Brooklyn"): 35,
    ("Queens", "Queens"): 35,
    ("Queens", "Brooklyn"): 45,
    ("Brooklyn", "Queens"): 4.2,
}
FROM_AIRPORT = {("Queens", "Brooklyn"): (0.52, 0.3)}  # share of rides that start at JFK, at LaGuardia


def zones() -> dict[str, list[str]]:
    """The zones of each borough, airports first; 127 in all."""
    return {
        borough: [
            *AIRPORTS.get(borough, []),
            *(f"{borough} {i + 1}" for i in range(count - len(AIRPORTS.get(borough, [])))),
        ]
        for borough, count in ZONES.items()
    }


def schema() -> dict[str, Any]:
    names = [name for borough in zones().values() for name in borough]
    return {
        "table": {"name": "trips"},
        "privacy": {"rho": 5.0},
        "columns": {
            "pickup_borough": {"values": list(ZONES)},
            "dropoff_borough": {"values": list(ZONES)},
            "pickup_zone": {"values": names},
            "dropoff_zone": {"values": names},
            "month": {"values": ["January", "February"]},
        },
    }


def trips(rows: int, seed: int = 2019) -> pa.Table:
    """Generated trips; the generator is seeded, this is test data and not privacy noise."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in ZONES for b in ZONES]
    share = np.array([TRIPS.get(pair, 0.25) for pair in pairs])
    pick = rng.choice(len(pairs), rows, p=share / share.sum())
    columns: dict[str, list[str]] = {name: [""] * rows for name in schema()["columns"]}
    months = rng.choice(["January", "February"], rows, p=[0.52, 0.48])
    for number, (start, end) in enumerate(pairs):
        for place, borough, own in (
            ("pickup", start, FROM_AIRPORT.get((start, end))),
            ("dropoff", end, None),
        ):
            names = zones()[borough]
            weights = 1 / np.arange(1, len(names) + 1)
            if own:
                weights[2:] *= (1 - sum(own)) / weights[2:].sum()
                weights[:2] = own
            chosen = rng.choice(len(names), int((pick == number).sum()), p=weights / weights.sum())
            for row, zone in zip(np.flatnonzero(pick == number), chosen, strict=True):
                columns[f"{place}_zone"][row] = names[zone]
                columns[f"{place}_borough"][row] = borough
    columns["month"] = list(months)
    return pa.table(columns)


def main(
    rows: int = 300_000, workspace: str | None = None, insecure_seed: int | None = None
) -> dpx.Explanation:
    session = dpx.connect(trips(rows), schema=schema(), workspace=workspace, insecure_seed=insecure_seed)
    answer = session.query(
        "SELECT pickup_borough, dropoff_borough, COUNT(*) AS trips FROM trips "
        "GROUP BY pickup_borough, dropoff_borough ORDER BY trips DESC LIMIT 10",
        rho=0.1,
    )
    print(answer)
    question = answer.why({("Queens", "Brooklyn"): 1, ("Brooklyn", "Queens"): -10}, at_least=0)
    print(question)
    table = question.explain(k=5, rho=1.0, predicates=dpx.either("pickup_zone", "dropoff_zone"))
    print(table)
    session.close()
    return table


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
