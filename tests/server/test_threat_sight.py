"""T12 to T21, T29 and T30: nobody sees what is not theirs, or comes in by a door that is not theirs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from oidc_issuer import AUDIENCE, running_issuer
from truth_search import stored_rows

import dpxplain as dpx
from dpxplain.errors import SchemaError
from dpxplain.ledger import credentials
from dpxplain.ledger.ledger import open_ledger
from dpxplain.server.app import single_user_config
from dpxplain.server.config import Config
from dpxplain.server.problems import Problem
from server_fixture import (
    SCHEMA,
    SQL,
    WEIGHTS,
    LaterDatetime,
    RunningServer,
    config_of,
    running_server,
    soon,
    write_people,
)

AT = "/datasets/people"
MANY = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6, "sign_ins_per_minute": 10**6}


def ask(client: httpx.Client, rho: float = 0.1) -> dict[str, Any]:
    response = client.post(f"{AT}/query", json={"sql": SQL, "rho": rho})
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def test_t12_anothers_history_answers_and_jobs_are_as_unknown_as_none(server: RunningServer) -> None:
    alice, eve = server.client("t12-alice"), server.client("t12-eve")
    entry = ask(alice)["address"]
    explain = {"answer": entry, "weights": WEIGHTS, "k": 2, "rho": 0.1}
    job = alice.post(f"{AT}/explain?wait=60", json=explain).json()["id"]
    none, no_job = 2**40, "x" * len(job)

    def doors(entry: int | str, job: str) -> list[tuple[str, str, Any]]:
        why = {"answer": entry, "weights": WEIGHTS}
        return [
            ("GET", f"{AT}/answers/{entry}", None),
            ("GET", f"{AT}/releases/{entry}", None),
            ("POST", f"{AT}/why", why),
            ("POST", f"{AT}/explain", why | {"rho": 0.1}),
            ("POST", f"{AT}/explain/preview", why | {"rho": 0.1}),
            ("POST", f"{AT}/prepare", {"answer": entry, "rho": 0.1}),
            ("POST", f"{AT}/prepare/preview", {"answer": entry, "rho": 0.1}),
            ("POST", f"{AT}/report", why | {"rho": 0.1}),
            ("GET", f"/jobs/{job}", None),
            ("DELETE", f"/jobs/{job}", None),
        ]

    for theirs, nobodys in zip(doors(entry, job), doors(none, no_job), strict=True):
        found = [eve.request(method, path, json=body) for method, path, body in (theirs, nobodys)]
        assert [response.status_code for response in found] == [404, 404], theirs
        assert found[0].json() == found[1].json()
    assert eve.get(f"{AT}/history").json()["entries"] == []
    assert "t12-alice" not in eve.get(f"{AT}/history").text + eve.get("/datasets").text
    assert eve.get(f"{AT}/budget").json()["rho"]["spent"] == 0
    assert alice.get(f"/jobs/{job}").json()["state"] == "done"  # nor could she cancel it


def test_t13_what_others_asked_makes_nothing_free_unless_it_is_shared(server: RunningServer) -> None:
    owner, other, curator = server.client("t13-owner"), server.client("t13-other"), server.curator()
    first = ask(owner, 0.05)
    assert not other.post(f"{AT}/preview", json={"sql": SQL, "rho": 0.05}).json()["free"]
    own = ask(other, 0.05)
    assert (own["free"], own["address"] == first["address"], own["rows"] == first["rows"]) == (
        False,
        False,
        False,
    )

    later = ask(owner, 0.06)
    share = {"owner": "t13-owner", "reader": "t13-other", "reason": "they work together"}
    assert curator.post(f"{AT}/shares", json=share).status_code == 200
    shared = ask(other, 0.06)
    assert (shared["free"], shared["id"]) == (True, later["address"])
    assert curator.request("DELETE", f"{AT}/shares", json=share).status_code == 200
    assert not ask(other, 0.06)["free"]


def test_t14_a_stolen_ledger_opens_no_door(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    book = open_ledger(ledger)
    with running_server(config_of(tmp_path / "data", limits=MANY), book) as server:
        token, browser = server.token("alice"), server.browser("bob")
        [(cookie_name, cookie)] = browser.cookies.items()
        assert server.client("alice").get("/datasets").status_code == 200
        stolen = stored_rows(ledger)
        raw = b"".join(file.read_bytes() for file in tmp_path.glob("ledger.sqlite*"))
        for secret in (token, cookie):
            text = secret.rpartition("_")[2] if secret.count("_") == 2 else secret[-43:]
            assert text not in stolen
            assert text.encode() not in raw
        hashes = re.findall(r"sha256\$[0-9a-f]{64}", stolen)
        assert len(set(hashes)) >= 3  # two tokens and a session
        ids = re.findall(r"dpx_([0-9a-f]{12})_", f"{token} {cookie}")
        for text in [*hashes[:2], *(f"dpx_{id}_{hashes[0][-43:]}" for id in ids)]:
            assert server.anonymous({"Authorization": f"Bearer {text}"}).get("/datasets").status_code == 401
            in_cookie = server.anonymous({"Cookie": f"{cookie_name}={text}"})
            assert in_cookie.get("/datasets").status_code == 401
    book.close()


def test_t15_a_revoked_or_expired_token_and_its_sessions_end_at_once(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, browser, curator = server.client("t15-gone"), server.browser("t15-gone"), server.curator()
    assert [one.get("/datasets").status_code for one in (client, browser)] == [200, 200]
    assert curator.delete(f"/admin/tokens/{server.ids['t15-gone']}").status_code == 204
    assert [one.get("/datasets").status_code for one in (client, browser)] == [401, 401]
    assert browser.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).status_code == 401
    assert browser.get("/me").json()["signed_in"] is False

    hour = soon()
    deputy = server.ledger.tokens.create("t15-deputy", "curator", expires=hour, by="test")
    made = server.anonymous({"Authorization": f"Bearer {deputy[1]}"}).post(
        "/admin/tokens", json={"name": "t15-made", "role": "analyst", "expires": hour.isoformat()}
    )
    client = server.anonymous({"Authorization": f"Bearer {made.json()['token']}"})
    assert client.get("/datasets").status_code == 200
    assert curator.delete(f"/admin/tokens/{deputy[0]}").status_code == 204
    assert client.get("/datasets").status_code == 401  # what a revoked curator made ends, too
    listed = {token["id"]: token for token in curator.get("/admin/tokens").json()["tokens"]}
    assert listed[made.json()["id"]]["maker"] == deputy[0]

    brief, page = server.client("t15-brief"), server.browser("t15-brief")
    assert [one.get("/datasets").status_code for one in (brief, page)] == [200, 200]
    monkeypatch.setattr(credentials, "datetime", LaterDatetime)
    assert [one.get("/datasets").status_code for one in (brief, page)] == [401, 401]
    token = {"token": server.token("t15-brief")}
    assert server.anonymous().post("/session", json=token).status_code == 401


def test_t16_forged_oidc_tokens_are_refused(tmp_path: Path) -> None:
    with running_issuer() as issuer:
        oidc = {"issuer": issuer.url, "audience": AUDIENCE, "curator_values": ["curators"]}
        with running_server(config_of(tmp_path, limits=MANY, oidc=oidc)) as server:

            def status(token: str, path: str = "/datasets") -> int:
                return server.anonymous({"Authorization": f"Bearer {token}"}).get(path).status_code

            assert status(issuer.token()) == 200
            assert status(issuer.token(roles=["curators"]), "/admin/tokens") == 200
            assert status(issuer.token(roles=["others"]), "/admin/tokens") == 403

            public = issuer.rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            head, body, _ = issuer.token(roles=["curators"]).split(".")
            unsigned = jwt.encode({"sub": "x"}, "", algorithm="none", headers={"kid": "rsa"}).split(".")[0]
            forged = {
                "no signature": f"{unsigned}.{body}.",
                "signature cut off": f"{head}.{body}.",
                "the public key as a secret": _signed_by_hand(body, public),
                "another's key": issuer.token(issuer.other),
                "an unknown key": issuer.token(kid="unknown"),
                "no key named": issuer.token(kid=None),
                "a key of another kind": issuer.token(kid="ec"),
                "another issuer": issuer.token(iss="https://elsewhere.example"),
                "another audience": issuer.token(aud="another"),
                "no audience": issuer.token(aud=None),
                "expired": issuer.token(exp=int(time.time()) - 3600),
                "without an end": issuer.token(exp=None),
                "the local owner's name": issuer.token(sub=""),
                "everyone's name": issuer.token(sub="*"),
            }
            assert {why: status(token) for why, token in forged.items()} == dict.fromkeys(forged, 401)


def _signed_by_hand(body: str, secret: bytes) -> str:
    """HS256 with a public key; PyJWT itself declines to make such a token."""
    import base64
    import hashlib
    import hmac

    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT","kid":"rsa"}').rstrip(b"=").decode()
    seal = hmac.new(secret, f"{head}.{body}".encode(), hashlib.sha256).digest()
    return f"{head}.{body}.{base64.urlsafe_b64encode(seal).rstrip(b'=').decode()}"


def test_t17_another_page_cannot_make_a_browser_ask(server: RunningServer) -> None:
    browser = server.browser("t17-victim")
    fresh = server.anonymous().post("/session", json={"token": server.token("t17-victim")})
    cookie = fresh.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))
    body = {"sql": SQL, "rho": 0.1}
    del browser.headers["Origin"], browser.headers["Sec-Fetch-Site"]
    own = server.url.rstrip("/")

    def status(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return browser.post(f"{AT}/query", json=body, headers=named).status_code

    assert status() == 403  # the cookie alone: a browser so old that it names no origin
    assert status(origin="https://evil.example") == 403
    assert status(origin="https://evil.example", sec_fetch_site="cross-site") == 403
    assert status(sec_fetch_site="cross-site") == 403
    assert status(sec_fetch_site="same-site") == 403  # a neighbouring subdomain is another site's page too
    assert status(origin=own, sec_fetch_site="same-site") == 403
    assert status(origin="null") == 403
    assert status(origin=own.replace("http://", "http://evil.")) == 403
    assert browser.get(f"{AT}/history", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert browser.get(f"{AT}/budget").json()["rho"]["spent"] == 0
    assert status(origin=own, sec_fetch_site="same-origin") == 200
    assert status(origin=own) == 200  # without TLS, browsers send no Sec-Fetch-Site
    assert status(sec_fetch_site="same-origin") == 200
    foreign = {"Origin": "https://evil.example"}
    signed_in = server.anonymous().post(
        "/session", json={"token": server.token("t17-attacker")}, headers=foreign
    )
    assert signed_in.status_code == 403  # nor can a victim be signed in as somebody else
    answer = browser.get("/datasets", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


def test_t18_only_the_servers_own_names_reach_it(server: RunningServer, tmp_path: Path) -> None:
    client = server.client("t18")
    port = httpx.URL(server.url).port
    for host in (
        f"evil.example:{port}",
        "evil.example",
        f"127.0.0.1.evil.example:{port}",
        "",
        f"x@127.0.0.1:{port}",
    ):
        for path in ("/datasets", "/health", "/me"):
            refused = client.get(path, headers={"Host": host})
            assert (refused.status_code, refused.json()["code"]) == (400, "host_refused"), host
        assert httpx.get(server.url, headers={"Host": host}).status_code == 400
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST"):
        assert client.get("/datasets", headers={"Host": host}).status_code == 200

    for host in ("0.0.0.0", "192.0.2.1", "::"):  # without login, only this machine
        with pytest.raises(Exception, match="only this machine"):
            single_user_config(tmp_path / "people.toml", host=host)
        with pytest.raises(SchemaError, match="unencrypted"):  # nor tokens in the clear
            Config.load({"server": {"datasets": "x", "host": host}})


def test_t29_another_user_of_the_machine_does_not_enter_a_single_users_server(tmp_path: Path) -> None:
    write_people(tmp_path)
    with running_server(single_user_config(tmp_path / "people.toml")) as server:
        stranger = server.anonymous()
        assert stranger.get("/me").json()["signed_in"] is False
        for path in ("/datasets", f"{AT}/history", "/admin/tokens", "/admin/audit"):
            assert stranger.get(path).status_code == 401
        locked = stranger.get(server.url)
        assert (locked.status_code, "with its key" in locked.text) == (401, True)
        wrong = stranger.get(f"{server.url}?key={'x' * 43}")
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (303, False)
        assert stranger.post("/session", json={"token": "x" * 43}).status_code == 401

        browser = server.anonymous()
        entered = browser.get(server.door)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")  # the key is in no address
        assert all(part in entered.headers["set-cookie"].lower() for part in ("httponly", "samesite=strict"))
        assert browser.get(server.url).status_code == 200
        me = browser.get("/me").json()
        assert (me["signed_in"], me["role"], me["single_user"]) == (True, "curator", True)
        asked = browser.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1})
        assert (asked.status_code, asked.json()["code"]) == (403, "foreign_origin")
        browser.headers["Origin"] = server.url.rstrip("/")
        assert ask(browser)["free"] is False

        assert ask(server.owner())["free"]  # programs send it as a token
        with dpx.connect(f"{server.url}people?key={server.key}") as session:
            assert len(session.history) == 1
            assert "key" not in repr(session)
        with dpx.connect(f"{server.url}people", token=server.key, curator=True) as session:
            assert session.budget.spent == 0.1


def test_t19_a_script_in_a_label_does_not_run(tmp_path: Path) -> None:
    script = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    config = config_of(tmp_path, limits=MANY)
    labelled = (
        SCHEMA.replace('"West"]', f'"{script}"]')
        + f'\n[columns.more]\nvalues = ["a"]\ndescription = "{script}"\n'
    )
    (tmp_path / "people.toml").write_text(labelled.replace("[columns.more]", "[columns.region2]"), "utf-8")
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "people.parquet")
    pq.write_table(table.append_column("region2", table["sex"]), tmp_path / "people.parquet")
    with running_server(config) as server:
        client = server.client()
        answer = ask(client)
        why = {"answer": answer["id"], "weights": WEIGHTS, "k": 2, "rho": 0.1}
        assert client.post(f"{AT}/explain?wait=60", json=why).json()["state"] == "done"
        report = client.post(f"{AT}/report", json=why)
        assert report.status_code == 200
        assert "sandbox" in report.headers["content-security-policy"]
        assert "attachment" in report.headers["content-disposition"]
        assert "<script>alert" not in report.text
        assert "<img src=x" not in report.text
        pages = [httpx.get(server.url), client.get("/docs"), client.get(AT), client.get("/nowhere")]
        for page in pages:
            policy = dict(
                part.strip().partition(" ")[::2]
                for part in page.headers["content-security-policy"].split(";")
            )
            assert (policy["default-src"], policy["script-src"]) == ("'none'", "'self'")
            assert not any("http" in allowed or "*" in allowed for allowed in policy.values())
            assert (policy["frame-ancestors"], policy["base-uri"]) == ("'none'", "'none'")
            assert page.headers["x-content-type-options"] == "nosniff"
        for page in pages[:2]:  # and none of ours needs an exception
            assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+\s*=|javascript:", page.text)
        assert client.get(AT).headers["content-type"].startswith("application/json")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[tuple[RunningServer, Path]]:
    """A server whose data folder has a link that leads out of it."""
    secret = tmp_path / "secret"
    config = config_of(secret)
    (secret / "secret.csv").write_text("region,sex,age,pay\nNorth,F,30,100\n", "utf-8")
    home = tmp_path / "home"
    config = config_of(home, limits=MANY, server={"data_folder": str(home)})
    os.symlink(secret / "secret.csv", home / "link.csv")
    os.symlink(secret, home / "folder")
    with running_server(config) as server:
        yield server, secret


def test_t20_sources_outside_the_data_folder_are_refused(outside: tuple[RunningServer, Path]) -> None:
    server, secret = outside
    curator = server.curator()
    places = (
        "../secret/secret.csv", str(secret / "secret.csv"), "link.csv", "folder/secret.csv", "folder/*.csv",
        "*.csv", "../secret/absent.csv", "/etc/passwd", "sub/../../secret/secret.csv",
    )  # fmt: skip
    said = set()
    for number, place in enumerate(places):
        toml = SCHEMA.replace('"people"', f'"stolen{number}"').replace("people.parquet", place)
        declared = curator.post("/admin/datasets", json={"toml": toml})
        assert declared.status_code == 400, place
        edited = curator.put("/admin/datasets/people", json={"toml": SCHEMA.replace("people.parquet", place)})
        assert edited.status_code == 400, place
        said.add(declared.json()["message"])
    assert len(said) == 1  # whether a file is there is not told either
    assert [one["name"] for one in curator.get("/datasets").json()["datasets"]] == ["people"]
    assert curator.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).status_code == 200  # still as it was


def test_t21_secrets_are_neither_logged_nor_echoed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    canary = "canary-7f3a9c"
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        token, browser = server.token("alice"), server.browser("bob")
        client, stranger = server.client("alice"), server.anonymous()
        secrets = [token, *browser.cookies.values(), canary]
        said = [
            stranger.post("/session", json={"token": token, "also": canary}),
            stranger.post("/session", json={"token": [token, canary]}),
            stranger.post("/session", json={"token": canary}),
            stranger.post("/session", content=f'{{"token": "{canary}'),
            client.post(f"{AT}/query", json={"sql": SQL, "rho": canary}),
            client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1, "confidence": {"x": canary}}),
            client.post(f"{AT}/query", json=[canary]),
            client.post(f"{AT}/query", content=canary * 3, headers={"Content-Type": "text/plain"}),
            client.get(f"{AT}/answers/{canary}"),
            client.get(f"{AT}/answers/1?confidence={canary}"),
            client.get(f"/jobs/{canary}!"),
            client.get(f"/nowhere/{canary}?token={token}"),
            stranger.get("/datasets", headers={"Authorization": f"Bearer {canary}"}),
            stranger.get("/datasets", headers={"Cookie": f"dpxplain={canary}"}),
            client.post(f"{AT}/query", json={"sql": SQL + f" -- {canary}", "rho": 0.1}),
        ]
        shown = [response.text + str(response.headers) for response in said[:-1]]
    for text in shown:
        assert not any(secret in text for secret in secrets), text
    logged = [r for r in caplog.records if not r.name.startswith(("httpx", "httpcore"))]
    assert any(record.name == "dpxplain.server.access" for record in logged)
    for record in logged:
        line = f"{record.getMessage()} {record.exc_text or ''}"
        assert not any(secret in line for secret in secrets), line


def test_t30_declarations_hold_while_a_charge_is_written_and_promise_no_more_than_was_paid_for(
    tmp_path: Path,
) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        client, curator = server.client(), server.curator()
        before = server.state.datasets.get("people")
        wider = SCHEMA.replace("[0, 1000]", "[0, 5000]")
        assert curator.put("/admin/datasets/people", json={"toml": wider}).status_code == 200
        with pytest.raises(Problem), server.state.datasets.unchanged(before):
            raise AssertionError("a charge would have been written")
        ask(client)
        bounded = wider.replace("rho = 10.0", 'rho = 10.0\nneighbours = "bounded"')
        refused = curator.put("/admin/datasets/people", json={"toml": bounded})
        assert (refused.status_code, "promise more" in refused.json()["message"]) == (
            400,
            True,
        )
        twin = curator.post("/admin/datasets", json={"toml": SCHEMA.replace('"people"', '"twin"')})
        assert (twin.status_code, "already has" in twin.json()["message"]) == (400, True)


def test_t30_a_refused_promise_is_not_served_from_a_new_file_either(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        client = server.client()
        ask(client)
        (tmp_path / "people.toml").unlink()
        assert server.state.datasets.schema_files() == []
        bounded = SCHEMA.replace("rho = 10.0", 'rho = 10.0\nneighbours = "bounded"')
        (tmp_path / "again.toml").write_text(bounded, encoding="utf-8")
        (refused,) = server.state.datasets.schema_files()
        assert "promise more" in str(refused.problem)
        assert client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.2}).status_code == 404


def test_numbers_of_answers_do_not_tell_how_busy_others_are(server: RunningServer) -> None:
    """What a newcomer sees of numbers is the same before and after others were busy."""
    first, busy, second = (server.client(f"numbers-{name}") for name in ("first", "busy", "second"))

    def seen(client: httpx.Client) -> list[object]:
        answer = ask(client, 0.01)
        page = client.get(f"{AT}/history?limit=1").json()
        return [answer["id"], page["entries"][0]["id"], page["older"], answer["caption"].split(" · ")[1]]

    before = seen(first)
    for rho in (0.011, 0.012, 0.013):
        ask(busy, rho)
    assert seen(second) == before
    assert before[0] == 1
