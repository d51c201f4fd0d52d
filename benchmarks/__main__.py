"""Runs every benchmark, prints a table, and fails if a ratio is worse than promised.

python -m benchmarks            the full size of the paper's CPS table (1,146,552 rows)
python -m benchmarks --rows N   a smaller one
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import families, importing, opening, phase_three
from benchmarks.report import Line, show


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_146_552)
    rows = parser.parse_args().rows
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        parquet = opening.write_census(Path(folder), rows)
        lines += importing.run()
        lines += opening.run(parquet)
        lines += phase_three.run(parquet)
    lines += families.run(rows)
    show(rows, lines)
    return 0 if all(line.kept for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
