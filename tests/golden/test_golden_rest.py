"""What the server sends: the JSON of every kind of response, and the interface that it declares."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from golden_tables import AVERAGE, COUNT, served

from golden import check, normal, stored_payload
from server_fixture import RunningServer

AT = "/datasets/people"
WEIGHTS = [{"group": ["F"], "weight": 1}, {"group": ["M"], "weight": -1}]
COMPUTED = """
SELECT sex, SUM(pay) / COUNT(*) AS rate, AVG(hours) FROM people GROUP BY sex
HAVING COUNT(*) > 5 ORDER BY rate
"""
WHY = {"answer": 1, "weights": WEIGHTS}
ONE_SHOT = WHY | {"k": 2, "rho": 0.5, "mechanism": "one-shot"}
NESTED = {"conjuncts": 2, "nested": True, "attributes": ["city", "age"]}

TOWNS = b"town,pay\nOslo,1\n"
SCHEMA = """
[table]
name = "towns"
source = "towns.csv"

[privacy]
rho = 1.0

[columns.town]
values = ["Oslo", "Rome"]

[columns.pay]
bounds = [0, 50]
"""
NEW_TOKEN = {"name": "dora", "expires": "2100-12-31T00:00:00Z"}

CHANGING = ("date", "content-length")

Step = tuple[str, str, str, Any]
"""Who asks, the method, the path, and the body."""

STEPS: dict[str, Step] = {
    "health": ("nobody", "GET", "/health", None),
    "ready": ("nobody", "GET", "/ready", None),
    "nobody": ("nobody", "GET", "/me", None),
    "no token": ("nobody", "GET", AT, None),
    "me": ("ann", "GET", "/me", None),
    "data sets": ("ann", "GET", "/datasets", None),
    "data set": ("ann", "GET", AT, None),
    "budget": ("ann", "GET", f"{AT}/budget", None),
    "preview of a query": ("ann", "POST", f"{AT}/preview", {"sql": AVERAGE, "rho": 0.5, "prices": [0.1]}),
    "preview of several": ("ann", "POST", f"{AT}/preview", {"sql": COMPUTED, "epsilon": 1.0}),
    "no price": ("ann", "POST", f"{AT}/preview", {"sql": COUNT}),
    "query": ("ann", "POST", f"{AT}/query", {"sql": AVERAGE, "rho": 5.0}),
    "query for its columns": ("ann", "POST", f"{AT}/query?form=columns", {"sql": AVERAGE, "rho": 5.0}),
    "query of several": ("ann", "POST", f"{AT}/query", {"sql": COMPUTED, "rho": 5.0}),
    "query for the population": (
        *("ann", "POST", f"{AT}/query"),
        {"sql": COUNT, "rho": 5.0, "population": True, "confidence": 0.9, "chart_width": 400},
    ),
    "query for its release": ("ann", "POST", f"{AT}/query?form=release", {"sql": AVERAGE, "rho": 5.0}),
    "stored answer": ("ann", "GET", f"{AT}/answers/1?confidence=0.5", None),
    "wrong SQL": ("ann", "POST", f"{AT}/query", {"sql": "SELECT agee FROM people", "rho": 1.0}),
    "wrong body": ("ann", "POST", f"{AT}/query", {"sql": COUNT, "rho": "1"}),
    "unknown field": ("ann", "POST", f"{AT}/query", {"sql": COUNT, "rho": 1.0, "budget": 1.0}),
    "another key": ("ann", "POST", f"{AT}/query", {"sql": COUNT, "rho": 1.0, "expected_key": "0" * 64}),
    "too expensive": ("ann", "POST", f"{AT}/query", {"sql": COUNT, "rho": 900.0}),
    "unknown data set": ("ann", "GET", "/datasets/none", None),
    "unknown answer": ("ann", "GET", f"{AT}/answers/99", None),
    "unknown path": ("ann", "GET", "/none", None),
    "wrong method": ("ann", "DELETE", f"{AT}/query", None),
    "why": ("ann", "POST", f"{AT}/why", WHY),
    "why for the population": ("ann", "POST", f"{AT}/why", WHY | {"answer": 3, "population": True}),
    "why of one of several": ("ann", "POST", f"{AT}/why", WHY | {"answer": 2, "of": "rate"}),
    "ratio": ("ann", "POST", f"{AT}/why", WHY | {"answer": 3, "compare": "ratio", "at_least": 1.5}),
    "share": ("ann", "POST", f"{AT}/why", WHY | {"answer": 3, "compare": "share", "weights": WEIGHTS[:1]}),
    "explain without a price": ("ann", "POST", f"{AT}/explain", WHY | {"k": 2}),
    "preview of one-shot": ("ann", "POST", f"{AT}/explain/preview", ONE_SHOT | {"prices": [0.1]}),
    "preview of vector": ("ann", "POST", f"{AT}/explain/preview", ONE_SHOT | {"mechanism": "vector"}),
    "preview of marginals": ("ann", "POST", f"{AT}/explain/preview", ONE_SHOT | {"mechanism": "marginals"}),
    "explain one-shot": ("ann", "POST", f"{AT}/explain?wait=60", ONE_SHOT),
    "explain for its release": ("ann", "POST", f"{AT}/explain?wait=60&form=release", ONE_SHOT),
    "truth of an answer": ("carol", "GET", f"{AT}/answers/1@ann/truth", None),
    "truth of a question": ("carol", "POST", f"{AT}/why/truth", WHY | {"answer": "1@ann"}),
    "truth of an explanation": ("carol", "POST", f"{AT}/explain/truth", ONE_SHOT | {"answer": "1@ann"}),
    "preview of a preparation": ("ann", "POST", f"{AT}/prepare/preview", {"answer": 1, "rho": 5.0}),
    "prepare": ("ann", "POST", f"{AT}/prepare?wait=60", {"answer": 1, "rho": 5.0}),
    "job": ("ann", "GET", "/jobs/{job}?form=release", None),
    "ended job": ("ann", "DELETE", "/jobs/{job}", None),
    "job of another": ("bob", "GET", "/jobs/{job}", None),
    "explain by the preparation": (
        *("ann", "POST", f"{AT}/explain?wait=60"),
        WHY | {"k": 2, "chart_width": 400},
    ),
    "explain folded": (
        *("ann", "POST", f"{AT}/explain?wait=60"),
        WHY | {"k": 3, "rho": 5.0, "family": {"predicates": ["ranges:age", "age > 30 AND city = 'Oslo'"]}},
    ),
    "why once prepared": ("ann", "POST", f"{AT}/why", WHY),
    "preview of a story": ("ann", "POST", f"{AT}/story/preview", WHY | {"rho": 5.0, "levels": 2}),
    "story not prepared": ("ann", "POST", f"{AT}/story", WHY | {"answer": 3}),
    "prepare for stories": (
        "ann",
        "POST",
        f"{AT}/prepare?wait=60",
        {"answer": 1, "rho": 5.0, "family": NESTED},
    ),
    "story": ("ann", "POST", f"{AT}/story", WHY | {"levels": 2, "attributes": ["city", "age"]}),
    "report": ("ann", "POST", f"{AT}/report", WHY | {"k": 2}),
    "no quality": ("ann", "GET", f"{AT}/quality", None),
    "preview of quality": ("ann", "POST", f"{AT}/quality/preview", {"rho": 5.0}),
    "quality": ("ann", "POST", f"{AT}/quality", {"rho": 5.0}),
    "quality for its release": ("ann", "POST", f"{AT}/quality?form=release", {"rho": 5.0}),
    "preview of a discovery": ("ann", "POST", f"{AT}/discover/preview", {"column": "team", "rho": 100.0}),
    "discover": ("ann", "POST", f"{AT}/discover", {"column": "team", "rho": 100.0}),
    "history": ("ann", "GET", f"{AT}/history?limit=3", None),
    "search of the history": ("ann", "GET", f"{AT}/history?find=hours", None),
    "release": ("ann", "GET", f"{AT}/releases/3", None),
    "latest release": ("ann", "GET", f"{AT}/releases?kind=query", None),
    "no release": ("ann", "GET", f"{AT}/releases?key=none", None),
    "jobs": ("ann", "GET", f"{AT}/jobs", None),
    "not a curator": ("ann", "GET", f"{AT}/analysts", None),
    "ask for budget": ("ann", "POST", f"{AT}/budget/requests", {"rho": 2.0, "reason": "a thesis"}),
    "ask again": ("ann", "POST", f"{AT}/budget/requests", {"rho": 3.0, "reason": "another"}),
    "requests for budget": ("carol", "GET", f"{AT}/budget/requests", None),
    "grant": ("carol", "PUT", f"{AT}/analysts/bob", {"rho": 2.0, "reason": "a start"}),
    "top up an analyst": ("carol", "POST", f"{AT}/top-up", {"rho": 1.0, "reason": "more", "analyst": "bob"}),
    "top up": ("carol", "POST", f"{AT}/top-up", {"rho": 1.0, "reason": "more"}),
    "analysts": ("carol", "GET", f"{AT}/analysts", None),
    "forgive": ("carol", "POST", f"{AT}/analysts/bob/forgive", {"reason": "a power cut"}),
    "use": ("carol", "GET", f"{AT}/use", None),
    "share a history": ("carol", "POST", f"{AT}/shares", {"owner": "ann", "reader": "bob", "reason": "both"}),
    "shared history": ("bob", "GET", f"{AT}/history?limit=2", None),
    "shares": ("carol", "GET", f"{AT}/shares", None),
    "stop sharing": (
        "carol",
        "DELETE",
        f"{AT}/shares",
        {"owner": "ann", "reader": "bob", "reason": "no more"},
    ),
    "declared data sets": ("carol", "GET", "/admin/datasets", None),
    "declared data set": ("carol", "GET", "/admin/datasets/people", None),
    "files": ("carol", "GET", "/admin/files", None),
    "columns of a file": ("carol", "GET", "/admin/files/people.parquet/columns", None),
    "upload a file": ("carol", "PUT", "/admin/files/towns.csv", TOWNS),
    "upload it again": ("carol", "PUT", "/admin/files/towns.csv", TOWNS),
    "check a schema": ("carol", "POST", "/admin/schema/check", {"toml": SCHEMA}),
    "check a wrong schema": ("carol", "POST", "/admin/schema/check", {"toml": SCHEMA + "colour = 1\n"}),
    "review a schema": ("carol", "POST", "/admin/schema/review", {"toml": SCHEMA}),
    "declare a data set": ("carol", "POST", "/admin/datasets", {"toml": SCHEMA}),
    "declare it again": ("carol", "POST", "/admin/datasets", {"toml": SCHEMA}),
    "edit a schema": ("carol", "PUT", "/admin/datasets/towns", {"toml": SCHEMA + 'unit = "euros"\n'}),
    "remove a file in use": ("carol", "DELETE", "/admin/files/towns.csv", None),
    "upload another file": ("carol", "PUT", "/admin/files/more.csv", TOWNS),
    "remove a file": ("carol", "DELETE", "/admin/files/more.csv", None),
    "make a token": ("carol", "POST", "/admin/tokens", NEW_TOKEN),
    "sign in": ("nobody", "POST", "/session", {"token": "{token}"}),
    "sign in wrongly": ("nobody", "POST", "/session", {"token": "dpx_none"}),
    "tokens": ("carol", "GET", "/admin/tokens", None),
    "revoke a token": ("carol", "DELETE", "/admin/tokens/{id}", None),
    "log": ("carol", "GET", "/admin/audit?after=30", None),
    "verified log": ("carol", "GET", "/admin/audit/verify", None),
    "metrics": ("carol", "GET", "/metrics", None),
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with served(tmp_path) as running:
        yield running


def test_every_response_keeps_its_form(server: RunningServer) -> None:
    clients = {
        "nobody": server.anonymous(),
        "ann": server.client("ann"),
        "bob": server.client("bob"),
        "carol": server.curator(),
    }
    known: dict[str, str] = {}
    responses = {}
    for name, (who, method, path, body) in STEPS.items():
        asked = json.loads(json.dumps(body).replace("{token}", known["token"])) if name == "sign in" else body
        sent = {"content": asked} if isinstance(asked, bytes) else {"json": asked}
        response = patiently(partial(clients[who].request, method, path.format(**known), **sent))
        responses[name] = [f"{who}: {method} {path}", response.status_code, content(response)]
        known |= names_in(response)
    other = clients["ann"].get(AT, headers={"DPXPlain-Protocol": "3"})
    responses["another protocol"] = [other.status_code, content(other)]
    names = {known["token"]: "<text of a token>"} | random_texts(server, clients)
    headers = {name: value for name, value in response.headers.items() if name not in CHANGING}
    check("rest", normal(responses | {"headers of the last": headers}, names))


def patiently(send: Callable[[], httpx.Response]) -> httpx.Response:
    """The response once the server is ready for the request, which takes a while on a busy machine."""
    end = time.monotonic() + 60
    while (response := send()).status_code == 503 and time.monotonic() < end:
        time.sleep(0.1)
    return response


def content(response: httpx.Response) -> Any:
    """The JSON of a response; of other kinds, what they are."""
    kind = response.headers.get("Content-Type", "")
    if kind == "application/json":
        return readable(response.json())
    if kind.startswith("text/plain"):  # what is measured, not its value
        return [line for line in response.text.splitlines() if line.startswith("# TYPE dpxplain")]
    return kind


def readable(value: Any) -> Any:
    """The value, with each stored release as JSON in place of its text, and without the content of charts."""
    if not isinstance(value, dict):
        return value
    if "$schema" in value:
        return {"a chart with": sorted(value)}
    return {
        name: stored_payload(part) if name == "release" and isinstance(part, str) else readable(part)
        for name, part in value.items()
    }


def names_in(response: httpx.Response) -> dict[str, str]:
    """The job, or the token and its id, that a later step names."""
    body = response.json() if response.headers.get("Content-Type") == "application/json" else {}
    if "stage" in body:
        return {"job": body["id"]}
    return {"token": body["token"], "id": body["id"]} if "token" in body else {}


def random_texts(server: RunningServer, clients: dict[str, httpx.Client]) -> dict[str, str]:
    """Addresses, ids and hashes that differ from run to run, each with its name in the record."""
    names = {server.url: "<server>/"}
    jobs = clients["ann"].get(f"{AT}/jobs").json()["jobs"]
    tokens = clients["carol"].get("/admin/tokens").json()["tokens"]
    for number, job in enumerate(reversed(jobs), 1):
        names[job["id"]] = f"<job {number}>"
    for token in tokens:
        names[token["id"]] = f"<token of {token['name']}>"
    for record in clients["carol"].get("/admin/audit").json()["records"]:
        names[record["hash"]] = f"<hash of record {record['id']}>"
        if record["action"] == "token created":
            names[record["details"]["token"]["secret_hash_sha256"]] = "<sha256 of its secret_hash>"
    return names


# -- The declared interface --------------------------------------------------------------------------------


def test_the_declared_interface_stays(server: RunningServer) -> None:
    document = server.anonymous().get("/openapi.json").json()
    document["info"]["version"] = "<version>"
    text = json.dumps(document, sort_keys=True)
    check(
        "openapi",
        {
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "paths": {
                f"{method.upper()} {path}": operation_of(operation)
                for path, operations in sorted(document["paths"].items())
                for method, operation in sorted(operations.items())
            },
            "schemas": {
                name: type_of(schema) for name, schema in sorted(document["components"]["schemas"].items())
            },
        },
    )


def operation_of(operation: Any) -> dict[str, Any]:
    """What an operation takes and gives, by the names of the schemas."""
    parameters = [
        f"{parameter['in']}: {parameter['name']}{'' if parameter['required'] else '?'}"
        for parameter in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {})
    gives, fails = {}, []
    for status, response in operation["responses"].items():
        shapes = [type_of(part.get("schema", {})) for part in response.get("content", {}).values()]
        if shapes == ["Failure"]:
            fails.append(status)
        else:
            gives[status] = shapes
    takes = [type_of(part.get("schema", {})) for part in body.values()]
    return {"parameters": parameters, "takes": takes, "gives": gives, "fails": " ".join(sorted(fails))}


def type_of(schema: Any) -> Any:
    """A schema in short; a field that may be left out has a question mark."""
    if "$ref" in schema:
        return schema["$ref"].removeprefix("#/components/schemas/")
    if "properties" in schema:
        required = schema.get("required", ())
        return {
            name if name in required else f"{name}?": type_of(field)
            for name, field in schema["properties"].items()
        }
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(str(type_of(part)) for part in schema[several])
    if "enum" in schema or "const" in schema:
        return " | ".join(map(repr, schema.get("enum", [schema.get("const")])))
    if "prefixItems" in schema:
        return f"[{', '.join(str(type_of(part)) for part in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"[{type_of(schema['items'])}, ...]"
    return schema.get("type", "anything")
