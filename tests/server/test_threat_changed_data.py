"""T31: answers of different data never mix, and what an analyst sees of a change is one sentence."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from dpxplain.ledger.ledger import SQLLedger, open_ledger
from server_fixture import SQL, WEIGHTS, RunningServer, config_of, running_server

AT = "/datasets/people"


@pytest.fixture
def ledger() -> Iterator[SQLLedger]:
    opened = open_ledger(None)
    yield opened
    opened.close()


@pytest.fixture
def served(tmp_path: Path, ledger: SQLLedger) -> Iterator[RunningServer]:
    with running_server(config_of(tmp_path), ledger) as server:
        yield server


def swap(folder: Path) -> bytes:
    """Replaces the rows by others, as the curator would; returns the file as it was."""
    file = folder / "people.parquet"
    before = file.read_bytes()
    table = pq.read_table(file)
    pq.write_table(table.slice(0, len(table) // 2), folder / "draft")
    os.replace(folder / "draft", file)
    return before


def restore(folder: Path, content: bytes) -> None:
    (folder / "draft").write_bytes(content)
    os.replace(folder / "draft", folder / "people.parquet")


def declare(folder: Path, version: str) -> None:
    file = folder / "people.toml"
    lines = [line for line in file.read_text().split("\n") if not line.startswith("version")]
    (folder / "draft").write_text("\n".join(lines).replace("[table]", f'[table]\nversion = "{version}"'))
    os.replace(folder / "draft", file)


def ask(client: httpx.Client, rho: float = 0.25) -> httpx.Response:
    return client.post(f"{AT}/query", json={"sql": SQL, "rho": rho})


def soon_answered(client: httpx.Client, rho: float = 0.25) -> httpx.Response:
    """Once the server has seen that nobody writes to the file any more."""
    deadline = time.monotonic() + 60
    while (response := ask(client, rho)).status_code == 409 and time.monotonic() < deadline:
        time.sleep(0.1)
    return response


def test_t31_a_file_swapped_while_the_server_runs_stops_everything_but_budget_and_history(
    served: RunningServer, tmp_path: Path
) -> None:
    client, curator = served.client(), served.curator()
    answer = ask(client).json()["address"]
    why = {"answer": answer, "weights": WEIGHTS}
    job = client.post(f"{AT}/prepare", params={"wait": 60}, json={"answer": answer, "rho": 0.25}).json()
    assert job["state"] == "done"
    swap(tmp_path)
    explain = why | {"k": 2}
    refused = {
        "stored": ask(client),
        "new": ask(client, 0.3),
        "answer": client.get(f"{AT}/answers/{answer}"),
        "why": client.post(f"{AT}/why", json=why),
        "explain": client.post(f"{AT}/explain", params={"wait": 60}, json=explain),
        "report": client.post(f"{AT}/report", json=explain),
        "release": client.get(f"{AT}/releases/{answer}"),
        "latest": client.get(f"{AT}/releases", params={"kind": "query"}),
        "job": client.get(f"/jobs/{job['id']}"),
        "truth": curator.get(f"{AT}/answers/{answer}/truth"),
    }
    assert {name: response.status_code for name, response in refused.items()} == dict.fromkeys(refused, 409)
    problems = [response.json() for response in refused.values()]
    assert {problem["code"] for problem in problems} == {"data_changed"}
    assert len({problem["message"] for problem in problems}) == 1, "the same sentence whatever was asked"
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == 0.5
    assert len(client.get(f"{AT}/history").json()["entries"]) == 2
    [listed] = curator.get("/admin/datasets").json()["datasets"]
    assert listed["problem"]["code"] == "data_changed"


def test_t31_a_declared_version_starts_clean_and_an_old_one_comes_back(
    served: RunningServer, tmp_path: Path
) -> None:
    client = served.client()
    first = ask(client).json()
    before = swap(tmp_path)
    assert ask(client).status_code == 409
    declare(tmp_path, "2")
    second = ask(client).json()
    assert (second["free"], second["id"] == first["id"]) == (False, False)
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == 0.5
    old = client.get(f"{AT}/answers/{first['id']}")
    assert (old.status_code, "version" in old.json()["message"]) == (400, True)
    assert client.get(f"{AT}/releases/{first['id']}").status_code == 404
    restore(tmp_path, before)
    assert ask(client).status_code == 409
    shutil.copy(tmp_path / "people.toml", tmp_path / "people.bak")
    declare(tmp_path, "")
    again = ask(client).json()
    assert (again["free"], again["id"], again["rows"]) == (True, first["id"], first["rows"])


def test_t31_a_restart_does_not_make_changed_data_good(tmp_path: Path, ledger: SQLLedger) -> None:
    with running_server(config_of(tmp_path), ledger) as server:
        first = ask(server.client()).json()
    config = config_of(tmp_path)
    before = swap(tmp_path)
    with running_server(config, ledger) as server:
        client = server.client()
        assert {ask(client, rho).status_code for rho in (0.25, 0.5)} == {409}
        restore(tmp_path, before)  # noticed without a restart
        again = soon_answered(client).json()
        assert (again["free"], again["id"]) == (True, first["id"])


def test_t31_a_version_declared_before_the_file_is_swapped_is_of_the_new_file(
    served: RunningServer, tmp_path: Path
) -> None:
    client = served.client()
    assert ask(client).status_code == 200
    declare(tmp_path, "2")
    client.get(f"{AT}/budget")  # the server reloads the schema
    swap(tmp_path)
    answer = soon_answered(client).json()
    assert answer["free"] is False
    sql = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    counts = client.post(f"{AT}/query", json={"sql": sql, "rho": 2}).json()["rows"]
    assert 1400 < sum(row["COUNT(*)"] for row in counts) < 1600


def test_t31_no_fingerprint_is_sent_to_an_analyst_or_logged(
    served: RunningServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = served.client()
    ask(client)
    [version] = served.ledger.versions.list("people")
    swap(tmp_path)
    declare(tmp_path, "2")
    responses = [client.get(AT), client.get(f"{AT}/history"), client.get(f"{AT}/budget"), ask(client)]
    texts = [response.text for response in responses] + [record.getMessage() for record in caplog.records]
    for secret in (version.fingerprint, version.secret):
        assert not any(secret in text for text in texts)
    curator: Any = served.curator().get("/admin/audit").text
    assert version.secret not in curator, "of the secret only a hash is in the log"


def test_t31_two_servers_with_different_files_answer_from_one(tmp_path: Path, postgres_address: str) -> None:
    books = [open_ledger(postgres_address), open_ledger(postgres_address)]
    configs = [config_of(tmp_path / "one"), config_of(tmp_path / "two")]
    swap(tmp_path / "two")
    with running_server(configs[0], books[0]) as one, running_server(configs[1], books[1]) as two:
        first = one.client()
        second = two.anonymous(dict(first.headers))
        assert ask(first).status_code == 200
        assert {ask(second, rho).status_code for rho in (0.25, 0.5)} == {409}
        assert first.get(f"{AT}/budget").json()["rho"]["spent"] == 0.25
        assert one.curator().get("/admin/audit/verify").json()["intact"]
    for book in books:
        book.close()
