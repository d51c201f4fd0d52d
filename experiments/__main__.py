"""`python -m experiments`: runs all experiments, or those named; `list` names them.

Finished cells are kept, so that an interrupted run resumes; what is not reached within --minutes is named. Studies
beside the paper (`study`, `interval-coverage`, ...) are scripts that rewrite pages of their own in docs/.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments import harness, tables
from experiments.harness import FULL, SHORT, Scale

OUT = Console(highlight=False, markup=False)
STUDIES = {
    "study": "study.py",
    "interval-coverage": "interval_coverage.py",
    "marginal-coverage": "marginal_coverage.py",
    "untuned-coverage": "untuned_coverage.py",
}


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    from experiments.paper import EXPERIMENTS

    if options.names == ["list"]:
        _list()
        return 0
    unknown = [name for name in options.names if name not in EXPERIMENTS and name not in STUDIES]
    if unknown:
        known = ", ".join([*EXPERIMENTS, *STUDIES])
        OUT.print(f"There is no experiment {unknown[0]!r}. Known are: {known}.")
        return 2
    _use_files(options)
    for name in options.names:
        if name in STUDIES:
            sys.argv = [STUDIES[name], *(["--write"] if name == "untuned-coverage" else [])]
            runpy.run_path(str(Path(__file__).parent / STUDIES[name]), run_name="__main__")
    chosen = [name for name in options.names or EXPERIMENTS if name in EXPERIMENTS]
    return _run(chosen, options) if chosen else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="experiments", description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments; all of the paper's if none is named")
    parser.add_argument("--minutes", type=float, default=55.0, help="start no cell after so many")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--runs", type=int, help="repetitions; 10 as in the paper if not said")
    parser.add_argument("--short", action="store_true", help="small tables and few repetitions, for a look")
    parser.add_argument("--out", type=Path, default=tables.ROOT / "build" / "experiments")
    parser.add_argument("--docs", action="store_true", help="also rewrite docs/experiments.md and its charts")
    parser.add_argument("--cps", help="an IPUMS-CPS extract (CSV) instead of generated rows")
    parser.add_argument("--trips", nargs="+", help="TLC trip records (parquet) instead of generated rows")
    parser.add_argument("--zones", help="the TLC zone lookup (CSV), needed with --trips")
    return parser


def _use_files(options: argparse.Namespace) -> None:
    if options.cps:
        os.environ[tables.CPS] = str(Path(options.cps).resolve())
    if options.trips:
        os.environ[tables.TRIPS] = os.pathsep.join(str(Path(file).resolve()) for file in options.trips)
        os.environ[tables.ZONES] = str(Path(options.zones).resolve())


def _list() -> None:
    from experiments.paper import EXPERIMENTS

    for name, module in EXPERIMENTS.items():
        OUT.print(f"{name:18} {module.TITLE}")
    for name, script in STUDIES.items():
        first = (Path(__file__).parent / script).read_text(encoding="utf-8").split("\n")[0]
        OUT.print(f"{name:18} {first.removeprefix(chr(34) * 3)}")


def _run(names: list[str], options: argparse.Namespace) -> int:
    from experiments import report
    from experiments.paper import EXPERIMENTS

    scale: Scale = SHORT if options.short else FULL
    scale = replace(scale, runs=options.runs) if options.runs else scale
    cells = [cell for name in names for cell in EXPERIMENTS[name].cells(scale)]
    waiting = len({cell.key for cell in cells if cell.rows() is None})
    start = time.monotonic()
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True),
    ) as progress:  # fmt: skip
        task = progress.add_task("cells", total=waiting)
        missing = harness.run(
            cells, workers=options.workers, minutes=options.minutes, done=lambda: progress.advance(task)
        )
    minutes = (time.monotonic() - start) / 60
    if missing:
        OUT.print(f"No time was left for {len(missing)} of {len(cells)} cells; run it again to resume.")
        return 1
    sections = [
        report.section_of(EXPERIMENTS[name], harness.frame_of(EXPERIMENTS[name], scale)) for name in names
    ]
    page = report.write(sections, options.out, scale, minutes)
    if options.docs:
        report.write_document(sections, options.out, tables.ROOT / "docs", scale, minutes)
    for section in sections:
        OUT.print(f"\n{section.title}", style="bold")
        for claim in section.claims:
            OUT.print(f"  {claim.verdict}: {claim.text}. Published: {claim.published}. Here: {claim.measured}")
    OUT.print(f"\n{page}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
