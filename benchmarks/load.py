"""Runs bounded load on loopback and measures response times, throughput, crowds, kills, outages and growth.

python -m benchmarks.load --write                all of it, into docs/load.md (some twenty minutes)
python -m benchmarks.load --write --only growth  measures that part again; the others stay as they are
python -m benchmarks.load --quick                a short look at every part

With --write each part is stored and written as soon as it is measured, so an interruption loses only the
part that was running.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import (
    load_crowd,
    load_document,
    load_growth,
    load_killing,
    load_latency,
    load_outage,
    load_results,
    load_throughput,
)
from benchmarks.load_growth import Growth
from benchmarks.load_results import Line, Result, Table
from benchmarks.load_servers import postgres, postgres_and_server
from benchmarks.machine import description

_SERVER_CPU_RATIO = 1.1
_GROWTH_RATIO = 1.5


@dataclass(frozen=True)
class Sizes:
    """The sizes of all measurements."""

    rounds: int = 25
    seconds: float = 20.0
    analysts: int = 200
    answers: int = 40
    outages: int = 6
    outage_seconds: float = 10.0
    growth: Sequence[int] = load_growth.SIZES
    times: int = 30
    rate: float = load_latency.RATE


QUICK = Sizes(
    rounds=2,
    seconds=1.0,
    analysts=20,
    answers=4,
    outages=2,
    outage_seconds=1.0,
    growth=(20, 40, 80),
    times=10,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=Sizes.rounds, help="kills on each database")
    parser.add_argument("--seconds", type=float, default=Sizes.seconds, help="of each stream of requests")
    parser.add_argument(
        "--rate",
        type=float,
        default=Sizes.rate,
        help="requests a second of each stream; less on a slow machine",
    )
    parser.add_argument(
        "--growth", type=int, nargs="+", default=Sizes.growth, metavar="LINES", help="lengths of the history"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; the figures say nothing")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument(
        "--on", nargs="+", choices=list(DATABASES), default=list(DATABASES), metavar="DATABASE"
    )
    parser.add_argument("--write", action="store_true", help="store each figure and rewrite docs/load.md")
    options = parser.parse_args()
    if options.write and options.quick:
        parser.error("--write is not for --quick, whose figures say nothing")
    sizes = (
        QUICK
        if options.quick
        else Sizes(options.rounds, options.seconds, growth=options.growth, rate=options.rate)
    )
    results = []
    for result in run(sizes, options.only, options.on):
        results.append(result)
        if options.write:
            load_results.store(result)
            load_document.write(load_results.read())
    return 0 if all(line.kept for result in results for line in result.lines) else 1


def run(
    sizes: Sizes, parts: Sequence[str] | None = None, databases: Sequence[str] | None = None
) -> Iterator[Result]:
    """Measures and prints each part on each database. Times come first, before load keeps the CPU busy."""
    for part, measure in PARTS.items():
        for database in DATABASES:
            if part not in (parts or PARTS) or database not in (databases or DATABASES):
                continue
            started = time.monotonic()
            result = measure(database, sizes)
            for line in result.lines:
                mark = "" if line.kept else "   BROKEN"
                print(f"{line.what:38}{database:12}{line.found}   ({line.promised}){mark}", flush=True)
            print(f"    {part}, {database}: {time.monotonic() - started:.0f} s", flush=True)
            yield replace(result, machine=description())


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


def _times(database: str, sizes: Sizes) -> Result:
    with _place(database) as (folder, ledger):
        latencies = load_latency.measure(folder, ledger, sizes.seconds, sizes.rate)
    promises = {"a fresh query": 150.0, "a query asked before": 20.0, "a stored answer by its number": 20.0}
    lines = [
        Line(
            f"p95 of {what}",
            f"{of.p95:.1f} ms; median {of.median:.1f}, p99 {of.p99:.1f}, largest {of.largest:.0f}; "
            + ", ".join(f"{number} × {status}" for status, number in sorted(of.statuses.items())),
            f"below {promises[what]:g} ms",
            of.p95 < promises[what] and set(of.statuses) == {"200"},
        )
        for what, of in latencies.items()
    ]
    streams = {"rate": sizes.rate, "analysts": load_latency.ANALYSTS, "seconds": sizes.seconds}
    return Result("times", database, lines, sizes=streams)


def _throughput(database: str, sizes: Sizes) -> Result:
    """Measures throughput. The promise for two processes is on CPU time, as other work affects the rate."""
    processes = (1,) if database == "SQLite" else (1, 2)
    with _place(database) as (folder, ledger):
        measured = load_throughput.measure(folder, ledger, sizes.seconds, processes)
    cores = os.cpu_count() or 1
    lines = [
        Line(
            f"stored answers, {_processes(of.processes)}",
            f"{of.per_second:.0f} a second; CPU of each: server {of.server_ms:.2f} ms, "
            f"database {of.database_ms:.2f} ms, load {of.load_ms:.2f} ms; "
            f"at most {of.most_per_second(cores):.0f} a second on {cores} cores",
            "every one answered",
            of.refused == 0,
        )
        for of in measured
    ]
    if len(measured) > 1:
        one, two = measured
        ratio, server_ratio = two.per_second / one.per_second, two.server_ms / one.server_ms
        lines.append(
            Line(
                "two processes against one",
                f"{ratio:.2f} times the answers; {server_ratio:.2f} times the server's CPU for each",
                f"the server's CPU for each at most {_SERVER_CPU_RATIO:g} times, so nearly twice the answers "
                "where the database and the load have cores of their own",
                server_ratio <= _SERVER_CPU_RATIO,
            )
        )
    streams = {"connections": load_throughput.CONNECTIONS, "seconds": sizes.seconds}
    return Result("throughput", database, lines, sizes=streams)


def _growth(database: str, sizes: Sizes) -> Result:
    with ExitStack() as stack:
        places = [stack.enter_context(_place(database)) for _ in sizes.growth]
        measured = load_growth.measure(places, sizes.growth, sizes.times)
    first, last = measured[0], measured[-1]
    ratios = {kind: last.ratio(first, kind) for kind in first.times}
    cpu_ratios = {kind: last.cpu_ratio(first, kind) for kind in first.times}
    worst, worst_cpu = (max(of, key=of.__getitem__) for of in (ratios, cpu_ratios))
    line = Line(
        f"{last.lines:,} lines of history",
        f"at most {ratios[worst]:.2f} times as long as with {first.lines:,} ({worst}), "
        f"{cpu_ratios[worst_cpu]:.2f} times the server's CPU ({worst_cpu})",
        f"every request at most {_GROWTH_RATIO:g} times",
        ratios[worst] <= _GROWTH_RATIO,
    )
    table = growth_table(database, measured)
    return Result("growth", database, [line], table, sizes={"times": sizes.times})


def growth_table(database: str, sizes: Sequence[Growth]) -> Table:
    """A table of milliseconds by the length of the history, with the last as a multiple of the first."""
    first, last = sizes[0], sizes[-1]
    rows = [
        [
            kind,
            *(f"{size.times[kind].answered:.1f} ms ({size.times[kind].cpu:.1f})" for size in sizes),
            f"{last.ratio(first, kind):.2f} ({last.cpu_ratio(first, kind):.2f})",
        ]
        for kind in first.times
    ]
    beside = [f"{size.beside_reader_ms:.1f} ms" for size in sizes]
    growth = f"{last.beside_reader_ms / first.beside_reader_ms:.2f}"
    rows.append(["the budget beside one who loops on the history, 95 of 100 within", *beside, growth])
    starts = [f"{size.start_seconds:.2f} s ({size.start_cpu_seconds:.2f})" for size in sizes]
    rows.append(["starting the server", *starts, ""])
    for words, name in (
        ("verifying the whole log", "verify_seconds"),
        ("verifying what is new since then", "verify_again_seconds"),
    ):
        rows.append([words, *(f"{getattr(size, name):.2f} s" for size in sizes), ""])
    return Table([database, *(f"{size.lines:,} lines" for size in sizes), "last / first"], rows)


def _crowd(database: str, sizes: Sizes) -> Result:
    processes = 1 if database == "SQLite" else 2
    analysts, answers = sizes.analysts, sizes.answers
    with _place(database) as (folder, ledger):
        crowd = load_crowd.run(folder, ledger, analysts=analysts, answers=answers, processes=processes)
    good = (
        crowd.statuses == {200: answers, 409: analysts - answers} and crowd.spent_units == crowd.limit_units
    )
    line = Line(
        f"{analysts} analysts, {_processes(processes)}",
        f"{crowd.statuses[200]} answered, {crowd.statuses[409]} refused, {crowd.came_back} times 503; "
        f"spent {crowd.spent_units:,} of {crowd.limit_units:,} units; "
        f"audit {'broken' if crowd.problems else 'intact'}",
        f"exactly {answers} answers, spent equal to the limit",
        good and not crowd.changed and not crowd.problems and crowd.releases == answers,
    )
    return Result("crowd", database, [line], sizes={"analysts": analysts, "answers": answers})


def _outages(database: str, sizes: Sizes) -> Result:
    with tempfile.TemporaryDirectory() as folder, _LEDGERS_WITH_OUTAGES[database](Path(folder)) as ledger:
        outcome = load_outage.run(Path(folder), *ledger, outages=sizes.outages, seconds=sizes.outage_seconds)
    rounds = outcome.rounds
    for problem in rounds.broken[:10]:
        print(f"    {problem}")
    statuses = ", ".join(f"{number} × {status}" for status, number in sorted(outcome.statuses.items()))
    line = Line(
        f"{outcome.number} outages",
        f"{len(rounds.delivered)} delivered and served again; meanwhile {statuses or 'no refusal'}, "
        f"the slowest after {outcome.slowest_refusal_ms:.0f} ms; everybody served again within "
        f"{max(outcome.seconds_to_return):.1f} s of its return; {rounds.interrupted} charges without "
        f"a release, {outcome.charged_twice} releases charged twice; "
        f"{len(rounds.broken)} promises broken",
        "only 503 meanwhile, nothing delivered is lost or charged twice",
        not rounds.broken and not outcome.charged_twice and set(outcome.statuses) <= {"503"},
    )
    return Result("outages", database, [line], sizes={"seconds": sizes.outage_seconds})


@contextmanager
def _lockable_sqlite(folder: Path) -> Iterator[tuple[str, load_outage.Database]]:
    file = folder / "ledger.sqlite"
    yield str(file), load_outage.LockedFile(file)


_LEDGERS_WITH_OUTAGES: dict[
    str, Callable[[Path], AbstractContextManager[tuple[str, load_outage.Database]]]
] = {
    "SQLite": _lockable_sqlite,
    "PostgreSQL": lambda _folder: postgres_and_server(),
}


def _kills(database: str, sizes: Sizes) -> Result:
    with _place(database) as (folder, ledger):
        rounds = load_killing.run(folder, ledger, rounds=sizes.rounds, seed=50)
    for problem in rounds.broken[:10]:
        print(f"    {problem}")
    line = Line(
        f"{rounds.kills} times kill -9 under load",
        f"{len(rounds.delivered)} delivered and served again, {rounds.cut_off} requests cut off, "
        f"{rounds.refused} refused, {rounds.interrupted} entries interrupted; "
        f"spent {rounds.spent_units:,} of {rounds.limit_units:,} units; {len(rounds.broken)} promises broken",
        "nothing delivered is lost, never more than the limit, every restart clean",
        not rounds.broken and rounds.kills == sizes.rounds and rounds.spent_units <= rounds.limit_units,
    )
    return Result("kills", database, [line])


def _processes(number: int) -> str:
    return f"{number} server process{'es' if number > 1 else ''}"


PARTS: dict[str, Callable[[str, Sizes], Result]] = {
    "times": _times,
    "throughput": _throughput,
    "growth": _growth,
    "crowd": _crowd,
    "outages": _outages,
    "kills": _kills,
}


if __name__ == "__main__":
    sys.exit(main())
