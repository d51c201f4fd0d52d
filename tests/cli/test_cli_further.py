"""Arithmetic on answers and the ratio influence, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpxplain.cli import run

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
    ["__import__('os')", "1 + 1", "'Male' ** 2", "'Male' if 1 else 2", "", "'Mars' / 2", "'Male' /"],
)
def test_what_is_not_arithmetic_on_groups_is_refused(
    adult: None, formula: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["compute", "-e", "adult", "--json", formula]) == 2


def test_a_ratio_is_explained_for_its_price(adult: None, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["ratio", "-e", "adult", "--rho", "0.5", "--k", "2", "--yes", "--json", "Male", "Female"]
    assert run(asked) == 0
    assert len(json.loads(capfd.readouterr().out)["rows"]) == 2
    assert run(["budget", "-e", "adult", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rho"]["spent"] == 0.6
