"""Measures response times with a long history: the same requests on ledgers of a hundred to a million lines.

The lines belong to the analyst who asks, which is the worst case. A server runs on a ledger of each length.
Each request goes to all servers in turn, over one connection each, because some minutes later the machine may
be faster or slower by more than the measured difference. The 10th percentile of each kind counts, so that
other work on the machine matters little. The server's CPU time is given beside it.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from benchmarks.ledger_growth import fill_history
from benchmarks.load_latency import questions
from benchmarks.load_servers import ServerProcess, Setting, served, write_adult
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
class Times:
    """The 10th percentiles of a kind of request in milliseconds: time until the answer, and server CPU."""

    answered: float
    cpu: float


@dataclass(frozen=True)
class Growth:
    """Figures at one length of the history: times by kind of request, and seconds of other work."""

    lines: int
    times: dict[str, Times]
    beside_reader_ms: float
    """The 95th percentile of a budget request while another analyst reads their history without a pause."""
    start_seconds: float
    start_cpu_seconds: float
    verify_seconds: float
    verify_again_seconds: float

    def ratio(self, first: Growth, kind: str) -> float:
        """How many times as long a request takes as with the first size."""
        return self.times[kind].answered / first.times[kind].answered

    def cpu_ratio(self, first: Growth, kind: str) -> float:
        return self.times[kind].cpu / first.times[kind].cpu


@dataclass
class _Ledger:
    """A ledger with one length of history, and what a server on it needs."""

    setting: Setting
    lines: int
    tokens: dict[str, str]
    answer: int
    fresh: Iterator[str]
    verify_seconds: tuple[float, float]

    def start(self, stack: ExitStack) -> _Served:
        started = time.perf_counter()
        [server] = stack.enter_context(served(self.setting))
        seconds, cpu_seconds = time.perf_counter() - started, _cpu_seconds(server)
        ann, ben, carol = (
            stack.enter_context(_client(server.url, self.tokens[name])) for name in ("ann", "ben", "carol")
        )
        requests = {
            **_answering(ann, self.answer, self.fresh),
            **_looking(ann, ben, carol, self.answer, middle=min(self.lines, max(60, self.lines // 2))),
        }
        return _Served(self, server, requests, (ann, ben), (seconds, cpu_seconds))


@dataclass
class _Served:
    ledger: _Ledger
    server: ServerProcess
    requests: dict[str, Send]
    analysts: tuple[httpx.Client, httpx.Client]
    start_seconds: tuple[float, float]


def measure(
    places: Sequence[tuple[Path, str]], sizes: Sequence[int] = SIZES, times: int = 30
) -> list[Growth]:
    """Measures each size, in ascending order. Each has its own folder and ledger address."""
    ledgers = [_long_ledger(Setting(*place), lines) for place, lines in zip(places, sizes, strict=True)]
    with ExitStack() as stack:
        servers = [ledger.start(stack) for ledger in ledgers]
        kinds = {kind: _fast_tenths(servers, kind, times) for kind in servers[0].requests}
        return [
            Growth(
                one.ledger.lines,
                {kind: tenths[number] for kind, tenths in kinds.items()},
                _beside_reader_ms(*one.analysts, times),
                *one.start_seconds,
                *one.ledger.verify_seconds,
            )
            for number, one in enumerate(servers)
        ]


def _long_ledger(setting: Setting, lines: int) -> _Ledger:
    """A ledger with an answer, its preparation and `lines` lines, which a whole verification finds intact."""
    write_adult(setting.folder / "data", 100_000.0)
    tokens = setting.tokens(["ann", "ben"]) | setting.tokens(["carol"], "curator")
    fresh = questions()
    with served(setting) as [server], _client(server.url, tokens["ann"]) as ann:
        answer = _body(ann.post(f"{_AT}/query", json={"sql": _SQL, "rho": 0.01}))["id"]
        _body(ann.post(f"{_AT}/prepare?wait=60", json={"answer": answer, "rho": 0.01}))
        _body(ann.post(f"{_AT}/query", json={"sql": next(fresh), "rho": 0.01}))
    with closing(open_ledger(setting.ledger)) as book:
        fill_history(book, _DATASET, lines)
        verify_seconds = _verify_seconds(book, full=True), _verify_seconds(book, full=False)
    return _Ledger(setting, lines, tokens, answer, fresh, verify_seconds)


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
    """Reading requests of an analyst with a long history, of an analyst with none, and of the curator."""
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


def _fast_tenths(servers: Sequence[_Served], kind: str, times: int) -> list[Times]:
    answered: list[list[float]] = [[] for _ in servers]
    cpu: list[list[float]] = [[] for _ in servers]
    for number in range(times + 2):
        for place, one in enumerate(servers):
            cpu_before, started = _cpu_seconds(one.server), time.perf_counter()
            response = one.requests[kind]()
            seconds, cpu_seconds = time.perf_counter() - started, _cpu_seconds(one.server) - cpu_before
            # 404: nobody has measured the quality, and no release has this key
            assert response.status_code in (200, 404), response.text[:300]
            if number >= 2:  # the first requests open connections and fill caches
                answered[place].append(seconds)
                cpu[place].append(cpu_seconds)
    return [Times(_fast_tenth_ms(answered[n]), _fast_tenth_ms(cpu[n])) for n in range(len(servers))]


def _fast_tenth_ms(seconds: Sequence[float]) -> float:
    return 1000 * statistics.quantiles(seconds, n=10, method="inclusive")[0]


def _cpu_seconds(server: ServerProcess) -> float:
    """CPU seconds by Linux' CPU clock of a process, which counts nanoseconds."""
    return time.clock_gettime(~server.pid << 3 | 2)


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
