"""Opens a curator's source in DuckDB: files, databases, DataFrames and Arrow tables; and DuckDB's dialect."""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from duckdb import DuckDBPyConnection as Connection
from duckdb import DuckDBPyRelation as Relation

from dpxplain.engines.dialect import KIND_WORDS, Dialect, Kind
from dpxplain.engines.source_kinds import SourceFiles, is_path, source_files
from dpxplain.engines.source_state import quiet
from dpxplain.errors import SourceError
from dpxplain.model.expression import quoted_name, sql_literal
from dpxplain.model.query import Parameters

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset

# -- Sources -----------------------------------------------------------------------------------------------
#
# Errors of DuckDB, Arrow and pandas can quote values, so none of their text is passed on.

_FILE_NAMES = {
    "parquet": "Parquet", "csv": "CSV", "json lines": "JSON lines", "arrow": "Arrow", "duckdb": "DuckDB",
}  # fmt: skip


@dataclass(frozen=True)
class OpenedSource:
    """A lazy relation over a source, and what is known about it without reading its rows."""

    relation: Relation
    files: tuple[str, ...] = ()  # empty for tables in memory
    untyped: frozenset[str] = frozenset()  # columns that have no type of their own
    check_rows: Callable[[], None] = lambda: None  # raises if rows would be misread; may read all rows
    release: Callable[[], None] = lambda: None  # detaches the database file, so that others can write to it
    given: Any = None  # must be registered as `given` with each cursor that reads the relation

    @property
    def types(self) -> dict[str, str]:
        """DuckDB's type of each column."""
        return {
            name: str(kind) for name, kind in zip(self.relation.columns, self.relation.types, strict=True)
        }

    @property
    def kinds(self) -> dict[str, Kind]:
        return {name: kind_of(type_name) for name, type_name in self.types.items()}


def open_connection(memory: str | None = None, spill: Path | None = None) -> Connection:
    """A database in memory. Statements that run out of memory fail, unless rows can `spill` to a folder."""
    settings: dict[str, str | bool | int | float | list[str]] = {"temp_directory": str(spill or "")}
    connection = duckdb.connect(":memory:", config=settings | ({"memory_limit": memory} if memory else {}))
    progress_bar = connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    # If it is off already, leave it alone: in a notebook without ipywidgets, setting it raises.
    if progress_bar and progress_bar[0]:
        connection.execute("SET enable_progress_bar = false")  # the bar would be drawn into results on stdout
    connection.execute("SET TimeZone = 'UTC'")  # answers must not depend on the computer's time zone
    # Parquet statistics leave out NaN. If all other rows have the same number, the optimizer would read the
    # rows with NaN as that number; one row with another number would change how all of them are read.
    connection.execute(f"SET disabled_optimizers = '{STATISTICS}'")
    return connection


def trust_statistics(connection: Connection) -> None:
    """Lets DuckDB use statistics again: encoded rows have no NaN, and known ranges make grouping faster."""
    connection.execute("SET disabled_optimizers = ''")


def lasting(source: object) -> object:
    """The source; as a table, if it could be read only once or has its rows in another order each time."""
    if type(source).__module__.startswith("pyarrow"):  # by name, so that pyarrow need not be imported
        import pyarrow as pa

        return source.read_all() if isinstance(source, pa.RecordBatchReader) else source
    return source.to_arrow_table() if isinstance(source, Relation) else source


def open_source(connection: Connection, source: object, table: str | None = None) -> OpenedSource:
    """Opens a source: files, a DuckDB relation or connection, or a table in memory.

    `table` is the data set's name. It selects the table of a database if the source names none.
    """
    if is_path(source):
        return _open_files(connection, source_files(source), table)  # type: ignore[arg-type]
    if isinstance(source, Connection):
        return _open_connected(connection, source, table)
    with quiet(
        SourceError(
            f"A source of type {type(source).__name__} cannot be opened.",
            remedy="Pass a path, a pandas or polars DataFrame, an Arrow table, or a DuckDB relation.",
        )
    ):
        if isinstance(source, Relation):
            source = source.to_arrow_table()  # the relation belongs to another database
        untyped = _untyped_columns(source)
        rows = _with_text(source, untyped) if untyped else source
        connection.register("given", rows)
        return OpenedSource(connection.table("given"), untyped=untyped, given=rows)


def _open_files(connection: Connection, source: SourceFiles, table: str | None) -> OpenedSource:
    name = source.files[0] if len(source.files) == 1 else f"One of {len(source.files)} files"
    failed = SourceError(
        f"{name} cannot be read.", remedy=f"Is it a complete {_FILE_NAMES[source.kind]} file?"
    )
    with quiet(failed):
        if source.kind == "parquet":
            files = [glob.escape(file) for file in source.files]  # a file's name is not a pattern
            return OpenedSource(connection.read_parquet(files), source.files)
        if source.kind == "csv":
            relation, delimiter = open_csv(connection, source.files)
            return OpenedSource(
                relation,
                source.files,
                untyped=frozenset(relation.columns),
                check_rows=lambda: check_csv(relation, source.files, delimiter),
            )
        if source.kind == "json lines":
            relation = open_json_lines(connection, source.files)
            return OpenedSource(relation, source.files, untyped=frozenset(relation.columns))
        if source.kind == "arrow":
            rows = open_arrow(source.files)
            connection.register("given", rows)
            return OpenedSource(connection.table("given"), source.files, given=rows)
        return _open_database(connection, source, table)


def _open_database(connection: Connection, source: SourceFiles, table: str | None) -> OpenedSource:
    """A table of a DuckDB file, attached read-only until the source is released."""
    if Path(f"{source.files[0]}.wal").exists():
        # The .wal file holds rows that neither the size nor the content of the database file shows.
        raise SourceError(
            f"{source.files[0]} has changes that another program has not written to the file yet.",
            remedy="Close that program, or run CHECKPOINT in it.",
        )
    in_use = SourceError(
        f"{source.files[0]} is not a DuckDB file, or another program has it open.",
        remedy="Close the other program. If your own Python program has the file open, pass that connection "
        "or relation instead of the path.",
    )
    with quiet(in_use):
        connection.execute(f"ATTACH {sql_literal(source.files[0])} AS attached (READ_ONLY)")
    tables = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'attached'"
    ).fetchall()
    views = connection.execute(
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'attached' AND NOT internal"
    ).fetchall()
    schema, name = _chosen_table(source.files[0], [*tables, *views], source.table, table)
    if (schema, name) in views:
        raise _view_refusal(source.files[0], name)
    qualified = ".".join(map(quoted_name, ("attached", schema, name)))

    def detach() -> None:
        connection.execute("DETACH attached")

    return OpenedSource(connection.sql(f"FROM {qualified}"), source.files, release=detach)


def _view_refusal(file: str, name: str) -> SourceError:
    """The refusal of a view, which may read other files, the time or random numbers unnoticed."""
    return SourceError(
        f"{name} in {file} is a view: its rows can change while the file stays the same.",
        remedy=f"Store the rows in a table (CREATE TABLE {name}_rows AS FROM {name}) and name that table. Or "
        f'pass the view from Python, as duckdb.connect("{Path(file).name}").table("{name}"), which '
        "takes a snapshot.",
    )


def _chosen_table(
    file: str, tables: list[tuple[str, str]], named: str | None, declared: str | None
) -> tuple[str, str]:
    """The table named with ::, or else the one with the data set's name, or else the only one."""
    table_name = named if named is not None else declared
    matching = [pair for pair in tables if table_name in (pair[1], ".".join(pair))]
    if len(matching) == 1:
        return matching[0]
    if named is None and len(tables) == 1:
        return tables[0]
    names = ", ".join(sorted(table for _, table in tables)) or "none"
    raise SourceError(
        f"{file} has no table {table_name}."
        if table_name is not None
        else f"{file} has {len(tables)} tables.",
        remedy=f"Name one as {Path(file).name}::TABLE. Its tables are: {names}.",
    )


def _open_connected(connection: Connection, source: Connection, table: str | None) -> OpenedSource:
    """The table with the data set's name in the caller's own connection."""
    missing = SourceError(
        f"The DuckDB connection has no table or view {table}."
        if table
        else "A DuckDB connection has many tables.",
        remedy='Pass one table, as connection.table("flights"). Or give the table in the connection '
        "the name that it has in the schema.",
    )
    if table is None:
        raise missing
    with quiet(missing):
        connection.register("given", source.table(quoted_name(table)).to_arrow_table())
        return OpenedSource(connection.table("given"))


def _untyped_columns(source: object) -> frozenset[str]:
    """The names of pandas object columns, whose type could only be guessed from values."""
    dtypes = getattr(source, "dtypes", None)
    if not type(source).__module__.startswith("pandas") or dtypes is None:
        return frozenset()
    return frozenset(
        name for name, dtype in dtypes.items() if isinstance(name, str) and str(dtype) == "object"
    )


def _with_text(frame: Any, columns: frozenset[str]) -> Any:
    """The DataFrame with each object converted to text on its own, so that no row decides how others read."""

    def text(value: object) -> str | None:
        missing = value is None or value != value or str(value) == "<NA>"
        return None if missing else str(value)

    converted = frame.copy(deep=False)
    for name in columns:
        converted[name] = frame[name].map(text).astype("str")
    return converted


def unreadable(table: str) -> SourceError:
    """The error for a source whose rows cannot all be read."""
    return SourceError(
        f"The source of {table} could not be read completely.",
        remedy="Is the file damaged, or does a line have too few or too many values?",
    )


# -- Text and Arrow files ----------------------------------------------------------------------------------
#
# Opens CSV, JSON lines and Arrow files so that no row decides how other rows are read.
#
# A CSV file with unescaped quotes raises an error: such quotes can swallow line ends, and the rows after them
# would be missing without notice.

STATISTICS = "statistics_propagation"  # a DuckDB optimizer, off in all connections to a source
_DELIMITERS = (",", ";", "\t", "|")
_CHUNK = 1 << 20


def open_csv(connection: Connection, files: Sequence[str]) -> tuple[Relation, str]:
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


def check_csv(relation: Relation, files: Sequence[str], delimiter: str) -> None:
    """Raises if an unescaped quote may have made DuckDB read several rows as one.

    Inside a quoted value, line ends are legitimate. But if every line of such a record has enough delimiters
    to be a row by itself, the record looks the same as rows between two stray quotes. DuckDB itself refuses
    text after a closing quote.
    """
    if not any(map(_has_quotes, files)):
        return
    names = list(map(quoted_name, relation.columns))
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
    with io.TextIOWrapper(_open_bytes(file), encoding="utf-8-sig", newline="") as text:
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
    with _open_bytes(file) as content:
        return any(b'"' in chunk for chunk in iter(lambda: content.read(_CHUNK), b""))


def _open_bytes(file: str) -> Any:
    """Opens a file as bytes, decompressed if its name says so."""
    return gzip.open(file) if file.lower().endswith(".gz") else open(file, "rb")


def open_json_lines(connection: Connection, files: Sequence[str]) -> Relation:
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
    listed = ", ".join(sql_literal(glob.escape(file)) for file in files)
    columns = ", ".join(
        f"json_extract_string(json, {_pointer(name)}) AS {quoted_name(name)}" for name in names
    )
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
    with io.TextIOWrapper(_open_bytes(file), encoding="utf-8-sig") as lines:
        line = next((line for line in lines if line.strip()), "")
    try:
        first = json.loads(line)
    except ValueError:
        first = None
    return first if isinstance(first, dict) else {}


def _pointer(name: str) -> str:
    """A JSON pointer to a key of the object (RFC 6901)."""
    return sql_literal("/" + name.replace("~", "~0").replace("/", "~1"))


# -- The dialect -------------------------------------------------------------------------------------------
#
# TRY_CAST gives NULL instead of an error, so the source's types hardly matter.

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_TEXT = ("VARCHAR", "ENUM", "UUID")
_EXACT_DIGITS = 15


class DuckDBDialect(Dialect):
    """DuckDB's SQL. With a connection, codes of declared values are looked up in enums created there."""

    name = "duckdb"

    def __init__(self, connection: Connection | None = None) -> None:
        self._connection = connection
        self._enums = count()

    def placeholder(self, number: int) -> str:
        return f"${number}"

    def code_type(self, size: int) -> str:
        return "UTINYINT" if size < 2**8 else "USMALLINT" if size < 2**16 else "UINTEGER"

    def array(self, values: Sequence[Any], parameters: Parameters) -> str:
        kind = self.type_of(values[0]) if values else self.text
        return f"{self.placeholder(parameters.bind(list(values)))}::{kind}[]"

    def element(self, array: str, place: str) -> str:
        return f"list_extract({array}, {place})"

    def number(self, source: str, kind: Kind) -> str:
        # Casting a long decimal directly to a double would round twice.
        operand = f"CAST({source} AS VARCHAR)" if kind == "long decimal" else source
        return f"CAST(TRY_CAST({operand} AS DOUBLE) AS DOUBLE)"

    def whole(self, source: str, kind: Kind) -> str:
        if kind == "whole":
            return f"TRY_CAST({source} AS BIGINT)"
        number = source if kind in ("decimal", "long decimal") else f"TRY_CAST({source} AS DOUBLE)"
        return f"CASE WHEN {number} = trunc({number}) THEN TRY_CAST({source} AS BIGINT) END"

    def truth(self, source: str, kind: Kind) -> str:
        # 2 is neither true nor false, but a cast would make it true.
        fits = f"COALESCE(TRY_CAST({source} AS DOUBLE) IN (0, 1), TRUE)"
        return f"CASE WHEN {fits} THEN TRY_CAST({source} AS BOOLEAN) END"

    def text_of(self, source: str, kind: Kind) -> str:
        return f"CAST({source} AS VARCHAR)"

    def exact_text(self, source: str, kind: Kind) -> str:
        # A cast keeps the collation, which could make two persons, or two values, equal.
        return f"decode(encode({self.text_of(source, kind)}))"

    def valid_text(self, text: str) -> str:
        return f"TRY({text})"

    def micros(self, source: str, kind: Kind, zone: str) -> str:
        return f"epoch_us({self._moment(source, kind, zone)})"

    def _moment(self, source: str, kind: Kind, zone: str) -> str:
        # The zone's name is safe to insert: Python knows it, and it has no quotation mark.
        local = f"TRY(timezone('{zone}', TRY_CAST({source} AS TIMESTAMPTZ)))"
        moment = f"TRY_CAST({source} AS TIMESTAMP)"
        if kind == "zoned":
            moment = local
        elif kind not in ("date", "timestamp"):
            offset = "':[0-9]{2}.*([+-][0-9]{2}(:?[0-9]{2})?|Z)$'"
            has_offset = f"regexp_matches(CAST({source} AS VARCHAR), {offset})"
            moment = f"CASE WHEN {has_offset} THEN {local} ELSE {moment} END"
        return f"CASE WHEN isfinite({moment}) THEN {moment} END"

    def code(self, key: str, codes: Mapping[Any, int], parameters: Parameters) -> str:
        texts = [str(value) for value in codes]
        text = key if all(isinstance(value, str) for value in codes) else f"CAST({key} AS VARCHAR)"
        place = self._place(text, texts, parameters)
        numbers = list(codes.values())
        return place if numbers == [*range(1, len(codes) + 1)] else f"list_extract({numbers}, {place})"

    def _place(self, text: str, texts: list[str], parameters: Parameters) -> str:
        if self._connection is None:
            return f"list_position({self.array(texts, parameters)}, {text})"
        enum = f"domain_{next(self._enums)}"
        # Declared values are sent as data, not as SQL text. No row has the random first value, code 0.
        self._connection.execute(
            f"CREATE TYPE {enum} AS ENUM (SELECT value FROM "
            "(SELECT unnest(CAST(? AS VARCHAR[])) AS value, unnest(range(?)) AS code) ORDER BY code)",
            [[secrets.token_hex(16), *texts], len(texts) + 1],
        )
        # Nothing may wrap this, so that DuckDB computes it only once per value of a Parquet dictionary.
        return f"enum_code(TRY_CAST({text} AS {enum}))"

    def integer(self, number: str) -> str:
        # TRY_CAST even inside a CASE: DuckDB also casts the dictionary values that the CASE would leave out.
        return f"TRY_CAST({number} AS INTEGER)"

    def person(self, text: str) -> str:
        return f"md5_number({text})"

    def like(self, text: str, pattern: str, ignores_case: bool) -> str:
        return f"({text} {'ILIKE' if ignores_case else 'LIKE'} {pattern})"

    def half_even(self, number: str) -> str:
        return f"TRY_CAST(TRY_CAST({number} AS DOUBLE) AS BIGINT)"

    def cast(self, value: str, target: str, kind: str) -> str:
        return f"TRY_CAST({value} AS {target})"

    def timestamp(self, micros: str) -> str:
        return f"make_timestamp(TRY_CAST({micros} AS BIGINT))"

    def span_number(self, moment: str, micros: int) -> str:
        return f"(epoch_us(CAST({moment} AS TIMESTAMP)) // {micros})"


def kind_of(type_name: str) -> Kind:
    """The kind of values that a DuckDB type holds."""
    plain = type_name.removeprefix("U") if type_name != "UUID" else type_name
    if type_name.strip('"') == "NULL":
        return "nothing"
    if type_name.endswith("]"):
        return "other"
    if plain.startswith(_WHOLE):
        return "whole"
    if plain.startswith("DECIMAL"):
        return "decimal" if int(plain[8:].partition(",")[0]) <= _EXACT_DIGITS else "long decimal"
    if plain.startswith(("FLOAT", "DOUBLE")):
        return "float"
    if plain.startswith("TIMESTAMP"):
        return "zoned" if plain == "TIMESTAMP WITH TIME ZONE" else "timestamp"
    kinds: dict[str, Kind] = {"BOOLEAN": "boolean", "DATE": "date"}
    return "text" if plain.startswith(_TEXT) else kinds.get(type_name, "other")


def words_of(type_name: str) -> str:
    """The kind of values that a DuckDB type holds, in words."""
    kind = kind_of(type_name)
    if type_name.endswith("]"):
        return "lists"
    return f"values of type {type_name.partition('(')[0].lower()}" if kind == "other" else KIND_WORDS[kind]
