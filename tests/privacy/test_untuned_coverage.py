"""A short run of experiments/untuned_coverage.py: always the same tables, so it cannot fail by chance."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from scipy.stats import binom

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "untuned_coverage.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("untuned_coverage", EXPERIMENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def check(tables: int, runs: int, tmp_path: Path) -> None:
    experiment = load()
    outcomes = experiment.measure(experiment.SEED, iter(range(tables)), tmp_path, runs=runs)
    assert len(outcomes) > 20
    for name, by_table in outcomes.items():
        held = [covered for table in by_table.values() for covered in table]
        # Intervals of one release share noise, so as few independent ones are assumed as there are releases.
        releases = len(by_table) * runs
        least = binom.ppf(1e-6, releases, experiment.CONFIDENCE) / releases
        assert sum(held) / len(held) >= least, name


def test_intervals_hold_on_random_tables(tmp_path: Path) -> None:
    check(4, 5, tmp_path)


@pytest.mark.slow
def test_intervals_hold_on_many_random_tables(tmp_path: Path) -> None:
    check(24, 10, tmp_path)
