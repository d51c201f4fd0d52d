"""VARIANCE and STDDEV: exact sums of squares, intervals that cover, and no influence to explain."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.phases.answer_query import plan_query
from dpxplain.phases.assess import group_estimates
from dpxplain.results.answer import Answer
from dpxplain.session import Session
from opened import dataset_of

SCHEMA: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 1e6},
    "columns": {
        "g": {"values": ["many", "few", "none"]},
        "x": {"bounds": [0, 100], "step": 0.5},
        "fine": {"bounds": [0, 100]},
    },
}
NAMES = {
    "VARIANCE": lambda x: x.var(),
    "VAR_SAMP": lambda x: x.var(),
    "VAR_POP": lambda x: x.var(ddof=0),
    "STDDEV": lambda x: x.std(),
    "STDDEV_SAMP": lambda x: x.std(),
    "STDDEV_POP": lambda x: x.std(ddof=0),
}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(30, 15, 2000), rng.normal(70, 5, 12)]).round(1)
    x[::11] = np.nan
    return pd.DataFrame({"g": np.repeat(["many", "few"], [2000, 12]), "x": x, "fine": x})


def asked(session: Session, aggregate: str, rho: float) -> Answer:
    answer = session.query(f"SELECT g, {aggregate} FROM t GROUP BY g", rho=rho)
    assert isinstance(answer, Answer)
    return answer


@pytest.fixture
def owner(tmp_path: Path) -> Any:
    with dpx.connect(frame(), SCHEMA, workspace=tmp_path, curator=True, insecure_seed=4) as session:
        yield session


@pytest.mark.parametrize("column", ["x", "fine"])
@pytest.mark.parametrize("name", NAMES)
def test_with_much_budget_it_is_what_sql_says(owner: Session, name: str, column: str) -> None:
    answer = asked(owner, f"{name}({column})", 1e5)
    values = frame()[column].clip(0, 100)
    if column == "x":
        values = (values * 2).round() / 2
    true = NAMES[name](values[frame().g == "many"])
    assert answer["many"].estimate == pytest.approx(true, rel=2e-3)
    low, high = answer["many"].interval
    assert low <= true <= high
    truth = {row["g"]: row["true"] for row in answer.truth().records()}
    assert truth["many"] == pytest.approx(true, rel=1e-3)
    assert truth["none"] is None


@pytest.mark.parametrize(
    ("name", "rho"),
    [
        ("VAR_SAMP", 0.01),
        pytest.param("VAR_SAMP", 1.0, marks=pytest.mark.slow),
        pytest.param("STDDEV_POP", 0.01, marks=pytest.mark.slow),
        pytest.param("STDDEV_POP", 1.0, marks=pytest.mark.slow),
    ],
)
def test_intervals_cover_at_every_size_of_group(owner: Session, name: str, rho: float) -> None:
    answer = asked(owner, f"{name}(x)", rho)
    truth = {row["g"]: row["true"] for row in answer.truth().records()}
    dataset, query = dataset_of(owner), answer.statement.query
    plan, runs, level = plan_query(query, dataset.schema, rho), 200, 0.9
    covered = {"many": 0, "few": 0}
    for _ in range(runs):
        estimates = group_estimates(plan.measure(dataset), query, dataset.schema, level)
        for group in covered:
            value, (low, high), _ = estimates[answer.groups.find(group)]
            assert 0.0 <= low <= value <= high
            covered[group] += low <= truth[group] <= high
    assert min(covered.values()) / runs >= level - 4.9 * math.sqrt(level * (1 - level) / runs)


def test_an_interval_is_informative_where_the_group_is_large(owner: Session) -> None:
    low, high = asked(owner, "STDDEV(x)", 0.5)["many"].interval
    assert high - low < 2.0


def test_it_shares_a_measurement_with_count_and_average(owner: Session) -> None:
    answers = owner.query("SELECT g, COUNT(*), AVG(x), STDDEV(x), VARIANCE(x) FROM t GROUP BY g", rho=1.0)
    assert [spend.event for spend in answers.spends] == [
        "gaussian.counts",
        "gaussian.counts",
        "gaussian.sums",
        "gaussian.squares",
    ]
    deviation, variance = (answers[name]["many"] for name in ("STDDEV_SAMP(x)", "VAR_SAMP(x)"))
    assert deviation.estimate**2 == pytest.approx(variance.estimate)
    again = owner.answer(answers.id)
    assert again.records() == answers.records()


def test_it_is_answered_and_compared_but_not_explained(owner: Session) -> None:
    answer = asked(owner, "STDDEV(x)", 1.0)
    spent = owner.budget.spent
    for refused in (
        lambda: answer.why("many", "few"),
        lambda: answer.prepare(rho=0.1),
        lambda: answer.preview_prepare(rho=0.1),
    ):
        with pytest.raises(dpx.QuestionError, match="cannot be explained"):
            refused()
    assert owner.budget.spent == spent
    ratio = answer["many"] / answer["few"]
    low, high = ratio.interval
    assert low <= ratio.estimate <= high
    with pytest.raises(dpx.BadRequest, match="bootstrap"):
        ratio.interval_by("bootstrap")


def test_a_preview_shows_margins_by_size_of_group(owner: Session) -> None:
    preview = owner.preview("SELECT g, STDDEV(x) FROM t GROUP BY g", rho=0.1)
    margins = [margin for _, margin in preview.margin_by_group_size]
    assert margins == sorted(margins, reverse=True)
    assert 0 < margins[-1] < 2
    assert "STDDEV" in str(asked(owner, "STDDEV(x)", 0.1))


def test_a_column_without_bounds_has_no_variance(owner: Session) -> None:
    with pytest.raises(dpx.QueryRefused, match="bounds"):
        asked(owner, "STDDEV(g)", 0.1)
