"""Prepare once, ask freely, on the command line."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

from dpxplain.words.numbers import number


def spent(dpxplain: Any) -> float:
    amount: float = dpxplain("budget", "--json").json["rho"]["spent"]
    return amount


def test_prepare_once_and_explain_freely_without_the_data(asked: Any, folder: Path) -> None:
    prepared = asked("prepare", "--rho", "0.25", "--json").json
    assert (prepared["kind"], prepared["rho"], prepared["free"], prepared["answer"]) == (
        "prepared", 0.25, False, 1,
    )  # fmt: skip
    assert {"groups", "predicates", "cells", "count_scale", "total_scale"} <= prepared["rows"][0].keys()
    assert sum(spend["rho"] for spend in prepared["spends"]) == pytest.approx(0.25)
    (folder / "people.csv").unlink()
    for words in (
        ("Male", "Female", "--k", "2"),
        ("Female", "Male", "--k", "3", "--confidence", "0.8"),
        ("--weight", "Male=1", "--weight", "Female=-2", "--at-least", "1"),
    ):
        outcome = asked("explain", *words, "--json")
        assert outcome.code == 0
        assert "Price: free" in outcome.err
        table = outcome.json
        assert (table["mechanism"], table["free"], table["reason"]) == ("marginals", True, "prepared before")
        assert len(table["gap_interval"]) == 2
        assert table["rows"][0]["gap_without_low"] <= table["rows"][0]["gap_without_high"]
        assert table["budget"]["rho"]["spent"] == 0.75
    assert spent(asked) == 0.75
    assert [entry["kind"] for entry in asked("history", "--json").json["entries"]] == ["query", "prepare"]
    assert "prepare" in asked("history").out


def test_the_free_table_and_its_report_show_the_gap_without_them(asked: Any, folder: Path) -> None:
    asked("prepare", "--rho", "0.25")
    (folder / "people.csv").unlink()
    outcome = asked("explain", "Male", "Female", "--k", "2", "--report", "why.html")
    assert outcome.code == 0
    assert "without" in asked("explain", "Male", "Female", "--k", "2", "--notes").out.partition("Notes")[0]
    rows = asked("explain", "Male", "Female", "--k", "2", "--json").json["rows"]
    page = html.unescape((folder / "why.html").read_text("utf-8"))
    assert all(row["sentence"] in page for row in rows)


def test_a_dry_run_of_prepare_spends_nothing_and_reads_no_data(asked: Any, folder: Path) -> None:
    (folder / "people.csv").unlink()
    outcome = asked("prepare", "--rho", "0.25", "--dry-run", "--json")
    assert outcome.code == 0
    assert (outcome.json["kind"], outcome.json["rho"], outcome.json["free"]) == ("preview", 0.25, False)
    assert outcome.json["rows"][0]["predicates"] == 6
    assert "nothing is spent" in asked("prepare", "--rho", "0.25", "--dry-run").out
    assert spent(asked) == 0.5


def test_preparing_again_is_free_and_shows_its_price_first(asked: Any, folder: Path) -> None:
    first = asked("prepare", "--rho", "0.25")
    for figure in ("ρ 0.25", "ε 3.31", "ρ 4.5", "ρ 4.25"):
        assert figure in first.err
    assert "Prepared:" in first.out
    (folder / "people.csv").unlink()
    again = asked("prepare", "--rho", "0.25", "--json")
    assert again.json["free"]
    assert "Price: free" in again.err
    assert spent(asked) == 0.75


def test_prepare_takes_predicates_and_explain_is_free_for_the_same(asked: Any) -> None:
    family = ("--predicates", "thresholds:age", "--predicates", "race <> 'White'")
    asked("prepare", "--rho", "0.25", *family)
    assert asked("explain", "Male", "Female", "--k", "1", *family, "--json").json["free"]
    assert spent(asked) == 0.75


def test_explain_without_a_price_costs_half_when_nothing_is_prepared(asked: Any) -> None:
    outcome = asked("explain", "Male", "Female", "--k", "2", "--json")
    assert "Price: ρ 0.5" in outcome.err
    assert outcome.json["budget"]["rho"]["spent"] == 1.0
    assert (
        asked("preview", "Male", "Female", "--k", "2", "--mechanism", "one-shot", "--json").json["rho"] == 0.5
    )


def test_preview_of_a_prepared_explanation_is_free(asked: Any) -> None:
    asked("prepare", "--rho", "0.25")
    preview = asked("preview", "Male", "Female", "--json").json
    assert (preview["free"], preview["rho"], preview["rows"][0]["mechanism"]) == (True, 0.0, "marginals")
    assert preview["rows"][0]["gap_margin"] > 0
    assert preview["expected"][1].startswith("Expected, not proved: ")
    scored = asked("preview", "Male", "Female", "--mechanism", "vector", "--json").json
    assert "fifth highest" in scored["expected"][1]


def test_prepare_is_refused_with_the_right_exit_code(asked: Any, dpxplain: Any) -> None:
    for words, code, error in (
        (("--rho", "9"), 3, "budget_exhausted"),
        (("--rho", "0.1", "--answer", "7"), 2, "bad_request"),
        (("--rho", "0.1", "--attributes", "nothing"), 2, None),
        (("--rho", "-1"), 2, None),
        ((), 2, None),
    ):
        outcome = asked("prepare", *words, "--json")
        assert outcome.code == code, (words, outcome.err)
        assert error is None or outcome.error["code"] == error
    assert spent(asked) == 0.5


def test_the_curator_sees_whether_the_gap_is_covered(asked: Any) -> None:
    asked("prepare", "--rho", "0.25")
    outcome = asked("explain", "Male", "Female", "--k", "2", "--curator", "--json")
    row = outcome.json["truth"]["rows"][0]
    assert row["gap_without_covered"] in (True, False)
    assert isinstance(row["true_gap_without"], float)
    assert spent(asked) == 0.75


def test_one_of_several_aggregates_is_prepared_by_name(dpxplain: Any) -> None:
    dpxplain("query", "SELECT sex, COUNT(*), AVG(pay) FROM people GROUP BY sex", "--rho", "0.5")
    assert dpxplain("prepare", "--rho", "0.1", "--json").code == 2
    prepared = dpxplain("prepare", "--rho", "0.1", "--of", "AVG(pay)", "--json").json
    assert prepared["of"] == "AVG(pay)"
    assert dpxplain("explain", "Male", "Female", "--of", "AVG(pay)", "--k", "2", "--json").json["free"]
    assert spent(dpxplain) == 0.6


def test_preview_names_the_price_of_a_wanted_precision(asked: Any) -> None:
    refused = asked("preview", "Male", "Female", "--precision", "0.5", "--json")
    assert (refused.code, refused.error["code"]) == (2, "explanation_error")
    assert "prepare" in refused.error["remedy"]
    wide = ("--weight", "Male=1", "--k", "2", "--relative", "0.1")
    priced = asked("preview", *wide, "--mechanism", "vector", "--json").json
    assert priced["rows"][0]["relative_margin"] == pytest.approx(0.1, rel=1e-2)
    assert asked("preview", *wide, "--rho", "1").code == 2
    asked("prepare", "--rho", "0.05")
    cheap, dear = (
        asked("preview", "Male", "Female", "--k", "2", "--precision", share, "--json").json
        for share in ("0.5", "1")
    )
    assert cheap["rho"] <= dear["rho"]
    assert spent(asked) == 0.55


def test_what_a_preparation_will_tell_is_said_before_it_is_paid(asked: Any, folder: Path) -> None:
    preview = asked("prepare", "--rho", "0.25", "--dry-run", "--json").json
    (forecast,) = preview["expected"]
    assert "ρ 0.25" in forecast
    assert number(preview["rows"][0]["smallest_clear"]) in forecast
    assert forecast in " ".join(asked("prepare", "--rho", "0.25", "--dry-run").out.split())
    priced = asked("prepare", "--rho", "0.25")
    assert forecast in " ".join(priced.err.split())
    assert forecast not in " ".join(asked("prepare", "--rho", "0.25").err.split())
    price = asked("prepare", "--rho", "0.5", "--json").err.splitlines()[0]
    assert "ρ 0.5" in json.loads(price)["forecast"]


def test_a_named_preparation_is_read_in_place_of_a_sharper_one(asked: Any) -> None:
    first = asked("prepare", "--rho", "0.05", "--json").json["id"]
    asked("prepare", "--rho", "0.5")
    for command in ("why", "explain", "story"):
        told = asked(command, "Male", "Female", "--from", str(first), "--json").json
        assert (told["releases"], told["sharper"]) == ([first], True), command
    refused = asked("why", "Male", "Female", "--from", "99")
    assert refused.code == 2
    assert "has no measurement number '99'" in refused.err
