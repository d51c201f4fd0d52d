"""A first draft of a schema, from what the columns look like, for the curator to review.

A domain read from data reveals what is in the data. Declaring it without review can reveal a person (the only
one with a rare value, or the highest earner). So a draft rounds outwards, comments out doubtful columns, and
says clearly what is left to do.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import tomlkit
from tomlkit.items import Array, Table

from dpxplain.cli.codebook import Codebook, CodedColumn, check_names
from dpxplain.cli.draft_edges import (
    EARLIEST,
    LATEST,
    calendar_names,
    calendar_values,
    drafted_dates,
    drafted_edges,
)
from dpxplain.engines.duckdb_profile import ID_NAME, unit_candidates
from dpxplain.errors import InternalError, QueryRefused, SchemaError, SourceError
from dpxplain.model.column import LARGEST_UNITS
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import UnitCandidate

if TYPE_CHECKING:
    from dpxplain.engines.duckdb_profile import ColumnProfile

WARNING = (
    "NOT PRIVATE: dpxplain read the data to write this draft. Any value, edge or bound in it may reveal a "
    "person. Before you use or share it, compare each with public knowledge (a code book, a law, common "
    "sense)."
)

_HEADER = """\
DRAFT written by: dpxplain schema init

NOT PRIVATE: dpxplain read the data to write this draft.
Any value, edge or bound below may reveal a person: the only one with a rare value, or the highest
earner. Everything in a schema is public. Before you use or share this file, compare each value,
edge and bound with public knowledge (a code book, a law, common sense). Then delete this note."""
_EXACT_SUMS = "whole numbers only, so sums are exact"
_CODES = "to sum and average it; delete bounds and step if the numbers are codes"
_MAY_BE_UNIT = "If it tells people apart, it can be the privacy unit."
RHO_COMMENT = "the budget for all queries together, for ever"
DELTA_COMMENT = "dpxplain converts between rho and epsilon at this delta"
UNIT_COMMENT = "each row is one person; if not, name the column of the person id and add max_rows = 3"
_LINE = 100
_LEAST = 1e-100  # numbers below this or above its inverse are not measurements
_MOST_AGES = 120
_FEW_NUMBERS = 10  # up to this many different whole numbers, each in several rows, are categories
_SHORT = 30  # a longer list is marked for confirmation


@dataclass(frozen=True)
class LeftOut:
    """A column that the draft only mentions."""

    name: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """The draft as TOML text, the columns that it leaves out, and those that may be the privacy unit."""

    text: str
    schema: Schema | None  # None if the curator must declare a domain first
    left_out: tuple[LeftOut, ...]
    units: tuple[UnitCandidate, ...] = ()


def draft_schema(
    columns: Sequence[ColumnProfile], source: str | list[str], rho: float, codebook: Codebook | None = None
) -> Draft:
    """The draft for a source or several files, named relative to the folder of the future schema file.

    What a code book lists takes precedence over the data.
    """
    book = codebook or {}
    check_names(book, [column.name for column in columns])
    coded = {name for name, column in book.items() if column.has_domain}
    reasons = {
        column.name: "" if column.name in coded else _reason_to_leave_out(column) for column in columns
    }
    left_out = tuple(LeftOut(name, reason) for name, reason in reasons.items() if reason)
    if len(left_out) == len(columns):
        raise SourceError(
            "None of the columns can be used: each is empty, has a different value in every row, or has an "
            "unsupported type.",
            remedy="Write the schema by hand; docs/language.md shows how.",
        )
    declared = [column for column in columns if not reasons[column.name]]
    table = table_name(source)
    units = tuple(unit_candidates(columns))

    def written(name: str) -> str:
        return _toml(name, source, _privacy(rho, units), declared, left_out, book)

    text = written(table)
    schema = _loaded(text)
    if not _can_be_queried(schema):  # for example, a file called order.csv
        text = written(f"{table}_data")
        schema = _loaded(text)
    return Draft(text, schema, left_out, units)


def source_for(data: str, output: Path | None) -> str:
    """The name of the data in a schema at `output`: relative to the schema's folder."""
    folder = output.absolute().parent if output is not None else Path.cwd()
    try:
        return Path(os.path.relpath(data, folder)).as_posix()
    except ValueError:  # another drive
        return os.path.abspath(data)


def _toml(
    table: str,
    source: str | list[str],
    privacy: Table,
    columns: Sequence[ColumnProfile],
    left_out: Sequence[LeftOut],
    book: Codebook,
) -> str:
    document = tomlkit.document()
    for line in _HEADER.splitlines():
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    document.add("table", tomlkit.item({"name": table, "source": source}))
    document.add("privacy", privacy)
    declarations = tomlkit.table(is_super_table=True)
    for column in columns:
        coded = book.get(column.name)
        declaration = (
            _coded_declaration(column, coded) if coded and coded.has_domain else _declaration(column)
        )
        if coded and coded.label:
            declaration.add("label", coded.label)
        if coded and (labels := coded.value_labels(column.kind)):
            declaration.add("value_labels", labels)
        declarations.add(column.name, declaration)
    document.add("columns", declarations)
    for omitted in left_out:
        document.add(tomlkit.nl())
        document.add(tomlkit.comment(f"[columns.{tomlkit.key(omitted.name).as_string()}]"))
        document.add(tomlkit.comment(f"Left out: {omitted.reason}"))
    return tomlkit.dumps(document)


def _coded_declaration(column: ColumnProfile, coded: CodedColumn) -> Table:
    """The declaration of a column that the code book lists."""
    declaration = tomlkit.table()
    declaration.add(tomlkit.comment("from the code book"))
    if coded.values:
        declaration.add("values", toml_array(coded.typed_values(column.kind)))
        _add_null(declaration, column)
    elif coded.bounds is not None:
        declaration.add("bounds", tomlkit.item([number_item(bound) for bound in coded.bounds]))
    return declaration


def _privacy(rho: float, units: Sequence[UnitCandidate]) -> Table:
    privacy = tomlkit.table()
    budget = tomlkit.item(number_item(rho))
    privacy.add("rho", budget.comment(RHO_COMMENT))
    privacy.add("delta", tomlkit.value("1e-6").comment(DELTA_COMMENT))
    privacy.add("unit", tomlkit.item("row").comment(UNIT_COMMENT))
    for unit in units:
        for line in _unit_proposal(unit):
            privacy.add(tomlkit.comment(line))
    neighbours = tomlkit.item("unbounded")
    hides = 'hides whether a person is in the data; "bounded" hides only what their rows say'
    privacy.add("neighbours", neighbours.comment(hides))
    return privacy


def _unit_proposal(unit: UnitCandidate) -> tuple[str, ...]:
    """Comment lines about a column that looks like a person's key; the curator may uncomment them."""
    name = tomlkit.item(unit.column).as_string()
    return (
        f"{name} may tell people apart: about {unit.values:,} values in {unit.rows:,} rows, up to "
        f"{unit.most_rows:,} rows each.",
        "If it does, delete the line with unit above, and the # before these two lines:",
        f"unit = {name}",
        f"max_rows = {unit.usual_rows}  # keeps 99% of the rows; more rows per person mean more noise",
    )


def _reason_to_leave_out(column: ColumnProfile) -> str:
    """Why a column is not declared. The words contain no value of the data."""
    if column.kind == "dates":
        if column.first and not (EARLIEST <= _moment(column.first) <= _moment(column.last) <= LATEST):
            return "some of its dates are so early or so late that they are probably codes, not dates."
        return "" if column.first else "it contains no readable date."
    if column.kind not in ("numbers", "text", "true or false"):
        return f"it contains {column.kind}, which a schema cannot declare."
    if not column.distinct:
        return "it is empty."
    if ID_NAME.search(column.name):
        return f"its name looks like an identifier's. {_MAY_BE_UNIT}"
    unique = column.distinct >= 0.9 * column.filled and column.filled >= 20
    if column.kind == "numbers":
        if column.has_number_keys:
            return f"its numbers repeat, as a person's id would. {_MAY_BE_UNIT} If not, declare its bounds."
        assert column.low is not None
        assert column.high is not None
        if not _LEAST <= (max(abs(column.low), abs(column.high)) or 1.0) <= 1 / _LEAST:
            return "its numbers are too large or too small to propose bounds."
        dense = column.high - column.low < 2 * column.filled
        # A small table may well hold every age once.
        if unique and column.whole and dense and column.distinct > _MOST_AGES:
            return "nearly every row has a different number, so it looks like an identifier."
        return ""
    if unique:
        return "nearly every row has a different value, so it looks like an identifier or free text."
    if column.has_coded_values:
        return f"its values look like identifiers. {_MAY_BE_UNIT}"
    if column.kind == "text" and not column.values:
        return f"about {column.distinct:,} different values are too many to list. {_MAY_BE_UNIT}"
    return ""


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _dated_declaration(column: ColumnProfile) -> Table:
    declaration = tomlkit.table()
    period, edges = drafted_dates(_moment(column.first), _moment(column.last), column.whole)
    last_of = "; each bin includes the day at its upper edge" if column.whole else ""
    declaration.add(tomlkit.comment(f"one bin per {period}{last_of}"))
    declaration.add("edges", toml_array(edges))
    _add_null(declaration, column)
    return declaration


def _declaration(column: ColumnProfile) -> Table:
    if column.kind == "dates":
        return _dated_declaration(column)
    declaration = tomlkit.table()
    if column.kind != "numbers":
        values = calendar_names(column.values) or column.values
        if len(values) > _SHORT:
            declaration.add(tomlkit.comment(f"{len(values)} values: compare them with a public list"))
        declaration.add("values", toml_array(values))
        _add_null(declaration, column)
        return declaration
    assert column.low is not None
    assert column.high is not None
    calendar = calendar_values(column.name, column.low, column.high) if column.whole else None
    if calendar is not None:
        declaration.add("values", toml_array(calendar))
        _add_null(declaration, column)
        return declaration
    is_flag = column.whole and {column.low, column.high} <= {0.0, 1.0}
    if is_flag or _has_few_numbers(column):
        _add_categories(declaration, column, [0, 1] if is_flag else [int(value) for value in column.values])
        return declaration
    edges = drafted_edges(column.low, column.high, column.whole, column.quantiles)
    low, high = _bounds(column, edges)
    declaration.add("edges", toml_array([number_item(edge) for edge in edges]))
    _add_null(declaration, column)
    declaration.add("bounds", tomlkit.item([number_item(low), number_item(high)]))
    if column.quantiles and 3 * (column.quantiles[-2] - column.quantiles[1]) < high - low:
        usual = f"{column.quantiles[1]:.6g} to {column.quantiles[-2]:.6g}"
        declaration.add(tomlkit.comment(f"99.8% lie within {usual}: narrower bounds mean less noise"))
    if column.whole and max(abs(low), abs(high)) <= LARGEST_UNITS:
        declaration.add("step", tomlkit.item(1).comment(_EXACT_SUMS))
    return declaration


def _has_few_numbers(column: ColumnProfile) -> bool:
    """Whether whole numbers are so few, and repeat so often, that each is a category."""
    is_few = column.whole and 0 < len(column.values) <= _FEW_NUMBERS
    return is_few and column.filled >= 5 * column.distinct and max(map(abs, column.values)) <= LARGEST_UNITS


def _add_categories(declaration: Table, column: ColumnProfile, values: Sequence[int]) -> None:
    """Declares whole numbers for grouping and, if there are several, for averages too."""
    declaration.add("values", toml_array(values))
    _add_null(declaration, column)
    if len(values) > 1:
        bounds = tomlkit.item([values[0], values[-1]])
        is_flag = list(values) == [0, 1]
        use = "to average it: the share of rows with 1" if is_flag else _CODES
        declaration.add("bounds", bounds.comment(use))
        declaration.add("step", tomlkit.item(1).comment(_EXACT_SUMS))


def _bounds(column: ColumnProfile, edges: Sequence[float]) -> tuple[float, float]:
    """Round bounds, no wider than the edges require: a number that starts at 0 keeps 0."""
    assert column.low is not None
    low = edges[1] if column.low == edges[1] and len(edges) > 2 else edges[0]
    return 0.0 if column.low == 0 else low, edges[-1]


def _add_null(declaration: Table, column: ColumnProfile) -> None:
    if column.has_null:
        declaration.add("null", tomlkit.item(True).comment("NULL is a group of its own"))


def toml_array(items: Sequence[object]) -> Array:
    """An array on one line if it fits, otherwise on several lines, each as full as possible."""
    array = tomlkit.item(list(items))
    if len(array.as_string()) <= _LINE:
        return array
    lines = [""]
    for literal in (f"{tomlkit.item(part).as_string()}," for part in items):
        if lines[-1] and len(lines[-1]) + len(literal) >= _LINE:
            lines.append("")
        lines[-1] += f" {literal}" if lines[-1] else f"    {literal}"
    parsed = tomlkit.value("[\n{}\n]".format("\n".join(lines)))
    assert isinstance(parsed, Array)
    return parsed


def number_item(value: float) -> int | float:
    """A whole number as an int, which TOML writes without a fraction.

    >>> number_item(10.0), number_item(0.25), number_item(1e300)
    (10, 0.25, 1e+300)
    """
    value = float(value)
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def table_name(source: str | list[str]) -> str:
    """The file's name as an SQL name; for several files, the words that all their names begin with."""
    if isinstance(source, list):
        words = zip(*(table_name(path).split("_") for path in source), strict=False)
        return "_".join(same[0] for same in takewhile(lambda same: len(set(same)) == 1, words)) or "data"
    name = source.rpartition("::")[2] if "::" in source else Path(source).name.split(".")[0]
    stem = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return stem if stem[:1].isalpha() else f"data_{stem}".rstrip("_")


def _can_be_queried(schema: Schema) -> bool:
    from dpxplain.sql.parse import parse

    try:
        parse(f"SELECT COUNT(*) FROM {schema.table.name}", schema)
    except QueryRefused:
        return False
    return True


def _loaded(text: str) -> Schema:
    """The draft as a schema. If it does not load, that is a bug, and the error quotes no value."""
    try:
        return Schema.load(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, SchemaError):
        failed = True
    assert failed
    raise InternalError("The drafted schema does not load.")
