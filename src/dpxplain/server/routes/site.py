"""What does not concern a data set: health and metrics, signing in, the page, and the documents of the API.

The page and the documents load nothing from another host.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache, partial
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.datastructures import Headers
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from dpxplain import __version__
from dpxplain.errors import BadRequest, DPXPlainError, LedgerUnavailable
from dpxplain.ledger.protocol import Identity
from dpxplain.server.authenticate import PREFIX, PUBLIC, AnyCaller, Caller, Curator, note_refusal
from dpxplain.server.context import Server, ServerDep
from dpxplain.server.limits import check_rate
from dpxplain.server.metrics import CONTENT_TYPE, FAILED, OK
from dpxplain.server.problems import TOKEN, Refusal
from dpxplain.server.records import Health, Me, Ready, answers, failures
from dpxplain.server.requests import SignIn

# -- Probes ----------------------------------------------------------------------------------------------

probes = APIRouter(tags=["Operating"], prefix=PREFIX)


@probes.get("/health", responses={200: {"model": Health}})
async def health() -> Any:
    """Whether the process is alive. Asks neither the ledger nor the data."""
    return JSONResponse({"status": "ok", "version": __version__})


@probes.get(
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


@probes.get(
    "/metrics",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **failures()},
    response_class=Response,
)
async def metrics(_caller: Curator, server: ServerDep) -> Response:
    """Figures for operators, in Prometheus' format. During a ledger outage, budgets are the last known."""
    text = await run_sync(server.metrics.text, limiter=server.probe_limiter)
    return Response(text, media_type=CONTENT_TYPE)


# -- Signing in ------------------------------------------------------------------------------------------

login = APIRouter(tags=["Entering"], prefix=PREFIX)


@login.get("/me", responses=answers(Me, "Your identity; name is null if you are not signed in."))
async def me(request: Request, server: ServerDep) -> Any:
    """Your name and role, as the server knows them."""
    return JSONResponse(await _me(request.state.caller, server))


@login.post("/session", responses=answers(Me, "Signed in. The response sets a cookie."))
async def sign_in(request: Request, body: SignIn, server: ServerDep) -> Any:
    """Sign a browser in with a token. The session ends when the token expires."""
    authenticator, token = server.authenticator, body.token.strip()
    caller = await run_sync(authenticator.bearer, token, limiter=authenticator.threads_for(token))
    if isinstance(caller, Refusal):
        note_refusal(request.scope, caller, server.metrics)
        raise caller.problem()
    if authenticator.single_user:
        response = JSONResponse(await _me(caller, server))
        set_cookie(request, response, server, authenticator.key)
        return response
    check_rate(server.rates.sign_ins, caller.id)
    try:
        text = await run_sync(_open_session, server, caller, limiter=authenticator.threads)
    except LedgerUnavailable:
        raise
    except BadRequest:  # the token has ended since it was verified
        refusal = TOKEN if caller.issuer is None else Refusal("expiry")
        note_refusal(request.scope, refusal, server.metrics)
        raise refusal.problem() from None
    response = JSONResponse(await _me(caller, server))
    set_cookie(request, response, server, text)
    return response


def _open_session(server: Server, caller: Caller) -> str:
    """Open a browser session and return its secret."""
    assert caller.expires is not None  # only a single user's key has no end
    identity = Identity(caller.name, caller.role, caller.expires, caller.token, issuer=caller.issuer)
    lifetime = timedelta(hours=server.config.limits.session_hours)
    return server.ledger.sessions.open(identity, lifetime=lifetime)[1]


@login.delete("/session", status_code=204, responses=failures(), response_class=Response)
def sign_out(request: Request, caller: AnyCaller, server: ServerDep) -> Response:
    """End the browser's session."""
    if caller.session is not None:
        server.ledger.sessions.end(caller.session)
    response = Response(status_code=204)
    set_cookie(request, response, server, "", max_age=0)
    return response


async def _me(caller: Caller | None, server: Server) -> Me:
    single = server.config.single_user
    me = Me(name=None, role=None, single_user=single, signed_in=False, waiting_requests=0, datasets=None)
    if caller is None:
        return me
    role: Any = caller.role
    me |= {"name": "you" if single else caller.name, "role": role, "signed_in": True}
    with suppress(DPXPlainError):  # the page opens during an outage too, and asks again for the data sets
        me["datasets"] = await run_sync(server.summaries, caller)
        if caller.is_curator and not single:
            me["waiting_requests"] = await run_sync(_waiting_requests, server)
    return me


def _waiting_requests(server: Server) -> int:
    return server.ledger.analysts.waiting([dataset.name for dataset in server.datasets.all])


def set_cookie(
    request: Request, response: Response, server: Server, text: str, max_age: int | None = None
) -> None:
    response.set_cookie(
        server.authenticator.cookie_name(request.headers),
        text,
        max_age=max_age,
        path="/",
        secure=server.config.server.secure,
        httponly=True,
        samesite="strict",
    )


# -- Page ------------------------------------------------------------------------------------------------

STATIC = Path(str(files("dpxplain.server"))) / "static"
_CACHED_FOR_GOOD = "public, max-age=31536000, immutable"
_COMPRESSIBLE = (".js", ".css", ".html", ".svg")
_MISSING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>DPXPlain</title>
<p>The server runs, but its page was not built. Build it with <code>make page</code>, or use
<a href="/api/v1/docs">the API</a>.</p></html>"""

_LOCKED = """<!doctype html><html lang="en"><meta charset="utf-8"><title>DPXPlain</title>
<p>Only the person who started this server can use it. Open the address that it printed,
with its key.</p></html>"""

page = APIRouter(include_in_schema=False)


class BuiltFiles(StaticFiles):
    """The files of the built page, compressed; browsers may cache those with a hash in their name for good.

    Only these files are compressed, never a response of the API (docs/adr/0047).
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if isinstance(response, FileResponse):
            response = await run_sync(_compressed, response, Headers(scope=scope))
        if path.startswith("assets/") and response.status_code == 200:
            response.headers["Cache-Control"] = _CACHED_FOR_GOOD
        return response


def _compressed(file: FileResponse, request: Headers) -> Response:
    """The file in the form that the client accepts. Fonts are compressed already; ranges are of the file."""
    if not str(file.path).endswith(_COMPRESSIBLE):
        return file
    file.headers["Vary"] = "Accept-Encoding"
    file.headers["ETag"] = f"W/{file.headers['etag']}"  # the same for both forms
    if "range" in request or not _accepts_gzip(request.get("accept-encoding", "")):
        return file
    headers = {name: file.headers[name] for name in ("vary", "etag", "last-modified", "content-type")}
    content = _gzipped(str(file.path), headers["etag"])
    return Response(content, headers=headers | {"Content-Encoding": "gzip"})


@lru_cache(maxsize=256)
def _gzipped(path: str, _etag: str) -> bytes:
    """The compressed content. Kept, because compressing the largest file takes 25 ms."""
    return gzip.compress(Path(path).read_bytes(), mtime=0)


def _accepts_gzip(accepted: str) -> bool:
    """
    >>> _accepts_gzip("deflate, gzip;q=0.8, br"), _accepts_gzip("gzip;q=0"), _accepts_gzip("")
    (True, False, False)
    """
    codings = (coding.replace(" ", "").lower().partition(";q=") for coding in accepted.split(","))
    return any(name == "gzip" and (not mark or quality.strip("0.") != "") for name, mark, quality in codings)


@page.api_route("/", methods=["GET", "HEAD"])
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
    if not built.is_file():
        return HTMLResponse(_MISSING)
    return await run_sync(_compressed, FileResponse(built, stat_result=built.stat()), request.headers)


# Both are open to everybody and have no rate limit, so they are rendered once, not for each request.


@page.get(f"{PREFIX}/openapi.json")
async def openapi(request: Request) -> Any:
    state = request.app.state
    if not hasattr(state, "openapi_document"):
        state.openapi_document = JSONResponse(request.app.openapi()).body
    return Response(state.openapi_document, media_type="application/json")


@page.get(f"{PREFIX}/docs")
async def docs(request: Request) -> Response:
    state = request.app.state
    if not hasattr(state, "documentation"):
        state.documentation = documentation(request.app.openapi()).encode()
    return HTMLResponse(state.documentation)


# -- Documents of the API --------------------------------------------------------------------------------

_OWN_FAILURES = (f"{PREFIX}/ready",)  # a probe always answers in the same shape
_EXAMPLE = {
    "code": "query_refused",
    "message": "line 1, column 8: there is no column 'agee'.",
    "remedy": "Did you mean 'age'?",
    "position": {"line": 1, "column": 8, "start": 7, "end": 11},
}


def methods(document: dict[str, Any], path: str) -> str:
    """The methods of an address, for the header Allow."""
    for template, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path):
            return ", ".join(sorted(method.upper() for method in operations))
    return "GET"


def install_document(app: FastAPI) -> None:
    """Serves this document instead of FastAPI's own. It is built at the first request for it."""

    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Failure"]["example"] = _EXAMPLE
    document["components"]["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token from the curator, or an OIDC token.",
        }
    }
    failure = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)  # wrong input is answered with 400
            for status, response in operation["responses"].items():
                if status >= "400" and path not in _OWN_FAILURES:  # also if a success is not JSON
                    response["content"] = failure
            operation["security"] = [] if (method.upper(), path) in PUBLIC else [{"token": []}]
    return document


Document = Mapping[str, Any]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: light-dark(#1b1b1f, #e6e6ea); background: light-dark(#fff, #17171a); color-scheme: light dark }
section { border-top: 1px solid light-dark(#ddd, #444); margin-top: 1.5rem }
code, pre { font: 14px/1.45 ui-monospace, monospace }
pre { background: light-dark(#f5f5f7, #222226); padding: .8rem; overflow-x: auto; border-radius: 6px }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700 }
table { border-collapse: collapse } td { padding: .15rem .8rem .15rem 0; vertical-align: top }
.curator { font-size: 13px; border: 1px solid; border-radius: 4px; padding: 0 .4rem }
"""


def documentation(document: Document) -> str:
    """The document as a page for people: plain HTML, no scripts, readable offline."""
    title = escape(f"{document['info']['title']} API {document['info']['version']}")
    introduction = "".join(
        f"<p>{escape(part)}</p>" for part in document["info"]["description"].split("\n\n") if part
    )
    sections = "".join(
        _operation(document, path, method, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main><h1>{title}</h1>{introduction}"
        '<p>As a document for programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"{sections}</main></body></html>"
    )


def _operation(document: Document, path: str, method: str, operation: Mapping[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    parts = [
        f'<section><h2><code><span class="method">{method.upper()}</span>{escape(path)}</code></h2>',
        f"<p>{escape(operation.get('description', ''))}</p>",
        _parameters(operation.get("parameters", [])),
    ]
    sketch = partial(_sketch, document)
    if body is not None:
        parts.append(f"<p>Takes</p><pre>{escape(_as_json(sketch(body)))}</pre>")
    parts.append("<p>Gives</p><table>")
    for status, response in operation["responses"].items():
        parts.append(f"<tr><td><code>{status}</code></td><td>{escape(response['description'])}")
        shape = response.get("content", {}).get("application/json", {}).get("schema")
        if shape is not None and status.startswith("2"):
            parts.append(
                f"<details><summary>Its shape</summary><pre>{escape(_as_json(sketch(shape)))}</pre></details>"
            )
        parts.append("</td></tr>")
    return "".join(parts) + "</table></section>"


def _parameters(parameters: list[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>in the {escape(parameter['in'])}</td>"
        f"<td>{escape(parameter.get('description', ''))}</td></tr>"
        for parameter in parameters
    )
    return f"<table>{rows}</table>" if rows else ""


def _as_json(sketch: Any) -> str:
    return json.dumps(sketch, indent=2, ensure_ascii=False)


def _sketch(document: Document, schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A value of the schema's shape: its example or default, or the name of its type."""
    for key in ("example", "default", "const"):
        if key in schema and (schema[key] is not None or key == "const"):
            return schema[key]
    if schema.get("examples"):
        return schema["examples"][0]
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return _sketch(document, document["components"]["schemas"][name], depth) if depth < 6 else name
    inner = partial(_sketch, document, depth=depth + 1)
    if choices := [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        kinds = [inner(choice) for choice in choices]
        texts = all(isinstance(kind, str) for kind in kinds)
        return " | ".join(kinds) if texts else next(kind for kind in kinds if not isinstance(kind, str))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "properties" in schema:
        return {name: inner(part) for name, part in schema["properties"].items()}
    if schema.get("type") == "array":
        return [inner(schema["items"])] if "items" in schema else []
    return schema.get("type", "any")


ROUTERS = (probes, login, page)
