"""Bounded load on this machine's loopback: many analysts, killed servers, response times.

python -m benchmarks.load                   all of it; rewrites docs/load.md (some fifteen minutes)
python -m benchmarks.load --rounds 5 --seconds 5 --no-document    a short look
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import load_crowd, load_killing, load_latency
from benchmarks.load_servers import ROOT, postgres

ANALYSTS, ANSWERS = 200, 40
DOCUMENT = ROOT / "docs" / "load.md"
_EXPLAINED = """\
# Load, crashes and response times

Measured by `make load` (`python -m benchmarks.load`), over real HTTP on loopback, with servers started by
`dpxplain serve` and the load made by processes of its own. Numbers of answers and amounts of ρ are exact;
milliseconds are this machine's, with everything on it: the server, the database and the load.

- **Many analysts**: all at the same moment, each with a token of their own, on one data set whose limit
  allows exactly {answers} answers of ρ = 0.1. Who gets 503 comes back; who got an answer asks again and must
  get the same one for free. Spent and limit are whole units of 10⁻¹² ρ, summed from the ledger's lines.
- **Killed servers**: `kill -9` at a random moment under six analysts who ask without a pause, queries and
  explanations. After each restart everything that had been delivered must be served again, identical and
  free, and the audit log must verify. Interrupted entries were charged and never released: budget wasted, as
  promised, never budget regained.
- **Response times**: {rate:g} requests a second on Adult (48,842 rows) from {analysts} analysts, at random
  moments (a Poisson process) for {seconds:g} seconds, whether or not earlier ones were answered; each latency
  counts from the moment the request was due. Fresh queries all differ, so each scans the data; stored ones
  are asked of a ledger grown by them.
"""


@dataclass(frozen=True)
class Line:
    what: str
    where: str
    found: str
    promised: str
    kept: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="kills on each database")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each stream of requests")
    parser.add_argument("--no-document", action="store_true", help="leave docs/load.md as it is")
    options = parser.parse_args()
    lines: list[Line] = []
    # Times first, on a machine that has not been busy.
    parts: list[Callable[[], list[Line]]] = [partial(_times, options.seconds)]
    parts += [partial(_crowd, database) for database in DATABASES]
    parts += [partial(_kills, database, options.rounds) for database in DATABASES]
    for part in parts:
        started = time.monotonic()
        new = part()
        lines += new
        for line in new:
            mark = "" if line.kept else "   BROKEN"
            print(f"{line.what:38}{line.where:12}{line.found}   ({line.promised}){mark}", flush=True)
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
    if not options.no_document:
        DOCUMENT.write_text(_document(lines, options.seconds), encoding="utf-8")
    return 0 if all(line.kept for line in lines) else 1


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    yield str(folder / "ledger.sqlite")


@contextmanager
def _postgres(_folder: Path) -> Iterator[str]:
    with postgres() as address:
        yield address


DATABASES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "SQLite": _sqlite,
    "PostgreSQL": _postgres,
}


@contextmanager
def _place(database: str) -> Iterator[tuple[Path, str]]:
    with tempfile.TemporaryDirectory() as folder, DATABASES[database](Path(folder)) as ledger:
        yield Path(folder), ledger


def _times(seconds: float) -> list[Line]:
    with _place("SQLite") as (folder, ledger):
        told = load_latency.measure(folder, ledger, seconds)
    promises = {"a fresh query": 150.0, "a query asked before": 20.0, "a stored answer by its number": 20.0}
    return [
        Line(
            f"p95 of {what}",
            "SQLite",
            f"{one.p95:.1f} ms; median {one.median:.1f}, p99 {one.p99:.1f}, largest {one.largest:.0f}; "
            + ", ".join(f"{number} × {status}" for status, number in sorted(one.statuses.items())),
            f"below {promises[what]:g} ms",
            one.p95 < promises[what] and set(one.statuses) == {"200"},
        )
        for what, one in told.items()
    ]


def _crowd(database: str) -> list[Line]:
    processes = 1 if database == "SQLite" else 2
    with _place(database) as (folder, ledger):
        one = load_crowd.run(folder, ledger, analysts=ANALYSTS, answers=ANSWERS, processes=processes)
    good = one.statuses == {200: ANSWERS, 409: ANALYSTS - ANSWERS} and one.spent_units == one.limit_units
    return [
        Line(
            f"{ANALYSTS} analysts, {processes} server process{'es' if processes > 1 else ''}",
            database,
            f"{one.statuses[200]} answered, {one.statuses[409]} refused, {one.came_back} times 503; "
            f"spent {one.spent_units:,} of {one.limit_units:,} units; audit {_intact(one.problems)}",
            f"exactly {ANSWERS} answers, spent equal to the limit",
            good and not one.changed and not one.problems and one.releases == ANSWERS,
        )
    ]


def _kills(database: str, rounds: int) -> list[Line]:
    with _place(database) as (folder, ledger):
        one = load_killing.run(folder, ledger, rounds=rounds, seed=50)
    for problem in one.broken[:10]:
        print(f"    {problem}")
    return [
        Line(
            f"{one.kills} times kill -9 under load",
            database,
            f"{len(one.delivered)} delivered and served again, {one.cut_off} requests cut off, "
            f"{one.refused} refused, {one.interrupted} entries interrupted; "
            f"spent {one.spent_units:,} of {one.limit_units:,} units; {len(one.broken)} promises broken",
            "nothing delivered is lost, never more than the limit, every restart clean",
            not one.broken and one.kills == rounds and one.spent_units <= one.limit_units,
        )
    ]


def _intact(problems: list[str]) -> str:
    return "broken" if problems else "intact"


def _document(lines: list[Line], seconds: float) -> str:
    told = _EXPLAINED.format(
        answers=ANSWERS, rate=load_latency.RATE, analysts=load_latency.ANALYSTS, seconds=seconds
    )
    rows = "\n".join(
        f"| {one.what} | {one.where} | {one.found} | {one.promised} | {'yes' if one.kept else '**no**'} |"
        for one in lines
    )
    cores = os.cpu_count()
    busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    machine = f"{_processor()}, {cores} cores, Python {platform.python_version()}, {platform.system()}"
    return (
        f"{told}\n| what | ledger | found | promised | kept |\n|---|---|---|---|---|\n{rows}\n\n"
        f"Machine: {machine}; load averages at the end {busy}. Date: {datetime.now(UTC):%Y-%m-%d}.\n"
    )


def _processor() -> str:
    try:
        names = [
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
        ]
        return names[0].partition(":")[2].strip()
    except (OSError, IndexError):
        return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
