"""The draft of flights is what a person would keep, fits its own data, and takes a code book as its word."""

from __future__ import annotations

import csv
import random  # seeded: the same flights each time
from pathlib import Path
from typing import Any

import pytest

from dpxplain.cli.schema_draft import calendar_values, drafted_edges, read_codebook
from dpxplain.errors import BadRequest
from dpxplain.model.schema import Schema

AIRPORTS = [f"{a}{b}{c}" for a in "ABCDEFGH" for b in "KLMNO" for c in "XYZ"]


@pytest.fixture
def flights(folder: Path) -> Path:
    """Three thousand flights of 800 planes."""
    draw = random.Random(11)
    header = "year month day hour minute weekday tailnum dest origin dep_delay distance cancelled date flown"
    with (folder / "flights.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split())
        for i in range(3_000):
            month, day = 1 + i % 9, 1 + i % 28
            writer.writerow(
                [
                    2013, month, day, draw.randrange(5, 24), draw.randrange(60),
                    ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[i % 7],
                    f"N{draw.randrange(800):05d}", draw.choice(AIRPORTS), ("EWR", "JFK", "LGA")[i % 3],
                    9_999 if i == 7 else round(draw.expovariate(1 / 25) ** 1.3 - 20),
                    draw.randrange(80, 5_000),
                    "true" if i % 50 == 0 else "false", f"2013-{month:02d}-{day:02d}", i % 4 and 1,
                ]
            )  # fmt: skip
    return folder / "flights.csv"


def drafted(dpxplain: Any, folder: Path, *words: str) -> Schema:
    outcome = dpxplain("schema", "init", "flights.csv", "--output", "flights.toml", "--force", *words)
    assert outcome.code == 0, outcome.err
    return Schema.load(folder / "flights.toml")


def test_parts_of_the_calendar_are_drafted_as_such(dpxplain: Any, folder: Path, flights: Path) -> None:
    columns = drafted(dpxplain, folder).columns
    assert columns["year"].values == (2013,)
    assert columns["month"].values == tuple(range(1, 13))  # also those that no row has
    assert columns["day"].values == tuple(range(1, 32))
    assert columns["hour"].values == tuple(range(24))
    assert columns["minute"].values == tuple(range(60))
    assert columns["weekday"].values == ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def test_long_lists_are_drafted_to_be_compared_and_true_and_false_as_such(
    dpxplain: Any, folder: Path, flights: Path
) -> None:
    columns = drafted(dpxplain, folder).columns
    assert set(columns["dest"].values or ()) <= set(AIRPORTS)
    assert len(columns["dest"].values or ()) > 100
    assert "compare them with a public list" in (folder / "flights.toml").read_text()
    assert columns["cancelled"].values == (False, True)
    assert columns["flown"].bounds == (0, 1)


def test_a_skewed_number_gets_round_edges_where_its_rows_are(
    dpxplain: Any, folder: Path, flights: Path
) -> None:
    delays = drafted(dpxplain, folder).columns["dep_delay"]
    assert delays.edges is not None
    assert 0 in delays.edges
    assert len([edge for edge in delays.edges if -20 <= edge <= 50]) >= 5
    assert all(float(f"{edge:.1g}") == edge for edge in delays.edges)
    assert "narrower bounds mean less noise" in (folder / "flights.toml").read_text()


def test_an_identifier_is_a_candidate_for_the_privacy_unit(
    dpxplain: Any, folder: Path, flights: Path
) -> None:
    schema = drafted(dpxplain, folder)
    assert "tailnum" not in schema.columns
    text = (folder / "flights.toml").read_text()
    assert '# "tailnum" may tell people apart: about ' in text
    assert '# unit = "tailnum"\n# max_rows = ' in text
    assert "N00" not in text


def test_the_draft_fits_its_own_data(dpxplain: Any, folder: Path, flights: Path) -> None:
    drafted(dpxplain, folder)
    as_drafted = dpxplain("schema", "check", "flights.toml", "--json").json["check"]["warnings"]
    assert [warning["kind"] for warning in as_drafted] == ["repeated_key"]
    text = (folder / "flights.toml").read_text().replace('unit = "row"', 'unit = "tailnum"\nmax_rows = 50 #')
    (folder / "flights.toml").write_text(text.replace("max_rows = 50", "max_rows = 15"))
    outcome = dpxplain("schema", "check", "flights.toml", "--json")
    assert (outcome.code, outcome.json["check"]["fits"]) == (0, True), outcome.out


@pytest.mark.parametrize("kind", ["csv", "yaml"])
def test_a_code_book_is_taken_as_its_word(dpxplain: Any, folder: Path, flights: Path, kind: str) -> None:
    (folder / "book.csv").write_text(
        "Variable;Code;Label\norigin;;Airport of departure\norigin;EWR;Newark\norigin;JFK;Kennedy\n"
        "origin;LGA;La Guardia\norigin;SWF;Stewart\nmonth;01;January\nmonth;02;February\n"
        "cancelled;True;it was\ncancelled;false;it was not\n"
    )
    (folder / "book.yaml").write_text(
        "columns:\n  origin:\n    label: Airport of departure\n    values: {EWR: Newark, JFK: Kennedy, "
        "LGA: La Guardia, SWF: Stewart}\n  month: {1: January, 2: February}\n  cancelled: [true, false]\n"
        "  dep_delay: {bounds: [-60, 300]}\n"
    )
    columns = drafted(dpxplain, folder, "--codebook", f"book.{kind}").columns
    assert columns["origin"].values == ("EWR", "JFK", "LGA", "SWF")
    assert columns["origin"].label == "Airport of departure"
    assert columns["origin"].value_labels["SWF"] == "Stewart"
    assert columns["month"].values == (1, 2)
    assert columns["month"].value_labels == {"1": "January", "2": "February"}
    assert columns["cancelled"].values == (True, False)
    if kind == "yaml":
        assert columns["dep_delay"].bounds == (-60, 300)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("book.txt", "column,value\n"),
        ("book.csv", "a,b\n1,2\n"),
        ("book.csv", "column,value\n"),
        ("book.csv", "column,low,high\nx,9,1\n"),
        ("book.csv", "column,low,high\nx,0,inf\n"),
        ("book.yaml", "- a\n- b\n"),
        ("book.yaml", "{"),
        ("book.yaml", "x: 5\n"),
    ],
)
def test_a_file_that_is_no_code_book_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadRequest) as refused:
        read_codebook(tmp_path / name)
    assert refused.value.remedy


def test_a_code_book_of_other_data_is_refused(dpxplain: Any, folder: Path, flights: Path) -> None:
    (folder / "book.csv").write_text("column,value\nsomething,1\n")
    outcome = dpxplain("schema", "init", "flights.csv", "-o", "x.toml", "--codebook", "book.csv")
    assert outcome.code == 2
    assert "None of the columns in the code book" in outcome.err
    assert not (folder / "x.toml").exists()


@pytest.mark.parametrize(
    ("name", "low", "high", "first", "last"),
    [("arr_month", 2, 9, 1, 12), ("Hour", 0, 23, 0, 23), ("hour", 1, 24, 0, 24), ("dow", 1, 7, 1, 7),
     ("birth_year", 1950, 2001, 1950, 2001), ("quarter", 1, 4, 1, 4)],
)  # fmt: skip
def test_a_column_is_part_of_the_calendar_by_its_name_and_numbers(
    name: str, low: int, high: int, first: int, last: int
) -> None:
    assert calendar_values(name, low, high) == list(range(first, last + 1))
    assert calendar_values("dep_delay", low, high) is None
    assert calendar_values(name, -5, high) is None


def test_edges_of_skewed_numbers_hold_the_range_and_no_bin_is_empty() -> None:
    quantiles = [0.0] * 900 + [float(i) ** 2 for i in range(101)]
    edges = drafted_edges(0, 10_000, True, quantiles)
    assert edges[0] < 0
    assert edges[-1] >= 10_000
    assert edges == sorted(set(edges))
    assert len(edges) > 3
