"""Aggregates of one SELECT share noisy parts: what that costs, how precise it is, what formulas know."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.model.expression import Operation
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.release import AnswersRelease
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import SharedMeasurement, plan_queries, plan_query
from dpxplain.phases.assess import group_estimates
from dpxplain.privacy.formulas import NoisyPart, NoisyValue, interval
from dpxplain.privacy.mechanisms import noise as gaussian_module
from dpxplain.privacy.mechanisms.noise import authorise
from dpxplain.privacy.shared_measurement import AskedColumn, CountPrecision, allocate
from dpxplain.results.combination import Combination
from dpxplain.sql.parse import parse
from opened import dataset_of

COLUMNS: dict[str, Any] = {
    "g": {"values": ["a", "b"]},
    "x": {"bounds": [-1, 2], "step": 1},
    "y": {"bounds": [3, 5], "step": 1},
}
SELECTS = [
    ("COUNT(*)",),
    ("COUNT(x)",),
    ("SUM(x)",),
    ("AVG(x)",),
    ("COUNT(*)", "COUNT(x)"),
    ("COUNT(*)", "AVG(x)"),
    ("COUNT(*)", "SUM(y)"),
    ("SUM(x)", "SUM(y)"),
    ("COUNT(x)", "SUM(x)", "AVG(x)"),
    ("COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)"),
    ("COUNT(*)", "AVG(x)", "AVG(y)"),
    ("VARIANCE(x)",),
    ("COUNT(*)", "STDDEV(x)", "AVG(x)"),
]


def declared(neighbours: str = "unbounded", rows: int = 1, **columns: Any) -> Schema:
    unit = {"unit": "person", "max_rows": rows} if rows > 1 else {}
    return Schema.load(
        {
            "table": {"name": "t"},
            "privacy": {"rho": 1e6, "neighbours": neighbours, **unit},
            "columns": COLUMNS | columns,
        }
    )


def queries(aggregates: tuple[str, ...], schema: Schema) -> tuple[Query, ...]:
    return parse(f"SELECT g, {', '.join(aggregates)} FROM t GROUP BY g", schema).queries


# -- Cost --------------------------------------------------------------------------------------------------


def additions(measurement: SharedMeasurement, schema: Schema) -> list[np.ndarray]:
    """What every possible row adds to (part, group), in units where moving by 1 costs 1."""
    every = []
    for group, x, y in itertools.product((None, 0, 1), (None, -1, 0, 1, 2), (None, 3, 4, 5)):
        moved = np.zeros((len(measurement.measurement.parts), 2))
        for place, part in enumerate(measurement.measurement.parts):
            value = {"x": x, "y": y}.get(part.column or "")
            low, high = schema.columns[part.column].bounds if part.column else (0, 0)
            added = {
                "rows": 1,
                "values": value is not None,
                "nulls": value is None,
                "centred": 0 if value is None else 2 * value - low - high,
                "total": 0 if value is None else value,
                "squares": 0 if value is None else 2 * (2 * value - low - high) ** 2 - (high - low) ** 2,
            }[part.kind]
            if group is not None:
                scale = math.sqrt(measurement.measurement.rhos[part.name]) / part.reach
                moved[place, group] = added * scale / measurement.measurement.rows
        every.append(moved)
    return list({moved.tobytes(): moved for moved in every}.values())


@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
@pytest.mark.parametrize("aggregates", SELECTS, ids=", ".join)
def test_one_row_costs_rho_and_no_row_costs_more(aggregates: tuple[str, ...], neighbours: str) -> None:
    schema = declared(neighbours)
    measurement = SharedMeasurement(queries(aggregates, schema), 0.7, schema)
    rows = np.array(additions(measurement, schema))
    moves = rows if neighbours == "unbounded" else rows[:, None] - rows[None]
    costs = (moves**2).sum(axis=(-2, -1))
    squared = any(part.kind == "squares" for part in measurement.measurement.parts)
    if squared and neighbours == "bounded":  # sum and square cannot both move farthest
        assert 0.35 < costs.max() <= 0.7
    else:
        assert costs.max() == pytest.approx(0.7, rel=1e-9)
    measurement.measurement.check()


@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
@pytest.mark.parametrize("aggregates", [("AVG(x)",), ("COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)")])
def test_a_person_of_two_rows_costs_rho_and_no_person_more(
    aggregates: tuple[str, ...], neighbours: str
) -> None:
    schema = declared(neighbours, rows=2)
    measurement = SharedMeasurement(queries(aggregates, schema), 0.7, schema)
    rows = np.array([*additions(measurement, schema), np.zeros((len(measurement.measurement.parts), 2))])
    persons = np.unique((rows[:, None] + rows[None]).reshape(len(rows) ** 2, -1).round(12), axis=0)
    if neighbours == "unbounded":
        worst = (persons**2).sum(axis=1).max()
    else:
        worst = max(float(((persons - person) ** 2).sum(axis=1).max()) for person in persons)
    assert worst == pytest.approx(0.7, rel=1e-9)


@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
@pytest.mark.parametrize("aggregates", SELECTS, ids=", ".join)
def test_opendp_asserts_every_part_and_the_parts_compose_to_rho(
    aggregates: tuple[str, ...], neighbours: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, seen = declared(neighbours), []

    def watched(build: Any, scale: float, sensitivity: float, rho: float) -> tuple[Any, float]:
        measurement, scale = authorise(build, scale, sensitivity, rho)
        seen.append((rho, measurement.map(sensitivity)))
        return measurement, scale

    monkeypatch.setattr(gaussian_module, "authorise", watched)
    data = pd.DataFrame({"g": ["a", "b", "a"], "x": [1.0, None, 2.0], "y": [3.0, 4.0, None]})
    with dpx.connect(data, schema, workspace=tmp_path) as session:
        session.query(f"SELECT g, {', '.join(aggregates)} FROM t GROUP BY g", rho=0.3)
        (entry,) = session.history
    measurement = SharedMeasurement(queries(aggregates, schema), 0.3, schema).measurement
    asserted = [measurement.rhos[part.name] for part in measurement.parts]
    assert [rho for rho, _ in seen] == 2 * asserted  # once in the rehearsal
    assert all(rho * (1 - 1e-9) <= cost <= rho for rho, cost in seen)
    assert measurement._cost(measurement.rhos) <= Fraction(0.3)
    assert math.fsum(spend.rho for spend in entry.spends) == pytest.approx(0.3, rel=1e-15)


def test_the_measured_parts_are_those_of_the_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    data = pd.DataFrame(
        {
            "g": rng.choice(["a", "b", "?"], 200),
            "x": rng.choice([-1.0, 0.0, 2.0, 9.0, np.nan], 200),
            "y": rng.choice([3.0, 5.0, np.nan], 200),
        }
    )
    schema = declared()
    with dpx.connect(data, schema, workspace=tmp_path) as session:
        asked = queries(("COUNT(*)", "COUNT(y)", "SUM(x)", "AVG(x)"), session.schema)
        measured = SharedMeasurement(asked, 1.0, schema)
        parts = {name: secret.reveal() for name, secret in measured._true_parts(dataset_of(session)).items()}
    for place, group in enumerate("ab"):
        rows = data[data.g == group]
        x = rows.x.clip(-1, 2)
        assert parts["rows"][place] == len(rows)
        assert parts["values x"][place] == x.count()
        assert parts["nulls x"][place] == x.isna().sum()
        assert parts["centred x"][place] == (2 * x - 1).sum()
        assert parts["nulls y"][place] == rows.y.isna().sum()


# -- Shares ------------------------------------------------------------------------------------------------


def test_an_average_by_itself_keeps_the_halves_of_the_specification() -> None:
    plan = plan_query(Query("t", ("g",), Aggregate("avg", "x")), declared(), 0.2)
    assert [spend.rho for spend in plan.spends] == [0.1, 0.1]


def test_a_typical_value_in_the_middle_saves_the_count_its_share() -> None:
    schema = declared(x={"bounds": [-1, 3], "step": 1, "center": 1})
    count, total = plan_query(Query("t", ("g",), Aggregate("avg", "x")), schema, 1.0).spends
    assert (count.rho, total.rho) == pytest.approx((0.2, 0.8))
    far = declared(x={"bounds": [-1, 3], "step": 1, "center": 3})
    assert plan_query(Query("t", ("g",), Aggregate("avg", "x")), far, 1.0).spends[0].rho > 0.5


@pytest.mark.parametrize("center", [-2, 4, math.nan])
def test_a_typical_value_outside_the_bounds_is_refused(center: float) -> None:
    with pytest.raises(dpx.SchemaError, match="center"):
        declared(x={"bounds": [-1, 3], "center": center})
    with pytest.raises(dpx.SchemaError, match="must lie between declared bounds"):
        declared(x={"values": ["u"], "center": 0})


@pytest.mark.parametrize("counts_rows", [True, False])
@pytest.mark.parametrize(
    "columns",
    [
        (AskedColumn(False, (0.25,)),),
        (AskedColumn(True, (0.25, 1.0)),),
        (AskedColumn(True, (0.25,)), AskedColumn(False, (2.0,))),
    ],
)
def test_no_other_shares_have_a_smaller_product_of_variances(
    columns: tuple[AskedColumn, ...], counts_rows: bool
) -> None:
    shares = allocate(columns, counts_rows=counts_rows)
    whole = np.array([*([shares.rows] if counts_rows else []), *shares.counts, *shares.sums])
    assert whole.sum() == pytest.approx(1.0, abs=1e-12)
    best = product_of_variances(columns, whole, counts_rows)
    rng = np.random.default_rng(1)
    for size in (0.01, 0.05, 0.3):
        for _ in range(300):
            other = whole * np.exp(size * rng.standard_normal(len(whole)))
            assert product_of_variances(columns, other / other.sum(), counts_rows) > best * (1 - 2e-5)


def product_of_variances(columns: tuple[AskedColumn, ...], shares: np.ndarray, counts_rows: bool) -> float:
    """Computed from the definition, by the inverse of the information matrix."""
    size, rows = len(columns), shares[0] if counts_rows else 0.0
    counts, sums = shares[-2 * size : -size], shares[-size:]
    information = np.zeros((size + 1, size + 1))
    information[0, 0] = rows if counts_rows else 1.0
    for i in range(size):
        information[i + 1, i + 1] += counts[i]
        if counts_rows:
            apart = np.zeros(size + 1)
            apart[[0, i + 1]] = 1.0, -1.0
            information += (counts[i] + sums[i]) * np.outer(apart, apart)
    variance = np.linalg.inv(information)
    product = variance[0, 0] if counts_rows else 1.0
    for i, column in enumerate(columns):
        product *= variance[i + 1, i + 1] if column.is_counted else 1.0
        for offset in column.offsets:
            product *= 1 / sums[i] + offset * variance[i + 1, i + 1]
    return float(product)


@pytest.mark.parametrize("columns", [0, 1, 2, 7, 40])
def test_the_closed_form_of_the_counts_is_that_of_the_inverse_matrix(columns: int) -> None:
    rng = np.random.default_rng(columns)
    values, nulls = rng.uniform(0.001, 5.0, (2, columns))
    precision = CountPrecision(0.3, values, nulls)
    # One measured count per row: the rows, the columns' values, and their NULLs (rows minus values).
    unit = np.eye(1 + columns)
    measured = np.concatenate([unit, unit[0] - unit[1:]])
    precisions = np.concatenate([[0.3], values, nulls])
    covariance = np.linalg.inv(measured.T @ (precisions[:, None] * measured))
    np.testing.assert_allclose(precision.rows_variance, covariance[0, 0], rtol=1e-9)
    np.testing.assert_allclose(precision.variances, np.diag(covariance)[1:], rtol=1e-9)
    for column in (None, *range(columns)):
        place = 0 if column is None else 1 + column
        best = precisions * (measured @ covariance[:, place])
        np.testing.assert_allclose(np.hstack(precision.weights(column)), best, rtol=1e-9, atol=1e-12)
    weights = rng.uniform(0.0, 3.0, 1 + columns)
    slopes = np.sum(weights * (measured @ covariance) ** 2, axis=1)
    np.testing.assert_allclose(np.hstack(precision.slopes(weights[0], weights[1:])), slopes, rtol=1e-9)


def test_sharing_leaves_a_fraction_of_the_variance_of_measuring_apart() -> None:
    schema = declared()
    asked = queries(("COUNT(x)", "SUM(x)", "AVG(x)"), schema)
    shared = plan_queries(asked, schema, 0.3)
    most = {"count": {"count_scale": 0.75}, "sum": {"sum_scale": 0.4}}
    most["avg"] = {"count_scale": 0.4, "sum_scale": 0.4}
    for query in asked:
        apart, together = (
            plan.measurement.expected_noise(query) for plan in (plan_query(query, schema, 0.1), shared)
        )
        for name, fraction in most[query.aggregate.kind].items():
            assert (getattr(together, name) / getattr(apart, name)) ** 2 < fraction


# -- Precision on flights ----------------------------------------------------------------------------------

# Rows, rows with an arrival delay, and its mean inside [−90, 300], of the 14 carriers above 500 flights.
CARRIERS = {
    "9E": (18460, 17294, 7), "AA": (32729, 31947, 0), "AS": (714, 709, -10), "B6": (54635, 54049, 9),
    "DL": (48110, 47658, 1), "EV": (54173, 51108, 16), "F9": (685, 681, 21), "FL": (3260, 3175, 20),
    "MQ": (26397, 25037, 11), "UA": (58665, 57782, 3), "US": (20536, 19831, 2), "VX": (5162, 5116, 1),
    "WN": (12275, 12044, 10), "YV": (601, 544, 15),
}  # fmt: skip


def flights() -> pd.DataFrame:
    rng = np.random.default_rng(13)
    parts = []
    for carrier, (rows, known, mean) in CARRIERS.items():
        delay = np.concatenate([rng.gamma(1.1, 38.0, known) - 42.0 + mean, np.full(rows - known, np.nan)])
        parts.append(pd.DataFrame({"carrier": carrier, "arr_delay": delay.round()}))
    return pd.concat(parts)


@pytest.mark.parametrize("center", [{}, {"center": 5}], ids=["no typical value", "center = 5"])
def test_count_and_average_of_flights_lose_to_no_peer(center: dict[str, int], tmp_path: Path) -> None:
    data, runs = flights(), 150
    schema = {
        "table": {"name": "flights"},
        "privacy": {"rho": 100},
        "columns": {
            "carrier": {"values": list(CARRIERS)},
            "arr_delay": {"bounds": [-90, 300], **center},
        },
    }
    sql = "SELECT carrier, COUNT(*), AVG(arr_delay) FROM flights GROUP BY carrier"
    delays = data.assign(arr_delay=data.arr_delay.clip(-90, 300)).groupby("carrier").arr_delay
    true = {"count": delays.size().loc[list(CARRIERS)], "avg": delays.mean().loc[list(CARRIERS)]}
    with dpx.connect(data, schema, workspace=tmp_path, insecure_seed=2) as session:
        dataset = dataset_of(session)
        plan = plan_queries(parse(sql, dataset.schema).queries, dataset.schema, 0.1)
        errors: dict[str, list[np.ndarray]] = {"count": [], "avg": []}
        for _ in range(runs):
            for query, release in zip(plan.queries, plan.measure(dataset).answers, strict=True):
                kind = query.aggregate.kind
                estimates = group_estimates(release, query, dataset.schema, 0.95)
                errors[kind].append(np.array([value for value, *_ in estimates]) - true[kind].to_numpy())
    assert np.sqrt(np.mean(np.square(errors["count"]))) <= 3.2
    assert np.sqrt(np.mean(np.square(errors["avg"]))) <= 0.6


# -- Shared noise ------------------------------------------------------------------------------------------

SQL = "SELECT g, COUNT(*), COUNT(x), SUM(x), AVG(x) FROM t GROUP BY g"


def table() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    x = rng.integers(0, 101, 900).astype(float)
    x[::9] = np.nan
    return pd.DataFrame({"g": np.repeat(["a", "b"], [600, 300]), "x": x, "y": 4})


WIDE = {"x": {"bounds": [0, 100], "step": 1}}
TERMS = ("COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)")
FORMULAS: dict[str, Any] = {
    "SUM/COUNT(x)": lambda n, k, s, m: s / k,
    "SUM - 50*COUNT(x)": lambda n, k, s, m: s - 50 * k,
    "SUM + 50*COUNT(x)": lambda n, k, s, m: s + 50 * k,
    "COUNT(*) - COUNT(x)": lambda n, k, s, m: n - k,
    "COUNT(x)/COUNT(*)": lambda n, k, s, m: k / n,
    "AVG*COUNT(x) - SUM": lambda n, k, s, m: m * k - s,
    "AVG*COUNT(*)": lambda n, k, s, m: m * n,
}


RUNS = 250


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Combination, ...]]]:
    """The terms of group a, measured afresh many times."""
    workspace = tmp_path_factory.mktemp("measured")
    with dpx.connect(table(), declared(**WIDE), workspace=workspace, insecure_seed=3) as session:
        answers = session.query(SQL, rho=0.2)
        dataset = dataset_of(session)
        plan = plan_queries(answers.statement.queries, dataset.schema, 0.2)
        names = [str(query.aggregate) for query in plan.queries]
        releases = [dict(zip(names, plan.measure(dataset).answers, strict=True)) for _ in range(RUNS)]
        yield [tuple(value(answers, term, release[term]) for term in TERMS) for release in releases]


@pytest.mark.parametrize("method", ["auto", pytest.param("bootstrap", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_over_shared_noise_cover_at_their_level(
    name: str, method: str, measured: list[tuple[Combination, ...]]
) -> None:
    data, level = table(), 0.9
    a = data[data.g == "a"]
    truth = FORMULAS[name](len(a), a.x.count(), a.x.sum(), a.x.mean())
    covered = 0
    for terms in measured:
        low, high = FORMULAS[name](*terms).interval_by(method, level)
        covered += low - 1e-9 <= truth <= high + 1e-9
    # One in a million below this; the image of atoms that share noise may cover more.
    assert covered / RUNS >= level - 4.9 * math.sqrt(level * (1 - level) / RUNS)


def value(answers: Any, name: str, release: Any) -> Combination:
    """The aggregate's value of group a as another measurement would have released it."""
    row = answers[name]["a"]
    return replace(row._values, release=release).value(0, "a")


def test_a_difference_has_the_scale_of_what_its_terms_do_not_share(tmp_path: Path) -> None:
    with dpx.connect(table(), declared(**WIDE), workspace=tmp_path, insecure_seed=3) as session:
        answers = session.query(SQL, rho=0.2)
        total, known, mean = (answers[name]["a"] for name in ("SUM(x)", "COUNT(x)", "AVG(x)"))
        ((_, centred_scale),) = answers["AVG(x)"].release.sum_noise
        for formula, times in ((total - 50 * known, 1.0), (2 * total - 100 * known, 2.0)):
            low, high = formula.interval
            assert (high - low) / 2 == pytest.approx(1.959964 * centred_scale * times, rel=1e-6)
        apart = math.hypot(total.scale, 50 * known.scale)
        low, high = (total + 50 * known).interval
        assert (high - low) / 2 > 1.05 * 1.959964 * apart
        # The ratio of the two is the average itself, and about as precise.
        low, high = (total / known).interval
        assert low < mean.estimate < high
        assert (high - low) == pytest.approx(mean.interval[1] - mean.interval[0], rel=0.05)


def test_a_count_twice_over_is_not_two_counts() -> None:
    noise = (("rows", 3.0), ("values", 4.0))
    a = NoisyValue("A", NoisyPart(200.0, 5.0, noise=noise))
    b = NoisyValue("B", NoisyPart(100.0, 3.0, noise=(("rows", 3.0),)))
    low, high = interval(Operation("-", (a, b)), 0.95)
    assert (high - low) / 2 == pytest.approx(4.0 * 1.959964, rel=1e-6)


def test_a_release_says_what_its_noise_is_made_of_and_is_read_again(tmp_path: Path) -> None:
    with dpx.connect(table(), declared(**WIDE), workspace=tmp_path) as session:
        answers = session.query(SQL, rho=0.2)
        text = answers.release.to_json()
        assert json.loads(text)["version"] == 3
        assert AnswersRelease.from_json(text) == answers.release
        for answer in answers.answers:
            release = answer.release
            for scale, noise in (
                (release.count_scale, release.count_noise),
                (release.sum_scale, release.sum_noise),
            ):
                if scale is not None:
                    assert math.hypot(*(loading for _, loading in noise)) == pytest.approx(scale)
        again = session.answer(answers.id)
        low, high = (again["SUM(x)"]["a"] - answers["SUM(x)"]["a"]).interval
        assert (low, high) == (0.0, 0.0)


def test_aggregates_with_noise_of_their_own_are_stored_as_such(tmp_path: Path) -> None:
    with dpx.connect(table(), declared(), workspace=tmp_path) as session:
        answers = session.query("SELECT g, MEDIAN(x), MEDIAN(y) FROM t GROUP BY g", rho=0.2)
        text = answers.release.to_json()
        assert json.loads(text)["version"] == 2
        assert AnswersRelease.from_json(text) == answers.release
        assert not any(answer.shares_noise for answer in answers.release.answers)
