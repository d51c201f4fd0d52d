"""Response times with a long history: the same requests on a ledger of a hundred and of a million lines.

The lines belong to the analyst who asks, which is the worst case. Requests are sent one after the other over
one connection each, so that each time is the server's own; of each kind the fastest tenth counts, since what
else the machine does meanwhile is no part of the figure.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.ledger_growth import grow
from benchmarks.load_latency import questions
from benchmarks.load_servers import Setting, served, write_adult
from dpxplain.ledger.ledger import SQLLedger, open_ledger

SIZES = (100, 10_000, 1_000_000)
Send = Callable[[], httpx.Response]

_DATASET = "adult"
_AT = f"/datasets/{_DATASET}"
_SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
_WEIGHTS = [
    {"group": ["Married-civ-spouse"], "weight": 1},
    {"group": ["Never-married"], "weight": -1},
]


@dataclass(frozen=True)
class Growth:
    """At one length of the history: milliseconds by kind of request, and seconds of the rest."""

    lines: int
    milliseconds: dict[str, float]
    beside_reader_ms: float
    """The 95th percentile of the budget while another analyst reads their history without a pause."""
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
    tokens = setting.tokens(["ann", "ben"]) | setting.tokens(["carol"], "curator")
    fresh = questions()
    with served(setting) as [server], _client(server.url, tokens["ann"]) as ann:
        answer = _body(ann.post(f"{_AT}/query", json={"sql": _SQL, "rho": 0.01}))["id"]
        _body(ann.post(f"{_AT}/prepare?wait=60", json={"answer": answer, "rho": 0.01}))
        _body(ann.post(f"{_AT}/query", json={"sql": next(fresh), "rho": 0.01}))
    return [_at(setting, tokens, lines, answer, fresh, times) for lines in sizes]


def _at(
    setting: Setting, tokens: dict[str, str], lines: int, answer: int, fresh: Iterator[str], times: int
) -> Growth:
    with closing(open_ledger(setting.ledger)) as book:
        grow(book, _DATASET, lines)
        verify_seconds, verify_again_seconds = (_verify_seconds(book, full=full) for full in (True, False))
    started = time.perf_counter()
    with served(setting) as [server]:
        start_seconds = time.perf_counter() - started
        with (
            _client(server.url, tokens["ann"]) as ann,
            _client(server.url, tokens["ben"]) as ben,
            _client(server.url, tokens["carol"]) as carol,
        ):
            requests = {
                **_answering(ann, answer, fresh),
                **_looking(ann, ben, carol, answer, middle=max(60, lines // 2)),
            }
            milliseconds = {kind: _fast_tenth_ms(send, times) for kind, send in requests.items()}
            beside_reader_ms = _beside_reader_ms(ann, ben, times)
    return Growth(lines, milliseconds, beside_reader_ms, start_seconds, verify_seconds, verify_again_seconds)


def _answering(ann: httpx.Client, answer: int, fresh: Iterator[str]) -> dict[str, Send]:
    question = {"answer": answer, "weights": _WEIGHTS}
    counter = itertools.count()
    return {
        "a fresh query": lambda: ann.post(f"{_AT}/query", json={"sql": next(fresh), "rho": 0.01}),
        "a query asked before": lambda: ann.post(f"{_AT}/query", json={"sql": _SQL, "rho": 0.01}),
        "the price of a query": lambda: ann.post(f"{_AT}/preview", json={"sql": _SQL, "rho": 0.3}),
        "why": lambda: ann.post(f"{_AT}/why", json=question),
        "a prepared explanation": lambda: ann.post(
            f"{_AT}/explain?wait=60", json=question | {"mechanism": "marginals", "k": 3 + next(counter) % 5}
        ),
        "the price of the quality": lambda: ann.post(f"{_AT}/quality/preview", json={"rho": 0.1}),
    }


def _looking(
    ann: httpx.Client, ben: httpx.Client, carol: httpx.Client, answer: int, middle: int
) -> dict[str, Send]:
    """What is read by analysts with a long history and with none, and by the curator."""
    paths = [
        ("the data sets", ann, "/datasets"),
        ("a data set", ann, _AT),
        ("the budget", ann, f"{_AT}/budget"),
        ("a stored answer", ann, f"{_AT}/answers/{answer}"),
        ("a release by its key", ann, f"{_AT}/releases?key={'0' * 64}"),
        ("the latest quality", ann, f"{_AT}/releases?kind=quality"),
        ("the preparations of a query", ann, f"{_AT}/preparations?subject={'0' * 64}"),
        ("the newest page of the history", ann, f"{_AT}/history"),
        ("a page in the middle of it", ann, f"{_AT}/history?limit=50&before={middle}"),
        ("the history of one who asked nothing", ben, f"{_AT}/history"),
        ("the history, curator's", carol, f"{_AT}/history"),
        ("the analysts", carol, f"{_AT}/analysts"),
        ("the shares", carol, f"{_AT}/shares"),
        ("a page of the audit log", carol, "/admin/audit?limit=100"),
        ("the tokens", carol, "/admin/tokens"),
        ("the metrics", carol, "/metrics"),
    ]
    return {kind: partial(client.get, path) for kind, client, path in paths}


def _verify_seconds(book: SQLLedger, *, full: bool) -> float:
    started = time.perf_counter()
    report = book.verify_audit(full=full)
    assert report.intact, report.problems
    return time.perf_counter() - started


def _fast_tenth_ms(send: Send, times: int) -> float:
    milliseconds = []
    for number in range(times + 2):
        started = time.perf_counter()
        response = send()
        if number >= 2:  # the first ones open connections and fill caches
            milliseconds.append((time.perf_counter() - started) * 1000)
        assert response.status_code in (200, 404), response.text[:300]  # 404: nobody has measured the quality
    return statistics.quantiles(milliseconds, n=10, method="inclusive")[0]


def _beside_reader_ms(reader: httpx.Client, other: httpx.Client, times: int) -> float:
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            _body(reader.get(f"{_AT}/history?limit=500"))

    looping = threading.Thread(target=read)
    looping.start()
    try:
        milliseconds = []
        for _ in range(max(20, times)):
            started = time.perf_counter()
            _body(other.get(f"{_AT}/budget"))
            milliseconds.append((time.perf_counter() - started) * 1000)
    finally:
        over.set()
        looping.join()
    return statistics.quantiles(milliseconds, n=20, method="inclusive")[-1]


def _client(url: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{url.rstrip('/')}/api/v1", headers=headers, timeout=300, trust_env=False)


def _body(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text[:300]
    body: dict[str, Any] = response.json()
    return body
