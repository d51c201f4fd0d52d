"""SQL expressions that encode declared columns as small integers when DuckDB opens a source.

They never fail on a value: one of the wrong type, outside the domain, NaN or infinite is encoded as
undeclared or clamped (SPEC section 2, item 6).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

import duckdb

from dpxplain.engines.duckdb_expressions import ExpressionSQL, sql_type
from dpxplain.errors import SchemaError
from dpxplain.model.dates import midnight, position
from dpxplain.model.derived_column import expression_of
from dpxplain.model.schema import Column, DomainValue, Schema
from dpxplain.sql.encoded_names import code_column, units_column, value_column

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_TEXT = ("VARCHAR", "ENUM", "UUID", "DATE")
_NOTHING = "nothing"
_DATES = "dates or timestamps"


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def check_columns(schema: Schema, types: dict[str, str], untyped: frozenset[str]) -> None:
    """Refuses a schema that contradicts the source's column names and types. Reads no values.

    Columns without a type of their own (`untyped`) and all-NULL columns are not checked: otherwise one row
    could decide whether the data set opens.
    """
    unit = schema.privacy.unit
    if unit != "row" and unit not in types:
        raise SchemaError(
            f"privacy.unit names the column {unit!r}, which the source does not have.",
            remedy=_columns_of(types, untyped),
        )
    for name, column in schema.columns.items():
        if column.expression is not None:
            continue
        if name not in types:
            raise SchemaError(
                f"columns.{name} is declared, but the source has no such column.",
                remedy=_columns_of(types, untyped),
            )
        declared = _declared_kind(column)
        actual = kind_of(types[name])
        if name in untyped or actual in (declared, _NOTHING):
            continue
        is_dated = declared == _DATES and types[name].startswith(("DATE", "TIMESTAMP", "VARCHAR", "ENUM"))
        if not is_dated and not {declared, actual} <= {"numbers", "true or false"}:
            mend = (
                'Declare its texts, such as values = ["true", "false"]'
                if actual == "text"
                else "Mend the schema"
            )
            raise SchemaError(
                f"columns.{name} is declared with {declared}, but the source holds {actual} there.",
                remedy=f"{mend}, or convert the column in the source.",
            )


def _columns_of(types: dict[str, str], untyped: frozenset[str]) -> str:
    if types.keys() == untyped:
        # The first line of a CSV file without a header line holds values, so it is not repeated here.
        return "Mend the schema; a CSV file must name its columns in its first line."
    return f"The source has: {', '.join(types)}."


def _declared_kind(column: Column) -> str:
    if column.is_temporal:
        return _DATES
    if column.is_numeric:
        return "numbers"
    sample = next(iter(_members(column)), "")
    if isinstance(sample, bool):
        return "true or false"
    return "numbers" if isinstance(sample, int) else "text"


def kind_of(type_name: str) -> str:
    """The kind of values that a DuckDB type holds, in words."""
    plain = type_name.removeprefix("U") if type_name != "UUID" else type_name
    if type_name.strip('"') == "NULL":
        return _NOTHING
    if type_name.endswith("]"):
        return "lists"
    if plain.startswith(_NUMBERS):
        return "numbers"
    if type_name == "BOOLEAN":
        return "true or false"
    return "text" if plain.startswith(_TEXT) else f"values of type {type_name.partition('(')[0].lower()}"


def encoding(schema: Schema, connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The encoded table's columns, and the SQL expression of each."""
    columns = {}
    for name, column in schema.columns.items():
        if column.expression is not None:
            continue
        if column.values is not None:
            columns[code_column(schema, name)] = _category_code(schema, name, connection)
            continue
        number = position_of(moment_of(name, column)) if column.is_temporal else raw_number(name)
        columns |= _number_columns(schema, name, column, number)
    return columns


def _number_columns(schema: Schema, name: str, column: Column, number: str) -> dict[str, str]:
    """The encoded columns of a number, or of a date's place on the number line."""
    columns = {}
    missing = f"({number} IS NULL OR isnan({number}))"
    if column.edges is not None:
        columns[code_column(schema, name)] = _bin_code(column, number, missing)
    if column.is_summable:
        columns[units_column(schema, name)] = _units(column, number, missing)
    else:
        clamped = number
        if column.bounds is not None:
            low, high = (_double(position(bound)) for bound in column.bounds)
            clamped = f"least(greatest({number}, {low}), {high})"
        columns[value_column(schema, name)] = f"CASE WHEN {missing} THEN NULL ELSE {clamped} END"
    return columns


def moment_of(name: str, column: Column) -> str:
    """The source's value as a timestamp; one with a time zone is converted to the declared zone or UTC."""
    source = quote(name)
    text = f"CAST({source} AS VARCHAR)"
    has_offset = f"regexp_matches({text}, ':[0-9]{{2}}.*([+-][0-9]{{2}}(:?[0-9]{{2}})?|Z)$')"
    aware = (
        f"typeof({source}) = 'TIMESTAMP WITH TIME ZONE' OR (typeof({source}) = 'VARCHAR' AND {has_offset})"
    )
    # The name of the zone is one that Python knows, and has no quotation mark.
    local = f"TRY(timezone('{column.time_zone or 'UTC'}', TRY_CAST({source} AS TIMESTAMPTZ)))"
    moment = f"CASE WHEN {aware} THEN {local} ELSE TRY_CAST({source} AS TIMESTAMP) END"
    return f"CASE WHEN isfinite({moment}) THEN {moment} END"


def position_of(moment: str) -> str:
    """Microseconds since 1970, as `model.dates.position` computes them."""
    return f"CAST(epoch_us({moment}) AS DOUBLE)"


def raw_number(name: str) -> str:
    """The source's value as a number; NULL where it is none."""
    return f"CAST(TRY_CAST({quote(name)} AS DOUBLE) AS DOUBLE)"


def unit_identity(unit: str) -> str:
    """What makes two rows those of one person: the bytes of the unit's text.

    Equality of the column's own type would be another notion than that of the count of persons: texts may
    have a collation, and 0.0 equals -0.0.
    """
    return f"encode(CAST({quote(unit)} AS VARCHAR))"


def known_unit(name: str) -> str:
    """Whether a row names its privacy unit. Several rows that do not may belong to one person."""
    unit = quote(name)
    return f"({unit} IS NOT NULL AND lower(CAST({unit} AS VARCHAR)) NOT IN ('', 'nan'))"


def with_derived(schema: Schema, names: Iterable[str], rows: str) -> tuple[str, list[Any]]:
    """SQL of the rows with the encoded columns of expressions added, and its parameters.

    Expressions are evaluated over encoded columns, so they see declared values only; their own values are
    clamped or listed like those of any column, whatever was inferred of them.
    """
    parameters: list[Any] = []
    for name in names:
        rows, further = with_one_derived(schema, name, rows)
        parameters = [*further, *parameters]
    return rows, parameters


def with_one_derived(schema: Schema, name: str, rows: str, *figures: str) -> tuple[str, list[Any]]:
    """SQL of the rows with one expression's encoded columns, and with `figures` of its value `derived`."""
    column = schema.column(name)
    expression = ExpressionSQL(schema)
    value = expression.render(expression_of(column, schema.columns))
    added, listed = _derived_columns(schema, name, column)
    wanted = ", ".join([added, *figures])
    sql = f"SELECT * EXCLUDE (derived), {wanted} FROM (SELECT *, {value} AS derived FROM ({rows}))"
    return sql, [*listed, *expression.parameters]


def _derived_columns(schema: Schema, name: str, column: Column) -> tuple[str, list[Any]]:
    """The encoded columns of the value that is called `derived`, and their parameters."""
    columns: dict[str, str] = {}
    parameters: list[Any] = []
    number = position_of("CAST(derived AS TIMESTAMP)") if column.is_temporal else "CAST(derived AS DOUBLE)"
    missing = f"(derived IS NULL OR isnan({number}))"
    if column.values is not None:
        listed = [value for value in schema.domain(name) if value is not None]
        parameters.append(listed)
        kind = sql_type(listed)
        code = f"COALESCE(list_position(?::{kind}[], CAST(derived AS {kind})), 0)"
        if None in schema.domain(name):
            code = f"CASE WHEN derived IS NULL THEN {len(listed) + 1} ELSE {code} END"
        columns[code_column(schema, name)] = f"CAST({code} AS {_smallest_type(len(listed) + 1)})"
        if column.is_summable:
            columns[units_column(schema, name)] = _units(column, number, missing)
    else:
        columns |= _number_columns(schema, name, column, number)
    return ", ".join(f"{expression} AS {name}" for name, expression in columns.items()), parameters


def _category_code(schema: Schema, name: str, connection: duckdb.DuckDBPyConnection) -> str:
    """Position among the declared values, from 1; 0 for anything else."""
    domain, groups = schema.domain(name), schema.column(name).groups
    listed = _members(schema.column(name))
    kind = f"domain_{code_column(schema, name)}"
    # Declared values travel as data, not as SQL text.
    texts = [_text(value) for value in listed]
    connection.execute(
        "CREATE TEMP TABLE declared AS "
        "SELECT unnest(CAST(? AS VARCHAR[])) AS value, unnest(range(?)) AS code",
        [texts, len(texts)],
    )
    connection.execute(f"CREATE TYPE {kind} AS ENUM (SELECT value FROM declared ORDER BY code)")
    connection.execute("DROP TABLE declared")
    source = quote(name)
    if listed and isinstance(listed[0], bool):
        # 2 is neither true nor false, though a cast would take it for true.
        fits = f"COALESCE(TRY_CAST({source} AS DOUBLE) IN (0, 1), TRUE)"
        text = f"CASE WHEN {fits} THEN CAST(TRY_CAST({source} AS BOOLEAN) AS VARCHAR) END"
    elif listed and isinstance(listed[0], int):
        # 3.7 is not the category 4: only whole numbers count.
        number = f"TRY_CAST({source} AS DOUBLE)"
        whole = f"TRY_CAST({source} AS BIGINT)"
        text = f"CASE WHEN {number} = floor({number}) THEN CAST({whole} AS VARCHAR) END"
    elif schema.column(name).is_temporal:
        text = f"strftime({moment_of(name, schema.column(name))}, '%Y-%m-%d %H:%M:%S.%f')"
    else:
        text = f"CAST({source} AS VARCHAR)"
    code = f"CAST(enum_code(TRY_CAST({text} AS {kind})) AS INTEGER) + 1"
    if groups is not None:
        numbers = [number for number, members in enumerate(groups.values(), 1) for _ in members]
        code = f"list_extract({numbers}, {code})"
    code = f"COALESCE({code}, 0)"
    if None in domain:
        code = f"CASE WHEN {source} IS NULL THEN {len(domain)} ELSE {code} END"
    return f"CAST({code} AS {_smallest_type(len(domain))})"


def _members(column: Column) -> list[Any]:
    """The values of the source that are declared: those of all groups, if there are groups."""
    if column.groups is not None:
        return [member for members in column.groups.values() for member in members]
    return [value for value in column.values or () if value is not None]


def _text(value: DomainValue) -> str:
    """A declared value as the text that a row's value is compared with."""
    if isinstance(value, date):
        return midnight(value).isoformat(" ", "microseconds")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bin_code(column: Column, number: str, missing: str) -> str:
    """Bins are open below and closed above; 0 outside the edges."""
    assert column.edges is not None
    assert column.domain is not None
    places = [position(edge) if column.is_temporal else edge for edge in column.edges]
    steps = " ".join(f"WHEN {number} <= {_double(edge)} THEN {i}" for i, edge in enumerate(places))
    null_code = len(column.domain) if column.null else 0
    code = f"CASE WHEN {missing} THEN {null_code} {steps} ELSE 0 END"
    return f"CAST({code} AS {_smallest_type(len(column.domain))})"


def _units(column: Column, number: str, missing: str) -> str:
    """Clamp, then round to the grid. NULL is kept apart first: least and greatest would ignore it."""
    assert column.bounds is not None
    grid = column.grid
    low, high = column.bounds
    clamped = f"least(greatest({number}, {_double(low)}), {_double(high)})"
    rounded = f"CAST(round({clamped} / {_double(grid.unit)}) AS BIGINT)"
    inside = f"least(greatest({rounded}, {grid.low}), {grid.high})"
    return f"CASE WHEN {missing} THEN NULL ELSE CAST({inside} AS INTEGER) END"


def _double(value: float) -> str:
    """A float to its last digit; DuckDB reads a bare 0.1 as a DECIMAL, whose conversion can be off by one."""
    return f"CAST('{value!r}' AS DOUBLE)"


def _smallest_type(size: int) -> str:
    return "UTINYINT" if size < 2**8 else "USMALLINT" if size < 2**16 else "UINTEGER"
