"""Writes the results as tables for the terminal and docs/performance.md, and as the README's sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import charts
from benchmarks.explaining import MECHANISMS, Case
from benchmarks.machine import description
from benchmarks.timing import Figure, Timing, ratio_text, seconds_text

ROOT = Path(__file__).parent.parent
_PACKAGES = ("duckdb", "numpy", "opendp")
_README = re.compile(r"<!-- speed -->.*?<!-- /speed -->", re.DOTALL)
_EXPLAINED = """\
# Speed, measured

Written by `python -m benchmarks --write` (`make bench` measures the same and writes nothing). A ratio worse
than promised fails the command.

- Every figure is the median of up to {rounds} turns, after a first turn that does not count. Contenders
  take turns. A contender that has used {seconds_each:g} s in all takes no further turn, so slow figures have
  fewer turns: column *n*. A first turn that takes longer than {seconds_each:g} s is the figure itself.
- **Each explanation runs in a new session**, with nothing cached or stored besides the opened table, the
  query's answer and an open ledger. The time includes planning, tabulating the predicates, reserving in the
  ledger (in memory), the pass over the data, influences, private selection, noise, ranks and storing the
  release. k = 5, ρ = 1, two groups compared.
- *Bare* is DuckDB's `GROUPING SETS` over the same encoded columns in the same process: counts and sums, one
  set per subset of attributes. *NumPy* is the faster of two ways to count and sum by `bincount` over the same
  columns: subset by subset, and over fewer, wider subsets. Neither plans, ranks or adds noise.
- CPU seconds add up all threads, so they can exceed the wall clock's.
"""
_ROWS = """\
Rows *hardly repeat* where attributes are independent and uniform. *Repeating* rows agree in all attributes
with many others (eight attributes: the generated census-like table; twenty: ten rows for each combination).
The engine then keeps each combination once ([ADR 4](adr/0004-one-pass-for-all-predicates.md)).
"""


@dataclass
class Results:
    """Everything that one run has measured."""

    rows: int
    rounds: int
    seconds_each: float
    cases: list[Case] = field(default_factory=list)
    growth: list[Case] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        return all(case.kept for case in self.cases) and all(figure.kept for figure in self.figures)


def case_rows(cases: list[Case]) -> list[list[str]]:
    """A header, and a row for each case with the default, its ratios, and the other mechanisms."""
    header = ["table", "rows", "conjuncts", "predicates", "default", "CPU", "n", "bare", "CPU", "n", "NumPy"]
    header += ["default / bare", "default / NumPy", "promised"]
    header += [f"{name} ({word})" for name in MECHANISMS[1:] for word in ("s", "/ bare")]
    return [header, *(_case_row(case) for case in cases)]


def _case_row(case: Case) -> list[str]:
    default, bare, fastest = case.timings["auto"], case.bare, case.fastest_bincount
    row = [case.shape, _repeating(case), str(case.conjuncts), f"{case.predicates:,}"]
    row += [f"{seconds_text(default.seconds)} ({case.chosen})", *_effort(default)]
    row += [seconds_text(bare.seconds), *_effort(bare), seconds_text(fastest.seconds)]
    row += [ratio_text(default.seconds / bare.seconds), ratio_text(default.seconds / fastest.seconds)]
    row.append(f"≤ {case.most_of_bare:g} of bare: {_kept(case.kept)}")
    for name in MECHANISMS[1:]:
        timing = case.timings.get(name)
        row += ["not run", ""] if timing is None else _compared(timing, bare)
    return row


def figure_rows(figures: list[Figure]) -> list[list[str]]:
    header = ["what", "conditions", "ours", "CPU", "n", "baseline", "", "CPU", "n", "ratio", "promised"]
    rows = []
    for figure in figures:
        promised = "" if figure.most is None else f"≤ {ratio_text(figure.most)}: {_kept(figure.kept)}"
        rows.append(
            [
                *(figure.name, figure.conditions, seconds_text(figure.ours.seconds), *_effort(figure.ours)),
                *(figure.baseline_name, seconds_text(figure.baseline.seconds), *_effort(figure.baseline)),
                *(ratio_text(figure.ratio), promised),
            ]
        )
    return [header, *rows]


def markdown(rows: list[list[str]]) -> str:
    header, *body = rows
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def performance(results: Results) -> str:
    """The text of docs/performance.md."""
    growth = [["rows", "default", "bare", "NumPy", "default / bare"]]
    for case in results.growth:
        timings = case.timings["auto"], case.bare, case.fastest_bincount
        seconds = [seconds_text(timing.seconds) for timing in timings]
        growth.append(
            [f"{case.rows:,}", *seconds, ratio_text(case.timings["auto"].seconds / case.bare.seconds)]
        )
    return "\n".join(
        [
            _EXPLAINED.format(rounds=results.rounds, seconds_each=results.seconds_each),
            f"Machine: {description(*_PACKAGES)}.\n",
            f"## Explanations, {results.rows:,} rows\n",
            _ROWS,
            markdown(case_rows(results.cases)),
            "\n![Seconds over predicates](performance/predicates.svg)\n",
            "## Growth with the number of rows\n",
            "The table shows the default explanation of all pairs of seven attributes. Rows hardly repeat.\n",
            markdown(growth),
            "\n![Seconds over rows](performance/rows.svg)\n",
            f"## Opening, noise, preparing and the rest, {results.rows:,} rows where there are any\n",
            markdown(figure_rows(results.figures)),
            "",
        ]
    )


def write(results: Results, root: Path = ROOT) -> None:
    """Writes docs/performance.md with its charts, and the README's sentence."""
    folder = root / "docs" / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    charts.save_predicates(results.cases, folder / "predicates.svg")
    charts.save_growth(results.growth, folder / "rows.svg")
    (root / "docs" / "performance.md").write_text(performance(results), encoding="utf-8")
    readme = root / "README.md"
    text, replaced = _README.subn(
        lambda _: f"<!-- speed -->\n{speed_sentence(results)}\n<!-- /speed -->", readme.read_text("utf-8")
    )
    assert replaced == 1
    readme.write_text(text, encoding="utf-8")


def speed_sentence(results: Results) -> str:
    """A sentence on the default explanation over eight attributes, with the conditions of its figures."""
    of = {repeats: _eight_attributes(results.cases, repeats) for repeats in (False, True)}
    sizes = _listed([f"{case.predicates:,}" for case in of[False]])
    times = {
        repeats: _listed([seconds_text(case.timings["auto"].seconds) for case in cases])
        for repeats, cases in of.items()
    }
    ratios = {
        repeats: max(case.timings["auto"].seconds / case.bare.seconds for case in cases)
        for repeats, cases in of.items()
    }
    return (
        f"An explanation over {sizes} predicates of {results.rows:,} rows took\n"
        f"{times[False]} where rows hardly repeat,\n"
        f"at most {ratios[False]:.2f} times the bare `GROUPING SETS` query, and\n"
        f"{times[True]} where they do, at most {ratios[True]:.2f} times\n"
        "(the default mechanism, 2 cores, [measured](docs/performance.md))."
    )


def _eight_attributes(cases: list[Case], repeats: bool) -> list[Case]:
    return [case for case in cases if case.shape == "8 attributes" and case.repeats == repeats]


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _effort(timing: Timing) -> tuple[str, str]:
    return seconds_text(timing.cpu_seconds), str(len(timing.wall))


def _compared(timing: Timing, bare: Timing) -> list[str]:
    return [seconds_text(timing.seconds), ratio_text(timing.seconds / bare.seconds)]


def _repeating(case: Case) -> str:
    return "repeating" if case.repeats else "hardly repeating"


def _kept(kept: bool) -> str:
    return "yes" if kept else "**no**"
