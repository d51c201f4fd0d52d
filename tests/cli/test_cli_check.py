"""`dpxplain schema check` and `dpx.check_schema` find what does not fit, on made-up flights."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.model.schema import Schema
from dpxplain.render.views import check_in_words
from dpxplain.results.schema_check import near_misses

ROWS = 3_000
HEADER = ("tailnum", "origin", "dest", "month", "dep_delay", "distance", "cancelled")
SCHEMA: dict[str, Any] = {
    "table": {"name": "flights", "source": "flights.csv"},
    "privacy": {"rho": 1.0, "unit": "tailnum", "max_rows": 10},
    "columns": {
        "origin": {"values": ["EWR", "JFK", "LGA"]},
        "dest": {"values": ["Boston", "Zürich"]},
        "month": {"values": list(range(1, 13))},
        "dep_delay": {"bounds": [-30, 300]},
        "distance": {"edges": [0, 1000, 2000, 3000], "bounds": [0, 3000]},
        "cancelled": {"values": [True, False]},
    },
}


def flight(i: int) -> dict[str, Any]:
    """A row that fits."""
    return {
        "tailnum": f"N{i % 300}",
        "origin": ("EWR", "JFK", "LGA")[i % 3],
        "dest": ("Boston", "Zürich")[i % 2],
        "month": 1 + i % 12,
        "dep_delay": i % 100 - 20,
        "distance": 1 + i % 3000,
        "cancelled": "true" if i % 40 == 0 else "false",
    }


def checked(folder: Path, change: Callable[[int, dict[str, Any]], None], **sections: Any) -> Any:
    """The check of flights of which each row was changed; sections replace those of the schema."""
    with (folder / "flights.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEADER)
        writer.writeheader()
        for i in range(ROWS):
            row = flight(i)
            change(i, row)
            writer.writerow(row)
    columns = SCHEMA["columns"] | sections.pop("columns", {})
    return dpx.check_schema(folder / "flights.csv", SCHEMA | {"columns": columns} | sections)


def set_every(n: int, **values: Any) -> Callable[[int, dict[str, Any]], None]:
    def change(i: int, row: dict[str, Any]) -> None:
        if i % n == 0:
            row.update(values)

    return change


def nothing(_i: int, _row: dict[str, Any]) -> None:
    return None


def the_only(check: Any) -> Any:
    [warning] = check.warnings
    assert warning.remedy
    if warning.toml:
        # The lines to change are TOML, and the schema with them is one that loads.
        changed = tomllib.loads(warning.toml)
        merged = {key: dict(value) for key, value in SCHEMA.items()}
        merged["privacy"] |= changed.get("privacy", {})
        for name, keys in changed.get("columns", {}).items():
            kept = {} if "values" in keys else SCHEMA["columns"][name]
            merged["columns"] = merged["columns"] | {name: kept | keys}
        Schema.load(merged)
    return warning


def test_flights_that_fit_have_no_warning(tmp_path: Path) -> None:
    check = checked(tmp_path, nothing)
    assert (check.fits, check.rows, check.warnings) == (True, ROWS, ())
    assert "NOT PRIVATE" in str(check)
    assert check_in_words(check) in check._repr_html_()
    assert [record["column"] for record in check.records()] == list(SCHEMA["columns"])


@pytest.mark.parametrize(
    ("column", "text", "difference"),
    [
        ("origin", "Ewr", "upper and lower case"),
        ("origin", " EWR", "spaces around it"),
        ("dest", "Zurich", "accents"),
        ("dest", "Bosten", "one letter"),
        ("dest", "Bsoton", "one letter"),
    ],
)
def test_a_near_miss_is_named_with_what_it_was_meant_to_be(
    tmp_path: Path, column: str, text: str, difference: str
) -> None:
    warning = the_only(checked(tmp_path, set_every(10, **{column: text})))
    assert (warning.where, warning.kind) == (f"columns.{column}", "near_misses")
    assert (warning.rows, warning.share) == (300, 0.1)
    assert f'"{text}" for' in warning.message
    assert difference in warning.message


def test_numbers_that_were_written_with_a_fraction_are_near_misses_of_texts(tmp_path: Path) -> None:
    months = {"month": {"values": [str(month) for month in range(1, 13)]}}

    def change(_i: int, row: dict[str, Any]) -> None:
        row["month"] = f"{row['month']}.0"

    warning = the_only(checked(tmp_path, change, columns=months))
    assert warning.kind == "never_fits"
    assert tomllib.loads(warning.toml)["columns"]["month"]["values"] == list(range(1, 13))
    assert checked(tmp_path, change).fits  # whole numbers are read whatever their fraction of zeros


@pytest.mark.parametrize(
    ("change", "sections", "sentence"),
    [
        (
            {"origin": "SWF"},
            {},
            '20% of the rows (600) have a value that is not in the list: "SWF".',
        ),
        (
            {"origin": "Ewr"},
            {},
            '20% of the rows (600) have a value that is not in the list: "Ewr". They may be misspelt: "Ewr" '
            'for "EWR" (upper and lower case).',
        ),
        (
            {"origin": ""},
            {},
            "20% of the rows (600) are NULL, which is not declared, so they are in no group.",
        ),
        (
            {"dep_delay": "7 min"},
            {},
            '20% of the rows (600) contain text that is not a number ("7 min"). They are left out of sums, '
            "averages and bins.",
        ),
        (
            {"distance": 0},
            {},
            "20% of the rows (600) equal the lowest edge, 0, which lies outside the first bin, so they are "
            "in no group.",
        ),
        (
            {"distance": -7},
            {"columns": {"distance": {"edges": [0, 1000, 2000, 3000]}}},
            "20% of the rows (600) are at or below the lowest edge, 0, so they are in no group.",
        ),
        (
            {},
            {"columns": {"distance": {"edges": [0, 1000, 2000]}}},
            "33.3% of the rows (1,000) are above the highest edge, 2000, so they are in no group.",
        ),
        (
            {},
            {"columns": {"distance": {"edges": [0, 3000, 3001]}}},
            "1 of 2 bins are empty or almost empty, with 0 rows together: (3000, 3001].",
        ),
        (
            {},
            {"columns": {"dep_delay": {"bounds": [-20, 60]}}},
            "19% of the rows (570) are above 60 (up to 79) and count as 60. This moves the mean from 29.5 to "
            "27.6.",
        ),
        (
            {},
            {"columns": {"origin": {"values": ["EWR", "JFK", "LGA", "SWF"]}}},
            'No row has "SWF", which is in the list.',
        ),
        (
            {},
            {"privacy": {"rho": 1.0, "unit": "tailnum", "max_rows": 4}},
            "300 of 300 values of tailnum have more than 4 rows. max_rows cuts off 1,800 of 3,000 rows "
            "(60%), so counts and sums come out too small.",
        ),
        (
            {},
            {"privacy": {"rho": 1.0, "unit": "tailnum", "max_rows": 100}},
            "max_rows is 100, but no tailnum has more than 10 rows. The noise is 10 times as large as it "
            "needs to be.",
        ),
        (
            {},
            {"privacy": {"rho": 1.0}},
            "The schema protects single rows, but tailnum looks like a person's id: about 300 values "
            "in 3,000 rows, up to 10 rows each. A person with several rows is protected less.",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(
    tmp_path: Path, change: dict[str, Any], sections: dict[str, Any], sentence: str
) -> None:
    check = checked(tmp_path, set_every(5, **change), **sections)
    assert check.warnings[0].message == sentence


def test_a_number_that_repeats_like_a_key_is_proposed_as_the_unit() -> None:
    people = pd.DataFrame({"nr": [i // 6 for i in range(3_000)], "age": [20 + i % 50 for i in range(3_000)]})
    schema = SCHEMA | {"privacy": {"rho": 1.0}, "columns": {"age": {"bounds": [0, 120]}}}
    [warning] = dpx.check_schema(people, schema).warnings
    assert (warning.where, warning.kind) == ("privacy.unit", "repeated_key")
    assert tomllib.loads(warning.toml) == {"privacy": {"unit": "nr", "max_rows": 6}}
    once = schema | {"privacy": {"rho": 1.0} | tomllib.loads(warning.toml)["privacy"]}
    assert dpx.check_schema(people, once).fits


def test_codes_of_three_letters_are_no_near_misses_of_each_other() -> None:
    assert near_misses(["BGR", "SFO"], ["BGM", "SJO"]) == []
    assert near_misses(["2014"], ["2013"]) == []


def test_a_declared_value_that_is_misspelt_is_replaced_and_not_reported_twice(tmp_path: Path) -> None:
    warning = the_only(checked(tmp_path, nothing, columns={"origin": {"values": ["Ewr", "JFK", "LGA"]}}))
    assert warning.share == pytest.approx(1 / 3)
    assert tomllib.loads(warning.toml)["columns"]["origin"]["values"] == ["EWR", "JFK", "LGA"]


def test_undeclared_values_are_named_with_the_list_that_has_them(tmp_path: Path) -> None:
    warning = the_only(checked(tmp_path, set_every(100, origin="SWF")))
    assert (warning.kind, warning.rows) == ("undeclared", 30)
    assert tomllib.loads(warning.toml)["columns"]["origin"]["values"] == ["EWR", "JFK", "LGA", "SWF"]


def test_an_undeclared_null_is_a_value_that_is_left_out(tmp_path: Path) -> None:
    warning = the_only(checked(tmp_path, set_every(20, origin="")))
    assert (warning.kind, warning.rows) == ("null", 150)
    assert "null = true" in warning.toml


def test_values_that_no_row_has_are_listed(tmp_path: Path) -> None:
    warning = the_only(
        checked(tmp_path, nothing, columns={"origin": {"values": ["EWR", "JFK", "LGA", "SWF"]}})
    )
    assert (warning.kind, warning.examples) == ("unseen", ("SWF",))


def test_clamping_is_told_at_each_end_with_what_it_does_to_the_mean(tmp_path: Path) -> None:
    check = checked(tmp_path, nothing, columns={"dep_delay": {"bounds": [0, 60]}})
    below, above = check.warnings
    assert (below.kind, above.kind) == ("clamped_below", "clamped_above")
    assert (below.rows, above.rows) == (20 * 30, 19 * 30)
    assert tomllib.loads(above.toml)["columns"]["dep_delay"]["bounds"] == [-20, 79]
    record = next(record for record in check.records() if record["column"] == "dep_delay")
    assert (record["clamped_low"], record["clamped_high"]) == (0.2, 0.19)


def test_rows_without_a_value_do_not_move_the_clamped_mean(tmp_path: Path) -> None:
    bounds = {"dep_delay": {"bounds": [0, 60]}}
    missing = checked(tmp_path, set_every(4, dep_delay=""), columns=bounds)
    kept = [flight(i)["dep_delay"] for i in range(ROWS) if i % 4]
    mean, clamped = (sum(values) / len(kept) for values in (kept, [min(max(x, 0), 60) for x in kept]))
    figures = missing.figures.columns["dep_delay"].numbers
    assert (figures.mean, figures.clamped_mean) == (pytest.approx(mean), pytest.approx(clamped))


def test_a_single_far_outlier_that_moves_the_mean_is_told(tmp_path: Path) -> None:
    warning = the_only(checked(tmp_path, set_every(ROWS, dep_delay=1_000_000)))
    assert (warning.kind, warning.rows) == ("clamped_above", 1)


def test_rows_on_the_lowest_edge_are_in_no_bin(tmp_path: Path) -> None:
    warning = the_only(checked(tmp_path, set_every(10, distance=0)))
    assert warning.kind == "below_edges"
    assert tomllib.loads(warning.toml)["columns"]["distance"]["edges"][:2] == [-1, 0]


def test_rows_above_the_highest_edge_are_in_no_bin(tmp_path: Path) -> None:
    edges = {"distance": {"edges": [0, 1000, 2000]}}
    warning = the_only(checked(tmp_path, nothing, columns=edges))
    assert (warning.kind, warning.rows) == ("above_edges", 1000)
    assert tomllib.loads(warning.toml)["columns"]["distance"]["edges"] == [0, 1000, 2000, 3000]


def test_bins_that_hold_nothing_and_bins_that_hold_everything_are_told(tmp_path: Path) -> None:
    edges = {"distance": {"edges": [-10, 0, 2990, 3000, 3001, 5000]}}
    thin, wide = checked(tmp_path, nothing, columns=edges).warnings
    assert (thin.kind, thin.examples) == ("thin_bins", ("(-10, 0]", "(3000, 3001]", "(3001, 5000]"))
    assert tomllib.loads(thin.toml)["columns"]["distance"]["edges"] == [-10, 2990, 5000]
    assert wide.kind == "wide_bin"


@pytest.mark.parametrize("bounds", [{"bounds": [0, 1]}, {"edges": [-1, 0, 1]}])
def test_true_and_false_as_text_are_no_numbers(tmp_path: Path, bounds: dict[str, Any]) -> None:
    warning = the_only(checked(tmp_path, nothing, columns={"cancelled": bounds}))
    assert (warning.kind, warning.share) == ("text_boolean", 1.0)
    assert tomllib.loads(warning.toml)["columns"]["cancelled"]["values"] == [True, False]


def test_text_among_numbers_is_told(tmp_path: Path) -> None:
    warning = the_only(checked(tmp_path, set_every(30, dep_delay="7 min")))
    assert (warning.kind, warning.rows, warning.examples) == ("not_numbers", 100, ("7 min",))


def test_persons_above_max_rows_and_the_rows_they_lose_are_told(tmp_path: Path) -> None:
    person = {"rho": 1.0, "unit": "tailnum", "max_rows": 4}
    warning = the_only(checked(tmp_path, nothing, privacy=person))
    assert (warning.kind, warning.rows, warning.share) == ("truncated", 1_800, 0.6)
    assert tomllib.loads(warning.toml) == {"privacy": {"max_rows": 10}}
    assert checked(tmp_path, nothing, privacy=person | {"max_rows": 10}).fits


def test_rows_without_a_person_and_a_max_rows_that_nobody_needs_are_told(tmp_path: Path) -> None:
    person = {"rho": 1.0, "unit": "tailnum", "max_rows": 100}
    missing, loose = checked(tmp_path, set_every(300, tailnum=""), privacy=person).warnings
    assert (missing.kind, missing.rows) == ("no_unit", 10)
    assert loose.kind == "loose_max_rows"


def test_a_source_without_rows_and_a_dataframe_are_checked_too(tmp_path: Path) -> None:
    frame = pd.DataFrame([flight(i) for i in range(100)]).astype({"cancelled": "str"})
    frame["cancelled"] = frame["cancelled"] == "true"
    columns = {"columns": {"origin": {"values": ["EWR", "JFK", "LGA"]}, "dep_delay": {"bounds": [-30, 99]}}}
    columns |= {"privacy": {"rho": 1.0}}
    assert dpx.check_schema(frame, SCHEMA | columns).fits
    [warning] = dpx.check_schema(frame.head(0), SCHEMA | columns).warnings
    assert warning.kind == "empty"


def test_the_command_ends_with_code_4_and_says_what_to_change(dpxplain: Any, folder: Path) -> None:
    text = (folder / "people.csv").read_text()
    (folder / "people.csv").write_text(text.replace("Female", "female") + "Male,White,99,250\n")
    outcome = dpxplain("schema", "check")
    assert outcome.code == 4
    assert "901 rows read. 3 warnings." in outcome.out
    for words in (
        '"female" for "Female" (upper and lower case)',
        "[columns.sex]",
        "[columns.age]",
        "[columns.pay]",
    ):
        assert words in outcome.out
    assert "NOT PRIVATE" in outcome.err
    assert "fits the schema." not in outcome.out
    as_json = dpxplain("schema", "check", "--json")
    assert as_json.code == 4
    kinds = [warning["kind"] for warning in as_json.json["check"]["warnings"]]
    assert kinds == ["near_misses", "above_edges", "clamped_above"]


def test_a_source_that_contradicts_the_schema_is_still_refused(dpxplain: Any, folder: Path) -> None:
    (folder / "people.csv").write_text("sex,race,pay\nFemale,White,1\n")
    assert dpxplain("schema", "check").code == 2


def test_a_derived_column_whose_domain_follows_from_its_columns_fits(tmp_path: Path) -> None:
    late = {"late": {"expression": "CASE WHEN dep_delay > 15 THEN 1 ELSE 0 END"}}
    check = checked(tmp_path, nothing, columns=late)
    assert check.fits
    [record] = [record for record in check.records() if record["column"] == "late"]
    assert (record["null"], record["outside"], record["values_seen"]) == (0.0, 0.0, 2)


def test_what_is_declared_beside_an_expression_is_checked_like_any_column(tmp_path: Path) -> None:
    """Hours are 0.0 to 49.98 and every tenth row has none; the second is derived from the first."""
    columns = {
        "hours": {"expression": "distance / 60", "bounds": [0, 40]},
        "part": {"expression": "CASE WHEN hours > 20 THEN 'long' ELSE 'short' END", "values": ["long"]},
        "share": {"expression": "dep_delay / (month - 1)", "edges": [-20, 0, 20, 80]},
    }
    check = checked(tmp_path, set_every(10, distance=""), columns=columns)
    records = {record["column"]: record for record in check.records()}
    rows = [flight(i) | ({"distance": None} if i % 10 == 0 else {}) for i in range(ROWS)]
    hours = [None if row["distance"] is None else row["distance"] / 60 for row in rows]
    long = [hour is not None and min(hour, 40) > 20 for hour in hours]
    assert records["hours"]["null"] == pytest.approx(0.1)
    assert records["hours"]["clamped_high"] == sum(hour is not None and hour > 40 for hour in hours) / ROWS
    assert records["part"]["outside"] == pytest.approx(1 - sum(long) / ROWS)
    kinds = {(warning.where, warning.kind) for warning in check.warnings}
    assert ("columns.hours", "clamped_above") in kinds
    assert ("columns.part", "undeclared") in kinds
    [without] = [w for w in check.warnings if (w.where, w.kind) == ("columns.share", "null")]
    assert without.rows == sum(row["month"] == 1 for row in rows)  # a division by zero


def test_a_column_of_the_source_may_be_called_like_a_code(tmp_path: Path) -> None:
    frame = pd.DataFrame({"code_0": ["b", "b"], "a": ["x", "y"]})
    columns = {"a": {"values": ["x"]}, "code_0": {"values": ["b"]}}
    check = dpx.check_schema(frame, SCHEMA | {"privacy": {"rho": 1.0}, "columns": columns})
    assert [record["outside"] for record in check.records()] == [0.5, 0.0]
