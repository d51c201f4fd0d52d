"""T9: an older ledger put back under a running server regains no budget; backups are taken under load."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import dpxplain as dpx
from dpxplain.cli import run
from dpxplain.errors import LedgerBehind
from dpxplain.ledger.anchor_guard import AnchorFile
from dpxplain.ledger.backup import verified_backup
from dpxplain.ledger.ledger import open_ledger
from dpxplain.server.config import Config
from server_fixture import (
    COUNT,
    SQL,
    RunningServer,
    config_of,
    count_processes_every,
    running_server,
    write_people,
)

AT = "/datasets/people"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    address: str = request.getfixturevalue("postgres_address")
    return address


def ask(client: httpx.Client, rho: float, sql: str = SQL) -> httpx.Response:
    return client.post(f"{AT}/query", json={"sql": sql, "rho": rho})


@contextmanager
def load(server: RunningServer, callers: int = 3) -> Iterator[list[int]]:
    """Analysts who ask without a pause; yields the statuses they got."""
    done, statuses = threading.Event(), list[int]()
    clients = [server.client(f"analyst {number}") for number in range(callers)]

    def work(number: int) -> None:
        count = 0
        while not done.is_set():
            count += 1
            statuses.append(ask(clients[number], 0.001 + count * 1e-9, COUNT).status_code)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        done.set()
        for thread in threads:
            thread.join()


def wait_for(statuses: list[int], status: int) -> None:
    """Until the load has got this status once more."""
    before = statuses.count(status)
    while statuses.count(status) == before:
        threading.Event().wait(0.01)


@pytest.mark.slow
def test_backup_restored_under_a_running_server_and_its_load_regains_nothing(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    anchor, backup = str(tmp_path / "elsewhere.anchor"), str(tmp_path / "older.sqlite")
    at = ("--ledger", place, "--anchor", anchor, "--json")
    config = config_of(tmp_path / "data", limits={"requests_per_minute": 1_000_000})

    def command(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert run(["ledger", *words, *at]) == code
        return json.loads(capsys.readouterr().out)

    with closing(open_ledger(place, anchor=anchor)) as book, running_server(config, book) as server:
        alice = server.client()
        first = ask(alice, 0.25).json()
        with load(server) as statuses:
            wait_for(statuses, 200)
            assert command("backup", backup)["intact"]
            wait_for(statuses, 200)
            assert ask(alice, 0.5).json()["free"] is False
            spent = book.budget("people").spent
            restored = command("restore", backup, "--replace")
            lost = {loss["analyst"]: loss["rho"] for loss in restored["lost"]}
            assert lost["alice"] == 0.5
            wait_for(statuses, 409)
            assert ask(alice, 0.5).status_code == 409
        refusal = ask(alice, 0.5).json()
        assert refusal["code"] == "ledger_behind"
        assert not any(character.isdigit() for character in refusal["message"])
        assert any("blocked" in line.getMessage() for line in caplog.records)
        stored = ask(alice, 0.25).json()
        assert (stored["id"], stored["free"]) == (first["id"], True)
        assert not server.curator().get("/admin/audit/verify").json()["intact"]
        assert command("status", code=2)["problem"] == book.recovery.anchor_problem()
        command("declare-loss", "--reason", "restored by mistake")
        assert book.budget("people").spent >= spent
        assert alice.get(f"{AT}/budget").json()["rho"]["spent"] == 0.75
        assert ask(alice, 0.5).json()["free"] is False  # lost, so measured again under what is left
        assert alice.get(f"{AT}/budget").json()["rho"]["spent"] == 1.25
        assert server.curator().get("/admin/audit/verify").json()["intact"]
        assert set(statuses) <= {200, 404, 409, 500}
        assert logging.ERROR in {line.levelno for line in caplog.records}


def test_a_machine_that_charged_nothing_remembers_what_another_charged(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has an anchor of its own, which its heartbeat brings up to date, so each notices a loss."""
    count_processes_every(0.05, monkeypatch)
    backup, anchors = tmp_path / "backup.sqlite", [tmp_path / "here.anchor", tmp_path / "there.anchor"]
    config = config_of(tmp_path / "data")
    with (
        closing(open_ledger(place, anchor=anchors[0])) as here,
        closing(open_ledger(place, anchor=anchors[1])) as there,
        running_server(config, here) as one,
        running_server(config, there) as two,
    ):
        idle = one.client("ann")
        busy = two.anonymous(dict(idle.headers))
        here.recovery.backup(backup)
        file, written = here.store.anchor.file, threading.Event()
        append = file.append

        def append_and_tell(mark: Any) -> None:
            append(mark)
            written.set()

        monkeypatch.setattr(file, "append", append_and_tell)
        assert ask(busy, 0.25).status_code == 200
        while _spent(anchors[0]) != {"people": {"ann": 0.25}}:
            assert written.wait(60), "no heartbeat has written the anchor"
            written.clear()
        with verified_backup(backup) as copy:
            here.recovery.restore(copy, by="carol")
        for client in (idle, busy):
            refused = ask(client, 0.1, COUNT)
            assert (refused.status_code, refused.json()["code"]) == (409, "ledger_behind")


def _spent(anchor: Path) -> dict[str, dict[str, float]]:
    """What an anchor file tells, without the notices, which cost nothing."""
    kept = AnchorFile(anchor).read()
    return {
        dataset: {analyst: units / 10**12 for analyst, units in totals.items() if units}
        for dataset, totals in ({} if kept is None else kept.spent).items()
    }


def test_server_keeps_the_anchor_where_it_is_told_and_beside_its_configuration_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPXPLAIN_LEDGER", raising=False)
    monkeypatch.delenv("DPXPLAIN_ANCHOR", raising=False)
    write_people(tmp_path / "data")
    file = tmp_path / "server.toml"

    def anchor(*lines: str) -> str | None:
        file.write_text("\n".join(("[server]", 'datasets = "data"', *lines)))
        return Config.load(file).ledger_address.anchor

    assert anchor() is None  # beside the SQLite ledger
    assert anchor('ledger = "postgresql://host/people"') == str(tmp_path / "ledger.anchor")
    assert anchor('anchor = "kept/people.anchor"') == str(tmp_path / "kept" / "people.anchor")
    assert anchor('anchor = "off"') == "off"
    monkeypatch.setenv("DPXPLAIN_ANCHOR", "/mnt/people.anchor")
    assert anchor('anchor = "off"') == "/mnt/people.anchor"


def test_local_workspace_put_back_from_an_older_copy_is_not_charged(tmp_path: Path) -> None:
    data = write_people(tmp_path / "data")
    workspace = tmp_path / ".dpxplain"

    def connect(**options: Any) -> dpx.Session:
        return dpx.connect(data / "people.parquet", data / "people.toml", workspace=workspace, **options)

    with connect() as session:
        session.query(SQL, rho=0.25)
        with closing(open_ledger(workspace / "ledger.sqlite")) as ledger:
            ledger.recovery.backup(tmp_path / "older.sqlite")
        session.query(COUNT, rho=0.5)
    at = ("--ledger", str(workspace / "ledger.sqlite"))
    assert run(["ledger", "restore", str(tmp_path / "older.sqlite"), "--replace", *at]) == 0
    with connect() as session:
        with pytest.raises(LedgerBehind):
            session.query(COUNT, rho=0.5)
        assert session.budget.spent == 0.25
        session.query(SQL, rho=0.25)  # stored
    assert run(["ledger", "declare-loss", "--reason", "wrong file", *at]) == 0
    with connect() as session:
        assert session.budget.spent == 0.75
        session.query(COUNT, rho=0.5)  # fresh noise
        assert session.budget.spent == 1.25
        assert [entry.kind for entry in session.history] == ["query", "loss", "query"]
        assert "loss" in repr(session.history)
    with connect(anchor="off") as session:
        session.query(COUNT, rho=0.125)
