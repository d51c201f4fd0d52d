"""Many analysts at once on one data set whose limit allows exactly N answers.

All analysts ask at the same moment over real HTTP. An analyst who gets 503 comes back, and an analyst who got
an answer asks for it again. Then the library itself reads the ledger, in whole units.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.load_servers import Setting, served, write_people
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import limit_units, spend_units

SQL = "SELECT region, AVG(pay) FROM people GROUP BY region"
AT = "api/v1/datasets/people"
_LONGEST_SECONDS = 300.0


@dataclass(frozen=True)
class Crowd:
    """The outcome of one crowd."""

    statuses: Counter[int]
    """The last status that each analyst got for the first question."""
    came_back: int
    """How often an analyst got 503 and asked again."""
    changed: int
    """Answers that were not identical and free the second time."""
    spent_units: int
    limit_units: int
    releases: int
    problems: list[str]
    """Problems in the audit log."""


def run(folder: Path, ledger: str, *, analysts: int, answers: int, processes: int = 1) -> Crowd:
    rho = 0.1  # not exact as a binary float: ten of them add up to 1 only if ρ is counted in whole units
    limit = round(answers * rho, 12)
    write_people(folder / "data", limit)
    setting = Setting(folder, ledger)
    tokens = list(setting.tokens([f"analyst-{n:03}" for n in range(analysts)]).values())
    with served(setting, processes) as servers:
        urls = [servers[n % processes].url for n in range(analysts)]
        outcomes = asyncio.run(_everybody(urls, tokens, rho))
    book = open_ledger(ledger)
    try:
        lines = book.history("people")
        return Crowd(
            statuses=Counter(status for status, _, _ in outcomes),
            came_back=sum(times for _, times, _ in outcomes),
            changed=sum(not same for _, _, same in outcomes),
            spent_units=sum(spend_units(line.rho) for line in lines if line.rho),
            limit_units=limit_units(limit),
            releases=sum(line.state == "released" for line in lines),
            problems=book.verify_audit().problems,
        )
    finally:
        book.close()


async def _everybody(urls: Sequence[str], tokens: Sequence[str], rho: float) -> list[tuple[int, int, bool]]:
    start = asyncio.Event()
    async with httpx.AsyncClient(
        timeout=_LONGEST_SECONDS, limits=httpx.Limits(max_connections=None, max_keepalive_connections=None)
    ) as client:
        people = [
            asyncio.create_task(_analyst(client, url, token, rho, start, random.Random(n)))
            for n, (url, token) in enumerate(zip(urls, tokens, strict=True))
        ]
        await asyncio.sleep(0.1)
        start.set()
        return await asyncio.gather(*people)


async def _analyst(
    client: httpx.AsyncClient, url: str, token: str, rho: float, start: asyncio.Event, chance: random.Random
) -> tuple[int, int, bool]:
    """The last status, the number of 503s, and whether the answer was the same and free the second time."""
    headers = {"Authorization": f"Bearer {token}"}
    body = {"sql": SQL, "rho": rho}
    await start.wait()

    async def ask() -> tuple[httpx.Response, int]:
        for times in range(1_000):
            response = await client.post(f"{url}{AT}/query", json=body, headers=headers)
            if response.status_code != 503:
                return response, times
            await asyncio.sleep(chance.uniform(0.1, 0.4))
        return response, times

    first, busy = await ask()
    if first.status_code != 200:
        return first.status_code, busy, True
    again, more = await ask()
    return first.status_code, busy + more, _same(first.json(), again)


def _same(first: dict[str, Any], again: httpx.Response) -> bool:
    if again.status_code != 200:
        return False
    told = again.json()
    return bool(
        not first["free"] and told["free"] and told["id"] == first["id"] and told["rows"] == first["rows"]
    )
