"""Bounded load on this machine's loopback: response times, throughput, many analysts, killed servers.

python -m benchmarks.load                   all of it; rewrites docs/load.md (some fifteen minutes)
python -m benchmarks.load --rounds 5 --seconds 5 --no-document    a short look
python -m benchmarks.load --only times throughput --no-document   some parts of it
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import load_crowd, load_killing, load_latency, load_throughput
from benchmarks.load_servers import ROOT, postgres
from benchmarks.machine import description

ANALYSTS, ANSWERS = 200, 40
_SERVER_CPU_RATIO = 1.1
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
- **Throughput**: stored answers by their number, asked without a pause over {connections} connections for
  {seconds:g} seconds, of one server process and of two on one PostgreSQL ledger. The database and the load
  take CPU time of the same {cores} cores, so the CPU milliseconds of each per answer are given too, and the
  rate that they allow on {cores} cores.
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
    parser.add_argument("--only", nargs="+", choices=("times", "throughput", "crowd", "kills"))
    parser.add_argument("--no-document", action="store_true", help="leave docs/load.md as it is")
    options = parser.parse_args()
    lines: list[Line] = []
    # Times first, on a machine that has not been busy.
    every_part: dict[str, list[Callable[[], list[Line]]]] = {
        "times": [partial(_times, database, options.seconds) for database in DATABASES],
        "throughput": [partial(_throughput, options.seconds)],
        "crowd": [partial(_crowd, database) for database in DATABASES],
        "kills": [partial(_kills, database, options.rounds) for database in DATABASES],
    }
    parts = [part for name in options.only or every_part for part in every_part[name]]
    for part in parts:
        started = time.monotonic()
        new = part()
        lines += new
        for line in new:
            mark = "" if line.kept else "   BROKEN"
            print(f"{line.what:38}{line.where:12}{line.found}   ({line.promised}){mark}", flush=True)
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
    if not options.no_document and not options.only:
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


def _times(database: str, seconds: float) -> list[Line]:
    with _place(database) as (folder, ledger):
        latencies = load_latency.measure(folder, ledger, seconds)
    promises = {"a fresh query": 150.0, "a query asked before": 20.0, "a stored answer by its number": 20.0}
    return [
        Line(
            f"p95 of {what}",
            database,
            f"{of.p95:.1f} ms; median {of.median:.1f}, p99 {of.p99:.1f}, largest {of.largest:.0f}; "
            + ", ".join(f"{number} × {status}" for status, number in sorted(of.statuses.items())),
            f"below {promises[what]:g} ms",
            of.p95 < promises[what] and set(of.statuses) == {"200"},
        )
        for what, of in latencies.items()
    ]


def _throughput(seconds: float) -> list[Line]:
    """The promise is on what the CPU time allows: the rate itself depends on what else the machine does."""
    with _place("PostgreSQL") as (folder, ledger):
        one, two = load_throughput.measure(folder, ledger, seconds)
    cores = os.cpu_count() or 1
    lines = [
        Line(
            f"stored answers, {of.processes} server process{'es' if of.processes > 1 else ''}",
            "PostgreSQL",
            f"{of.per_second:.0f} a second; CPU of each: server {of.server_ms:.2f} ms, "
            f"database {of.database_ms:.2f} ms, load {of.load_ms:.2f} ms; "
            f"at most {of.most_per_second(cores):.0f} a second on {cores} cores",
            "every one answered",
            of.refused == 0,
        )
        for of in (one, two)
    ]
    ratio, server_ratio = two.per_second / one.per_second, two.server_ms / one.server_ms
    lines.append(
        Line(
            "two processes against one",
            "PostgreSQL",
            f"{ratio:.2f} times the answers; {server_ratio:.2f} times the server's CPU for each",
            f"the server's CPU for each at most {_SERVER_CPU_RATIO:g} times, so nearly twice the answers "
            "where the database and the load have cores of their own",
            server_ratio <= _SERVER_CPU_RATIO,
        )
    )
    return lines


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
    explained = _EXPLAINED.format(
        answers=ANSWERS,
        rate=load_latency.RATE,
        analysts=load_latency.ANALYSTS,
        seconds=seconds,
        connections=load_throughput.CONNECTIONS,
        cores=os.cpu_count(),
    )
    rows = "\n".join(
        f"| {line.what} | {line.where} | {line.found} | {line.promised} | {kept} |"
        for line in lines
        for kept in ["yes" if line.kept else "**no**"]
    )
    return (
        f"{explained}\n| what | ledger | found | promised | kept |\n|---|---|---|---|---|\n{rows}\n\n"
        f"Machine: {description()}.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
