"""`session.tune`: sensitivities by exhaustive search, coverage of intervals and promises, price."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpxplain as dpx
from chance import plausible_count
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import BadRequest, BudgetExhausted
from dpxplain.model.charge import Entry
from dpxplain.model.column import Column
from dpxplain.model.confidential import Confidential
from dpxplain.model.release import Released
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitQuestion, TuningRelease, tuned_edges, tuned_pairs
from dpxplain.phases import measure
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.measure import TuningPlan, plan_tuning
from dpxplain.privacy.calibration import normal_cdf
from dpxplain.privacy.intervals import shares_up_to
from dpxplain.privacy.mechanisms.noise import VectorisedNoise
from dpxplain.privacy.sensitivity import count_sensitivity, fit_sensitivity
from dpxplain.results.quality import Tuning

BOTH: dict[str, Any] = {"a": {"bounds": [0, 10], "step": 1}, "b": {"edges": [0, 1, 2]}}
NUMBERS = [-math.inf, -1.0, 0.0, 0.5, 1.0, 3.0, 10.0, 11.0, math.inf, math.nan, None]


def declared(columns: dict[str, Any], **privacy: Any) -> Schema:
    return Schema.load({"table": {"name": "t"}, "privacy": {"rho": 10.0, **privacy}, "columns": columns})


def true_counts(rows: list[tuple[Any, ...]], schema: Schema, columns: tuple[str, ...] = ("a", "b")) -> Any:
    """Of rows (unit, a, b); what only a mechanism may see."""
    names = ("id", "a", "b")
    kinds = (pa.string(), pa.float64(), pa.float64())
    table = {name: pa.array([row[i] for row in rows], kinds[i]) for i, name in enumerate(names)}
    engine = DuckDBEngine(pa.table(table), schema)
    try:
        return engine.fit(FitQuestion.of_tuning(schema, columns)).reveal()
    finally:
        engine.close()


# -- What is counted, and what one unit can change ----------------------------------------------------------


@pytest.mark.parametrize(
    "bounds", [(0, 1), (-3, 4), (0, 1e6), (18, 95), (-1e9, 1e9), (1e-6, 2e-6), (1901, 1925.5), (-7.25, -0.01)]
)
def test_edges_are_round_and_within_what_is_declared(bounds: tuple[float, float]) -> None:
    edges = tuned_edges(Column(bounds=bounds))
    assert (edges[0], edges[-1]) == bounds
    assert list(edges) == sorted(set(edges))
    assert 10 <= len(edges) <= 70
    assert all(len(f"{edge:.10e}".split("e")[0].rstrip("0").strip("-.")) <= 5 for edge in edges[1:-1])


def test_the_counts_are_those_of_plain_python() -> None:
    schema = declared(BOTH)
    counts = true_counts([(str(i), number, number) for i, number in enumerate(NUMBERS)], schema)
    for edges, found in zip(
        (tuned_edges(schema.column("a")), (0, 1, 2)),
        np.split(counts.rows, [len(tuned_edges(schema.column("a"))) + 1]),
        strict=True,
    ):
        known = [number for number in NUMBERS if number is not None and not math.isnan(number)]
        expected = [sum(number < edges[0] for number in known)]
        expected += [
            sum((low < number or number == low == edges[0]) and number <= high for number in known)
            for low, high in itertools.pairwise(edges)
        ]
        assert found.tolist() == [*expected, sum(number > edges[-1] for number in known)]
    assert counts.units.tolist() == []


def test_adding_or_replacing_a_person_moves_the_counts_by_no_more_than_is_proved() -> None:
    """Every person of up to three rows out of three kinds of rows, beside others, at max_rows = 2."""
    schema = declared(BOTH, unit="id", max_rows=2)
    others = [("p", 0.0, 1.0), ("p", 3.0, 9.0), ("p", 3.0, 9.0), ("q", None, 0.5)]
    base = true_counts(others, schema)
    kinds = [(0.0, 0.0), (-1.0, 3.0), (math.nan, None)]
    persons = [p for n in (1, 2, 3) for p in itertools.combinations_with_replacement(kinds, n)]
    after = [true_counts([*others, *(("new", *row) for row in person)], schema) for person in persons]
    moved = [(counts.rows - base.rows, counts.units - base.units) for counts in after]
    rows = [float(np.linalg.norm(change)) for change, _ in moved]
    assert max(rows) <= fit_sensitivity(2, 2)
    assert max(rows) == pytest.approx(2 * math.sqrt(2))  # attained
    assert {float(np.linalg.norm(change)) for _, change in moved} == {count_sensitivity(1)}
    replaced = [float(np.linalg.norm(x - y)) for (x, _), (y, _) in itertools.combinations(moved, 2)]
    assert max(replaced) <= fit_sensitivity(2, 2, "bounded")
    assert max(replaced) == pytest.approx(2 * math.sqrt(2 * 2))
    by_unit = [float(np.linalg.norm(x - y)) for (_, x), (_, y) in itertools.combinations(moved, 2)]
    assert max(by_unit) <= count_sensitivity(1, "bounded")


class Opened:
    """A data set of which only the counts are at hand."""

    noise = VectorisedNoise()

    def __init__(self, counts: Any) -> None:
        self.counts = Confidential(counts)

    def progress(self, stage: str) -> None: ...

    def fit(self, _: FitQuestion, **_options: object) -> Confidential[Any]:
        return self.counts


@pytest.mark.draws
@pytest.mark.parametrize("smaller", [1.0, 0.5])
def test_the_best_attack_tells_neighbours_apart_no_better_than_is_paid_for(
    smaller: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neyman and Pearson's test on all numbers together; with half the sensitivity it would be noticed."""
    rights = fit_sensitivity
    monkeypatch.setattr(measure, "fit_sensitivity", lambda *given: smaller * rights(*given))
    schema, rho, runs = declared(BOTH, unit="id", max_rows=2), 0.5, 600
    others = [("p", 0.0, 1.0), ("q", None, 0.5)]
    without, present = (
        true_counts(rows, schema) for rows in (others, [*others, ("new", 3.0, 1.5), ("new", 3.0, 1.5)])
    )
    plan = plan_tuning(schema, rho, ["a", "b"])
    assert plan.bins_scale is not None
    assert plan.units_scale is not None
    scales = np.array([plan.bins_scale] * len(present.rows) + [plan.units_scale] * len(present.units))
    change = np.concatenate([present.rows - without.rows, present.units - without.units]) / scales
    middle = np.concatenate([present.rows + without.rows, present.units + without.units]) / (2 * scales)
    right = 0
    for counts, is_present in ((without, False), (present, True)):
        for _ in range(runs):
            release = plan.measure(cast(OpenDataset, Opened(counts)))
            numbers = np.array([*itertools.chain(*release.noisy_bins), *release.noisy_units]) / scales
            right += bool((numbers - middle) @ change > 0) == is_present
    paid = float(normal_cdf(math.sqrt(2 * rho) / 2))  # of the Gaussian mechanism of this price
    if smaller == 1.0:
        assert plausible_count(right, 2 * runs, paid)
    else:
        assert right > 2 * runs * paid
        assert not plausible_count(right, 2 * runs, paid)  # ten standard errors away


# -- What is promised ----------------------------------------------------------------------------------------


def tuned(plan: TuningPlan, release: TuningRelease, *, confidence: float = 0.9, keep: float = 0.99) -> Tuning:
    entry = Entry(1, datetime.now(UTC), "tune", "", plan.rho, (), "released", "key")
    return Tuning(plan, Released(release, entry, free=True), confidence, keep)


def noisy(plan: TuningPlan, values: dict[str, Any], sizes: Any, generator: Any) -> TuningRelease:
    """A release with noise of a known seed, of true values and of each unit's number of rows."""
    bins = []
    for part in plan.asked.partitions:
        places = np.where(
            values[part.column] < part.edges[0],
            0,
            np.maximum(np.searchsorted(part.edges, values[part.column], side="left"), 1),
        )
        true = np.bincount(places, minlength=len(part.categories))
        bins.append(tuple(true + generator.normal(0, plan.bins_scale, true.size)))
    units: tuple[float, ...] = ()
    if plan.asked.sizes:
        true = np.bincount(np.searchsorted(plan.asked.sizes, sizes), minlength=len(plan.asked.sizes) + 1)
        units = tuple(true + generator.normal(0, plan.units_scale, true.size))
    edges = tuple(part.edges for part in plan.asked.partitions)
    return TuningRelease(
        plan.rho,
        plan.columns,
        tuple(bins),
        edges,
        plan.bins_scale,
        units,
        plan.asked.sizes,
        plan.units_scale,
    )


def test_with_little_noise_the_narrowest_round_bounds_are_proposed() -> None:
    schema = declared({"pay": {"bounds": [0, 1_000_000]}}, unit="id", max_rows=20)
    values = np.concatenate([np.full(45, 150_000.0), np.full(9_950, 40_000.0), np.full(5, 2_000_000.0)])
    sizes = np.concatenate([np.full(960, 2), np.full(35, 9), np.full(5, 30)])
    plan = plan_tuning(schema, 1e6)
    tuning = tuned(plan, noisy(plan, {"pay": values}, sizes, np.random.default_rng(1)))
    by_keep = {row.keep: row for row in tuning}
    assert (by_keep[0.99].low, by_keep[0.99].high) == (20_000, 50_000)
    assert (by_keep[0.999].low, by_keep[0.999].high) == (20_000, 200_000)
    assert by_keep[0.99].above == pytest.approx((0.005, 0.005), abs=1e-3)
    assert by_keep[0.99].average_noise == pytest.approx(0.03)
    assert by_keep[0.99].sum_noise == pytest.approx(0.05)
    assert {row.keep: row.max_rows for row in tuning.max_rows} == {0.9: 2, 0.95: 2, 0.99: 10, 0.999: 20}
    assert [row.rows_lost[0] for row in tuning.max_rows] == [35 * 6 + 5 * 19, 35 * 6 + 5 * 19, 5 * 11, 5]
    assert tuning.toml().endswith("then tune the bounds again.\n[privacy]\nmax_rows = 10")
    assert tuning.toml(0.999) == "[columns.pay]\nbounds = [20000, 200000]"
    assert [row.sure for row in tuning.max_rows] == [True, True, True, False]


def test_shares_are_said_to_be_of_the_rows_chosen_now() -> None:
    """Which rows of a person are kept follows from clamped values: other bounds choose others."""
    for privacy, is_said in (({}, False), ({"unit": "id"}, True), ({"unit": "id", "max_rows": 5}, True)):
        plan = plan_tuning(declared({"pay": {"bounds": [0, 100]}}, **privacy), 1.0)
        tuning = tuned(plan, noisy(plan, {"pay": np.full(900, 5.0)}, [1] * 900, np.random.default_rng(4)))
        assert ("which of its rows count" in " ".join(tuning.notes)) == is_said


def test_what_is_declared_too_narrowly_is_not_said_to_keep_its_share() -> None:
    plan = plan_tuning(declared({"pay": {"bounds": [0, 100]}}, unit="id", max_rows=3), 1.0)
    values, sizes = np.repeat([10.0, 5e5], [700, 300]), np.repeat([1, 9], [800, 200])
    tuning = tuned(plan, noisy(plan, {"pay": values}, sizes, np.random.default_rng(5)))
    assert not any(row.sure for row in (*tuning, *tuning.max_rows))
    assert not any(record["sure"] for record in tuning.records())
    assert "99%?" in str(tuning)
    assert "?: this share may not be reached." in str(tuning)
    assert "The declared bounds of pay cap more than 1% of the values. Widen them." in tuning.notes
    above = "More than 1% of the privacy units have more rows than the declared max_rows. Raise max_rows."
    assert above in tuning.notes
    assert "A larger ρ" not in " ".join(tuning.notes)


def test_a_column_of_zeros_is_not_narrowed_without_a_word() -> None:
    plan = plan_tuning(declared({"pay": {"bounds": [0, 1_000_000]}}), 10.0)
    values = np.repeat([0.0, 40_000.0], [99_990, 10])
    tuning = tuned(plan, noisy(plan, {"pay": values}, [], np.random.default_rng(6)))
    assert "less than a thousandth of the declared range for pay." in " ".join(tuning.notes)


@pytest.mark.parametrize("column", [{"bounds": [0, 100], "step": 7}, {"bounds": [0.5, 10.5], "step": 1}])
def test_every_proposal_is_one_that_a_schema_takes(column: dict[str, Any]) -> None:
    edges = tuned_edges(Column(**column))
    for i, j in tuned_pairs(Column(**column)):
        assert Column(**column | {"bounds": [edges[i], edges[j]]}).grid.range >= 1


def test_with_noise_alone_nothing_narrower_than_declared_is_proposed() -> None:
    plan = plan_tuning(declared({"pay": {"bounds": [0, 100]}}, unit="id", max_rows=5), 1e-4)
    nothing = noisy(plan, {"pay": np.array([])}, [], np.random.default_rng(2))
    tuning = tuned(plan, nothing)
    assert {(row.low, row.high, row.above) for row in tuning} == {(0, 100, (0.0, 1.0))}
    assert {row.max_rows for row in tuning.max_rows} == {5}
    assert tuning.toml() == ""
    assert "No better proposal is certain to keep 99% of the values for pay, max_rows." in " ".join(
        tuning.notes
    )


@pytest.mark.parametrize("rho", [0.002, 0.02, 1.0])
def test_intervals_and_promises_hold_at_least_as_often_as_they_say(rho: float) -> None:
    """With noise of known seeds, so that it cannot fail by chance; 400 draws at 90%."""
    generator = np.random.default_rng(7)
    schema = declared(
        {"pay": {"bounds": [0, 100_000]}, "debt": {"bounds": [-50_000, 50_000]}}, unit="id", max_rows=3
    )
    plan, runs = plan_tuning(schema, rho), 400
    values = {
        "pay": np.round(generator.lognormal(9, 1, 6_000)),
        "debt": np.where(generator.random(6_000) < 0.7, 0.0, generator.normal(-3_000, 9_000, 6_000)),
    }
    sizes = generator.geometric(0.5, 3_000)
    held = {"pay": 0, "debt": 0, "units": 0}
    for _ in range(runs):
        tuning = tuned(plan, noisy(plan, values, sizes, generator))
        for name, column in values.items():
            held[name] += all(
                row.below[0] <= np.mean(column < row.low) <= row.below[1]
                and row.above[0] <= np.mean(column > row.high) <= row.above[1]
                and (not row.sure or np.mean((column >= row.low) & (column <= row.high)) >= row.keep)
                for row in tuning
                if row.column == name
            )
        held["units"] += all(
            row.units_above[0] <= np.mean(sizes > row.max_rows) <= row.units_above[1]
            and (not row.sure or np.mean(sizes <= row.max_rows) >= row.keep)
            and row.rows_lost[0] <= np.maximum(sizes - row.max_rows, 0).sum() <= row.rows_lost[1]
            for row in tuning.max_rows
        )
    assert all(count >= 0.9 * runs for count in held.values()), held


def test_shares_without_noise_are_exact_and_rise() -> None:
    for counts in itertools.product([0, 1, 5], repeat=4):
        if sum(counts):
            exact = np.concatenate([[0], np.cumsum(counts)]) / sum(counts)
            for part in shares_up_to(np.array(counts, dtype=float), 1e-9, 0.95):
                assert part == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(("rows", "scale"), [(1e8, 0.22), (1e9, 0.7), (1e10, 5.0)])
def test_shares_hold_for_many_rows_too(rows: float, scale: float) -> None:
    """Where terms of the size rows⁴ would cancel; seeded, 200 draws at 90%."""
    generator = np.random.default_rng(1)
    true = np.round(generator.dirichlet(np.full(30, 0.3)) * rows)
    exact = np.cumsum(true)[:-1] / true.sum()
    held = 0
    for _ in range(200):
        _, low, high = shares_up_to(true + generator.normal(0, scale, 30), scale, 0.9)
        held += bool(np.all((low[1:-1] <= exact) & (exact <= high[1:-1])))
    assert held >= 180


def test_proposals_keep_the_declared_center_inside() -> None:
    plan = plan_tuning(declared({"pay": {"bounds": [0, 100], "center": 80}}), 1e6)
    low_values = noisy(plan, {"pay": np.full(1000, 12.0)}, [], np.random.default_rng(3))
    assert all(row.low <= 80 <= row.high for row in tuned(plan, low_values))


# -- Price and storage ---------------------------------------------------------------------------------------

PEOPLE = pd.DataFrame(
    {
        "pay": [float(i % 90) for i in range(900)],
        "age": [25 + i % 40 for i in range(900)],
        "sex": ["F", "M"] * 450,
        "is_paid": [0, 1] * 450,
    }
)
COLUMNS = {
    "pay": {"bounds": [0, 1000]},
    "age": {"edges": [0, 20, 40, 60, 80, 200]},
    "sex": {"values": ["F", "M"]},
    "born": {"bounds": ["1900-01-01", "2025-01-01"]},
    "is_paid": {"bounds": [0, 1], "step": 1},
    "double pay": {"expression": "2 * pay"},
}


def connect(folder: Path, **privacy: Any) -> dpx.Session:
    frame = PEOPLE.assign(born=pd.Timestamp("1980-01-01"))
    return dpx.connect(frame, declared(COLUMNS, **privacy), workspace=folder)


def test_it_is_paid_once_stored_and_free_afterwards_for_other_shares_too(tmp_path: Path) -> None:
    session = connect(tmp_path)
    assert session.preview_tune(0.5).price.rho == 0.5
    first = session.tune(rho=0.5)
    assert (first.free, session.budget.spent) == (False, 0.5)
    assert {row.column for row in first} == {"pay"}
    again = connect(tmp_path).tune(rho=0.5, keep=0.8, confidence=0.9)
    assert again.free
    assert again.release == first.release
    assert 0.8 in {row.keep for row in again}
    assert session.preview_tune(0.5).price.free
    assert session.budget.spent == 0.5
    entry = session.history[-1]
    assert (entry.kind, entry.state, entry.description) == ("tune", "released", "tune pay")
    assert [spend.event for spend in entry.spends] == ["gaussian.bins"]
    assert entry.spends[0].is_gaussian


def test_what_is_charged_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    plan = plan_tuning(declared(COLUMNS, unit="sex", max_rows=4), 0.3, ["pay", "age"])
    assert [spend.event for spend in plan.spends] == ["gaussian.bins", "gaussian.unit-counts"]
    assert sum(spend.rho for spend in plan.spends) <= 0.3
    assert plan_tuning(declared({"a": {"values": [1]}}, unit="id", max_rows=2), 0.3).spends[0].rho == 0.3


def test_beyond_the_budget_it_is_refused_and_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = connect(tmp_path)
    fit = DuckDBEngine.fit

    def without_rows(*asked: Any, rehearsed: bool) -> Any:
        assert rehearsed, "The data were read."
        return fit(*asked, rehearsed=True)

    monkeypatch.setattr(DuckDBEngine, "fit", without_rows)
    with pytest.raises(BudgetExhausted):
        session.tune(rho=11.0)
    assert session.budget.spent == 0


def test_proposals_for_binned_columns_are_among_their_edges(tmp_path: Path) -> None:
    tuning = connect(tmp_path).tune(rho=9.0, columns=["age"], keep=0.95)
    assert {(row.low, row.high) for row in tuning if row.keep == 0.95} == {(20, 80)}
    assert tuning.toml() == "[columns.age]\nbounds = [20, 80]"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"columns": ["payy"]}, "'payy' is not a declared column"),
        ({"columns": ["sex"]}, "sex has no numeric bounds or edges"),
        ({"columns": ["born"]}, "born has no numeric bounds or edges"),
        ({"columns": ["double pay"]}, "follow from its expression"),
        ({"columns": ["is_paid"]}, "The bounds or edges of is_paid cannot be narrowed"),
        ({"columns": "pay"}, "columns must be a list of column names"),
        ({"columns": None}, "columns must be a list of column names"),
        ({"columns": [["pay"]]}, "columns must be a list of column names"),
        ({"keep": 1.0}, "keep must be at least 0.5 and below 1"),
        ({"keep": math.nan}, "keep must be at least 0.5 and below 1"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_a_remedy(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    session = connect(tmp_path)
    with pytest.raises(BadRequest, match=problem) as refused:
        session.tune(rho=0.1, **options)
    assert refused.value.remedy
    assert session.budget.spent == 0


def test_without_bounds_and_persons_there_is_nothing_to_tune() -> None:
    for privacy in ({}, {"unit": "id"}):
        for column in ({"values": ["F", "M"]}, {"bounds": [0, 1], "step": 1}):
            with pytest.raises(BadRequest, match="nothing to tune"):
                plan_tuning(declared({"sex": column}, **privacy), 0.1)


def test_the_order_of_columns_makes_no_other_release(tmp_path: Path) -> None:
    session = connect(tmp_path)
    first = session.tune(rho=0.5, columns=["pay", "age"])
    again = session.tune(rho=0.5, columns=["age", "pay", "age"])
    assert again.free
    assert again.release == first.release


def test_a_tuning_prints_and_exports(tmp_path: Path) -> None:
    tuning = connect(tmp_path, unit="sex", max_rows=10).tune(rho=9.0)
    text = " ".join(str(tuning).split())
    assert "noise: " in text
    assert "Nothing was written." in text
    assert "max_rows" in tuning._repr_html_()
    assert set(tuning.to_pandas()["of"]) == {"pay", "sex"}


def test_as_many_columns_as_people_have_are_counted() -> None:
    """More counts than one statement of PostgreSQL could return, in several; the same for every column."""
    names = tuple(f"x{number}" for number in range(60))
    schema = declared({name: {"bounds": [0, 1000]} for name in names})
    engine = DuckDBEngine(pa.table({name: [5.0, 700.0, None] for name in names}), schema)
    counts = engine.fit(FitQuestion.of_tuning(schema, names)).reveal().rows.reshape(60, -1)
    engine.close()
    assert (counts == counts[0]).all()
    assert counts.size > 1_000
    assert counts[0].sum() == 2
