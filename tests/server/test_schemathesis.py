"""schemathesis' boundary and negative cases over the OpenAPI document, as an analyst and as a curator.

Up to 3,000 requests each, always the same: values at and beyond every limit, missing and doubled parameters,
wrong types, methods that are not there. None is answered with an undeclared status, a wrong shape or a 5xx.
Random bodies are in test_server_schemathesis.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import schemathesis
from schemathesis.engine import events, from_schema

from server_fixture import SQL, config_of, running_server

SETTINGS = """
seed = 20
base-url = "{url}"
headers = {{ Authorization = "Bearer {token}" }}
parameters = {{ dataset = "people" }}

[generation]
deterministic = true

[phases]
examples.enabled = false
stateful.enabled = false
fuzzing.enabled = false

[checks]
enabled = false
not_a_server_error.enabled = true
status_code_conformance.enabled = true
content_type_conformance.enabled = true
response_schema_conformance.enabled = true
"""


@pytest.mark.slow
@pytest.mark.parametrize("paths", ["previews and administration", "the others"])  # beside each other
@pytest.mark.parametrize(("name", "role"), [("alice", "analyst"), ("carol", "curator")])
def test_boundary_cases_get_declared_answers_only(tmp_path: Path, name: str, role: str, paths: str) -> None:
    many = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6, "waiting": 1_000}
    statuses: Counter[int | None] = Counter()
    wrong: list[str] = []
    with running_server(config_of(tmp_path, limits=many)) as server:
        asked = server.client(name, role).post("/datasets/people/query", json={"sql": SQL, "rho": 0.1})
        assert asked.status_code == 200
        settings = SETTINGS.format(url=server.url, token=server.token(name, role))
        schema = schemathesis.openapi.from_url(
            f"{server.url}api/v1/openapi.json", config=schemathesis.Config.from_str(settings)
        )
        half = schema.exclude if paths == "the others" else schema.include
        schema = half(path_regex="/preview|/admin/")
        if role == "analyst":  # each of these is a 403 for them, whatever is sent
            schema = schema.exclude(path_regex="/admin/")
        for event in from_schema(schema).execute():
            assert not isinstance(event, events.NonFatalError | events.FatalError), event
            if not isinstance(event, events.ScenarioFinished):
                continue
            tried = event.recorder
            statuses.update(one.response.status_code for one in tried.interactions.values() if one.response)
            failed = [check for checks in tried.checks.values() for check in checks if check.failure_info]
            wrong += [f"{tried.label}: {check.name}: {check.failure_info!r}" for check in failed]
        assert server.client("bob").get("/datasets").status_code == 200  # still well
    assert wrong == []
    assert sum(statuses.values()) > 1_000
    assert not {status for status in statuses if status is None or status >= 500} - {503}
    assert {200, 400, 401, 404} <= statuses.keys()
