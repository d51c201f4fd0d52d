"""Measures how often the intervals hold on tables that nothing was tuned to. Writes docs/coverage.md.

    .venv/bin/python experiments/untuned_coverage.py --minutes 10 --write

Schemas and tables are random: skewed and tiny groups, columns with one value, near ties, values outside
their declarations, persons with several rows. Every interval that the product gives is compared with the
curator's truth. Noise is seeded: a seed and a number reproduce a table and its releases.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

import dpxplain as dpx
from dpxplain.errors import BadRequest
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.release import Released
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.results.explanation import Explanation
from dpxplain.results.quality import Quality

SEED = 20261116
CONFIDENCE = 0.9
RUNS = 25  # releases of each kind on one table
PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"

VALUES = {
    "COUNT": "COUNT(*)",
    "SUM": "SUM(x)",
    "AVG": "AVG(x)",
    "VARIANCE": "VARIANCE(x)",
    "STDDEV": "STDDEV_POP(x)",
    "MEDIAN": "MEDIAN(x)",
    "SUM / COUNT": "SUM(x) / COUNT(*) AS v",
    "LN(COUNT)": "LN(COUNT(*)) AS v",
    "difference of averages": "AVG(x) - AVG(y) AS v",
}
# Whether each interval covered the truth, by the name of the interval and then by table.
Outcomes = dict[str, dict[int, list[bool]]]


class Situation:
    """One random table with random declarations, and a session on it with seeded noise."""

    def __init__(self, seed: int, number: int, folder: Path) -> None:
        rng = np.random.default_rng([seed, number])
        self.rng = rng
        self.frame, columns = _table(rng)
        self.rho = float(10 ** rng.uniform(-2, 0.5))
        self.conjuncts = 1 + number % 2
        privacy: dict[str, Any] = {"rho": 1e6}
        if rng.random() < 0.25:
            privacy |= {"unit": "person", "max_rows": int(rng.choice([1, 3]))}
        elif rng.random() < 0.3:
            privacy |= {"neighbours": "bounded"}
        self.columns = columns
        self.session = dpx.connect(
            self.frame,
            schema={"table": {"name": "t"}, "privacy": privacy, "columns": columns},
            workspace=folder / str(number),
            curator=True,
            insecure_seed=seed + number,
        )


def _table(rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    rows = int(rng.choice([2, 20, 200, 2_000]))
    groups = int(rng.integers(2, 7))
    weights = 1 / np.arange(1, groups + 1) ** rng.uniform(0, 3)  # from even to very skewed
    frame = pd.DataFrame({"g": rng.choice(groups, rows, p=weights / weights.sum())})
    columns: dict[str, Any] = {"g": {"values": [*range(groups), 99]}}  # 99 never occurs
    for name in ("a", "b", "c")[: int(rng.integers(1, 4))]:
        size = int(rng.choice([1, 2, 3, 8]))
        skew = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 10.0])))
        frame[name] = rng.choice(size, rows, p=skew)
        if name == "b" and rng.random() < 0.5:  # nearly a copy of a: influences nearly tie
            frame["b"] = np.where(rng.random(rows) < 0.02, frame.b, np.minimum(frame.a, size - 1))
        if rng.random() < 0.3:  # values that are not declared
            frame.loc[rng.random(rows) < 0.1, name] = 77
        columns[name] = {"values": list(range(size))}
    frame["x"], columns["x"] = _numbers(rng, rows)
    frame["y"], columns["y"] = _numbers(rng, rows)
    frame["person"] = rng.integers(0, max(1, rows // int(rng.choice([1, 2, 4]))), rows)
    return frame, columns


def _numbers(rng: np.random.Generator, rows: int) -> tuple[Any, dict[str, Any]]:
    """Random values and their bounds; some values lie outside the bounds, some are missing."""
    low, high = sorted(float(v) for v in rng.choice([-100, -1, 0, 1, 10, 1000], 2, replace=False))
    kind = rng.choice(["constant", "rare", "uniform", "heavy", "bounds"])
    span = high - low
    values = {
        "constant": np.full(rows, low + span * rng.random()),
        "rare": np.where(rng.random(rows) < 0.02, high, low),
        "uniform": rng.uniform(low, high, rows),
        "heavy": low + span * rng.lognormal(-3, 2, rows),
        "bounds": rng.choice([low, high], rows),
    }[str(kind)]
    if rng.random() < 0.3:
        values = np.where(rng.random(rows) < 0.2, np.nan, values)
    step = {} if rng.random() < 0.5 else {"step": span / 200}
    return values, {"bounds": [low, high], **step}


def measure(seed: int, numbers: Iterator[int], folder: Path, runs: int = RUNS) -> Outcomes:
    """Whether each interval held, for the tables with these numbers."""
    outcomes: Outcomes = defaultdict(lambda: defaultdict(list))
    for number in numbers:
        situation = Situation(seed, number, folder)
        with situation.session:
            for name, held in (
                *_values(situation, runs),
                *_explanations(situation, runs),
                *_quality(situation),
            ):
                outcomes[name][number].append(held)
    return outcomes


def _values(situation: Situation, runs: int) -> Iterator[tuple[str, bool]]:
    """Test the intervals of the groups, and of the gap between the first two groups that have a value."""
    for name, expression in VALUES.items():
        planned = situation.session.plan(
            f"SELECT g, {expression} FROM t GROUP BY g", situation.rho, confidence=CONFIDENCE
        )
        answer: Any = planned.run()
        truth = [record["true"] for record in answer.truth().records()]
        known = [i for i, true in enumerate(truth) if true is not None and math.isfinite(true)]
        for _ in range(runs):
            drawn = planned.show(Released(planned.plan.measure(planned._dataset), answer.entry, False))
            values = drawn if not hasattr(drawn, "answers") else drawn.answers[0]
            intervals = [row.interval for row in values]
            for i in known:
                yield name, _holds(intervals[i], truth[i])
            if name in ("COUNT", "SUM", "AVG") and len(known) > 1:
                first, second = known[:2]
                question = values.why(values.rows[first].group, values.rows[second].group)
                yield f"gap of {name}", _holds(question.interval, truth[first] - truth[second])


def _explanations(situation: Situation, runs: int) -> Iterator[tuple[str, bool]]:
    """Test influences, ranks and gaps without each predicate's rows, by every mechanism."""
    aggregate = str(situation.rng.choice(["COUNT(*)", "SUM(x)", "AVG(x)"]))
    answer: Any = situation.session.query(f"SELECT g, {aggregate} FROM t GROUP BY g", situation.rho)
    question = answer.why(0, 1)
    for mechanism in ("one-shot", "vector", "marginals"):
        try:
            planned = question.plan_explain(
                ExplanationOptions(
                    FamilyChoice(conjuncts=situation.conjuncts), 3, situation.rho, mechanism, CONFIDENCE
                )
            )
        except BadRequest:
            continue  # fewer predicates than k, or fewer attributes than conjuncts
        plan, dataset = planned.plan, question._dataset
        influence, _ = dataset._influences(question, plan.family)
        best = [1 + int(np.sum(influence > v)) for v in influence]  # a tie may be ranked either way
        worst = [int(np.sum(influence >= v)) for v in influence]
        without = None
        for _ in range(runs):
            marginals = plan.mechanism == "marginals"
            release = plan.read(plan.preparation.measure(dataset)) if marginals else plan.measure(dataset)
            table = Explanation(question, plan, Released(release, answer.entry, False), dataset, request={})
            if without is None and release.gap is not None:
                without = dataset._values_without(table)
            label = f"{mechanism}, l = {situation.conjuncts}"
            for row in table.rows:
                yield f"influence ({label})", _holds(row.influence, float(influence[row.index]))
                low, high = row.rank
                yield f"rank ({label})", low <= best[row.index] and worst[row.index] <= high
                if row.gap_without is not None and without is not None and without[row.index] is not None:
                    yield f"gap without ({label})", _holds(row.gap_without, without[row.index])


def _quality(situation: Situation) -> Iterator[tuple[str, bool]]:
    """Test the shares of rows outside their declarations against counts of the table itself."""
    session = situation.session
    for further in (1.0, 1.001):
        quality: Quality = session.quality(situation.rho * further, confidence=CONFIDENCE)
        for row in quality.rows:
            true = _misfits(situation.frame[row.column], situation.columns[row.column])[row.category]
            yield "quality: share", _holds(row.interval, true / max(1, len(situation.frame)))
            yield "quality: rows", _holds(row.rows, true)


def _misfits(values: pd.Series, column: dict[str, Any]) -> dict[str, int]:
    missing = int(values.isna().sum())
    if "values" in column:
        return {"null": missing, "undeclared": int((~values.isin(column["values"])).sum()) - missing}
    low, high = column["bounds"]
    return {"null": missing, "below": int((values < low).sum()), "above": int((values > high).sum())}


def _holds(interval: tuple[float, float], true: float) -> bool:
    slack = 1e-9 * max(1.0, abs(true))
    return bool(interval[0] - slack <= true <= interval[1] + slack)


def lines(outcomes: Outcomes) -> list[str]:
    """One line of the page's table per interval. The standard error counts a table as one observation."""
    made = []
    for name in sorted(
        outcomes, key=lambda name: ("(" in name and "LN" not in name, name.startswith("quality"))
    ):
        tables = outcomes[name]
        shares = np.array([np.mean(held) for held in tables.values()])
        sizes = [len(held) for held in tables.values()]
        coverage = float(np.average(shares, weights=sizes))
        spread = np.sqrt(np.sum((np.array(sizes) * (shares - coverage)) ** 2)) / sum(sizes)
        low = sum(
            binom.cdf(sum(held), len(held), CONFIDENCE) < 1e-3 for held in tables.values() if len(held) >= 10
        )
        made.append(f"| {name} | {coverage:.4f} | {spread:.4f} | {sum(sizes):,} | {len(tables):,} | {low} |")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--write", action="store_true", help="replace the table in docs/coverage.md")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes

    def numbers() -> Iterator[int]:
        for number in range(options.start, options.start + options.count):
            if time.monotonic() > end:
                return
            yield number

    with tempfile.TemporaryDirectory() as folder:
        table = lines(measure(options.seed, numbers(), Path(folder)))
    print("\n".join(table))
    if options.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- table -->\n")
        after = rest.partition("<!-- /table -->")[2]
        head = (
            f"| interval | coverage | standard error | intervals | tables | tables below |\n|{'---|' * 6}\n"
        )
        PAGE.write_text(
            f"{before}<!-- table -->\n{head}{chr(10).join(table)}\n<!-- /table -->{after}", "utf-8"
        )


if __name__ == "__main__":
    main()
