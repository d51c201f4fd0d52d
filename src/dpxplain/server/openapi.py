"""The OpenAPI document: every answer a route may give, in the shapes that are really sent."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from dpxplain.server.authenticate import PUBLIC
from dpxplain.server.response_shapes import Failure

Responses = dict[int | str, dict[str, Any]]

_MEANINGS = {
    400: "The request was refused; the message says why, and the position where in the SQL.",
    401: "A valid token is needed.",
    403: "Not for this role, or a forged request.",
    404: "There is no such thing, or it is another's.",
    409: "The budget does not cover it, or it is not stored; nothing was charged.",
    413: "The body is too large.",
    429: "Too many requests; see Retry-After.",
    500: "Failed. If budget was reserved, the charge stays, and the message says so.",
    503: "Busy; see Retry-After. Nothing was charged.",
}
_EXAMPLE = {
    "code": "query_refused",
    "message": "line 1, column 8: there is no column 'agee'.",
    "remedy": "Did you mean 'age'?",
    "position": {"line": 1, "column": 8, "start": 7, "end": 11},
}


def answers(model: Any, description: str = "As asked.", *also: int) -> Responses:
    """200 with this shape, and the failures of any route that takes input."""
    return {200: {"model": model, "description": description}, **failures(*also)}


def failures(*also: int) -> Responses:
    return {
        status: {"model": Failure, "description": _MEANINGS[status]}
        for status in sorted({400, 401, 403, 404, 413, 429, *also})
    }


def methods(document: dict[str, Any], path: str) -> str:
    """What an address can be asked with, for the header Allow."""
    for template, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path):
            return ", ".join(sorted(method.upper() for method in operations))
    return "GET"


def install(app: FastAPI) -> None:
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
        "token": {"type": "http", "scheme": "bearer", "description": "A token of ours, or an OIDC token."}
    }
    failure = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)  # wrong input is answered with 400
            for status, response in operation["responses"].items():
                if status >= "400":  # also where a success is no JSON
                    response["content"] = failure
            operation["security"] = [] if (method.upper(), path) in PUBLIC else [{"token": []}]
    return document
