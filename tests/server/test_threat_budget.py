"""T6 to T11: nobody spends more than allowed, whatever happens."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from slow_engine import slow_down

from dpxplain.cli import run
from dpxplain.cli.screen import BROKEN
from dpxplain.ledger import balances
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model import charge as model_budget
from dpxplain.model.charge import limit_units, spend_units
from server_fixture import (
    COUNT,
    SCHEMA,
    SQL,
    WEIGHTS,
    LaterDatetime,
    RunningServer,
    config_of,
    running_server,
    soon,
)

AT = "/datasets/people"
LIMITS = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6, "waiting": 200}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    address: str = request.getfixturevalue("postgres_address")
    return address


@pytest.fixture
def limited(tmp_path: Path, place: str) -> Iterator[RunningServer]:
    """A data set whose limit allows exactly five answers of 0.1, on either database."""
    config = config_of(tmp_path / "data", limits=LIMITS)
    (tmp_path / "data" / "people.toml").write_text(SCHEMA.replace("rho = 10.0", "rho = 0.5"), "utf-8")
    book = open_ledger(place)
    with running_server(config, book) as server:
        yield server
    book.close()


def ask(client: httpx.Client, rho: float = 0.1, sql: str = SQL) -> httpx.Response:
    return client.post(f"{AT}/query", json={"sql": sql, "rho": rho})


def spent_units(server: RunningServer) -> int:
    return sum(spend_units(line.rho) for line in server.ledger.history("people") if line.rho)


def at_once(work: list[Callable[[], httpx.Response]]) -> list[httpx.Response]:
    together = threading.Barrier(len(work))

    def begin(one: Callable[[], httpx.Response]) -> httpx.Response:
        together.wait()
        return one()

    with ThreadPoolExecutor(len(work)) as threads:
        return list(threads.map(begin, work))


def test_t06_many_at_once_do_not_pass_the_check_together(limited: RunningServer) -> None:
    clients = [limited.client(f"analyst-{n}") for n in range(12)]
    answers = at_once([lambda client=client: ask(client) for client in clients])  # type: ignore[misc]
    assert Counter(answer.status_code for answer in answers) == {200: 5, 409: 7}
    assert spent_units(limited) == limit_units(0.5)
    assert limited.ledger.verify_audit().problems == []


def test_t07_colluding_analysts_cannot_exceed_the_data_set(limited: RunningServer) -> None:
    curator = limited.curator()
    for name in ("ann", "ben"):
        grant = {"rho": 0.5, "reason": "each may spend all of it"}
        assert curator.put(f"{AT}/analysts/{name}", json=grant).status_code == 200
    ann, ben = limited.client("ann"), limited.client("ben")
    assert ask(ann, 0.3).status_code == 200
    refused = ask(ben, 0.3)
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exhausted")
    assert ask(ben, 0.2).status_code == 200
    assert [ask(client, 1e-9).status_code for client in (ann, ben)] == [409, 409]
    assert spent_units(limited) == limit_units(0.5)


def test_t08_nothing_gives_budget_back(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    book = open_ledger(ledger)
    with running_server(config_of(tmp_path / "data", limits=LIMITS), book) as server:
        client = server.client()
        answer = ask(client).json()["id"]
        engine = slow_down(server)
        why = {"answer": answer, "weights": WEIGHTS, "k": 2, "rho": 0.2, "mechanism": "one-shot"}

        job = client.post(f"{AT}/explain", json=why).json()["id"]  # cancelled in the middle of a pass
        assert engine.entered.acquire(timeout=60)
        cancelled = client.delete(f"/jobs/{job}").json()
        assert (cancelled["state"], cancelled["rho"]) == ("cancelled", 0.2)

        engine.out_of_time = True
        late = ask(client, 0.3, COUNT)
        assert (late.status_code, late.json()["code"]) == (500, "failed_after_charge")

        engine.out_of_time = False
        engine.go.set()
        engine.fail = True  # as a crash of the engine
        assert ask(client, 0.4, COUNT).json()["code"] == "failed_after_charge"
        assert client.get(f"{AT}/budget").json()["rho"]["spent"] == pytest.approx(1.0)
        states = [line["state"] for line in client.get(f"{AT}/history").json()["entries"]]
        assert states == ["released", "reserved", "reserved", "reserved"]
    book.close()
    connection = sqlite3.connect(ledger)  # nor does the database let anybody take a row back
    for statement in ("DELETE FROM entries", "UPDATE entries SET charge_units = 0", "DELETE FROM log"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_t08_postgres_does_not_let_a_row_be_taken_back(limited: RunningServer, place: str) -> None:
    assert ask(limited.client()).status_code == 200
    if not place.startswith("postgresql"):
        return
    import psycopg

    with psycopg.connect(place) as connection:
        for statement in ("DELETE FROM dpxplain.entries", "TRUNCATE dpxplain.entries CASCADE"):
            with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="append-only"):
                connection.execute(statement)
            connection.rollback()
    assert spent_units(limited) == limit_units(0.1)


def test_t09_an_edited_or_cut_ledger_is_found_out(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    book = open_ledger(ledger)
    with running_server(config_of(tmp_path / "data", limits=LIMITS), book) as server:
        client, curator = server.client(), server.curator()
        ask(client)
        ask(client, 0.2)
        head = curator.get("/admin/audit/verify").json()
        assert head["intact"]
    book.close()
    anchor, key = ("--anchor", str(tmp_path / "anchor")), ("--key", str(tmp_path / "key"))
    assert run(["audit", "anchor", anchor[1], "--ledger", str(ledger), *key]) == 0

    def verified(edit: str, *options: str) -> int:
        """What the one command says of a copy that somebody has edited, guards taken off and put back."""
        copy = tmp_path / "copy.sqlite"
        copy.unlink(missing_ok=True)
        with sqlite3.connect(ledger) as source, sqlite3.connect(copy) as target:
            source.backup(target)
            guards = target.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            target.executescript("".join(f"DROP TRIGGER {name};" for name, _ in guards))
            target.executescript(edit)
            target.executescript("".join(f"{sql};" for _, sql in guards))
        source.close()
        target.close()
        return run(["audit", "verify", "--ledger", str(copy), *options])

    assert verified("") == 0
    for edit in (
        "UPDATE entries SET charge_units = 1 WHERE id = 1",
        "UPDATE entries SET analyst = 'bob' WHERE id = 1",
        "UPDATE releases SET payload = replace(payload, '1', '2')",
        "UPDATE limits SET declared_units = declared_units * 2",
        "UPDATE tokens SET role = 'curator'",
        "DELETE FROM releases WHERE entry = 2; DELETE FROM entries WHERE id = 2",
        "UPDATE log SET actor = 'bob' WHERE id = 3",
    ):
        assert verified(edit) == BROKEN, edit
    # All traces of the last charge together: only a head noted elsewhere tells.
    cut = """
        DELETE FROM releases WHERE entry = 2; DELETE FROM entries WHERE id = 2;
        DELETE FROM log WHERE id > (SELECT max(id) FROM log) - 2;
        UPDATE accounts SET gaussian_units = (SELECT sum(charge_units) FROM entries);
        UPDATE accounts SET last_number = last_number - 1 WHERE analyst = 'alice';
    """
    assert verified(cut) == 0
    assert verified(cut, "--head", head["head"]) == BROKEN
    assert verified("", *anchor, *key) == 0
    assert verified(cut, *anchor, *key) == BROKEN


def test_t10_the_same_question_is_answered_once_and_charged_once(limited: RunningServer) -> None:
    clients = [limited.client("twin") for _ in range(8)]
    together = at_once([lambda client=client: ask(client) for client in clients])  # type: ignore[misc]
    told = [answer.json() for answer in together]
    assert {answer.status_code for answer in together} == {200}
    assert len({(one["id"], str(one["rows"])) for one in told}) == 1
    assert sorted(one["free"] for one in told) == [False] + [True] * 7
    spelled = ask(clients[0], sql="select region,avg(pay)  from people group by region").json()
    assert (spelled["free"], spelled["id"]) == (True, told[0]["id"])
    assert spent_units(limited) == limit_units(0.1)


def test_t11_an_expired_allowance_buys_nothing(
    limited: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = limited.client("guest")
    body = {"rho": 0.4, "expires": soon().isoformat(), "reason": "for a moment"}
    assert limited.curator().put(f"{AT}/analysts/guest", json=body).status_code == 200
    assert ask(client).status_code == 200
    for module in (balances, model_budget):
        monkeypatch.setattr(module, "datetime", LaterDatetime)
    refused = ask(client, 0.2)
    assert (refused.status_code, "expired" in refused.json()["message"]) == (409, True)
    assert client.get(f"{AT}/budget").json()["rho"]["remaining"] == 0
    again = ask(client)
    assert (again.status_code, again.json()["free"]) == (200, True)  # what was paid for stays readable
