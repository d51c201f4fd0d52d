"""One preparation answers every family whose parts it has: fewer attributes cost nothing either."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.explanation.family_choice import FamilyChoice, parse_recipe
from dpxplain.phases import prepare
from dpxplain.phases.prepare import Preparations
from opened import dataset_of

SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
PAIR = ("Married-civ-spouse", "Never-married")


@pytest.fixture
def session() -> dpx.Session:
    return dpx.example("adult", curator=True, insecure_seed=20)


@pytest.fixture
def answer(session: dpx.Session) -> dpx.Answer:
    asked = session.query(SQL, rho=0.1)
    assert isinstance(asked, dpx.Answer)
    asked.prepare(rho=0.8)
    return asked


@pytest.mark.parametrize(
    ("chosen", "size"),
    [
        ({"attributes": ["sex"]}, 2),
        ({"attributes": ["education", "sex"]}, 18),
        ({"exclude": ["occupation", "native_country"]}, None),
    ],
)
def test_fewer_attributes_are_free_and_right(
    session: dpx.Session, answer: dpx.Answer, chosen: dict[str, list[str]], size: int | None
) -> None:
    question = answer.why(*PAIR)
    spent = session.budget.spent
    table = question.explain(k=2, **chosen)
    assert table.free
    assert session.budget.spent == spent
    assert size is None or table.family_size == size
    for row in table.truth().rows:
        assert row["influence_covered"]
        assert row["gap_without_covered"]


def test_the_order_of_the_attributes_does_not_matter(answer: dpx.Answer) -> None:
    question = answer.why(*PAIR)
    one = question.explain(k=3, attributes=["sex", "education"])
    other = question.explain(k=3, attributes=["education", "sex"])
    assert [str(row.predicate) for row in one] == [str(row.predicate) for row in other]
    assert [row.influence for row in one] == [row.influence for row in other]


PAIRS_ANYHOW = [["sex", "education", "race"], ["race", "sex", "education"]]


def test_attributes_in_another_order_are_the_same_request(session: dpx.Session) -> None:
    answer = session.query(SQL, rho=0.1)
    assert isinstance(answer, dpx.Answer)
    question = answer.why(*PAIR)
    one, other = PAIRS_ANYHOW
    asked = [
        lambda names: question.story(rho=0.3, attributes=names),
        lambda names: answer.prepare(rho=0.2, conjuncts=2, attributes=names),
        lambda names: question.explain(rho=0.1, k=2, conjuncts=2, mechanism="one-shot", attributes=names),
    ]
    for ask in asked:
        first, spent = ask(one), session.budget.spent
        again = ask(other)
        assert again.free
        assert again.id == first.id
        assert session.budget.spent == spent


def test_a_preparation_is_read_rightly_after_the_curator_reordered_the_columns(tmp_path: Path) -> None:
    draws, sizes = np.random.default_rng(5), {"a": 2, "b": 3, "c": 4}
    codes = {name: draws.integers(size, size=3000) for name, size in sizes.items()}
    column = {name: [f"{name}{code}" for code in values] for name, values in codes.items()}
    late = (codes["a"] * codes["c"] + codes["b"]) % 3 == 0
    rows = pa.table({"g": np.where(late, "A", "B"), **column, "late": late.astype(int)})
    declared = {
        "g": {"values": ["A", "B"]},
        "late": {"bounds": [0, 1]},
        **{name: {"values": [f"{name}{code}" for code in range(size)]} for name, size in sizes.items()},
    }

    def lines(names: list[str]) -> list[tuple[frozenset[str], float]]:
        schema = {
            "table": {"name": "t"},
            "privacy": {"rho": 10.0},
            "columns": {name: declared[name] for name in names},
        }
        with dpx.connect(rows, schema, workspace=tmp_path, insecure_seed=20) as session:
            answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.1)
            if not any(entry.kind == "prepare" for entry in session.history):
                answer.prepare(rho=0.8, conjuncts=2, attributes=["a", "b", "c"])
            table = answer.why("A", "B").explain(k=12, conjuncts=2, attributes=["a", "b", "c"])
            assert session.budget.spent == 0.9
        return [(frozenset(str(row.predicate).split(" AND ")), row.influence) for row in table]

    assert lines(["g", "late", "a", "b", "c"]) == lines(["c", "late", "b", "a", "g"])


def test_the_cells_are_those_that_were_released(session: dpx.Session, answer: dpx.Answer) -> None:
    dataset, query = dataset_of(session), answer.statement.query
    whole = Preparations(query, dataset).find(dataset.family(query, FamilyChoice()))
    part = Preparations(query, dataset).find(dataset.family(query, FamilyChoice(["sex"])))
    assert whole is not None
    assert part is not None
    names = [columns[0] for columns in dataset.family(query, FamilyChoice()).subsets]
    place = names.index("sex")
    groups = answer.groups.size
    expected = whole.release.per_part(whole.release.noisy_count, groups)[place]
    np.testing.assert_array_equal(part.release.per_part(part.release.noisy_count, groups)[0], expected)
    assert part.worth == pytest.approx(0.8 / len(names))
    assert part.release.count_scale == whole.release.count_scale


def test_other_predicates_and_other_queries_are_not_prepared(
    session: dpx.Session, answer: dpx.Answer
) -> None:
    question = answer.why(*PAIR)
    for unprepared in ({"conjuncts": 2}, {"predicates": dpx.ranges("age")}):
        with pytest.raises(dpx.ExplanationError, match="not prepared"):
            question.explain(k=2, **unprepared)
    elsewhere = session.query("SELECT marital_status, COUNT(*) FROM adult GROUP BY marital_status", rho=0.1)
    assert isinstance(elsewhere, dpx.Answer)
    with pytest.raises(dpx.ExplanationError, match="not prepared"):
        elsewhere.why(*PAIR).explain(k=2, attributes=["sex"])


def test_a_preparation_has_at_most_as_many_cells_as_the_limit(
    session: dpx.Session, answer: dpx.Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = session.budget.spent
    cells = answer.prepare(rho=0.8).plan.cells
    monkeypatch.setattr(prepare, "MOST_CELLS", cells)
    assert answer.preview_prepare(rho=0.1).price.rho == 0.1
    monkeypatch.setattr(prepare, "MOST_CELLS", cells - 1)
    with pytest.raises(dpx.ExplanationError, match=f"would take {cells:,} noisy numbers"):
        answer.prepare(rho=0.1)
    assert session.budget.spent == spent


def test_a_preparation_is_found_although_the_ledger_rounds_its_price(session: dpx.Session) -> None:
    answer = session.query(SQL, rho=0.1)
    assert isinstance(answer, dpx.Answer)
    answer.prepare(rho=1 / 3)
    assert answer.why(*PAIR).explain(k=2).free


def test_a_more_precise_preparation_is_used_as_soon_as_it_is_stored(
    session: dpx.Session, answer: dpx.Answer
) -> None:
    dataset, query = dataset_of(session), answer.statement.query
    preparations, family = Preparations(query, dataset), dataset.family(query, FamilyChoice())
    for rho in (0.8, 0.9):
        answer.prepare(rho=rho)
        stored = preparations.find(family)
        assert stored is not None
        assert stored.entry.rho == stored.release.rho == rho


def test_a_preparation_whose_sums_would_be_nothing_but_noise_is_refused(tmp_path: Path) -> None:
    rows = pa.table({"person": range(100), "g": ["A", "B"] * 50, "zone": ["x"] * 100, "pay": [1] * 100})
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 10.0, "unit": "person", "max_rows": 1000},
        "columns": {
            "g": {"values": ["A", "B"]},
            "zone": {"values": ["x", "y"]},
            "pay": {"bounds": [0, 2**30], "step": 1},
        },
    }
    with dpx.connect(rows, schema, workspace=tmp_path) as session:
        answer = session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=1.0)
        assert isinstance(answer, dpx.Answer)
        with pytest.raises(dpx.ExplanationError, match="too small to prepare an answer"):
            answer.prepare(rho=1e-8)
        assert session.budget.spent == 1.0


def test_a_preview_tells_the_noise_of_what_was_prepared(answer: dpx.Answer) -> None:
    question = answer.why(*PAIR)
    stored = question.preview(k=2, attributes=["sex"])
    anew = question.preview(k=2, attributes=["sex"], rho=0.8, mechanism="marginals")
    assert (stored.price.free, anew.price.free) == (True, False)
    # Seven more parts shared the noise, so it is wider by about their root.
    assert stored.influence_margin > 2 * anew.influence_margin


def test_listed_conditions_are_found_among_those_prepared(session: dpx.Session) -> None:
    answer = session.query(SQL, rho=0.1)
    assert isinstance(answer, dpx.Answer)
    answer.prepare(rho=0.5, predicates=[dpx.ranges("age"), dpx.differs("sex")])
    question = answer.why(*PAIR)
    assert question.explain(k=2, predicates=dpx.differs("sex")).free
    with pytest.raises(dpx.ExplanationError, match="not prepared"):
        question.explain(k=2, predicates="sex <> 'Male'")


@pytest.mark.parametrize("predicate", ["age > 40", "ranges:age", "either:age,size"])
def test_a_preparation_under_an_older_schema_stands_in_nobodys_way(tmp_path: Path, predicate: str) -> None:
    def declared(name: str) -> dict[str, object]:
        columns = {"g": {"values": ["A", "B"]}, name: {"edges": [0, 40, 80]}, "size": {"edges": [0, 40, 80]}}
        return {"table": {"name": "t"}, "privacy": {"rho": 10.0}, "columns": columns}

    sql, ages = "SELECT g, COUNT(*) FROM t GROUP BY g", [30, 50] * 50
    rows = pa.table({"g": ["A", "B"] * 50, "size": [10, 50] * 50, "age": ages, "years": ages})
    with dpx.connect(rows, declared("age"), workspace=tmp_path) as session:
        family = {"predicates": [parse_recipe(predicate, session.schema)]}
        session.query(sql, rho=0.1).prepare(rho=0.1, **family)
    with dpx.connect(rows, declared("years"), workspace=tmp_path) as session:
        question = session.query(sql, rho=0.1).why("A", "B")
        # The second is dearer: `auto` may choose marginals too, and what they cost once is free afterwards.
        for mechanism, rho in (("auto", 0.1), ("marginals", 0.2)):
            assert question.preview(k=1, rho=rho, mechanism=mechanism).price.rho == rho
            assert len(question.explain(k=1, rho=rho, mechanism=mechanism)) == 1
