"""Opens JSON lines and Arrow files so that no row decides how others are read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from dpxplain.errors import SourceError


def open_json_lines(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> duckdb.DuckDBPyRelation:
    """A lazy relation over files of one JSON object per line; all columns are text.

    The first line names the columns, as the header of a CSV file does: DuckDB would infer names and types
    from the rows. A key that a later line lacks is NULL there; one that the first line lacks is not read.
    """
    names = list(_first_object(files[0]))
    if not names:
        raise SourceError(
            f"{files[0]} does not begin with a JSON object.",
            remedy="Write one object per line; the first has every key, with null where there is no value.",
        )
    listed = ", ".join(_text(file) for file in files)
    columns = ", ".join(f"json_extract_string(json, {_pointer(name)}) AS {_quoted(name)}" for name in names)
    return connection.sql(f"SELECT {columns} FROM read_ndjson_objects([{listed}])")


def read_arrow(files: Sequence[str]) -> pa.Table:
    """The table in Feather or Arrow IPC files, mapped into memory."""
    tables = [_arrow_file(file) for file in files]
    if len({tuple(table.schema.names) for table in tables}) > 1:
        raise SourceError(
            f"The {len(files)} Arrow files have different columns.", remedy="Give them the same columns."
        )
    return pa.concat_tables(tables)


def _arrow_file(file: str) -> pa.Table:
    with pa.memory_map(file) as mapped:
        try:
            return pa.ipc.open_file(mapped).read_all()
        except pa.ArrowInvalid:
            mapped.seek(0)
            return pa.ipc.open_stream(mapped).read_all()


def _first_object(file: str) -> dict[str, object]:
    with (
        gzip.open(file, "rt", encoding="utf-8-sig")
        if file.lower().endswith(".gz")
        else open(file, encoding="utf-8-sig") as lines
    ):
        line = next((line for line in lines if line.strip()), "")
    try:
        first = json.loads(line)
    except ValueError:
        first = None
    return first if isinstance(first, dict) else {}


def _pointer(name: str) -> str:
    """A JSON pointer to a key of the object (RFC 6901)."""
    return _text("/" + name.replace("~", "~0").replace("/", "~1"))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
