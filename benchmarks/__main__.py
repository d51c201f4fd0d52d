"""Measures explanations, opening, noise and preparing; fails if a ratio is worse than promised.

python -m benchmarks            1,146,552 rows, and up to ten million for growth; several minutes
python -m benchmarks --write    also writes docs/performance.md, its charts and the README's sentence
python -m benchmarks --rows 2000 --largest 10000 --rounds 1    a short look
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import document, drawing, explaining, families, importing, opening, pandas_loop
from benchmarks.document import Results
from benchmarks.drawing import CELLS
from benchmarks.explaining import Case
from benchmarks.tables import LARGEST, ROWS, Shape, shapes
from benchmarks.timing import SECONDS_EACH, Figure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="of every table but those for growth")
    parser.add_argument("--largest", type=int, default=LARGEST, help="rows of the largest table for growth")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender, if time allows")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    started = time.monotonic()
    results = run(shapes(), options.rows, options.largest, options.rounds)
    print(f"\n{time.monotonic() - started:.0f} s in all")
    if options.write:
        document.write(results)
    return 0 if results.kept else 1


def run(every_shape: list[Shape], rows: int, largest: int, rounds: int, cells: int = CELLS) -> Results:
    """Measures everything and prints each figure as it comes. Growth is measured on the first shape."""
    results = Results(rows, rounds, SECONDS_EACH)
    for shape in every_shape:
        results.cases += _printed_cases(explaining.run(shape, rows, rounds))
    results.growth += _printed_cases(explaining.measure_growth(every_shape[0], largest, rounds))
    results.figures += _printed(_figures(rows, rounds, cells))
    return results


def _figures(rows: int, rounds: int, cells: int) -> Iterator[Figure]:
    hardly_repeating, repeating, *_ = shapes()
    yield from importing.run(rounds)
    for shape in (hardly_repeating, repeating):
        with tempfile.TemporaryDirectory() as folder:
            yield from opening.run(shape, Path(folder), rows, rounds)
    yield from drawing.run(rounds, cells)
    yield from drawing.prepare(hardly_repeating, rows, rounds)
    yield from families.run(rows, rounds)
    yield from pandas_loop.run(repeating, rows, rounds)


def _printed_cases(cases: Iterator[Case]) -> Iterator[Case]:
    for case in cases:
        header, row = document.case_rows([case])
        print(f"{case.rows:,} rows: ", end="")
        print("; ".join(f"{name} {text}" for name, text in zip(header, row, strict=True)), flush=True)
        yield case


def _printed(figures: Iterator[Figure]) -> Iterator[Figure]:
    for figure in figures:
        header, row = document.figure_rows([figure])
        print("; ".join(f"{name} {text}" for name, text in zip(header, row, strict=True)), flush=True)
        yield figure


if __name__ == "__main__":
    sys.exit(main())
