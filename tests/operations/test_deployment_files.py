"""The files in deploy/: the unit is valid, the dashboard's metrics exist, the ledger's rights are minimal."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import APPEND_ONLY
from dpxplain.server.app import GRACE_SECONDS
from dpxplain.server.config import Limits
from postgres_server import USER, PostgresServer
from printed_blocks import ROOT, SECONDS, free_port
from server_fixture import SQL, config_of, running_server, write_people

DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "dpxplain.service").read_text("utf-8")
RIGHTS = (DEPLOY / "postgresql-rights.sql").read_text("utf-8")
NGINX = (DEPLOY / "nginx.conf").read_text("utf-8")
INSTALLED = "/opt/dpxplain/bin/dpxplain"


def setting(name: str) -> str:
    [value] = re.findall(rf"(?m)^{name}=(.*)$", UNIT)
    return str(value)


@pytest.mark.process
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path) -> None:
    """With a program in place of the installed one, whose absence would be the one complaint."""
    for file in (*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")):
        (tmp_path / file.name).write_text(file.read_text("utf-8").replace(INSTALLED, "/bin/true"), "utf-8")
    units = [str(unit) for unit in tmp_path.iterdir()]
    verified = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert len(units) == 3


@pytest.mark.slow
@pytest.mark.process
def test_the_unit_s_command_serves_ends_in_time_at_its_signal_and_serves_again(tmp_path: Path) -> None:
    write_people(tmp_path / "schemas")
    (tmp_path / "server.toml").write_text(f'[server]\ndatasets = "schemas"\nport = {free_port()}\n')
    command = shlex.split(setting("ExecStart"))
    assert command == [INSTALLED, "serve", "/etc/dpxplain/server.toml"]
    main = [sys.executable, "-c", "from dpxplain.cli import main; main()"]
    started = [*main, *command[1:-1], str(tmp_path / "server.toml")]
    for _ in range(2):  # started, stopped and started again on the same ledger
        server = subprocess.Popen(started, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        try:
            said = (re.search(r"DPXPlain is at (\S+)", line) for line in server.stderr)
            url = next(address[1] for address in said if address)
            assert httpx.get(f"{url}api/v1/health").status_code == 200
            server.send_signal(signal.Signals[setting("KillSignal")])
            server.communicate(timeout=SECONDS)
            assert server.returncode == 0
        finally:
            server.kill()
            server.communicate()
    assert int(setting("TimeoutStopSec")) > GRACE_SECONDS


def test_the_dashboard_asks_only_for_metrics_that_the_server_has(tmp_path: Path) -> None:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"dpxplain_\w+", target["expr"])
    }
    with running_server(config_of(tmp_path)) as server:
        server.client().post("/datasets/people/query", json={"sql": SQL, "rho": 0.1}).raise_for_status()
        server.client().get("/metrics")  # 403: a refusal
        families = list(text_string_to_metric_families(server.curator().get("/metrics").text))
    measured = {sample.name for family in families for sample in family.samples}
    measured |= {
        f"{family.name}_total" for family in families if family.type == "counter"
    }  # of 0, without samples
    assert asked <= measured


def test_nginx_waits_longer_than_the_server_and_takes_bodies_as_large() -> None:
    assert int(re.findall(r"proxy_read_timeout (\d+)s;", NGINX)[0]) > Limits().seconds_per_request
    assert "client_max_body_size 1m;" in NGINX
    assert Limits().body_bytes <= 2**20


@pytest.fixture
def limited(postgres_server: PostgresServer, postgres_address: str) -> Iterator[str]:
    """A ledger made by its owner, at the address of a role that has the documented rights only."""
    open_ledger(postgres_address).close()
    role = f"server_{abs(hash(postgres_address)) % 10**8}"
    postgres_server.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{postgres_server.password}'")
    statements = re.sub(r"(?m)^\\.*$", "", RIGHTS)
    statements = statements.replace("REVOKE dpxplain_owner FROM dpxplain;", "")
    statements = re.sub(r"(TO|FROM) dpxplain;", rf"\1 {role};", statements)
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(statements.encode())
    yield postgres_address.replace(f"//{USER}:", f"//{role}:")
    with psycopg.connect(postgres_address, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {role} CASCADE".encode())
        connection.execute(f"DROP ROLE {role}".encode())


def test_a_server_with_the_documented_rights_serves_everything(limited: str, tmp_path: Path) -> None:
    ledger = open_ledger(limited)
    try:
        with running_server(config_of(tmp_path), ledger) as server:
            alice, curator = server.client(), server.curator()
            answer = alice.post("/datasets/people/query", json={"sql": SQL, "rho": 0.1}).json()
            body: dict[str, Any] = {"answer": answer["id"], "rho": 0.1}
            assert alice.post("/datasets/people/prepare?wait=20", json=body).status_code == 200
            assert server.browser("bob").get("/me").json()["name"] == "bob"
            grant = {"rho": 2.0, "reason": "a study"}
            assert curator.put("/datasets/people/analysts/bob", json=grant).status_code == 200
            share = {"owner": "alice", "reader": "bob", "reason": "a team"}
            assert curator.post("/datasets/people/shares", json=share).status_code == 200
            assert curator.delete(f"/admin/tokens/{server.ids['bob']}").status_code == 204
            assert curator.get("/admin/audit/verify").json()["problems"] == []
    finally:
        ledger.close()


FORBIDDEN = [
    *(f"UPDATE {table.name} SET {next(iter(table.c)).name} = NULL" for table in APPEND_ONLY),
    *(f"DELETE FROM {table.name}" for table in APPEND_ONLY),
    "TRUNCATE entries CASCADE",
    "DROP TRIGGER entries_keeps_its_rows ON entries",
    "ALTER TABLE entries DISABLE TRIGGER ALL",
    "DROP TABLE log",
    "DELETE FROM turnstile",
    "CREATE TABLE dpxplain.other (id int)",
    f"SET ROLE {USER}",
]


def test_the_documented_rights_let_the_server_change_no_line(limited: str) -> None:
    with psycopg.connect(limited, options="-c search_path=dpxplain", autocommit=True) as connection:
        for statement in FORBIDDEN:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_no_append_only_table_is_forgotten_in_the_rights() -> None:
    [tables] = re.findall(r"REVOKE UPDATE, DELETE ON ([\w, ]+) FROM", RIGHTS)
    assert set(tables.split(", ")) == {table.name for table in APPEND_ONLY}
