"""A real PostgreSQL for tests: a throwaway cluster in a temporary folder, reached by a socket in it.

`postgres_server` (one for the whole run of a pytest worker) and `postgres_address` (a fresh database for each
test) are fixtures; tests/conftest.py hands them to every test.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

USER = "dpxplain"
_SETTINGS = {
    "listen_addresses": "",  # nobody but us, and no port to choose
    "fsync": "on",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "log_min_messages": "fatal",
}
# The schema `public` is as in a new database.
_EMPTY = """DO $$ DECLARE name text; BEGIN
  PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
  FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)' LOOP
    EXECUTE format('DROP SCHEMA %I CASCADE', name);
  END LOOP;
  CREATE SCHEMA public AUTHORIZATION pg_database_owner;
  GRANT USAGE ON SCHEMA public TO PUBLIC;
END $$"""


class PostgresServer:
    """A running server. `kill` and `start` may be used to see what a crash leaves."""

    def __init__(self, folder: Path) -> None:
        self.password = secrets.token_urlsafe(12)
        self.folder = self._folder = folder
        self._databases = 0
        self._empty: list[str] = []
        # initdb and postgres refuse to run as root, so root lends them another user's name.
        self._owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        secret = folder / "password"
        secret.write_text(self.password)
        if self._owner is not None:
            for path in (folder, secret):
                os.chown(path, self._owner.pw_uid, self._owner.pw_gid)
        self._run(
            *("initdb", "--pgdata", str(folder / "data"), "--username", USER, "--pwfile", str(secret)),
            # Not SCRAM, which hashes a password 4096 times for each of thousands of connections.
            *("--auth", "md5", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )
        self.start()

    def address(self, database: str = "postgres", *, password: str | None = None) -> str:
        """Where a client finds the database, with its password."""
        secret = quote(password or self.password, safe="")
        return f"postgresql://{USER}:{secret}@/{database}?host={quote(str(self._folder), safe='')}"

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """The address of an empty database; what is in it is gone after the block."""
        if not self._empty:
            self._databases += 1
            self._empty.append(f"ledger_{self._databases}")
            self.execute(f"CREATE DATABASE {self._empty[-1]}")
        name = self._empty.pop()
        try:
            yield self.address(name)
        finally:
            # Emptied and used again, which is several times faster than to make and drop databases.
            self.execute(_EMPTY, name)
            self._empty.append(name)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run one statement as the server's superuser, on its own."""
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute(statement)

    def start(self) -> None:
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        self._process = subprocess.Popen(
            self._command(
                *("postgres", "-D", str(self._folder / "data")),
                *(f"--unix_socket_directories={self._folder}", *settings),
            ),
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.execute("SELECT 1")
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail("The PostgreSQL server for the tests did not start.", pytrace=False)
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT in an orderly way, SIGQUIT as a crash, with recovery at the next start."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=60)
            self._process = None

    def _run(self, *command: str) -> None:
        done = subprocess.run(self._command(*command), cwd=self._folder, capture_output=True, check=False)
        if done.returncode:
            pytest.fail(f"{command[0]} failed: {done.stderr.decode(errors='replace')}", pytrace=False)

    def _command(self, program: str, *arguments: str) -> list[str]:
        lent = []
        if self._owner is not None:
            user = (f"--reuid={self._owner.pw_uid}", f"--regid={self._owner.pw_gid}", "--clear-groups")
            lent = ["setpriv", *user, "--pdeathsig=INT"]  # does not outlive a killed test run
        return [*lent, _program(program), *arguments]


def _program(name: str) -> str:
    """Debian keeps the server's programs in a folder of their version, off the path."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    for folder in reversed(folders):
        if (folder / name).exists():
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        pytest.fail(
            f"These tests need a PostgreSQL server, but {name!r} is missing: install the package postgresql.",
            pytrace=False,
        )
    return found


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server of one's own, stopped and removed after the block."""
    # Not pytest's own temporary folder: another user must be able to reach this one.
    with tempfile.TemporaryDirectory(prefix="dpxplain-postgres-") as folder:
        server = PostgresServer(Path(folder))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_address(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.new_database() as address:
        yield address
