"""Measures engines as tables grow: our passes over the rows against the same query in the bare engine.

python -m benchmarks.engines            1, 10 and 100 million rows on DuckDB under 4 GB; others 10 million
python -m benchmarks.engines --quick    a hundredth of that, for a short look
python -m benchmarks.engines --write    also rewrites docs/engines-performance.md and its charts

DuckDB generates the rows into a temporary folder, which is deleted afterwards. All engines read the same
Parquet file. Each section (an engine and a number of rows) runs in a separate process, so that its peak
memory is its own. With --write each section's figures are stored in docs/performance/engines.json as soon as
they are measured. After an interruption, --engines and --rows measure the missing sections.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import engines_document
from benchmarks.engine_contestants import CONTESTANTS, Contestant
from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse

MEMORY = "4GB"
ROUNDS = 3
ATTRIBUTES = {"education": 16, "occupation": 15, "relation": 6, "race": 5, "work": 9, "country": 42}
EDGES = list(range(0, 100, 10))
_BINS = "CASE " + " ".join(f"WHEN age <= {edge} THEN {code}" for code, edge in enumerate(EDGES)) + " END"
_SETS = ", ".join(f"(grp, {name})" for name in ATTRIBUTES)
QUESTIONS: dict[str, tuple[str, tuple[tuple[str, ...], ...], str]] = {
    # Our query, the attribute subsets of the pass, and the query for the bare engine.
    "count by a text": (
        "SELECT grp, COUNT(*) FROM t GROUP BY grp",
        ((),),
        "SELECT grp, COUNT(*) FROM {table} GROUP BY grp",
    ),
    "average by a text": (
        "SELECT grp, AVG(pay) FROM t GROUP BY grp",
        ((),),
        "SELECT grp, COUNT(pay), SUM(pay) FROM {table} GROUP BY grp",
    ),
    "average by two texts, filtered": (
        "SELECT grp, country, AVG(pay) FROM t WHERE relation = 'relation 3' GROUP BY grp, country",
        ((),),
        "SELECT grp, country, COUNT(pay), SUM(pay) FROM {table} WHERE relation = 'relation 3' "
        "GROUP BY grp, country",
    ),
    "average by bins": (
        "SELECT age, AVG(pay) FROM t GROUP BY age",
        ((),),
        f"SELECT {_BINS} AS bin, COUNT(pay), SUM(pay) FROM {{table}} GROUP BY 1",
    ),
    "family of 93 predicates": (
        "SELECT grp, AVG(pay) FROM t GROUP BY grp",
        tuple((name,) for name in ATTRIBUTES),
        f"SELECT grp, {', '.join(ATTRIBUTES)}, COUNT(pay), SUM(pay) FROM {{table}} "
        f"GROUP BY GROUPING SETS ({_SETS})",
    ),
}


def schema(storage: str) -> Schema:
    """A schema with a group column, six attributes, a binned number and a summed one."""
    texts = {"grp": 7} | ATTRIBUTES
    columns: dict[str, Any] = {
        name: {"values": [f"{name} {value}" for value in range(size)]} for name, size in texts.items()
    }
    columns |= {"age": {"edges": EDGES}, "pay": {"bounds": [0, 1000]}}
    table = {"name": "t", "version": "1", "storage": storage}
    return Schema.load({"table": table, "privacy": {"rho": 1e6}, "columns": columns})


def generate(rows: int, file: Path) -> None:
    """Writes independent, uniform columns from a hash of the row's number, so that rows hardly repeat."""
    texts = {"grp": 7} | ATTRIBUTES
    columns = [
        f"'{name} ' || (hash(range, {place}) % {size}) AS {name}"
        for place, (name, size) in enumerate(texts.items())
    ]
    columns += ["CAST(hash(range, 98) % 90 AS INTEGER) AS age", "(hash(range, 99) % 100000) / 100 AS pay"]
    with closing(duckdb.connect(config={"memory_limit": "1GB"})) as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET enable_progress_bar = false")
        connection.execute(
            f"COPY (SELECT {', '.join(columns)} FROM range({rows})) TO '{file}' (FORMAT parquet)"
        )


def measure(contestant: Contestant, rounds: int) -> dict[str, Any]:
    """Wall-clock and CPU seconds of each of our ways and of the bare engine, which take turns.

    Each way first answers every question once, which shows how much memory the passes need. The first turns
    of each question do not count, because they warm up caches.
    """
    asked = {name: (sql, subsets) for name, (sql, subsets, _) in QUESTIONS.items()}
    with ExitStack() as stack:
        engines: dict[str, Any] = {}
        figures: dict[str, Any] = {}
        for name, way in contestant.ways.items():
            declared = schema(way.storage)
            started = _timed(lambda w=way, d=declared: engines.update(new=w.open(d, MEMORY)), contestant)  # type: ignore[misc]
            engines[name] = stack.enter_context(closing(engines.pop("new")))
            figures[name] = {"opening": started, "questions": {}}
            for sql, subsets in asked.values():
                engines[name].grouped(parse(sql, declared).query, subsets)
            figures[name]["megabytes"] = peak_megabytes()
        for question, (sql, subsets) in asked.items():
            works: dict[str, Callable[[], object]] = {
                name: partial(engine.grouped, parse(sql, engine.schema).query, subsets)
                for name, engine in engines.items()
            }
            if contestant.bare is not None:
                works["bare"] = partial(contestant.bare, QUESTIONS[question][2])
            turns: dict[str, list[tuple[float, float]]] = {who: [] for who in works}
            for _ in range(contestant.warming + rounds):
                for who, work in works.items():
                    turns[who].append(_timed(work, contestant))
            turns = {who: timed[contestant.warming :] for who, timed in turns.items()}
            for name in engines:
                figures[name]["questions"][question] = {"ours": turns[name], "bare": turns.get("bare", [])}
    return figures


def peak_megabytes() -> float:
    """The peak memory of this process since its start (Linux).

    Not `ru_maxrss`, which a process inherits from the larger process that started it.
    """
    (kilobytes,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(kilobytes) / 1024


def _timed(work: Callable[[], object], contestant: Contestant) -> tuple[float, float]:
    cpu, wall = contestant.cpu_seconds(), time.perf_counter()
    work()
    return time.perf_counter() - wall, contestant.cpu_seconds() - cpu


def run(name: str, file: Path, rounds: int) -> dict[str, Any]:
    """Measures one section on one file, in a separate process."""
    command = [sys.executable, "-m", "benchmarks.engines"]
    command += ["--worker", name, str(file), "--rounds", str(rounds)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"{name} failed:\n{finished.stderr}")
    figures: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return figures


def sections(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Engines and numbers of rows to measure: DuckDB with every number, the others only with the second."""
    sizes = [int(rows) for rows in options.rows or (1e6, 1e7, 1e8)]
    sizes = [rows // 100 for rows in sizes] if options.quick else sizes
    others = sizes[min(1, len(sizes) - 1)]
    return [(name, rows) for rows in sizes for name in options.engines if name == "duckdb" or rows == others]


def main() -> int:
    options = _options()
    if options.worker:
        name, path = options.worker
        with CONTESTANTS[name](Path(path)) as contestant:
            print(json.dumps(measure(contestant, options.rounds)))
        return 0
    started = time.perf_counter()
    results: list[engines_document.Measured] = []
    with tempfile.TemporaryDirectory(prefix="dpxplain-bench-", dir=options.folder) as folder:
        for name, rows in sections(options):
            file = Path(folder) / f"{rows}.parquet"
            if not file.exists():
                generate(rows, file)
            for way, figures in run(name, file, options.rounds).items():
                results.append(engines_document.Measured(way, rows, file.stat().st_size, figures))
                print(engines_document.terminal(results[-1]), flush=True)
            if options.write:
                engines_document.write(results, MEMORY)
    print(f"{(time.perf_counter() - started) / 60:.1f} minutes")
    broken = engines_document.broken_promises(results)
    print("\n".join(f"NOT kept: {promise}" for promise in broken) or "all promises kept")
    return 1 if broken else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rows", nargs="*", type=float)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--engines", nargs="*", default=list(CONTESTANTS), choices=list(CONTESTANTS))
    parser.add_argument("--folder", help="for the generated rows; 1 GB at 100 million")
    parser.add_argument("--worker", nargs=2, metavar=("ENGINE", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
