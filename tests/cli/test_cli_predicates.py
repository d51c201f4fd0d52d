"""The predicate language from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpxplain.cli import run

_ASK = "SELECT sex, AVG(high_income) FROM adult GROUP BY sex"


@pytest.fixture
def adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["query", "-e", "adult", "--rho", "0.1", "--yes", "--json", _ASK]) == 0
    capfd.readouterr()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--predicates", "ranges:age"], 35),
        (["--predicates", "thresholds"], 14),
        (["--predicates", "differs:race"], 5),
        (["--predicates", "age > 40", "--predicates", "race = 'White' OR race = 'Black'"], 2),
        (["--exclude", "native_country,age"], 58),
    ],
)
def test_every_kind_of_predicate_can_be_asked_for(
    adult: None, options: list[str], expected: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["explain", "-e", "adult", "--rho", "0.1", "--k", "2", "--json", *options, "Male", "Female"]) == 0
    )
    assert json.loads(capfd.readouterr().out)["predicates"] == expected


def test_a_condition_that_cuts_a_bin_is_refused(adult: None, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["explain", "-e", "adult", "--json", "--predicates", "age > 35", "Male", "Female"]
    assert run(asked) == 2
    assert "splits" in json.loads(capfd.readouterr().err.splitlines()[-1])["message"]
