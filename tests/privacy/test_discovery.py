"""Discovery of unknown values: what one privacy unit can change, what is found, what it costs."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpxplain as dpx
from chance import plausible_count
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import BadRequest, DPXPlainError, LedgerUnavailable, QueryRefused, SchemaError
from dpxplain.ledger.protocol import exhausted_delta
from dpxplain.model.column import ValueCounts
from dpxplain.model.confidential import Confidential
from dpxplain.model.schema import Schema
from dpxplain.privacy.mechanisms.noise import (
    SeededNoise,
    VectorisedNoise,
    threshold_for,
    threshold_measurement,
    values_above,
)
from dpxplain.words.prices import discovered_delta
from opened import dataset_of

TOO_SMALL = re.escape(exhausted_delta(1e-6).problem)
CITIES = pd.DataFrame(
    {
        "city": ["Rome"] * 900 + ["Oslo"] * 400 + ["Only once", None, "x" * 101],
        "sex": ["F", "M", "F"] * 434 + ["F"],
        "size": [1, 1, 2] * 434 + [2],
    }
)
GROUPED = "SELECT city, COUNT(*) FROM people GROUP BY city"


def true_counts(engine: DuckDBEngine) -> Counter[str]:
    """What only a mechanism may see."""
    counts = engine.value_counts("city", 100).reveal()
    return Counter(dict(zip(counts.values, counts.units.tolist(), strict=True)))


def declared(privacy: dict[str, Any] | None = None, **columns: Any) -> dict[str, Any]:
    return {
        "table": {"name": "people"},
        "privacy": {"rho": 10, "delta": 1e-6, **(privacy or {})},
        "columns": {
            "city": {"values": "discover"},
            "sex": {"values": ["F", "M"]},
            "size": {"values": [1, 2]},
            **columns,
        },
    }


def connect(folder: Path, schema: dict[str, Any] | None = None, **more: Any) -> dpx.Session:
    return dpx.connect(CITIES, schema or declared(), workspace=folder, **more)


# -- The mechanism ------------------------------------------------------------------------------------------


def tail(scale: float, least: int) -> float:
    """P(N >= least) of the discrete Gaussian, by summing it."""
    reach = int(60 * scale) + least + 2
    weights = np.exp(-(np.arange(-reach, reach + 1, dtype=float) ** 2) / (2 * scale**2))
    return float(weights[reach + least :].sum() / weights.sum())


@pytest.mark.parametrize("changes", [1, 2, 3, 50])
@pytest.mark.parametrize("rho", [0.001, 0.1, 2.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 0.05])
def test_a_value_of_one_unit_is_found_with_a_chance_below_delta(
    changes: int, rho: float, delta: float
) -> None:
    threshold = threshold_for(changes, rho, delta)

    def chance(least: int) -> float:
        """That one of the unit's own values is found: 1 + N > T, for each of them independently."""
        return float(-np.expm1(changes * np.log1p(-tail(threshold.scale, least))))

    assert chance(threshold.least) <= delta
    assert chance(threshold.least - 3) > delta or threshold.least <= 3  # and no higher than it must be
    cost = threshold_measurement(threshold.scale, threshold.least).map((changes, math.sqrt(changes), 1.0))
    assert rho * (1 - 1e-8) <= cost[0] <= rho
    assert cost[1] <= delta


@pytest.mark.draws
def test_a_unique_value_is_found_as_often_as_the_tail_says() -> None:
    threshold, runs = threshold_for(1, 0.5, 0.05), 20_000
    counts = Confidential(ValueCounts(("unique",) * runs, np.ones(runs, dtype=np.int64)))
    found = values_above(counts, changes=1, rho=0.5, delta=0.05, noise=VectorisedNoise())
    chance = tail(threshold.scale, threshold.least)
    assert plausible_count(len(found.values), runs, chance)
    assert not plausible_count(len(found.values), runs, tail(threshold.scale, threshold.least - 1))
    # A threshold lower by one would be noticed: the chance is then several times as large.


@pytest.mark.draws
def test_a_value_at_the_threshold_has_noise_of_the_planned_scale() -> None:
    threshold, runs = threshold_for(1, 0.5, 0.05), 20_000
    counts = Confidential(ValueCounts(("v",) * runs, np.full(runs, threshold.least, dtype=np.int64)))
    found = values_above(counts, changes=1, rho=0.5, delta=0.05, noise=VectorisedNoise())
    assert plausible_count(len(found.values), runs, tail(threshold.scale, 1))


def test_values_come_in_order_and_not_as_they_were_counted() -> None:
    counts = Confidential(ValueCounts(("b", "c", "a"), np.array([900, 800, 700])))
    found = values_above(counts, changes=1, rho=1, delta=1e-6, noise=VectorisedNoise())
    assert found.values == ("a", "b", "c")


def test_a_seed_repeats_the_noise_of_each_value_in_whatever_order_they_were_counted() -> None:
    counts = {"b": 900, "é": 850, "B": 800, "c": 750, "a": 700}

    def noisy_counts(order: Iterable[str]) -> dict[str, float]:
        values = tuple(order)
        counted = Confidential(ValueCounts(values, np.array([counts[value] for value in values])))
        found = values_above(counted, changes=1, rho=0.01, delta=1e-6, noise=SeededNoise(1))
        return dict(zip(found.values, found.counts, strict=True))

    expected = noisy_counts(counts)
    assert len(set(expected.values())) == len(counts)
    assert all(noisy_counts(order) == expected for order in itertools.permutations(counts))


def test_a_seeded_discovery_repeats_on_duckdb_whatever_the_order_of_rows(tmp_path: Path) -> None:
    rows = pd.DataFrame({"city": [f"city {n % 40}" for n in range(8_000)], "sex": "F", "size": 1})

    def discovery(number: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
        shuffled = rows.sample(frac=1.0, random_state=number)
        with dpx.connect(shuffled, declared(), workspace=tmp_path / str(number), insecure_seed=1) as session:
            found = session.discover("city", rho=0.1).release
            return found.values, found.noisy_units

    first, *others = (discovery(number) for number in range(5))
    assert len(first[0]) == 40
    assert others == [first] * 4


# -- What one unit can change --------------------------------------------------------------------------------


def counted(rows: list[tuple[str | None, str | None]], max_rows: int) -> Counter[str]:
    schema = declared({"unit": "who", "max_rows": max_rows})
    frame = pd.DataFrame(rows, columns=["who", "city"], dtype="str").assign(sex="F", size=1)
    engine = DuckDBEngine(frame, Schema.load(schema))
    try:
        return true_counts(engine)
    finally:
        engine.close()


@pytest.mark.parametrize("max_rows", [1, 2])
def test_one_person_more_changes_at_most_max_rows_counts_by_one_each(max_rows: int) -> None:
    others = [("p", "a"), ("p", "a"), ("p", "b"), ("q", "b"), ("q", "c"), ("q", "d"), (None, "a"), ("", "e")]
    before = counted(others, max_rows)
    assert max(before.values()) <= 2  # rows without a unit count for nobody
    for values in itertools.product(["a", "new", None], ["b", "new", "other"], ["c", "new"]):
        after = counted([*others, *(("r", value) for value in values)], max_rows)
        changes = [after[value] - before[value] for value in after | before]
        assert set(changes) <= {0, 1}
        assert sum(changes) <= max_rows


def test_a_row_more_changes_one_count_by_one(tmp_path: Path) -> None:
    schema = Schema.load(declared())
    for value in ("Rome", "new", "ROME", "", " "):
        figures = []
        for frame in (
            CITIES,
            pd.concat([CITIES, pd.DataFrame({"city": [value], "sex": ["F"], "size": [1]})]),
        ):
            engine = DuckDBEngine(frame, schema)
            figures.append(true_counts(engine))
            engine.close()
        assert figures[1] - figures[0] == Counter({value: 1})
        assert not figures[0] - figures[1]


def test_values_that_a_collation_takes_for_equal_are_told_apart(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
        database.execute("CREATE TABLE people (city VARCHAR COLLATE NOCASE, sex VARCHAR, size INT)")
        database.execute("INSERT INTO people SELECT 'ROME', 'F', 1 FROM range(500)")
        database.execute("INSERT INTO people SELECT 'Rome', 'F', 1 FROM range(500)")
    with dpx.connect(tmp_path / "d.duckdb", declared(), workspace=tmp_path / "w") as session:
        assert session.discover("city", rho=1).values == ("ROME", "Rome")


def test_persons_that_a_collation_takes_for_equal_are_told_apart(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
        database.execute("CREATE TABLE people (who VARCHAR COLLATE NOCASE, sex VARCHAR)")
        database.execute("INSERT INTO people VALUES ('A', 'F'), ('a', 'F'), ('b', 'F')")
    schema = {
        "table": {"name": "people"},
        "privacy": {"rho": 10, "unit": "who", "max_rows": 1},
        "columns": {"sex": {"values": ["F", "M"]}},
    }
    with dpx.connect(tmp_path / "d.duckdb", schema, workspace=tmp_path / "w", curator=True) as session:
        answer = session.query("SELECT sex, COUNT(*), COUNT(DISTINCT who) FROM people GROUP BY sex", rho=1)
        assert [record["true"] for record in answer.truth().records()] == [3, 3, 0, 0]


# -- As people meet it ---------------------------------------------------------------------------------------


def test_a_column_is_asked_about_once_its_values_are_discovered(tmp_path: Path) -> None:
    with connect(tmp_path, curator=True) as session:
        before = session.query("SELECT sex, COUNT(*) FROM people GROUP BY sex", rho=1)
        for sql in (GROUPED, "SELECT COUNT(*) FROM people WHERE city = 'Rome'"):
            with pytest.raises(QueryRefused, match="not known yet") as refused:
                session.query(sql, rho=1)
            assert "session.discover" in refused.value.remedy
        with pytest.raises(BadRequest, match="not known yet"):
            before.why("F", "M").explain(k=1, rho=1, attributes=["city"])
        preview = session.preview_discover("city", rho=0.1)
        assert (preview.price.rho, preview.threshold) == (0.1, 12)
        found = session.discover("city", rho=0.1)
        assert found.values == ("Oslo", "Rome")
        assert session.budget.spent == pytest.approx(1.1)
        answer = session.query(GROUPED, rho=1)
        assert [record["true"] for record in answer.truth().records()] == [400, 900]
        assert before.why("F", "M").explain(
            k=1, rho=1, attributes=["size"]
        )  # on the data as they were opened
        now = session.query("SELECT sex, COUNT(*) FROM people GROUP BY sex", rho=1)
        table = now.why("F", "M").explain(k=2, rho=1, attributes=["city"])
        assert {str(row.predicate) for row in table} == {"city = 'Rome'", "city = 'Oslo'"}
        assert session.budget.spent == pytest.approx(4.1)  # what was asked before the discovery stays free
    with connect(tmp_path) as again:
        assert again.schema.domain("city") == ("Oslo", "Rome")
        stored = again.discover("city", rho=0.7)
        assert (stored.free, stored.rho) == (True, 0.1)
        assert again.query(GROUPED, rho=1).free
        assert again.answer(1).free


def test_a_rare_value_reaches_neither_log_nor_ledger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), connect(tmp_path) as session:
        found = session.discover("city", rho=0.1)
        assert "Only once" not in f"{found!r}{found}{found.to_json()}"
    assert "Only once" not in caplog.text
    assert not any(b"Only once" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_other_columns_can_be_declared_anew_without_losing_a_discovery(tmp_path: Path) -> None:
    with connect(tmp_path) as session:
        session.discover("city", rho=0.1)
    with connect(tmp_path, declared(sex={"values": ["F", "M", "X"]})) as session:
        assert "city" in session.schema.columns
    other = declared()
    other["table"]["version"] = "2"
    frame = CITIES.assign(sex="M")
    with dpx.connect(frame, other, workspace=tmp_path) as session:
        assert "city" not in session.schema.columns  # other data


def test_the_declared_delta_bounds_all_discoveries_together(tmp_path: Path) -> None:
    both = declared(town={"values": "discover"})
    frame = CITIES.assign(town=CITIES.city)
    with dpx.connect(frame, both, workspace=tmp_path) as session:
        first = session.discover("city", rho=0.1)
        assert first.delta == pytest.approx(5e-7)
        with pytest.raises(BadRequest, match=TOO_SMALL):
            session.discover("town", rho=0.1, delta=6e-7)
        with pytest.raises(BadRequest, match=TOO_SMALL):
            session.preview_discover("town", rho=0.1, delta=6e-7)
        with pytest.raises(BadRequest, match="at most the declared 1e-06"):
            session.discover("town", rho=0.1, delta=1e-5)
        assert session.budget.spent == 0.1
        session.discover("town", rho=0.1)
        assert dataset_of(session).ledger.spent_delta("people") <= 1e-6


def test_discoveries_at_the_same_time_keep_to_delta_together(tmp_path: Path) -> None:
    both = declared(town={"values": "discover"})
    frame = CITIES.assign(town=CITIES.city)
    with dpx.connect(frame, both, workspace=tmp_path) as session:
        # Both are planned and found to fit before either is charged.
        plans = [session.plan_discovery(column, 0.1, delta=6e-7) for column in ("city", "town")]
        dataset = dataset_of(session)
        assert dataset.find_or_measure(
            plans[0].plan, plans[0].request, lambda released: released
        ).value.values
        with pytest.raises(BadRequest, match=r"too small for this discovery\. Nothing was charged"):
            dataset.find_or_measure(plans[1].plan, plans[1].request, lambda released: released)
        assert dataset.find(plans[1].plan) is None
        assert session.budget.spent == 0.1


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (declared(age={"values": "discover"}), "age has values = .* contains numbers"),
        (
            declared(town={"values": "discover"}),
            "columns.town is declared, but the source has no such column",
        ),
        (declared(sex={"values": "discover", "edges": [0, 1]}), "unknown.sex.edges"),
        (declared(sex={"values": "find"}), "columns.sex.values"),
    ],
)
def test_what_cannot_be_discovered_is_refused_when_it_is_opened(
    tmp_path: Path, schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SchemaError, match=problem):
        dpx.connect(CITIES.assign(age=3), schema, workspace=tmp_path)


def test_only_declared_columns_are_discovered(tmp_path: Path) -> None:
    with connect(tmp_path) as session:
        for column, problem in (("sex", "has declared values"), ("town", "not a declared column")):
            with pytest.raises(BadRequest, match=problem):
                session.discover(column, rho=0.1)
        with pytest.raises(DPXPlainError):
            session.discover("city", rho=11)
        assert session.budget.spent == 0


def test_nothing_is_found_where_no_value_has_enough_units(tmp_path: Path) -> None:
    frame = pd.DataFrame({"city": [f"c{i}" for i in range(50)], "sex": "F", "size": 1})
    with dpx.connect(frame, declared(), workspace=tmp_path) as session:
        found = session.discover("city", rho=0.1)
        assert found.values == ()
        assert "No value has enough privacy units" in str(found)
        with pytest.raises(QueryRefused, match="not known yet"):
            session.query(GROUPED, rho=1)


def test_a_discovery_that_found_nothing_may_be_asked_again_at_its_own_price(tmp_path: Path) -> None:
    with connect(tmp_path) as session:
        assert session.discover("city", rho=1e-6, delta=1e-7).values == ()
        found = session.discover("city", rho=0.1, delta=5e-7)
        assert (found.values, found.free) == (("Oslo", "Rome"), False)
        assert session.budget.spent == pytest.approx(0.1 + 1e-6)
    with connect(tmp_path) as again:
        assert again.schema.domain("city") == ("Oslo", "Rome")
        assert again.discover("city", rho=0.7).free


def test_a_delta_that_no_threshold_keeps_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    with connect(tmp_path) as session:
        for delta in (1e-18, 1e-300):
            with pytest.raises(BadRequest, match="too small for a discovery"):
                session.discover("city", rho=1, delta=delta)
        assert session.budget.spent == 0


# -- What a reviewer broke ----------------------------------------------------------------------------------


def _arrow(texts: list[bytes]) -> pa.Table:
    """Texts whose bytes nobody checks."""
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    city = pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts)))
    return pa.table({"city": city, "sex": ["F"] * len(texts), "size": [1] * len(texts)})


@pytest.mark.parametrize("odd", [b"x", b"\xff\xfe", b"\xed\xa0\x80"])
def test_bytes_that_are_no_text_fail_no_discovery_after_its_charge(odd: bytes, tmp_path: Path) -> None:
    table = _arrow([b"a"] * 500 + [odd])
    try:
        session = dpx.connect(table, declared(), workspace=tmp_path)
    except DPXPlainError:  # refused as unreadable, before anything can be charged
        return
    assert session.discover("city", rho=1.0).values == ("a",)


def test_the_budget_tells_the_delta_that_was_spent_whatever_is_declared_later(tmp_path: Path) -> None:
    with connect(tmp_path, declared({"delta": 1e-2})) as session:
        session.discover("city", rho=0.1, delta=4e-3)
        assert (session.budget.delta, session.budget.discovered_delta) == (1e-2, 4e-3)
    with pytest.raises(SchemaError, match=r"lowered to 1e-09: .* spent up to δ = 0\.004") as refused:
        connect(tmp_path, declared({"delta": 1e-9}))
    assert "Keep delta = 0.01" in str(refused.value)
    with connect(tmp_path, declared({"delta": 5e-3})) as session:
        assert session.budget.total_delta == pytest.approx(9e-3)
        assert discovered_delta(0.004, 0.009) in " ".join(str(session.budget).split())


def test_another_longest_text_is_another_data_set_of_answers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"city": ["a"] * 500 + ["b" * 12] * 500, "sex": ["F"] * 1000, "size": [1] * 1000})
    counts = []
    for longest in (5, 50):
        schema = declared()
        schema["columns"]["city"] = {"values": "discover", "longest": longest}
        with dpx.connect(frame, schema, workspace=tmp_path) as session:
            session.discover("city", rho=1.0, delta=1e-7)
            counts.append(len(session.query(GROUPED, rho=0.5)))
    assert counts == [1, 2]


@pytest.mark.parametrize(("neighbours", "changes"), [("unbounded", 3), ("bounded", 6)])
def test_a_replaced_person_changes_the_counts_of_both_in_a_discovery(
    neighbours: str, changes: int, tmp_path: Path
) -> None:
    schema = declared({"unit": "size", "max_rows": 3, "neighbours": neighbours})
    del schema["columns"]["size"]
    with connect(tmp_path, schema) as session:
        plan: Any = session.plan_discovery("city", 0.1).plan
        assert plan.changes == changes


def test_a_discovery_keeps_the_rows_of_each_person(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"person": [n // 2 for n in range(600)], "city": ["Rome", "Oslo"] * 300, "sex": ["F", "M", "M"] * 200}
    )
    frame["size"] = 1
    schema = declared({"unit": "person", "max_rows": 1, "rho": 1e6})
    with dpx.connect(frame, schema, workspace=tmp_path) as session:
        sql = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
        before = [row.estimate for row in session.query(sql, rho=1e5)]
        session.discover("city", rho=10.0)
        after = [row.estimate for row in session.query(sql, rho=1e5 + 1)]
    assert np.round(before).tolist() == np.round(after).tolist()


def test_a_public_column_does_not_take_the_name_of_an_unknown_one(tmp_path: Path) -> None:
    schema = declared() | {"tables": {"sizes": {"key": "size", "public": True}}}
    rows = pd.DataFrame({"size": [1, 2], "city": ["small", "large"]})
    with connect(tmp_path, schema, tables={"sizes": rows}) as session:
        assert "city" not in session.schema.columns


PER_SEX = "SELECT sex, COUNT(*) FROM people GROUP BY sex"


def test_quality_bought_before_a_discovery_stays_true_of_the_columns_it_counted(tmp_path: Path) -> None:
    with connect(tmp_path) as first, connect(tmp_path) as second:
        bought = first.quality(rho=1)
        second.discover("city", rho=0.1)
        with connect(tmp_path) as third:
            shares = [record["share"] for record in bought.records()]
            answer = third.query(PER_SEX, rho=1)
            assert "% of " in " ".join(answer.shaped_by)
            assert "% of " not in " ".join(third.query(GROUPED, rho=1).shaped_by)
            spent = third.budget.spent
            wider = third.quality(rho=1)  # another request: it counts the rows of city too
            assert third.budget.spent == pytest.approx(spent + 1)
            assert {row.column for row in wider} == {"city", "sex", "size"}
            assert third.quality(rho=1).free
            assert "% of " in " ".join(third.query(GROUPED, rho=1).shaped_by)
        assert [record["share"] for record in first.quality(rho=1).records()] == shares
        assert first.quality(rho=1).free
        assert first.query(PER_SEX, rho=1).free
        assert first.query(PER_SEX, rho=0.5).shaped_by


def test_quality_that_an_earlier_program_bought_after_a_discovery_is_read_of_declared_columns(
    tmp_path: Path,
) -> None:
    with connect(tmp_path) as session:
        session.discover("city", rho=0.1)
        planned = session.plan_quality(0.5)
        # What that program stored: counts of city behind the others, and neither key nor release names it.
        unnamed = dataclasses.replace(planned.plan, discovered=())
        counted = dataclasses.replace(planned.plan.measure(dataset_of(session)), discovered=())
        entry = dataset_of(session).releaser.ledger.reserve(
            "people", unnamed.charge(dataset_of(session), planned.request)
        )
        dataset_of(session).releaser.ledger.release(entry.row, counted.to_json())
        assert "% of " in " ".join(session.query(PER_SEX, rho=1).shaped_by)
        assert "% of " not in " ".join(session.query(GROUPED, rho=1).shaped_by)


def test_what_was_prepared_before_a_discovery_stays_free(tmp_path: Path) -> None:
    schema = declared(town={"values": "discover"}, part={"expression": "size + 1"})
    frame = CITIES.assign(town=CITIES.city)
    with dpx.connect(frame, schema, workspace=tmp_path) as session:
        session.query(PER_SEX, rho=1).prepare(rho=1)  # by all attributes there are
    with dpx.connect(frame, schema, workspace=tmp_path) as session:
        session.discover("town", rho=0.1)
        session.query(PER_SEX, rho=1).prepare(rho=0.5)
        session.discover("city", rho=0.1)
        spent = session.budget.spent
        question = session.query(PER_SEX, rho=1).why("F", "M")
        for attributes in (["size"], ["town"], ["size", "town"]):
            assert question.explain(k=1, rho=0.05, attributes=attributes).free
        assert session.budget.spent == spent
        assert not question.preview(k=1, rho=0.05, attributes=["city"]).price.free


HOSTILE = [
    *(
        "2024-01-01",
        "2024-01-01 00:00",
        "true",
        "1e400",
        "NaN",
        "",
        " ",
        "NULL",
        "discover",
        "it's",
        '"q"',
        "a;--",
    ),
    *("new\nline", "x" * 100, "é", "e\u0301", "caf ", "caf", "$1", "%", "\u202e", "\U0001f600"),
]


@pytest.mark.parametrize("texts", [HOSTILE, ["2024-01-01", "2024-01-01 00:00"], ["2024-01-01", "2024-02-01"]])
def test_discovered_values_are_texts_whatever_they_look_like(texts: list[str], tmp_path: Path) -> None:
    frame = pd.DataFrame({"city": texts * 300, "sex": "F", "size": 1})
    frame.to_parquet(tmp_path / "people.parquet")
    for number in range(2):  # discovered in one session, known in the next
        with dpx.connect(
            tmp_path / "people.parquet", declared(), workspace=tmp_path / "w", curator=True
        ) as session:
            if number == 0:
                assert session.discover("city", rho=1).values == tuple(sorted(texts))
            assert session.schema.domain("city") == tuple(sorted(texts))
            assert Schema.load(session.schema).domain("city") == tuple(sorted(texts))
            answer = session.query(GROUPED, rho=1)
            assert [record["true"] for record in answer.truth().records()] == [300] * len(texts)
            for sql in ("city = '2024-01-01'", "LOWER(city) = '2024-01-01'"):
                counted = session.query(f"SELECT COUNT(*) FROM people WHERE {sql}", rho=1)
                assert [record["true"] for record in counted.truth().records()] == [300]


def test_a_value_that_no_engine_can_compare_with_is_never_discovered(tmp_path: Path) -> None:
    frame = pd.DataFrame({"city": ["a\0b"] * 500 + ["a"] * 500, "sex": "F", "size": 1})
    with dpx.connect(frame, declared(), workspace=tmp_path) as session:
        assert session.discover("city", rho=1).values == ("a",)
        assert session.query(GROUPED, rho=1)


@pytest.mark.parametrize(
    "rows",
    [
        {"city": ["Bonn"], "country": ["D"]},  # no discovered value is a key
        {"city": ["Rome", "Oslo"], "country": [1e300, 1.0]},  # no numbers to declare
    ],
)
def test_no_public_table_closes_a_data_set_after_a_discovery(rows: dict[str, Any], tmp_path: Path) -> None:
    schema = declared() | {"tables": {"towns": {"key": "city", "public": True}}}
    for _ in range(2):
        with connect(tmp_path, schema, tables={"towns": pd.DataFrame(rows)}) as session:
            assert session.discover("city", rho=0.1).values == ("Oslo", "Rome")
            assert session.query(GROUPED, rho=1)
            assert "country" not in session.schema.columns


def test_a_discovery_for_which_another_left_no_delta_meanwhile_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = declared()
    schema["columns"]["sex"] = {"values": "discover"}
    with connect(tmp_path, schema) as here, connect(tmp_path, schema) as there:
        releaser, delta = dataset_of(there).releaser, 0.9 * there.schema.privacy.delta
        reserve = releaser.reserve  # type: ignore[attr-defined]

        def reserve_late(*asked: Any) -> Any:
            monkeypatch.undo()
            here.discover("city", 1.0, delta=delta)
            return reserve(*asked)

        monkeypatch.setattr(releaser, "reserve", reserve_late)
        with pytest.raises(BadRequest, match=TOO_SMALL):
            there.discover("sex", 1.0, delta=delta)
        assert there.budget.spent == 1.0


@pytest.mark.parametrize(("error", "is_taken_over"), [("ledger lost", True), ("failed", False)])
def test_a_discovery_that_takes_over_its_charge_needs_no_more_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, is_taken_over: bool
) -> None:
    """By default a column has all of the δ that there is for it, so there is none for a second charge."""

    def fail(*_release: Any) -> None:
        raise LedgerUnavailable("It is away.") if is_taken_over else ZeroDivisionError

    with connect(tmp_path) as session:
        with monkeypatch.context() as patched:
            patched.setattr(dataset_of(session).releaser, "store", fail)
            with pytest.raises((LedgerUnavailable, ZeroDivisionError)):
                session.discover("city", 1.0)
        if is_taken_over:
            assert dataset_of(session).ledger.spent_delta("people") > 0
            assert session.discover("city", 1.0).values
        else:
            with pytest.raises(BadRequest, match=TOO_SMALL):
                session.discover("city", 1.0)
        assert session.budget.spent == 1.0


def test_failed_discoveries_of_a_column_use_up_its_own_share_of_delta_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = declared()
    schema["columns"]["sex"] = {"values": "discover"}
    with connect(tmp_path, schema) as session:
        planned = session.plan_discovery("city", 0.1)
        planned.check(only_share=True)

        def fail(*_release: Any) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(dataset_of(session).releaser, "store", fail)
            with pytest.raises(ZeroDivisionError):
                planned.run()
        with pytest.raises(BadRequest, match="would exceed it"):
            planned.check(only_share=True)
