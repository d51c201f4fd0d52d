"""A first draft of a schema, from what the columns look like, for the curator to review.

A domain read from data says what is in the data: declaring it unreviewed can reveal a person (the only one
with a rare value, the highest earner). So a draft rounds outwards, leaves doubtful columns commented out, and
says loudly what is left to do.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tomlkit
from tomlkit.items import Array, Table

from dpxplain.errors import InternalError, QueryRefused, SchemaError, SourceError
from dpxplain.model.column import LARGEST_UNITS
from dpxplain.model.schema import Schema

if TYPE_CHECKING:
    from dpxplain.engines.duckdb_profile import ColumnProfile

WARNING = (
    "NOT PRIVATE: this draft was made by reading the data. Every value, edge and bound in it may reveal "
    "someone. Review each against public knowledge (a code book, a law, common sense) before you use or "
    "share it."
)

_HEADER = """\
DRAFT, drawn up by: dpxplain schema init

NOT PRIVATE: this draft was made by reading the data.
Every value, edge and bound below may reveal someone: the only person with a rare value, the
highest earner. Before you use or share this file, review each of them against public knowledge
(a code book, a law, common sense), and then delete this note. Everything declared is public."""
_FEW_BINS = 10
_LINE = 100
_LEAST = 1e-100  # smaller or larger numbers than this and its inverse are no measurements
_ID_NAME = re.compile(r"(^|_)(id|uuid|guid|ssn|email|phone)s?$", re.IGNORECASE)


@dataclass(frozen=True)
class LeftOut:
    """A column that the draft only mentions."""

    name: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """TOML text that Schema.load accepts, and what it leaves out."""

    text: str
    schema: Schema
    left_out: tuple[LeftOut, ...]


def draft_schema(columns: Sequence[ColumnProfile], source: str, rho: float) -> Draft:
    """The draft for a source, named relative to where the schema file will lie."""
    reasons = {column.name: _reason_to_leave_out(column) for column in columns}
    left_out = tuple(LeftOut(name, reason) for name, reason in reasons.items() if reason)
    if len(left_out) == len(columns):
        raise SourceError(
            "No column of the source lends itself to a schema: each is empty, unique to its row, or of a "
            "type that cannot be declared.",
            remedy="Write the schema by hand; docs and adult.toml show how.",
        )
    declared = [column for column in columns if not reasons[column.name]]
    table = _table_name(source)
    text = _toml(table, source, rho, declared, left_out)
    schema = _loaded(text)
    if not _can_be_queried(schema):  # a file called order.csv, say
        text = _toml(f"{table}_data", source, rho, declared, left_out)
        schema = _loaded(text)
    return Draft(text, schema, left_out)


def source_for(data: str, output: Path | None) -> str:
    """How a schema at `output` names the data: relative to its own folder."""
    folder = output.absolute().parent if output is not None else Path.cwd()
    try:
        return Path(os.path.relpath(data, folder)).as_posix()
    except ValueError:  # another drive
        return os.path.abspath(data)


def _toml(
    table: str, source: str, rho: float, columns: Sequence[ColumnProfile], left_out: Sequence[LeftOut]
) -> str:
    document = tomlkit.document()
    for line in _HEADER.splitlines():
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    document.add("table", tomlkit.item({"name": table, "source": source}))
    document.add("privacy", _privacy(rho))
    declarations = tomlkit.table(is_super_table=True)
    for column in columns:
        declarations.add(column.name, _declaration(column))
    document.add("columns", declarations)
    for omitted in left_out:
        document.add(tomlkit.nl())
        document.add(tomlkit.comment(f"[columns.{tomlkit.key(omitted.name).as_string()}]"))
        document.add(tomlkit.comment(f"Left out: {omitted.reason}"))
    return tomlkit.dumps(document)


def _privacy(rho: float) -> Table:
    privacy = tomlkit.table()
    for key, value, comment in (
        ("rho", tomlkit.item(_number(rho)), "the whole data set's budget, for everyone and for ever"),
        ("delta", tomlkit.value("1e-6"), "only for showing (epsilon, delta)"),
        (
            "unit",
            tomlkit.item("row"),
            'one row is one person; else: unit = "<column of the person id>", max_rows = 3',
        ),
        (
            "neighbours",
            tomlkit.item("unbounded"),
            'hides even whether someone is in the data; "bounded": what their rows hold',
        ),
    ):
        privacy.add(key, value.comment(comment))
    return privacy


def _reason_to_leave_out(column: ColumnProfile) -> str:
    """Why a column is not declared; in words that hold no value of the data."""
    if column.kind not in ("numbers", "text", "true or false"):
        return f"it holds {column.kind}, which cannot be declared."
    if not column.distinct:
        return "it holds no value."
    if _ID_NAME.search(column.name):
        return "its name says identifier; if it tells people apart, privacy.unit may name it."
    unique = column.distinct >= 0.9 * column.filled and column.filled >= 20
    if column.kind == "numbers":
        assert column.low is not None
        assert column.high is not None
        if not _LEAST <= (max(abs(column.low), abs(column.high)) or 1.0) <= 1 / _LEAST:
            return "its numbers are too large or too small for round bounds."
        dense = column.high - column.low < 2 * column.filled
        # A small table may well hold every age once.
        if unique and column.whole and dense and not column.values:
            return "nearly every row has a number of its own, so it looks like an identifier."
        return ""
    if unique:
        return "nearly every row has a value of its own, so it looks like an identifier or free text."
    if column.kind == "text" and not column.values:
        return (
            f"about {column.distinct:,} different values are too many to list; declare public groups of them."
        )
    return ""


def _declaration(column: ColumnProfile) -> Table:
    declaration = tomlkit.table()
    if column.kind != "numbers":
        declaration.add("values", _array(column.values))
        _add_null(declaration, column)
        return declaration
    assert column.low is not None
    assert column.high is not None
    has_step = column.whole
    if column.whole and 0 < len(column.values) <= 10 and max(map(abs, column.values)) < 2**53:
        categories = tomlkit.item([_number(value) for value in column.values]).as_string()
        declaration.add(tomlkit.comment(f"or, to treat it as categories: values = {categories}"))
    if column.whole and {column.low, column.high} <= {0.0, 1.0}:
        declaration.add("bounds", tomlkit.item([0, 1]))
    else:
        edges = round_edges(column.low, column.high, column.whole)
        low, high = _bounds(column, edges)
        declaration.add("edges", _array([_number(edge) for edge in edges]))
        _add_null(declaration, column)
        declaration.add("bounds", tomlkit.item([_number(low), _number(high)]))
        has_step = has_step and max(abs(low), abs(high)) <= LARGEST_UNITS
    if has_step:
        declaration.add("step", tomlkit.item(1).comment("whole numbers only: sums are exact"))
    return declaration


def round_edges(low: float, high: float, whole: bool) -> list[float]:
    """About ten bins on round numbers that hold the whole range; the lowest edge lies below `low`, since bins
    are open there.

    >>> round_edges(17, 90, whole=True)
    [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]
    >>> round_edges(0.0, 0.37, whole=False)
    [-0.05, 0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    """
    spread, size = high - low, max(abs(low), abs(high))
    if spread <= 1e-9 * size:  # (nearly) one value only: a single bin from about zero
        width = _round_up(size or 1.0)
    else:
        width = _round_up(max(spread / _FEW_BINS, 1.0 if whole else 0.0))
    first = math.ceil(low / width) - 1
    last = max(math.ceil(high / width), first + 1)
    last += last * width < high  # where the quotient was rounded to zero
    # Rounding the product to the digits of the width gives 0.3, not 0.30000000000000004.
    digits = 1 - math.floor(math.log10(width))
    edges = [round(i * width, digits) if digits > 0 else float(i * width) for i in range(first, last + 1)]
    return list(dict.fromkeys(0.0 if edge == 0 else edge for edge in edges))


def _round_up(width: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    power = 10.0 ** math.floor(math.log10(width))
    return float(f"{next(m for m in (1, 2, 5, 10, 20) if m * power >= width * (1 - 1e-9)) * power:.12g}")


def _bounds(column: ColumnProfile, edges: Sequence[float]) -> tuple[float, float]:
    """Round, and no wider than the edges need: a number that starts at 0 keeps 0."""
    assert column.low is not None
    low = edges[1] if column.low == edges[1] and len(edges) > 2 else edges[0]
    return low, edges[-1]


def _add_null(declaration: Table, column: ColumnProfile) -> None:
    if column.has_null:
        declaration.add("null", tomlkit.item(True).comment("NULL is one of the values"))


def _array(items: Sequence[object]) -> Array:
    """An array on one line if it fits, else one item per line, which is easier to review."""
    array = tomlkit.item(list(items))
    return array.multiline(len(array.as_string()) > _LINE)


def _number(value: float) -> int | float:
    """A whole number as an int, which TOML writes without a fraction.

    >>> _number(10.0), _number(0.25), _number(1e300)
    (10, 0.25, 1e+300)
    """
    value = float(value)
    return int(value) if value == int(value) and abs(value) < 2**53 else value


def _table_name(source: str) -> str:
    """The file's name as an SQL name."""
    stem = re.sub(r"[^a-z0-9]+", "_", Path(source).name.split(".")[0].lower()).strip("_")
    return stem if stem[:1].isalpha() else f"data_{stem}".rstrip("_")


def _can_be_queried(schema: Schema) -> bool:
    from dpxplain.sql.parse import parse

    try:
        parse(f"SELECT COUNT(*) FROM {schema.table.name}", schema)
    except QueryRefused:
        return False
    return True


def _loaded(text: str) -> Schema:
    """The draft as a schema; a draft that does not load is our mistake, and quotes no value."""
    try:
        return Schema.load(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, SchemaError):
        failed = True
    assert failed
    raise InternalError("The drafted schema does not load.")
