"""Opens CSV, JSON lines and Arrow files so that no row decides how other rows are read.

A CSV file with unescaped quotes raises an error: such quotes can swallow line ends, and the rows after them
would be missing without notice.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from dpxplain.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset

STATISTICS = "statistics_propagation"  # a DuckDB optimizer, off in all connections to a source
_DELIMITERS = (",", ";", "\t", "|")
_CHUNK = 1 << 20


def open_csv(
    connection: duckdb.DuckDBPyConnection, files: Sequence[str]
) -> tuple[duckdb.DuckDBPyRelation, str]:
    """A lazy relation over CSV files with the same header line, all columns as text, and their delimiter.

    DuckDB would sniff the delimiter, quotes, comment marks and types from the rows, so that one row could
    change how all others are read.
    """
    headers = {_header(file) for file in files}
    delimiter, names = next(iter(headers))
    if len(headers) > 1:
        raise SourceError(
            f"The {len(files)} CSV files have different header lines.",
            remedy="Give them the same columns in the same order.",
        )
    if not names or not all(names) or len(set(names)) < len(names):
        raise SourceError(
            f"{files[0]} has no usable header line.", remedy="Name every column once in its first line."
        )
    relation = connection.read_csv(
        [glob.escape(file) for file in files],  # type: ignore[arg-type]  # the stubs allow only a single file
        header=True,
        auto_detect=False,
        columns=dict.fromkeys(names, "VARCHAR"),
        sep=delimiter,
        quotechar='"',
        escapechar='"',
    )
    # If the optimizer moves a TRY_CAST into the CSV reader, it fails on text that does not fit instead of
    # giving NULL (https://github.com/duckdb/duckdb/issues/23818): one row could keep the file from opening.
    # What `open_connection` has switched off stays off: the same connection may read other tables.
    connection.execute(f"SET disabled_optimizers = '{STATISTICS},type_pushdown'")
    return relation, delimiter


def check_csv(relation: duckdb.DuckDBPyRelation, files: Sequence[str], delimiter: str) -> None:
    """Raises if an unescaped quote may have made DuckDB read several rows as one.

    Inside a quoted value, line ends are legitimate. But if every line of such a record has enough delimiters
    to be a row by itself, the record looks the same as rows between two stray quotes. DuckDB itself refuses
    text after a closing quote.
    """
    if not any(map(_has_quotes, files)):
        return
    names = ['"' + name.replace('"', '""') + '"' for name in relation.columns]
    mark = f"chr({ord(delimiter)})"
    values = ", ".join(f"COALESCE({name}, '')" for name in names)
    text = f"concat_ws({mark}, {values})"
    lines = f"string_split(replace(replace({text}, chr(13) || chr(10), chr(10)), chr(13), chr(10)), chr(10))"
    widths = f"list_transform({lines}, lambda line: len(string_split(line, {mark})))"
    several = relation.filter(
        " OR ".join(f"contains({name}, chr({end}))" for name in names for end in (10, 13))
    )
    if several.filter(f"list_min({widths}) >= {len(names)}").limit(1).fetchall():
        raise SourceError(
            f"Quotes in {files[0] if len(files) == 1 else 'the CSV files'} are not escaped. Whole lines "
            "would be read as part of a value, and their rows would be missing.",
            remedy='Write a quote inside a quoted value as two quotes (""), or use Parquet.',
        )


def _header(file: str) -> tuple[str, tuple[str, ...]]:
    """The delimiter that splits the header line into the most names, and the names."""
    with io.TextIOWrapper(_opened(file), encoding="utf-8-sig", newline="") as text:
        readings = []
        for delimiter in _DELIMITERS:
            text.seek(0)
            try:
                names = next(csv.reader(text, delimiter=delimiter), [])
            except csv.Error:  # its text may quote the file, so it is not passed on
                raise SourceError(
                    "The header line of the CSV file cannot be read.",
                    remedy=f"Each column name may have at most {csv.field_size_limit():,} characters.",
                ) from None
            readings.append((delimiter, tuple(names)))
    return max(readings, key=lambda reading: len(reading[1]))


def declared_columns(file: str) -> list[tuple[str, str]]:
    """The names and types of a file's columns, as it declares them; a header line has only names."""
    if file.lower().endswith(".parquet"):
        import pyarrow.parquet as parquet

        schema = parquet.read_schema(file)
        return [(field.name, str(field.type)) for field in schema]
    return [(name, "") for name in _header(file)[1]]


def _has_quotes(file: str) -> bool:
    with _opened(file) as content:
        return any(b'"' in chunk for chunk in iter(lambda: content.read(_CHUNK), b""))


def _opened(file: str) -> Any:
    """Opens a file as bytes, decompressed if its name says so."""
    return gzip.open(file) if file.lower().endswith(".gz") else open(file, "rb")


def open_json_lines(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> duckdb.DuckDBPyRelation:
    """A lazy relation over files of one JSON object per line; all columns are text.

    The first line names the columns, as the header of a CSV file does, because DuckDB would infer names and
    types from the rows. A key that a later line lacks is NULL there. A key that the first line lacks is not
    read.
    """
    names = list(_first_object(files[0]))
    if not names:
        raise SourceError(
            f"{files[0]} does not begin with a JSON object.",
            remedy="Write one object per line. The first one must have every key, with null where there is "
            "no value.",
        )
    listed = ", ".join(_text(glob.escape(file)) for file in files)
    columns = ", ".join(f"json_extract_string(json, {_pointer(name)}) AS {_quoted(name)}" for name in names)
    return connection.sql(f"SELECT {columns} FROM read_ndjson_objects([{listed}])")


def open_arrow(files: Sequence[str]) -> Dataset | pa.Table:
    """The rows of Feather or Arrow IPC files, read batch by batch. IPC streams are read at once."""
    import pyarrow as pa
    from pyarrow import dataset

    schemas = [_arrow_schema(file) for file in files]
    if not all(schema.equals(schemas[0][0]) for schema, _ in schemas):
        raise SourceError(
            f"The {len(files)} Arrow files have different columns or types.",
            remedy="Give them the same columns with the same types.",
        )
    if all(has_batches for _, has_batches in schemas):
        return dataset.dataset(list(files), format="ipc", schema=schemas[0][0])
    return pa.concat_tables(map(_arrow_table, files))


def _arrow_schema(file: str) -> tuple[pa.Schema, bool]:
    """The schema of a file, and whether its batches can be read one by one, in any order."""
    import pyarrow as pa

    with pa.OSFile(file, "rb") as opened:
        try:
            return pa.ipc.open_file(opened).schema, True
        except pa.ArrowInvalid:
            opened.seek(0)
            return pa.ipc.open_stream(opened).schema, False


def _arrow_table(file: str) -> pa.Table:
    import pyarrow as pa

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
