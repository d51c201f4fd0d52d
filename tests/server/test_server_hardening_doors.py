"""Guesses in crowds, names of two kinds, odd hosts and schemas: what a review found at the doors."""

from __future__ import annotations

import http.client
import json
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from oidc_issuer import AUDIENCE, running_issuer

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import BadRequest
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.schema import Schema
from dpxplain.server import authenticate, records
from dpxplain.server.authenticate import Issuer
from dpxplain.server.config import Oidc
from opened import connection_of
from server_fixture import SCHEMA, RunningServer, config_of, running_server, soon, write_people


def test_a_crowd_of_wrong_secrets_is_slowed_down_before_it_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(config_of(tmp_path, limits={"anonymous_per_minute": 10})) as server:
        server.stop_refilling()
        known = server.client("known")
        known.get("/datasets").raise_for_status()
        server.token("victim")
        verified: list[str] = []
        authenticate = server.ledger.tokens.authenticate

        def counted(text: str) -> Any:
            verified.append(text)
            return authenticate(text)

        monkeypatch.setattr(server.ledger.tokens, "authenticate", counted)

        def guess(number: int) -> int:
            text = f"dpx_{server.ids['victim']}_{number:043d}"
            headers = {"Authorization": f"Bearer {text}"}
            return stranger.get("/datasets", headers=headers).status_code

        stranger = server.anonymous()
        with ThreadPoolExecutor(40) as threads:
            statuses = Counter(threads.map(guess, range(40)))
        assert statuses == {401: 10, 429: 30}
        assert len(verified) == 10
        assert known.get("/datasets").status_code == 200


def test_good_sign_ins_are_not_counted_as_guesses(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits={"anonymous_per_minute": 3})) as server:
        server.stop_refilling()
        token = server.token("alice")
        statuses = [server.anonymous().post("/session", json={"token": token}).status_code for _ in range(8)]
        assert statuses == [200] * 8
        clients = [server.client(f"new-{n}") for n in range(8)]
        assert [client.get("/datasets").status_code for client in clients] == [200] * 8
        wrong = [server.anonymous().post("/session", json={"token": "x"}).status_code for _ in range(5)]
        assert wrong == [401] * 3 + [429] * 2


def test_a_name_of_the_issuer_is_nobody_of_ours(tmp_path: Path) -> None:
    with running_issuer() as issuer:
        oidc = {"issuer": issuer.url, "audience": AUDIENCE}
        limits = {"anonymous_per_minute": 10_000}
        with running_server(config_of(tmp_path, oidc=oidc, limits=limits)) as server:
            ours = server.client("alice")
            ours.post(
                "/datasets/people/query",
                json={"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "rho": 0.1},
            ).raise_for_status()
            theirs = server.anonymous({"Authorization": f"Bearer {issuer.token(sub='alice')}"})
            assert theirs.get("/me").json()["name"] == "oidc:alice"
            assert theirs.get("/datasets/people/history").json()["entries"] == []
            grant = {"rho": 1.0, "reason": "a study"}
            curator = server.curator()
            put = curator.put("/datasets/people/analysts/oidc:alice", json=grant)
            assert put.status_code == 200
            for name in ("oidc:alice", "local owner", "*"):
                made = curator.post("/admin/tokens", json={"name": name, "expires": soon().isoformat()})
                assert made.status_code == 400, name
            odd = [issuer.token(sub=sub) for sub in ("", "*", " x", "local owner", "x" * 200)]
            for token in odd:
                assert (
                    server.anonymous({"Authorization": f"Bearer {token}"}).get("/datasets").status_code == 401
                )
    book = open_ledger(None)
    with pytest.raises(BadRequest, match="issuer"):
        book.tokens.create("oidc:alice", "analyst", expires=soon(), by="test")
    book.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(
            (host, 400)
            for host in ("[::1", "[", "localhost:abc", 'localhost:80"', "localhost.", "[v1.x]", "")
        ),
        *((host, 400) for host in ("127.0.0.1:", "localhost:99999999", "user@localhost", "localhost/x")),
        *((host, 200) for host in ("localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:80", "[::1]")),
    ],
)
def test_only_a_plain_host_and_port_is_read(server: RunningServer, host: str, status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", httpx.URL(server.url).port)
    connection.putrequest("GET", "/api/v1/health", skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    assert connection.getresponse().status == status
    connection.close()


def test_odd_schemas_are_refused_before_they_are_parsed(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = server.curator()
    odd = {
        "deep": "a=" + "[" * 200_000,
        "dotted": "a" + ".a" * 100_000 + "=1",
        "spaced": "a" + " . 'a'" * 60_000 + "=1",
        "many": "\n".join(f"[a{n}]" for n in range(40_000)),
        "inline": "a = [" + "{}," * 100_000 + "]",
    }

    def never(_text: str) -> Any:
        raise AssertionError("tomllib would take minutes")

    with monkeypatch.context() as patched:
        patched.setattr(tomllib, "loads", never)
        for name, toml in odd.items():
            refused = curator.post("/admin/schema/check", json={"toml": toml})
            assert (refused.status_code, refused.json()["code"]) == (400, "schema_error"), name
    nul = SCHEMA.replace('"people.parquet"', json.dumps("people.parquet\x00"))
    refused = curator.post("/admin/schema/check", json={"toml": nul})
    assert (refused.status_code, refused.json()["code"]) == (400, "schema_error")
    dots = SCHEMA.replace("step = 1", f'step = 1\ndescription = "{"." * 60} 1.5, 2.5, e.g. www.example.org"')
    assert curator.post("/admin/schema/check", json={"toml": dots}).status_code == 200


def test_nothing_is_ever_written_to_a_temporary_file(tmp_path: Path) -> None:
    folder = write_people(tmp_path)
    engine = DuckDBEngine(folder / "people.parquet", Schema.load(folder / "people.toml"))
    asked = connection_of(engine).execute("SELECT current_setting('temp_directory')").fetchone()
    assert asked == ("",)
    engine.close()


@pytest.mark.parametrize("named", ["http://127.0.0.1/keys", "http://issuer.example/keys", "file:///keys"])
def test_discovery_leads_to_https_only(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    issuer = Issuer(Oidc(issuer="https://issuer.example", audience="a"))
    document = {"issuer": "https://issuer.example", "jwks_uri": named}
    monkeypatch.setattr(authenticate, "_fetch_json", lambda _address: document)
    with pytest.raises(ValueError) as refused:
        issuer._discovered_address()
    assert "keys" not in str(refused.value)
    document["jwks_uri"] = "https://keys.example/keys"
    assert issuer._discovered_address() == "https://keys.example/keys"


def test_servers_of_one_machine_do_not_take_each_others_cookies(server: RunningServer) -> None:
    port = httpx.URL(server.url).port
    assert list(server.browser("alice").cookies) == [f"dpxplain-{port}"]


@pytest.mark.parametrize(
    "foreign",
    [
        'settings={"theme": "dark blue"}',
        "x[1]=a",
        "path=/",
        "no value",
        "caf\u00e9=\u00e9",
        "big=" + "a" * 9_000,
    ],
    ids=["json", "brackets", "reserved", "bare", "letters", "big"],
)
def test_a_cookie_of_another_application_on_the_host_signs_nobody_out(
    server: RunningServer, foreign: str
) -> None:
    browser = server.browser()
    [(name, session)] = browser.cookies.items()
    for cookies in (f"{foreign}; {name}={session}", f"{name}={session}; {foreign}"):
        headers = {"Cookie": cookies.encode("latin-1")}
        assert server.anonymous(headers).get("/datasets").status_code == 200


@pytest.mark.parametrize("name", ["COUNT(*)", "AVG(pay)", 'a"b; --'])
def test_a_column_named_as_an_aggregate_takes_an_example_away_and_not_the_data_set(name: str) -> None:
    columns = {name: {"values": ["x", "y"]}, "pay": {"bounds": [0, 10]}}
    schema = Schema.load({"table": {"name": "odd"}, "privacy": {"rho": 1.0}, "columns": columns})
    assert records.examples(schema)
