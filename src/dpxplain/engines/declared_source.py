"""From what `connect` is given to a schema's own source; paths in a schema are relative to its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpxplain.errors import BadRequest, SchemaError
from dpxplain.model.schema import Schema

SchemaSource = Schema | Mapping[str, Any] | str | Path


def refuse_swapped(source: object, schema: object) -> None:
    """Refuses a schema in the place of the data."""
    is_file = isinstance(source, str | Path) and Path(source).suffix.lower() == ".toml"
    if is_file or isinstance(source, Schema | Mapping):
        named = repr(str(source)) if is_file else "..."
        data = repr(str(schema)) if isinstance(schema, str | Path) else "DATA"
        raise BadRequest(
            "A schema stands where the data belong: the data come first.",
            remedy=f"Write dpx.connect({data}, schema={named}); without data, the schema's own table.source "
            "is opened.",
        )


def declared_source(schema: Schema, given: SchemaSource) -> str | Path | list[Path]:
    """table.source, relative to the schema file."""
    source = schema.table.paths(folder_of(given))
    if source is None:
        raise SchemaError(
            "No data were given.", remedy="Pass a path or DataFrame, or set table.source in the schema."
        )
    return source


def folder_of(given: SchemaSource) -> Path:
    """What paths in a schema are relative to."""
    return Path(given).parent if isinstance(given, str | Path) else Path()
