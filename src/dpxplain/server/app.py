"""The server put together. A request goes from the outside in: security headers, log and last net, size,
gate (host, caller, forgery, rate), route.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.to_thread import run_sync
from fastapi import FastAPI
from starlette.middleware import Middleware

from dpxplain import __version__
from dpxplain.ledger.ledger import SQLLedger
from dpxplain.ledger.opening import open_ledger
from dpxplain.server import openapi as spec
from dpxplain.server import problems as failures
from dpxplain.server.authenticate import PREFIX, Gate
from dpxplain.server.config import Config
from dpxplain.server.context import Server
from dpxplain.server.headers import SecurityHeaders
from dpxplain.server.middleware import BodyLimit
from dpxplain.server.observing import Observer
from dpxplain.server.routes import admin as administering
from dpxplain.server.routes import curate as curating
from dpxplain.server.routes import explain as explaining
from dpxplain.server.routes import login as entering
from dpxplain.server.routes import page
from dpxplain.server.routes import queries as asking

DESCRIPTION = """Differentially private answers that explain themselves.

Send `Authorization: Bearer TOKEN`. Every error has one shape: code, message, remedy, position."""


def create_app(config: Config, ledger: SQLLedger | None = None) -> FastAPI:
    """An ASGI application; it opens the data at once, and closes what it opened when it is shut down."""
    own = ledger is None
    book = open_ledger(config.ledger_place) if ledger is None else ledger
    try:
        server = Server(config, book)
    except BaseException:
        if own:
            book.close()
        raise

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_sync(server.close)
        if own:
            book.close()

    app = FastAPI(
        title="DPXPlain",
        version=__version__,
        description=DESCRIPTION,
        lifespan=life,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(SecurityHeaders, secure=config.server.secure),
            Middleware(Observer, metrics=server.metrics),
            Middleware(BodyLimit, most=config.limits.body_bytes),
            Middleware(
                Gate,
                identifier=server.identifier,
                hosts=config.hosts,
                origin=(config.server.public_url or "").rstrip("/") or None,
                per_minute=config.limits.requests_per_minute,
                anonymous_per_minute=config.limits.anonymous_per_minute,
            ),
        ],
    )
    app.state.server = server
    for subject in (entering, asking, explaining, curating, administering):
        app.include_router(subject.router, prefix=PREFIX)
    app.include_router(page.router)
    if page.STATIC.is_dir():
        app.mount("/", page.BuiltFiles(directory=page.STATIC), name="page")
    failures.install(app, spec.methods)
    spec.install(app)
    return app
