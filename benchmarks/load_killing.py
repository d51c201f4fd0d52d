"""Tests `kill -9` under load: a server that dies at any moment loses no charge and no delivered release.

Each round gives the data set a little more budget and lets several analysts ask queries and explanations as
fast as they can. It kills the server at a random moment (in every second round counted from the first answer)
and starts it again. Afterwards the ledger must not have spent more than its limit, the server must serve
everything that reached an analyst again, identical and free, and the audit log must verify.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.load_servers import ServerProcess, Setting, write_people
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import UNITS_PER_RHO, limit_units, spend_units, written_id

AT = "api/v1/datasets/people"
ANALYSTS = 6
_BUDGET_OF_A_ROUND = 0.3
_WEIGHTS = [{"group": ["North"], "weight": 1}, {"group": ["South"], "weight": -1}]
_AGGREGATES = ("COUNT(*)", "AVG(pay)", "SUM(pay)", "COUNT(*), AVG(pay)")
_GONE = -1
PARTS = {"region": ("North", "South", "West"), "sex": ("F", "M")}


@dataclass
class Delivered:
    """A delivered answer, and the request to ask for it again."""

    analyst: str
    path: str
    body: dict[str, Any]
    id: int
    rows: list[Any]


@dataclass
class Rounds:
    """The outcome of all rounds."""

    kills: int = 0
    delivered: list[Delivered] = field(default_factory=list)
    cut_off: int = 0
    """Requests that had no answer when the server died."""
    refused: int = 0
    """Requests that got 409, because the round's budget was spent before the server was killed."""
    interrupted: int = 0
    """Entries that were charged and never released."""
    spent_units: int = 0
    limit_units: int = 0
    broken: list[str] = field(default_factory=list)
    """A sentence for each broken promise."""


def run(folder: Path, ledger: str, *, rounds: int, seed: int, longest: float = 1.5) -> Rounds:
    write_people(folder / "data", _BUDGET_OF_A_ROUND)
    setting = Setting(folder, ledger)
    tokens = setting.tokens([f"analyst-{n}" for n in range(ANALYSTS)])
    tokens |= setting.tokens(["curator"], "curator")
    chance, found = random.Random(seed), Rounds()
    server = ServerProcess(setting).wait_until_up()
    try:
        for number in range(rounds):
            before = len(found.delivered)
            asyncio.run(_round(server, tokens, found, number, chance.uniform(0.0, longest)))
            server = ServerProcess(setting).wait_until_up()
            asyncio.run(check(server, tokens, found, found.delivered[before:]))
        asyncio.run(check(server, tokens, found, found.delivered))
        if server.stop() != 0:
            found.broken.append("The last server did not end in an orderly way.")
    finally:
        server.stop()
    read_ledger(ledger, found)
    return found


async def _round(
    server: ServerProcess, tokens: dict[str, str], found: Rounds, number: int, seconds: float
) -> None:
    async with httpx.AsyncClient(base_url=f"{server.url}{AT}", timeout=60) as client:
        if number:
            more = {"rho": _BUDGET_OF_A_ROUND, "reason": f"round {number}"}
            (await client.post("/top-up", json=more, headers=as_caller(tokens["curator"]))).raise_for_status()
        people = [
            asyncio.create_task(_analyst(client, name, token, found, random.Random(f"{number} {name}")))
            for name, token in tokens.items()
            if name != "curator"
        ]
        if number % 2:  # in half of the rounds the kill comes after a delivery, however slow the machine is
            before = len(found.delivered)
            while len(found.delivered) == before and not all(person.done() for person in people):
                await asyncio.sleep(0.01)
        await asyncio.sleep(seconds)
        server.kill()
        found.kills += 1
        await asyncio.gather(*people)


async def _analyst(
    client: httpx.AsyncClient, name: str, token: str, found: Rounds, chance: random.Random
) -> None:
    """Asks new questions until the server is killed."""
    while True:
        group, aggregate = chance.choice(list(PARTS)), chance.choice(_AGGREGATES)
        body = {"sql": query_text(group, aggregate, chance), "rho": round(chance.uniform(0.005, 0.04), 6)}
        answer = await _asked(client, name, token, found, "/query", body)
        if answer is not None and answer != _GONE and group == "region" and chance.random() < 0.3:
            # Named, because `auto` could take a better preparation made since, so the answer would differ.
            body = {
                "answer": answer,
                "of": aggregate.split(", ")[0],
                "weights": _WEIGHTS,
                "k": 2,
                "mechanism": chance.choice(("one-shot", "vector")),
                "rho": round(chance.uniform(0.01, 0.05), 6),
            }
            answer = await _asked(client, name, token, found, "/explain?wait=20", body)
        if answer == _GONE:
            return


async def _asked(
    client: httpx.AsyncClient, name: str, token: str, found: Rounds, path: str, body: dict[str, Any]
) -> int | None:
    """The delivered entry's id, None if there was no answer, or _GONE if the server no longer responds."""
    try:
        response = await client.post(path, json=body, headers=as_caller(token))
    except httpx.TransportError:
        found.cut_off += 1
        return _GONE
    if response.status_code == 409:
        found.refused += 1
        await asyncio.sleep(0.02)
        return None
    if response.status_code == 503:
        await asyncio.sleep(0.05)
        return None
    told = response.json()
    result = told.get("result", told)
    if response.status_code != 200 or result is None:
        found.broken.append(f"{path} was answered with {response.status_code}: {response.text[:300]}")
        return None
    found.delivered.append(Delivered(name, path, body, result["id"], result["rows"]))
    number: int = result["id"]
    return number


async def check(
    server: ServerProcess, tokens: dict[str, str], found: Rounds, delivered: list[Delivered]
) -> None:
    async with httpx.AsyncClient(base_url=f"{server.url}api/v1", timeout=60) as client:
        curator = as_caller(tokens["curator"])
        budget = (await client.get("/datasets/people/budget", headers=curator)).json()["rho"]
        for one in delivered:
            response = await client.post(
                f"/datasets/people{one.path}", json=one.body, headers=as_caller(tokens[one.analyst])
            )
            told = response.json()
            again = told.get("result", told)
            kept = response.status_code == 200 and again is not None
            if not kept or (again["id"], again["rows"], again["free"]) != (one.id, one.rows, True):
                found.broken.append(f"Entry {one.id} was delivered, and now: {response.text[:300]}")
        after = (await client.get("/datasets/people/budget", headers=curator)).json()["rho"]
        if after["spent"] != budget["spent"]:
            found.broken.append("Asking again for what was delivered was charged.")
        verified = (await client.get("/admin/audit/verify", headers=curator)).json()
        found.broken += verified["problems"]


def read_ledger(ledger: str, found: Rounds) -> None:
    """Reads the ledger with the library itself, in whole units, and notes broken promises."""
    book = open_ledger(ledger)
    try:
        lines = book.history("people")
        charged = [line for line in lines if line.rho]
        found.spent_units = sum(spend_units(line.rho) for line in charged)
        found.limit_units = limit_units(book.budget("people").limit)
        found.interrupted = sum(line.state == "reserved" for line in charged)
        found.broken += book.verify_audit().problems
        if found.spent_units > found.limit_units:
            over = (found.spent_units - found.limit_units) / UNITS_PER_RHO
            found.broken.append(f"{over} more was spent than the limit allows.")
        asked = {line.identity: line for line in charged}
        for one in found.delivered:
            line = asked.get(written_id(one.id, one.analyst))
            if line is None or line.state != "released":
                found.broken.append(f"The ledger does not know {one.analyst}'s delivered entry {one.id}.")
    finally:
        book.close()


def query_text(group: str, aggregate: str, chance: random.Random) -> str:
    other = next(name for name in PARTS if name != group)
    where = chance.choice(("", *(f" WHERE {other} = '{value}'" for value in PARTS[other])))
    return f"SELECT {group}, {aggregate} FROM people{where} GROUP BY {group}"


def as_caller(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
