"""Conditions that say nearly the same are folded under one row, by what is released alone."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dpxplain as dpx
from chance import plausible_frequencies
from dpxplain.explanation import distinct
from dpxplain.explanation.distinct import ReleasedCells, fold_implied, nested_with
from dpxplain.explanation.family import Conjunctions, Listed, PredicateFamily
from dpxplain.model.confidential import Confidential
from dpxplain.model.query import And, Comparison, FilterPredicate, Or, Predicate
from dpxplain.model.release import ReleasedLine
from dpxplain.model.schema import Schema
from dpxplain.privacy.mechanisms.noise import private_noise
from dpxplain.privacy.mechanisms.ranking import select_distinct
from dpxplain.privacy.mechanisms.samplers import FamilyScores

SQL = "SELECT sex, AVG(pay) FROM t GROUP BY sex"
VALUES: dict[str, list[str]] = {
    "sex": ["M", "F"],
    "status": ["In", "Out"],
    "occupation": ["None", "Desk", "Field"],
    "weeks": ["0", "1-26", "27-52"],
    "education": ["low", "mid", "high"],
}


def _people(seed: int = 3, rows: int = 20_000, missing: float = 0.0) -> pa.Table:
    """Those without work have no occupation and nearly all 0 weeks: three columns that say the same."""
    random = np.random.default_rng(seed)
    female = random.random(rows) < 0.5
    idle = random.random(rows) < np.where(female, 0.35, 0.1)
    table = {
        "sex": np.where(female, "F", "M"),
        "status": np.where(idle, "Out", "In"),
        "occupation": np.where(idle, "None", random.choice(["Desk", "Field"], rows)),
        "weeks": np.where(idle & (random.random(rows) < 0.99), "0", random.choice(["1-26", "27-52"], rows)),
        "education": random.choice(VALUES["education"], rows),
        "pay": np.where(idle, 0.0, random.normal(50.0, 20.0, rows)).clip(0.0, 100.0),
    }
    table["occupation"] = np.where(random.random(rows) < missing, "?", table["occupation"])
    return pa.table(table)


def _schema() -> dict[str, Any]:
    columns: dict[str, Any] = {name: {"values": values} for name, values in VALUES.items()}
    return {
        "table": {"name": "t"},
        "privacy": {"rho": 1e4},
        "columns": columns | {"pay": {"bounds": [0, 100]}},
    }


def _question(folder: Path, table: pa.Table, rho: float = 0.2, seed: int = 1) -> dpx.Question:
    session = dpx.connect(table, _schema(), workspace=folder, insecure_seed=seed)
    answer = session.query(SQL, rho=0.1)
    assert isinstance(answer, dpx.Answer)
    answer.prepare(rho=rho, conjuncts=2)
    return answer.why("M", "F")


def _holds(predicate: Predicate | FilterPredicate, table: pa.Table) -> np.ndarray:
    assert isinstance(predicate, Predicate)
    return np.logical_and.reduce(
        [table[condition.column].to_numpy() == condition.value for condition in predicate.conditions]
    )


def _common(first: np.ndarray, second: np.ndarray) -> float:
    return float((first & second).sum() / (first | second).sum())


def test_pairs_that_mean_the_same_rows_become_one_row(tmp_path: Path) -> None:
    table, k = _people(), 5
    question = _question(tmp_path, table)
    every, folded = (question.explain(k=k, conjuncts=2, distinct=flag) for flag in (False, True))

    def repeated(rows: dpx.Explanation) -> int:
        """How many rows of the table are nearly the same as an earlier one, in truth."""
        held = [_holds(row.predicate, table) for row in rows]
        return sum(any(_common(held[i], held[j]) > 0.9 for i in range(j)) for j in range(1, len(held)))

    assert repeated(every) >= 2
    assert repeated(folded) == 0
    assert len(folded) == k
    assert not any(row.folded for row in every)
    first = folded[0]
    assert {"status = 'Out'", "occupation = 'None'"} <= {str(line.predicate) for line in first.folded}
    assert any(folded.folded_text(first) in note for note in folded.finding.notes)
    assert folded.folded_text(first) not in str(folded)
    assert folded.free, "what is folded follows from what was released"


def test_what_stays_in_the_table_has_the_same_numbers(tmp_path: Path) -> None:
    question = _question(tmp_path, _people())
    everything = {str(row.predicate): row for row in question.explain(k=45, conjuncts=2, distinct=False)}
    for row in question.explain(k=5, conjuncts=2):
        same = everything[str(row.predicate)]
        assert (row.influence, row.rank, row.gap_without) == (same.influence, same.rank, same.gap_without)


def test_a_long_table_ends_with_lines_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = _question(tmp_path, _people())
    whole = [row.predicate for row in question.explain(k=6, conjuncts=2)]
    monkeypatch.setattr(distinct, "_MOST_COMPARED", 12)
    cut = question.explain(k=30, conjuncts=2)
    assert [row.predicate for row in cut][:2] == whole[:2]
    assert len(cut) == 30 == len({row.predicate for row in cut})
    assert any(row.folded for row in cut[:2])
    assert not any(row.folded for row in cut[12:])


def test_the_simplest_of_what_says_the_same_is_shown(tmp_path: Path) -> None:
    """Rows above 30 are few and lower the gap, so that the longer condition has the larger influence."""
    ages = np.repeat([5, 15, 25, 35], [2_000, 1_000, 1_000, 60])
    female = np.concatenate([np.arange(4_000) % 4 == 0, np.ones(60, dtype=bool)])
    schema = _schema() | {
        "columns": {"sex": {"values": VALUES["sex"]}, "age": {"edges": [0, 10, 20, 30, 40]}}
    }
    table = pa.table({"sex": np.where(female, "F", "M"), "age": ages})
    session = dpx.connect(table, schema, workspace=tmp_path, insecure_seed=1)
    question = session.query("SELECT sex, COUNT(*) FROM t GROUP BY sex", rho=1.0).why("M", "F")
    asked: dict[str, Any] = {"k": 4, "rho": 100.0, "predicates": dpx.ranges("age")}
    every = [row.predicate.label for row in question.explain(**asked, mechanism="marginals")]
    assert every.index("age > 10 and age <= 30") < every.index("age > 10")
    rows = {
        row.predicate.label: row for row in question.explain(**asked, mechanism="marginals", distinct=True)
    }
    folded = [condition.predicate.label for condition in rows["age > 10"].folded]
    assert folded == ["age > 10 and age <= 30"]


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_the_share_of_common_rows_is_within_its_interval(missing: float, tmp_path: Path) -> None:
    """Also where the value of one column is undeclared, so that cells of pairs do not hold all rows."""
    runs, outside = 20, 0
    table = _people(missing=missing)
    for seed in range(runs):
        question = _question(tmp_path / str(seed), table, rho=0.05, seed=seed)
        misses = 0
        for row in question.explain(k=5, conjuncts=2):
            shown = _holds(row.predicate, table)
            for folded in row.folded:
                assert folded.same_rows is not None
                true = _common(shown, _holds(folded.predicate, table))
                misses += not folded.same_rows[0] <= true <= folded.same_rows[1]
        outside += misses > 0
    assert outside <= stats.binom.isf(1e-6, runs, 0.05)


def test_too_little_budget_folds_nothing_that_it_cannot_tell(tmp_path: Path) -> None:
    rows = _question(tmp_path, _people(rows=2_000), rho=0.0005).explain(k=5, conjuncts=2)
    assert not any(row.folded for row in rows)


def test_single_conditions_are_not_folded_unless_asked(tmp_path: Path) -> None:
    question = _question(tmp_path, _people(rows=3_000))
    assert not question.explain(k=3, rho=0.1).distinct
    assert question.explain(k=3, conjuncts=2).distinct


def test_a_nested_range_is_folded_where_only_structure_is_known() -> None:
    schema = Schema.load(
        {
            "table": {"name": "t"},
            "privacy": {"rho": 1},
            "columns": {"age": {"edges": [0, 30, 60, 90]}},
        }
    )
    between = And((Comparison("age", ">", 30), Comparison("age", "<=", 60)))
    conditions = (
        Comparison("age", ">", 30),
        Comparison("age", ">", 60),
        Comparison("age", "<=", 30),
        between,
    )
    family = PredicateFamily(schema, (Listed(schema, ("age",), conditions),))
    assert nested_with(family, 0) == [1, 3]
    assert nested_with(family, 2) == []
    lines = [
        ReleasedLine(0, 10.0, (8.0, 12.0), (1, 2)),
        ReleasedLine(1, 9.0, (7.0, 11.0), (1, 2)),
        ReleasedLine(2, 1.0, (-1.0, 3.0), (3, 3)),
    ]
    kept = fold_implied(family, lines)
    assert [line.predicate for line in kept] == [0, 2]
    assert [(folded.predicate, folded.same_rows) for folded in kept[0].folded] == [(1, None)]
    longer = ReleasedLine(3, 11.0, (9.0, 13.0), (1, 2))
    (simplest,) = fold_implied(family, [longer, lines[0]])
    assert (simplest.predicate, simplest.influence, simplest.folded[0].predicate) == (0, 10.0, 3)
    apart = [lines[0], ReleasedLine(1, 2.0, (1.0, 3.0), (2, 2))]
    assert fold_implied(family, apart) == tuple(apart), "it is known to matter less"


def test_conditions_that_exclude_each_other_are_not_folded_together() -> None:
    """Both are among the first one's rows, which is why neither may take the other with it."""
    schema = Schema.load(
        {"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": {"a": {"values": ["1", "2", "3"]}}}
    )
    one, two = Comparison("a", "=", "1"), Comparison("a", "=", "2")
    family = PredicateFamily(schema, (Listed(schema, ("a",), (Or((one, two)), one, two)),))
    lines = [ReleasedLine(place, 10.0 - place, (5.0, 12.0), (1, 3)) for place in range(3)]
    kept = fold_implied(family, lines)
    assert [(line.predicate, [folded.predicate for folded in line.folded]) for line in kept] == [
        (1, [0]),
        (2, []),
    ]


def test_what_is_folded_covers_nearly_the_rows_of_its_own_head() -> None:
    """`a = x` and `b = x` each have 92% of their rows in both, which is 85% of the rows of the two."""
    columns = {name: {"values": ["x", "y"]} for name in ("a", "b")}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": columns})
    parts = tuple(Conjunctions(schema, names) for names in (("a", "b"), ("a",), ("b",)))
    counts = ([920, 80, 80, 5_000, 0], [1_000, 5_080, 0], [1_000, 5_080, 0])
    cells = tuple(np.array(part) * 1e4 for part in counts)
    both, a, b = 0, 4, 6  # = 'x'
    released = ReleasedCells(PredicateFamily(schema, parts), cells, scale=1.0, confidence=0.95)
    folds = released.fold(np.array([both, a, b]), k=3)
    assert list(folds) == [a, b]
    ((predicate, (low, high)),) = [(folded.predicate, folded.same_rows) for folded in folds[a]]
    assert (predicate, round(low, 3), round(high, 3)) == (both, 0.92, 0.92)


def test_one_shot_chooses_no_range_within_another(tmp_path: Path) -> None:
    session = dpx.example("adult", insecure_seed=4)
    answer = session.query("SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status", 0.1)
    question = answer.why("Married-civ-spouse", "Never-married")
    before = session.budget.spent
    options: dict[str, Any] = {"rho": 1.0, "predicates": dpx.ranges("age"), "mechanism": "one-shot"}
    table = question.explain(k=4, distinct=True, **options)
    assert session.budget.spent - before == pytest.approx(1.0), "at the same price"
    family = table.plan.family
    for first, second in itertools.combinations(table, 2):
        assert second.index not in nested_with(family, first.index)
    assert not question.explain(k=4, **options).distinct, "another request, with a release of its own"
    assert session.budget.spent - before == pytest.approx(2.0)


@pytest.mark.draws
def test_distinct_selection_is_a_sequence_of_exponential_mechanisms() -> None:
    scores, sensitivity, k, rho = np.array([40, 30, 20, 0]) << 20, 10 << 20, 2, 0.5
    repeated = {0: [1], 1: [0], 2: [], 3: []}
    secret = Confidential(FamilyScores(np.arange(4), scores, 4))
    runs, noise = 600, private_noise("vectorised")
    drawn = Counter(
        tuple(
            select_distinct(
                secret, size=4, k=k, sensitivity=sensitivity, rho=rho, noise=noise, repeated_by=repeated.get
            )
        )
        for _ in range(runs)
    )
    scale = 2 * sensitivity * np.sqrt(1 / (8 * rho / k))  # ρ/k for each choice (docs/proofs/top-k.md)

    def probability(pair: tuple[int, int]) -> float:
        weights = np.exp(scores / scale)
        first, second = pair
        left = [i for i in range(4) if i != first and i not in repeated[first]]
        return float(weights[first] / weights.sum() * weights[second] / weights[left].sum())

    pairs = [(a, b) for a in range(4) for b in range(4) if a != b and b not in repeated[a]]
    assert sum(map(probability, pairs)) == pytest.approx(1.0)
    assert plausible_frequencies([drawn[pair] for pair in pairs], [probability(pair) for pair in pairs])


def test_fewer_are_chosen_if_the_others_would_repeat_them() -> None:
    secret = Confidential(FamilyScores(np.arange(3), np.array([5, 4, 3]), 3))
    chosen = select_distinct(
        secret,
        size=3,
        k=2,
        sensitivity=1,
        rho=1.0,
        noise=private_noise("vectorised"),
        repeated_by=lambda index: [i for i in range(3) if i != index],
    )
    assert len(chosen) == 1
