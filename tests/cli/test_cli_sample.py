"""`dpxplain sample` writes the same made-up flights each time, and never over a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from dpxplain.datasets import generate_flights


def test_both_formats_hold_the_same_flights(dpxplain: Any, folder: Path) -> None:
    assert dpxplain("sample", "flights.csv", "--rows", "500").code == 0
    outcome = dpxplain("sample", "flights.parquet", "--rows", "500", "--json")
    assert outcome.json == {"kind": "sample", "written": "flights.parquet", "rows": 500}
    table = pyarrow.parquet.read_table(folder / "flights.parquet")
    assert table.equals(generate_flights(500))
    assert pyarrow.csv.read_csv(folder / "flights.csv").to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("name", "says"), [("people.csv", "exists"), ("x.docx", "CSV or Parquet"), ("no/such.csv", "written")]
)
def test_a_sample_that_cannot_be_written_is_refused(
    dpxplain: Any, folder: Path, name: str, says: str
) -> None:
    before = (folder / "people.csv").read_bytes()
    outcome = dpxplain("sample", name, "--json")
    assert outcome.code == 2
    assert says in outcome.error["message"]
    assert (folder / "people.csv").read_bytes() == before


def test_the_small_airline_makes_newark_late() -> None:
    flights = generate_flights(20_000).to_pandas().dropna()
    delay = flights.groupby("origin").arr_delay.mean()
    without = flights[flights.carrier != "EV"].groupby("origin").arr_delay.mean()
    assert delay["EWR"] - delay["LGA"] > 2
    assert without["EWR"] - without["LGA"] < 1
