"""Two servers on one PostgreSQL ledger: one budget, one history, jobs and tokens known to both."""

from __future__ import annotations

import concurrent.futures
import json
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from dpxplain.errors import BadRequest
from dpxplain.ledger.ledger import open_ledger
from server_fixture import COUNT, SQL, WEIGHTS, config_of, running_server

AT = "/datasets/people"


def test_two_servers_share_budgets_answers_jobs_and_tokens(tmp_path: Path, postgres_address: str) -> None:
    here, there = open_ledger(postgres_address), open_ledger(postgres_address)
    config = config_of(tmp_path, analysts={"default_rho": 1.0})
    with running_server(config, here) as one, running_server(config, there) as two:
        first = one.client()
        second = two.anonymous(dict(first.headers))
        answer = first.post(f"{AT}/query", json={"sql": SQL, "rho": 0.25}).json()
        again = second.post(f"{AT}/query", json={"sql": SQL, "rho": 0.25}).json()
        assert (again["id"], again["free"]) == (answer["id"], True)

        why = {"answer": answer["id"], "weights": WEIGHTS, "k": 2, "rho": 0.25}
        job = first.post(f"{AT}/explain", params={"wait": 60}, json=why).json()
        told = second.get(f"/jobs/{job['id']}", params={"wait": 60}).json()
        assert (told["state"], told["rho"]) == ("done", 0.25)
        assert told["result"]["rows"] == job["result"]["rows"]

        # Half is left; of ten requests for an eighth at both servers at once, four are answered.
        def ask(number: int) -> httpx.Response:
            client = (first, second)[number % 2]
            return client.post(f"{AT}/query", json={"sql": f"{COUNT} LIMIT 1", "rho": 0.125 - number * 1e-9})

        with concurrent.futures.ThreadPoolExecutor(10) as threads:
            statuses = sorted(response.status_code for response in threads.map(ask, range(10)))
        assert statuses == [200] * 4 + [409] * 6
        spent = first.get(f"{AT}/budget").json()["rho"]["spent"]
        assert spent == second.get(f"{AT}/budget").json()["rho"]["spent"] == pytest.approx(1.0, abs=1e-6)
        assert spent <= 1.0
        assert one.curator().get("/admin/audit/verify").json()["intact"]
    here.close()
    there.close()


@pytest.mark.parametrize("text", ["\x00", "\ud800", "é" * 200, "'; DROP TABLE entries; --"])
def test_odd_texts_reach_the_database_as_texts_or_not_at_all(
    tmp_path: Path, postgres_address: str, text: str
) -> None:
    book = open_ledger(postgres_address)
    with running_server(config_of(tmp_path), book) as server:
        curator = server.curator()
        share = b'{"owner": "a", "reader": "b", "reason": ' + _ascii(text) + b"}"
        headers = {"Content-Type": "application/json"}
        response = curator.post(f"{AT}/shares", content=share, headers=headers)
        assert response.status_code == (400 if text in ("\x00", "\ud800") else 200)
        sql = (
            b'{"rho": 0.1, "sql": ' + _ascii(f"SELECT sex, COUNT(*) FROM people WHERE sex = '{text}'") + b"}"
        )
        assert curator.post(f"{AT}/query", content=sql, headers=headers).status_code == 400
    book.close()


def _ascii(text: str) -> bytes:
    return json.dumps(text).encode()


def test_a_number_or_identity_with_a_nul_is_refused_and_is_no_outage(
    tmp_path: Path, postgres_address: str
) -> None:
    book = open_ledger(postgres_address)
    with running_server(config_of(tmp_path), book) as server:
        bob = server.client("bob")
        tries = [
            bob.get(f"{AT}/answers/1@%2500"),
            bob.post(f"{AT}/why", json={"answer": "1@%00", "weights": WEIGHTS}),
            bob.get(f"{AT}/history", params={"before": "1@%00"}),
            bob.get(f"{AT}/releases", params={"key": "\x00"}),
            bob.get(f"{AT}/preparations", params={"subject": "\x00"}),
        ]
        assert [response.status_code for response in tries] == [404, 404, 400, 400, 400]
        assert server.anonymous().get("/ready").status_code == 200
    book.close()


def test_a_text_that_the_database_does_not_take_is_no_outage(postgres_address: str) -> None:
    with closing(open_ledger(postgres_address)) as book, pytest.raises(BadRequest, match="cannot store"):
        book.budget("\x00")
