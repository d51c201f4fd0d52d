"""Drafts a schema from what a catalog or other tools' metadata say about a table. Reads no row."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import tomlkit
from tomlkit.items import Table

from dpxplain.cli.codebook import Codebook, CodedColumn, check_names
from dpxplain.cli.metadata import DescribedColumn, Description
from dpxplain.cli.schema_draft import (
    DELTA_COMMENT,
    RHO_COMMENT,
    UNIT_COMMENT,
    Draft,
    LeftOut,
    number_item,
    table_name,
    toml_array,
)
from dpxplain.engines.duckdb_profile import ID_NAME
from dpxplain.errors import BadRequest, SchemaError, SourceError
from dpxplain.model.schema import Schema
from dpxplain.model.unknown_column import DISCOVER

_HEADER = """\
DRAFT written by: dpxplain schema init
Source: {origin}. No row was read.

Everything in a schema is public. Some values or bounds may have been taken from the data. Compare each
of them with public knowledge before you use or share this file."""


def draft_described(described: Description, rho: float, codebook: Codebook | None = None) -> Draft:
    """The draft for a described table. Columns without a domain are commented out, or declared for discovery.

    What a code book lists takes precedence over the metadata.
    """
    book = codebook or {}
    check_names(book, [column.name for column in described.columns])
    left_out: list[LeftOut] = []
    columns = tomlkit.table(is_super_table=True)
    for column in described.columns:
        declaration = _declaration(_with_code(column, book.get(column.name)))
        if isinstance(declaration, str):
            left_out.append(LeftOut(column.name, declaration))
        else:
            columns.add(column.name, declaration)
    document = tomlkit.document()
    for line in (*_HEADER.format(origin=described.origin).splitlines(), *described.notes):
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    parts = {"table": _table(described), "privacy": _privacy(described, rho), "columns": columns}
    document.update(parts)
    notes = {column.name: column.notes for column in described.columns}
    for omitted in left_out:
        document.add(tomlkit.nl())
        document.add(tomlkit.comment(f"[columns.{tomlkit.key(omitted.name).as_string()}]"))
        for line in (f"Left out: {omitted.reason}", *notes[omitted.name]):
            document.add(tomlkit.comment(line))
    text = tomlkit.dumps(document)
    return Draft(text, _loaded(text), tuple(left_out))


def _with_code(column: DescribedColumn, coded: CodedColumn | None) -> DescribedColumn:
    """The column with what the code book says about it, if anything."""
    if coded is None:
        return column
    labelled = replace(column, label=coded.label or column.label)
    if coded.values:
        values, labels = coded.typed_values(column.kind), coded.value_labels(column.kind)
        return replace(labelled, values=values, value_labels=labels, edges=None, bounds=None)
    if coded.bounds is None:
        return labelled
    if column.kind != "numbers":
        raise BadRequest(
            f"The code book has bounds for {column.name}, which does not contain numbers.",
            remedy="Delete these bounds from the code book, and declare the column by hand.",
        )
    is_whole = column.whole and all(bound.is_integer() for bound in coded.bounds)
    return replace(labelled, values=None, edges=None, bounds=coded.bounds, whole=is_whole)


def _table(described: Description) -> Table:
    table = tomlkit.table()
    table.update({"name": table_name(described.name)} | ({"source": s} if (s := described.source) else {}))
    if described.is_live:
        version = tomlkit.item(date.today().isoformat())
        table.add("version", version.comment("change it whenever the rows change"))
    return table


def _declaration(column: DescribedColumn) -> Table | str:
    """The declaration of a column, or why there is none."""
    declaration = tomlkit.table()
    for note in column.notes:
        declaration.add(tomlkit.comment(note))
    for key, value in _domain(column):
        declaration.add(key, value)
    if not declaration.value:
        if column.kind in ("numbers", "dates"):
            return f"it contains {column.kind}. Declare bounds = [low, high] or edges = [...] for it."
        return f"it contains {column.kind or 'values of an unknown type'}, which a schema cannot declare."
    if column.null and "values" in declaration and declaration["values"] != "discover":
        declaration.add("null", tomlkit.item(True).comment("NULL is a group of its own"))
    if column.label:
        declaration.add("label", column.label)
    if column.value_labels:
        declaration.add("value_labels", dict(column.value_labels))
    return declaration


def _domain(column: DescribedColumn) -> Iterator[tuple[str, object]]:
    if column.values is not None and all(isinstance(value, str | int) for value in column.values):
        yield "values", toml_array(column.values)
    elif column.kind == "true or false":
        yield "values", tomlkit.item([False, True])
    elif column.edges is not None:
        yield "edges", toml_array([number_item(edge) for edge in column.edges])
    if column.bounds is not None and column.values is None and column.kind in ("numbers", "dates"):
        is_date = column.kind == "dates"
        yield "bounds", tomlkit.item([*column.bounds] if is_date else [*map(number_item, column.bounds)])
        if column.whole:
            yield "step", tomlkit.item(1).comment("whole numbers only, so sums are exact")
    if column.kind == "text" and column.values is None and not ID_NAME.search(column.name):
        discover = tomlkit.item("discover")
        yield "values", discover.comment("list the values if they are public; if not: dpxplain discover")


def _privacy(described: Description, rho: float) -> Table:
    privacy = tomlkit.table()
    privacy.add("rho", tomlkit.item(number_item(rho)).comment(RHO_COMMENT))
    delta = tomlkit.value("1e-6").comment(DELTA_COMMENT)
    privacy.add("delta", delta)
    if described.unit is None:
        privacy.add("unit", tomlkit.item("row").comment(UNIT_COMMENT))
        if (described.max_rows or 1) > 1:
            rows_note = f"a person has up to {described.max_rows} rows: name the column of the person id"
            privacy.add(tomlkit.comment(rows_note))
        return privacy
    privacy.add("unit", described.unit)
    rows = tomlkit.item(described.max_rows or 1)
    privacy.add(
        "max_rows",
        rows
        if described.max_rows
        else rows.comment("the metadata do not say: how many rows can one person have?"),
    )
    return privacy


def _loaded(text: str) -> Schema | None:
    """The draft as a schema; None if no column has a domain, as from a catalog, which has only types."""
    declared = tomllib.loads(text)
    if all(column.get("values") == DISCOVER for column in declared.get("columns", {}).values()):
        return None
    try:
        return Schema.load(declared)
    except SchemaError as error:
        raise SourceError(
            f"The metadata contradict themselves: {error.problem}", remedy="Correct the metadata."
        ) from None
