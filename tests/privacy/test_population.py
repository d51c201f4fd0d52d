"""Intervals for the population: coverage by simulation, small groups and skewed columns included.

Every simulation has a fixed seed and draws its own rows, so that no test can fail by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from dpxplain.model.contrast import Contrast, Ratio, Verdict
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.release import AnswerRelease
from dpxplain.model.schema import Schema
from dpxplain.phases.assess import PopulationReading, assess, assess_ratio
from dpxplain.privacy.population_intervals import count_ends, mean_ends, sum_ends

REPEATS = 600
WANTED = 0.93  # of 0.95: standard errors of a simulation this size are 0.009


@cache
def schema(**privacy: object) -> Schema:
    return Schema.load(
        {
            "table": {"name": "t"},
            "privacy": {"rho": 1, **privacy},
            "columns": {
                "g": {"values": ["a", "b", "c"]},
                "x": {"bounds": [0, 1], "step": 1},
                "pay": {"bounds": [0, 100]},
                "change": {"bounds": [-5, 5]},
            },
        }
    )


def reading(
    kind: str, column: str | None, declared: Schema, moments: AnswerRelease | None = None, **parts: object
) -> PopulationReading:
    unset = dict.fromkeys(("noisy_count", "count_scale", "noisy_sum", "sum_scale"))
    release = AnswerRelease(**{"rho": 1.0, **unset, **parts})  # type: ignore[arg-type]
    return PopulationReading(release, Query("t", ("g",), Aggregate(kind, column)), declared, moments)  # type: ignore[arg-type]


def coverage(truth: float, ends: tuple[NDArray[np.float64], NDArray[np.float64]]) -> float:
    return float(np.mean((ends[0] <= truth + 1e-12) & (truth - 1e-12 <= ends[1])))


@pytest.mark.parametrize("mean", [0.2, 4, 28, 75, 400])
@pytest.mark.parametrize("scale", [0.7, 15.0])
def test_an_expected_count_is_covered_however_small(mean: float, scale: float) -> None:
    random = np.random.default_rng(18)
    noisy = random.poisson(mean, REPEATS) + scale * random.normal(size=REPEATS)
    assert coverage(mean, count_ends(noisy, scale, 0.05)) >= WANTED


def test_privacy_noise_alone_does_not_cover_the_population() -> None:
    """The power of these simulations: what they are for."""
    random = np.random.default_rng(18)
    noisy = random.poisson(400, REPEATS) + random.normal(size=REPEATS)
    assert coverage(400, (noisy - 1.96, noisy + 1.96)) < 0.2
    assert coverage(400, count_ends(noisy, 1.0, 0.05)) < 0.98  # and the interval is not simply huge


@pytest.mark.parametrize(("rows", "share"), [(200, 0.9), (2000, 0.98), (500, 1.0)])
def test_a_group_that_has_most_rows_varies_less_than_a_small_one(rows: int, share: float) -> None:
    random = np.random.default_rng(18)
    noisy = random.binomial(rows, share, REPEATS) + 2.0 * random.normal(size=REPEATS)
    ends = count_ends(noisy, 2.0, 0.05, total=rows + 10.0)
    assert coverage(rows * share, ends) >= WANTED
    without_total = count_ends(noisy, 2.0, 0.05)
    assert np.median(ends[1] - ends[0]) < 0.6 * np.median(without_total[1] - without_total[0])


@pytest.mark.parametrize("rows", [4, 25, 300, 5000])
@pytest.mark.parametrize("share", [0.002, 0.03, 0.4])
def test_a_share_is_covered_in_small_groups_and_near_its_bounds(rows: int, share: float) -> None:
    random = np.random.default_rng(18)
    hits = random.binomial(rows, share, REPEATS)
    ends = mean_ends(noisy_means(hits, np.full(REPEATS, rows), 2.0, random), 0.05)
    assert coverage(share, ends) >= WANTED


def noisy_means(
    sums: NDArray[np.int64], counts: NDArray[np.int64], scale: float, random: np.random.Generator
):  # type: ignore[no-untyped-def]
    from dpxplain.privacy.intervals import NoisyMean

    centred = sums - counts / 2 + 0.7 * scale * random.normal(size=len(sums))
    noisy = counts + scale * random.normal(size=len(sums))
    return [NoisyMean(s, n, 0.7 * scale, scale, 0.0, 1.0) for s, n in zip(centred, noisy, strict=True)]


SKEWED: dict[str, tuple[Callable[[np.random.Generator, int], NDArray[np.float64]], float]] = {
    "exponential": (lambda r, n: np.minimum(r.exponential(10, (REPEATS, n)), 100), 10 * (1 - np.exp(-10))),
    "rare and large": (lambda r, n: (r.random((REPEATS, n)) < 0.02) * r.uniform(0, 100, (REPEATS, n)), 1.0),
}


@pytest.mark.parametrize("kind", SKEWED)
@pytest.mark.parametrize("rows", [10, 200, 3000])
@pytest.mark.parametrize("bought", [False, True])
def test_an_average_of_a_skewed_column_is_covered(kind: str, rows: int, bought: bool) -> None:
    """By its bounds alone, and by a released variance."""
    draw, mean = SKEWED[kind]
    random = np.random.default_rng(18)
    centred = draw(random, rows) - 50.0
    parts = {
        "noisy_count": tuple(rows + 2.0 * random.normal(size=REPEATS)),
        "count_scale": 2.0,
        "noisy_sum": tuple(centred.sum(axis=1) + 60.0 * random.normal(size=REPEATS)),
        "sum_scale": 60.0,
    }
    squares = (2 * centred**2 - 2500.0).sum(axis=1) + 3000.0 * random.normal(size=REPEATS)
    moments = AnswerRelease(1.0, **parts, noisy_squares=tuple(squares), squares_scale=3000.0)  # type: ignore[arg-type]
    read = reading("avg", "pay", schema(), moments if bought else None, **parts)
    ends = np.array(read.intervals(0.95))
    assert coverage(mean, (ends[:, 0], ends[:, 1])) >= WANTED


def test_a_released_variance_narrows_a_large_group() -> None:
    rows, parts = 50_000, {"count_scale": 2.0, "sum_scale": 60.0}
    parts |= {"noisy_count": (rows,), "noisy_sum": (0.0,)}  # type: ignore[dict-item]
    squares = (rows * (2 * 10.0**2 - 2500.0),)  # a standard deviation of 10
    moments = AnswerRelease(1.0, **parts, noisy_squares=squares, squares_scale=3000.0)  # type: ignore[arg-type]
    widths = []
    for bought in (None, moments):
        ((low, high),) = reading("avg", "pay", schema(), bought, **parts).intervals(0.95)
        widths.append(high - low)
    assert widths[1] < 0.4 * widths[0]


@pytest.mark.parametrize("rows", [3, 40, 2000])
def test_a_sum_is_covered(rows: int) -> None:
    random = np.random.default_rng(18)
    counts = random.poisson(rows, REPEATS)
    sums = np.array([np.minimum(random.exponential(10, n), 100).sum() for n in counts])
    noisy = sums + 30.0 * random.normal(size=REPEATS)
    mean = rows * 10 * (1 - np.exp(-10))
    assert coverage(mean, sum_ends(noisy, 30.0, 100.0, 0.05)) >= WANTED
    below, above = sum_ends(-noisy, 30.0, -100.0, 0.05)  # the mirror: values of at most 0
    assert coverage(-mean, (below, above)) >= WANTED


@pytest.mark.parametrize("rows", [30, 400])
def test_data_drawn_at_random_have_no_difference_in_general(rows: int) -> None:
    """Two groups of one population: "in these data" a gap is often real, in general hardly ever."""
    random, declared = np.random.default_rng(18), schema()
    gap = Contrast((0, 1), (1.0, -1.0))
    query = Query("t", ("g",), Aggregate("avg", "x"))
    here = general = 0
    for _ in range(300):
        hits = random.binomial(rows, 0.3, 3)
        release = AnswerRelease(
            rho=1.0,
            noisy_count=tuple(rows + 0.5 * random.normal(size=3)),
            count_scale=0.5,
            noisy_sum=tuple(hits - rows / 2 + 0.35 * random.normal(size=3)),
            sum_scale=0.35,
        )
        here += assess(release, query, declared, gap, 0.95, "mover").verdict is not Verdict.UNCLEAR
        verdict = PopulationReading(release, query, declared).assess(gap, 0.95).verdict
        general += verdict is not Verdict.UNCLEAR
    assert here > 150
    assert general <= 27  # of 300: four standard errors above 5%


@pytest.mark.parametrize("shares", [(0.5, 0.3, 0.2), (0.02, 0.01, 0.97)])
def test_a_difference_of_counts_is_covered_under_multinomial_draws(shares: tuple[float, ...]) -> None:
    random, declared, rows = np.random.default_rng(18), schema(), 600
    gap, covered = Contrast((0, 1), (1.0, -1.0)), 0
    for _ in range(300):
        counts = random.multinomial(rows, shares) + 1.5 * random.normal(size=3)
        read = reading("count", None, declared, noisy_count=tuple(counts), count_scale=1.5)
        low, high = read.assess(gap, 0.95).interval
        covered += low <= rows * (shares[0] - shares[1]) <= high
    assert covered >= 273  # of 300: four standard errors below 95% is 270


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "share", "many"), [(10, 0.02, 0.3), (20, 0.02, 0.3), (10, 0.001, 0.1)])
def test_the_rows_of_persons_are_covered_though_their_number_is_drawn_too(
    rows: int, share: float, many: float
) -> None:
    """Persons with one row or `rows`; nearly all are in group a."""
    random, declared, persons = np.random.default_rng(18), schema(unit="who", max_rows=rows), 1000
    means = persons * (1 - many + many * rows) * np.array([1 - share, share])
    covered = np.zeros(2)
    for _ in range(400):
        each = np.where(random.random(persons) < many, rows, 1)
        elsewhere = random.random(persons) < share
        counts = np.array([each[~elsewhere].sum(), each[elsewhere].sum(), 0]) + random.normal(size=3)
        read = reading("count", None, declared, noisy_count=tuple(counts), count_scale=1.0)
        ends = np.array(read.intervals(0.95))[:2]
        covered += (ends[:, 0] <= means) & (means <= ends[:, 1])
        interval = read.assess(Contrast((0,), (1.0,)), 0.95).interval
        assert interval == pytest.approx(tuple(ends[0]))
    assert covered.min() >= WANTED * 400


SUMS = {
    "of five tiny groups": ([0.1] * 5, [1.0] * 5),
    "of ten tiny groups": ([0.2] * 10, [1.0] * 10),
    "of a large and four tiny groups": ([60.0, 0.1, 0.1, 0.1, 0.1], [1.0] * 5),
    "one against the others": ([0.2] * 10, [1.0, *[-1 / 9] * 9]),
    "two tiny groups": ([0.1, 0.1], [1.0, -1.0]),
    "a large one and a tiny one": ([50.0, 0.1], [1.0, -1.0]),
    "unequal weights": ([0.3, 0.5, 0.2, 2.0], [1.0, 2.0, 0.5, -1.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("name", SUMS)
def test_weighted_sums_of_tiny_groups_are_covered(name: str, scale: float) -> None:
    """Ends that were cut at 0 before they were added made these intervals too short."""
    (means, weights), random, covered = SUMS[name], np.random.default_rng(18), 0
    groups, truth = tuple(range(len(means))), float(np.dot(means, weights))
    for _ in range(400):
        counts = random.poisson(means) + scale * random.normal(size=len(means))
        read = reading("count", None, schema(), noisy_count=tuple(counts), count_scale=scale)
        low, high = read.weigh(groups, 0.95)(weights)
        covered += low - 1e-12 <= truth <= high + 1e-12
    assert covered >= WANTED * 400


def test_a_sum_of_many_groups_is_as_wide_as_its_total_and_no_wider() -> None:
    counts = tuple([40.0] * 25)
    read = reading("count", None, schema(), noisy_count=counts, count_scale=1.0)
    low, high = read.weigh(range(25), 0.95)([1.0] * 25)
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(1000 + 25 + 1), rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "share", "scale"), [(50, 0.995, 1.0), (2000, 0.999, 5.0), (20, 0.02, 0.5)])
def test_a_share_of_a_total_is_covered_near_0_and_1(rows: int, share: float, scale: float) -> None:
    random, ratio, covered = np.random.default_rng(18), Ratio(0, (0, 1, 2), 0.5), 0
    shares = [share, (1 - share) / 2, (1 - share) / 2]
    for _ in range(300):
        counts = tuple(random.multinomial(rows, shares) + scale * random.normal(size=3))
        read = reading("count", None, schema(), noisy_count=counts, count_scale=scale)
        low, high = assess_ratio(ratio, counts, read.weigh(ratio.groups, 0.95), (0.0, 1.0)).interval
        covered += low <= share <= high
    assert covered >= WANTED * 300


@pytest.mark.slow
@pytest.mark.parametrize(
    "weights", [(1.0, 1.0, 1.0, 1.0), (1.0, -1 / 3, -1 / 3, -1 / 3), (1.0, -1.0, 0.0, 0.0)]
)
@pytest.mark.parametrize(("rows", "share", "scale"), [(40, 0.005, 0.2), (100, 0.998, 2.0), (500, 0.001, 1.0)])
def test_weighted_averages_are_covered_at_the_bounds(
    weights: tuple[float, ...], rows: int, share: float, scale: float
) -> None:
    random, covered = np.random.default_rng(18), 0
    for _ in range(400):
        centred = random.binomial(rows, share, 4) - rows / 2 + scale / 2 * random.normal(size=4)
        read = reading(
            "avg", "x", schema(),
            noisy_count=tuple(rows + scale * random.normal(size=4)), count_scale=scale,
            noisy_sum=tuple(centred), sum_scale=scale / 2,
        )  # fmt: skip
        low, high = read.weigh(range(4), 0.95)(weights)
        covered += low - 1e-12 <= share * sum(weights) <= high + 1e-12
    assert covered >= WANTED * 400


def test_everyone_in_one_group_and_nobody_in_the_others() -> None:
    counts = (10_000.0, -1.0, 0.4)
    read = reading("count", None, schema(), noisy_count=counts, count_scale=2.0)
    whole, *empty = read.intervals(0.95)
    assert whole[0] <= 10_000 <= whole[1]
    assert whole[1] - whole[0] < 60  # most of Poisson's variance is not there
    assert all(low == 0.0 and high < 8.0 for low, high in empty)


def test_rows_of_one_person_vary_together() -> None:
    alone, parts = schema(), {"noisy_sum": None, "sum_scale": None, "count_scale": 1.0}
    persons = schema(unit="who", max_rows=4)
    counts = (400.0, 300.0, 900.0)
    narrow = reading("count", None, alone, noisy_count=counts, **parts).assess(Contrast((0,), (1.0,)), 0.95)
    wide = reading("count", None, persons, noisy_count=counts, **parts).assess(Contrast((0,), (1.0,)), 0.95)
    assert wide.interval[1] - wide.interval[0] > 1.9 * (narrow.interval[1] - narrow.interval[0])
    assert "4 rows of one who" in reading("count", None, persons, noisy_count=counts, **parts).basis


@pytest.mark.parametrize(
    ("kind", "column", "words"),
    [("sum", "change", "both negative and positive values"), ("var_samp", "pay", "Only COUNT, SUM and AVG")],
)
def test_what_cannot_be_told_says_why(kind: str, column: str, words: str) -> None:
    assert words in reading(kind, column, schema(), noisy_sum=(1.0,), sum_scale=1.0).refusal
