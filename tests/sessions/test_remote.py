"""What only a session at a server can meet: addresses, tokens, busy or vanished servers, and the CLI."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dpxplain as dpx
from dpxplain import remote
from dpxplain.cli import run as run_command
from opened import dataset_of
from server_fixture import COUNT, SQL, RunningServer, config_of, running_server

FOREIGN = "not come from a DPXPlain server"
GENEROUS = {"requests_per_minute": 100_000, "anonymous_per_minute": 100_000}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(config_of(tmp_path / "data", limits=GENEROUS)) as running:
        yield running


def connected(server: RunningServer, name: str = "alice", **options: Any) -> dpx.Session:
    return dpx.connect(f"{server.url}people", token=server.token(name), **options)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("https://host", "does not name a data set"),
        ("https:///people", "does not name a data set"),
        ("https://ann:secret@host/people", "must not contain a user name"),
        ("http://data.example/people", "does not send a token over plain http"),
    ],
)
def test_an_address_that_cannot_work_is_refused_before_anything_is_sent(address: str, problem: str) -> None:
    with pytest.raises(dpx.BadRequest, match=problem) as refused:
        dpx.connect(address, token="dpx_1_abc")
    assert "dpx_1_abc" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_local_schema_or_a_token_in_the_wrong_place_is_refused(server: RunningServer) -> None:
    with pytest.raises(dpx.BadRequest, match="server's schema"):
        dpx.connect(f"{server.url}people", schema="people.toml")
    with pytest.raises(dpx.BadRequest, match="only with a server"):
        dpx.connect("people.parquet", "people.toml", token="dpx_1_abc")


def test_without_a_token_or_with_a_wrong_one_nobody_enters(server: RunningServer, monkeypatch: Any) -> None:
    with pytest.raises(dpx.Denied, match="needs a token"):
        dpx.connect(f"{server.url}people")
    with pytest.raises(dpx.Denied):
        dpx.connect(f"{server.url}people", token="dpx_1_" + "a" * 43)
    monkeypatch.setenv("DPXPLAIN_TOKEN", server.token("alice"))
    with dpx.connect(f"{server.url}people") as session:
        assert session.budget.limit == 5.0


def test_a_token_of_an_analyst_does_not_open_the_curators_view(server: RunningServer) -> None:
    with pytest.raises(dpx.CuratorOnly, match="not a curator's"):
        connected(server, curator=True)


def test_a_data_set_that_is_not_there_is_denied(server: RunningServer) -> None:
    with pytest.raises(dpx.Denied, match="no such data set"):
        dpx.connect(f"{server.url}payroll", token=server.token("alice"))


def test_the_token_shows_in_no_repr(server: RunningServer) -> None:
    with connected(server) as session:
        token = server.token("alice")
        shown = repr(session) + repr(dataset_of(session)) + repr(dataset_of(session).releaser._server)
        assert token not in shown
        assert token.split("_", 2)[2] not in shown  # the secret may hold further ones


def test_analysts_share_the_data_and_not_their_history(server: RunningServer) -> None:
    with connected(server, "alice") as alice, connected(server, "bob") as bob:
        answer = alice.query(COUNT, rho=0.5)
        assert bob.history == []
        assert not bob.query(COUNT, rho=0.5).free
        with pytest.raises(dpx.BadRequest, match="no answer number"):
            bob.answer(f"{answer.id}@alice")
        assert (alice.budget.spent, bob.budget.spent) == (0.5, 0.5)
        assert alice.budget.shared_remaining == 9.0


def _look(session: dpx.Session, times: int) -> None:
    for _ in range(times):
        assert session.budget.limit == 5.0


def test_a_server_asked_too_often_is_asked_again_when_it_says(tmp_path: Path, monkeypatch: Any) -> None:
    config = config_of(tmp_path / "data", limits={"requests_per_minute": 60})
    with running_server(config) as server, connected(server) as session:
        advance, pauses = server.stop_refilling(), []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            advance(seconds)

        monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=pause))
        _look(session, 63)
        assert len(pauses) >= 3
        assert set(pauses) == {1.0}


def test_patience_with_a_busy_server_ends(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(remote, "LONGEST_PATIENCE", 0.01)
    config = config_of(tmp_path / "data", limits={"requests_per_minute": 5})
    refused = pytest.raises(dpx.Unavailable, match="Too many requests")
    with running_server(config) as server, connected(server) as session, refused:
        _look(session, 20)


def test_a_server_that_is_gone_is_said_to_be_gone(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(remote, "LONGEST_PATIENCE", 1.0)
    with running_server(config_of(tmp_path / "data", limits=GENEROUS)) as server:
        session = connected(server)
    with session, pytest.raises(dpx.Unavailable, match=r"cannot be reached|broke"):
        session.query(SQL, rho=0.1)


@pytest.mark.parametrize("code", ["busy", "too_many_requests", "too_many_at_once", "issuer_unavailable"])
def test_what_may_work_later_is_unavailable_and_no_bad_request(code: str) -> None:
    error = remote.error_of_response({"code": code, "message": "Not now.", "remedy": "Wait."}, {})
    assert type(error) is dpx.Unavailable


def test_something_else_at_the_address_is_not_taken_for_a_server() -> None:
    elsewhere = pretender(lambda _path: (200, b"<html>hello</html>"))
    with elsewhere as url, pytest.raises(dpx.Unavailable, match=FOREIGN):
        dpx.connect(url, token="dpx_1_a")


def test_long_work_tells_its_progress(server: RunningServer) -> None:
    stages: list[str] = []
    with connected(server, progress=stages.append) as session:
        answer = session.query(SQL, rho=0.5)
        assert isinstance(answer, dpx.Answer)
        assert len(answer.why("North", "South").explain(k=2, rho=0.5, mechanism="one-shot")) == 2
    assert all(isinstance(stage, str) for stage in stages)


def test_the_command_line_asks_a_server(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPXPLAIN_TOKEN", server.token("alice"))
    monkeypatch.setenv("DPXPLAIN_DATA", f"{server.url}people")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> dict[str, Any]:
        code = run_command([*words, "--json"])
        output = capfd.readouterr()
        assert code == 0, output.err
        result: dict[str, Any] = json.loads(output.out)
        return result

    answer = run("query", SQL, "--rho", "0.5", "--yes")
    assert (answer["free"], answer["budget"]["rho"]["spent"]) == (False, 0.5)
    assert run("why", "North", "South")["verdict"] == "real"
    assert run("prepare", "--rho", "0.5", "--yes")["free"] is False
    assert run("explain", "North", "South", "--k", "2")["free"] is True
    assert run("budget")["rho"]["remaining"] == 4.0
    assert [entry["kind"] for entry in run("history")["entries"]] == ["query", "prepare"]


@contextmanager
def pretender(answers: Callable[[str], Any]) -> Iterator[str]:
    """A server that is not ours, and may be hostile."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        def log_message(self, *_: object) -> None: ...

    other = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=other.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{other.server_port}/people"
    finally:
        other.shutdown()
        other.server_close()
        thread.join()


ME = {"name": "alice", "role": "analyst"}


def test_a_hostile_server_cannot_make_the_client_open_a_local_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.toml"
    secret.write_text("[table]\nname = 'mine'\n")

    def answers(path: str) -> Any:
        return 200, ME if path.endswith("/me") else {"schema": str(secret)}

    with pretender(answers) as url, pytest.raises(dpx.Unavailable, match=FOREIGN):
        dpx.connect(url, token="dpx_1_a")


def test_a_hostile_servers_words_cannot_command_a_terminal() -> None:
    shape = {
        "code": "bad_request",
        "message": "\x1b]0;gotcha\x07Hello\x1b[2J",
        "remedy": "",
        "position": None,
    }
    with pretender(lambda _path: (400, shape)) as url, pytest.raises(dpx.BadRequest) as refused:
        dpx.connect(url, token="dpx_1_a")
    assert "Hello" in str(refused.value)
    assert all(sign.isprintable() for sign in str(refused.value))


def test_a_hostile_servers_flood_is_cut_off(monkeypatch: Any) -> None:
    monkeypatch.setattr(remote, "MOST_BYTES", 10_000)
    flood = pretender(lambda _path: (200, b" " * 1_000_000))
    with flood as url, pytest.raises(dpx.Unavailable, match="more than"):
        dpx.connect(url, token="dpx_1_a")


def test_a_token_for_this_machine_does_not_go_through_a_proxy(
    server: RunningServer, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with connected(server) as session:
        assert session.budget.limit == 5.0
