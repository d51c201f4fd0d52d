"""Tokens of an OpenID Connect issuer: the good ones, and every forgery we know of."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import socketserver
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from oidc_issuer import AUDIENCE, Issuer, running_issuer

from dpxplain.ledger import credentials
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.protocol import Identity
from dpxplain.server import authenticate
from dpxplain.server.config import Oidc
from dpxplain.server.problems import Refusal
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


def who_of(identity: Identity | Refusal) -> tuple[str, str]:
    assert isinstance(identity, Identity)
    return identity.name, identity.role


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
    verifier = authenticate.Issuer(Oidc(issuer=issuer.url, audience=AUDIENCE))
    assert who_of(verifier.verify(issuer.token())) == ("oidc:olga", "analyst")
    before = issuer.fetches
    guesses = [verifier.verify(issuer.token(issuer.other, f"guess-{n}")) for n in range(20)]
    assert guesses == [Refusal("kid")] * 20
    assert issuer.fetches == before
    issuer.published.append("new")
    monkeypatch.setattr(authenticate, "_SECONDS_BETWEEN_FETCHES", 0.0)
    assert who_of(verifier.verify(issuer.token(issuer.other, "new"))) == ("oidc:olga", "analyst")
    issuer.published.remove("new")


def test_only_named_roles_enter_where_analysts_are_listed(issuer: Issuer) -> None:
    verifier = authenticate.Issuer(
        Oidc(issuer=issuer.url, audience=AUDIENCE, analyst_values=("science",), curator_values=("owner",))
    )
    assert verifier.verify(issuer.token()) == Refusal("role")
    assert who_of(verifier.verify(issuer.token(roles="science"))) == ("oidc:olga", "analyst")
    assert who_of(verifier.verify(issuer.token(roles=["owner"]))) == ("oidc:olga", "curator")
    assert verifier.verify(issuer.token(roles={"owner": 1})) == Refusal("role")


def test_an_issuer_that_is_away_keeps_everybody_out_without_failing() -> None:
    verifier = authenticate.Issuer(Oidc(issuer="http://127.0.0.1:9", audience=AUDIENCE))
    key = ec.generate_private_key(ec.SECP256R1())
    token = jwt.encode({"sub": "x"}, key, algorithm="ES256", headers={"kid": "a"})
    assert verifier.verify(token) == Refusal("keys")
    problem = Refusal("keys").problem()
    assert (problem.status, problem.shape["code"]) == (503, "issuer_unavailable")


@pytest.mark.parametrize(
    "begin", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"]
)
def test_an_issuer_that_sends_byte_by_byte_is_not_waited_for(
    begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticate, "_FETCH_SECONDS", 0.5)
    given_up, late = threading.Event(), threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(begin)
            try:
                while not late.wait(0.05):
                    self.request.sendall(b" ")
            except OSError:
                given_up.set()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        verifier = authenticate.Issuer(Oidc(issuer=address, audience=AUDIENCE, jwks_url=f"{address}/keys"))
        key = ec.generate_private_key(ec.SECP256R1())
        token = jwt.encode({"sub": "x"}, key, algorithm="ES256", headers={"kid": "a"})
        try:
            with ThreadPoolExecutor(1) as threads:
                refusal = threads.submit(verifier.verify, token)
                is_given_up = given_up.wait(60)
                late.set()
                assert (refusal.result(), is_given_up) == (Refusal("keys"), True)
        finally:
            server.shutdown()


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
    session = with_oidc.ledger.sessions.authenticate(cookie, issuer=issuer.url)
    assert (session.expires.timestamp(), session.issuer) == (expires, issuer.url)

    class LaterClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=121)

    with monkeypatch.context() as patch:
        patch.setattr(credentials, "datetime", LaterClock)
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


def test_each_refusal_has_a_reason_in_the_log_and_a_sentence_for_the_caller(
    issuer: Issuer, with_oidc: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="dpxplain.server")
    now = int(time.time())
    cases = {
        "audience": (issuer.token(aud="other"), "another application"),
        "expiry": (issuer.token(exp=now - 120), "has expired"),
        "not_yet": (issuer.token(nbf=now + 600), "not valid yet"),
        "issuer": (
            issuer.token(issuer.other, "theirs", iss="https://evil.example"),
            "does not trust the token's issuer",
        ),
        "kid": (issuer.token(issuer.other, "unknown"), "does not publish"),
        "signature": (issuer.token(issuer.other, "rsa"), "signature"),
        "algorithm": (issuer.token(algorithm="RS512"), "does not accept"),
        "claim": (issuer.token(aud=None), "lacks"),
        "name": (issuer.token(sub="*"), "account name"),
        "malformed": ("a.b.c", "neither from this server"),
        "token": ("dpx_0123456789ab_" + "A" * 43, "needs a valid token"),
    }
    for reason, (token, sentence) in cases.items():
        caplog.clear()
        response = with_oidc.anonymous({"Authorization": f"Bearer {token}"}).get("/datasets/people/budget")
        assert response.status_code == 401, reason
        problem = response.json()
        assert (problem["code"], sentence in problem["message"]) == ("unauthorized", True), problem
        assert problem["remedy"]
        refused = "authentication refused: GET /datasets/{dataset}/budget from 127.0.0.1: " + reason
        assert refused in caplog.text
        assert token not in caplog.text
        assert f'failures_total{{reason="{reason}"}}' in with_oidc.curator().get("/metrics").text


def test_a_role_that_may_not_enter_is_told_so_when_it_signs_in_to_the_page(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"issuer": issuer.url, "audience": AUDIENCE, "analyst_values": ["science"]}
    with running_server(config_of(tmp_path, oidc=settings)) as server:
        browser = server.anonymous({"Origin": server.url.rstrip("/")})
        refused = browser.post("/session", json={"token": issuer.token(roles=["cook"])})
        assert refused.status_code == 401
        assert "none of its roles" in refused.json()["message"]
        assert "authentication refused: POST /session from 127.0.0.1: role" in caplog.text
        nearly = issuer.token(exp=int(time.time()) - 5, roles=["science"])
        assert "has expired" in browser.post("/session", json={"token": nearly}).json()["message"]
        assert browser.post("/session", json={"token": issuer.token(roles=["science"])}).status_code == 200


def test_a_session_counts_under_the_issuer_that_opened_it_only(issuer: Issuer, tmp_path: Path) -> None:
    with closing(open_ledger(None)) as ledger, running_issuer() as other:

        def served(url: str) -> AbstractContextManager[RunningServer]:
            config = config_of(tmp_path, oidc={"issuer": url, "audience": AUDIENCE})
            return running_server(config, ledger)

        with served(issuer.url) as server:
            browser = server.anonymous()
            assert browser.post("/session", json={"token": issuer.token()}).status_code == 200
            assert browser.get("/datasets").status_code == 200
            cookie = next(iter(browser.cookies.values()))
        for url, status in ((other.url, 401), (issuer.url, 200)):
            with served(url) as server:
                port = server.url.rstrip("/").rpartition(":")[2]
                client = server.anonymous({"Cookie": f"dpxplain-{port}={cookie}"})
                assert client.get("/datasets").status_code == status


def test_ending_the_sessions_of_an_issuers_person_is_in_the_audit_log(
    issuer: Issuer, with_oidc: RunningServer
) -> None:
    browser = with_oidc.anonymous()
    assert browser.post("/session", json={"token": issuer.token(sub="oscar")}).status_code == 200
    assert with_oidc.ledger.tokens.revoke_made_by("oidc:oscar", "carol") == ([], 1)
    assert browser.get("/datasets").status_code == 401
    lines = with_oidc.curator().get("/admin/audit").json()["records"]
    [ended] = [line for line in lines if line["action"] == "browser sessions ended"]
    assert (ended["actor"], ended["details"]["sessions"]) == ("carol", 1)
    assert ended["details"]["name"] == "oidc:oscar"
    assert with_oidc.ledger.verify_audit().intact


def test_requests_are_logged_with_person_and_data_set_but_nothing_of_the_query(
    with_oidc: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="dpxplain.server")
    client = with_oidc.client("alice")
    assert client.post("/datasets/people/query", json={"sql": COUNT, "rho": 0.125}).status_code == 200
    assert client.get("/datasets/no-such-set/budget").status_code == 404

    def lines() -> str:
        ours = [record for record in list(caplog.records) if record.name.startswith("dpxplain")]
        return "\n".join(record.getMessage() for record in ours)

    while " 404 " not in lines():  # written when the response is already sent
        time.sleep(0.01)
    text = lines()
    credential = with_oidc.ids["alice"]
    assert "POST /datasets/{dataset}/query 200" in text
    assert f"person=alice credential={credential} dataset=people" in text
    assert f"person=alice credential={credential} dataset=-" in text
    for secret in ("no-such-set", "SELECT", "COUNT", "0.125", with_oidc.tokens["alice"]):
        assert secret not in text


def test_a_request_without_a_credential_is_logged_with_its_address(
    with_oidc: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="dpxplain.server")
    assert with_oidc.anonymous().get("/datasets").status_code == 401
    assert "authentication refused: GET /datasets from 127.0.0.1: none" in caplog.text
