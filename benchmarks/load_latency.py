"""Response times under an even stream of requests: open-loop, from a process of its own.

Requests arrive at random moments (a Poisson process) whether or not earlier ones were answered, and each
latency counts from the moment it was due, so a server that falls behind cannot hide it. `python -m
benchmarks.load_latency` reads the requests as JSON from its input and prints the latencies.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.load_servers import Setting, served, write_adult

AT = "/api/v1/datasets/adult"
RATE = 50.0
ANALYSTS = 20
_VALUES = {
    "sex": ("Male", "Female"),
    "race": ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"),
    "relationship": ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
    "workclass": ("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov"),
    "education": ("Bachelors", "Some-college", "HS-grad", "Masters", "Assoc-voc", "11th", "Doctorate"),
}
_GROUPS = ("marital_status", "occupation", "age")
_AGGREGATES = ("AVG(high_income)", "COUNT(*)")


@dataclass(frozen=True)
class Latencies:
    """In milliseconds, from when each request was due."""

    sent: int
    statuses: dict[str, int]
    median: float
    p95: float
    p99: float
    largest: float


def measure(folder: Path, ledger: str, seconds: float) -> dict[str, Latencies]:
    """Fresh queries first; then, with the ledger grown by them, what is stored already."""
    write_adult(folder / "data", 1_000.0)
    setting = Setting(folder, ledger)
    tokens = list(setting.tokens([f"analyst-{n:02}" for n in range(ANALYSTS)]).values())
    questions = _questions()
    number = int(RATE * seconds)
    with served(setting) as [server]:
        warm = [_query(sql, 0.01) for sql in itertools.islice(questions, 2 * ANALYSTS)]
        fresh = [_query(sql, 0.01) for sql in itertools.islice(questions, number)]
        _sent(server.url, tokens, warm)
        told = {"a fresh query": _sent(server.url, tokens, fresh)}
        told["a query asked before"] = _sent(server.url, tokens, fresh)
        ids = [_answers(server.url, token) for token in tokens]
        stored = [
            {"method": "GET", "path": f"{AT}/answers/{ids[n % ANALYSTS][n % len(ids[n % ANALYSTS])]}"}
            for n in range(number)
        ]
        told["a stored answer by its number"] = _sent(server.url, tokens, stored)
    return told


def _questions() -> Any:
    """Queries on Adult of which no two read the same rows the same way, in a fixed random order."""
    pairs = itertools.combinations(_VALUES, 2)
    wheres = [
        f"{one} = '{a}' AND {two} = '{b}'" for one, two in pairs for a in _VALUES[one] for b in _VALUES[two]
    ]
    every = [
        f"SELECT {group}, {aggregate} FROM adult WHERE {where} GROUP BY {group}"
        for group in _GROUPS
        for aggregate in _AGGREGATES
        for where in wheres
    ]
    random.Random(5).shuffle(every)
    return iter(every)


def _query(sql: str, rho: float) -> dict[str, Any]:
    return {"method": "POST", "path": f"{AT}/query", "json": {"sql": sql, "rho": rho}}


def _answers(url: str, token: str) -> list[int]:
    history = httpx.get(f"{url.rstrip('/')}{AT}/history", headers={"Authorization": f"Bearer {token}"})
    return [line["id"] for line in history.json()["entries"]]


def _sent(url: str, tokens: list[str], requests: list[dict[str, Any]]) -> Latencies:
    """By a process of its own, so that measuring does not slow down what is measured more than it must."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load_latency"],
        input=json.dumps({"url": url, "tokens": tokens, "requests": requests}),
        capture_output=True,
        check=True,
        text=True,
    )
    told = json.loads(done.stdout)
    took = sorted(told["milliseconds"])
    return Latencies(
        sent=len(took),
        statuses=told["statuses"],
        median=_quantile(took, 0.5),
        p95=_quantile(took, 0.95),
        p99=_quantile(took, 0.99),
        largest=took[-1],
    )


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def _generate(url: str, tokens: list[str], requests: list[dict[str, Any]]) -> dict[str, Any]:
    chance, due = random.Random(7), 0.0
    milliseconds: list[float] = []
    statuses: dict[str, int] = {}

    async def send(client: httpx.AsyncClient, request: dict[str, Any], token: str, when: float) -> None:
        response = await client.request(
            request["method"],
            request["path"],
            json=request.get("json"),
            headers={"Authorization": f"Bearer {token}"},
        )
        milliseconds.append((time.perf_counter() - when) * 1000)
        statuses[str(response.status_code)] = statuses.get(str(response.status_code), 0) + 1

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        await client.get("/api/v1/health")
        gc.freeze()
        started, sending = time.perf_counter() + 0.2, []
        for number, request in enumerate(requests):
            due += chance.expovariate(RATE)
            await asyncio.sleep(max(0.0, started + due - time.perf_counter()))
            token = tokens[number % len(tokens)]
            sending.append(asyncio.create_task(send(client, request, token, started + due)))
        await asyncio.gather(*sending)
    return {"milliseconds": milliseconds, "statuses": statuses}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_generate(**json.load(sys.stdin)))))
