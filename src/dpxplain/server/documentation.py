"""The OpenAPI document as a page for people: plain HTML, no scripts, readable offline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from html import escape
from typing import Any

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


def page(document: Document) -> str:
    """Every operation, with what it takes and what it gives."""
    title = escape(f"{document['info']['title']} API {document['info']['version']}")
    introduction = "".join(
        f"<p>{escape(part)}</p>" for part in document["info"]["description"].split("\n\n") if part
    )
    operations = "".join(
        _operation(document, path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main><h1>{title}</h1>{introduction}"
        '<p>As a document for programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"{operations}</main></body></html>"
    )


def _operation(document: Document, path: str, method: str, operation: Mapping[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    parts = [
        f'<section><h2><code><span class="method">{method.upper()}</span>{escape(path)}</code></h2>',
        f"<p>{escape(operation.get('description', ''))}</p>",
        _parameters(operation.get("parameters", [])),
    ]
    show = partial(_sketch, document)
    if body is not None:
        parts.append(f"<p>Takes</p><pre>{escape(_written(show(body)))}</pre>")
    parts.append("<p>Gives</p><table>")
    for status, response in operation["responses"].items():
        parts.append(f"<tr><td><code>{status}</code></td><td>{escape(response['description'])}")
        shape = response.get("content", {}).get("application/json", {}).get("schema")
        if shape is not None and status.startswith("2"):
            parts.append(
                f"<details><summary>Its shape</summary><pre>{escape(_written(show(shape)))}</pre></details>"
            )
        parts.append("</td></tr>")
    return "".join(parts) + "</table></section>"


def _parameters(parameters: list[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>in the {escape(one['in'])}</td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for one in parameters
    )
    return f"<table>{rows}</table>" if rows else ""


def _written(sketch: Any) -> str:
    return json.dumps(sketch, indent=2, ensure_ascii=False)


def _sketch(document: Document, schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A value of the schema's shape: its example or default, or the name of its type."""
    for given in ("example", "default", "const"):
        if given in schema and (schema[given] is not None or given == "const"):
            return schema[given]
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
