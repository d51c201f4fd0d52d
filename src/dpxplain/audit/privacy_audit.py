"""Runs designs: draws releases of both tables until the time is up, and computes lower bounds of the privacy
cost from them.

It also checks whether released numbers reveal that they were made with floating-point noise. Such noise,
added to a true value, reaches only some of the numbers nearby, and which ones depends on the true value
(Mironov, CCS 2012). Exact samplers release multiples of one public step, far coarser than floating point, and
every true value can reach all of these.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

import dpxplain as dpx
from dpxplain.audit.designs import Design, Releases, answer_designs, explanation_designs

FloatArray = NDArray[np.float64]


# -- Confidence bounds -------------------------------------------------------------------------------------
#
# Exact one-sided bounds of probabilities (Clopper and Pearson) and of means of bounded numbers (betting).

_STEPS = 60  # halvings of [0, 1]
_MOST_TERMS = 100_000
_TINY = 1e-300


def lower_probability(hits: int, trials: int, level: float) -> float:
    """The lower Clopper–Pearson bound; it exceeds the true probability with probability at most `level`.

    >>> round(lower_probability(50, 100, 0.025), 4), lower_probability(0, 100, 0.025)
    (0.3983, 0.0)
    """
    if hits == 0:
        return 0.0
    return _bisect(lambda p: beta_cdf(p, hits, trials - hits + 1) < level)[0]


def upper_probability(hits: int, trials: int, level: float) -> float:
    """The upper Clopper–Pearson bound.

    >>> round(upper_probability(50, 100, 0.025), 4), round(upper_probability(0, 100, 0.05), 4)
    (0.6017, 0.0295)
    """
    return 1.0 - lower_probability(trials - hits, trials, level)


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction.

    >>> round(beta_cdf(0.5, 2, 2), 12), round(beta_cdf(0.25, 1, 1), 12)
    (0.5, 0.25)
    """
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_cdf(1.0 - x, b, a)
    log_factor = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_factor) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation of the continued fraction 8.17.22 in the NIST handbook of functions."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _MOST_TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _not_zero(1.0 + numerator * d)
            c = _not_zero(1.0 + numerator / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def lower_mean(values: FloatArray, least: float, level: float, guess: tuple[float, float]) -> float:
    """A lower bound of the mean of numbers that are never below `least`; wrong with probability ≤ `level`.

    A gambler who stakes a fixed share λ on "above m" at fair odds multiplies his capital by Π(1 + λ(x − m)).
    If the mean is m or less, the expected capital is at most 1, so by Markov's inequality it exceeds 1/level
    with probability `level` at most: every such m is excluded (Waudby-Smith and Ramdas, 2024). λ follows from
    a mean and a standard deviation guessed beforehand; a bad guess makes the bound wide, never wrong.

    >>> x = np.tile([0.0, 1.0], 500)
    >>> 0.4 < lower_mean(x, 0.0, 0.01, (0.5, 0.5)) < 0.5
    True
    """
    mean, spread = guess
    goal = math.log(1.0 / level)
    stake = math.sqrt(2.0 * goal / len(values)) / max(spread, _TINY)
    stake = min(stake, 0.9 / max(mean - least, _TINY))
    # Beyond this m the smallest number would leave no capital, and Markov's inequality would not hold.
    reach = 0.99 / stake

    def is_excluded(share: float) -> bool:
        return float(np.log1p(stake * (values - least - share * reach)).sum()) >= goal

    return least + _bisect(is_excluded)[0] * reach


def upper_mean(values: FloatArray, greatest: float, level: float, guess: tuple[float, float]) -> float:
    """An upper bound of the mean of numbers that are never above `greatest`.

    >>> x = np.tile([0.0, 1.0], 500)
    >>> 0.5 < upper_mean(x, 1.0, 0.01, (0.5, 0.5)) < 0.6
    True
    """
    return -lower_mean(-values, -greatest, level, (-guess[0], guess[1]))


def _bisect(below: Callable[[float], bool]) -> tuple[float, float]:
    """The ends of a tiny interval in [0, 1] in which `below` turns from true to false."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high


# -- Evidence ----------------------------------------------------------------------------------------------
#
# A likelihood ratio gives every release a score: how much likelier it is under one table than under its
# neighbour. It is fitted to examples, without knowing how the numbers were made: to frequencies of what was
# chosen, Gaussian densities of what was measured, and exact values that recur, which noise would prevent. How
# often the scores pass a threshold is compared with what ρ-zCDP allows.
#
# The score, its thresholds and its clipping are all chosen on one half of the releases, every second one. The
# other half is used for the bounds only, so that they hold at the requested level.

Key = tuple[object, ...]

_REPEATED = 0.02  # an exact value in at least this share of the examples counts as recurring
_ENOUGH = 40  # examples with one key that each table needs before densities are fitted to them
_RIDGE = 1e-9  # added, relative to each number's variance: a number that never changes has a density too


@dataclass(frozen=True)
class Sample:
    """Releases of one table: for each, what was chosen (a name) and what was measured (a row of numbers)."""

    names: Sequence[str]
    numbers: FloatArray

    def __len__(self) -> int:
        return len(self.names)

    def part(self, rows: slice) -> Sample:
        return Sample(self.names[rows], self.numbers[rows])


@dataclass(frozen=True)
class _Densities:
    """The logarithm of the ratio of two Gaussian densities with one covariance: linear in the numbers."""

    direction: FloatArray
    middle: float

    @classmethod
    def fit(cls, table: FloatArray, neighbour: FloatArray) -> _Densities:
        gap = neighbour.mean(axis=0) - table.mean(axis=0)
        centred = np.vstack([table - table.mean(axis=0), neighbour - neighbour.mean(axis=0)])
        covariance = centred.T @ centred / max(1, len(centred) - 2)
        scale = np.diag(covariance) + gap**2
        covariance += np.diag(_RIDGE * np.where(scale > 0, scale, 1.0))
        direction = np.linalg.solve(covariance, gap)
        return cls(direction, float(direction @ (table.mean(axis=0) + neighbour.mean(axis=0))) / 2.0)

    def ratio(self, numbers: FloatArray) -> FloatArray:
        ratio: FloatArray = numbers @ self.direction - self.middle
        return ratio


@dataclass(frozen=True)
class LikelihoodRatio:
    """log P(release | neighbour) − log P(release | table), as fitted to examples of both."""

    repeated: tuple[frozenset[float], ...]  # for each number, the exact values that recur
    shares: dict[Key, float] = field(default_factory=dict)
    densities: dict[Key, _Densities] = field(default_factory=dict)

    @classmethod
    def fit(cls, table: Sample, neighbour: Sample) -> LikelihoodRatio:
        repeated = tuple(_repeated(column) for column in np.vstack([table.numbers, neighbour.numbers]).T)
        model = cls(repeated)
        keys = [_keys(sample, repeated) for sample in (table, neighbour)]
        counts = [Counter(keys_of_table) for keys_of_table in keys]
        kinds = len(counts[0] | counts[1])
        totals = [len(sample) + kinds / 2 for sample in (table, neighbour)]
        for key in counts[0] | counts[1]:
            model.shares[key] = float(
                np.log((counts[1][key] + 0.5) / totals[1]) - np.log((counts[0][key] + 0.5) / totals[0])
            )
            if table.numbers.shape[1] and min(count[key] for count in counts) >= _ENOUGH:
                rows = [np.array([k == key for k in keys_of_table]) for keys_of_table in keys]
                model.densities[key] = _Densities.fit(table.numbers[rows[0]], neighbour.numbers[rows[1]])
        return model

    def score(self, sample: Sample) -> FloatArray:
        keys = _keys(sample, self.repeated)
        scores = np.array([self.shares.get(key, 0.0) for key in keys], dtype=np.float64)
        for key, densities in self.densities.items():
            rows = np.array([k == key for k in keys], dtype=np.bool_)
            if rows.any():
                scores[rows] += densities.ratio(sample.numbers[rows])
        return scores


def _keys(sample: Sample, repeated: Sequence[frozenset[float]]) -> list[Key]:
    """The discrete part of each release: its name, and those of its numbers that recur."""
    places = [(number, values) for number, values in enumerate(repeated) if values]
    return [
        (name, *((n, x) for n, values in places if (x := float(row[n])) in values))
        for name, row in zip(sample.names, sample.numbers, strict=True)
    ]


def _repeated(column: FloatArray) -> frozenset[float]:
    values, counts = np.unique(column, return_counts=True)
    return frozenset(values[counts >= max(3, _REPEATED * len(column))].tolist())


_ORDERS = 1.0 + np.logspace(-3.0, 3.0, 121)  # Rényi orders α


def rho_of_event(p: float, q: float) -> float:
    """The least ρ under which an event may have probability p in one table and q in its neighbour.

    ρ-zCDP bounds the Rényi divergence of every order α by α·ρ, and looking at a single event never increases
    a divergence. So ρ is at least D_α(p ‖ q)/α for every α. Each α gives a valid bound, so a grid of them
    may make the result too small, never too large.

    >>> rho_of_event(0.5, 0.5), round(rho_of_event(0.9, 0.1), 3)
    (0.0, 1.757)
    """
    if p <= q:
        return 0.0
    if q <= 0.0:
        return math.inf
    hit = _ORDERS * math.log(p) + (1.0 - _ORDERS) * math.log(q)
    missed = np.full_like(hit, -np.inf)
    if p < 1.0:
        missed = _ORDERS * math.log1p(-p) + (1.0 - _ORDERS) * math.log1p(-q)
    return max(0.0, float((np.logaddexp(hit, missed) / (_ORDERS * (_ORDERS - 1.0))).max()))


def delta_allowed(rho: float, epsilon: float) -> float:
    """The δ at which ρ-zCDP implies (ε, δ)-differential privacy (Canonne, Kamath and Steinke 2020, prop. 12).

    >>> round(delta_allowed(0.5, 1.0), 3), delta_allowed(0.5, 0.0) <= 1.0
    (0.247, True)
    """
    log_delta = (
        (_ORDERS - 1.0) * (_ORDERS * rho - epsilon)
        - np.log(_ORDERS - 1.0)
        + _ORDERS * np.log1p(-1.0 / _ORDERS)
    )
    return min(1.0, math.exp(min(0.0, float(log_delta.min()))))


def epsilon_allowing(rho: float, delta: float) -> float:
    """The ε at which ρ-zCDP allows only δ: the inverse of `delta_allowed`.

    >>> round(delta_allowed(0.5, epsilon_allowing(0.5, 0.01)), 6)
    0.01
    """
    most = 1.0 + 2.0 * rho + 10.0 * math.sqrt(rho * math.log(1.0 / delta))
    return _bisect(lambda share: delta_allowed(rho, share * most) > delta)[1] * most


Scores = tuple[FloatArray, FloatArray]

DELTAS = (0.7, 0.5, 0.3, 0.1)  # the curve is compared at each ε at which the promise allows such a δ
LEVEL = 0.05  # error probability of the bounds that are shown
_THRESHOLDS = 60
_CLIPS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)
_DIRECTIONS = 2
_TESTS = _DIRECTIONS * (2 + len(DELTAS))  # per design: an event and a mean for ρ, and an event for each ε


@dataclass(frozen=True)
class CurvePoint:
    """The hockey-stick divergence at ε: at least `delta`, at most `allowed` if the promise holds."""

    epsilon: float
    delta: float
    allowed: float


@dataclass(frozen=True)
class Evidence:
    """Lower bounds from the test half of the releases.

    `rho` is a lower bound of the true cost with 95% confidence; `sure_rho` and the points of the curve hold
    with the confidence that decides on an alarm.
    """

    promised: float
    rho: float
    sure_rho: float
    curve: tuple[CurvePoint, ...]
    draws: int  # of both tables, both halves

    @property
    def reached(self) -> float:
        """The lower bound as a share of the promise."""
        return self.rho / self.promised

    @property
    def violation(self) -> str:
        """The contradiction between evidence and promise, as a sentence; empty if there is none."""
        if self.sure_rho > self.promised:
            return f"it costs at least ρ = {self.sure_rho:.4g}, more than the {self.promised:.4g} promised"
        for point in self.curve:
            if point.delta > point.allowed:
                return (
                    f"at ε = {point.epsilon:.3g} its δ is at least {point.delta:.3g}, "
                    f"more than the {point.allowed:.3g} that ρ = {self.promised:.4g} allows"
                )
        return ""


@dataclass(frozen=True)
class _Direction:
    """Training and test scores of both tables, signed so that a high score favours the first table."""

    train: Scores
    test: Scores


def weigh(table: Sample, neighbour: Sample, promised: float, false_alarm: float) -> Evidence:
    """Lower bounds from releases of both tables; a false alarm has probability at most `false_alarm`."""
    even, odd = slice(0, None, 2), slice(1, None, 2)
    model = LikelihoodRatio.fit(table.part(even), neighbour.part(even))
    train, test = ([model.score(sample.part(half)) for sample in (table, neighbour)] for half in (even, odd))
    directions = (
        _Direction((train[1], train[0]), (test[1], test[0])),
        _Direction((-train[0], -train[1]), (-test[0], -test[1])),
    )
    sure_level, shown_level = false_alarm / _TESTS, LEVEL / (2 * _DIRECTIONS)
    return Evidence(
        promised=promised,
        rho=max(max(_rhos(direction, shown_level)) for direction in directions),
        sure_rho=max(max(_rhos(direction, sure_level)) for direction in directions),
        curve=tuple(_curve(directions, promised, sure_level)),
        draws=len(table) + len(neighbour),
    )


def _rhos(direction: _Direction, level: float) -> Iterator[float]:
    threshold = _best_threshold(direction.train, rho_of_event, level)
    yield rho_of_event(*_event(direction.test, threshold, level))
    yield _divergence_bound(direction, level)


def _curve(directions: Sequence[_Direction], promised: float, level: float) -> Iterator[CurvePoint]:
    for allowed in DELTAS:
        epsilon = epsilon_allowing(promised, allowed)
        excess = partial(_excess, math.exp(epsilon))
        deltas = (
            excess(*_event(direction.test, _best_threshold(direction.train, excess, level), level))
            for direction in directions
        )
        yield CurvePoint(epsilon, max(0.0, *deltas), delta_allowed(promised, epsilon))


def _excess(factor: float, p: float, q: float) -> float:
    """The hockey-stick divergence of one event; never more than that of the two tables."""
    return p - factor * q


def _event(scores: Scores, threshold: float, level: float) -> tuple[float, float]:
    """Bounds of a score's probability to reach the threshold: lower in one table, upper in the other."""
    hits, trials = [int((of_one >= threshold).sum()) for of_one in scores], [len(of_one) for of_one in scores]
    return (
        lower_probability(hits[0], trials[0], level / 2),
        upper_probability(hits[1], trials[1], level / 2),
    )


def _best_threshold(scores: Scores, worth: Callable[[float, float], float], level: float) -> float:
    """The threshold with the highest `worth`, at bounds estimated from the training half."""
    pooled = np.concatenate(scores)
    thresholds = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, _THRESHOLDS), method="higher"))
    z = _normal_quantile(level / 2)
    p, q = (
        _wilson_bound(1.0 - np.searchsorted(np.sort(of_one), thresholds) / len(of_one), len(of_one), sign * z)
        for of_one, sign in zip(scores, (-1.0, 1.0), strict=True)
    )
    values = [worth(*pair) for pair in zip(p.tolist(), q.tolist(), strict=True)]
    return float(thresholds[int(np.argmax(values))])


def _wilson_bound(share: FloatArray, trials: int, z: float) -> FloatArray:
    """Wilson's bound: close to the exact one, and quick."""
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    width = z / (1 + z * z / trials) * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    bound: FloatArray = np.clip(middle + width, 1e-12, 1 - 1e-12)
    return bound


def _divergence_bound(direction: _Direction, level: float) -> float:
    """A lower bound of the Kullback–Leibler divergence, which ρ-zCDP bounds by ρ.

    For every function g, E_P[g] − log E_Q[exp g] is at most the divergence of P from Q (Donsker and
    Varadhan), with equality for the logarithm of the likelihood ratio. Here g is the score, clipped so that
    both means have exact bounds.
    """
    n, z = min(map(len, direction.test)), _normal_quantile(level / 2)

    def clipped(scores: Scores, end: float) -> Scores:
        return np.clip(scores[0], -end, end), np.exp(np.clip(scores[1], -end, end))

    def guess(end: float) -> float:
        g, odds = clipped(direction.train, end)
        high = odds.mean() + z * odds.std() / math.sqrt(n) + z * z * math.exp(end) / (6 * n)
        return float(g.mean() - z * g.std() / math.sqrt(n) - z * z * end / (3 * n) - np.log(high))

    end = max(_CLIPS, key=guess)
    guesses = [(float(values.mean()), float(values.std())) for values in clipped(direction.train, end)]
    g, odds = clipped(direction.test, end)
    least = lower_mean(g, -end, level / 2, guesses[0])
    greatest = upper_mean(odds, math.exp(end), level / 2, guesses[1])
    return least - math.log(greatest)


def _normal_quantile(level: float) -> float:
    return NormalDist().inv_cdf(1.0 - level)


# -- Runs of designs ---------------------------------------------------------------------------------------

FALSE_ALARM = 1e-6  # probability, for all designs of an audit together
_FEWEST = 100  # releases of each table
_MOST = 20_000  # releases of each table; more would tell little more
_MORE_TIME = 8.0  # times as much time for a design whose questions ask about one copy only
_RHO_STEP = 1e-7  # share of ρ: a repeated request is answered from the ledger, so each asks for a little less


@dataclass(frozen=True)
class DesignFinding:
    """The evidence from the releases of one design."""

    design: str
    mechanism: str
    aggregate: str
    unit: str
    neighbours: str
    evidence: Evidence
    lattice: str  # a problem of the numbers themselves; empty if there is none
    seconds: float

    @property
    def violation(self) -> str:
        return self.lattice or self.evidence.violation


@cache
def designs() -> dict[str, Design]:
    """Every design by its name."""
    return {design.name: design for design in (*answer_designs(), *explanation_designs())}


class _Tally:
    """Releases of the table and of its neighbour, as they come in."""

    def __init__(self) -> None:
        self._names: tuple[list[str], list[str]] = ([], [])
        self._numbers: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
        self.charged = 0.0

    def add(self, releases: Releases, present: NDArray[np.bool_]) -> None:
        self.charged = max(self.charged, releases.charged)
        for side in (False, True):
            chosen = np.flatnonzero(present == side)
            self._names[side].extend(releases.names[place] for place in chosen.tolist())
            self._numbers[side].append(releases.numbers[chosen])

    def __len__(self) -> int:
        return min(map(len, self._names))

    @property
    def samples(self) -> tuple[Sample, Sample]:
        table, neighbour = (
            Sample(names, np.vstack(numbers))
            for names, numbers in zip(self._names, self._numbers, strict=True)
        )
        return table, neighbour


def audit_privacy(
    names: Sequence[str], *, minutes: float, seed: int, workers: int, begin: Callable[[str], None]
) -> Iterator[DesignFinding]:
    """The findings of the designs, as they come in; `begin` is called with each design's name as it begins.

    Each design runs in a worker process, for a share of the time that is left. The probability of a false
    alarm in any of them is at most `FALSE_ALARM`.
    """
    deadline, level = time.monotonic() + 60.0 * minutes, FALSE_ALARM / len(names)
    # Designs that may end early come first, and leave their time to the others.
    waiting = sorted(names, key=lambda name: _weight(designs()[name]))
    running: dict[Future[DesignFinding], str] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while waiting or running:
            while waiting and len(running) < workers:
                seconds_left = deadline - time.monotonic()
                unfinished = [*waiting, *running.values()]
                share = _weight(designs()[waiting[0]]) / sum(_weight(designs()[name]) for name in unfinished)
                name = waiting.pop(0)
                begin(name)
                seconds = max(1.0, seconds_left * share * min(workers, len(unfinished)))
                running[pool.submit(_run_named, name, seed, level, seconds)] = name
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                del running[future]
                yield future.result()


def _weight(design: Design) -> float:
    return _MORE_TIME if design.copies == 1 else 1.0


def _run_named(name: str, seed: int, false_alarm: float, seconds: float) -> DesignFinding:
    return run_design(designs()[name], seed=seed, false_alarm=false_alarm, seconds=seconds)


def run_design(
    design: Design,
    *,
    seed: int,
    false_alarm: float = FALSE_ALARM,
    draws: int = _MOST,
    seconds: float = math.inf,
) -> DesignFinding:
    """Asks until both tables have `draws` releases, or the time is up; then weighs the releases."""
    start, tally = time.monotonic(), _Tally()
    for releases, present in _releases(design, seed):
        tally.add(releases, present)
        is_late = time.monotonic() - start > seconds
        if len(tally) >= draws or (is_late and len(tally) >= _FEWEST):
            break
    table, neighbour = tally.samples
    numbers = np.concatenate([table.numbers.ravel(), neighbour.numbers.ravel()])
    return DesignFinding(
        design=design.name,
        mechanism=design.mechanism,
        aggregate=design.aggregate,
        unit=design.unit,
        neighbours=design.neighbours,
        evidence=weigh(table, neighbour, tally.charged, false_alarm),
        lattice=lattice_problem(numbers) if design.has_lattice else "",
        seconds=time.monotonic() - start,
    )


def _releases(design: Design, seed: int) -> Iterator[tuple[Releases, NDArray[np.bool_]]]:
    """Endless releases, from one table after another, each with the coins that made its table."""
    coins = np.random.default_rng(seed)  # seeded: chooses rows of made-up tables, no noise
    is_present = False
    while True:
        present = coins.random(design.copies) < 0.5
        if design.copies == 1:  # as many of the one table as of the other
            is_present = not is_present
            present = np.array([is_present])
        with tempfile.TemporaryDirectory(prefix="dpxplain-audit-") as workspace:
            session = _open(design, present, workspace)
            with session:
                for number in range(design.per_table):
                    yield design.ask(session, design.rho * (1.0 - _RHO_STEP * number)), present


def _open(design: Design, present: NDArray[np.bool_], workspace: str) -> dpx.Session:
    import pyarrow as pa

    columns = {name: pa.string() for name in ("person", *design.schema["columns"])}
    columns |= {
        name: pa.float64() for name, declared in design.schema["columns"].items() if "bounds" in declared
    }
    shape = pa.schema(list(columns.items()))
    rows = [{name: row.get(name) for name in columns} for row in design.table(present)]
    table = pa.Table.from_pylist(rows, schema=shape)
    return dpx.connect(table, design.schema, workspace=workspace, trusted_code=design.trusted_code)


_COARSER = 2**8  # the step must be at least this many times the distance of neighbouring floats


def finest_step(numbers: NDArray[np.float64]) -> float:
    """The largest power of two of which all the numbers are multiples.

    >>> finest_step(np.array([1.5, 2.25])), finest_step(np.array([6.0, 4.0]))
    (0.25, 2.0)
    """
    step = math.inf
    for number in numbers[numbers != 0.0].tolist():
        numerator, denominator = float(number).as_integer_ratio()
        step = min(step, (numerator & -numerator) / denominator)
    return step


def lattice_problem(numbers: NDArray[np.float64]) -> str:
    """A problem of the numbers, as a sentence; empty if all are multiples of a coarse step.

    >>> lattice_problem(np.array([3.0, 1.5])), lattice_problem(np.array([3.0, 0.1])) != ""
    ('', True)
    """
    if not np.isfinite(numbers).all():
        return "a released number is not finite"
    largest = float(np.abs(numbers).max(initial=0.0))
    step, spacing = finest_step(numbers), float(np.spacing(max(largest, 1e-300)))
    if step >= _COARSER * spacing:
        return ""
    return (
        f"the released numbers have a common step of only 2^{math.log2(step):.0f}, as fine as floating "
        "point, so the numbers that can occur may depend on the true value"
    )
