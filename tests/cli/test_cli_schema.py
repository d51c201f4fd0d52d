"""`dpxplain schema init`, `schema check` and `schema tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpxplain.model.schema import Schema


def test_init_writes_a_schema_that_check_and_query_accept(dpxplain: Any, folder: Path) -> None:
    outcome = dpxplain("schema", "init", "people.csv", "--output", "draft.toml", "--rho", "2")
    assert outcome.code == 0
    assert "NOT PRIVATE" in outcome.err
    text = (folder / "draft.toml").read_text()
    assert "NOT PRIVATE" in text.splitlines()[2]
    schema = Schema.load(folder / "draft.toml")
    assert (schema.privacy.rho, schema.table.name, schema.table.source) == (2, "people", "people.csv")
    assert schema.domain("race") == ("A / B", "Black or Brown", "White", None)
    assert dpxplain("schema", "check", "draft.toml").code == 0
    sql = "SELECT sex, AVG(pay) FROM people GROUP BY sex"
    assert dpxplain("query", sql, "--rho", "1", "--schema", "draft.toml", "--workspace", "w").code == 0


def test_init_never_overwrites_without_force(dpxplain: Any, folder: Path) -> None:
    before = (folder / "dpxplain.toml").read_text()
    refused = dpxplain("schema", "init", "people.csv")
    assert refused.code == 2
    assert "--force" in refused.err
    assert (folder / "dpxplain.toml").read_text() == before
    assert dpxplain("schema", "init", "people.csv", "--force").code == 0
    assert "DRAFT" in (folder / "dpxplain.toml").read_text()


def test_init_writes_to_stdout(dpxplain: Any, folder: Path) -> None:
    outcome = dpxplain("schema", "init", "people.csv", "--output", "-")
    assert outcome.out.startswith("# DRAFT")
    assert "NOT PRIVATE" in outcome.err
    assert dpxplain("schema", "init", "people.csv", "-o", "-", "--json").json["toml"] == outcome.out


def test_init_refuses_a_folder_that_is_not_there_and_a_bad_budget(dpxplain: Any, folder: Path) -> None:
    assert dpxplain("schema", "init", "people.csv", "-o", "no/such.toml").code == 2
    assert dpxplain("schema", "init", "people.csv", "-o", "x.toml", "--rho", "-1").code == 2
    assert not (folder / "x.toml").exists()


def test_check_sums_up_what_is_declared(dpxplain: Any) -> None:
    outcome = dpxplain("schema", "check")
    assert outcome.code == 0
    assert "ρ = 5" in outcome.out
    checked = dpxplain("schema", "check", "--json").json
    assert checked["predicates"] == {"1": 8, "2": 20, "3": 16}
    assert checked["ok"]
    assert "Each row is protected." in checked["privacy"]["in_words"]


def test_check_explains_a_unit_of_several_rows(dpxplain: Any, folder: Path) -> None:
    text = (
        (folder / "dpxplain.toml").read_text().replace("rho = 5.0", 'rho = 5.0\nunit = "pay"\nmax_rows = 3')
    )
    (folder / "dpxplain.toml").write_text(text)
    assert "at most 3" in dpxplain("schema", "check", "--json").json["privacy"]["in_words"]


def test_check_says_which_tables_are_neighbours(dpxplain: Any, folder: Path) -> None:
    assert "(unbounded neighbours)" in dpxplain("schema", "check", "--json").json["privacy"]["in_words"]
    text = (folder / "dpxplain.toml").read_text().replace("rho = 5.0", 'rho = 5.0\nneighbours = "bounded"')
    (folder / "dpxplain.toml").write_text(text)
    assert "(bounded neighbours)" in dpxplain("schema", "check", "--json").json["privacy"]["in_words"]


def test_check_without_data_says_that_it_checked_the_schema_alone(dpxplain: Any, folder: Path) -> None:
    text = (folder / "dpxplain.toml").read_text().replace('source = "people.csv"', "")
    (folder / "dpxplain.toml").write_text(text)
    outcome = dpxplain("schema", "check")
    assert outcome.code == 0
    assert "Checked without data" in outcome.err
    assert "Checked without data" not in dpxplain("schema", "check", "--data", "people.csv").err


def test_a_source_that_fits_is_said_to_fit_with_the_rows_read(dpxplain: Any) -> None:
    outcome = dpxplain("schema", "check")
    assert outcome.code == 0
    assert "900 rows read. All of them fit the schema." in outcome.out
    assert "people.csv fits the schema" in outcome.out
    assert "NOT PRIVATE" in outcome.err
    checked = dpxplain("schema", "check", "--json").json["check"]
    assert (checked["rows"], checked["fits"], checked["private"], checked["warnings"]) == (
        900,
        True,
        False,
        [],
    )


def test_check_names_a_wrong_key(dpxplain: Any, folder: Path) -> None:
    (folder / "bad.toml").write_text('[table]\nname = "x"\n[privacy]\nrho = 1\n[columns.a]\nvalue = ["b"]\n')
    outcome = dpxplain("schema", "check", "bad.toml")
    assert outcome.code == 2
    assert "columns.a.value" in outcome.err
    (folder / "bad.toml").write_text("not toml")
    assert dpxplain("schema", "check", "bad.toml").code == 2


def test_bounds_are_tuned_for_a_price_and_nothing_is_written(dpxplain: Any, folder: Path) -> None:
    written = (folder / "dpxplain.toml").read_text()
    dry = dpxplain("schema", "tune", "--rho", "0.5", "--dry-run", "--json").json
    assert (dry["kind"], dry["rho"], dry["free"]) == ("preview", 0.5, False)
    assert dry["expected"][0].startswith("The number of values beyond a bound will be accurate to about ±")
    bought = dpxplain("schema", "tune", "--rho", "0.5", "--json").json
    assert (bought["kind"], bought["free"], bought["budget"]["rho"]["spent"]) == ("tuning", False, 0.5)
    assert {row["column"] for row in bought["bounds"]} == {"pay"}
    assert bought["max_rows"] == []
    assert all(0 <= row["low"] < row["high"] <= 100 for row in bought["bounds"])
    (folder / "people.csv").unlink()
    again = dpxplain("schema", "tune", "--rho", "0.5", "--keep", "0.6")
    assert "Price: free" in again.err
    lines = [line.strip() for line in again.out.splitlines()]
    assert lines[lines.index("[columns.pay]") + 1].startswith("bounds = [")
    assert (folder / "dpxplain.toml").read_text() == written
    assert [entry["kind"] for entry in dpxplain("history", "--json").json["entries"]] == ["tune"]


def test_what_cannot_be_tuned_is_refused_before_it_is_priced(dpxplain: Any) -> None:
    refused = dpxplain("schema", "tune", "--rho", "0.5", "--column", "sex", "--json")
    assert refused.code != 0
    assert "no numeric bounds" in refused.error["message"]
