"""Response times with a long history: the same requests on a ledger of a hundred and of a million lines.

The lines belong to the analyst who asks, which is the worst case. Requests are sent one after the other over
one connection, so that each time is the server's own; of each kind the median counts.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.ledger_growth import grow
from benchmarks.load_latency import AT, questions
from benchmarks.load_servers import Setting, served, write_adult
from dpxplain.ledger.ledger import SQLLedger, open_ledger

SIZES = (100, 10_000, 1_000_000)
_DATASET = "adult"
_SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
_WEIGHTS = [
    {"group": ["Married-civ-spouse"], "weight": 1},
    {"group": ["Never-married"], "weight": -1},
]


@dataclass(frozen=True)
class Growth:
    """At one length of the history: medians in milliseconds by kind of request, and seconds of the rest."""

    lines: int
    milliseconds: dict[str, float]
    start_seconds: float
    verify_seconds: float
    verify_again_seconds: float

    def ratio(self, first: Growth, kind: str) -> float:
        """How many times as long as with the first size."""
        return self.milliseconds[kind] / first.milliseconds[kind]


def measure(folder: Path, ledger: str, sizes: Sequence[int] = SIZES, times: int = 30) -> list[Growth]:
    """Ascending sizes of one ledger, which grows between them while no server runs."""
    write_adult(folder / "data", 100_000.0)
    setting = Setting(folder, ledger)
    token = setting.tokens(["ann"])["ann"]
    fresh = questions()
    with served(setting) as [server], _client(server.url, token) as client:
        answer = _ok(client.post("/query", json={"sql": _SQL, "rho": 0.01}))["id"]
        _ok(client.post("/prepare?wait=60", json={"answer": answer, "rho": 0.01}))
        _ok(client.post("/query", json={"sql": next(fresh), "rho": 0.01}))
    return [_at(setting, token, lines, answer, fresh, times) for lines in sizes]


def _at(setting: Setting, token: str, lines: int, answer: int, fresh: Any, times: int) -> Growth:
    book = open_ledger(setting.ledger)
    try:
        grow(book, _DATASET, lines)
        verify_seconds, verify_again_seconds = (_verify_seconds(book, full=full) for full in (True, False))
    finally:
        book.close()
    started = time.perf_counter()
    with served(setting) as [server], _client(server.url, token) as client:
        start_seconds = time.perf_counter() - started
        counter = itertools.count(2)
        explanation = {"answer": answer, "weights": _WEIGHTS, "mechanism": "marginals"}
        kinds: dict[str, Callable[[], httpx.Response]] = {
            "a fresh query": lambda: client.post("/query", json={"sql": next(fresh), "rho": 0.01}),
            "a query asked before": lambda: client.post("/query", json={"sql": _SQL, "rho": 0.01}),
            "a stored answer": lambda: client.get(f"/answers/{answer}"),
            "why": lambda: client.post("/why", json={"answer": answer, "weights": _WEIGHTS}),
            "a prepared explanation": lambda: client.post(
                "/explain?wait=60", json=explanation | {"k": 3 + next(counter) % 5}
            ),
            "the newest page of the history": lambda: client.get("/history"),
            "the budget": lambda: client.get("/budget"),
        }
        milliseconds = {kind: _median_ms(send, times) for kind, send in kinds.items()}
    return Growth(lines, milliseconds, start_seconds, verify_seconds, verify_again_seconds)


def _verify_seconds(book: SQLLedger, *, full: bool) -> float:
    started = time.perf_counter()
    report = book.verify_audit(full=full)
    assert report.intact, report.problems
    return time.perf_counter() - started


def _median_ms(send: Callable[[], httpx.Response], times: int) -> float:
    _ok(send())  # the first opens connections and fills caches
    took = []
    for _ in range(times):
        started = time.perf_counter()
        response = send()
        took.append((time.perf_counter() - started) * 1000)
        _ok(response)
    return statistics.median(took)


def _client(url: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{url.rstrip('/')}{AT}", headers=headers, timeout=300)


def _ok(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text[:300]
    body: dict[str, Any] = response.json()
    return body
