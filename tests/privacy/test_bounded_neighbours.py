"""Bounded neighbours: one row replaced, or all rows of one person.

Proofs: ../../docs/proofs/bounded-neighbours.md. Two tables that differ by a replaced row are one table to
which two different rows are added, so all replacements within all tables are all pairs of additions to them;
a row outside the question adds nothing.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_sensitivity import (
    COLUMNS,
    FAMILIES,
    ONE_PREDICATE,
    ROUNDING,
    WEIGHTS,
    Family,
    Table,
    attributes,
    column_values,
    either_end,
    influences,
    small_tables,
    worst_tables,
)

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import SchemaError
from dpxplain.explanation.family import PredicateFamily
from dpxplain.explanation.influence import influences as true_influences
from dpxplain.explanation.influence import scores
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import LocalReleaser, OpenDataset
from dpxplain.privacy.calibration import gaussian_scale, two_sided_quantile
from dpxplain.privacy.mechanisms import noise as gaussian_module
from dpxplain.privacy.mechanisms.noise import OpenDPNoise, authorise
from dpxplain.privacy.sensitivity import (
    SCORE_GRID,
    SCORE_SLACK,
    Aggregate,
    Neighbours,
    count_sensitivity,
    family_sensitivity,
    influence_sensitivity,
    mean_sum_sensitivity,
    sum_sensitivity,
)
from dpxplain.session import Session
from opened import dataset_of

BOUNDED: Neighbours = "bounded"
MANY_WEIGHTS = [*WEIGHTS, (1.0, 1.0, -1.0, -1.0)]


def farthest_replacements(
    aggregate: Aggregate, weights: tuple[float, ...], tables: Table, values: list[float], family: Family
) -> Table:
    """Per table, the longest way between its influences with one row added and with another added."""
    shape = tables.shape[-3:]
    additions = [np.zeros(shape), *np.eye(math.prod(shape)).reshape(-1, *shape)]
    moved = np.stack([influences(aggregate, weights, tables + row, values, family) for row in additions])
    if moved.shape[-1] == 1:
        return np.asarray(np.ptp(moved[..., 0], axis=0))
    squares = [((moved[k:] - moved[k]) ** 2).sum(axis=-1).max(axis=0) for k in range(len(moved))]
    return np.asarray(np.sqrt(np.max(squares, axis=0)))


def worst_replacements(weights: tuple[float, ...], cells: int, values: int, rows: int = 10**6) -> Table:
    """The tables on which the proofs lose nothing, up to a thousandth: sections 3 and 4 of the proofs.

    Cell 0 holds a share of the rows of all groups, or of those with weights of one sign, and the last cell
    the rest of them; one group has one row less to rest.
    """
    tables = []
    shares = [0.0, *np.linspace(0.5, 0.98, 25), 0.9995, 1 - 1e-6]
    for share, fewest, side, out in itertools.product(shares, range(len(weights)), (1, -1), (0, 1, -1)):
        table = np.zeros((len(weights), cells, values))
        for g, w in enumerate(weights):
            extreme = values - 1 if w * side > 0 else 0
            held = 0 if w * out > 0 else round(share * rows)
            table[g, 0, extreme] = held
            table[g, -1, values - 1 - extreme] = rows - held - (g == fewest)
        tables.append(table)
    return np.array(tables)


def search(
    aggregate: Aggregate,
    weights: tuple[float, ...],
    values: list[float],
    family: Family,
    *,
    climbers: int = 12,
    steps: int = 25,
) -> float:
    """The longest replacement found by hill climbing from random tables and from the worst of the proofs."""
    rng = np.random.default_rng(20260301)
    shape = (len(weights), len(family.matches), len(values))
    random = np.floor(10 ** rng.uniform(0, 6, (climbers, *shape))) * (rng.random((climbers, *shape)) < 0.4)
    proved = np.concatenate([worst_tables(weights, *shape[1:]), worst_replacements(weights, *shape[1:])])
    reached = farthest_replacements(aggregate, weights, proved, values, family)
    tables = np.concatenate([random, proved[np.argsort(reached)[-climbers // 2 :]]])
    length = farthest_replacements(aggregate, weights, tables, values, family)
    each = np.arange(len(tables))

    def somewhere() -> tuple[NDArray[np.intp], ...]:
        return (each, *(rng.integers(0, size, len(tables)) for size in shape))

    for _ in range(steps):
        proposal = tables.copy()
        for _ in range(rng.integers(1, 4)):
            here = somewhere()
            x = proposal[here]
            sizes = np.floor(10 ** rng.uniform(0, 6, len(x)))
            menu = np.stack(
                [0 * x, 0 * x + 1, x + 1, np.maximum(x - 1, 0), 2 * x, x // 2, sizes, proposal[somewhere()]]
            )
            proposal[here] = np.minimum(menu[rng.integers(0, len(menu), len(x)), each], 1e7)
        moved = farthest_replacements(aggregate, weights, proposal, values, family)
        better = moved > length
        tables, length = np.where(better[:, None, None, None], proposal, tables), np.maximum(length, moved)
    return float(length.max())


# Influences: sections 3 to 5 of the proofs.


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_no_replacement_in_a_small_table_moves_one_influence_beyond_its_sensitivity(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    values = column_values(aggregate, low, high, interior=len(weights) < 3)
    tables = small_tables(len(weights), 2, len(values), rows={1: 8, 2: 3, 3: 2}[len(weights)])
    longest = farthest_replacements(aggregate, weights, tables, values, ONE_PREDICATE).max()
    assert 0 < longest <= influence_sensitivity(aggregate, weights, low, high, neighbours=BOUNDED) * ROUNDING


@pytest.mark.parametrize("weights", MANY_WEIGHTS, ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_the_sensitivity_of_one_influence_holds_in_large_tables_and_would_not_if_lowered(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    values = column_values(aggregate, low, high)
    limit = influence_sensitivity(aggregate, weights, low, high, neighbours=BOUNDED)
    assert 0.995 * limit < search(aggregate, weights, values, ONE_PREDICATE) <= limit * ROUNDING


@pytest.mark.parametrize("weights", [(1.0, -1.0), (2.0,), (1.0, -10.0)], ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_no_replacement_moves_a_family_beyond_its_sensitivity(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    values = column_values(aggregate, low, high)
    for family, rows in ((attributes(1, 2), 2), (either_end(3), 1)):
        tables = small_tables(len(weights), len(family.matches), len(values), rows)
        if len(tables) > 3000:
            tables = tables[:: len(tables) // 3000]
        limit = family_sensitivity(aggregate, weights, low, high, overlap=family.overlap, neighbours=BOUNDED)
        found = farthest_replacements(aggregate, weights, tables, values, family).max()
        assert 0 < found <= limit * ROUNDING
    large = FAMILIES["one attribute"]
    limit = family_sensitivity(aggregate, weights, low, high, overlap=1, neighbours=BOUNDED)
    # Twice the unbounded constant is safe and not attained: section 5 of the proofs.
    assert 0.49 * limit < search(aggregate, weights, values, large, climbers=6, steps=5) <= limit


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("weights", [(1.0, -1.0), (1.0, 1.0, -2.0)], ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_replacing_all_rows_of_a_person_moves_an_influence_by_that_many_sensitivities(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...], rows: int
) -> None:
    values = column_values(aggregate, low, high)
    shape = (len(weights), 2, len(values))
    kinds = np.concatenate([np.zeros((1, *shape)), np.eye(math.prod(shape)).reshape(-1, *shape)])
    rng = np.random.default_rng(rows)
    small = small_tables(len(weights), 2, len(values), rows=1)
    tables = np.concatenate([worst_replacements(weights, *shape[1:]), small])
    persons = [rows * kind for kind in kinds] + [
        kinds[rng.integers(0, len(kinds), rows)].sum(axis=0) for _ in range(20)
    ]
    moved = np.stack(
        [influences(aggregate, weights, tables + p, values, ONE_PREDICATE)[..., 0] for p in persons]
    )
    found = np.ptp(moved, axis=0)
    limit = rows * influence_sensitivity(aggregate, weights, low, high, neighbours=BOUNDED)
    assert found.max() <= limit * ROUNDING
    if aggregate == "count":
        assert found.max() > 0.99 * limit


@pytest.mark.parametrize("weights", MANY_WEIGHTS, ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_every_bounded_constant_lies_between_once_and_twice_the_unbounded_one(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    once = influence_sensitivity(aggregate, weights, low, high)
    assert once <= influence_sensitivity(aggregate, weights, low, high, neighbours=BOUNDED) <= 2 * once
    published = influence_sensitivity(aggregate, weights, low, high, paper=True)
    assert (
        influence_sensitivity(aggregate, weights, low, high, paper=True, neighbours=BOUNDED) == 2 * published
    )
    mirrored = influence_sensitivity(aggregate, weights, -high, -low, neighbours=BOUNDED)
    assert mirrored == influence_sensitivity(aggregate, weights, low, high, neighbours=BOUNDED)


def test_two_groups_have_the_constants_of_the_proofs() -> None:
    def two(aggregate: Aggregate, low: float = 0, high: float = 0) -> float:
        return influence_sensitivity(aggregate, (1, -1), low, high, neighbours=BOUNDED)

    assert two("count") == 2
    assert two("sum", 0, 7) == two("sum", -7, -1) == 14
    assert two("sum", -8, 8) == 17  # 2.125·A
    assert two("avg", 3, 7) == 12  # 3·R
    assert influence_sensitivity("avg", (1,), 3, 7, neighbours=BOUNDED) == 4
    assert influence_sensitivity("avg", (1, -1), 0, 7, paper=True, neighbours=BOUNDED) == 224


def test_the_statistic_of_a_rank_moves_by_at_most_twice_the_sensitivity() -> None:
    family, values, weights = attributes(1, 2), [0.0, 1.0], (1.0, -1.0)
    tables = small_tables(2, len(family.matches), len(values), rows=2)
    limit = influence_sensitivity("avg", weights, 0, 1, neighbours=BOUNDED)
    additions = np.eye(math.prod(tables.shape[1:])).reshape(-1, *tables.shape[1:])
    moved = np.stack([influences("avg", weights, tables + row, values, family) for row in additions])
    ranked = np.sort(moved, axis=-1)
    leads = moved[..., :, None] - ranked[..., None, :]
    assert np.ptp(ranked, axis=0).max() <= limit * ROUNDING
    assert np.ptp(leads, axis=0).max() <= 2 * limit * ROUNDING


# Answers of Phase 1: section 2 of the proofs.

BOUNDS = [(0, 10), (4, 10), (-10, -2), (-10, 10), (-2, 10), (-9, 5), (-1, 0)]


def contributions(low: int, high: int, rows: int, groups: int = 3) -> Table:
    """All that a person of at most `rows` rows adds to the (counts, sums, doubled centred sums) of groups."""
    kinds = [np.zeros((3, groups))]
    for g, value in itertools.product(range(groups), range(low, high + 1, max(1, (high - low) // 2))):
        kind = np.zeros((3, groups))
        kind[:, g] = 1, value, 2 * value - low - high
        kinds.append(kind)
    persons = [sum(chosen) for chosen in itertools.combinations_with_replacement(kinds, rows)]
    return np.asarray(persons)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_the_answers_move_exactly_as_far_as_their_sensitivities(low: int, high: int, rows: int) -> None:
    persons = contributions(low, high, rows, groups=2 if rows == 3 else 3)
    for part, of in enumerate((None, sum_sensitivity, mean_sum_sensitivity)):
        moves = persons[:, None, part] - persons[None, :, part]
        bounded = count_sensitivity(rows, BOUNDED) if of is None else of(low, high, rows, BOUNDED)
        added = count_sensitivity(rows) if of is None else of(low, high, rows)
        replaced_by = np.sqrt((moves**2).sum(axis=-1)).max()
        assert replaced_by <= bounded <= replaced_by * (1 + 1e-12)  # safe, attained, rounded up
        assert np.sqrt((persons[:, part] ** 2).sum(axis=-1)).max() == added


# End to end.

COLUMNS_DECLARED = {
    "g": {"values": ["a", "b", "c"]},
    "p": {"values": ["u", "v", "w"]},
    "q": {"values": [0, 1]},
    "x": {"bounds": [-3, 10], "step": 0.5},
}
ROWS = [("a", "u", 0, 1.0, 1), ("b", "v", 1, 9.5, 2), ("a", "w", 1, -3.0, 3), ("b", "u", 0, 4.0, 4)] * 10
QUERIES = [f"SELECT g, {aggregate} FROM t GROUP BY g" for aggregate in ("COUNT(*)", "SUM(x)", "AVG(x)")]


def opened(neighbours: str = "bounded", rows: list[Any] = ROWS, **privacy: Any) -> Any:
    data = pa.table(dict(zip("gpqxi", map(list, zip(*rows, strict=True)), strict=True)))
    declared = Schema.load(
        {
            "table": {"name": "t"},
            "privacy": {"rho": 50.0, "neighbours": neighbours, **privacy},
            "columns": COLUMNS_DECLARED,
        }
    )
    ledger = open_ledger(None)
    ledger.open_dataset("t", declared.privacy.rho, declared.privacy.delta)
    return Session(
        OpenDataset(declared, DuckDBEngine(data, declared), ledger, LocalReleaser(ledger), OpenDPNoise())
    )


@pytest.fixture
def costed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float, float]]:
    """(sensitivity over scale, ρ of the plan, ρ by OpenDP's map) of every Gaussian release of values."""
    seen: list[tuple[float, float, float]] = []

    def watched(build: Any, scale: float, sensitivity: float, rho: float) -> tuple[Any, float]:
        measurement, scale = authorise(build, scale, sensitivity, rho)
        seen.append((sensitivity / scale, rho, measurement.map(sensitivity)))
        return measurement, scale

    monkeypatch.setattr(gaussian_module, "authorise", watched)
    return seen


@pytest.mark.parametrize("privacy", [{}, {"unit": "i", "max_rows": 3}], ids=["rows", "persons"])
@pytest.mark.parametrize("sql", QUERIES)
def test_answers_carry_the_noise_of_bounded_neighbours_and_opendp_agrees(
    sql: str, privacy: dict[str, Any], costed: list[tuple[float, float, float]]
) -> None:
    session, rows = opened(**privacy), privacy.get("max_rows", 1)
    release = session.query(sql, 0.5).release
    # What one row adds; with replacement each part pays half of its share of ρ for that, as two rows of
    # different groups move it √2 times as far (R = 13 is below √2·10, and below 2·√2·6.5).
    scales, added = [], []
    if release.count_scale is not None:
        scales.append(release.count_scale)
        added.append(1.0 * rows)
    if release.sum_scale is not None:
        scales.append(release.sum_scale)
        added.append((6.5 if "AVG" in sql else 10) * rows)
    assert len(costed) == 2 * len(scales)  # once in the rehearsal
    costed = costed[len(scales) :]
    for scale, distance, (ratio, rho, cost) in zip(scales, added, costed, strict=True):
        assert scale == pytest.approx(gaussian_scale(distance, rho), rel=1e-12)
        assert ratio * scale == pytest.approx(distance, rel=1e-12)
        assert rho * (1 - 1e-9) <= cost <= rho
    assert 2 * sum(rho for _, rho, _ in costed) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("sql", QUERIES)
def test_explanations_and_previews_follow(sql: str) -> None:
    margins = {}
    for neighbours in ("unbounded", "bounded"):
        session = opened(neighbours)
        before = session.preview(sql, 1.0)
        answer = session.query(sql, 1.0)
        question = answer.why("a", "b")
        asked: Any = {"k": 2, "rho": 1.0, "mechanism": "one-shot"}
        preview, table = question.preview(**asked), question.explain(**asked)
        aggregate: Any = sql.split()[2].split("(")[0].lower()
        sensitivity = influence_sensitivity(aggregate, (1, -1), -3, 10, neighbours=neighbours)
        planned = gaussian_scale(math.sqrt(2) * sensitivity, 0.25)
        assert table.release.influence_scale == pytest.approx(planned, rel=1e-4)  # a little for rounding
        margins[neighbours] = preview.influence_margin / sensitivity
        assert before.price.rho == answer.release.rho == table.release.rho == 1.0
        if aggregate == "count":
            assert before.margin == pytest.approx(two_sided_quantile(0.95) * answer.release.count_scale)
    assert margins["bounded"] == pytest.approx(margins["unbounded"])


def test_a_replaced_row_moves_the_scores_by_the_grid_at_most() -> None:
    crowd = [("a", "w", 0, 0.0, 0), ("b", "w", 0, 0.0, 0)] * 300
    ways = [
        ("a", "u", 0, 10.0, 0),
        ("b", "u", 0, 10.0, 0),
        ("a", "w", 1, -3.0, 0),
        ("nowhere", "u", 0, 1.0, 0),
    ]
    sessions = [opened(rows=[*crowd, row]) for row in ways]
    for sql in QUERIES:
        scored = []
        for session in sessions:
            question = session.query(sql, 0.1).why("a", "b")
            dataset, query = dataset_of(session), question.answer.statement.query
            family = PredicateFamily.conjunctions(dataset.schema, ("p", "q"), 1)
            kind, grid = query.aggregate.kind, dataset.schema.columns["x"].grid
            unit = influence_sensitivity(kind, (1, -1), grid.low, grid.high, neighbours=BOUNDED)
            data = dataset.question_cells(query, family, question.contrast.groups).reveal()
            middle = grid.low + grid.high if kind == "avg" else 0
            whole = np.zeros(family.size)
            whole[data.active] = scores(true_influences(kind, (1, -1), data, middle), unit)
            scored.append(whole)
        moved = np.ptp(scored, axis=0).max()
        assert moved <= SCORE_GRID + SCORE_SLACK
        if "COUNT" in sql:
            assert moved > 0.99 * SCORE_GRID


@pytest.mark.parametrize("sql", QUERIES)
def test_a_replaced_row_changes_neither_form_nor_charge_nor_key(sql: str) -> None:
    forms = []
    for row in [
        ROWS[0],
        ("c", "v", 1, math.inf, 9),
        (None, None, None, None, None),
        ("?", "?", 7, math.nan, 1),
    ]:
        session = opened(rows=[row, *ROWS[1:]])
        answer = session.query(sql, 0.5)
        table = answer.why("a", "b").explain(k=2, rho=0.5, mechanism="one-shot")
        history = [(e.kind, e.description, e.rho, e.spends, e.state, e.key) for e in session.history]
        form = [row.label for row in answer], answer.release.count_scale, answer.release.sum_scale
        forms.append((form, len(table), table.release.influence_scale, session.budget, history))
    assert all(form == forms[0] for form in forms)


def test_the_kind_of_neighbours_is_part_of_a_request() -> None:
    keys = set()
    for neighbours in ("unbounded", "bounded"):
        session = opened(neighbours)
        session.query(QUERIES[0], 0.5)
        keys.add(session.history[0].key)
    assert len(keys) == 2


def test_the_default_is_unbounded_and_other_words_are_refused() -> None:
    raw = {"table": {"name": "t"}, "privacy": {"rho": 1.0}, "columns": COLUMNS_DECLARED}
    assert Schema.load(raw).privacy.neighbours == "unbounded"
    with pytest.raises(SchemaError, match=r"privacy\.neighbours"):
        Schema.load(raw | {"privacy": {"rho": 1.0, "neighbours": "close"}})
