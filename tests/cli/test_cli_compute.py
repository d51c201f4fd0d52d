"""Arithmetic on answers and the ratio influence, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpxplain.cli import run
from dpxplain.words.numbers import PLAIN

_ASK = "SELECT sex, COUNT(*) FROM adult GROUP BY sex"


@pytest.fixture
def adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["query", "-e", "adult", "--rho", "0.1", "--yes", "--json", _ASK]) == 0
    capfd.readouterr()


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("'Male' / 'Female' - 1", 1.0164),
        ("log('Male' / 'Female')", 0.7013),
        ("2 * 'Male' - 'Male'", 32650),
    ],
)
def test_arithmetic_is_free_and_has_an_interval(
    adult: None, formula: str, expected: float, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["compute", "-e", "adult", "--json", formula]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["interval"][0] <= found["estimate"] <= found["interval"][1]
    assert found["estimate"] == pytest.approx(expected, rel=0.01)
    assert run(["budget", "-e", "adult", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rho"]["spent"] == 0.1


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os')",
        "1 + 1",
        "1 / 0",
        "'Male' + 1 / 0",
        "1e308 * 10 * 'Male'",
        "'Male' / 0",
        "'Male' ** 2",
        "'Male' if 1 else 2",
        "",
        "'Mars' / 2",
        "'Male' /",
    ],
)
def test_what_is_not_arithmetic_on_groups_is_refused(
    adult: None, formula: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["compute", "-e", "adult", "--json", formula]) == 2
    assert json.loads(capfd.readouterr().err)["remedy"]


def test_arithmetic_is_shown_to_people_too(adult: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["compute", "-e", "adult", "'Male' / 'Female' - 1"]) == 0
    shown = capfd.readouterr().out
    assert "Male / Female - 1" in shown
    assert "95% interval" in shown
    assert " to " in shown
    assert "Free" not in shown
    assert run(["compute", "-e", "adult", "'Male' / 2", "--notes"]) == 0
    assert "Free" in capfd.readouterr().out
    assert run(["compute", "-e", "adult", "1 / ('Male' - 'Male')"]) == 0
    assert "unknown" in capfd.readouterr().out


def test_an_interval_by_bootstrap_is_asked_for_and_says_what_it_is(
    adult: None, capfd: pytest.CaptureFixture[str]
) -> None:
    found = {}
    for method in ("auto", "image", "bootstrap"):
        words = ["compute", "-e", "adult", "'Male' / ('Male' + 'Female')", "--method", method]
        assert run([*words, "--json"]) == 0
        found[method] = json.loads(capfd.readouterr().out)
        assert found[method]["method"] == method
        assert run(words) == 0
        assert ("approximate" in capfd.readouterr().out) == (method == "bootstrap")
    widths = {method: one["interval"][1] - one["interval"][0] for method, one in found.items()}
    assert widths["auto"] == widths["image"] != widths["bootstrap"]
    assert run(["compute", "-e", "adult", "'Male'", "--method", "mover", "--json"]) == 2
    assert "bootstrap" in json.loads(capfd.readouterr().err)["remedy"]
    sure = ["--confidence", "0.9999"]
    assert run(["compute", "-e", "adult", "'Male' / 2", "--method", "bootstrap", *sure]) == 2
    assert "resamples are enough for a confidence of at most" in capfd.readouterr().err


@pytest.mark.parametrize("terms", [985, 2_000])
def test_a_long_sum_is_computed(adult: None, terms: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["compute", "-e", "adult", "--json", " + ".join(["'Male'"] * terms)]) == 0
    assert json.loads(capfd.readouterr().out)["estimate"] == pytest.approx(terms * 32_650, rel=0.01)


def test_a_formula_too_long_to_be_read_is_refused(adult: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["compute", "-e", "adult", "--json", "-" * 200_000 + "'Male'"]) == 2
    assert run(["compute", "-e", "adult", "--json", "1 + " * 100_000 + "'Male'"]) in (0, 2)


def test_a_ratio_is_explained_for_its_price(adult: None, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["ratio", "-e", "adult", "--rho", "0.5", "--k", "2", "--yes", "--json", "Male", "Female"]
    assert run(asked) == 0
    assert len(json.loads(capfd.readouterr().out)["rows"]) == 2
    assert run(["budget", "-e", "adult", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rho"]["spent"] == 0.6


def test_a_ratio_asked_before_is_shown_as_free_and_needs_no_data(
    adult: None, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["ratio", "-e", "adult", "--rho", "0.5", "--k", "2", "--yes", "Male", "Female"]
    assert run(asked) == 0
    first = capfd.readouterr()
    assert "ρ 0.5 (ε 4.89 at δ 1e-6) of the" in first.err
    assert run(asked) == 0
    again = capfd.readouterr()
    assert "Price: free" in again.err
    assert again.out.splitlines()[:6] == first.out.splitlines()[:6]
    assert run([*asked, "--population", "--json"]) == 0
    general = json.loads(capfd.readouterr().out)["question"]["in_general"]
    assert run([*asked, "--population"]) == 0
    assert PLAIN.span(general["low"], general["high"], 1.0) in capfd.readouterr().out
    assert run(["budget", "-e", "adult", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rho"]["spent"] == 0.6


@pytest.mark.parametrize("wrong", [["--rho", "nan"], ["--rho=-1"], ["--k", "0"], ["--of", "AVG(x)"]])
def test_a_ratio_that_cannot_be_is_refused_before_a_price_is_shown(
    adult: None, wrong: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["ratio", "-e", "adult", "--yes", *wrong, "Male", "Female"]) == 2
    assert "Price" not in capfd.readouterr().err


def test_a_ratio_of_one_of_several_aggregates(adult: None, capfd: pytest.CaptureFixture[str]) -> None:
    several = "SELECT sex, COUNT(*) AS n, AVG(high_income) FROM adult GROUP BY sex"
    assert run(["query", "-e", "adult", "--rho", "0.1", "--yes", "--json", several]) == 0
    capfd.readouterr()
    asked = ["ratio", "-e", "adult", "--rho", "0.5", "--k", "1", "--yes", "--json", "Male", "Female"]
    assert run(asked) == 2
    assert "--of" in capfd.readouterr().err
    assert run([*asked, "--of", "n"]) == 0
    assert len(json.loads(capfd.readouterr().out)["rows"]) == 1
    assert run([*asked, "--of", "AVG(high_income)"]) == 0
    assert json.loads(capfd.readouterr().out)["question"]["compare"] == "ratio"


def test_a_share_and_a_ratio_are_asked_by_why_explain_and_preview(
    adult: None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", "-e", "adult", "--json", "Male", "Female", "--ratio", "--population"]) == 0
    ratio = json.loads(capfd.readouterr().out)
    assert (ratio["compare"], ratio["at_least"], ratio["verdict"]) == ("ratio", 1.0, "real")
    assert ratio["in_general"]["low"] < ratio["interval"][0] < 2.05
    assert ratio["in_general"]["high"] > ratio["interval"][1] > 1.99
    assert run(["preview", "-e", "adult", "--json", "Male", "--share", "--rho", "0.5"]) == 0
    capfd.readouterr()
    asked = ["explain", "-e", "adult", "--json", "--yes", "--rho", "0.5", "--k", "1", "Male", "--share"]
    assert run(asked) == 0
    table = json.loads(capfd.readouterr().out)
    assert table["question"]["weights"] == [{"group": "Male", "weight": 1.0}]
    assert ".why_ratio('Male', at_least=0.5)" in table["code"]["python"]
    assert "--share" in table["code"]["cli"]
    for wrong in (
        ["Male", "--ratio"],
        ["Male", "Female", "--share"],
        ["Male", "Female", "--ratio", "--share"],
    ):
        assert run(["why", "-e", "adult", *wrong]) == 2
