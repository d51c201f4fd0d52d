"""What may be sent how often and how much at once, headers, and the one shape of errors."""

from __future__ import annotations

import gzip
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dpxplain.server.limits import Buckets
from dpxplain.server.routes import site
from server_fixture import SQL, RunningServer, config_of, running_server

AT = "/datasets/people"
SHAPE = {"code", "message", "remedy", "position"}


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[RunningServer]:
    limits = {"requests_per_minute": 20, "anonymous_per_minute": 6, "body_bytes": 2_000}
    with running_server(config_of(tmp_path, limits=limits)) as running:
        running.stop_refilling()
        yield running


def test_a_body_beyond_the_limit_is_refused_also_in_chunks(strict: RunningServer) -> None:
    client = strict.client("sender")
    long = json.dumps({"sql": "x" * 3_000, "rho": 0.1}).encode()
    headers = {"Content-Type": "application/json"}
    whole = client.post(f"{AT}/preview", content=long, headers=headers)
    in_chunks = client.post(f"{AT}/preview", content=iter([long[:1_500], long[1_500:]]), headers=headers)
    for response in (whole, in_chunks):
        assert (response.status_code, response.json()["code"]) == (413, "too_large")
        assert set(response.json()) == SHAPE


def test_a_body_that_promises_little_and_sends_more_is_cut_off(strict: RunningServer) -> None:
    url = httpx.URL(strict.url)
    with socket.create_connection((url.host, url.port or 80), timeout=60) as connection:
        token = strict.token("sender")
        head = (
            f"POST /api/v1{AT}/preview HTTP/1.1\r\nHost: {url.host}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 999999999999999\r\n\r\n"
        )
        connection.sendall(head.encode() + b"{")
        assert b"413" in connection.recv(100)


def test_each_caller_has_a_rate_of_their_own(strict: RunningServer) -> None:
    eager, calm = strict.client("eager"), strict.client("calm")
    statuses = [eager.get(f"{AT}/budget").status_code for _ in range(25)]
    assert statuses == [200] * 20 + [429] * 5
    refused = eager.get(f"{AT}/budget")
    assert refused.json()["code"] == "too_many_requests"
    assert 1 <= int(refused.headers["retry-after"]) <= 4
    assert calm.get(f"{AT}/budget").status_code == 200


def test_guessing_tokens_is_slowed_down_without_locking_out_who_is_known(strict: RunningServer) -> None:
    known = strict.client("regular")
    assert known.get(f"{AT}/budget").status_code == 200
    guess = f"dpx_{'0' * 12}_{'a' * 43}"
    guesser = strict.anonymous({"Authorization": f"Bearer {guess}"})
    statuses = [guesser.get("/datasets").status_code for _ in range(10)]
    assert statuses == [401] * 6 + [429] * 4
    assert strict.anonymous().post("/session", json={"token": guess}).status_code == 429
    assert known.get(f"{AT}/budget").status_code == 200


def test_signing_in_with_a_valid_token_has_a_rate_of_its_own_and_leaves_one_record(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits={"sign_ins_per_minute": 4})) as server:
        server.stop_refilling()
        token = server.token("eager")
        before = len(server.ledger.audit())
        answers = [server.anonymous().post("/session", json={"token": token}) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert [record.action for record in server.ledger.audit(after=before)] == ["signed in"]
        assert server.client("eager").get(f"{AT}/budget").status_code == 200
        server.browser("calm")


def test_buckets_fill_up_again() -> None:
    now = [0.0]
    buckets = Buckets(60, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(61)] == [0] * 60 + [1]
    now[0] += 2
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"sql": "SELECT", "rho": NaN}', "finite"),
        (b'{"sql": "SELECT", "rho": Infinity}', "finite"),
        (b'{"sql": "SELECT", "rho": 1e999}', "finite"),
        (b'{"sql": "SELECT", "rho": ' + b"9" * 5_000 + b"}", ""),
        (b'{"sql": "SELECT", "rho": ' + b"9" * 400 + b"}", ""),
        (b"[" * 50_000, ""),
        (b'{"sql": "\\ud800", "rho": 1}', "sql"),
        (b'{"sql": "\\u0000", "rho": 1}', "NUL"),
        (b'{"sql": 1, "rho": "hunter2"}', "sql"),
        (b'{"sql": "SELECT", "rho": 1, "hunter": 2}', "not a known key"),
        (b'{"rho": 1}', "sql: is missing"),
        (b"\xff\xfe", ""),
        (b"", ""),
        (b"null", ""),
        (b'{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "rho": true}', "rho"),
        (b'{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "rho": "0.1"}', "rho"),
    ],
)  # fmt: skip
def test_odd_json_is_refused_in_the_one_shape(server: RunningServer, body: bytes, says: str) -> None:
    response = server.client().post(f"{AT}/query", content=body, headers={"Content-Type": "application/json"})
    told = response.json()
    assert response.status_code == 400, told
    assert set(told) == SHAPE
    assert says in told["message"]
    assert "hunter2" not in response.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/datasets/nowhere", 404, "not_found"),
        ("DELETE", "/datasets", 405, "method_not_allowed"),
        ("GET", "/datasets/people/answers/0", 404, "not_found"),
        ("GET", "/datasets/people/answers/99999999999999999999999", 400, "bad_request"),
        ("GET", "/datasets/people/answers/x", 400, "bad_request"),
        ("GET", "/datasets/people/answers/1?confidence=2", 400, "bad_request"),
        ("GET", "/jobs/%00", 400, "bad_request"),
        ("GET", "/datasets/%00", 404, "not_found"),
        ("GET", "/datasets/..%2f..%2fetc", 404, "not_found"),
    ],
)
def test_every_refusal_has_the_one_shape(
    server: RunningServer, method: str, path: str, status: int, code: str
) -> None:
    response = server.client().request(method, path)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert set(response.json()) == SHAPE


def test_an_unforeseen_failure_tells_nobody_its_text(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_args: object) -> None:
        raise RuntimeError("the true value is 4711")

    monkeypatch.setattr(server.state.datasets, "get", fail)
    with caplog.at_level(logging.DEBUG):
        response = server.client().get(AT)
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert "4711" not in response.text + caplog.text
    assert "RuntimeError" not in response.text
    assert "RuntimeError at " in caplog.text


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/me", "/api/v1/datasets", "/nowhere", "/api/v1/docs", "/api/v1/x"]
)
def test_every_response_has_the_security_headers(server: RunningServer, path: str) -> None:
    headers = httpx.get(server.url.rstrip("/") + path, verify=False).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-store" if path.startswith("/api") else "no-cache")
    assert "server" not in headers
    assert "strict-transport-security" not in headers


def test_log_lines_name_routes_and_callers_but_nothing_that_was_asked(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    client = server.client("quiet")
    with caplog.at_level(logging.DEBUG):
        client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1})
        client.post(f"{AT}/query", json={"sql": "SELECT secret", "rho": 0.1})
        client.get(f"{AT}/answers/1", params={"confidence": 0.77})
    ours = "\n".join(
        record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))
    )
    assert "POST /datasets/{dataset}/query 200 " in ours
    assert server.ids["quiet"] in ours
    for said in ("region", "secret", "0.77", server.token("quiet"), "North"):
        assert said not in ours


def test_metrics_are_public_figures_for_curators(server: RunningServer) -> None:
    server.client("measured").post(f"{AT}/query", json={"sql": SQL, "rho": 0.1})
    text = server.curator().get("/metrics").text
    assert 'dpxplain_requests_total{method="POST",route="/datasets/{dataset}/query",status="200"}' in text
    assert 'dpxplain_rho_limit{dataset="people"} 10.0' in text
    assert "measured" not in text


def test_the_documentation_needs_nothing_from_elsewhere(server: RunningServer) -> None:
    page = server.anonymous().get("/docs").text
    assert "<script" not in page
    assert "http" not in page.replace("https://name", "")
    assert "/api/v1/datasets/{dataset}/query" in page
    document = server.anonymous().get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "422" not in operation["responses"], path
            if operation["security"]:
                assert {"401", "429"} <= operation["responses"].keys(), (method, path)


def test_the_page_is_served_and_hashed_files_may_be_kept_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html><title>built</title>")
    (static / "assets" / "index-abc123.js").write_text("1")
    monkeypatch.setattr(site, "STATIC", static)
    with running_server(config_of(tmp_path / "data")) as built:
        index = httpx.get(built.url, verify=False)
        assert (index.text.endswith("built</title>"), index.headers["cache-control"]) == (True, "no-cache")
        script = httpx.get(f"{built.url}assets/index-abc123.js", verify=False)
        assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert script.headers["content-type"].startswith("text/javascript")
        for wrong in ("assets/none.js", "..%2f..%2fapp.py", "assets/"):
            missing = httpx.get(f"{built.url}{wrong}", verify=False)
            assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
            assert "immutable" not in missing.headers["cache-control"]


def test_only_the_public_files_of_the_page_are_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    files = {"index.html": "<!doctype html><title>built</title>" * 50, "assets/a-1.js": "let a = 1;\n" * 50}
    for name, text in files.items():
        (static / name).write_text(text)
    (static / "assets" / "font.woff2").write_bytes(b"wOF2" * 50)
    monkeypatch.setattr(site, "STATIC", static)

    def raw(client: httpx.Client, path: str, accepted: str, **headers: str) -> tuple[httpx.Response, bytes]:
        asked = headers | {"Accept-Encoding": accepted}
        with client.stream("GET", path, headers=asked) as response:
            return response, b"".join(response.iter_raw())

    with running_server(config_of(tmp_path / "data")) as built, httpx.Client() as client:
        for name, text in files.items():
            at = built.url + name.removesuffix("index.html")
            small, packed = raw(client, at, "br, gzip")
            whole, plain = raw(client, at, "gzip;q=0, identity")
            assert (small.headers["content-encoding"], gzip.decompress(packed)) == ("gzip", text.encode())
            assert ("content-encoding" in whole.headers, plain) == (False, text.encode())
            assert len(packed) < len(plain)
            for header in ("etag", "last-modified", "content-type", "cache-control"):
                assert small.headers[header] == whole.headers[header], header
            assert small.headers["vary"] == whole.headers["vary"] == "Accept-Encoding"
        script = f"{built.url}assets/a-1.js"
        assert "immutable" in raw(client, script, "gzip")[0].headers["cache-control"]
        again, nothing = raw(client, script, "gzip", **{"If-None-Match": small.headers["etag"]})
        assert (again.status_code, nothing) == (304, b"")
        part, beginning = raw(client, script, "gzip", Range="bytes=0-2")
        assert (part.status_code, beginning, "content-encoding" in part.headers) == (206, b"let", False)
        assert "content-encoding" not in raw(client, f"{built.url}assets/font.woff2", "gzip")[0].headers
        analyst = built.client()
        for path in ("/me", "/datasets", "/datasets/people", "/openapi.json", "/docs", "/nothing"):
            assert "content-encoding" not in raw(analyst, path, "gzip, br, zstd")[0].headers, path
        answer = analyst.post("/datasets/people/query", json={"sql": SQL, "rho": 0.1})
        assert answer.request.headers["accept-encoding"].startswith("gzip")
        assert "content-encoding" not in answer.headers


def test_a_page_that_was_not_built_is_said_to_be_missing(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "STATIC", tmp_path)
    response = httpx.get(server.url, verify=False)
    assert response.status_code == 200
    assert "was not built" in response.text
