"""The constants of dpxplain.privacy.sensitivity, attacked from below and from above.

Proofs: ../../docs/proofs/sensitivity.md. A table is its numbers of rows per (group, cell, value); a family
of predicates says which predicates the rows of a cell satisfy. Removing a row is adding it, read backwards.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpxplain.privacy.sensitivity import (
    SCORE_GRID,
    SCORE_SLACK,
    Aggregate,
    family_sensitivity,
    influence_sensitivity,
)

Table = NDArray[np.float64]
ROUNDING = 1 + 1e-9

COLUMNS: list[tuple[Aggregate, float, float]] = [
    ("count", 0, 0),
    ("sum", 0, 10),
    ("sum", 4, 10),
    ("sum", -10, -2),
    ("sum", -10, 10),
    ("sum", -2, 10),
    ("avg", 0, 1),
    ("avg", -6, -2),
    ("avg", -2, 10),
]
WEIGHTS = [
    (1.0, -1.0),
    (2.0,),
    (1.0, -10.0),
    (30.0, -1.0),
    (1.0, 1.0, -2.0),
    (1.0, 1.0, 1.0),
    (-0.5, 2.5, -1.0),
]


@dataclass(frozen=True)
class Family:
    """Which predicates (columns) the rows of each cell (rows) satisfy.

    The first cell satisfies as many as any; the last, outside every declared domain, satisfies none.
    """

    matches: NDArray[np.float64]

    @classmethod
    def of(cls, cells: list[list[bool]]) -> Family:
        return cls(np.array([*cells, [False] * len(cells[0])], dtype=float))

    @property
    def overlap(self) -> int:
        return int(self.matches.sum(axis=1).max())


def attributes(count: int, size: int, conjuncts: int = 1) -> Family:
    """All conjunctions of `conjuncts` among `count` attributes of `size` values."""
    predicates = [
        dict(zip(chosen, values, strict=True))
        for chosen in itertools.combinations(range(count), conjuncts)
        for values in itertools.product(range(size), repeat=conjuncts)
    ]
    cells = itertools.product(range(size), repeat=count)
    return Family.of([[all(cell[k] == v for k, v in p.items()) for p in predicates] for cell in cells])


def either_end(zones: int) -> Family:
    """pickup = z OR dropoff = z."""
    cells = [*itertools.combinations(range(zones), 2), *((z, z) for z in range(zones))]
    return Family.of([[z in cell for z in range(zones)] for cell in cells])


ONE_PREDICATE = attributes(1, 1)
FAMILIES = {
    "one attribute": attributes(1, 5),
    "two attributes": attributes(2, 3),
    "pairs of three attributes": attributes(3, 2, 2),
    "either end": either_end(4),
}


def column_values(aggregate: Aggregate, low: float, high: float, *, interior: bool = False) -> list[float]:
    """The changes are linear in the values, so the bounds are the worst case; the middle is a cross-check."""
    if aggregate == "count":
        return [1.0]
    return [low, (low + high) / 2, high] if interior else [low, high]


def influences(
    aggregate: Aggregate, weights: tuple[float, ...], tables: Table, values: list[float], family: Family
) -> Table:
    """The definition for a batch of tables: (..., group, cell, value) gives (..., predicate)."""
    rows = tables.sum(axis=-1)
    sums = rows if aggregate == "count" else (tables * values).sum(axis=-1)
    n, total = rows.sum(axis=-1)[..., None], sums.sum(axis=-1)[..., None]
    c, remaining = n - rows @ family.matches, total - sums @ family.matches
    w, m = np.array(weights)[:, None], c.min(axis=-2)
    if aggregate == "avg":  # m = 0 makes the influence 0, whatever stands in for an average over no rows
        return np.asarray(m * (w * (total / np.maximum(n, 1) - remaining / np.maximum(c, 1))).sum(axis=-2))
    return np.asarray((w * (total - remaining)).sum(axis=-2) * m / (n.max(axis=-2) + 1))


def farthest_moves(
    aggregate: Aggregate, weights: tuple[float, ...], tables: Table, values: list[float], family: Family
) -> Table:
    """Per table, the length of the longest move of its influences over all rows that can be added."""
    before = influences(aggregate, weights, tables, values, family)
    shape = tables.shape[-3:]
    longest = np.zeros(len(tables))
    for row in np.eye(math.prod(shape)).reshape(-1, *shape):
        move = influences(aggregate, weights, tables + row, values, family) - before
        longest = np.maximum(longest, np.sqrt((move**2).sum(axis=-1)))
    return longest


def small_tables(groups: int, cells: int, values: int, rows: int) -> Table:
    """Every table with at most `rows` rows in each group."""
    kinds = cells * values
    group = [
        np.bincount(np.array(kind, dtype=int), minlength=kinds).reshape(cells, values)
        for size in range(rows + 1)
        for kind in itertools.combinations_with_replacement(range(kinds), size)
    ]
    picks = np.indices((len(group),) * groups).reshape(groups, -1).T
    return np.array(group, dtype=float)[picks]


def worst_tables(weights: tuple[float, ...], cells: int, values: int, rows: int = 10**6) -> Table:
    """The tables on which the proofs lose nothing, up to a share of 1/rows: sections 2 to 5 of the proofs.

    Cell 0 holds (nearly) all rows of some groups and the last cell what must remain of them; the row to add
    goes to a cell without rows. Other groups are kept out of cell 0 or spread over cells 1 to 3.
    """
    groups, tables = len(weights), []
    fillings = itertools.product((True, False), repeat=groups)
    for added, filled, spread, side in itertools.product(
        range(groups), fillings, sorted({-1, 0, values - 1}), (1, -1)
    ):
        table = np.zeros((groups, cells, values))
        for g, w in enumerate(weights):
            extreme = values - 1 if w * side > 0 else 0
            remaining = 0 if g == added else 1
            if filled[g]:
                table[g, 0, extreme] = rows - remaining
                table[g, -1, values - 1 - extreme] = remaining
            elif spread >= 0 and cells > 4:
                table[g, 1:4, spread] = rows // 3
            else:
                table[g, -1, values - 1 - extreme] = rows
        tables.append(table)
    return np.array(tables)


def search(
    aggregate: Aggregate,
    weights: tuple[float, ...],
    values: list[float],
    family: Family,
    *,
    climbers: int = 16,
    steps: int = 40,
) -> float:
    """The longest move found by hill climbing from random tables and from the worst ones of the proofs."""
    rng = np.random.default_rng(20260101)
    shape = (len(weights), len(family.matches), len(values))

    def sizes(*shape: int) -> Table:
        return np.asarray(np.floor(10 ** rng.uniform(0, 6, shape)))

    random = sizes(climbers, *shape) * (rng.random((climbers, *shape)) < 0.4)
    proved = worst_tables(weights, *shape[1:])
    reached = farthest_moves(aggregate, weights, proved, values, family)
    best = np.argsort(reached)[-climbers // 4 :]
    tables, length = np.concatenate([random, proved[best]]), np.zeros(len(random) + len(best))
    each = np.arange(len(tables))

    def somewhere() -> tuple[NDArray[np.intp], ...]:
        return (each, *(rng.integers(0, size, len(tables)) for size in shape))

    proposal = tables
    for _ in range(steps):
        moved = farthest_moves(aggregate, weights, proposal, values, family)
        better = moved > length
        tables, length = np.where(better[:, None, None, None], proposal, tables), np.maximum(length, moved)
        proposal = tables.copy()
        for _ in range(rng.integers(1, 4)):
            here = somewhere()
            x = proposal[here]
            choices = [0 * x, 0 * x + 1, x + 1, np.maximum(x - 1, 0), 2 * x, x // 2, sizes(len(x))]
            menu = np.stack([*choices, proposal[somewhere()]])
            proposal[here] = np.minimum(menu[rng.integers(0, len(menu), len(x)), each], 1e7)
    return float(length.max())


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_no_small_table_moves_one_influence_beyond_its_sensitivity(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    values = column_values(aggregate, low, high, interior=len(weights) < 3)
    tables = small_tables(len(weights), 2, len(values), rows={1: 8, 2: 3, 3: 2}[len(weights)])
    longest = farthest_moves(aggregate, weights, tables, values, ONE_PREDICATE).max()
    assert 0 < longest <= influence_sensitivity(aggregate, weights, low, high) * ROUNDING


@pytest.mark.parametrize("weights", [(1.0, -1.0), (2.0,), (1.0, -10.0)], ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_no_small_table_moves_a_family_beyond_its_sensitivity(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    values = column_values(aggregate, low, high)
    for family, rows in ((attributes(1, 2), 3), (attributes(2, 2), 2), (either_end(3), 1)):
        tables = small_tables(len(weights), len(family.matches), len(values), rows)
        longest = farthest_moves(aggregate, weights, tables, values, family).max()
        limit = family_sensitivity(aggregate, weights, low, high, overlap=family.overlap)
        assert 0 < longest <= limit * ROUNDING


@pytest.mark.parametrize("weights", [*WEIGHTS, (1.0, 1.0, -1.0, -1.0)], ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_the_sensitivity_of_one_influence_holds_in_large_tables_and_would_not_if_lowered(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    values = column_values(aggregate, low, high)
    limit = influence_sensitivity(aggregate, weights, low, high)
    assert 0.999 * limit < search(aggregate, weights, values, ONE_PREDICATE) <= limit * ROUNDING


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "weights", [*WEIGHTS[:2], *(pytest.param(w, marks=pytest.mark.slow) for w in WEIGHTS[2:])], ids=str
)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_the_sensitivity_of_a_family_holds_in_large_tables_and_would_not_if_lowered_by_5_percent(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...], family: str
) -> None:
    values, predicates = column_values(aggregate, low, high), FAMILIES[family]
    limit = family_sensitivity(aggregate, weights, low, high, overlap=predicates.overlap)
    found = search(aggregate, weights, values, predicates, climbers=8, steps=8)
    assert 0.95 * limit < found <= limit * ROUNDING


@pytest.mark.parametrize("weights", [(1.0, -1.0), (-3.0, 3.0), (2.0,)], ids=str)
@pytest.mark.parametrize(
    ("aggregate", "low", "high"), [c for c in COLUMNS if c[0] != "sum" or not c[1] < 0 < c[2]]
)
def test_two_equal_weights_attain_the_sensitivity_of_a_family(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    values, family = column_values(aggregate, low, high), FAMILIES["one attribute"]
    tables = worst_tables(weights, len(family.matches), len(values))
    found = farthest_moves(aggregate, weights, tables, values, family).max()
    assert found > 0.9999 * family_sensitivity(aggregate, weights, low, high, overlap=1)


def test_four_balanced_groups_stay_within_the_sensitivity_of_a_family_though_it_is_not_attained() -> None:
    weights = (1.0, 1.0, -1.0, -1.0)
    limit = family_sensitivity("count", weights, overlap=1)
    assert 0.75 * limit < search("count", weights, [1.0], FAMILIES["one attribute"]) < limit


@pytest.mark.parametrize("weights", [*WEIGHTS, (1.0, 1.0, -1.0, -1.0)], ids=str)
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_every_constant_is_at_most_the_one_of_the_specification_and_of_the_paper(
    aggregate: Aggregate, low: float, high: float, weights: tuple[float, ...]
) -> None:
    W, w, R, A = sum(map(abs, weights)), max(map(abs, weights)), high - low, max(abs(low), abs(high))
    K = max(sum(x for x in weights if x > 0), -sum(x for x in weights if x < 0))
    if aggregate == "count":
        specified, squared, published = K, K * (K + W), 2 * W
    elif aggregate == "avg":
        correction = max(32 / 27 * w - W, 0) * w
        specified, squared, published = W * R, (W**2 + w**2 + correction) * R**2, 8 * W * A
    elif low < 0 < high:
        specified, squared, published = W * A, (W**2 + ((W + w) ** 2 / (4 * W)) ** 2) * A**2, 2 * W * A
    else:
        specified, squared, published = K * A, K * (K + W) * A**2, 2 * W * A
    one = influence_sensitivity(aggregate, weights, low, high)
    assert one <= specified * ROUNDING
    assert family_sensitivity(aggregate, weights, low, high, overlap=3) <= math.sqrt(3 * squared) * ROUNDING
    assert one < influence_sensitivity(aggregate, weights, low, high, paper=True) == published
    assert one <= family_sensitivity(aggregate, weights, low, high, overlap=1)


def test_two_groups_have_the_constants_of_the_specification() -> None:
    assert influence_sensitivity("count", (1, -1)) == 1
    assert influence_sensitivity("sum", (1, -1), 0, 7) == influence_sensitivity("sum", (1, -1), -7, -1) == 7
    assert influence_sensitivity("sum", (1, -1), -7, 7) == 14
    assert influence_sensitivity("avg", (1, -1), 3, 7) == 8
    assert influence_sensitivity("avg", (1, -1), 0, 7, paper=True) == 112
    assert family_sensitivity("avg", (1, -1), 0, 7, overlap=4) == pytest.approx(7 * math.sqrt(20))


def test_a_bound_just_below_zero_costs_little_more_than_zero() -> None:
    assert influence_sensitivity("sum", (1, -1), -0.01, 7) == pytest.approx(7.01)
    at_zero = family_sensitivity("sum", (1, -1), 0, 7, overlap=1)
    assert family_sensitivity("sum", (1, -1), -0.01, 7, overlap=1) == pytest.approx(at_zero, rel=0.005)


@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_zero_weights_order_and_an_overall_sign_do_not_matter(
    aggregate: Aggregate, low: float, high: float
) -> None:
    for weights in ((1, -3, 0.5), (0, 0.5, 0, 1, -3), (-1, 3, -0.5)):
        one = influence_sensitivity(aggregate, weights, low, high)
        assert one == influence_sensitivity(aggregate, (1, -3, 0.5), low, high)
        all_of_them = family_sensitivity(aggregate, weights, low, high, overlap=2)
        assert all_of_them == family_sensitivity(aggregate, (1, -3, 0.5), low, high, overlap=2)
    with_zero = family_sensitivity(aggregate, (2, 0), low, high, overlap=2)
    assert with_zero == family_sensitivity(aggregate, (2,), low, high, overlap=2)


def test_a_column_of_one_public_value_has_nothing_to_hide_but_its_rows() -> None:
    assert (
        influence_sensitivity("avg", (1, -1), 5, 5)
        == family_sensitivity("avg", (1, -1), 5, 5, overlap=1)
        == 0
    )
    assert (
        influence_sensitivity("sum", (1, -1), 0, 0)
        == family_sensitivity("sum", (1, -1), 0, 0, overlap=1)
        == 0
    )
    assert influence_sensitivity("sum", (1, -1), 5, 5) == 5


@pytest.mark.parametrize("weights", [(), (0.0, 0), (1, math.nan), (1, -math.inf)], ids=str)
def test_a_question_without_usable_weights_is_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weight"):
        influence_sensitivity("count", weights)
    with pytest.raises(ValueError, match="weight"):
        family_sensitivity("count", weights, overlap=1)


@pytest.mark.parametrize(
    ("low", "high"), [(1, 0), (math.nan, 1), (0, math.nan), (-math.inf, 0), (0, math.inf)]
)
@pytest.mark.parametrize("aggregate", ["sum", "avg"])
def test_bounds_that_bound_nothing_are_refused(aggregate: Aggregate, low: float, high: float) -> None:
    with pytest.raises(ValueError, match="bounds"):
        influence_sensitivity(aggregate, (1, -1), low, high)
    assert influence_sensitivity("count", (1, -1), low, high) == 1


def test_an_unknown_aggregate_or_an_overlap_of_none_is_refused() -> None:
    unknown: Any = "median"
    with pytest.raises(ValueError, match="aggregate"):
        influence_sensitivity(unknown, (1, -1), 0, 1)
    with pytest.raises(ValueError, match="overlap"):
        family_sensitivity("count", (1, -1), overlap=0)


@pytest.mark.parametrize("aggregate", ["sum", "avg"])
@pytest.mark.parametrize(("weight", "high"), [(1e-200, 1e-200), (1e200, 1e200), (5e-324, 0.1)])
def test_a_sensitivity_never_leaves_the_range_of_floats_silently(
    aggregate: Aggregate, weight: float, high: float
) -> None:
    for paper in (True, False):
        with pytest.raises(ValueError, match="multiplied"):
            influence_sensitivity(aggregate, (weight, -weight), 0, high, paper=paper)
    with pytest.raises(ValueError, match="multiplied"):
        family_sensitivity(aggregate, (weight, -weight), 0, high, overlap=1)


@pytest.mark.parametrize("scale", [1e-120, 1e120])
@pytest.mark.parametrize(("aggregate", "low", "high"), COLUMNS)
def test_tiny_and_huge_weights_scale_the_sensitivity(
    aggregate: Aggregate, low: float, high: float, scale: float
) -> None:
    for weights in ((1.0, -1.0), (1.0, -30.0)):
        scaled = tuple(scale * w for w in weights)
        one = influence_sensitivity(aggregate, weights, low, high)
        assert influence_sensitivity(aggregate, scaled, low, high) == pytest.approx(
            scale * one, rel=1e-12, abs=0
        )
        whole = family_sensitivity(aggregate, weights, low, high, overlap=2)
        of_scaled = family_sensitivity(aggregate, scaled, low, high, overlap=2)
        assert of_scaled == pytest.approx(scale * whole, rel=1e-12, abs=0)


def test_the_influence_at_a_rank_moves_no_further_than_the_influences_do() -> None:
    family, values = attributes(1, 2), [0.0, 1.0]
    tables = small_tables(2, len(family.matches), len(values), rows=2)
    before = np.sort(influences("avg", (1.0, -1.0), tables, values, family), axis=-1)
    limit = influence_sensitivity("avg", (1.0, -1.0), 0, 1)
    for row in np.eye(math.prod(tables.shape[1:])).reshape(-1, *tables.shape[1:]):
        after = np.sort(influences("avg", (1.0, -1.0), tables + row, values, family), axis=-1)
        assert np.abs(after - before).max() <= limit


# Scores in integers: section 7 of the proofs.

Number = type[float] | type[Fraction]
Group = tuple[int, int, int, int]  # a, c, sum over the predicate, sum over the group


def score(
    number: Number, aggregate: Aggregate, weights: list[float], groups: list[Group], unit: float
) -> float | Fraction:
    """A score before rounding, in either arithmetic, in the order of operations the proof is about."""
    m, M = min(c for _, c, _, _ in groups), max(a + c for a, c, _, _ in groups)
    if m == 0:
        return number(0)
    if aggregate == "avg":
        total = sum(
            number(w)
            * (number(m) * (number(a + c) * number(U) - number(a) * number(S)) / number((a + c) * c))
            for w, (a, c, U, S) in zip(weights, groups, strict=True)
        )
    else:
        x = sum(number(w) * number(U) for w, (_, _, U, _) in zip(weights, groups, strict=True))
        total = x * number(m) / number(M + 1)
    return total * (number(SCORE_GRID) / number(unit))


def random_group(rng: np.random.Generator, rows: int, largest: int) -> Group:
    """Counts and sums of a group of about `rows` rows whose values lie in [-largest, largest]."""
    n = int(rows * rng.choice([1, rng.random()]))
    c = int(n * rng.choice([0.25, 0.5, 0.999, rng.random()]))
    a = n - c
    U = int(a * largest * rng.choice([1, 0.999999, rng.uniform(-1, 1)]))
    rest = int(c * largest * rng.choice([1, 0.999999, -1, rng.uniform(-1, 1)]))
    return a, c, U, U + rest


@pytest.mark.parametrize("aggregate", ["count", "sum", "avg"])
@pytest.mark.parametrize("number_of_groups", [1, 2, 3, 5, 40])
def test_float_error_of_a_score_stays_within_the_slack(aggregate: Aggregate, number_of_groups: int) -> None:
    rng = np.random.default_rng(number_of_groups)
    allowed = (SCORE_SLACK - 1) / 2
    for _ in range(300 // number_of_groups + 20):
        largest = int(rng.choice([1, 10**4, 2**31]))
        weights = [float(w) for w in rng.choice([1.0, -1.0, 0.1, -1e9, rng.normal()], number_of_groups)]
        groups = [random_group(rng, 2**31 // number_of_groups, largest) for _ in weights]
        if aggregate == "count":
            groups = [(a, c, a, a + c) for a, c, _, _ in groups]
        unit = influence_sensitivity(aggregate, weights, -largest, largest)
        computed, exact = (
            Fraction(score(kind, aggregate, weights, groups, unit)) for kind in (float, Fraction)
        )
        assert abs(computed - exact) < allowed


@pytest.mark.parametrize("aggregate", ["count", "sum", "avg"])
def test_one_row_moves_an_integer_score_by_the_grid_and_no_more_than_the_slack_beyond(
    aggregate: Aggregate,
) -> None:
    rows, top, weights = 2**30 - 4, 2**31, [1.0, -1.0]
    value = 1 if aggregate == "count" else top
    unit = influence_sensitivity(aggregate, weights, -top, top)

    def group(a: int, c: int, of_matching: int, of_others: int) -> Group:
        return a, c, a * of_matching, a * of_matching + c * of_others

    for left in (0, 1, 2):  # a row that does not match joins the group with the fewest rows left
        other = group(0, rows, 0, value) if aggregate == "count" else group(rows, left + 1, -value, value)
        before, after = (
            round(score(float, aggregate, weights, [group(rows, c, value, -value), other], unit))
            for c in (left, left + 1)
        )
        assert 0.99 * SCORE_GRID < abs(after - before) <= SCORE_GRID + SCORE_SLACK
