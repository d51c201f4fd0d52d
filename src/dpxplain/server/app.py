"""The ASGI application with its middleware, the limits on its connections, and running it under Uvicorn."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import ssl
import time
from asyncio import Transport
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from anyio.to_thread import run_sync
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dpxplain import __version__
from dpxplain.datasets import path as bundled
from dpxplain.errors import BadRequest, SchemaError, SourceError
from dpxplain.ledger.address import LedgerAddress
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.model.display import public
from dpxplain.server import problems
from dpxplain.server.authenticate import API, PREFIX, Authentication, method_of, route_of
from dpxplain.server.config import Config, Serving, is_loopback
from dpxplain.server.context import Server
from dpxplain.server.metrics import Metrics
from dpxplain.server.problems import LOG, respond, too_large
from dpxplain.server.registry import check_folders
from dpxplain.server.routes import curate, phases, site

# -- Headers, log and body size ----------------------------------------------------------------------------

UPLOADS = f"{PREFIX}/admin/files/"
ACCESS = logging.getLogger("dpxplain.server.access")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# 'unsafe-inline' is only for charts and the API's documentation, which set styles on elements.

ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), browsing-topics=()",
}
HSTS = "max-age=31536000"


class SecurityHeaders:
    """Adds the headers to every response, including errors. Keeps a header that a route has set."""

    def __init__(self, app: ASGIApp, *, secure: bool) -> None:
        self._app = app
        self._always = ALWAYS | ({"Strict-Transport-Security": HSTS} if secure else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._always.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store" if path.startswith(API) else "no-cache")
            await send(message)

        await self._app(scope, receive, send_with_headers)


class AccessLog:
    """Writes one log line and one count per request. Also answers exceptions that nothing else has caught.

    It logs the method, the route's template, the status, the time, the person, the id of their credential and
    the data set, if it is one of ours. It never logs an address with its values, a body, SQL or the text of
    an exception.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 0

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note_status)
        except Exception as error:  # otherwise Uvicorn would print its text
            response = respond(error)
            if not status:
                await response(scope, receive, send_and_note_status)
        seconds = time.monotonic() - started
        method, route = method_of(scope), route_of(scope)
        state = scope.get("state", {})
        caller, dataset = state.get("caller"), state.get("dataset", "-")
        self._metrics.observe(method, route, status, seconds)
        person, credential = (caller.logged_name, caller.id) if caller else ("-", "-")
        ACCESS.info(
            "%s %s %d %.0fms person=%s credential=%s dataset=%s",
            method,
            route,
            status,
            seconds * 1000,
            person,
            credential,
            dataset,
        )


class BodyLimit:
    """Refuses bodies beyond the limit, including those sent without a Content-Length."""

    def __init__(self, app: ASGIApp, *, most: int, most_uploaded: int) -> None:
        self._app = app
        self._most = most
        self._most_uploaded = max(most, most_uploaded)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = scope["method"] == "PUT" and scope["path"].startswith(UPLOADS)
        most = self._most_uploaded if is_upload else self._most
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > most:
            await respond(too_large())(scope, receive, send)
            return
        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413)  # FastAPI would turn any other exception into its own
            return message

        await self._app(scope, receive_limited, send)


# -- Application -------------------------------------------------------------------------------------------
#
# A request passes security headers, access log, body limit and authentication, in this order, before its
# route.

DESCRIPTION = """Differentially private answers that explain themselves.

Send `Authorization: Bearer TOKEN`. Every error has one shape: code, message, remedy, position."""


def ledger_of(config: Config, address: LedgerAddress | None, *, create: bool = False) -> SQLLedger:
    """Opens the ledger at the address; without an address, a new one in memory.

    A missing ledger is created with `create`, or if it is a workspace's own.
    """
    if address is None:
        return open_ledger(None)
    return open_ledger(
        address.place,
        anchor=address.anchor,
        create=create or address.is_workspace,
        busy_seconds=config.limits.ledger_seconds,
    )


def create_app(config: Config, ledger: SQLLedger | None = None) -> FastAPI:
    """The application with its data sets open. Shutdown ends its work, and closes a ledger opened here."""
    opened_ledger = ledger
    if opened_ledger is None:
        opened_ledger = ledger_of(config, config.ledger_address)
    try:
        server = Server(config, opened_ledger)
    except BaseException:
        if ledger is None:
            opened_ledger.close()
        raise

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_sync(server.close)
        if ledger is None:
            opened_ledger.close()

    app = FastAPI(
        title="DPXPlain",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(SecurityHeaders, secure=config.server.secure),
            Middleware(AccessLog, metrics=server.metrics),
            Middleware(BodyLimit, most=config.limits.body_bytes, most_uploaded=config.limits.upload_bytes),
            Middleware(
                Authentication,
                authenticator=server.authenticator,
                hosts=config.hosts,
                origin=(config.server.public_url or "").rstrip("/") or None,
                rates=server.rates,
                health=server.ledger_health,
                metrics=server.metrics,
            ),
        ],
    )
    app.state.server = server
    for router in (*site.ROUTERS, *phases.ROUTERS, *curate.ROUTERS):
        # Not include_router: it would build every route's validators again at the first request.
        app.router.routes.extend(router.routes)
    if site.STATIC.is_dir():
        app.mount("/", site.BuiltFiles(directory=site.STATIC), name="page")
    problems.install(app, site.methods)
    site.install_document(app)
    return app


# -- Connections -------------------------------------------------------------------------------------------
#
# Uvicorn limits none of these: a request's head may have any length, and it waits for a client without end,
# whether the client sends too slowly, not at all, or does not read the response.

MOST_HEAD_BYTES = 64_000
SECONDS_BETWEEN_CHECKS = 30.0
_LEAST_BYTES = 30_000  # between two checks, while the client has to send or to read


class BoundedConnection(HttpToolsProtocol):
    """Closes a connection if the request's head is too long, or if the client keeps the server waiting."""

    _is_sending = True  # whether the client is expected to send, as before its first byte
    _was_sending = False  # whether it was sending the same request at the last check
    _in_head = True
    _head = _received = _unread = 0
    _has_read = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._next_check = self.loop.call_later(SECONDS_BETWEEN_CHECKS, self._check_client)

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_check.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._is_sending = True
        self._received += len(data)
        self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > MOST_HEAD_BYTES and not self.transport.is_closing():
            if self._is_answering:  # the client would take a refusal for the response that it awaits
                self.transport.abort()
            else:
                self.send_400_response("The request's header is too long.")

    def on_headers_complete(self) -> None:
        self._in_head, self._has_read = False, True  # unread bytes now belong to another response
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_sending = self._was_sending = False
        self._in_head, self._head = True, 0
        super().on_message_complete()

    def resume_writing(self) -> None:
        self._has_read = True
        super().resume_writing()

    @property
    def _is_answering(self) -> bool:
        """Whether a request has arrived completely and its response has not been sent yet."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _check_client(self) -> None:
        unread = self.transport.get_write_buffer_size()
        is_slow_reader = 0 < self._unread <= unread + _LEAST_BYTES and unread > 0 and not self._has_read
        is_awaited = self._was_sending and not self.flow.read_paused and not self._is_answering
        is_slow_sender = is_awaited and self._received < _LEAST_BYTES
        if is_slow_reader or is_slow_sender:
            self.transport.abort()
            return
        self._received, self._unread, self._has_read = 0, unread, False
        self._was_sending = self._is_sending
        self._next_check = self.loop.call_later(SECONDS_BETWEEN_CHECKS, self._check_client)


# -- Running -----------------------------------------------------------------------------------------------

GRACE_SECONDS = 15


def example_config(name: str, *, host: str = "127.0.0.1", port: int = 0) -> Config:
    """Configuration of a single-user server on bundled data: no login, reachable from this machine only."""
    return single_user_config(bundled(f"{name}.toml"), host=host, port=port)


def single_user_config(schema: Path, *, host: str = "127.0.0.1", port: int = 0) -> Config:
    """Configuration of a single-user server on one schema. Raises if other machines could reach the host."""
    if not is_loopback(host):
        raise BadRequest(
            "Without a configuration there is no login, so only this machine may reach the server.",
            remedy="Leave out --host, or write a configuration: dpxplain serve CONFIG.toml",
        )
    return Config(server=Serving(host=host, port=port, datasets=(schema,)), single_user=True)


@public("Opening", "ledger is_new records head datasets unavailable")
@dataclass(frozen=True)
class Opening:
    """What a server opened at its start. It is reported before the address."""

    ledger: str
    is_new: bool
    records: int
    head: str
    datasets: tuple[str, ...]
    unavailable: dict[str, str]
    """Declared data sets whose data cannot be opened, each with the reason."""

    @classmethod
    def of(cls, server: Server) -> Opening:
        ledger = server.ledger
        names = tuple(dataset.name for dataset in server.datasets.all)
        missing = {file.name: str(file.problem) for file in server.datasets.unavailable}
        return cls(ledger.name, ledger.store.is_new, *ledger.head(), names, missing)

    def __str__(self) -> str:
        age = "is new" if self.is_new else "is open"
        return (
            f"{self.ledger} {age}: {self.records:,} records, head {self.head}. "
            f"Data sets: {', '.join(self.datasets) or 'none yet; a curator can add the first on the page'}."
        )


def run(
    config: Config,
    *,
    ledger: LedgerAddress | None = None,
    create: bool = False,
    report: Callable[[Opening], None] = lambda _opening: None,
    announce: Callable[[str], None] = lambda _url: None,
) -> None:
    """Serves until interrupted. A single-user server keeps its ledger at `ledger`, or in memory.

    A missing ledger is created with `create`, or if it is a workspace's own.
    """
    check_tls_files(config.server)
    check_folders(config.server.datasets, config.server.data_folder)  # before a ledger is created
    ledger_address = ledger if config.single_user else config.ledger_address
    opened_ledger = ledger_of(config, ledger_address, create=create)
    try:
        opened_ledger.recovery.keep_anchor()
        app = create_app(config, opened_ledger)
        with listening(config.server) as listener:
            opening = Opening.of(app.state.server)
            LOG.info("%s", opening)
            for name, problem in opening.unavailable.items():
                LOG.error("%s is not available: %s", name, problem)
            report(opening)
            key = f"?key={app.state.server.authenticator.key}" if config.single_user else ""
            announce(address(config.server, listener.getsockname()[1]) + key)
            uvicorn_of(config, app).run(sockets=[listener])
    finally:
        opened_ledger.close()
    if app.state.server.is_running:
        # A task did not stop. The ledger is closed, so it can neither charge nor store anything.
        LOG.warning("some requests did not stop in time")
        logging.shutdown()
        os._exit(0)


def address(serving: Serving, port: int) -> str:
    """The URL of the page."""
    if serving.public_url is not None:
        return serving.public_url.rstrip("/") + "/"
    host = f"[{serving.host}]" if ":" in serving.host else serving.host
    return f"{'http' if serving.tls_key is None else 'https'}://{host}:{port}/"


class GracefulServer(uvicorn.Server):
    """Returns after a signal instead of raising it again, so that the ledger is closed in order."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT  # a second Ctrl-C exits at once
        self.should_exit = True


def uvicorn_of(config: Config, app: FastAPI) -> uvicorn.Server:
    serving = config.server
    # Uvicorn would log URLs with their values; AccessLog logs the templates of routes.
    logging.getLogger("uvicorn.access").disabled = True
    return GracefulServer(
        uvicorn.Config(
            app,
            http=BoundedConnection,
            access_log=False,
            log_config=None,
            lifespan="on",
            server_header=False,
            ws="none",
            proxy_headers=serving.behind_proxy,
            forwarded_allow_ips=list(serving.proxy_addresses),
            ssl_certfile=serving.tls_certificate,
            ssl_keyfile=serving.tls_key,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=15,
        )
    )


def listening(serving: Serving) -> socket.socket:
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    # If the protocol is named, asyncio sends small responses at once instead of waiting for more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if serving.shared_port:  # the system spreads connections over all processes of this user
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((serving.host, serving.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise SourceError(
            f"The server cannot listen on {serving.host}, port {serving.port}: {error.strerror}.",
            remedy="Choose another port.",
        ) from None
    listener.set_inheritable(True)
    return listener


class _JsonLines(logging.Formatter):
    """Log records as JSON, one per line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {"time": self.formatTime(record), "level": record.levelname, "logger": record.name}
        return json.dumps({"kind": "log"} | fields | {"message": record.getMessage()}, ensure_ascii=False)


def log_to_stderr(*, as_json: bool = False) -> None:
    """Logs plain lines or JSON: all of the server's own records, which hold no data, and others' warnings."""
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines() if as_json else plain)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("dpxplain.server").setLevel(logging.INFO)


def check_tls_files(serving: Serving) -> None:
    """Raises if the files are missing, are not PEM files, or do not belong together."""
    certificate, key = serving.tls_certificate, serving.tls_key
    if certificate is None or key is None:
        return
    _check_readable("tls_certificate", certificate)
    _check_readable("tls_key", key)
    try:
        # With an empty password, an encrypted key is refused; without one, OpenSSL would ask at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(certificate, key, getattr(error, "reason", None) or "") from None


def _check_readable(name: str, file: Path) -> None:
    try:
        with file.open("rb"):
            return
    except FileNotFoundError:
        raise SchemaError(
            f"server.{name}: there is no file {str(file)!r}.",
            remedy="Put it there, or correct the path. A relative path starts at the configuration's folder.",
        ) from None
    except OSError as error:
        raise SchemaError(
            f"server.{name}: {str(file)!r} cannot be read: {error.strerror}.",
            remedy="Give the server's user permission to read it.",
        ) from None


def _unusable(certificate: Path, key: Path, reason: str) -> SchemaError:
    if reason == "KEY_VALUES_MISMATCH":
        return SchemaError(
            f"server.tls_key: {str(key)!r} is not the key of the certificate {str(certificate)!r}.",
            remedy="Name two files that belong together. In a file with a chain, the server's own "
            "certificate must come first.",
        )
    return SchemaError(
        f"server.tls_certificate and tls_key: {str(certificate)!r} and {str(key)!r} cannot be used"
        f"{f' ({reason})' if reason else ''}.",
        remedy="Both must be PEM files, and the key must not be encrypted with a password.",
    )
