"""Clients that send without end, too slowly or not at all, or do not read: only their connection ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from slow_engine import slow_down

from dpxplain.server import app
from server_fixture import COUNT, SQL, RunningServer, config_of, running_server

HEAD = "GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LOOK = 0.2


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that looks at its connections often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "SECONDS_BETWEEN_CHECKS", LOOK)
        with running_server(config_of(tmp_path_factory.mktemp("slow"))) as server:
            yield server


def connected(server: RunningServer) -> socket.socket:
    """A client that has little room for what it does not read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.settimeout(30)
    client.connect(("127.0.0.1", int(server.url.rstrip("/").rpartition(":")[2])))
    return client


def read_to_its_end(client: socket.socket) -> bytes:
    """All that comes until the server ends the connection; raises TimeoutError if it does not."""
    content = b""
    with suppress(ConnectionError):
        while part := client.recv(65_536):
            content += part
    return content


def keep_sending(client: socket.socket) -> None:
    for _ in range(300):
        client.sendall(b"\r\n")
        time.sleep(LOOK)


@pytest.mark.parametrize("part", ["a" * 1_000, "\r\nX-Many: a" * 100], ids=["long", "many"])
def test_a_head_without_end_is_refused(server: RunningServer, part: str) -> None:
    with connected(server) as client:
        client.sendall(f"{HEAD}X-Long: ".encode())
        with suppress(ConnectionError):
            for _ in range(100):
                client.sendall(part.encode())
        read_to_its_end(client)
    assert server.anonymous().get("/health").status_code == 200


@pytest.mark.parametrize(
    "sent", ["", "GET /api", f"{HEAD}\r\n\r\n"], ids=["nothing", "a part", "a line after a request"]
)
def test_a_connection_on_which_nothing_more_comes_is_ended(impatient: RunningServer, sent: str) -> None:
    with connected(impatient) as client:
        client.sendall(sent.encode())
        assert (b"200 OK" in read_to_its_end(client)) == (HEAD in sent)


def test_a_body_that_does_not_come_is_not_waited_for(impatient: RunningServer) -> None:
    head = "POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500000\r\n\r\n"
    with connected(impatient) as client:
        client.sendall(head.encode() + b"x" * 400_000)
        assert read_to_its_end(client) == b""


def test_responses_that_are_not_read_are_dropped(impatient: RunningServer) -> None:
    request = "GET /api/v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connected(impatient) as client:
        client.sendall(request.encode() * 50)
        assert client.recv(1) == b"H"
        with pytest.raises(ConnectionError):  # once the server has ended the connection
            keep_sending(client)


def test_who_waits_for_the_server_keeps_the_connection(impatient: RunningServer) -> None:
    client, engine = impatient.client(), slow_down(impatient)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.post, "/datasets/people/query", json={"sql": SQL, "rho": 0.1})
        try:
            assert engine.entered.acquire(timeout=60)
            time.sleep(5 * LOOK)
        finally:
            engine.go.set()
        assert asked.result().status_code == 200


def test_a_line_after_a_request_does_not_end_the_connection_while_the_server_works(
    impatient: RunningServer,
) -> None:
    body = f'{{"sql": "{COUNT}", "rho": 0.2}}'
    token = impatient.token("bob")
    request = (
        f"POST /api/v1/datasets/people/query HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    engine = slow_down(impatient)
    with connected(impatient) as client:
        client.sendall(request.encode())
        try:
            assert engine.entered.acquire(timeout=60)
            client.sendall(b"\r\n")
            time.sleep(5 * LOOK)
        finally:
            engine.go.set()
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")
