"""Measures stored answers per second at saturation, by one server process or two on one PostgreSQL ledger.

The load runs on the same cores, so the rate alone says little. CPU time per answer is measured separately for
the servers, the database and the load. `python -m benchmarks.load_throughput` is the process that makes the
load.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg

from benchmarks.load_latency import AT, Connections, answer_numbers
from benchmarks.load_servers import Setting, served, write_adult

ANALYSTS = 16
CONNECTIONS = 16
_SQL = "SELECT {group}, AVG(high_income) FROM adult GROUP BY {group}"
_GROUPS = ("marital_status", "sex", "race")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Throughput:
    """Stored answers served without a pause, and the CPU milliseconds per answer."""

    processes: int
    answers: int
    seconds: float
    refused: int
    server_ms: float
    database_ms: float
    load_ms: float

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds

    def most_per_second(self, cores: int) -> float:
        """The rate that CPU time allows: a server process uses one core, and everything shares all cores."""
        everything = self.server_ms + self.database_ms + self.load_ms
        return 1000 * min(self.processes / self.server_ms, cores / everything)


def measure(folder: Path, ledger: str, seconds: float, processes: Sequence[int]) -> list[Throughput]:
    """Measures each number of server processes in turn, on the same answers."""
    write_adult(folder / "data", 1_000.0)
    setting = Setting(folder, ledger)
    tokens = list(setting.tokens([f"analyst-{n:02}" for n in range(ANALYSTS)]).values())
    with served(setting) as [server]:
        for token, group in itertools.product(tokens, _GROUPS):
            body = {"sql": _SQL.format(group=group), "rho": 0.01}
            headers = {"Authorization": f"Bearer {token}"}
            url = f"{server.url.rstrip('/')}{AT}/query"
            httpx.post(url, json=body, headers=headers, timeout=60).raise_for_status()
        paths = [
            [f"{AT}/answers/{number}" for number in answer_numbers(server.url, token)] for token in tokens
        ]
    return [_saturate(setting, number, tokens, paths, seconds) for number in processes]


def _saturate(
    setting: Setting, processes: int, tokens: list[str], paths: list[list[str]], seconds: float
) -> Throughput:
    with served(setting, processes) as servers:
        orders = {"urls": [server.url for server in servers], "tokens": tokens, "paths": paths}
        _load(orders | {"seconds": min(2.0, seconds)})  # opens connections and loads late imports
        server_ids, database_ids = [server.pid for server in servers], _backends(setting.ledger)
        before = _cpu_seconds(server_ids), _cpu_seconds(database_ids)
        outcome = _load(orders | {"seconds": seconds})
        server_cpu, database_cpu = (
            after - earlier
            for after, earlier in zip(
                (_cpu_seconds(server_ids), _cpu_seconds(database_ids)), before, strict=True
            )
        )
    answers = max(1, outcome["answers"])
    return Throughput(
        processes=processes,
        answers=outcome["answers"],
        seconds=outcome["seconds"],
        refused=outcome["refused"],
        server_ms=1000 * server_cpu / answers,
        database_ms=1000 * database_cpu / answers,
        load_ms=1000 * outcome["cpu"] / answers,
    )


def _load(orders: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load_throughput"],
        input=json.dumps(orders),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def _backends(address: str) -> list[int]:
    """Ids of the database's processes that serve this ledger, on the same machine. SQLite has none."""
    if "://" not in address:
        return []
    with psycopg.connect(address) as connection:
        others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
        return [pid for (pid,) in connection.execute(others, [connection.info.backend_pid])]


def _cpu_seconds(processes: Iterable[int]) -> float:
    ticks = 0
    for process in processes:
        # After the name in parentheses, user and system time are the 12th and 13th field.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


async def _generate(urls: list[str], tokens: list[str], paths: list[list[str]], seconds: float) -> None:
    """Lets each connection ask again as soon as it has its answer, and prints the outcome."""
    answers = refused = 0
    until = time.perf_counter() + seconds

    async def ask(number: int) -> None:
        nonlocal answers, refused
        connections = Connections(urls[number % len(urls)])
        token, own_paths = tokens[number % len(tokens)], paths[number % len(paths)]
        requests = [connections.encoded({"method": "GET", "path": path}, token) for path in own_paths]
        for request in itertools.cycle(requests):
            if time.perf_counter() >= until:
                break
            if await connections.status(request) == "200":
                answers += 1
            else:
                refused += 1
        connections.close()

    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(ask(number) for number in range(CONNECTIONS)))
    print(
        json.dumps(
            {
                "answers": answers,
                "refused": refused,
                "seconds": time.perf_counter() - started,
                "cpu": time.process_time() - cpu,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(_generate(**json.load(sys.stdin)))
