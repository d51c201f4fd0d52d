"""Measures response times under an even, open-loop stream of requests from a separate process.

Requests arrive at random moments (a Poisson process) whether or not earlier ones were answered. Each latency
counts from the moment when the request was due, so a server that falls behind cannot hide it. `python -m
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
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
    """Latencies in milliseconds, from the moment when each request was due."""

    sent: int
    statuses: dict[str, int]
    median: float
    p95: float
    p99: float
    largest: float


def measure(folder: Path, ledger: str, seconds: float, rate: float = RATE) -> dict[str, Latencies]:
    """Measures fresh queries first, then stored answers, with the ledger grown by the fresh queries."""
    write_adult(folder / "data", 1_000.0)
    setting = Setting(folder, ledger)
    tokens = list(setting.tokens([f"analyst-{n:02}" for n in range(ANALYSTS)]).values())
    fresh_queries = questions()
    number = int(rate * seconds)
    with served(setting) as [server]:
        warm = [_query(sql, 0.01) for sql in itertools.islice(fresh_queries, 2 * ANALYSTS)]
        fresh = [_query(sql, 0.01) for sql in itertools.islice(fresh_queries, number)]
        _sent(server.url, tokens, warm, rate)
        latencies = {"a fresh query": _sent(server.url, tokens, fresh, rate)}
        latencies["a query asked before"] = _sent(server.url, tokens, fresh, rate)
        ids = [answer_numbers(server.url, token) for token in tokens]
        stored = [
            {"method": "GET", "path": f"{AT}/answers/{ids[n % ANALYSTS][n % len(ids[n % ANALYSTS])]}"}
            for n in range(number)
        ]
        latencies["a stored answer by its number"] = _sent(server.url, tokens, stored, rate)
    return latencies


def questions() -> Any:
    """Different queries on Adult in a fixed random order. No two read the same rows in the same way."""
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


def answer_numbers(url: str, token: str) -> list[int]:
    """The numbers of the answers that the token's holder can see."""
    history = httpx.get(f"{url.rstrip('/')}{AT}/history", headers={"Authorization": f"Bearer {token}"})
    return [line["id"] for line in history.json()["entries"]]


def _sent(url: str, tokens: list[str], requests: list[dict[str, Any]], rate: float) -> Latencies:
    """Sends the requests from a separate process, so that measuring slows the server as little as it can."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load_latency"],
        input=json.dumps({"url": url, "tokens": tokens, "requests": requests, "rate": rate}),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    outcome = json.loads(done.stdout)
    took = sorted(outcome["milliseconds"])
    return Latencies(
        sent=len(took),
        statuses=outcome["statuses"],
        median=_quantile(took, 0.5),
        p95=_quantile(took, 0.95),
        p99=_quantile(took, 0.99),
        largest=took[-1],
    )


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Connections:
    """Plain HTTP/1.1 over kept connections. A full client takes as long for a request as the server does."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def encoded(self, request: dict[str, Any], token: str) -> bytes:
        """The bytes of a request."""
        body = json.dumps(request["json"]).encode() if "json" in request else b""
        head = (
            f"{request['method']} {request['path']} HTTP/1.1\r\nHost: {self._place.netloc}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def status(self, request: bytes) -> str:
        """Sends the request, reads the whole response, and returns its status."""
        while self._idle:
            reader, writer = self._idle.pop()
            writer.write(request)
            with suppress(asyncio.IncompleteReadError, ConnectionError):  # the server ends idle connections
                return await self._response(reader, writer)
        reader, writer = await asyncio.open_connection(self._place.hostname, self._place.port)
        writer.write(request)
        return await self._response(reader, writer)

    async def _response(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower()
        await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
        self._idle.append((reader, writer))
        return head.split(" ", 2)[1]

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()


async def _generate(
    url: str, tokens: list[str], requests: list[dict[str, Any]], rate: float
) -> dict[str, Any]:
    chance, due = random.Random(7), 0.0
    milliseconds: list[float] = []
    statuses: Counter[str] = Counter()
    connections = Connections(url)
    encoded = [
        connections.encoded(request, tokens[number % len(tokens)]) for number, request in enumerate(requests)
    ]

    async def send(request: bytes, when: float) -> None:
        statuses[await connections.status(request)] += 1
        milliseconds.append((time.perf_counter() - when) * 1000)

    await connections.status(connections.encoded({"method": "GET", "path": "/api/v1/health"}, tokens[0]))
    gc.freeze()
    started, sending = time.perf_counter() + 0.2, []
    for request in encoded:
        due += chance.expovariate(rate)
        await asyncio.sleep(max(0.0, started + due - time.perf_counter()))
        sending.append(asyncio.create_task(send(request, started + due)))
    await asyncio.gather(*sending)
    connections.close()
    return {"milliseconds": milliseconds, "statuses": statuses}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_generate(**json.load(sys.stdin)))))
