"""Bounded load on this machine's loopback: response times, throughput, crowds, kills, outages, growth.

python -m benchmarks.load --write           all of it, into docs/load.md (some forty minutes)
python -m benchmarks.load --quick           a short look at every part
python -m benchmarks.load --only times throughput
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks import (
    load_crowd,
    load_document,
    load_growth,
    load_killing,
    load_latency,
    load_outage,
    load_throughput,
)
from benchmarks.load_document import Line
from benchmarks.load_growth import Growth
from benchmarks.load_servers import postgres, postgres_and_server

_SERVER_CPU_RATIO = 1.1
_GROWTH_RATIO = 1.5
PARTS = ("times", "throughput", "growth", "crowd", "outages", "kills")


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    rounds: int = 50
    seconds: float = 20.0
    analysts: int = 200
    answers: int = 40
    outages: int = 6
    growth: Sequence[int] = load_growth.SIZES


QUICK = Sizes(rounds=2, seconds=1.0, analysts=20, answers=4, outages=2, growth=(20, 40, 80))


@dataclass
class Results:
    lines: list[Line] = field(default_factory=list)
    growth: dict[str, list[Growth]] = field(default_factory=dict)
    """By database."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=Sizes.rounds, help="kills on each database")
    parser.add_argument("--seconds", type=float, default=Sizes.seconds, help="of each stream of requests")
    parser.add_argument(
        "--growth", type=int, nargs="+", default=Sizes.growth, metavar="LINES", help="lengths of the history"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; the figures say nothing")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--write", action="store_true", help="rewrite the figures of docs/load.md")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes(options.rounds, options.seconds, growth=options.growth)
    if options.write and (options.quick or options.only):
        parser.error("--write is for a whole run")
    results = run(sizes, options.only or PARTS)
    if options.write:
        load_document.write(results.lines, results.growth, answers=sizes.answers, seconds=sizes.seconds)
    return 0 if all(line.kept for line in results.lines) else 1


def run(sizes: Sizes, names: Sequence[str] = PARTS) -> Results:
    """Times first, on a machine that has not been busy. Each figure is printed as it comes."""
    results = Results()
    every_part: dict[str, list[Callable[[], list[Line]]]] = {
        "times": [partial(_times, database, sizes.seconds) for database in DATABASES],
        "throughput": [partial(_throughput, sizes.seconds)],
        "growth": [partial(_growth, database, sizes.growth, results) for database in DATABASES],
        "crowd": [partial(_crowd, database, sizes) for database in DATABASES],
        "outages": [partial(_outages, sizes)],
        "kills": [partial(_kills, database, sizes.rounds) for database in DATABASES],
    }
    for part in (part for name in names for part in every_part[name]):
        started = time.monotonic()
        lines = part()
        results.lines += lines
        for line in lines:
            mark = "" if line.kept else "   BROKEN"
            print(f"{line.what:38}{line.where:12}{line.found}   ({line.promised}){mark}", flush=True)
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
    return results


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


def _growth(database: str, sizes: Sequence[int], results: Results) -> list[Line]:
    with ExitStack() as stack:
        places = [stack.enter_context(_place(database)) for _ in sizes]
        measured = load_growth.measure(places, sizes)
    results.growth[database] = measured
    print(load_document.growth_table(database, measured), flush=True)
    first, last = measured[0], measured[-1]
    ratios = {kind: last.ratio(first, kind) for kind in first.times}
    cpu_ratios = {kind: last.cpu_ratio(first, kind) for kind in first.times}
    worst, worst_cpu = (max(of, key=of.__getitem__) for of in (ratios, cpu_ratios))
    return [
        Line(
            f"{last.lines:,} lines of history",
            database,
            f"at most {ratios[worst]:.2f} times as long as with {first.lines:,} ({worst}), "
            f"{cpu_ratios[worst_cpu]:.2f} times the server's CPU ({worst_cpu})",
            f"every request at most {_GROWTH_RATIO:g} times",
            ratios[worst] <= _GROWTH_RATIO,
        )
    ]


def _outages(sizes: Sizes) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder, postgres_and_server() as (ledger, database):
        outcome = load_outage.run(
            Path(folder), ledger, database, outages=sizes.outages, seconds=sizes.seconds
        )
    rounds = outcome.rounds
    for problem in rounds.broken[:10]:
        print(f"    {problem}")
    statuses = ", ".join(f"{number} × {status}" for status, number in sorted(outcome.statuses.items()))
    return [
        Line(
            f"{outcome.number} outages of the database",
            "PostgreSQL",
            f"{len(rounds.delivered)} delivered and served again; meanwhile {statuses or 'no refusal'}, "
            f"the slowest after {outcome.slowest_refusal_ms:.0f} ms; everybody served again within "
            f"{max(outcome.seconds_to_return):.1f} s of its return; {rounds.interrupted} charges without "
            f"a release, {outcome.charged_twice} releases charged twice; "
            f"{len(rounds.broken)} promises broken",
            "only 503 meanwhile, nothing delivered is lost or charged twice",
            not rounds.broken and not outcome.charged_twice and set(outcome.statuses) <= {"503"},
        )
    ]


def _crowd(database: str, sizes: Sizes) -> list[Line]:
    processes = 1 if database == "SQLite" else 2
    analysts, answers = sizes.analysts, sizes.answers
    with _place(database) as (folder, ledger):
        one = load_crowd.run(folder, ledger, analysts=analysts, answers=answers, processes=processes)
    good = one.statuses == {200: answers, 409: analysts - answers} and one.spent_units == one.limit_units
    return [
        Line(
            f"{analysts} analysts, {processes} server process{'es' if processes > 1 else ''}",
            database,
            f"{one.statuses[200]} answered, {one.statuses[409]} refused, {one.came_back} times 503; "
            f"spent {one.spent_units:,} of {one.limit_units:,} units; audit {_intact(one.problems)}",
            f"exactly {answers} answers, spent equal to the limit",
            good and not one.changed and not one.problems and one.releases == answers,
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


if __name__ == "__main__":
    sys.exit(main())
