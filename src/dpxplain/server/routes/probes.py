"""For operators and their monitoring: health, readiness and metrics."""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from dpxplain import __version__
from dpxplain.server.authenticate import PREFIX, Curator
from dpxplain.server.context import ServerDep
from dpxplain.server.metrics import CONTENT_TYPE, FAILED, OK
from dpxplain.server.openapi import failures
from dpxplain.server.records import Health, Ready

router = APIRouter(tags=["Operating"], prefix=PREFIX)


@router.get("/health", responses={200: {"model": Health}})
async def health() -> Any:
    """Whether the process is alive. Asks neither the ledger nor the data."""
    return JSONResponse({"status": "ok", "version": __version__})


@router.get(
    "/ready",
    responses={
        200: {"model": Ready, "description": "The server can answer requests, at least for some data sets."},
        503: {"model": Ready, "description": "Requests would fail now. See checks."},
    },
)
async def ready(server: ServerDep) -> Any:
    """Whether the ledger can be written, the data sets can be asked and requests are answered.

    Takes a few seconds at most.
    """
    checks = await run_sync(server.readiness.check, limiter=server.probe_limiter)
    checks["requests"] = OK if await server.is_answering() else FAILED
    is_ready = FAILED not in checks.values()
    status = "ready" if is_ready else "not ready"
    return JSONResponse({"status": status, "checks": checks}, 200 if is_ready else 503)


@router.get(
    "/metrics",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **failures()},
    response_class=Response,
)
async def metrics(_caller: Curator, server: ServerDep) -> Response:
    """Figures for operators, in Prometheus' format. During a ledger outage, budgets are the last known."""
    text = await run_sync(server.metrics.text, limiter=server.probe_limiter)
    return Response(text, media_type=CONTENT_TYPE)
