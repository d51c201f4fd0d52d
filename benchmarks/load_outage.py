"""Tests outages of the ledger under load: what clients see, for how long, and whether anything is lost.

Analysts ask without a pause and repeat each request until it is answered, as the client library does.
PostgreSQL is stopped in an orderly way or crashes, stays away for a while and is started again. A SQLite file
is locked by another process for that time.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx

from benchmarks.load_killing import AT, PARTS, Delivered, Rounds, as_caller, check, query_text, read_ledger
from benchmarks.load_servers import ServerProcess, Setting, served, write_people
from dpxplain.ledger.ledger import open_ledger

ANALYSTS = 6
_AGGREGATES = ("COUNT(*)", "AVG(pay)", "SUM(pay)")
_LONGEST_SECONDS = 120.0


class Database(Protocol):
    """A database that can go away: the server of tests/postgres_server.py, or a locked file."""

    def start(self) -> None: ...
    def stop(self, how: signal.Signals = signal.SIGINT) -> None: ...


class LockedFile:
    """A SQLite file that no other connection can write between `stop` and `start`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: sqlite3.Connection | None = None

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        self._lock = sqlite3.connect(self._file, timeout=_LONGEST_SECONDS, isolation_level=None)
        self._lock.execute("BEGIN EXCLUSIVE")

    def start(self) -> None:
        assert self._lock is not None
        self._lock.execute("ROLLBACK")
        self._lock.close()


@dataclass
class Outages:
    """The outcome of all outages."""

    number: int = 0
    rounds: Rounds = field(default_factory=Rounds)
    statuses: Counter[str] = field(default_factory=Counter)
    """How often each status or error came instead of an answer."""
    slowest_refusal_ms: float = 0.0
    seconds_to_return: list[float] = field(default_factory=list)
    """Seconds from the database's return until each analyst had an answer again."""
    charged_twice: int = 0
    """How many releases the ledger has beyond one for each request of an analyst."""


def run(folder: Path, ledger: str, database: Database, *, outages: int, seconds: float) -> Outages:
    write_people(folder / "data", 1_000.0)
    setting = Setting(folder, ledger)
    tokens = setting.tokens([f"analyst-{n}" for n in range(ANALYSTS)])
    curator = setting.tokens(["curator"], "curator")
    outcome = Outages()
    with served(setting) as [server]:
        for number in range(outages):
            how = signal.SIGINT if number % 2 == 0 else signal.SIGQUIT  # an orderly stop, then a crash
            moments: dict[str, float] = {}
            with ThreadPoolExecutor(max_workers=1) as thread:
                load = thread.submit(asyncio.run, _ask(server, tokens, outcome, moments, number))
                try:
                    time.sleep(seconds / 2)
                    database.stop(how)
                    time.sleep(seconds)
                    database.start()  # in the main thread: the database ends with the thread that started it
                finally:  # without this time, the load would never end
                    moments["back"] = time.perf_counter()
                outcome.seconds_to_return += load.result()
            outcome.number += 1
        asyncio.run(check(server, tokens | curator, outcome.rounds, outcome.rounds.delivered))
    read_ledger(ledger, outcome.rounds)
    outcome.charged_twice = _charged_twice(ledger)
    return outcome


def _charged_twice(ledger: str) -> int:
    """The number of releases in the ledger beyond one for each request of an analyst."""
    book = open_ledger(ledger)
    try:
        lines = [line for line in book.history("people") if line.rho and line.state == "released"]
        return len(lines) - len({(line.analyst, line.key) for line in lines})
    finally:
        book.close()


async def _ask(
    server: ServerProcess, tokens: dict[str, str], outcome: Outages, moments: dict[str, float], number: int
) -> list[float]:
    """Lets all analysts ask until the outage is over. Returns the seconds until each had an answer again."""
    async with httpx.AsyncClient(base_url=f"{server.url}{AT}", timeout=_LONGEST_SECONDS) as client:
        people = [
            _analyst(client, name, token, outcome, moments, random.Random(f"{number} {name}"))
            for name, token in tokens.items()
        ]
        return await asyncio.gather(*people)


async def _analyst(
    client: httpx.AsyncClient, name: str, token: str, outcome: Outages, moments: dict[str, float],
    chance: random.Random,
) -> float:  # fmt: skip
    """Asks new questions until one is answered after the outage. Returns the seconds that this took."""
    while True:
        group = chance.choice(list(PARTS))
        sql = query_text(group, chance.choice(_AGGREGATES), chance)
        body = {"sql": sql, "rho": round(chance.uniform(0.005, 0.04), 6)}
        result = await _answer(client, token, outcome, moments, body)
        if result is None:
            outcome.rounds.broken.append(f"{name} had no answer within {_LONGEST_SECONDS:g} s of the outage.")
            return _LONGEST_SECONDS
        outcome.rounds.delivered.append(Delivered(name, "/query", body, result["id"], result["rows"]))
        if "back" in moments:
            return time.perf_counter() - moments["back"]


async def _answer(
    client: httpx.AsyncClient, token: str, outcome: Outages, moments: dict[str, float], body: dict[str, Any]
) -> dict[str, Any] | None:
    """Repeats the request until it is answered; None if that takes too long after the outage."""
    while time.perf_counter() - moments.get("back", float("inf")) < _LONGEST_SECONDS:
        started = time.perf_counter()
        try:
            response = await client.post("/query", json=body, headers=as_caller(token))
            status = str(response.status_code)
        except httpx.TransportError as error:
            status = type(error).__name__
        if status == "200":
            answered: dict[str, Any] = response.json()
            return answered
        outcome.statuses[status] += 1
        outcome.slowest_refusal_ms = max(outcome.slowest_refusal_ms, (time.perf_counter() - started) * 1000)
        await asyncio.sleep(0.1)
    return None
