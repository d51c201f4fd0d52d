"""The page at /, and the API's documentation; neither loads anything from another host."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from dpxplain.server.authenticate import PREFIX
from dpxplain.server.context import ServerDep
from dpxplain.server.openapi import documentation
from dpxplain.server.problems import Refusal
from dpxplain.server.routes.login import set_cookie

STATIC = Path(str(files("dpxplain.server"))) / "static"
_CACHED_FOR_GOOD = "public, max-age=31536000, immutable"
_MISSING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>DPXPlain</title>
<p>The server runs, but its page was not built. Build it with <code>make page</code>, or use
<a href="/api/v1/docs">the API</a>.</p></html>"""

_LOCKED = """<!doctype html><html lang="en"><meta charset="utf-8"><title>DPXPlain</title>
<p>Only the person who started this server can use it. Open the address that it printed,
with its key.</p></html>"""

router = APIRouter(include_in_schema=False)


class BuiltFiles(StaticFiles):
    """The files of the built page; browsers may cache those with a hash in their name for good."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if path.startswith("assets/") and response.status_code in (200, 206):
            response.headers["Cache-Control"] = _CACHED_FOR_GOOD
        return response


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request, server: ServerDep) -> Response:
    """The page. On a single user's server only for the holder of its key, which then moves into a cookie."""
    authenticator = server.authenticator
    if authenticator.single_user and "key" in request.query_params:
        response: Response = RedirectResponse("/", 303)
        if authenticator.is_key(request.query_params["key"]):
            set_cookie(request, response, server, authenticator.key)
        return response
    if authenticator.single_user and isinstance(authenticator.identify(request.headers), Refusal):
        return HTMLResponse(_LOCKED, 401)
    built = STATIC / "index.html"
    return FileResponse(built) if built.is_file() else HTMLResponse(_MISSING)


# Both are open to everybody and have no rate limit, so they are rendered once, not for each request.


@router.get(f"{PREFIX}/openapi.json")
async def openapi(request: Request) -> Any:
    state = request.app.state
    if not hasattr(state, "openapi_document"):
        state.openapi_document = JSONResponse(request.app.openapi()).body
    return Response(state.openapi_document, media_type="application/json")


@router.get(f"{PREFIX}/docs")
async def docs(request: Request) -> Response:
    state = request.app.state
    if not hasattr(state, "documentation"):
        state.documentation = documentation(request.app.openapi()).encode()
    return HTMLResponse(state.documentation)
