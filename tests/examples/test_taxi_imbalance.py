"""The paper's Taxi-Imbalance use case runs, and finds the airports."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import dpxplain as dpx

_FILE = Path(__file__).parents[2] / "examples" / "taxi_imbalance.py"


def test_the_airports_explain_the_imbalance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("taxi_imbalance", _FILE)
    assert spec is not None
    assert spec.loader is not None
    taxi = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(taxi)
    assert sum(taxi.ZONES.values()) == 127
    table = taxi.main(300_000, str(tmp_path), insecure_seed=7)
    assert table.family_size == 127
    assert table.question.verdict is dpx.Verdict.REAL
    assert table[0].predicate.label == "pickup_zone = 'JFK Airport' or dropoff_zone = 'JFK Airport'"
    assert table[0].rank[0] == 1
    assert "LaGuardia" in table[1].predicate.label
    shown = capsys.readouterr().out
    assert "Queens, Brooklyn - 10 × Brooklyn, Queens" in shown
    assert "10 ×" in shown
