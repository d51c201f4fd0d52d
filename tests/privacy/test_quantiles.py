"""MEDIAN and quantiles: what is counted, what it costs, and intervals that cover at every size of group."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import plan_query
from dpxplain.phases.assess import group_estimates
from dpxplain.session import Session
from dpxplain.sql.parse import parse
from opened import dataset_of

SCHEMA: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 1e6},
    "columns": {
        "g": {"values": ["many", "few", "none"]},
        "x": {"bounds": [0, 100], "step": 0.5},
        "age": {"edges": [0, 20, 40, 60, 80]},
    },
}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.gamma(2.0, 15.0, 3000), rng.normal(70, 5, 15)]).clip(0, 100)
    x = np.round(x * 2) / 2
    x[::13] = np.nan
    groups = np.repeat(["many", "few"], [3000, 15])
    return pd.DataFrame({"g": groups, "x": x, "age": rng.integers(-5, 90, 3015)})


@pytest.fixture
def owner(tmp_path: Path) -> Any:
    with dpx.connect(frame(), SCHEMA, workspace=tmp_path, curator=True, insecure_seed=8) as session:
        yield session


@pytest.mark.parametrize(
    ("sql", "level"),
    [
        ("MEDIAN(x)", 0.5),
        ("QUANTILE_CONT(x, 0.9)", 0.9),
        ("APPROX_QUANTILE(x, 0.25)", 0.25),
        ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)", 0.9),
    ],
)
def test_with_much_budget_it_is_the_quantile_within_a_bin(owner: Session, sql: str, level: float) -> None:
    answer = owner.query(f"SELECT g, {sql} FROM t GROUP BY g", rho=1e5)
    data = frame()
    true = data.x[data.g == "many"].quantile(level)
    truth = {row["g"]: row["true"] for row in answer.truth().records()}
    assert truth["many"] == pytest.approx(true)
    assert truth["none"] is None
    low, high = answer["many"].interval
    assert low <= true <= high
    assert high - low <= 3.0
    with pytest.raises(dpx.QuestionError, match="cannot be explained"):
        answer.why("many", "few")
    assert owner.answer(answer.id).records() == answer.records()
    gap = answer["few"] - answer["many"]
    assert gap.interval[0] <= gap.estimate <= gap.interval[1]


@pytest.mark.slow
@pytest.mark.parametrize("group", ["many", "few"])
@pytest.mark.parametrize("rho", [0.02, 1.0])
@pytest.mark.parametrize("level", [0.1, 0.5])
def test_intervals_cover(owner: Session, level: float, rho: float, group: str) -> None:
    answer = owner.query(f"SELECT g, QUANTILE_CONT(x, {level}) FROM t GROUP BY g", rho=rho)
    true = {row["g"]: row["true"] for row in answer.truth().records()}[group]
    dataset, query = dataset_of(owner), answer.statement.query
    plan, place, runs, confidence = (
        plan_query(query, dataset.schema, rho),
        answer.groups.find(group),
        200,
        0.9,
    )
    covered = 0
    for _ in range(runs):
        estimates = group_estimates(plan.measure(dataset), query, dataset.schema, confidence)
        value, (low, high), _ = estimates[place]
        assert 0.0 <= low <= value <= high <= 100.0
        covered += low <= true <= high
    assert covered / runs >= confidence - 4.9 * math.sqrt(confidence * (1 - confidence) / runs)


def test_declared_edges_are_the_bins_and_values_outside_are_left_out(owner: Session) -> None:
    answers = owner.query(
        "SELECT g, COUNT(*), MEDIAN(age), QUANTILE_CONT(age, 0.9) FROM t GROUP BY g", rho=9.0
    )
    data = frame()
    inside = data[(data.g == "many") & (data.age > 0) & (data.age <= 80)].age
    for name, level in (("MEDIAN(age)", 0.5), ("QUANTILE_CONT(age, 0.9)", 0.9)):
        low, high = answers[name]["many"].interval
        assert low <= inside.quantile(level) <= high
        assert {low, high} <= {0.0, 20.0, 40.0, 60.0, 80.0}
    assert answers["MEDIAN(age)"].release.noisy_bins == answers["QUANTILE_CONT(age, 0.9)"].release.noisy_bins
    assert math.fsum(spend.rho for spend in answers.spends) == 9.0


@pytest.mark.parametrize(("neighbours", "factor"), [("unbounded", 1.0), ("bounded", math.sqrt(2))])
def test_a_row_lies_in_one_bin(neighbours: str, factor: float, tmp_path: Path) -> None:
    declared = SCHEMA | {"privacy": {"rho": 10.0, "neighbours": neighbours}}
    with dpx.connect(frame(), declared, workspace=tmp_path) as session:
        release = session.query("SELECT g, MEDIAN(x) FROM t GROUP BY g", rho=0.5).release
        assert release.bins_scale == pytest.approx(factor)
        query = parse("SELECT g, MEDIAN(x) FROM t GROUP BY g", session.schema).query
        measured = plan_query(query, session.schema, 0.5).measurement
        bins = measured._true_parts(dataset_of(session))["bins x"].reveal().reshape(3, -1)
    data = frame()
    assert bins.sum(axis=1).tolist() == [data.x[data.g == g].count() for g in ("many", "few", "none")]
    edges = np.array(release.bin_edges)
    counted, _ = np.histogram(data.x[data.g == "many"].dropna(), bins=[-1.0, *(edges[1:] + 0.1)])
    assert bins[0].tolist() == counted.tolist()


@pytest.mark.parametrize("wrong", ["MEDIAN(g)", "QUANTILE_CONT(x, 2)", "QUANTILE_CONT(x, g)", "MEDIAN(*)"])
def test_what_has_no_quantile_is_refused(wrong: str) -> None:
    with pytest.raises(dpx.QueryRefused):
        parse(f"SELECT g, {wrong} FROM t GROUP BY g", Schema.load(SCHEMA))
