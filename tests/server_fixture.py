"""A real server on a loopback port, for tests: `with running_server(config) as server: ...`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import FastAPI

from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.server import limits, metrics
from dpxplain.server.app import address, create_app, listening, uvicorn_of
from dpxplain.server.config import Config
from dpxplain.server.limits import ProcessCount
from dpxplain.server.pool import Task

if TYPE_CHECKING:  # processes that serve import this file, and need no pytest
    import pytest

SQL = "SELECT region, AVG(pay) FROM people GROUP BY region"
COUNT = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
WEIGHTS = [{"group": ["North"], "weight": 1}, {"group": ["South"], "weight": -1}]
SCHEMA = """[table]
name = "people"
source = "people.parquet"

[privacy]
rho = 10.0

[columns.region]
values = ["North", "South", "West"]

[columns.sex]
values = ["F", "M"]

[columns.age]
edges = [0, 20, 40, 60, 80]

[columns.pay]
bounds = [0, 1000]
step = 1
"""


def write_people(folder: Path, rows: int = 3000) -> Path:
    """A small data set with its schema; the folder that the server's `datasets` names."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = range(rows)
    table = pa.table(
        {
            "region": [("North", "South", "West")[n % 3] for n in numbers],
            "sex": [("F", "M")[n // 3 % 2] for n in numbers],
            "age": [n * 7 % 80 for n in numbers],
            "pay": [(n * 13 % 500) + (300 if n % 3 == 0 else 0) for n in numbers],
        }
    )
    pq.write_table(table, folder / "people.parquet")
    (folder / "people.toml").write_text(SCHEMA, encoding="utf-8")
    return folder


def add_dataset(folder: Path, name: str) -> None:
    """Another data set beside people, with its own copy of the file."""
    (folder / f"{name}.parquet").write_bytes((folder / "people.parquet").read_bytes())
    schema = SCHEMA.replace('name = "people"', f'name = "{name}"').replace(
        "people.parquet", f"{name}.parquet"
    )
    (folder / f"{name}.toml").write_text(schema, encoding="utf-8")


def config_of(folder: Path, **sections: Mapping[str, Any]) -> Config:
    """A configuration on people, with sections of the TOML file replaced in part."""
    server: dict[str, Any] = {"datasets": str(write_people(folder)), "port": 0}
    raw: dict[str, Any] = {"server": server | dict(sections.pop("server", {})), **sections}
    return Config.load({"analysts": {"default_rho": 5.0}} | raw)


def soon(hours: float = 1.0) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


class LaterDatetime(datetime):
    """Patched into a module in place of `datetime`: there it is two hours later."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + timedelta(hours=2)


@dataclass
class RunningServer:
    url: str
    app: FastAPI
    ledger: SQLLedger
    verify: Any = False
    tokens: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    _clients: list[httpx.Client] = field(default_factory=list)

    @property
    def state(self) -> Any:
        return self.app.state.server

    @property
    def key(self) -> str | None:
        """Of a single user's server."""
        authenticator = self.state.authenticator
        return str(authenticator.key) if authenticator.single_user else None

    @property
    def door(self) -> str:
        """The address as it is printed."""
        return self.url if self.key is None else f"{self.url}?key={self.key}"

    def owner(self) -> httpx.Client:
        """The one user of a single-user server, without a browser."""
        return self.anonymous({"Authorization": f"Bearer {self.key}"})

    def token(self, name: str, role: str = "analyst") -> str:
        """A token for somebody, made when first needed."""
        if name not in self.tokens:
            self.ids[name], self.tokens[name] = self.ledger.tokens.create(
                name, role, expires=soon(), by="test"
            )
        return self.tokens[name]

    def anonymous(self, headers: Mapping[str, str] | None = None) -> httpx.Client:
        client = httpx.Client(
            base_url=f"{self.url}api/v1", headers=dict(headers or {}), timeout=120, verify=self.verify
        )
        self._clients.append(client)
        return client

    def client(self, name: str = "alice", role: str = "analyst") -> httpx.Client:
        """Somebody who sends their token."""
        return self.anonymous({"Authorization": f"Bearer {self.token(name, role)}"})

    def curator(self) -> httpx.Client:
        return self.client("carol", "curator")

    def browser(self, name: str = "alice", role: str = "analyst") -> httpx.Client:
        """Somebody signed in with a cookie, whose browser names the server's own page as the origin."""
        client = self.anonymous({"Origin": self.url.rstrip("/"), "Sec-Fetch-Site": "same-origin"})
        signed_in = client.post("/session", json={"token": self.token(name, role)})
        assert signed_in.status_code == 200, signed_in.text
        return client

    def stop_refilling(self) -> Callable[[float], None]:
        """Stop the clock of the rate limits, which would refill while a busy machine runs the test.

        Returns what moves that clock on by some seconds.
        """
        now, rates = time.monotonic(), self.state.rates
        for buckets in (rates.callers, rates.anonymous, rates.sign_ins):
            buckets._clock = lambda: now

        def advance(seconds: float) -> None:
            nonlocal now
            now += seconds

        return advance

    def padded(self) -> list[float]:
        """Filled with the start of each task whose time was padded."""
        started: list[float] = []

        def noted(start: float) -> None:
            started.append(start)
            pad(start)

        pad = self.pad_by(noted)
        return started

    def pad_by(self, pad: Callable[[float], None]) -> Callable[[float], None]:
        """Tasks are padded by `pad`, which gets their start. Returns what padded them before."""
        pool = self.state.pool
        before: Callable[[float], None] = pool._pad
        pool._pad = pad
        return before

    def tasks(self) -> list[Task]:
        """What the pool runs now."""
        return list(self.state.pool._tasks)

    @property
    def processes(self) -> ProcessCount:
        """What this server knows of the processes that share its ledger."""
        count: ProcessCount = self.state._processes
        return count

    def forget_passes(self, dataset: str = "people") -> None:
        """The next request reads the data, also if a pass over them was kept for it."""
        self.state.datasets.get(dataset).passes._results.clear()

    def close(self) -> None:
        for client in self._clients:
            client.close()


def probe_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every probe of /ready looks anew."""
    monkeypatch.setattr(metrics, "_KEPT_SECONDS", 0.0)


def count_processes_every(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers that are opened from now on send a heartbeat and count the processes this often."""
    monkeypatch.setattr(limits, "_SECONDS_BETWEEN_COUNTS", seconds)


@contextmanager
def running_server(
    config: Config,
    ledger: SQLLedger | None = None,
    *,
    verify: Any = False,
    before: Callable[[FastAPI], None] = lambda _app: None,
) -> Iterator[RunningServer]:
    """Served by Uvicorn in a thread. A ledger that is passed in stays open; else it is in memory."""
    book = open_ledger(None) if ledger is None else ledger
    app = create_app(config, book)
    before(app)
    listener = listening(config.server)
    uvicorn = uvicorn_of(config, app)
    thread = threading.Thread(target=uvicorn.run, kwargs={"sockets": [listener]})
    thread.start()
    running = RunningServer(address(config.server, listener.getsockname()[1]), app, book, verify)
    try:
        while not uvicorn.started and thread.is_alive():
            time.sleep(0.01)
        yield running
    finally:
        running.close()
        uvicorn.should_exit = True
        thread.join(60)
        listener.close()
        if ledger is None:
            book.close()
