"""Every kind of predicate, against the condition evaluated row by row in pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.explanation.family_choice import FamilyChoice, check_choice, chosen_family
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse_condition

ZONES = ["n", "e", "s", "w"]


def _schema() -> dict[str, Any]:
    return {
        "table": {"name": "t"},
        "privacy": {"rho": 1000.0},
        "columns": {
            "g": {"values": ["A", "B"]},
            "pickup": {"values": ZONES},
            "dropoff": {"values": [*ZONES, "airport"]},
            "age": {"edges": [0, 20, 40, 60, 80], "null": True},
            "rooms": {"values": [3, 1, 2, 5]},
            "flag": {"values": [True, False]},
            "x": {"bounds": [0, 10], "step": 1},
            "y": {"bounds": [0, 10]},
        },
    }


def _frame(rows: int = 700) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "g": rng.choice(["A", "B"], rows),
            "pickup": rng.choice([*ZONES, "moon"], rows),
            "dropoff": rng.choice([*ZONES, "airport", "moon"], rows),
            "age": rng.choice([5.0, 20.0, 33.0, 41.0, 79.5, 95.0, np.nan], rows),
            "rooms": rng.choice([1, 2, 3, 4, 5], rows),
            "flag": rng.choice([True, False], rows),
            "x": rng.integers(0, 11, rows),
            "y": rng.integers(0, 11, rows),
        }
    )


def _declared(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Which rows hold a declared value, for each column."""
    return {
        "pickup": frame.pickup.isin(ZONES),
        "dropoff": frame.dropoff.isin([*ZONES, "airport"]),
        "age": (frame.age > 0) & (frame.age <= 80),
        "rooms": frame.rooms.isin([1, 2, 3, 5]),
        "flag": frame.flag.notna(),
    }


def _rows(frame: pd.DataFrame, text: str) -> pd.Series:
    """The rows that satisfy a printed predicate; plain pandas, only for the shapes used here."""
    known = _declared(frame)
    satisfied = pd.Series(False, index=frame.index)
    for alternative in text.split(" OR "):
        matching = pd.Series(True, index=frame.index)
        for atom in alternative.strip("()").split(" AND "):
            name, operator, literal = atom.split(" ", 2)
            if operator == "IS":
                matching &= frame[name].isna()
                continue
            value = eval(literal.replace("TRUE", "True").replace("FALSE", "False"))
            test = {
                "=": frame[name] == value,
                "<>": frame[name] != value,
                "<": frame[name] < value if operator == "<" else None,
                "<=": frame[name] <= value if operator == "<=" else None,
                ">": frame[name] > value if operator == ">" else None,
                ">=": frame[name] >= value if operator == ">=" else None,
            }[operator]
            matching &= known[name] & test
        satisfied |= matching
    return satisfied


def _influence(frame: pd.DataFrame, aggregate: str, p: pd.Series) -> float:
    a, b = frame.g == "A", frame.g == "B"
    value = {
        "COUNT(*)": lambda rows: rows.sum(),
        "SUM(x)": lambda rows: frame.x[rows].sum(),
        "AVG(x)": lambda rows: frame.x[rows].mean(),
    }[aggregate]
    m = min((a & ~p).sum(), (b & ~p).sum())
    if m == 0:
        return 0.0
    norm = m if aggregate == "AVG(x)" else m / (max(a.sum(), b.sum()) + 1)
    return float((value(a) - value(b) - value(a & ~p) + value(b & ~p)) * norm)


FAMILIES: dict[str, tuple[Any, int]] = {
    "ranges of bins": (dpx.ranges("age"), 9),
    "ranges of whole numbers": (dpx.ranges("rooms"), 9),
    "all ranges": (dpx.ranges(), 18),
    "thresholds": (dpx.thresholds("age", "rooms"), 12),
    "differs": (dpx.differs("pickup", "flag"), 6),
    "either end": (dpx.either("pickup", "dropoff"), 4),
    "conditions": (
        ["age > 40 AND pickup = 'n'", "pickup = 'n' OR rooms >= 3", "age IS NULL", "rooms < 2"],
        4,
    ),
    "a mixture": ([dpx.differs("flag"), "flag = TRUE AND rooms <> 2", dpx.either("pickup", "dropoff")], 7),
}


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Any:
    workspace = tmp_path_factory.mktemp("workspace")
    with dpx.connect(_frame(), schema=_schema(), workspace=workspace, curator=True) as session:
        yield session


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(x)", "AVG(x)"])
@pytest.mark.parametrize("name", FAMILIES)
def test_influences_match_the_condition_evaluated_row_by_row(owner: Any, name: str, aggregate: str) -> None:
    predicates, size = FAMILIES[name]
    question = owner.query(f"SELECT g, {aggregate} FROM t GROUP BY g", rho=1.0).why("A", "B")
    truth = question.truth(predicates=predicates).records()
    assert len(truth) == len({row["predicate"] for row in truth}) == size
    frame = _frame()
    for row in truth:
        rows = _rows(frame, row["predicate"])
        assert row["influence"] == pytest.approx(_influence(frame, aggregate, rows), abs=1e-9), row


@pytest.mark.parametrize("name", FAMILIES)
def test_overlap_is_the_most_predicates_that_any_row_can_satisfy(name: str) -> None:
    schema = Schema.load(_schema())
    query = Query("t", ("g",), Aggregate("count"))
    choice = check_choice(FamilyChoice(predicates=FAMILIES[name][0]), schema, query)
    family = chosen_family(choice, schema, query, parse_condition)
    frame = _frame(5000)
    satisfied = sum(_rows(frame, str(family.predicate(i))).astype(int) for i in range(family.size))
    assert satisfied.max() <= family.overlap
    if len(family.parts) == 1:  # attained: every cell occurs among so many rows
        assert satisfied.max() == family.overlap


@pytest.mark.parametrize("name", FAMILIES)
def test_any_family_can_be_explained_for_its_price(owner: Any, name: str) -> None:
    predicates, size = FAMILIES[name]
    question = owner.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0).why("A", "B")
    before = owner.budget.spent
    table = question.explain(k=3, rho=0.25, predicates=predicates)
    assert len(table) == 3
    assert table.family_size == size
    assert owner.budget.spent == pytest.approx(before + 0.25)
    assert question.explain(k=3, rho=0.25, predicates=predicates).free
    assert all(row.predicate.label for row in table)


def test_a_column_can_be_excluded(owner: Any) -> None:
    question = owner.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    text = " ".join(row["predicate"] for row in question.truth(exclude=["pickup", "flag"]).records())
    assert "pickup" not in text
    assert "flag" not in text
    assert "dropoff" in text


@pytest.mark.parametrize(
    ("predicates", "says"),
    [
        (["age > 30"], "splits the declared range"),
        (["age >= 40"], "splits the declared range"),
        (["age = 40"], "splits the declared range"),
        (["g = 'A'"], "groups by"),
        (["y > 3"], "bounds but no edges"),
        (["pickup = 'mars'"], "mars"),
        (["pickup IS NULL"], "NULL is not a declared value"),
        (["rooms = 1 GROUP BY g"], "In the condition"),
        (["pickup = 'n' LIMIT 3"], "In the condition"),
        (["rooms = 1) GROUP BY (g"], "In the condition"),
        (["rooms = 1) LIMIT (3"], "condition"),
        ([], "must be SQL conditions"),
        (7, "must be SQL conditions"),
        ([7], "must be SQL conditions"),
        (dpx.ranges("pickup"), "no order"),
        (dpx.ranges("nowhere"), "not a declared column"),
        (dpx.differs("age"), "has ranges of values"),
        (dpx.either("pickup", "rooms"), "no declared value in common"),
    ],
)
def test_what_cannot_be_a_predicate_is_refused_and_costs_nothing(
    owner: Any, predicates: Any, says: str
) -> None:
    question = owner.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0).why("A", "B")
    before = owner.budget.spent
    with pytest.raises(dpx.BadRequest, match=says) as caught:
        question.explain(k=1, rho=0.1, predicates=predicates)
    assert caught.value.remedy
    assert owner.budget.spent == before


def test_predicates_and_attributes_do_not_go_together(owner: Any) -> None:
    question = owner.query("SELECT g, AVG(x) FROM t GROUP BY g", rho=1.0).why("A", "B")
    with pytest.raises(dpx.ExplanationError, match="already name their columns"):
        question.explain(predicates=["rooms < 2"], attributes=["pickup"])


def test_a_family_of_ten_million_predicates_is_explained_with_ranks(tmp_path: Any) -> None:
    values = [f"v{i}" for i in range(3200)]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "g": rng.choice(["A", "B"], 20_000),
            "a": rng.choice(values, 20_000),
            "b": rng.choice(values, 20_000),
        }
    )
    frame.loc[(frame.g == "A") & (rng.random(20_000) < 0.6), "a"] = "v7"
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 100.0},
        "columns": {"g": {"values": ["A", "B"]}, "a": {"values": values}, "b": {"values": values}},
    }
    session = dpx.connect(frame, schema=schema, workspace=tmp_path, curator=True)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    table = question.explain(k=5, rho=5.0, conjuncts=2)
    assert table.family_size == 3200**2 > 10_000_000
    assert all(1 <= low <= high <= table.family_size for row in table for low, high in [row.rank])
    single = question.explain(k=1, rho=5.0)
    assert str(single[0].predicate) == "a = 'v7'"
    session.close()
