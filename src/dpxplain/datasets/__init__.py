"""Data to start with: the bundled Adult table and its schema, and a generator of made-up flights.

Nothing here is private: Adult is published, the flights are made up. CREDITS.md names the sources.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    import pyarrow as pa

_FOLDER = Path(__file__).parent
_BUNDLED = ("adult.parquet", "adult.toml")


def path(name: str) -> Path:
    """The path of a bundled file.

    >>> path("adult.toml").name
    'adult.toml'
    >>> path("iris.toml")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dpxplain.errors.BadRequest: There is no bundled file 'iris.toml'. Choose one of: ...
    """
    if name not in _BUNDLED:
        raise BadRequest(
            f"There is no bundled file {name!r}.", remedy=f"Choose one of: {', '.join(_BUNDLED)}."
        )
    return _FOLDER / name


# -- Made-up flights from New York -------------------------------------------------------------------------
#
# For trying DPXPlain on a file: `dpxplain sample`. Airports, airlines and their shares resemble those of
# 2013; every single flight is made up.

FLIGHTS = 50_000
_ORIGINS = ("EWR", "JFK", "LGA")
# Flights per 1,000 from each origin, and how many minutes an airline is later than the average.
_CARRIERS = {
    "AA": (29, 41, 46, -3.0),
    "B6": (19, 125, 18, 2.0),
    "DL": (13, 61, 69, -4.0),
    "EV": (130, 4, 26, 9.0),
    "MQ": (7, 21, 50, 4.0),
    "UA": (137, 13, 24, -2.0),
    "US": (13, 9, 39, -5.0),
    "WN": (18, 0, 18, 3.0),
}
# Distance in miles, and relative frequency.
_DESTINATIONS = {
    "ATL": (761, 17), "BOS": (187, 16), "CLT": (544, 14), "DCA": (213, 10), "DEN": (1620, 8),
    "FLL": (1069, 12), "LAX": (2470, 16), "MCO": (944, 14), "MIA": (1092, 12), "ORD": (725, 17),
    "RDU": (426, 8), "SFO": (2575, 13), "TPA": (1003, 7),
}  # fmt: skip
_MONTHS = (0, 0, 2, 3, 1, 8, 10, 2, -7, -5, -4, 6)  # minutes later than in January
_HOURS = range(5, 23)
_AIRCRAFT = 1_500
_CANCELLED = 0.025


def generate_flights(rows: int = FLIGHTS, seed: int = 0) -> pa.Table:
    """A table of `rows` made-up flights; the same seed gives the same table.

    >>> generate_flights(3).column_names
    ['month', 'hour', 'origin', 'dest', 'carrier', 'tailnum', 'distance', 'dep_delay', 'arr_delay']
    >>> generate_flights(1_000).equals(generate_flights(1_000))
    True
    """
    import numpy as np
    import pyarrow as pa

    def named(names: Iterable[Any], codes: Any) -> Any:
        return pa.array(list(names)).take(pa.array(codes))

    rng = np.random.default_rng(seed)  # seeded: sample data, not privacy noise
    flown = np.array([shares[:3] for shares in _CARRIERS.values()]).ravel() / 1_000
    carrier, origin = np.divmod(rng.choice(flown.size, rows, p=flown / flown.sum()), len(_ORIGINS))
    popularity = np.array([often for _, often in _DESTINATIONS.values()])
    dest = rng.choice(popularity.size, rows, p=popularity / popularity.sum())
    month = rng.integers(0, 12, rows)
    hour = rng.integers(_HOURS.start, _HOURS.stop, rows)
    later = np.array([shares[3] for shares in _CARRIERS.values()])[carrier]
    # Delays pile up over the day, most of all at the small airline that flies from Newark.
    per_hour = np.where(carrier == list(_CARRIERS).index("EV"), 1.6, 0.8)
    later += np.array(_MONTHS)[month] + (hour - 12) * per_hour
    dep_delay = np.rint(later - 6 + rng.gamma(0.5, 30, rows)).astype(np.int64)
    arr_delay = np.rint(dep_delay - 5 + rng.normal(0, 12, rows)).astype(np.int64)
    cancelled = rng.random(rows) < _CANCELLED
    return pa.table(
        {
            "month": pa.array(month + 1),
            "hour": pa.array(hour),
            "origin": named(_ORIGINS, origin),
            "dest": named(_DESTINATIONS, dest),
            "carrier": named(_CARRIERS, carrier),
            "tailnum": pa.array([f"N{10_101 + 37 * number}" for number in rng.integers(0, _AIRCRAFT, rows)]),
            "distance": named((miles for miles, _ in _DESTINATIONS.values()), dest),
            "dep_delay": pa.array(dep_delay, mask=cancelled),
            "arr_delay": pa.array(arr_delay, mask=cancelled),
        }
    )


def write_flights(path: Path, rows: int = FLIGHTS) -> None:
    """Writes the table as CSV or Parquet, by the file's ending; never over an existing file."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise BadRequest(
            f"A sample is written as CSV or Parquet, not as {path.suffix or 'a file without an ending'!r}.",
            remedy="Name it flights.csv or flights.parquet.",
        )
    try:
        with path.open("xb") as file:
            if path.suffix.lower() == ".csv":
                from pyarrow.csv import WriteOptions, write_csv

                write_csv(generate_flights(rows), file, WriteOptions(quoting_style="none"))
            else:
                from pyarrow.parquet import write_table

                write_table(generate_flights(rows), file)
    except FileExistsError:
        raise BadRequest(
            f"{path} already exists.", remedy="Choose another name, or delete it first."
        ) from None
    except OSError:
        raise BadRequest(
            f"{path} cannot be written.", remedy="Choose a file in an existing folder that you can write to."
        ) from None
