"""`dpxplain experiment`: the list, a name that is none, and an installation without a clone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpxplain.cli import demo, run


def test_the_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "list", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)["experiments"]
    assert {"adult", "questions", "case-studies", "precision", "widths", "run-time", "taxi", "study"} <= set(
        names
    )
    assert run(["experiment", "list"]) == 0


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "precison"]) == 2
    assert "full-ranking" in capsys.readouterr().err


def test_trips_without_their_zones_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "taxi", "--trips", "a.parquet"]) == 2
    assert "--zones" in capsys.readouterr().err


def test_without_a_clone_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = tmp_path / "site-packages" / "dpxplain" / "cli" / "demo.py"
    monkeypatch.setattr(demo, "__file__", str(installed))
    monkeypatch.chdir(tmp_path)
    assert run(["experiment", "list"]) == 2
    assert "need a clone" in capsys.readouterr().err
