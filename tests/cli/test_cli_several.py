"""Several aggregates on the command line."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

SEVERAL = "SELECT sex, COUNT(*) AS n, AVG(pay), SUM(pay) FROM people GROUP BY sex"


@pytest.fixture
def several(dpxplain: Any) -> Any:
    """The command line after one query of three aggregates."""
    assert dpxplain("query", SEVERAL, "--rho", "1.5").code == 0
    return dpxplain


def test_a_query_shows_all_aggregates_under_one_price(dpxplain: Any) -> None:
    outcome = dpxplain("query", SEVERAL, "--rho", "1.5", "--notes")
    assert outcome.code == 0
    for figure in ("ρ 1.5", "ε 9.26", "ρ 5", "ρ 3.5"):
        assert figure in outcome.err
    for text in ("AVG(pay)", "SUM(pay)", " n ", "COUNT(*): counts (Gaussian) 0.4035"):
        assert text in outcome.out


def test_several_aggregates_as_json_and_csv(several: Any) -> None:
    payload = several("query", SEVERAL, "--rho", "1.5", "--json").json
    assert (payload["kind"], payload["values"]) == ("answers", ["n", "AVG(pay)", "SUM(pay)"])
    assert {"n", "n_low", "n_high", "AVG(pay)_low"} <= payload["rows"][0].keys()
    assert sum(spend["rho"] for spend in payload["spends"]) == pytest.approx(1.5)
    assert payload["free"]
    rows = list(csv.DictReader(io.StringIO(several("query", SEVERAL, "--rho", "1.5", "--format", "csv").out)))
    assert [row["sex"] for row in rows] == ["Female", "Male"]


def test_why_and_explain_ask_which_aggregate_is_meant(several: Any) -> None:
    for words in (("why", "Male", "Female"), ("explain", "Male", "Female"), ("preview", "Male", "Female")):
        outcome = several(*words, "--json")
        assert outcome.code == 2
        assert "several aggregates: n, AVG(pay), SUM(pay)" in outcome.error["message"]
        assert "--of n" in outcome.error["remedy"]
    unknown = several("why", "Male", "Female", "--of", "MAX(pay)", "--json")
    assert unknown.code == 2
    assert "Choose one of: n, AVG(pay), SUM(pay)." in unknown.error["remedy"]
    assert several("budget", "--json").json["rho"]["spent"] == 1.5


def test_why_and_explain_speak_of_the_aggregate_named(several: Any, folder: Path) -> None:
    question = several("why", "Male", "Female", "--of", "COUNT(*)", "--json").json
    assert (question["of"], question["verdict"]) == ("n", "real")
    assert "COUNT(*)" in question["question"]
    table = several(
        "explain", "Male", "Female", "--of", "SUM(pay)", "--k", "2", "--report", "r.html", "--json"
    )
    assert table.json["question"]["of"] == "SUM(pay)"
    assert "SUM(pay)" in (folder / "r.html").read_text()
    assert several("preview", "Male", "Female", "--of", "AVG(pay)", "--json").json["rho"] == 0.5


def test_of_may_name_the_only_aggregate_and_no_other(asked: Any) -> None:
    assert asked("why", "Male", "Female", "--of", "AVG(pay)", "--json").json["of"] == "AVG(pay)"
    other = asked("why", "Male", "Female", "--of", "COUNT(*)", "--json")
    assert other.code == 2
    assert "has AVG(pay)." in other.error["remedy"]


def test_a_dry_run_and_a_preview_show_the_margins_of_each(dpxplain: Any, folder: Path) -> None:
    (folder / "people.csv").unlink()
    for words in (("query", SEVERAL, "--rho", "1.5", "--dry-run"), ("preview", SEVERAL, "--rho", "1.5")):
        rows = dpxplain(*words, "--json").json["rows"]
        assert {row["aggregate"] for row in rows} == {"n", "AVG(pay)", "SUM(pay)"}
        assert "AVG(pay)" in dpxplain(*words).out


def test_the_curator_sees_the_truth_of_each(several: Any) -> None:
    outcome = several("query", SEVERAL, "--rho", "1.5", "--curator", "--json")
    rows = outcome.json["truth"]["rows"]
    assert {(row["sex"], row["aggregate"]) for row in rows if row["true"] == 300} == {("Female", "n")}
    assert "Not private" in outcome.err
