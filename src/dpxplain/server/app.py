"""The ASGI application. A request passes security headers, access log, body limit and authentication, in
this order, before its route.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.to_thread import run_sync
from fastapi import FastAPI
from starlette.middleware import Middleware

from dpxplain import __version__
from dpxplain.ledger.address import LedgerAddress
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.server import openapi, problems
from dpxplain.server.authenticate import Authentication
from dpxplain.server.config import Config
from dpxplain.server.context import Server
from dpxplain.server.middleware import AccessLog, BodyLimit, SecurityHeaders
from dpxplain.server.routes import admin, curate, explain, login, page, probes, queries

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
    for module in (probes, login, queries, explain, curate, admin, page):
        # Not include_router: it would build every route's validators again at the first request.
        app.router.routes.extend(module.router.routes)
    if page.STATIC.is_dir():
        app.mount("/", page.BuiltFiles(directory=page.STATIC), name="page")
    problems.install(app, openapi.methods)
    openapi.install(app)
    return app
