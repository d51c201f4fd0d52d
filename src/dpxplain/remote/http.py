"""HTTP to a server: addresses, its certificate, the token, retries, and its errors as our own exceptions.

A request that is answered with 429 or 503 is sent again after the pause that the server asks for. It is
charged once, since the server finds an earlier charge by the request's key. After a lost connection, a GET is
sent again, and a release is looked up by its key. It is not requested again: if the server's process is gone,
its charge stays, and the person decides whether to pay again.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx

from dpxplain.errors import BadRequest, Denied, DPXPlainError, InternalError, QueryRefused, Unavailable
from dpxplain.phases.dataset import Progress
from dpxplain.wire import PROTOCOL, PROTOCOL_HEADER

MOST_BYTES = 500_000_000  # a preparation of two million cells is a tenth of it
LONGEST_PATIENCE = 60.0  # seconds that one request spends in pauses
_WAIT = 20  # seconds a request for a job's state stays open
_FIRST_PAUSE, _SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_JOBS = 0.5, 2.0, 5.0
_LEDGER_AWAY = "ledger_unavailable"
_LOCAL = ("localhost", "127.0.0.1", "::1")


class OtherPlan(BadRequest):
    """The server planned the request differently and charged nothing."""


class DatasetServer:
    """One data set's address at a server, with the token that opens it."""

    def __init__(self, url: str, token: str | None, ca: str | Path | None = None) -> None:
        parts = urlsplit(url)
        *path_prefix, self.dataset = [part for part in parts.path.split("/") if part] or [""]
        if not parts.hostname or not self.dataset:
            raise BadRequest(
                "The address does not name a data set.", remedy="Write it as https://host/data-set."
            )
        if parts.username or parts.password:
            raise BadRequest(
                "The address must not contain a user name or password.",
                remedy="Remove the part before @, and pass token=...",
            )
        # A single-user server prints its address with ?key=..., which is of no use at any other server.
        [key] = parse_qs(parts.query).get("key", [None])[:1]
        token = token or key or os.environ.get("DPXPLAIN_TOKEN")
        if token and parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise BadRequest(
                "DPXPlain does not send a token over plain http.",
                remedy="Use https://, so that nobody else can read the token.",
            )
        self._home = f"{parts.scheme}://{parts.netloc}"
        self._was_reached = False
        base = "/".join([self._home, *path_prefix, "api", "v1"])
        headers = {PROTOCOL_HEADER: str(PROTOCOL)}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        # Requests to this machine, and the tokens in them, are not sent through a proxy.
        local = parts.hostname in _LOCAL
        self._client = httpx.Client(
            base_url=base,
            headers=headers,
            timeout=_WAIT + 70.0,
            trust_env=not local,
            verify=verification(ca) if parts.scheme == "https" else True,
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"<{self.dataset} at {self._home}>"

    def enter(self) -> Any:
        """The server's description of the data set, and the caller's role."""
        try:
            return self.get()
        except Denied:
            if "Authorization" in self._client.headers:
                raise
            raise Denied(
                f"{self._home} needs a token.",
                remedy="Pass token=..., or set DPXPLAIN_TOKEN. The curator can give you a token.",
            ) from None

    def close(self) -> None:
        self._client.close()

    def get(self, path: str = "", timer: RetryTimer | None = None) -> Any:
        return self._send("GET", self._dataset_path(path), timer=timer)

    def post(self, path: str, body: Mapping[str, Any], timer: RetryTimer | None = None) -> Any:
        return self._send("POST", self._dataset_path(path), body, timer)

    def release(self, kind: str, body: Mapping[str, Any], progress: Progress) -> Any:
        """A release with its ledger entry. Preparing and explaining run as jobs; this waits for their end."""
        timer = RetryTimer()
        while True:
            try:
                if kind in ("query", "quality", "discover"):
                    return self.post(f"/{kind}?form=release", body, timer)
                return self._run_job(f"/{kind}?form=release&wait={_WAIT}", body, progress, timer)
            except ConnectionLost as lost:
                stored = self._find_stored(str(body["expected_key"]), timer)
                if stored is None:
                    raise Unavailable(lost.problem, remedy=lost.remedy) from None
                return stored | {"free": False}
            except _JobInterrupted as interrupted:
                if not timer.wait(_SECONDS_BETWEEN_JOBS):
                    raise error_of_response(interrupted.shape, body) from None

    def _find_stored(self, key: str, timer: RetryTimer) -> dict[str, Any] | None:
        """The release that was stored under the request's key; None if none appears in time."""
        while True:
            try:
                release: dict[str, Any] = self.get(f"/releases?key={quote(key)}", timer)
                return release
            except Denied:  # nothing is stored yet
                if not timer.wait(_SECONDS_BETWEEN_LOOKS):
                    return None
            except Unavailable:
                return None

    def _dataset_path(self, path: str) -> str:
        return f"/datasets/{quote(self.dataset, safe='')}{path}"

    def _run_job(self, path: str, body: Mapping[str, Any], progress: Progress, timer: RetryTimer) -> Any:
        """Starts a job and waits for its result; an interrupt (Ctrl-C) cancels it."""
        job = self.post(path, body, timer)
        stage = ""
        try:
            while job["state"] in ("queued", "running"):
                if job["stage"] != stage:
                    stage = job["stage"]
                    progress(stage)
                job = self._send("GET", f"/jobs/{job['id']}?form=release&wait={_WAIT}", timer=timer)
        except KeyboardInterrupt:
            self._send("DELETE", f"/jobs/{job['id']}")
            raise
        if job["state"] == "done":
            return job["result"]
        if job["error"]:
            if job["error"].get("code") == _LEDGER_AWAY:
                raise _JobInterrupted(job["error"])
            raise error_of_response(job["error"], body)
        raise Unavailable(
            f"The server could not finish the request ({job['state']}). If it was charged, the charge stays.",
            remedy="The history shows the charge. Repeat the request.",
        )

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timer: RetryTimer | None = None,
    ) -> Any:
        timer = timer or RetryTimer()
        while True:
            try:
                with self._client.stream(method, path, json=body) as response:
                    content = _bounded_body(response)
            except httpx.ConnectError as error:  # nothing was sent
                if (problem := certificate_problem(error, self._home)) is not None:
                    raise problem from None
                if not (self._was_reached and timer.wait()):
                    raise Unavailable(
                        f"{self._home} cannot be reached.", remedy="Check the address. Is the server running?"
                    ) from None
                continue
            except httpx.HTTPError:
                if method == "GET" and timer.wait():
                    continue
                raise ConnectionLost(
                    f"The connection to {self._home} was lost.",
                    remedy="Repeat the request. It is free if the server has already stored the answer.",
                ) from None
            self._was_reached = True
            if response.status_code not in (429, 503) or not timer.wait(_retry_after(response)):
                return _read(response.status_code, content, body)


class ConnectionLost(Unavailable):
    """A request was sent, but its response did not arrive."""


class _JobInterrupted(Exception):
    """A job ended because the server's ledger was unavailable; asking again charges nothing twice."""

    def __init__(self, shape: Mapping[str, Any]) -> None:
        super().__init__()
        self.shape = shape


class RetryTimer:
    """Limits the time that one request spends in pauses, which double unless the server sets them."""

    def __init__(self) -> None:
        self._left = LONGEST_PATIENCE
        self._next_pause = _FIRST_PAUSE

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the given seconds or the next pause; returns False at once if that is too long."""
        if seconds is None:
            seconds, self._next_pause = self._next_pause, 2 * self._next_pause
        if seconds > self._left:
            return False
        self._left -= seconds
        time.sleep(seconds)
        return True


def _retry_after(response: httpx.Response) -> float:
    try:
        return max(0.1, float(response.headers.get("Retry-After", 1)))
    except ValueError:
        return 1.0


def _bounded_body(response: httpx.Response) -> bytes:
    """The body of a response; refuses one that is larger than a DPXPlain server sends."""
    received = bytearray()
    for part in response.iter_bytes():
        received += part
        if len(received) > MOST_BYTES:
            raise Unavailable(
                f"The server's response has more than {MOST_BYTES:,} bytes.",
                remedy="Ask for fewer groups or cells.",
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
        raise error_of_response(content, body or {})
    raise not_a_server(status)


def not_a_server(status: int | None = None) -> Unavailable:
    detail = "" if status is None else f" (status {status})"
    return Unavailable(
        f"The answer does not come from a DPXPlain server{detail}.",
        remedy="Check the address. It should look like https://host/data-set.",
    )


def error_of_response(shape: Mapping[str, Any], body: Mapping[str, Any]) -> DPXPlainError:
    """The server's error as the exception that local use would have raised."""
    code, message, remedy = (_printable(shape[name]) for name in ("code", "message", "remedy"))
    position = shape.get("position")
    if code == QueryRefused.code():
        if not position:
            return QueryRefused(message, remedy=remedy)
        prefix = f"line {position['line']}, column {position['column']}: "
        return QueryRefused(
            message.removeprefix(prefix),
            remedy=remedy,
            sql=body.get("sql", ""),
            start=position["start"],
            end=position["end"],
        )
    own_errors: dict[str, type[DPXPlainError]] = {kind.code(): kind for kind in _subclasses(DPXPlainError)}
    server_errors: dict[str, type[DPXPlainError]] = {
        "not_found": Denied,
        "unauthorized": Denied,
        "forbidden": Denied,
        "busy": Unavailable,
        _LEDGER_AWAY: Unavailable,
        "too_slow": Unavailable,
        "cancelled": Unavailable,
        "failed_after_charge": InternalError,
        "not_shown": InternalError,
        "lost": InternalError,
        "too_many_requests": Unavailable,
        "too_many_at_once": Unavailable,
        "issuer_unavailable": Unavailable,
        "internal": InternalError,
        "other_plan": OtherPlan,
    }
    kind = (own_errors | server_errors).get(code, BadRequest)
    return kind(message, remedy=remedy)


def _printable(text: object) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in str(text))


def _subclasses(root: type[DPXPlainError]) -> Iterator[type[DPXPlainError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _subclasses(kind)


CA_VARIABLE = "DPXPLAIN_CA"
_EXPIRED, _NOT_YET, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64  # OpenSSL's X509_V_ERR_*
_UNKNOWN_ISSUER = (18, 19, 20, 21)
_CA_REMEDY = "Pass ca=FILE, or set DPXPLAIN_CA or SSL_CERT_FILE, with the issuer's certificate in PEM format."


def verification(ca: str | Path | None) -> ssl.SSLContext | bool:
    """How to check a server's certificate: against `ca`, DPXPLAIN_CA or SSL_CERT_FILE, in this order.

    Without any of these, SSL_CERT_DIR is used, or else the authorities that browsers know. Servers on this
    machine are checked in the same way.
    """
    file = ca or os.environ.get(CA_VARIABLE) or os.environ.get("SSL_CERT_FILE")
    folder = os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return True
    try:
        return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    except (OSError, ssl.SSLError):
        raise BadRequest(
            f"The CA file {str(file or folder)!r} cannot be read, or contains no certificate.",
            remedy="Name a file with certificates in PEM format, which begin with -----BEGIN "
            "CERTIFICATE-----.",
        ) from None


def certificate_problem(error: BaseException, home: str) -> Unavailable | None:
    """The error about the server's TLS or certificate, if that is why the connection failed; else None."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return Unavailable(
            f"{home} does not use TLS, or uses a version that this client does not support.",
            remedy="Check the address and the port. Does the server use http://?",
        )
    code = cause.verify_code
    if code in _UNKNOWN_ISSUER:
        return Unavailable(
            f"This machine does not know the issuer of the certificate of {home}.", remedy=_CA_REMEDY
        )
    if code in (_OTHER_NAME, _OTHER_ADDRESS):
        return Unavailable(
            f"The certificate of {home} is for another host name.",
            remedy="Use the host name in the certificate, or ask for a certificate with this name.",
        )
    if code == _EXPIRED:
        return Unavailable(
            f"The certificate of {home} has expired.",
            remedy="The server's operator must renew it. Also check the clock of this machine.",
        )
    if code == _NOT_YET:
        return Unavailable(
            f"The certificate of {home} is not valid yet.", remedy="Check the clock of this machine."
        )
    return Unavailable(f"This machine does not accept the certificate of {home}.", remedy=_CA_REMEDY)
