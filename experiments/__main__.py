"""`python -m experiments` runs all experiments, or the named ones; `list` lists their names.

Finished cells are kept, so an interrupted run resumes. If --minutes is too short, it says how many cells are
missing. Studies beyond the paper (`study`, `interval-coverage`, ...) are scripts that rewrite their pages in
docs/.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dpxplain.errors import BadRequest
from experiments import harness, report, tables
from experiments.harness import FULL, SHORT, Scale
from experiments.paper import EXPERIMENTS
from experiments.report import Section

OUT = Console(highlight=False, markup=False)
STUDIES = {
    "study": "study.py",
    "interval-coverage": "interval_coverage.py",
    "marginal-coverage": "marginal_coverage.py",
    "untuned-coverage": "untuned_coverage.py",
}


def main(arguments: list[str]) -> int:
    """Run the command, return its exit code. BadRequest for an unknown name or --trips without --zones."""
    options = _parser().parse_args(arguments)
    if options.names == ["list"]:
        _list(options.json)
        return 0
    _check(options)
    for name in options.names:
        if name in STUDIES:
            sys.argv = [STUDIES[name], *(["--write"] if name == "untuned-coverage" else [])]
            runpy.run_path(str(Path(__file__).parent / STUDIES[name]), run_name="__main__")
    chosen = [name for name in options.names or EXPERIMENTS if name in EXPERIMENTS]
    return _run(chosen, options) if chosen else 0


def _check(options: argparse.Namespace) -> None:
    known = [*EXPERIMENTS, *STUDIES]
    for name in options.names:
        if name not in known:
            raise BadRequest(f"There is no experiment {name!r}.", remedy=f"Known are: {', '.join(known)}.")
    if options.trips and not options.zones:
        raise BadRequest("--trips needs the zone lookup too.", remedy="Add --zones taxi_zone_lookup.csv.")
    if options.cps:
        os.environ[tables.CPS] = str(Path(options.cps).resolve())
    if options.trips:
        os.environ[tables.TRIPS] = os.pathsep.join(str(Path(file).resolve()) for file in options.trips)
        os.environ[tables.ZONES] = str(Path(options.zones).resolve())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="experiments", description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments; all of the paper's if none is named")
    parser.add_argument("--minutes", type=float, default=55.0, help="start no cell after so many")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--runs", type=int, help="repetitions; 10 as in the paper if not said")
    parser.add_argument("--short", action="store_true", help="small tables and few repetitions, for a look")
    parser.add_argument("--out", type=Path, default=tables.ROOT / "build" / "experiments")
    parser.add_argument("--json", action="store_true", help="print the claims as JSON")
    parser.add_argument("--docs", action="store_true", help="also rewrite docs/experiments.md and its charts")
    parser.add_argument("--cps", help="an IPUMS-CPS extract (CSV) instead of generated rows")
    parser.add_argument("--trips", nargs="+", help="TLC trip records (parquet) instead of generated rows")
    parser.add_argument("--zones", help="the TLC zone lookup (CSV), needed with --trips")
    return parser


def _list(as_json: bool) -> None:
    titles = {name: module.TITLE for name, module in EXPERIMENTS.items()}
    for name, script in STUDIES.items():
        text = (Path(__file__).parent / script).read_text(encoding="utf-8")
        titles[name] = text.removeprefix('"""').split("\n")[0]
    if as_json:
        print(json.dumps({"kind": "experiments", "experiments": titles}, ensure_ascii=False))
        return
    for name, title in titles.items():
        OUT.print(f"{name:18} {title}")


def _run(names: list[str], options: argparse.Namespace) -> int:
    scale: Scale = SHORT if options.short else FULL
    scale = replace(scale, runs=options.runs) if options.runs else scale
    cells = [cell for name in names for cell in EXPERIMENTS[name].cells(scale)]
    waiting = len({cell.key for cell in cells if cell.rows() is None})
    start = time.monotonic()
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), disable=options.json,
    ) as progress:  # fmt: skip
        task = progress.add_task("cells", total=waiting)
        missing = harness.run(
            cells, workers=options.workers, minutes=options.minutes, done=lambda: progress.advance(task)
        )
    minutes = (time.monotonic() - start) / 60
    if missing:
        print(
            f"No time was left for {len(missing)} of {len(cells)} cells; run it again to resume.",
            file=sys.stderr,
        )
        return 1
    sections = [
        report.section_of(EXPERIMENTS[name], harness.frame_of(EXPERIMENTS[name], scale)) for name in names
    ]
    page = report.write(sections, options.out, scale, minutes)
    if options.docs:
        report.write_document(sections, options.out, tables.ROOT / "docs", scale, minutes)
    _print(sections, page, options.json)
    return 0


def _print(sections: list[Section], page: Path, as_json: bool) -> None:
    if as_json:
        claims = [{"experiment": s.name, **asdict(claim)} for s in sections for claim in s.claims]
        print(json.dumps({"kind": "experiment", "report": str(page), "claims": claims}, ensure_ascii=False))
        return
    for section in sections:
        OUT.print(f"\n{section.title}", style="bold")
        for claim in section.claims:
            OUT.print(f"{claim.verdict.upper():15} {claim.text}")
            OUT.print(f"{'published':>15} {claim.published}\n{'here':>15} {claim.measured}")
            OUT.print(f"{'why':>15} {claim.reason}" if claim.reason else "", end="\n" if claim.reason else "")
    OUT.print(f"\n{page}")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BadRequest as refused:
        sys.exit(str(refused))
