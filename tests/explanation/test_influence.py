"""Influences from one grouped pass, against their definition, predicate by predicate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpxplain as dpx

VALUES = {"a": ["x", "y", "z"], "b": ["p", "q"], "c": ["u", "v", "w"]}
BOUNDS = (-4, 10)


def _table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.choice([*v, "undeclared"], rows) for name, v in VALUES.items()})
    frame["g"] = rng.choice(["A", "B", "C", "other"], rows)
    frame["x"] = rng.integers(-6, 13, rows).astype(float)  # some beyond the bounds
    frame.loc[rng.random(rows) < 0.1, "x"] = np.nan
    return frame


def _schema() -> dict[str, Any]:
    return {
        "table": {"name": "t"},
        "privacy": {"rho": 100.0},
        "columns": {
            "g": {"values": ["A", "B", "C"]},
            **{name: {"values": v} for name, v in VALUES.items()},
            "x": {"bounds": list(BOUNDS), "step": 1},
        },
    }


def _true_influence(
    frame: pd.DataFrame, aggregate: str, weights: dict[str, float], matches: np.ndarray
) -> float:
    """Straight from the definition; no code shared with the library."""
    group, x = frame.g.to_numpy(), frame.x.to_numpy().clip(*BOUNDS)
    counted = np.full(len(frame), True) if aggregate == "COUNT(*)" else ~np.isnan(x)

    def value(rows: np.ndarray) -> float:
        if aggregate == "COUNT(*)":
            return float(rows.sum())
        return float(x[rows].sum() if aggregate == "SUM(x)" else x[rows].mean())

    groups = {g: counted & (group == g) for g in weights}
    m = min((groups[g] & ~matches).sum() for g in weights)
    if aggregate == "AVG(x)":
        if m == 0:
            return 0.0
        norm = float(m)
    else:
        norm = m / (max(groups[g].sum() for g in weights) + 1)
    return sum(w * (value(groups[g]) - value(groups[g] & ~matches)) for g, w in weights.items()) * norm


@pytest.fixture(scope="module", params=[0, 7, 60, 2000])
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[pd.DataFrame, dpx.Session]]:
    """A table of so many rows, and its curator's session."""
    frame, workspace = _table(request.param, seed=request.param + 1), tmp_path_factory.mktemp("influence")
    table = pa.Table.from_pandas(frame)
    with dpx.connect(table, schema=_schema(), workspace=workspace, curator=True) as session:
        yield frame, session


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(x)", "AVG(x)"])
@pytest.mark.parametrize("conjuncts", [1, 2, 3])
def test_one_pass_gives_the_influence_of_every_predicate(
    conjuncts: int, aggregate: str, opened: tuple[pd.DataFrame, dpx.Session]
) -> None:
    frame, owner = opened
    answer = owner.query(f"SELECT g, {aggregate} FROM t GROUP BY g", rho=1.0)
    matches = {}
    for names in itertools.combinations(VALUES, conjuncts):
        for values in itertools.product(*(VALUES[name] for name in names)):
            p = np.full(len(frame), True)
            for name, value in zip(names, values, strict=True):
                p &= frame[name].to_numpy() == value
            matches[" AND ".join(f"{n} = '{v}'" for n, v in zip(names, values, strict=True))] = p
    for weights in ({"A": 1, "B": -1}, {"A": 2, "B": -1, "C": 0.5}, {"C": -3}):
        table = answer.why(weights).truth(conjuncts=conjuncts).to_pandas()
        truth = dict(zip(table["predicate"], table["influence"], strict=True))
        expected = {text: _true_influence(frame, aggregate, weights, p) for text, p in matches.items()}
        assert truth == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_ranks_are_positions_by_descending_influence(tmp_path: Any) -> None:
    owner = dpx.connect(_table(500, 1), schema=_schema(), workspace=tmp_path, curator=True)
    truth = owner.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B").truth().to_pandas()
    owner.close()
    assert truth["rank"].tolist() == list(range(1, 9))
    assert truth["influence"].is_monotonic_decreasing


def test_adult_gives_the_figures_of_the_paper() -> None:
    owner = dpx.example("adult", curator=True)
    sql = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
    answer = owner.query(sql, rho=0.1)
    true = {row["marital_status"]: round(row["true"], 6) for row in answer.truth().records()}
    assert true == {
        "Never-married": 0.045480,
        "Separated": 0.064706,
        "Widowed": 0.084321,
        "Married-spouse-absent": 0.092357,
        "Divorced": 0.101161,
        "Married-AF-spouse": 0.378378,
        "Married-civ-spouse": 0.446133,
    }
    truth = answer.why("Married-civ-spouse", "Never-married").truth().records()
    assert len(truth) == 103
    assert [(row["predicate"], round(row["influence"])) for row in truth[:5]] == [
        ("occupation = 'Exec-managerial'", 555),
        ("education = 'Bachelors'", 547),
        ("age > 40 AND age <= 50", 501),
        ("occupation = 'Prof-specialty'", 434),
        ("education = 'Masters'", 252),
    ]
