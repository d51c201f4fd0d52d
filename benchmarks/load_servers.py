"""Server processes for load and crash tests: `dpxplain serve` on loopback, which the test stops or kills.

The data are small and made up, or the bundled Adult. The ledger is a SQLite file or a throwaway PostgreSQL.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from dpxplain.datasets import path as bundled
from dpxplain.ledger.address import LEDGER_VARIABLE
from dpxplain.ledger.ledger import open_ledger

ROOT = Path(__file__).parent.parent
PEOPLE = """[table]
name = "people"
source = "people.parquet"

[privacy]
rho = {rho}

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
LIMITS = {"requests_per_minute": 1_000_000, "anonymous_per_minute": 1_000_000, "waiting": 64}

_MAIN = "from dpxplain.cli import main; main()"
_STARTING_SECONDS = 300.0


def write_people(folder: Path, rho: float, rows: int = 3_000) -> Path:
    """Writes made-up people with a limit of `rho`. Returns the folder, for the setting `datasets`."""
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
    (folder / "people.toml").write_text(PEOPLE.format(rho=rho), encoding="utf-8")
    return folder


def write_adult(folder: Path, rho: float) -> Path:
    """Writes the bundled Adult with a limit of `rho`, because a load test asks more than anybody would."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(bundled("adult.parquet"), folder / "adult.parquet")
    text, replaced = re.subn(r"(?m)^rho = \S+", f"rho = {rho}", bundled("adult.toml").read_text("utf-8"))
    assert replaced == 1
    (folder / "adult.toml").write_text(text, encoding="utf-8")
    return folder


@dataclass
class Setting:
    """What server processes share: the data, one ledger and the limits."""

    folder: Path
    ledger: str
    """A path or a postgresql:// address."""
    limits: Mapping[str, float] = field(default_factory=lambda: LIMITS)
    default_rho: float = 1_000_000.0

    def tokens(self, names: list[str], role: str = "analyst") -> dict[str, str]:
        """Makes a token for each name, before any server runs."""
        book = open_ledger(self.ledger)
        try:
            until = datetime.now(UTC) + timedelta(hours=6)
            return {name: book.tokens.create(name, role, expires=until, by="load")[1] for name in names}
        finally:
            book.close()

    def config(self) -> Path:
        file = self.folder / "server.toml"
        limits = "\n".join(f"{name} = {value}" for name, value in self.limits.items())
        file.write_text(
            f'[server]\nport = 0\ndatasets = "data"\n\n[analysts]\ndefault_rho = {self.default_rho}\n\n'
            f"[limits]\n{limits}\n",
            encoding="utf-8",
        )
        return file


class ServerProcess:
    """One process of `dpxplain serve`, with its log in a file."""

    def __init__(self, setting: Setting) -> None:
        self._log = setting.folder / f"server-{time.monotonic_ns()}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, "serve", str(setting.config())],
                env=os.environ | {LEDGER_VARIABLE: setting.ledger, "COLUMNS": "500"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self.url = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_until_up(self) -> ServerProcess:
        """Waits until the server answers. If it does not, raises an error with its log."""
        until = time.monotonic() + _STARTING_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            said = re.search(r"DPXPlain is at (http://\S+/)", self.log)
            if said is not None:
                self.url = said[1]
                try:
                    if httpx.get(f"{self.url}api/v1/health", timeout=5).status_code == 200:
                        return self
                except httpx.TransportError:
                    pass
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"the server did not start:\n{self.log}")

    def kill(self) -> None:
        """Kills the process, as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Stops the process in an orderly way, or kills it after 30 seconds. Returns its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._process.returncode


@contextmanager
def served(setting: Setting, processes: int = 1) -> Iterator[list[ServerProcess]]:
    """Runs `processes` server processes on one ledger, and stops them after the block."""
    started = [ServerProcess(setting) for _ in range(processes)]
    try:
        yield [process.wait_until_up() for process in started]
    finally:
        for process in started:
            process.stop()


@contextmanager
def postgres_and_server() -> Iterator[tuple[str, Any]]:
    """The address of an empty database on a throwaway server, as the tests use it, and that server."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from postgres_server import running_server
    finally:
        sys.path.pop(0)
    with running_server() as server, server.new_database() as address:
        yield address, server


@contextmanager
def postgres() -> Iterator[str]:
    """The address of an empty database."""
    with postgres_and_server() as (address, _):
        yield address
