"""Measures how often the intervals of the marginals mechanism hold. Writes docs/marginal-coverage.md.

    .venv/bin/python experiments/marginal_coverage.py           # about a quarter of an hour
    .venv/bin/python experiments/marginal_coverage.py --quick   # prints a sample, writes nothing

Tables are simulated and noise is seeded: not private. The Adult section reads the bundled data.
"""

from __future__ import annotations

import itertools
import math
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pyarrow import parquet

from dpxplain import datasets
from dpxplain.model.release import FloatArray, IntArray
from dpxplain.privacy.marginals import inference
from dpxplain.privacy.marginals.estimates import (
    Kind,
    PreparedGroups,
    estimate,
    simultaneous_quantile,
    smooth_interval,
)
from dpxplain.privacy.marginals.inference import MarginalCells, infer_arrays, split_rho

RUNS = 2_000
RETEST_RUNS = 20_000
RETESTED = 5
BATCH = 400
SEED = 20230707
LEVELS = (0.8, 0.9, 0.95, 0.99)
RHOS = (0.001, 0.01, 0.1, 1.0, 5.0)
LINES = (1, 5, 20)
ALLOWED = 0.005
PAIRS = ((5, 5), (5, 1000), (20, 50), (37, 22000), (150, 150), (400, 1000), (1500, 1500), (3000, 100000),
         (20000, 18000), (100000, 100000))  # fmt: skip
SINGLES = ((150,), (20000,))
TRIPLES = ((5, 50, 1000), (1000, 2000, 1500), (30000, 500, 100000))
WEIGHTS = {1: (1.0,), 2: (1.0, -1.0), 3: (1.0, -0.5, -2.0)}
SHAPES = ("flat", "skewed", "one value", "at the bounds")
SMALL = (2, 6, 13)  # values of three attributes: 21 predicates
KINDS: tuple[tuple[Kind, float, float], ...] = (
    ("avg", 0.0, 1.0),
    ("count", 0.0, 1.0),
    ("sum", 0.0, 1.0),
    ("sum", -1.0, 1.0),
)
PAGE = Path(__file__).parents[1] / "docs" / "marginal-coverage.md"


@dataclass(frozen=True)
class Table:
    """True rows and sums per group and cell, for every attribute. The last cell holds undeclared values."""

    kind: Kind
    low: float
    high: float
    weights: tuple[float, ...]
    count: tuple[FloatArray, ...]
    total: tuple[FloatArray, ...]  # uncentred

    @property
    def overlap(self) -> int:
        """How many cells one row touches."""
        return len(self.count)

    @cached_property
    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """n, S per group and a, U per (group, predicate)."""
        a = np.concatenate([cells[:, :-1] for cells in self.count], axis=1)
        U = np.concatenate([cells[:, :-1] for cells in self.total], axis=1)
        return self.count[0].sum(axis=1), self.total[0].sum(axis=1), a, U

    @cached_property
    def influence(self) -> FloatArray:
        """The true influence of each predicate, as docs/specification.md defines it."""
        n, S, a, U = self.parts
        c, w = n[:, None] - a, np.array(self.weights)[:, None]
        m = c.min(axis=0)
        if self.kind == "avg":
            change = w * (_mean(S, n)[:, None] - _mean(S[:, None] - U, c))
            return np.where(m > 0, m * change.sum(axis=0), 0.0)
        removed = a if self.kind == "count" else U
        return np.asarray((w * removed).sum(axis=0) * m / (n.max() + 1))

    @cached_property
    def without(self) -> FloatArray:
        """The gap without each predicate's rows. The mean of no rows is taken as the middle of the bounds."""
        n, S, a, U = self.parts
        if self.kind == "avg":
            values = _mean(S[:, None] - U, n[:, None] - a, (self.low + self.high) / 2)
        else:
            values = n[:, None] - a if self.kind == "count" else S[:, None] - U
        return np.asarray(np.array(self.weights) @ values)

    @cached_property
    def gap(self) -> float:
        """Σ w·value."""
        n, S, _, _ = self.parts
        values = {"avg": _mean(S, n, (self.low + self.high) / 2), "count": n, "sum": S}[self.kind]
        return float(np.array(self.weights) @ values)

    @cached_property
    def share(self) -> FloatArray:
        """The share of the gap that each predicate's rows remove; NaN where there is no gap."""
        if self.gap == 0.0:
            return np.full_like(self.without, np.nan)
        return 1.0 - self.without / self.gap

    @cached_property
    def rank(self) -> tuple[IntArray, IntArray]:
        """The first and the last rank that each predicate may have, given its ties."""
        near = 1e-9 * max(1.0, float(np.abs(self.influence).max()))
        best = [1 + np.sum(self.influence > v + near) for v in self.influence]
        worst = [np.sum(self.influence >= v - near) for v in self.influence]
        return np.array(best), np.array(worst)

    def release(
        self, rho: float, first_rho: float, runs: int, seed: int, shrink: float = 1.0
    ) -> PreparedGroups:
        """`runs` releases of Phase 1 and the marginals. A `shrink` below 1 understates their scales."""
        rng = np.random.default_rng([SEED, seed])  # seeded: an experiment, its output is not private

        def noisy(values: FloatArray, scale: float) -> FloatArray:
            return values + scale / shrink * rng.standard_normal((runs, *values.shape))

        n, S, _, _ = self.parts
        middle = (self.low + self.high) / 2 if self.kind == "avg" else 0.0
        largest = (self.high - self.low) / 2 if self.kind == "avg" else max(abs(self.low), abs(self.high))
        one = math.sqrt(1 / (2 * first_rho * (0.5 if self.kind == "avg" else 1.0)))
        share = split_rho(self.kind)
        count_scale, total_scale = MarginalCells(self.kind, self.low, self.high, self.overlap).scales(
            rho, share
        )
        counted, summed = self.kind != "sum", self.kind != "count"
        return PreparedGroups(
            kind=self.kind,
            low=self.low,
            high=self.high,
            count=noisy(n, one) if counted else None,
            count_scale=one if counted else None,
            total=noisy(S - middle * n, largest * one) if summed else None,
            total_scale=largest * one if summed else None,
            cell_count=tuple(noisy(cells, count_scale) for cells in self.count),
            cell_count_scale=count_scale,
            cell_total=tuple(
                noisy(total - middle * cells, total_scale)
                for cells, total in zip(self.count, self.total, strict=True)
            )
            if total_scale is not None
            else None,
            cell_total_scale=total_scale,
        )


def _mean(total: FloatArray, count: FloatArray, empty: float = 0.0) -> FloatArray:
    return np.where(count > 0, total / np.maximum(count, 1), empty)


def make_table(
    kind: Kind,
    low: float,
    high: float,
    sizes: Sequence[int],
    shape: str,
    attributes: Sequence[int],
    seed: int = 0,
) -> Table:
    """A table with rows drawn once per situation.

    Shapes: flat (all values alike), skewed (Zipf values, x depends on them), one value (nine rows in ten
    share it, so little remains without them), at the bounds (x constant per group).
    """
    rng = np.random.default_rng([SEED, len(shape)])
    weights = WEIGHTS[len(sizes)]
    counts = [np.zeros((len(sizes), values + 1)) for values in attributes]
    totals = [np.zeros((len(sizes), values + 1)) for values in attributes]
    for g, rows in enumerate(sizes):
        codes = []
        for values in attributes:
            odds = np.ones(values + 1)
            if shape == "skewed":
                odds = 1.0 / np.arange(1, values + 2)
            elif shape == "one value":
                odds[g % 2] = 9.0 * values
            odds[-1] = 0.02 * odds.sum()  # a few undeclared values
            codes.append(rng.choice(values + 1, rows, p=odds / odds.sum()))
        lift = {
            "flat": np.full(rows, 0.5),
            "skewed": 1.0 / (1.0 + codes[-1]) * (0.9 if g == 0 else 0.3),
            "one value": np.full(rows, 0.8 if g == 0 else 0.1),
            "at the bounds": np.full(rows, 1.0 if g == 0 else 0.0),
        }[shape]
        x = np.where(rng.random(rows) < lift, high, low)
        for code, count, total in zip(codes, counts, totals, strict=True):
            count[g] = np.bincount(code, minlength=count.shape[1])
            total[g] = np.bincount(code, weights=x, minlength=count.shape[1])
    return Table(kind, low, high, weights, tuple(counts), tuple(totals))


@dataclass(frozen=True)
class Measurement:
    """Coverage and widths of the lines shown, for one situation, level and k."""

    influence: float  # share of the lines shown that are covered
    rank: float
    without: float
    together: float  # all influences of the family at once
    shown_trusted: float
    width: float
    rank_width: float
    precision: float
    gap: float
    without_width: float
    share: float
    shares: float  # share of runs in which all shares shown are covered at once
    share_known: float
    share_width: float  # mean over the known shares


def measure(table: Table, released: PreparedGroups, confidence: float, k: int) -> list[Measurement]:
    """Measure tables of 1, 5, ... up to k lines. A shorter table is the first lines of the longest."""
    found = infer_arrays(released, table.weights, confidence, k)
    near = 1e-9 * max(1.0, float(np.abs(table.influence).max()))
    low, high = found.influence_low - near, found.influence_high + near
    inside = (low <= table.influence) & (table.influence <= high)
    sel = found.selected
    best, worst = (ends[sel] for ends in table.rank)
    ranked = (found.rank_low <= best) & (worst <= found.rank_high)
    gaps = (found.without_low - 1e-9 <= table.without[sel]) & (
        table.without[sel] <= found.without_high + 1e-9
    )
    # Without a true gap there is no share, so any known share counts as not covered.
    known = np.isfinite(found.share)
    true = table.share[sel]
    shared = ~known | ((found.share_low - 1e-9 <= true) & (true <= found.share_high + 1e-9))
    share_widths = np.where(known, found.share_high - found.share_low, np.nan)
    gap = float(np.mean((found.gap_low <= table.gap) & (table.gap <= found.gap_high)))
    shown = np.take_along_axis(inside, sel, -1)
    trusted = np.take_along_axis(found.is_trusted, sel, -1)
    wide = np.take_along_axis(found.influence_high - found.influence_low, sel, -1)
    return [
        Measurement(
            float(shown[:, :n].mean()),
            float(ranked[:, :n].mean()),
            float(gaps[:, :n].mean()),
            float(inside.all(axis=-1).mean()),
            float(trusted[:, :n].mean()),
            float(wide[:, :n].mean()),
            float((found.rank_high - found.rank_low)[:, :n].mean()),
            float((best[:, :n] <= n).mean()),
            gap,
            float((found.without_high - found.without_low)[:, :n].mean()),
            float(shared[:, :n].mean()),
            float(shared[:, :n].all(axis=-1).mean()),
            float(known[:, :n].mean()),
            float(np.nanmean(share_widths[:, :n])) if known[:, :n].any() else math.nan,
        )
        for n in sorted({*(line for line in LINES if line < k), k})
    ]


@dataclass(frozen=True)
class Situation:
    """One table and its budgets."""

    kind: Kind
    low: float
    high: float
    sizes: tuple[int, ...]
    shape: str
    rho: float
    first_rho: float

    @property
    def table(self) -> Table:
        """The table of true counts and sums."""
        return make_table(self.kind, self.low, self.high, self.sizes, self.shape, SMALL)

    def __str__(self) -> str:
        bounds = f" on [{self.low:g}, {self.high:g}]" if self.kind == "sum" else ""
        budget = f"ρ = {self.rho:g}, Phase 1 {self.first_rho:g}"
        return f"{self.kind}{bounds}, rows {self.sizes}, {self.shape}, {budget}"


def situations() -> list[Situation]:
    """The grid. Phase 1 has, in turn, the ρ of the marginals or ρ = 0.1."""
    grid = itertools.product(KINDS, PAIRS + SINGLES + TRIPLES, SHAPES, RHOS)
    return [
        Situation(*kind, sizes, shape, rho, 0.1 if index % 2 else rho)
        for index, (kind, sizes, shape, rho) in enumerate(grid)
    ]


QUANTITIES = {
    "influence": "influence, lines shown",
    "rank": "rank, lines shown",
    "without": "gap without the rows, lines shown",
    "share": "share of the gap removed, lines shown",
    "together": "all influences of the family together",
    "shares": "shares removed, 20 of 21 lines together",
}


def coverage_section(grid: Sequence[Situation], runs: int, retest_runs: int) -> list[str]:
    """Table lines with the lowest and mean coverage per level and quantity, and the lowest after a retest."""
    found: dict[tuple[float, str], list[tuple[float, int, int]]] = {}
    for seed, situation in enumerate(grid):
        for level, results in simulate(situation, LEVELS, LINES[-1], runs, seed).items():
            for k, result in zip(LINES, results, strict=True):
                for quantity in QUANTITIES:
                    if quantity not in ("together", "shares") or k == LINES[-1]:
                        value = getattr(result, quantity)
                        found.setdefault((level, quantity), []).append((value, seed, k))
        if seed % 50 == 0:
            print(f"{seed} of {len(grid)}", file=sys.stderr, flush=True)
    lines = [
        "| γ | what | lowest | mean | below γ − 0.005 | lowest after retest | where |",
        "|---|---|---|---|---|---|---|",
    ]
    for quantity, level in itertools.product(QUANTITIES, LEVELS):
        values = sorted(found[level, quantity])
        again = [
            (retest(grid[seed], level, k, quantity, retest_runs), seed, k) for _, seed, k in values[:RETESTED]
        ]
        sure, seed, k = min(again)
        below = sum(value < level - ALLOWED for value, _, _ in values)
        mean = sum(value for value, _, _ in values) / len(values)
        where = f"{grid[seed]}" + ("" if quantity in ("together", "shares") else f", k = {k}")
        numbers = f"{values[0][0]:.4f} | {mean:.4f} | {below} of {len(values)} | {sure:.4f}"
        lines.append(f"| {level} | {QUANTITIES[quantity]} | {numbers} | {where} |")
    return [*lines, ""]


def retest(situation: Situation, level: float, k: int, quantity: str, runs: int) -> float:
    """Coverage of a quantity in the same situation with fresh noise."""
    results = simulate(situation, (level,), k, runs, 1_000_000)
    return float(getattr(results[level][-1], quantity))


def simulate(
    situation: Situation, levels: Sequence[float], k: int, runs: int, seed: int
) -> dict[float, list[Measurement]]:
    """Measure a situation in batches that fit the processor's cache. Every level sees the same noise."""
    table, size = situation.table, min(runs, BATCH)
    found: dict[float, list[list[Measurement]]] = {level: [] for level in levels}
    for batch in range(runs // size):
        released = table.release(situation.rho, situation.first_rho, size, seed + 10_000_000 * batch)
        for level in levels:
            found[level].append(measure(table, released, level, k))
    return {level: [average(same) for same in zip(*each, strict=True)] for level, each in found.items()}


def average(results: Sequence[Measurement]) -> Measurement:
    """The mean of several batches of equal size."""
    return Measurement(*np.mean([astuple(result) for result in results], axis=0).tolist())


def gap_section(grid: Sequence[Situation], runs: int) -> list[str]:
    """Table lines for the gap itself. It is one statement with nominal coverage, so it needs many runs."""
    found: dict[float, list[tuple[float, int]]] = {level: [] for level in LEVELS}
    for seed, situation in enumerate(grid):
        for level, value in gap_coverage(situation, LEVELS, runs, seed).items():
            found[level].append((value, seed))
    lines = ["| γ | lowest | mean | below γ − 0.005 | lowest after retest |", "|---|---|---|---|---|"]
    for level, values in found.items():
        below = sum(value < level - ALLOWED for value, _ in values)
        seeds = [seed for _, seed in sorted(values)[:RETESTED]]
        again = min(gap_coverage(grid[seed], (level,), 5 * runs, 1_000_000)[level] for seed in seeds)
        mean = sum(value for value, _ in values) / len(values)
        lines.append(
            f"| {level} | {min(values)[0]:.4f} | {mean:.4f} | {below} of {len(values)} | {again:.4f} |"
        )
    return [*lines, ""]


def gap_coverage(situation: Situation, levels: Sequence[float], runs: int, seed: int) -> dict[float, float]:
    """The coverage of the gap's interval, by level. All levels see the same noise."""
    table = situation.table
    e = estimate(table.release(situation.rho, situation.first_rho, runs, seed))
    found = {}
    for level in levels:
        _, low, high = inference._gap(e, np.array(table.weights), level)
        found[level] = float(np.mean((low - 1e-9 <= table.gap) & (table.gap <= high + 1e-9)))
    return found


def fallback_section(runs: int) -> list[str]:
    """Table lines for small groups: the intervals as they are, and first-order intervals only."""
    lines = ["| aggregate | rows | ρ | trusted | coverage | first order alone |", "|---|---|---|---|---|---|"]
    sizes = ((5, 5), (37, 22000), (150, 150), (400, 1000))
    for kind, rows, rho in itertools.product(KINDS[:3], sizes, (0.001, 0.01, 0.1)):
        trusted, covered, alone = [], [], []
        for shape in SHAPES:
            table = make_table(*kind, rows, shape, SMALL)
            released = table.release(rho, 0.1, runs, 7)
            result = measure(table, released, 0.95, 5)[-1]
            e = estimate(released)
            z = simultaneous_quantile(0.95, e.count.layout.size)
            low, high, _ = smooth_interval(e, np.array(table.weights), z)
            inside = (low - 1e-9 <= table.influence) & (table.influence <= high + 1e-9)
            trusted.append(result.shown_trusted)
            covered.append(result.together)
            alone.append(float(inside.all(axis=-1).mean()))
        numbers = f"{np.mean(trusted):.2f} | {min(covered):.3f} | {min(alone):.3f}"
        lines.append(f"| {kind[0]} | {rows} | {rho:g} | {numbers} |")
    return [*lines, ""]


def adult_table(above: str, below: str) -> Table:
    """The true cells of the bundled Adult data for AVG(high_income) by marital status, 103 predicates."""
    folder = Path(datasets.__file__).parent
    columns = tomllib.loads((folder / "adult.toml").read_text(encoding="utf-8"))["columns"]
    data = parquet.read_table(folder / "adult.parquet").to_pandas()
    names = [name for name in columns if name not in ("marital_status", "high_income")]
    counts, totals = [], []
    for name in names:
        if edges := columns[name].get("edges"):
            code = np.searchsorted(edges, data[name]) - 1
            size = len(edges) - 1
        else:
            values = columns[name]["values"]
            size = len(values)
            code = (
                data[name]
                .astype(str)
                .map({value: i for i, value in enumerate(values)})
                .fillna(size)
                .to_numpy(int)
            )
        code = np.where((code < 0) | (code > size), size, code)
        masks = [(data.marital_status == group).to_numpy() for group in (above, below)]
        counts.append(np.array([np.bincount(code[mask], minlength=size + 1) for mask in masks], dtype=float))
        totals.append(
            np.array([np.bincount(code[mask], data.high_income[mask], minlength=size + 1) for mask in masks])
        )
    return Table("avg", 0.0, 1.0, (1.0, -1.0), tuple(counts), tuple(totals))


def adult_section(runs: int) -> list[str]:
    """Table lines for Adult: precision, widths and coverage (issue 4)."""
    shown = {
        "precision": ("precision@5", ".3f"),
        "width": ("influence width", ".1f"),
        "rank_width": ("rank width", ".2f"),
        "without_width": ("gap width", ".4f"),
        "influence": ("influence", ".4f"),
        "rank": ("rank", ".4f"),
        "without": ("gap without", ".4f"),
        "together": ("together", ".4f"),
    }
    lines = [f"| question | ρ | {' | '.join(title for title, _ in shown.values())} |", "|---" * 10 + "|"]
    pairs = (("Married-civ-spouse", "Never-married"), ("Married-AF-spouse", "Never-married"))
    for (above, below), rho in itertools.product(pairs, (0.002, 0.005, 0.02, 0.1, 0.5, 2.0)):
        table = adult_table(above, below)
        batches = [table.release(rho, 0.1, 250, seed) for seed in range(max(1, runs // 250))]
        results = [measure(table, batch, 0.95, 5)[-1] for batch in batches]
        numbers = [format(np.mean([getattr(r, name) for r in results]), f) for name, (_, f) in shown.items()]
        lines.append(f"| {above} > {below} | {rho:g} | {' | '.join(numbers)} |")
    return [*lines, ""]


def main() -> None:
    """Measure everything and write the page; --quick measures a sample and prints it."""
    quick = "--quick" in sys.argv
    grid = situations()[::37] if quick else situations()
    steady = [situation for situation in grid if situation.shape in ("skewed", "at the bounds")][::3]
    runs, retests = (200, 400) if quick else (RUNS, RETEST_RUNS)
    lines = [
        INTRODUCTION.format(runs=runs, retests=retests, retested=RETESTED, seed=SEED, situations=len(grid))
    ]
    lines += ["## Adult", "", ADULT_TEXT, "", *adult_section(runs)]
    lines += ["## The grid", "", GRID_TEXT, "", *coverage_section(grid, runs, retests)]
    lines += [
        "## The gap itself",
        "",
        GAP_TEXT.format(runs=10 * runs, retested=RETESTED),
        "",
        *gap_section(steady, 10 * runs),
    ]
    lines += ["## What the fallback is for", "", FALLBACK_TEXT, "", *fallback_section(runs)]
    page = "\n".join(lines).rstrip() + "\n"
    if quick:
        print(page)
    else:
        PAGE.write_text(page, encoding="utf-8")


INTRODUCTION = """# Coverage of the marginals mechanism

`.venv/bin/python experiments/marginal_coverage.py` (seed {seed}) measures these figures and writes this page.
It tests `src/dpxplain/privacy/marginals/inference.py`; `docs/proofs/marginals.md` says why it should hold.

There are {situations} situations with {runs:,} runs each:

- COUNT, SUM (on [0, 1] and on [−1, 1]) and AVG;
- one group, two with weights (1, −1) or three with weights (1, −0.5, −2), of 5 to 100,000 rows;
- ρ of the marginals from 0.001 to 5, and ρ of Phase 1 either 0.1 or the same;
- k = 1, 5, 20;
- three attributes with 2, 6 and 13 values, which makes 21 predicates;
- four shapes. *Flat*: all values are equally frequent and have no effect, so influences nearly tie. *Skewed*:
  Zipf frequencies and values that matter. *One value*: nine rows in ten share it, so little remains without
  them. *At the bounds*: every x of a group is at a bound.

How exact are these figures? With 2,000 runs the standard error is 0.009 at γ = 0.8, 0.005 at 0.95 and 0.002
at 0.99. Among hundreds of exactly nominal situations, the lowest lies about three standard errors below γ by
chance. The {retested} lowest of every row are therefore run again with {retests:,} runs of fresh noise, and
the tables also give the lowest of these.
"""

ADULT_TEXT = """The query is AVG(high_income) by marital status, with 103 predicates on eight attributes,
k = 5 and γ = 0.95. Phase 1 has ρ = 0.1, and counts get 0.4 of the marginals' ρ. Widths are means over the
lines shown; a rank interval [2, 4] has width 2. The last four columns are coverage: three of the lines shown,
and *together* of all 103 influences at once. Married-AF-spouse has 37 rows, so the provable fallback is in
use there up to ρ = 0.1 and beyond."""

GRID_TEXT = """Of the lines shown, the share that is covered must reach γ − 0.005. The intervals are built to
hold for all predicates together, because the lines shown are chosen with the same noise."""

GAP_TEXT = """The gap Σ w·value is estimated from Phase 1 and all marginals together, with {runs:,} runs, on a
third of the situations of shape *skewed* and *at the bounds*. It is one statement without a selection, so its
coverage is close to γ. The {retested} lowest of every row are run again with five times as many runs of fresh
noise."""

FALLBACK_TEXT = """The coverage is that of all influences together at γ = 0.95, the lowest of the four shapes.
"First order alone" uses the first-order interval whatever the counts, and ignores that another group may be
smallest."""

if __name__ == "__main__":
    main()
