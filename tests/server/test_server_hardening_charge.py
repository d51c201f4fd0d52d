"""What is refused before it is charged, from public quantities; and failures that could tell of the data."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from slow_engine import slow_down

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import InternalError
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import FLIGHTS
from dpxplain.model.charge import Charge, Request
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset, StoredReleaser
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.server.authenticate import Caller
from dpxplain.server.config import Config
from dpxplain.server.context import DatasetAccess
from dpxplain.server.limits import pass_cells
from dpxplain.session import Session
from opened import dataset_of
from server_fixture import COUNT, SCHEMA, SQL, WEIGHTS, config_of, running_server

AT = "/datasets/people"
MANY = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6}
WIDE = '[table]\nname = "people"\nsource = "people.parquet"\n[privacy]\nrho = 10.0\n' + "".join(
    f"[columns.{name}]\nvalues = {list(range(size))}\n"
    for name, size in zip("abcd", (2, 60, 60, 60), strict=True)
)


def ask(client: httpx.Client, sql: str = SQL, rho: float = 0.1) -> httpx.Response:
    return client.post(f"{AT}/query", json={"sql": sql, "rho": rho})


def spent(client: httpx.Client) -> float:
    told: float = client.get(f"{AT}/budget").json()["rho"]["spent"]
    return told


def wide_config(folder: Path, **limits: Any) -> Config:
    """Four columns whose declared values have many combinations."""
    folder.mkdir()
    pq.write_table(pa.table({name: [0, 1, 1] for name in "abcd"}), folder / "people.parquet")
    (folder / "people.toml").write_text(WIDE, encoding="utf-8")
    server = {"datasets": str(folder), "port": 0}
    return Config.load({"server": server, "analysts": {"default_rho": 5.0}, "limits": MANY | limits})


def test_after_three_charged_failures_nothing_is_measured_until_the_curator_forgives(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        unlucky, other, curator = server.client("unlucky"), server.client("other"), server.curator()
        stored = ask(unlucky, COUNT)
        engine = slow_down(server)
        engine.go.set()
        engine.fail = True
        assert [ask(unlucky, SQL, 0.1 + n / 100).status_code for n in range(3)] == [500] * 3
        before = spent(unlucky)
        refused = ask(unlucky, SQL, 0.2)
        assert (refused.status_code, refused.json()["code"]) == (409, "too_many_failures")
        assert spent(unlucky) == before
        assert ask(unlucky, COUNT).json()["id"] == stored.json()["id"]  # what is stored stays free
        engine.fail = False
        assert ask(other).status_code == 200
        forgive = f"{AT}/analysts/unlucky/forgive"
        assert unlucky.post(forgive, json={"reason": "me"}).status_code == 403
        assert curator.post(forgive, json={"reason": ""}).status_code == 400
        assert curator.post(forgive, json={"reason": "a full disk"}).status_code == 204
        assert ask(unlucky, SQL, 0.2).status_code == 200
        last = server.ledger.audit()[-3:]
        assert any(
            one.action == "failures forgiven" and one.details["reason"] == "a full disk" for one in last
        )
        assert server.ledger.verify_audit().intact


def test_a_process_that_is_gone_does_not_count_as_a_failure_but_its_failures_do(tmp_path: Path) -> None:
    book = open_ledger(None)
    book.open_dataset("people", 10.0, 1e-6)
    account = book.account("alice", default_limit=5.0)
    charges = [Charge("query", f"key-{n}", Request("a query"), 0.1) for n in range(5)]
    entries = [account.reserve_once("people", charge) for charge in charges]
    with running_server(config_of(tmp_path, limits=MANY), book) as server:
        client = server.client()
        assert ask(client).status_code == 200  # another process may still be at work on them
        for entry in entries[:2]:
            account.abandon(entry.row)  # as when it fails
        for entry in entries[3:]:
            book.flights.stop_heartbeat(entry.row)  # as when its process is killed
        with book.store.updating() as connection:
            silent = FLIGHTS.c.entry.in_([entry.row for entry in entries[3:]])
            connection.execute(sa.update(FLIGHTS).where(silent).values(heard="2026-01-01T00:00:00+00:00"))
        assert ask(client, COUNT).status_code == 200
        account.abandon(entries[2].row)
        assert ask(client, COUNT, 0.2).json()["code"] == "too_many_failures"
        book.failures.forgive("people", "alice", reason="a power cut", by="carol")
        assert ask(client, COUNT, 0.2).status_code == 200
    book.close()


def test_what_may_not_fit_into_memory_is_refused_before_the_charge(tmp_path: Path) -> None:
    sql = "SELECT a, COUNT(*) FROM people GROUP BY a"
    weights = [{"group": [0], "weight": 1}, {"group": [1], "weight": -1}]
    with running_server(wide_config(tmp_path / "wide", memory="40MB")) as server:
        client = server.client()
        answer = ask(client, sql).json()["id"]
        large = {"answer": answer, "rho": 0.1, "family": {"conjuncts": 3}}
        why = large | {"weights": weights, "k": 2, "mechanism": "one-shot"}
        for path, body in (
            ("explain?wait=60", why),
            ("explain/preview", why),
            ("prepare?wait=60", large),
            ("prepare/preview", large),
        ):
            refused = client.post(f"{AT}/{path}", json=body)
            assert refused.status_code == 400, path
            assert "memory" in refused.json()["message"]
        assert spent(client) == pytest.approx(0.1)
        small = why | {"family": {"conjuncts": 1}}
        assert client.post(f"{AT}/explain?wait=60", json=small).json()["state"] == "done"


def test_no_pass_counts_more_cells_than_was_reckoned_with_before_the_charge() -> None:
    """Rows with undeclared values are counted too."""
    declared = {name: {"values": [0, 1]} for name in "gabc"}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1.0}, "columns": declared})
    rows = list(itertools.product([0, 1, None], repeat=4))
    table = pa.table(
        {name: list(column) for name, column in zip("gabc", zip(*rows, strict=True), strict=True)}
    )
    query = Query("t", ("g",), Aggregate("count"))
    with closing(DuckDBEngine(table, schema)) as engine:
        dataset = OpenDataset(schema, engine, open_ledger(None), StoredReleaser(), OpenDPNoise())
        for conjuncts in (1, 2, 3):
            family = dataset.family(query, FamilyChoice(conjuncts=conjuncts))
            counted = len(engine.grouped(query, dataset._blocks(family)).reveal().count)
            assert counted == pass_cells(query, family, schema)


def test_more_groups_than_a_server_answers_are_refused_before_the_charge(tmp_path: Path) -> None:
    sql = "SELECT b, c, COUNT(*) FROM people GROUP BY b, c"
    with running_server(wide_config(tmp_path / "wide", groups=3_000)) as server:
        client = server.client()
        for path in ("preview", "query"):
            refused = client.post(f"{AT}/{path}", json={"sql": sql, "rho": 0.1})
            assert (refused.status_code, refused.json()["code"]) == (400, "query_refused")
            assert "3,600 declared groups" in refused.json()["message"]
        assert spent(client) == 0


def test_more_values_than_a_server_answers_are_refused_before_the_charge(tmp_path: Path) -> None:
    counts = ", ".join(f"SUM(CASE WHEN d = {number} THEN 1 ELSE 0 END) AS n{number}" for number in range(60))
    sql = f"SELECT b, c, {counts} FROM people GROUP BY b, c"
    with running_server(wide_config(tmp_path / "wide")) as server:
        client = server.client()
        for path in ("preview", "query"):
            refused = client.post(f"{AT}/{path}", json={"sql": sql, "rho": 0.1})
            assert (refused.status_code, refused.json()["code"]) == (400, "query_refused")
            assert "60 aggregates for 3,600 declared groups" in refused.json()["message"]
        assert spent(client) == 0


def test_a_large_stored_answer_is_rendered_where_it_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT b, c, COUNT(*) FROM people GROUP BY b, c"
    with running_server(wide_config(tmp_path / "wide")) as server:
        client = server.client()
        stored = ask(client, sql).json()["id"]
        inside: list[str] = []
        submit = server.state.planning.submit

        def noted(who: str, *rest: Any) -> Any:
            inside.append(who)
            return submit(who, *rest)

        monkeypatch.setattr(server.state.planning, "submit", noted)
        assert len(client.get(f"{AT}/answers/{stored}").json()["rows"]) == 3_600
        assert ask(client, sql).json()["free"]
        assert inside == ["alice", "alice"]


def test_too_much_ranking_is_refused_before_the_charge(tmp_path: Path) -> None:
    sql = "SELECT a, COUNT(*) FROM people GROUP BY a"
    weights = [{"group": [0], "weight": 1}, {"group": [1], "weight": -1}]
    with running_server(wide_config(tmp_path / "wide", ranked=10_000)) as server:
        client = server.client()
        why = {"answer": ask(client, sql).json()["id"], "weights": weights, "rho": 0.1}
        for path in ("explain/preview", "explain"):
            refused = client.post(f"{AT}/{path}", json=why | {"k": 100})
            assert refused.status_code == 400
            assert "Use k up to 55" in refused.json()["remedy"]
            assert client.post(f"{AT}/{path}", json=why | {"k": 1_001}).status_code == 400
        assert spent(client) == pytest.approx(0.1)


def test_a_job_that_cannot_be_paid_or_planned_is_never_written_down(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY, analysts={"default_rho": 0.1})) as server:
        client = server.client()
        answer = ask(client).json()["id"]
        made: list[str] = []
        server.ledger.jobs.create = lambda *args: made.append(args[0])
        why = {"answer": answer, "weights": WEIGHTS, "k": 2, "rho": 0.1}
        unpaid = [
            client.post(f"{AT}/explain", json=why),
            client.post(f"{AT}/prepare", json={"answer": answer, "rho": 0.1}),
        ]
        assert [(one.status_code, one.json()["code"]) for one in unpaid] == [(409, "budget_exhausted")] * 2
        unplanned = client.post(f"{AT}/explain", json=why | {"rho": 1e-9, "k": 999})
        assert unplanned.status_code == 400
        long = {"predicates": ["age > 40 OR " * 800 + "age > 40"] * 10}
        for path in ("explain", "explain/preview"):
            told = client.post(f"{AT}/{path}", json=why | {"family": long})
            assert (told.status_code, "64,000 characters" in told.json()["message"]) == (400, True)
        assert made == []


def test_jobs_are_forgotten_a_day_after_they_ended() -> None:
    book = open_ledger(None)
    book.open_dataset("people", 10.0, 1e-6)
    for id in ("ended", "running"):
        book.jobs.create(id, "people", "alice", "explain", {})
    book.jobs.update("ended", "done", "")
    book.jobs.prune()
    assert [book.jobs.get(id).state for id in ("ended", "running")] == ["done", "queued"]
    book.jobs.prune(timedelta(seconds=-1))
    with pytest.raises(Exception, match="no job"):
        book.jobs.get("ended")
    book.close()


def test_an_edit_is_not_raced_by_what_waits_under_the_old_declarations(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY | {"running": 1})) as server:
        first, second, curator = server.client("first"), server.client("second"), server.curator()
        engine = slow_down(server)
        with ThreadPoolExecutor(2) as threads:
            running = threads.submit(ask, first, COUNT)
            assert engine.entered.acquire(timeout=60)
            waiting = threads.submit(ask, second, SQL)
            while server.state.pool.admitted < 2:
                time.sleep(0.01)
            edited = SCHEMA.replace("[0, 1000]", "[0, 5000]")
            assert curator.put("/admin/datasets/people", json={"toml": edited}).status_code == 200
            engine.go.set()
            assert running.result().status_code == 200  # charged before the edit
            told = waiting.result()
        assert (told.status_code, told.json()["code"]) == (409, "declarations_changed")
        assert spent(second) == 0
        assert ask(second).status_code == 200


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ("", 'neighbours = "bounded"', False),
        ('neighbours = "bounded"', "", False),
        ("", 'unit = "age"\nmax_rows = 5', False),
        ('unit = "age"\nmax_rows = 5', 'unit = "age"\nmax_rows = 6', False),
        ('unit = "age"\nmax_rows = 5', 'unit = "age"\nmax_rows = 4', True),
        ('unit = "age"\nmax_rows = 5', "", False),
    ],
)
def test_what_is_spent_cannot_be_turned_into_a_stronger_promise(
    tmp_path: Path, before: str, after: str, accepted: bool
) -> None:
    def declared(privacy: str) -> str:
        return SCHEMA.replace("rho = 10.0", f"rho = 10.0\n{privacy}")

    book = open_ledger(None)
    config = config_of(tmp_path, limits=MANY)
    with running_server(config, book) as server:
        curator = server.curator()
        for privacy in (after, before):  # unspent, it may change at will
            told = curator.put("/admin/datasets/people", json={"toml": declared(privacy)})
            assert told.status_code == 200
        ask(server.client(), COUNT).raise_for_status()
        told = curator.put("/admin/datasets/people", json={"toml": declared(after)})
        assert told.status_code == (200 if accepted else 400), told.text
        if not accepted:
            assert "promise more" in told.json()["message"]
            assert (tmp_path / "people.toml").read_text("utf-8") == declared(before)
    if not accepted:  # nor by a restart
        (tmp_path / "people.toml").write_text(declared(after), "utf-8")
        with (
            pytest.raises(Exception, match="promise more"),
            running_server(config, book),
        ):
            pass
    book.close()


def test_two_data_sets_cannot_have_the_same_file(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        curator = server.curator()
        twin = SCHEMA.replace('"people"', '"twin"')
        os.link(tmp_path / "people.parquet", tmp_path / "linked.parquet")
        for source in ("people.parquet", "./people.parquet", "peopl*.parquet", "linked.parquet"):
            told = curator.post("/admin/datasets", json={"toml": twin.replace("people.parquet", source)})
            assert told.status_code == 400, source
            assert "already has this file" in told.json()["message"]
        shutil.copy(tmp_path / "people.parquet", tmp_path / "copied.parquet")
        told = curator.post(
            "/admin/datasets", json={"toml": twin.replace("people.parquet", "copied.parquet")}
        )
        assert told.status_code == 200


STUCK = """
import sys, threading, time
from contextlib import closing
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from server_fixture import config_of
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.server import pool
from dpxplain.server import app as running
pool.CLOSING_SECONDS = 0.3
running.GRACE_SECONDS = 1

grouped = DuckDBEngine.grouped
def never(self, query, subsets, *, rehearsed=False):
    if rehearsed:
        return grouped(self, query, subsets, rehearsed=True)
    print("stuck", flush=True)
    time.sleep(600)

DuckDBEngine.grouped = never
config = config_of(Path(sys.argv[1]), server={"ledger": sys.argv[1] + "/ledger.sqlite"})
from dpxplain.ledger.ledger import open_ledger
from server_fixture import soon
with closing(open_ledger(config.ledger_address.place)) as book:
    print(book.tokens.create("alice", "analyst", expires=soon(), by="test")[1], flush=True)
running.run(config, announce=lambda text: print(text, flush=True))
"""


@pytest.mark.slow
@pytest.mark.process
def test_the_process_ends_even_if_a_worker_does_not(tmp_path: Path) -> None:
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, str(tmp_path), str(here), str(here.parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        token, url = process.stdout.readline().strip(), process.stdout.readline().strip()

        def hang() -> None:
            signed_in = {"Authorization": f"Bearer {token}"}
            with suppress(httpx.HTTPError):
                httpx.post(
                    f"{url}api/v1{AT}/query", json={"sql": SQL, "rho": 0.1}, headers=signed_in, timeout=120
                )

        thread = threading.Thread(target=hang)
        thread.start()
        assert process.stdout.readline().strip() == "stuck"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        thread.join()
    finally:
        process.kill()
        process.communicate()
    with closing(open_ledger(tmp_path / "ledger.sqlite")) as book:
        assert book.budget("people").spent == 0.1


def test_only_a_callers_own_task_can_spend_and_what_only_looks_has_no_data(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path)) as server:
        registered = server.state.datasets.get("people")
        analyst, curator = (
            DatasetAccess(server.state, registered, Caller(name, role, name), server.url)
            for name, role in (("alice", "analyst"), ("carol", "curator"))
        )
        looking, curating = analyst.read_only_session(), curator.curator_session()
        for session in (Session(registered), looking, curating):
            with pytest.raises(InternalError, match="spend"):
                session.query(SQL, 0.1)
        assert dataset_of(looking).engine is None
        assert server.ledger.history("people") == []
