"""Damaged requests to a real server: each gets an answer below 500, a refusal says why, and it goes on."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from mutations import garbled, mutated, with_flipped_bits

from dpxplain.server.config import Config
from server_fixture import SCHEMA, SQL, WEIGHTS, RunningServer, config_of

FAMILY = {"attributes": ["sex", "age"], "conjuncts": 2, "exclude": [], "predicates": None}
BODIES: dict[str, Any] = {
    "query": {"sql": SQL, "rho": 1e-6, "confidence": 0.9, "chart_width": 400},
    "preview": {"sql": SQL, "rho": 1e-6, "confidence": 0.9},
    "why": {"answer": 1, "weights": WEIGHTS, "at_least": 0.5, "confidence": 0.9},
    "explain": {
        "answer": 1,
        "weights": WEIGHTS,
        "k": 2,
        "rho": 1e-6,
        "family": FAMILY,
        "split": [1, 1, 2],
        "lower_share": 0.2,
    },
    "explain/preview": {"answer": 1, "weights": WEIGHTS, "k": 2, "rho": 1e-6, "family": FAMILY},
    "prepare": {"answer": 1, "rho": 1e-6, "family": FAMILY},
    "prepare/preview": {"answer": 1, "rho": 1e-6, "family": FAMILY},
    "quality": {"rho": 1e-6, "confidence": 0.9},
    "quality/preview": {"rho": 1e-6, "confidence": 0.9},
}
CURATING: dict[str, Any] = {
    "datasets/people/top-up": {"rho": 1e-6, "reason": "more", "analyst": "alice"},
    "datasets/people/shares": {"owner": "alice", "reader": "bob", "reason": "same team"},
    "datasets/people/why/truth": {"answer": 1, "weights": WEIGHTS, "family": FAMILY},
    "admin/schema/review": {"toml": SCHEMA, "dataset": "people"},
    "admin/tokens": {"name": "dora", "role": "analyst", "expires": "2030-01-31T12:00:00Z"},
}


@dataclass
class WireFigures:
    tried: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def routes(server: RunningServer) -> list[tuple[str, str]]:
    """Every method and path of the OpenAPI document."""
    return [
        (method, path)
        for path, methods in sorted(server.app.openapi()["paths"].items())
        for method in sorted(methods)
    ]


def fuzz_wire(seed: int, numbers: Iterator[int], server: RunningServer) -> WireFigures:
    """Sends damaged bodies to the routes that take one, and damaged addresses to all routes."""
    figures = WireFigures()
    clients = [server.client("alice"), server.curator()]
    clients[0].post("/datasets/people/query", json={"sql": SQL, "rho": 1e-6}).raise_for_status()
    known = routes(server)
    for number in numbers:
        rng = random.Random(f"wire {seed} {number}")
        request = _request(rng, known)
        figures.tried += 1
        try:
            response = clients[number % 2].request(**request)
            figures.statuses[response.status_code] += 1
            _check(response)
        except (AssertionError, httpx.HTTPError) as failure:
            text = f"{type(failure).__name__}: {failure}"[:400]
            figures.wrong.append(f"--seed {seed} --start {number}: {text}\n    {request!r:.1500}")
    assert clients[0].get("/datasets").status_code == 200
    return figures


def _request(rng: random.Random, known: list[tuple[str, str]]) -> dict[str, Any]:
    if rng.random() < 0.25:
        method, path = rng.choice(known)
        for name in ("dataset", "entry", "job", "analyst", "token"):
            value = rng.choice(
                ["people", "1", "0", "-1", "9" * 30, "x", "%00", "..", "a b", "é", "%F0%9F%99%82"]
            )
            path = path.replace(
                "{" + name + "}", "people" if name == "dataset" and rng.random() < 0.7 else value
            )
        body = mutated(rng.choice([*BODIES.values(), *CURATING.values()]), rng)
        parameters = {
            rng.choice(["wait", "confidence", "key", "form", "after", "chart"]): rng.choice(
                ["1", "-1", "nan", ""]
            )
        }
        if "wait" in parameters:
            parameters["wait"] = rng.choice(["0", "nan", "-1", "1e9", "x"])
        path = path.removeprefix("/api/v1")
        return {"method": method.upper(), "url": path, "params": parameters, **_encoded(body, rng)}
    path, body = rng.choice(
        [(f"datasets/people/{name}", body) for name, body in BODIES.items()] * 2 + [*CURATING.items()]
    )
    damaged = mutated(body, rng)
    if isinstance(damaged, dict) and isinstance(damaged.get("sql"), str) and rng.random() < 0.3:
        damaged["sql"] = garbled(damaged["sql"], rng)
    if isinstance(damaged, dict) and isinstance(damaged.get("toml"), str) and rng.random() < 0.7:
        damaged["toml"] = garbled(damaged["toml"], rng)
    return {"method": "POST", "url": f"/{path}", **_encoded(damaged, rng)}


def _encoded(body: Any, rng: random.Random) -> dict[str, Any]:
    text = json.dumps(body)  # NaN and Infinity included, which are not JSON
    kind = (
        "application/json"
        if rng.random() < 0.95
        else rng.choice(["text/plain", "", "application/x-www-form-urlencoded"])
    )
    content = text.encode("utf-8", "surrogatepass")
    match rng.randrange(10):
        case 0:
            content = garbled(text, rng).encode("utf-8", "surrogatepass")
        case 1:
            content = with_flipped_bits(content, rng)
        case 2:
            content = content[: rng.randrange(len(content) + 1)]
    return {"content": content, "headers": {"Content-Type": kind}}


def _check(response: httpx.Response) -> None:
    assert response.status_code < 500 or response.status_code == 503, (
        f"{response.status_code} {response.text[:300]}"
    )
    if response.status_code >= 400 and response.request.method != "HEAD":
        problem = response.json()
        assert problem.get("message"), problem
        assert "Traceback" not in response.text


def open_config(folder: Path) -> Config:
    """People on a server that does not slow down a crowd of requests."""
    many = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6, "waiting": 1_000}
    return config_of(folder, limits=many)
