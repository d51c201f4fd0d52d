"""Servers for the page's tests: one user on bundled Adult, and many on people."""

from __future__ import annotations

from typing import Any

import httpx

from dpxplain.server.app import example_config
from dpxplain.server.config import Config, Limits
from server_fixture import RunningServer

PAIR = ("Married-civ-spouse", "Never-married")
EXAMPLE = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
PLACE = "#/adult?answer={answer}&group=1*Married-civ-spouse&group=-1*Never-married"

# A module's tests together ask more often than a person; how the limits work is tested elsewhere.
GENEROUS = Limits(requests_per_minute=100_000, anonymous_per_minute=100_000, sign_ins_per_minute=100_000)


def adult_config(port: int = 0) -> Config:
    return example_config("adult", port=port).model_copy(update={"limits": GENEROUS})


def owner(server: RunningServer) -> httpx.Client:
    """The one user of a single-user server, without a browser."""
    return server.owner()


def asked(client: httpx.Client, sql: str = EXAMPLE, rho: float = 0.1, dataset: str = "adult") -> int | str:
    """The id of an answer, asked now or before."""
    answer: dict[str, Any] = done(client.post(f"/datasets/{dataset}/query", json={"sql": sql, "rho": rho}))
    address: int | str = answer["address"]
    return address


def prepared(client: httpx.Client, answer: int | str, dataset: str = "adult") -> None:
    body = {"answer": answer, "rho": 0.02}
    job = done(client.post(f"/datasets/{dataset}/prepare", params={"wait": 60}, json=body))
    assert job["state"] == "done", job


def explained_place(server: RunningServer) -> str:
    """The address of the paper's example with its table, paid for once by server."""
    client = owner(server)
    answer = asked(client)
    prepared(client, answer)
    return PLACE.format(answer=answer) + "&explain=5"


def done(response: httpx.Response) -> dict[str, Any]:
    assert response.is_success, response.text
    body: dict[str, Any] = response.json()
    return body
