"""What every request takes on a ledger of a hundred, ten thousand and a million lines, in both databases.

`make load` measures the most frequent ones (load_growth.py); this measures all of them:
`python -m benchmarks.growth_requests`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import quantiles

import httpx

from benchmarks.ledger_growth import grow
from benchmarks.load_servers import Setting, postgres, served, write_people
from dpxplain.ledger.ledger import open_ledger

LENGTHS = (100, 10_000, 1_000_000)
DATASET = "people"
ANALYST = "ann"

_AT = "/datasets/people"
_SQL = "SELECT region, AVG(pay) FROM people GROUP BY region"
_WEIGHTS = [{"group": ["North"], "weight": 1}, {"group": ["South"], "weight": -1}]
_TRIES = 30


def measure(place: str, folder: Path, lengths: tuple[int, ...] = LENGTHS) -> dict[int, dict[str, float]]:
    """Milliseconds of each request on the ledger at `place`, grown to each length in turn.

    The fastest tenth counts: what else the machine does meanwhile is no part of the figure.
    """
    write_people(folder / "data", 1_000_000.0)
    setting = Setting(folder, place)
    tokens = setting.tokens([ANALYST, "ben"]) | setting.tokens(["carol"], "curator")
    figures: dict[int, dict[str, float]] = {}
    for length in lengths:
        with served(setting) as [server]:
            _warm(server.url, tokens)
        with closing(open_ledger(place)) as ledger:
            grow(ledger, DATASET, length)
        started = time.perf_counter()
        with closing(open_ledger(place)):
            opening = time.perf_counter() - started
        with served(setting) as [server]:
            figures[length] = {"opening the ledger": 1_000 * opening} | _requests(server.url, tokens, length)
    return figures


def _warm(url: str, tokens: dict[str, str]) -> None:
    """The answer and the preparation that later requests are about, and a charge to repeat."""
    with _client(url, tokens[ANALYST]) as ann:
        answer = ann.post(f"{_AT}/query", json={"sql": _SQL, "rho": 0.5}).raise_for_status().json()["id"]
        ann.post(
            f"{_AT}/prepare?wait=60", json={"answer": answer, "rho": 0.5, "family": {}}
        ).raise_for_status()


def _requests(url: str, tokens: dict[str, str], length: int) -> dict[str, float]:
    with (
        _client(url, tokens[ANALYST]) as ann,
        _client(url, tokens["ben"]) as ben,
        _client(url, tokens["carol"]) as carol,
    ):
        answer = ann.post(f"{_AT}/query", json={"sql": _SQL, "rho": 0.5}).json()["id"]
        question = {"answer": answer, "weights": _WEIGHTS}
        fresh = iter(range(10**6))
        middle = max(60, length // 2)

        def fresh_query() -> httpx.Response:
            body = {"sql": _SQL, "rho": 0.01 + (1 + next(fresh)) * 1e-7 + length * 1e-12}
            return ann.post(f"{_AT}/query", json=body)

        requests: dict[str, Callable[[], httpx.Response]] = {
            "data sets": lambda: ann.get("/datasets"),
            "a data set": lambda: ann.get(_AT),
            "budget": lambda: ann.get(f"{_AT}/budget"),
            "history, newest page": lambda: ann.get(f"{_AT}/history"),
            "history, a page in the middle": lambda: ann.get(f"{_AT}/history?limit=50&before={middle}"),
            "history of an analyst who asked little": lambda: ben.get(f"{_AT}/history"),
            "history, curator's": lambda: carol.get(f"{_AT}/history"),
            "preview of a query": lambda: ann.post(f"{_AT}/preview", json={"sql": _SQL, "rho": 0.3}),
            "fresh query": fresh_query,
            "query asked before": lambda: ann.post(f"{_AT}/query", json={"sql": _SQL, "rho": 0.5}),
            "answer by its number": lambda: ann.get(f"{_AT}/answers/{answer}"),
            "why": lambda: ann.post(f"{_AT}/why", json=question),
            "prepared explanation": lambda: ann.post(
                f"{_AT}/explain?wait=60", json=question | {"k": 3, "mechanism": "marginals"}
            ),
            "preparations of a query": lambda: ann.get(f"{_AT}/preparations?subject={'0' * 64}"),
            "release by its key": lambda: ann.get(f"{_AT}/releases?key={'0' * 64}"),
            "latest quality": lambda: ann.get(f"{_AT}/releases?kind=quality"),
            "preview of the quality": lambda: ann.post(f"{_AT}/quality/preview", json={"rho": 0.1}),
            "analysts": lambda: carol.get(f"{_AT}/analysts"),
            "shares": lambda: carol.get(f"{_AT}/shares"),
            "audit log, a page": lambda: carol.get("/admin/audit?limit=100"),
            "tokens": lambda: carol.get("/admin/tokens"),
            "metrics": lambda: carol.get("/metrics"),
        }
        return {name: _milliseconds(request) for name, request in requests.items()}


def _milliseconds(request: Callable[[], httpx.Response]) -> float:
    times = []
    for number in range(_TRIES + 2):
        started = time.perf_counter()
        response = request()
        if number >= 2:  # the first ones fill caches
            times.append(time.perf_counter() - started)
        assert response.status_code in (200, 404), response.text
    return 1_000 * quantiles(times, n=10)[0]


def _client(url: str, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=f"{url}api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=300, trust_env=False
    )


def table(figures: dict[int, dict[str, float]]) -> str:
    """As Markdown: milliseconds by length, and how many times longer the longest takes."""
    lengths = list(figures)
    lines = [
        f"| request | {' | '.join(f'{length:,} lines' for length in lengths)} | factor |",
        f"|---|{'--:|' * (len(lengths) + 1)}",
    ]
    for name in figures[lengths[0]]:
        times = [figures[length][name] for length in lengths]
        cells = " | ".join(f"{milliseconds:.1f} ms" for milliseconds in times)
        lines.append(f"| {name} | {cells} | {times[-1] / times[0]:.2f} |")
    return "\n".join(lines)


def main() -> None:
    lengths = tuple(map(int, sys.argv[1:])) or LENGTHS
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "ledger.sqlite"))
        print("SQLite\n\n" + table(measure(file, Path(folder, "sqlite"), lengths)))
        with postgres() as address:
            print("\nPostgreSQL\n\n" + table(measure(address, Path(folder, "postgres"), lengths)))


if __name__ == "__main__":
    main()
