"""Tokens of an OpenID Connect issuer: the good ones, and every forgery we know of."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from oidc_issuer import AUDIENCE, Issuer, running_issuer

from dpxplain.ledger import browser_sessions
from dpxplain.ledger.ledger import open_ledger
from dpxplain.server import oidc
from dpxplain.server.config import Oidc
from server_fixture import COUNT, RunningServer, config_of, running_server


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def with_oidc(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settings = {
        "issuer": issuer.url,
        "audience": AUDIENCE,
        "role_claim": "realm.roles",
        "curator_values": ["data-owner"],
    }
    many = {"anonymous_per_minute": 10_000}
    config = config_of(tmp_path_factory.mktemp("oidc"), oidc=settings, limits=many)
    with running_server(config) as running:
        yield running


def status(server: RunningServer, token: str, path: str = "/datasets") -> int:
    return server.anonymous({"Authorization": f"Bearer {token}"}).get(path).status_code


def test_a_good_token_opens_the_door_in_its_role(issuer: Issuer, with_oidc: RunningServer) -> None:
    client = with_oidc.anonymous({"Authorization": f"Bearer {issuer.token()}"})
    me = client.get("/me").json()
    assert (me["name"], me["role"]) == ("oidc:olga", "analyst")
    assert client.post("/datasets/people/query", json={"sql": COUNT, "rho": 0.1}).status_code == 200
    assert client.get("/datasets/people/history").json()["entries"][0]["analyst"] == "oidc:olga"
    assert client.get("/admin/audit").status_code == 403
    assert status(with_oidc, issuer.token(issuer.ec, "ec", "ES256")) == 200
    owner = issuer.token(realm={"roles": ["reader", "data-owner"]})
    assert status(with_oidc, owner, "/admin/audit") == 200


def test_tokens_of_ours_work_beside_it(with_oidc: RunningServer) -> None:
    assert with_oidc.client("alice").get("/datasets").status_code == 200


def test_forged_and_foreign_tokens_are_refused(issuer: Issuer, with_oidc: RunningServer) -> None:
    now = int(time.time())
    public = issuer.rsa.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    good = issuer.token()
    head, body, signature = good.split(".")
    swapped = _part({"sub": "root", "iss": issuer.url, "aud": AUDIENCE, "exp": now + 600})
    bad = {
        "alg none": f"{_part({'alg': 'none', 'kid': 'rsa'})}.{body}.",
        "alg none with signature": f"{_part({'alg': 'none', 'kid': 'rsa'})}.{body}.{signature}",
        "public key as secret": _hs256({"alg": "HS256", "kid": "rsa", "typ": "JWT"}, body, public),
        "other claims": f"{head}.{swapped}.{signature}",
        "no signature": f"{head}.{body}.",
        "wrong issuer": issuer.token(iss="https://evil.example"),
        "wrong audience": issuer.token(aud="other"),
        "no audience": issuer.token(aud=None),
        "expired": issuer.token(exp=now - 120),
        "no expiry": issuer.token(exp=None),
        "not yet valid": issuer.token(nbf=now + 600),
        "unknown key": issuer.token(issuer.other, "unknown"),
        "wrong key under a known name": issuer.token(issuer.other, "rsa"),
        "no key named": issuer.token(kid=None),
        "an elliptic key's name with RSA": issuer.token(kid="ec"),
        "another algorithm": issuer.token(algorithm="RS512"),
        "no name": issuer.token(sub=None),
        "the owner's empty name": issuer.token(sub=""),
        "everyone's name": issuer.token(sub="*"),
        "a name with a line break": issuer.token(sub="a\nb"),
        "an endless name": issuer.token(sub="a" * 300),
        "not a token": "a.b.c",
        "too long": good + "x" * 10_000,
    }
    assert {name: status(with_oidc, token) for name, token in bad.items()} == dict.fromkeys(bad, 401)
    assert status(with_oidc, good) == 200


def _part(content: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def _hs256(header: dict[str, object], body: str, secret: bytes) -> str:
    """By hand: the library itself refuses to sign with a public key."""
    text = f"{_part(header)}.{body}"
    digest = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def test_new_keys_are_fetched_but_unknown_names_do_not_hammer_the_issuer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = oidc.Issuer(Oidc(issuer=issuer.url, audience=AUDIENCE))
    assert verifier.verify(issuer.token())[:2] == ("olga", "analyst")
    before = issuer.fetches
    assert [verifier.verify(issuer.token(issuer.other, f"guess-{n}")) for n in range(20)] == [None] * 20
    assert issuer.fetches == before
    issuer.published.append("new")
    monkeypatch.setattr(oidc, "_BETWEEN_FETCHES", 0.0)
    assert verifier.verify(issuer.token(issuer.other, "new"))[:2] == ("olga", "analyst")
    issuer.published.remove("new")


def test_only_named_roles_enter_where_analysts_are_listed(issuer: Issuer) -> None:
    verifier = oidc.Issuer(
        Oidc(issuer=issuer.url, audience=AUDIENCE, analyst_values=("science",), curator_values=("owner",))
    )
    assert verifier.verify(issuer.token()) is None
    assert verifier.verify(issuer.token(roles="science"))[:2] == ("olga", "analyst")
    assert verifier.verify(issuer.token(roles=["owner"]))[:2] == ("olga", "curator")
    assert verifier.verify(issuer.token(roles={"owner": 1})) is None


def test_an_issuer_that_is_away_keeps_everybody_out_without_failing() -> None:
    verifier = oidc.Issuer(Oidc(issuer="http://127.0.0.1:9", audience=AUDIENCE))
    token = jwt.encode({"sub": "x"}, "s" * 32, algorithm="HS256", headers={"kid": "a"})
    assert verifier.verify(token) is None


def test_a_good_token_opens_a_browser_session_that_ends_no_later(
    issuer: Issuer, with_oidc: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    expires = int(time.time()) + 120
    browser = with_oidc.anonymous({"Origin": with_oidc.url.rstrip("/")})
    owner = issuer.token(exp=expires, realm={"roles": ["data-owner"]})
    me = browser.post("/session", json={"token": owner}).json()
    assert (me["name"], me["role"], me["signed_in"]) == ("oidc:olga", "curator", True)
    assert browser.post("/datasets/people/query", json={"sql": COUNT, "rho": 0.1}).status_code == 200
    assert browser.get("/admin/audit").status_code == 200
    [(name, cookie)] = browser.cookies.items()
    assert with_oidc.ledger.sessions.authenticate(cookie).expires.timestamp() == expires

    class LaterClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=121)

    with monkeypatch.context() as patch:
        patch.setattr(browser_sessions, "datetime", LaterClock)
        assert browser.get("/datasets").status_code == 401
    assert browser.delete("/session").status_code == 204
    assert browser.get("/datasets").status_code == 401
    again = with_oidc.anonymous({"Origin": with_oidc.url.rstrip("/"), "Cookie": f"{name}={cookie}"})
    assert again.get("/datasets").status_code == 401


def test_a_token_within_the_leeway_of_its_expiry_opens_no_session(
    issuer: Issuer, with_oidc: RunningServer
) -> None:
    nearly = issuer.token(exp=int(time.time()) - 5)
    assert status(with_oidc, nearly) == 200  # clocks may differ by so much
    assert with_oidc.anonymous().post("/session", json={"token": nearly}).status_code == 401
    forged = issuer.token(issuer.other, "rsa")
    assert with_oidc.anonymous().post("/session", json={"token": forged}).status_code == 401


def test_sessions_of_an_issuer_that_is_no_longer_configured_let_nobody_in(
    issuer: Issuer, tmp_path: Path
) -> None:
    settings = {"issuer": issuer.url, "audience": AUDIENCE}
    with closing(open_ledger(None)) as ledger:
        with running_server(config_of(tmp_path / "with", oidc=settings), ledger) as server:
            browser = server.anonymous()
            assert browser.post("/session", json={"token": issuer.token()}).status_code == 200
            assert browser.get("/datasets").status_code == 200
            cookie = next(iter(browser.cookies.values()))
            ours = server.token("alice")
        with running_server(config_of(tmp_path / "without"), ledger) as server:
            browser = server.anonymous()
            assert browser.post("/session", json={"token": ours}).status_code == 200
            assert browser.get("/datasets").status_code == 200
            name = next(iter(browser.cookies))
            assert server.anonymous({"Cookie": f"{name}={cookie}"}).get("/datasets").status_code == 401
