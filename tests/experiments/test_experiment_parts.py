"""What experiments are made of: the paper's mechanisms as published, loaders of files, the credit table."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # for experiments

from experiments.extracts import CODES, read_cps, read_trips, trip_schema
from experiments.learn_credit import read_statlog
from experiments.questions import TEN

from dpxplain.privacy.calibration import top_k_scale
from experiments import census, credit, published, tables


def test_the_published_scale_is_that_of_the_papers_example() -> None:
    assert round(top_k_scale(16, 5, 0.05)) == 113


def test_the_published_loop_can_probe_more_often_than_it_paid_for() -> None:
    descending = np.zeros(103)  # nothing is ahead of anything: the upper search runs to the end
    seeded = np.random.default_rng(1)
    bounds = [published.rank_bound(0.0, descending, 1.0, 1.0, 0.975, 1, seeded) for _ in range(50)]
    assert max(probes for _, probes in bounds) > math.ceil(math.log2(103))
    assert all(1 <= bound <= 103 for bound, _ in bounds)


def test_published_bounds_hold_the_rank_when_noise_is_small() -> None:
    influence = np.arange(50.0, 0.0, -1.0)
    table = published.draw(influence, 1.0, 5, (1e6, 1e6, 1e6), 0.95, np.random.default_rng(2))
    assert table.chosen.tolist() == [0, 1, 2, 3, 4]
    assert np.all(table.first <= table.chosen + 1)
    assert np.all(table.chosen + 1 <= table.last)
    assert np.all(table.last - table.first <= 2)


def test_the_published_interval_is_the_whole_line_where_a_count_may_be_zero() -> None:
    low, high = published.question_intervals(
        np.array([1e6, 1.0]), np.array([5e5, 0.0]), 1.0, 0.1, 0.95, 20, np.random.default_rng(3)
    )
    assert np.any(np.isinf(low) & np.isinf(high))


def test_credit_customers_have_the_declared_shape_and_the_papers_validity() -> None:
    frame = credit.generate(60_000).to_pandas()
    columns = credit.schema()["columns"]
    assert list(frame.columns) == list(columns)
    assert all(frame[name].cat.categories.to_list() == columns[name]["values"] for name in credit.VALUES)
    for name in ("G1", "G2", "G4", "G5"):  # G3 compares two purposes of one in a hundred
        question = TEN[name]
        means = frame.groupby(question.sql.split()[-1], observed=True)["good_credit"].mean()
        first, second = question.contrast
        assert (means[first] > means[second]) == question.valid, name


def test_statlog_rows_are_read_as_codes_of_the_corrected_table(tmp_path: Path) -> None:
    lines = (
        "A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1",
        "A14 48 A30 A410 500 A61 A71 1 A91 A103 1 A124 20 A141 A153 4 A171 2 A191 A202 2",
    )
    (tmp_path / "german.data").write_text("\n".join(lines) + "\n")
    codes, good = read_statlog(tmp_path / "german.data")
    assert good.tolist() == [1, 0]
    named = [{name: values[codes[name][row]] for name, values in credit.VALUES.items()} for row in (0, 1)]
    assert named[0]["status"] == "no checking account"
    assert named[0]["purpose"] == "furniture/equipment"
    assert named[0]["sex_marst"] == "male : married/widowed"
    assert named[0]["credit_amount"] == "(500, 2500]"
    assert named[1]["purpose"] == "business"
    assert named[1]["credit_amount"] == "(0, 500]"
    assert named[1]["age"] == "(10, 20]"
    assert named[1]["foreign_worker"] == "yes"


def test_an_ipums_extract_is_read_as_the_declared_values(tmp_path: Path) -> None:
    codes = {name.upper(): of_name[-1] for name, of_name in CODES.items()}
    people = [
        codes
        | {"YEAR": 2015, "AGE": 45, "INCTOT": 60_000, "SEX": 1, "RELATE": 101, "EDUC": 111, "SERIAL": 1},
        codes | {"YEAR": 2019, "AGE": 20, "INCTOT": -300, "SEX": 2, "RELATE": 1242, "EDUC": 40, "SERIAL": 2},
        codes | {"YEAR": 2010, "AGE": 45, "INCTOT": 1, "SERIAL": 3},  # too early
        codes | {"YEAR": 2015, "AGE": 45, "INCTOT": 999_999_999, "SERIAL": 4},  # not in the universe
    ]
    pd.DataFrame(people).to_csv(tmp_path / "cps_00001.csv.gz", index=False)
    table = read_cps(tmp_path / "cps_00001.csv.gz").to_pandas()
    assert list(table.columns) == list(census.schema()["columns"])
    assert table["sex"].tolist() == ["Male", "Female"]
    assert table["relate"].tolist() == ["Head/householder", "Foster children"]
    assert table["educ"].tolist() == ["Bachelor's degree", "Grade 9"]
    assert table["age"].tolist() == ["(40, 50]", "(10, 20]"]
    assert table["income"].tolist() == [60_000, 0]


def test_every_declared_value_of_the_survey_has_a_code() -> None:
    columns = census.schema()["columns"]
    assert {name: len(set(codes)) for name, codes in CODES.items()} == {
        name: len(columns[name]["values"]) for name in CODES
    }


@pytest.fixture
def tlc(tmp_path: Path) -> tuple[list[Path], Path]:
    zones = tmp_path / "taxi_zone_lookup.csv"
    zones.write_text(
        '"LocationID","Borough","Zone","service_zone"\n'
        '132,"Queens","JFK Airport","Airports"\n14,"Brooklyn","Bay Ridge","Boro Zone"\n'
        '264,"Unknown","NV","N/A"\n'
    )
    months = []
    for month, pairs in (("01", [(132, 14), (14, 264)]), ("02", [(132, 132)])):
        path = tmp_path / f"yellow_tripdata_2019-{month}.parquet"
        start, end = zip(*pairs, strict=True)
        pq.write_table(
            pa.table({"VendorID": [1] * len(pairs), "PULocationID": start, "DOLocationID": end}), path
        )
        months.append(path)
    return months, zones


def test_taxi_records_are_joined_with_the_zone_lookup(tlc: tuple[list[Path], Path]) -> None:
    table = read_trips(*tlc)
    assert table.column_names == ["pickup_borough", "pickup_zone", "dropoff_borough", "dropoff_zone"]
    assert table["pickup_borough"].to_pylist() == ["Queens", "Brooklyn", "Queens"]
    assert table["dropoff_zone"].to_pylist() == ["Bay Ridge", "NV", "JFK Airport"]
    assert trip_schema(tlc[1])["columns"]["dropoff_zone"]["values"] == ["JFK Airport", "Bay Ridge", "NV"]


def test_real_files_take_the_place_of_generated_trips(
    tlc: tuple[list[Path], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(tables.TRIPS, ":".join(map(str, tlc[0])))
    monkeypatch.setenv(tables.ZONES, str(tlc[1]))
    tables.table.cache_clear()
    with tables.open_session("trips", 10) as session:
        answer = session.query("SELECT pickup_borough, COUNT(*) FROM trips GROUP BY pickup_borough", rho=1.0)
        assert answer.groups.size == 3
    tables.table.cache_clear()
