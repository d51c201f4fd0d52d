"""`session.quality`: sensitivities by exhaustive search, coverage of its intervals, price and storage."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import BudgetExhausted
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitQuestion, QualityRelease, partitions
from dpxplain.phases.measure import plan_quality
from dpxplain.privacy.sensitivity import count_sensitivity, fit_sensitivity
from dpxplain.render import views_prices  # noqa: F401
from dpxplain.render.layout import view
from dpxplain.words.declarations import shaped_by
from dpxplain.words.numbers import number, percent
from dpxplain.words.prices import units_misfit

sys.path.insert(0, str(Path(__file__).parent.parent))

from flights import flights, open_flights

SMALL: dict[str, Any] = {
    "table": {"name": "t"},
    "columns": {"a": {"values": ["x"]}, "b": {"bounds": [0, 1], "edges": [0, 1]}},
}
ROWS = list(itertools.product(["x", "?", None], [-1.0, 0.5, 2.0, None]))  # one of every pair of categories


def small_schema(**privacy: Any) -> Schema:
    return Schema.load(SMALL | {"privacy": {"rho": 1.0, **privacy}})


def true_counts(rows: list[tuple[str, str | None, float | None]], schema: Schema) -> Any:
    """Of rows (unit, a, b)."""
    units, a, b = ([row[i] for row in rows] for i in range(3))
    columns = {
        "id": pa.array(units, pa.string()),
        "a": pa.array(a, pa.string()),
        "b": pa.array(b, pa.float64()),
    }
    engine = DuckDBEngine(pa.table(columns), schema)
    try:
        return engine.fit(FitQuestion.of_quality(engine.schema)).reveal()
    finally:
        engine.close()


def test_a_column_of_the_source_with_the_name_of_an_encoded_one_changes_no_count() -> None:
    schema = Schema.load(
        {"table": {"name": "t"}, "privacy": {"rho": 1.0}, "columns": {"a": {"values": ["x", "y"]}}}
    )
    rows = {"a": ["x", "z", None, "y"], "code_0": [0, 1, 1, 0], "fit_0": [9, 9, 9, 9]}
    engine = DuckDBEngine(pa.table(rows), schema)
    assert engine.fit(FitQuestion.of_quality(engine.schema)).reveal().rows.tolist() == [2, 1, 1]
    engine.close()


def test_adding_or_replacing_a_person_moves_the_counts_by_no_more_than_is_proved() -> None:
    """Every person of up to three rows out of all kinds of rows, beside others, at max_rows = 2."""
    schema = small_schema(unit="id", max_rows=2)
    others = [("p", *ROWS[0]), ("p", *ROWS[5]), ("p", *ROWS[5]), ("q", *ROWS[7])]
    base = true_counts(others, schema)
    kinds = [ROWS[i] for i in (0, 5, 11)]
    persons: list[tuple[Any, ...]] = [
        person for n in (1, 2, 3) for person in itertools.combinations_with_replacement(kinds, n)
    ]
    after = [true_counts([*others, *(("new", *row) for row in person)], schema) for person in persons]
    moved = [(counts.rows - base.rows, counts.units - base.units) for counts in after]
    size = len(partitions(schema))
    rows = [float(np.linalg.norm(change)) for change, _ in moved]
    assert max(rows) <= fit_sensitivity(size, 2)
    assert max(rows) == pytest.approx(2 * math.sqrt(size))  # attained
    assert {float(np.linalg.norm(change)) for _, change in moved} == {count_sensitivity(1)}
    replaced = [float(np.linalg.norm(x - y)) for (x, _), (y, _) in itertools.combinations(moved, 2)]
    assert max(replaced) <= fit_sensitivity(size, 2, "bounded")
    assert max(replaced) == pytest.approx(2 * math.sqrt(2 * size))
    by_unit = [float(np.linalg.norm(x - y)) for (_, x), (_, y) in itertools.combinations(moved, 2)]
    assert max(by_unit) <= count_sensitivity(1, "bounded")


def test_the_counts_are_those_of_plain_python(tmp_path: Path) -> None:
    schema = small_schema()
    counts = true_counts([(str(i), *row) for i, row in enumerate(ROWS)], schema)
    # a: fits, undeclared, NULL; b by its edges, where 0 is outside (0, 1], and by its bounds.
    assert counts.rows.tolist() == [4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3]
    assert counts.units.tolist() == []


def test_units_are_counted_by_all_their_rows_and_rows_by_those_that_are_kept() -> None:
    schema = small_schema(unit="id", max_rows=2)
    rows = [
        (name, "x", 0.5) for name, n in (("one", 1), ("two", 2), ("four", 4), ("nine", 9)) for _ in range(n)
    ]
    counts = true_counts([*rows, (None, "x", 0.5)], schema)  # type: ignore[list-item]
    assert counts.rows.tolist()[:3] == [7, 0, 0]
    assert counts.units.tolist()[:4] == [2, 1, 0, 1]
    assert counts.units.sum() == 4


def test_it_is_paid_once_stored_and_free_afterwards(tmp_path: Path) -> None:
    session = open_flights(tmp_path)
    assert session.preview_quality(0.5).price.rho == 0.5
    first = session.quality(rho=0.5)
    assert (first.free, session.budget.spent) == (False, 0.5)
    assert session.quality(rho=0.5, confidence=0.9).free
    assert session.preview_quality(0.5).price.free
    assert session.budget.spent == 0.5
    entry = session.history[-1]
    assert (entry.kind, entry.state) == ("quality", "released")
    assert [spend.event for spend in entry.spends] == ["gaussian.fit-counts", "gaussian.unit-counts"]
    assert sum(spend.rho for spend in entry.spends) <= 0.5
    again = open_flights(tmp_path)
    assert again.quality(rho=0.5).release == first.release


def test_beyond_the_budget_it_is_refused_and_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_flights(tmp_path)
    fit = DuckDBEngine.fit

    def without_rows(*asked: Any, rehearsed: bool) -> Any:
        assert rehearsed, "The data were read."
        return fit(*asked, rehearsed=True)

    monkeypatch.setattr(DuckDBEngine, "fit", without_rows)
    with pytest.raises(BudgetExhausted):
        session.quality(rho=101.0)
    assert session.budget.spent == 0


def test_answers_say_how_much_clamping_and_leaving_out_touch(tmp_path: Path) -> None:
    session = open_flights(tmp_path)
    answer = session.query("SELECT origin, AVG(dep_delay) FROM flights GROUP BY origin", rho=1.0)
    count = session.query("SELECT origin, COUNT(*) FROM flights GROUP BY origin", rho=1.0)
    before = answer.shaped_by
    quality = session.quality(rho=50.0)
    assert quality.id == 3
    assert len(answer.shaped_by) > len(before)
    for each in (answer, count):
        assert each.shaped_by == shaped_by(each.statement.queries, session.schema, quality)
    words = " ".join(answer.shaped_by)
    assert percent(*quality.units_above) in words
    assert percent(*quality.share("dep_delay", "bounds", "above")) in words
    assert percent(*quality.share("origin", "values", "undeclared")) in words
    assert number(quality.most_left_out("origin", "values")) in " ".join(count.shaped_by)


def test_intervals_hold_the_true_shares_at_least_as_often_as_they_say() -> None:
    """With noise of known seeds, so that it cannot fail by chance; 600 draws at 90%."""
    schema = Schema.load(
        {"table": {"name": "flights"}, "privacy": {"rho": 1.0, "unit": "tailnum", "max_rows": 50}}
        | {"columns": {"origin": {"values": ["EWR", "JFK", "LGA"]}, "dep_delay": {"bounds": [-90, 300]}}}
    )
    engine = DuckDBEngine(flights(), schema)
    true = engine.fit(FitQuestion.of_quality(engine.schema)).reveal()
    engine.close()
    plan = plan_quality(schema, 20.0)
    generator = np.random.default_rng(7)
    covered: dict[str, int] = {}
    runs, persons, total = 600, flights()["tailnum"].to_pylist(), true.rows[:3].sum()
    sizes = np.unique(persons, return_counts=True)[1]
    lost = int(np.maximum(0, sizes - 50).sum())
    for _ in range(runs):
        release = QualityRelease(
            rho=20.0,
            noisy_rows=tuple(true.rows + generator.normal(0, plan.rows_scale, true.rows.size)),
            rows_scale=plan.rows_scale,
            noisy_units=tuple(true.units + generator.normal(0, plan.units_scale, true.units.size)),
            units_scale=plan.units_scale,
        )
        quality = _quality(release, plan)
        truth = {(row.column, row.category): row for row in quality}
        for (column, category), index in {("origin", "undeclared"): 1, ("dep_delay", "above"): 5}.items():
            low, high = truth[column, category].interval
            covered[column] = covered.get(column, 0) + (low <= true.rows[index] / total <= high)
        above = true.units[1:].sum() / true.units.sum()
        covered["units"] = covered.get("units", 0) + (
            quality.units_above[0] <= above <= quality.units_above[1]
        )
        covered["lost"] = covered.get("lost", 0) + (quality.rows_lost[0] <= lost <= quality.rows_lost[1])
        most = quality.most_left_out("origin", "values")
        covered["most"] = covered.get("most", 0) + (true.rows[1:3].sum() <= most)
    assert all(count >= 0.89 * runs for count in covered.values()), covered
    assert covered["origin"] <= 0.95 * runs  # and they are not wider than they need be


def _quality(release: QualityRelease, plan: Any) -> Any:
    from datetime import UTC, datetime

    from dpxplain.model.charge import Entry
    from dpxplain.model.release import Released
    from dpxplain.results.quality import Quality

    entry = Entry(1, datetime.now(UTC), "quality", "", plan.rho, (), "released", "key")
    return Quality(plan, Released(release, entry, free=True), 0.9)


def test_the_rows_lost_are_bounded_from_above_only_where_nobody_has_more_than_the_last_size() -> None:
    schema = small_schema(unit="id", max_rows=1)
    plan = plan_quality(schema, 1e4)
    rows = (0.0,) * sum(len(part.categories) for part in partitions(schema))

    def lost(*units: float) -> tuple[float, float]:
        padded = (*units, *(0.0,) * (12 - len(units)))
        quality = _quality(QualityRelease(1e4, rows, 0.01, padded, 0.01), plan)
        return tuple(quality.rows_lost)

    assert lost(5, 3, 2) == (3 * 1 + 2 * 2, 3 * 1 + 2 * 3)
    assert lost(*(0,) * 11, 1) == (1024, math.inf)


UNION: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 1e4},
    "columns": {
        "member": {"values": ["no", "yes"], "null": True},
        "hours": {"edges": [0, 40, 80], "bounds": [0, 80], "null": True},
        "sex": {"values": ["F", "M"]},
        "race": {"values": ["black", "white"]},
    },
}
WORKERS = pa.table(
    {
        "member": ["no", "yes", None, None] * 250,
        "hours": [10.0, 50.0, 90.0, None] * 250,
        "sex": ["F", "M", None, "?"] * 250,
        "race": ["black", "white"] * 500,
    }
)


def test_each_fact_has_one_line_and_a_declared_null_is_told_from_one_that_is_left_out(tmp_path: Path) -> None:
    with dpx.connect(WORKERS, schema=UNION, workspace=tmp_path, insecure_seed=1) as session:
        quality = session.quality(rho=1e3)
        answer = session.query("SELECT member, COUNT(*) FROM t GROUP BY member", rho=1.0)
        said = " ".join(answer.shaped_by)
    facts = [line[:3] for line in view(quality).grid.rows]
    assert facts == [
        ("member", "NULL", "a group of its own"),
        ("hours", "above 80", "in no group, count as 80"),
        ("hours", "NULL", "a group of its own, not in sums and averages"),
        ("sex", "not in the list", "in no group"),
        ("sex", "NULL", "in no group"),
    ]
    assert quality.share("member", "values", "null")[0] > 0.49
    assert quality.most_left_out("member", "values") < 2  # its NULLs are a group
    assert quality.most_left_out("sex", "values") > 498
    assert percent(*quality.share("member", "values", "undeclared")) in said
    assert "NULL" not in said


def test_what_may_be_nothing_is_one_sentence_and_stays_in_the_exports(tmp_path: Path) -> None:
    with dpx.connect(WORKERS, schema=UNION, workspace=tmp_path, insecure_seed=1) as session:
        clear, vague = session.quality(rho=1e3), session.quality(rho=1e-7)
    assert "Nothing to report for 1 other column: each share is at most 0." in str(clear)
    assert "race" not in str(clear)
    assert {record["of"] for record in clear.records()} == set(UNION["columns"])
    assert len(clear.records()) == 2 + 6 + 2 + 2  # values by two categories, edges and bounds by three each
    assert "Too noisy to report on 4 columns: shares may be up to 100%. A larger ρ would help." in " ".join(
        str(vague).split()
    )


def test_quality_prints_and_exports(tmp_path: Path) -> None:
    session = open_flights(tmp_path)
    quality = session.quality(rho=50.0)
    text = str(quality)
    assert "above 300" in text
    grid = view(quality).grid
    assert grid is not None
    assert any(units_misfit(50) in row for row in grid.rows)
    assert "dep_delay" in quality._repr_html_()
    frame = quality.to_pandas()
    assert set(frame["of"]) == {"origin", "carrier", "hour", "dep_delay", "distance", "tailnum"}
