"""Talking to a server: addresses, the token, and its errors as our own exceptions.

A request that the server refused for being busy charged nothing, so it is sent again after the pause it
asks for. A connection lost on the way is not: the server may have charged it, and the person decides.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx

from dpxplain.errors import BadRequest, Denied, DPXPlainError, InternalError, QueryRefused, Unavailable
from dpxplain.phases.dataset import Progress
from dpxplain.wire import PROTOCOL, PROTOCOL_HEADER

MOST_BYTES = 500_000_000  # a preparation of two million cells is a tenth of it
LONGEST_PATIENCE = 60.0  # seconds spent waiting for a busy server
_WAIT = 20  # seconds a request for a job's state stays open
_LOCAL = ("localhost", "127.0.0.1", "::1")


class OtherPlan(BadRequest):
    """The server planned the request differently and charged nothing."""


class DatasetServer:
    """One data set's address at a server, with the token that opens it."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        *before, self.dataset = [part for part in parts.path.split("/") if part] or [""]
        if not parts.hostname or not self.dataset:
            raise BadRequest("The address names no data set.", remedy="Write it as https://host/data-set.")
        if parts.username or parts.password:
            raise BadRequest("An address is no place for a secret.", remedy="Pass token=..., without user@.")
        # As a single user's server prints it; its key is worth nothing anywhere else.
        [key] = parse_qs(parts.query).get("key", [None])[:1]
        token = token or key or os.environ.get("DPXPLAIN_TOKEN")
        if token and parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise BadRequest(
                "A token is not sent over plain http.", remedy="Use https://, as tokens open the data set."
            )
        self._home = f"{parts.scheme}://{parts.netloc}"
        base = "/".join([self._home, *before, "api", "v1"])
        headers = {PROTOCOL_HEADER: str(PROTOCOL)}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        # A proxy for the outside world has no business with this machine's own servers and their tokens.
        local = parts.hostname in _LOCAL
        self._client = httpx.Client(
            base_url=base, headers=headers, timeout=_WAIT + 70.0, trust_env=not local, follow_redirects=False
        )

    def __repr__(self) -> str:
        return f"<{self.dataset} at {self._home}>"

    def enter(self) -> str:
        """Check that the server lets us in, and return the role it knows us by."""
        me = self._send("GET", "/me")
        if me["name"] is None:
            raise Denied(
                f"{self._home} wants a token.",
                remedy="Pass token=..., or set DPXPLAIN_TOKEN; the curator makes tokens.",
            )
        return str(me["role"])

    def close(self) -> None:
        self._client.close()

    def get(self, path: str = "") -> Any:
        return self._send("GET", self._of_dataset(path))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._send("POST", self._of_dataset(path), body)

    def release(self, kind: str, body: Mapping[str, Any], progress: Progress) -> Any:
        """A release with its ledger entry; preparing and explaining are jobs, and are waited for."""
        if kind in ("query", "quality"):
            return self.post(f"/{kind}?form=release", body)
        return self._finished(f"/{kind}?form=release&wait={_WAIT}", body, progress)

    def _of_dataset(self, path: str) -> str:
        return f"/datasets/{quote(self.dataset, safe='')}{path}"

    def _finished(self, path: str, body: Mapping[str, Any], progress: Progress) -> Any:
        """The result of a job: asked for, followed, and called off if the person interrupts."""
        job = self.post(path, body)
        stage = ""
        try:
            while job["state"] in ("queued", "running"):
                if job["stage"] != stage:
                    stage = job["stage"]
                    progress(stage)
                job = self._send("GET", f"/jobs/{job['id']}?form=release&wait={_WAIT}")
        except KeyboardInterrupt:
            self._send("DELETE", f"/jobs/{job['id']}")
            raise
        if job["state"] == "done":
            return job["result"]
        if job["error"]:
            raise understood(job["error"], body)
        raise Unavailable(
            f"The server could not finish the request ({job['state']}); a charge made for it stays.",
            remedy="The history shows it. Ask again.",
        )

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        for pause in _pauses():
            try:
                with self._client.stream(method, path, json=body) as response:
                    content = _received(response)
            except httpx.ConnectError:
                raise Unavailable(
                    f"{self._home} cannot be reached.", remedy="Check the address; is the server running?"
                ) from None
            except httpx.HTTPError:
                raise Unavailable(
                    f"The connection to {self._home} broke.",
                    remedy="Ask the same again: if the answer was stored meanwhile, it is free.",
                ) from None
            if response.status_code not in (429, 503) or not pause(response):
                return _read(response.status_code, content, body)
        raise AssertionError("the last pause is refused")


def _pauses() -> Iterator[Any]:
    """Waits as long as the server asks, a few times and not for ever."""
    left = LONGEST_PATIENCE

    def pause(response: httpx.Response) -> bool:
        nonlocal left
        try:
            seconds = max(0.1, float(response.headers.get("Retry-After", 1)))
        except ValueError:
            seconds = 1.0
        if seconds > left:
            return False
        left -= seconds
        time.sleep(seconds)
        return True

    while True:
        yield pause


def _received(response: httpx.Response) -> bytes:
    """What the server sends, up to a size that no honest server reaches."""
    received = bytearray()
    for part in response.iter_bytes():
        received += part
        if len(received) > MOST_BYTES:
            raise Unavailable(
                f"The server sends more than {MOST_BYTES:,} bytes.", remedy="Ask for fewer groups or cells."
            )
    return bytes(received)


def _read(status: int, received: bytes, body: Mapping[str, Any] | None) -> Any:
    try:
        content = json.loads(received)
    except ValueError:
        raise not_a_server(status) from None
    if 200 <= status < 300:
        return content
    if isinstance(content, dict) and {"code", "message", "remedy"} <= content.keys():
        raise understood(content, body or {})
    raise not_a_server(status)


def not_a_server(status: int | None = None) -> Unavailable:
    detail = "" if status is None else f" (status {status})"
    return Unavailable(
        f"Something that is not a DPXPlain server answered{detail}.",
        remedy="Check the address: https://host/data-set.",
    )


def understood(shape: Mapping[str, Any], body: Mapping[str, Any]) -> DPXPlainError:
    """The server's error as the exception that local use would have raised."""
    code, message, remedy = (_visible(shape[name]) for name in ("code", "message", "remedy"))
    position = shape.get("position")
    if code == QueryRefused.code():
        if not position:
            return QueryRefused(message, remedy=remedy)
        before = f"line {position['line']}, column {position['column']}: "
        return QueryRefused(
            message.removeprefix(before),
            remedy=remedy,
            sql=body.get("sql", ""),
            start=position["start"],
            end=position["end"],
        )
    known: dict[str, type[DPXPlainError]] = {kind.code(): kind for kind in _kinds(DPXPlainError)}
    elsewhere: dict[str, type[DPXPlainError]] = {
        "not_found": Denied,
        "unauthorized": Denied,
        "forbidden": Denied,
        "busy": Unavailable,
        "too_slow": Unavailable,
        "cancelled": Unavailable,
        "failed_after_charge": InternalError,
        "lost": InternalError,
        "too_many_requests": Unavailable,
        "internal": InternalError,
        "other_plan": OtherPlan,
    }
    kind = (known | elsewhere).get(code, BadRequest)
    return kind(message, remedy=remedy)


def _visible(text: object) -> str:
    """Without control characters: a terminal would obey them."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in str(text))


def _kinds(root: type[DPXPlainError]) -> Iterator[type[DPXPlainError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _kinds(kind)
