"""Who may do what: every route against every kind of caller, forged requests, and strangers' names."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.routing import Mount

from dpxplain.ledger import credentials
from dpxplain.server import routes
from dpxplain.server.authenticate import PREFIX, PUBLIC, any_caller, curator_only
from server_fixture import COUNT, SQL, WEIGHTS, LaterDatetime, RunningServer

MODULES = [
    importlib.import_module(f"dpxplain.server.routes.{module.name}")
    for module in pkgutil.iter_modules(routes.__path__)
]
ROUTES: list[APIRoute] = [route for module in MODULES for router in module.ROUTERS for route in router.routes]
PLACES = {
    "dataset": "people",
    "entry": "1",
    "job": "none",
    "analyst": "bob",
    "token": "0123456789ab",
    "file": "x.csv",
    "request": "1",
}
# Open to everybody: nothing in them belongs to anyone.
OPEN = {
    ("GET", "/"),
    ("HEAD", "/"),
    ("GET", f"{PREFIX}/health"),
    ("GET", f"{PREFIX}/ready"),
    ("GET", f"{PREFIX}/me"),
    ("POST", f"{PREFIX}/session"),
    ("GET", f"{PREFIX}/docs"),
    ("GET", f"{PREFIX}/openapi.json"),
}


def _demands(route: APIRoute) -> set[Callable[..., Any]]:
    """Every dependency of the route, however deep."""

    def below(dependant: Any) -> Iterator[Callable[..., Any]]:
        for dependency in dependant.dependencies:
            yield dependency.call
            yield from below(dependency)

    return set(below(route.dependant))


def _address(route: APIRoute) -> str:
    """Below the API's prefix, which the clients of these tests add themselves."""
    return re.sub(r"{(\w+)}", lambda match: PLACES[match[1]], route.path.removeprefix(PREFIX))


CLOSED = [
    (method, route)
    for route in ROUTES
    for method in sorted(route.methods)
    if (method, route.path) not in OPEN
]
NAMES = [f"{method} {route.path}" for method, route in CLOSED]


def test_every_route_demands_a_role_or_is_in_the_short_list_of_open_ones() -> None:
    undemanding = {
        (method, route.path)
        for route in ROUTES
        for method in route.methods
        if not _demands(route) & {any_caller, curator_only}
    }
    assert undemanding == OPEN
    assert len(PUBLIC) == len(OPEN) - 2  # the gate knows the same, and the page at / is no part of the API


def test_the_application_serves_these_routes_and_the_built_page_only(server: RunningServer) -> None:
    served = [route for route in server.app.routes if not isinstance(route, Mount)]
    assert {id(route) for route in served} == {id(route) for route in ROUTES}
    assert len(served) == len(ROUTES)
    paths = {path for path, _ in server.app.openapi()["paths"].items()}
    assert paths == {route.path for route in ROUTES if route.include_in_schema}


@pytest.mark.parametrize(("method", "route"), CLOSED, ids=NAMES)
def test_without_a_valid_token_every_route_answers_401(
    server: RunningServer, method: str, route: APIRoute
) -> None:
    address, client = _address(route), _kept(server, "stranger", server.anonymous)
    good = server.token("alice")
    for header in (None, "", "Bearer", "Bearer dpx_x", f"Basic {good}", f"Bearer {good[:-1]}x", good):
        headers = {} if header is None else {"Authorization": header}
        response = client.request(method, address, headers=headers, json={})
        assert (response.status_code, response.json()["code"]) == (401, "unauthorized"), header
        assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "route"), CLOSED, ids=NAMES)
def test_what_is_for_curators_answers_analysts_with_403(
    server: RunningServer, method: str, route: APIRoute
) -> None:
    response = _kept(server, "analyst", server.client).request(method, _address(route), json={})
    if curator_only in _demands(route):
        assert (response.status_code, response.json()["code"]) == (403, "curator_only")
    else:
        assert response.status_code not in (401, 403)


@pytest.mark.parametrize(("method", "route"), CLOSED, ids=NAMES)
def test_a_browser_must_come_from_our_own_page(server: RunningServer, method: str, route: APIRoute) -> None:
    browser = _kept(server, "browser", server.browser)
    address = _address(route)
    attempts: list[dict[str, str]] = [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ]
    for headers in attempts:
        response = browser.request(method, address, json={}, headers=headers)
        assert (response.status_code, response.json()["code"]) == (403, "foreign_origin"), headers
    if (method, route.path) != ("DELETE", f"{PREFIX}/session"):
        response = browser.request(method, address, json={})
        assert response.status_code != 401
        assert "foreign_origin" not in response.text


_KEPT: dict[tuple[str, str], httpx.Client] = {}


def _kept(server: RunningServer, kind: str, make: Callable[[], httpx.Client]) -> httpx.Client:
    """Signing in costs a slow hash, so once for all routes."""
    if (server.url, kind) not in _KEPT:
        _KEPT[server.url, kind] = make()
    return _KEPT[server.url, kind]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "a@localhost"]
)
@pytest.mark.parametrize("path", ["/me", "/datasets", "/health", "/docs"])
def test_under_another_name_the_server_does_not_answer(server: RunningServer, host: str, path: str) -> None:
    response = server.client().get(path, headers={"Host": host})
    assert (response.status_code, response.json()["code"]) == (400, "host_refused")


def test_expired_and_revoked_tokens_and_their_sessions_end_at_once(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, browser = server.client("leaver"), server.browser("leaver")
    assert client.get("/datasets").status_code == browser.get("/datasets").status_code == 200
    server.curator().delete(f"/admin/tokens/{server.ids['leaver']}").raise_for_status()
    assert client.get("/datasets").status_code == browser.get("/datasets").status_code == 401
    assert browser.get("/me").json()["signed_in"] is False

    brief = server.client("brief")
    assert brief.get("/datasets").status_code == 200
    monkeypatch.setattr(credentials, "datetime", LaterDatetime)
    assert brief.get("/datasets").status_code == 401


def test_signing_out_ends_the_session_and_clears_the_cookie(server: RunningServer) -> None:
    browser = server.browser("visitor")
    cookie = {"Cookie": "; ".join(f"{name}={text}" for name, text in browser.cookies.items())}
    response = browser.delete("/session")
    assert response.status_code == 204
    assert not browser.cookies
    assert server.anonymous(cookie).get("/datasets").status_code == 401


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(server: RunningServer) -> None:
    response = server.anonymous().post("/session", json={"token": server.token("alice")})
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert server.token("alice") not in cookie


def test_a_session_is_no_bearer_token_and_a_token_is_no_session(server: RunningServer) -> None:
    session = next(iter(server.browser("alice").cookies.values()))
    assert server.anonymous({"Authorization": f"Bearer {session}"}).get("/datasets").status_code == 401
    assert (
        server.anonymous({"Cookie": f"dpxplain={server.token('alice')}"}).get("/datasets").status_code == 401
    )
    assert server.anonymous().post("/session", json={"token": session}).status_code == 401


def test_a_wrong_bearer_token_is_not_made_up_for_by_a_good_cookie(server: RunningServer) -> None:
    browser = server.browser("alice")
    assert browser.get("/datasets", headers={"Authorization": "Bearer dpx_wrong"}).status_code == 401


def test_nobody_signs_another_in_from_a_foreign_page(server: RunningServer) -> None:
    response = server.anonymous({"Origin": "https://evil.example"}).post(
        "/session", json={"token": server.token("alice")}
    )
    assert (response.status_code, "set-cookie" in response.headers) == (403, False)


def test_a_wrong_token_at_the_door_is_refused_without_repeating_it(server: RunningServer) -> None:
    response = server.anonymous().post("/session", json={"token": "dpx_secret", "extra": "dpx_secret"})
    assert response.status_code == 400
    assert "dpx_secret" not in response.text
    response = server.anonymous().post("/session", json={"token": "dpx_secret"})
    assert (response.status_code, "dpx_secret" in response.text) == (401, False)


def test_another_analysts_things_are_as_unknown_as_what_does_not_exist(server: RunningServer) -> None:
    mine, other = server.client("owner"), server.client("stranger")
    answer = mine.post("/datasets/people/query", json={"sql": COUNT, "rho": 0.1}).json()["address"]
    assert answer == "1@owner"
    why = {"answer": answer, "weights": [{"group": "F", "weight": 1}], "k": 1, "rho": 0.1}
    job = mine.post("/datasets/people/explain", params={"wait": 60}, json=why).json()["id"]
    assert mine.get(f"/jobs/{job}").status_code == 200
    for theirs, nobodys in (
        (f"/datasets/people/answers/{answer}", "/datasets/people/answers/9999"),
        (f"/datasets/people/releases/{answer}", "/datasets/people/releases/9999"),
        (f"/jobs/{job}", "/jobs/AAAAAAAAAAAAAAAAAAAAAAAA"),
    ):
        found, missing = other.get(theirs), other.get(nobodys)
        assert (
            (found.status_code, found.json()) == (missing.status_code, missing.json()) == (404, found.json())
        )
    for path in ("why", "explain", "prepare", "report", "explain/preview", "prepare/preview"):
        keys = {"why": ("answer", "weights")}.get(
            path, ("answer", "rho") if "prepare" in path else tuple(why)
        )
        body = {key: why[key] for key in keys}
        found = other.post(f"/datasets/people/{path}", json=body)
        missing = other.post(f"/datasets/people/{path}", json=body | {"answer": 9999})
        assert (found.status_code, found.json()) == (404, missing.json()), path
    assert other.delete(f"/jobs/{job}").status_code == 404
    assert other.get("/datasets/people/history").json()["entries"] == []


def test_what_the_curator_shares_is_seen_and_free(server: RunningServer) -> None:
    curator, author, reader = server.curator(), server.client("author"), server.client("guest")
    query = {"sql": "SELECT age, COUNT(*) FROM people GROUP BY age", "rho": 0.1}
    answer = author.post("/datasets/people/query", json=query).json()["address"]
    share = {"owner": "author", "reader": "guest", "reason": "one team"}
    assert curator.post("/datasets/people/shares", json=share).json()["shares"][-1]["reader"] == "guest"
    shared = reader.get(f"/datasets/people/answers/{answer}")
    assert (shared.status_code, shared.json()["id"], shared.json()["address"]) == (200, answer, answer)
    assert (
        reader.get("/datasets/people/answers/1").status_code == 404
    )  # the reader's own, of which there is none
    [line] = reader.get("/datasets/people/history").json()["entries"]
    assert (line["id"], line["address"], line["analyst"]) == (answer, answer, "author")
    assert reader.post("/datasets/people/query", json=query).json()["free"]
    curator.request("DELETE", "/datasets/people/shares", json=share).raise_for_status()
    assert reader.get(f"/datasets/people/answers/{answer}").status_code == 404


def test_true_values_are_marked_never_cached_and_written_down(server: RunningServer) -> None:
    curator = server.curator()
    at = "/datasets/people"
    curator.put(f"{at}/analysts/carol", json={"rho": 3, "reason": "tests"}).raise_for_status()
    answer = curator.post(f"{at}/query", json={"sql": SQL, "rho": 0.1}).json()["id"]
    why = {"answer": answer, "weights": WEIGHTS, "k": 2, "rho": 0.1}
    curator.post(f"{at}/explain", params={"wait": 60}, json=why).raise_for_status()
    told = [
        curator.get(f"{at}/answers/{answer}/truth"),
        curator.post(f"{at}/why/truth", json={"answer": answer, "weights": WEIGHTS}),
        curator.post(f"{at}/explain/truth", json=why),
    ]
    for response in told:
        assert response.status_code == 200, response.text
        assert response.headers["x-dpxplain-private"] == "false"
        assert response.headers["cache-control"] == "no-store"
        assert response.json()["private"] is False
        assert response.json()["rows"]
    viewed = [r for r in curator.get("/admin/audit").json()["records"] if r["action"] == "truth viewed"]
    assert [record["actor"] for record in viewed] == ["carol"] * 3
    assert curator.get("/admin/audit/verify").json()["intact"]
    unasked = curator.post(f"{at}/explain/truth", json=why | {"rho": 0.7})
    assert (unasked.status_code, unasked.json()["code"]) == (409, "not_stored")
