"""A request that names the releases it reads gets the same verdict, table and story for ever."""

from __future__ import annotations

from typing import Any

import httpx

import dpxplain as dpx
from server_fixture import SQL, WEIGHTS, RunningServer

AT = "/datasets/people"
NESTED = {"conjuncts": 2, "nested": True}


def asked(client: httpx.Client) -> dict[str, Any]:
    answer = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()
    return {"answer": answer["id"], "weights": WEIGHTS}


def prepared(client: httpx.Client, body: dict[str, Any], rho: float, **family: Any) -> Any:
    wanted = {"answer": body["answer"], "rho": rho, "family": family}
    return client.post(f"{AT}/prepare?wait=30", json=wanted).json()["result"]["id"]


def result(client: httpx.Client, step: str, body: dict[str, Any]) -> dict[str, Any]:
    path = f"{AT}/explain?wait=30" if step == "explain" else f"{AT}/{step}"
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told["result"] if step == "explain" else told


def shown(payload: dict[str, Any]) -> dict[str, Any]:
    """What was measured. Advice depends on what the budget still allows."""
    measured = ("estimate", "interval", "verdict", "gap", "gap_interval", "rows", "sentences", "caption")
    return {name: payload[name] for name in (*measured, "releases") if name in payload}


def test_what_is_bought_later_changes_no_request_that_names_its_releases(server: RunningServer) -> None:
    client = server.client("linker")
    body = asked(client)
    coarse = prepared(client, body, 0.1, **NESTED)
    address = f"{coarse}@linker"
    steps = ("why", "explain", "story")
    first = {step: result(client, step, body) for step in steps}
    for payload in first.values():
        assert (payload["releases"], payload["sharper"]) == ([address], False)
    assert f"answer {body['answer']}@linker, measurement {address}" in first["explain"]["caption"]
    fine = prepared(client, body, 1.0, **NESTED)
    for number in (coarse, address):
        named = {step: result(client, step, body | {"from": [number]}) for step in steps}
        assert {step: shown(named[step]) for step in steps} == {step: shown(first[step]) for step in steps}
        assert all(payload["sharper"] for payload in named.values())
    for step in steps:
        assert result(client, step, body)["releases"] == [f"{fine}@linker"]
    with dpx.connect(f"{server.url}people", token=server.token("linker")) as session:
        question = session.query(SQL, rho=0.1).why("North", "South", read_from=first["why"]["releases"])
        assert question.interval == tuple(first["why"]["interval"])
        assert question.explain().releases == (address,)


def test_previews_and_reports_read_the_named_releases(server: RunningServer) -> None:
    client = server.client("reporter")
    body = asked(client)
    coarse = prepared(client, body, 0.1, **NESTED)
    prepared(client, body, 1.0, **NESTED)
    named = body | {"from": [coarse]}
    for path in ("explain/preview", "story/preview"):
        margins = [client.post(f"{AT}/{path}", json=sent).json()["expected"] for sent in (named, body)]
        assert margins[0] != margins[1]
    report = client.post(f"{AT}/report", json=named | {"story": True})
    assert f"Read off answer {body['answer']}@reporter, measurement {coarse}@reporter." in report.text


def test_only_visible_measurements_of_the_answer_can_be_named(server: RunningServer) -> None:
    client, stranger = server.client("owner"), server.client("outsider")
    body = asked(client)
    own = prepared(client, body, 0.1, **NESTED)
    other = asked(stranger)
    refusals = []
    for name in (99, f"{own}@owner", other["answer"]):
        for path in ("why", "explain", "story", "explain/preview", "story/preview", "report"):
            response = stranger.post(f"{AT}/{path}", json=other | {"from": [name]})
            assert response.status_code == 404, path
            refusals.append(response.json()["message"].replace(f"number {name!r}", ""))
    assert len(set(refusals)) == 1  # what belongs to others is refused like what does not exist
    assert client.post(f"{AT}/why", json=body | {"from": "2"}).status_code == 400


def test_a_finished_job_is_rebuilt_from_the_releases_it_named(server: RunningServer) -> None:
    client = server.client("returner")
    body = asked(client)
    coarse = prepared(client, body, 0.1, **NESTED)
    prepared(client, body, 1.0, **NESTED)
    job = client.post(f"{AT}/explain?wait=30", json=body | {"from": [coarse]}).json()
    server.state.jobs._local.clear()  # as in another process
    again = client.get(f"/jobs/{job['id']}").json()
    assert again["result"]["releases"] == [f"{coarse}@returner"]
