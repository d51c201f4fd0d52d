"""The OpenAPI document with every response a route may give, and its rendering as a page for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from dpxplain.server.authenticate import PREFIX, PUBLIC
from dpxplain.server.records import Failure

Responses = dict[int | str, dict[str, Any]]

_MEANINGS = {
    400: (
        "The request is wrong. The message gives the reason. If the mistake is in the SQL, it also gives the "
        "position."
    ),
    401: "No valid token.",
    403: "Your role may not do this, or another website sent the request.",
    404: "The requested item does not exist, or belongs to somebody else.",
    409: "The budget is too small, the result is not stored, or the data changed. Nothing was charged.",
    413: "The body is too large.",
    429: "Too many requests. See Retry-After.",
    500: "The server failed. If the request was charged, the message says so, and the charge stays.",
    503: (
        "The server is busy, or cannot use its ledger. See Retry-After. Repeating the request is not "
        "charged twice."
    ),
}
_OWN_FAILURES = (f"{PREFIX}/ready",)  # a probe always answers in the same shape
_EXAMPLE = {
    "code": "query_refused",
    "message": "line 1, column 8: there is no column 'agee'.",
    "remedy": "Did you mean 'age'?",
    "position": {"line": 1, "column": 8, "start": 7, "end": 11},
}


def answers(model: Any, description: str = "The result.", *also: int) -> Responses:
    """The response 200 with this shape, and the failures of any route that takes input."""
    return {200: {"model": model, "description": description}, **failures(*also)}


def failures(*also: int) -> Responses:
    return {
        status: {"model": Failure, "description": _MEANINGS[status]}
        for status in sorted({400, 401, 403, 404, 413, 429, 503, *also})
    }


def methods(document: dict[str, Any], path: str) -> str:
    """The methods of an address, for the header Allow."""
    for template, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path):
            return ", ".join(sorted(method.upper() for method in operations))
    return "GET"


def install(app: FastAPI) -> None:
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
    if choices := list(_choices(schema)):
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


def _choices(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from schema.get("anyOf", ())
    yield from schema.get("oneOf", ())
