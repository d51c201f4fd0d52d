"""Loads the paper's own files, if you have them: IPUMS-CPS extracts and TLC trip records.

Neither may be redistributed here. The loaded tables have the columns and values of the generated tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from experiments import census

YEARS = (2011, 2019)
MOST_INCOME = 200_000  # the paper keeps persons with less

# IPUMS codes, in the order of the values declared in census.toml. Age and income are numbers.
CODES: dict[str, list[int]] = {
    "relate": [
        101, 201, 202, 203, 301, 303, 501, 701, 901, 1001, 1113, 1114, 1116, 1117, 1115, 1241, 1242, 1260,
        9100, 9200, 9900, 9999,
    ],
    "sex": [1, 2, 9],
    "race": [100, 200, 300, 650, 651, 652, 700, *range(801, 821), 830, 999],
    "marst": [1, 2, 3, 4, 5, 6, 7, 9],
    "citizen": [1, 2, 3, 4, 5, 9],
    "classwkr": [0, 10, 13, 14, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 99],
    "educ": [
        0, 1, 2, 10, 11, 12, 13, 14, 20, 21, 22, 30, 31, 32, 40, 50, 60, 70, 71, 72, 73, 80, 81, 90, 91, 92,
        100, 110, 111, 120, 121, 122, 123, 124, 125, 999,
    ],
}  # fmt: skip


def read_cps(path: str | Path) -> pa.Table:
    """Read an IPUMS-CPS extract (CSV, gzipped or not, numeric codes) as the table of census.toml.

    As in the paper, keeps the years 2011 to 2019 and persons with a total income below 200,000.
    """
    columns = census.schema()["columns"]
    raw = pd.read_csv(path, usecols=["YEAR", "AGE", "INCTOT", *(name.upper() for name in CODES)])
    kept = raw[raw["YEAR"].between(*YEARS) & (raw["INCTOT"] < MOST_INCOME)]
    frame = {}
    for name, codes in CODES.items():
        values = columns[name]["values"]
        coded = kept[name.upper()].map(dict(zip(codes, values, strict=True)))
        frame[name] = pd.Categorical(coded, categories=values)
    ages = columns["age"]["values"]
    frame["age"] = pd.cut(kept["AGE"], range(10, 91, 10), labels=ages).to_numpy()
    frame["income"] = kept["INCTOT"].clip(lower=0).to_numpy()
    people = pd.DataFrame(frame)[list(columns)]
    people["age"] = pd.Categorical(people["age"], categories=ages)
    return pa.Table.from_pandas(people, preserve_index=False)


def read_trips(paths: Sequence[str | Path], zones: str | Path) -> pa.Table:
    """Read the boroughs and zones of TLC trip records (parquet), by the zone lookup (CSV)."""
    lookup = pd.read_csv(zones, keep_default_na=False).set_index("LocationID")
    both = [pq.read_table(path, columns=["PULocationID", "DOLocationID"]) for path in paths]
    trips = pa.concat_tables(both).to_pandas()
    return pa.table(
        {
            f"{place}_{part.lower()}": pa.array(trips[f"{code}LocationID"].map(lookup[part]))
            for place, code in (("pickup", "PU"), ("dropoff", "DO"))
            for part in ("Borough", "Zone")
        }
    )


def trip_schema(zones: str | Path) -> dict[str, object]:
    """The declared schema of trips, with the boroughs and zones of the public lookup."""
    lookup = pd.read_csv(zones, keep_default_na=False)
    boroughs, names = list(dict.fromkeys(lookup["Borough"])), list(dict.fromkeys(lookup["Zone"]))
    columns = {
        f"{place}_{part}": {"values": values}
        for place in ("pickup", "dropoff")
        for part, values in (("borough", boroughs), ("zone", names))
    }
    return {"table": {"name": "trips"}, "privacy": {"rho": 5.0}, "columns": columns}
