"""Tries statements, schemas, requests and damaged ledgers by the ten thousand, within a time limit.

    make fuzz                                                  20 minutes; the seed is printed
    make fuzz FUZZ="sql --minutes 60"                          statements only
    make fuzz FUZZ="sql --seed 7 --start 1234 --count 1"       one case again

Exits with 1 if anything went wrong, and prints each failure with the seed and number that reproduce it. The
cases and their checks are in tests/fuzz; short runs with a fixed seed are part of `make test`.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ledger_fuzz import fuzz_ledgers
from schema_fuzz import fuzz_schemas
from sql_fuzz import fuzz_sql
from wire_fuzz import fuzz_wire, open_config

from server_fixture import running_server

_SHARES = {"sql": 0.7, "wire": 0.1, "schema": 0.1, "ledger": 0.1}  # of the time


def main() -> int:
    parser = argparse.ArgumentParser(description="See the head of this file.")
    parser.add_argument("what", nargs="*", choices=[*_SHARES, []], help="which parts; all if none is named")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--start", type=int, default=0, help="the number of the first case")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="how many cases at most, of each part")
    options = parser.parse_args()
    parts = options.what or [*_SHARES]
    print(f"seed {options.seed}", flush=True)
    failures = 0
    for part in parts:
        seconds = 60 * options.minutes * _SHARES[part] / sum(_SHARES[p] for p in parts)
        numbers = _until(time.monotonic() + seconds, range(options.start, options.start + options.count))
        with tempfile.TemporaryDirectory() as folder:
            figures = _PARTS[part](options.seed, numbers, Path(folder))
        failures += len(figures.wrong)
        _report(part, figures)
    return 1 if failures else 0


def _until(end: float, numbers: range) -> Iterator[int]:
    for number in numbers:
        if time.monotonic() > end:
            return
        yield number


def _wire(seed: int, numbers: Iterator[int], folder: Path) -> Any:
    with running_server(open_config(folder)) as server:
        return fuzz_wire(seed, numbers, server)


_PARTS: dict[str, Callable[[int, Iterator[int], Path], Any]] = {
    "sql": fuzz_sql,
    "wire": _wire,
    "schema": fuzz_schemas,
    "ledger": fuzz_ledgers,
}


def _report(part: str, figures: Any) -> None:
    values = dict(vars(figures))
    for name in ("wrong", "not_in_duckdb"):
        if name in values:
            values[name] = len(values[name])
    if "statuses" in values:
        values["statuses"] = dict(sorted(values["statuses"].items()))
    print(f"{part}: {', '.join(f'{name} {value}' for name, value in values.items())}")
    for line in figures.wrong:
        print(f"  {part} {line}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
