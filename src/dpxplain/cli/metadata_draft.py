"""A schema's draft from what metadata or a catalog say of a table. No row is read for it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import tomlkit
from tomlkit.items import Table

from dpxplain.cli.foreign_metadata import DescribedColumn, Description
from dpxplain.cli.schema_draft import Draft, LeftOut, number_item, table_name, toml_array
from dpxplain.errors import SchemaError, SourceError
from dpxplain.model.schema import Schema
from dpxplain.model.unknown_column import DISCOVER

_HEADER = """\
DRAFT, drawn up by: dpxplain schema init
From {origin}; no row was read for it.

Nothing declared is protected. If values or bounds were once read from data, review each of them
against public knowledge before you use or share this file."""
_IDENTIFIER = re.compile(r"(^|_)(id|uuid|guid|ssn|email|phone)s?$", re.IGNORECASE)


def draft_described(described: Description, rho: float) -> Draft:
    """The draft of a described table; columns without a domain are commented out, or to be discovered."""
    left_out: list[LeftOut] = []
    columns = tomlkit.table(is_super_table=True)
    for column in described.columns:
        declaration = _declaration(column)
        if isinstance(declaration, str):
            left_out.append(LeftOut(column.name, declaration))
        else:
            columns.add(column.name, declaration)
    document = tomlkit.document()
    for line in (*_HEADER.format(origin=described.origin).splitlines(), *described.notes):
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    table = {"name": table_name(described.name)}
    document.add("table", tomlkit.item(table | ({"source": described.source} if described.source else {})))
    document.add("privacy", _privacy(described, rho))
    document.add("columns", columns)
    notes = {column.name: column.notes for column in described.columns}
    for omitted in left_out:
        document.add(tomlkit.nl())
        document.add(tomlkit.comment(f"[columns.{tomlkit.key(omitted.name).as_string()}]"))
        for line in (f"Left out: {omitted.reason}", *notes[omitted.name]):
            document.add(tomlkit.comment(line))
    text = tomlkit.dumps(document)
    return Draft(text, _loaded(text), tuple(left_out))


def _declaration(column: DescribedColumn) -> Table | str:
    """The declaration of a column, or why there is none."""
    declaration = tomlkit.table()
    for note in column.notes:
        declaration.add(tomlkit.comment(note))
    for key, value in _domain(column):
        declaration.add(key, value)
    if not declaration.value:
        if column.kind in ("numbers", "dates"):
            return f"it holds {column.kind}; declare bounds = [low, high] or edges = [...] for it."
        return f"it holds {column.kind or 'values of an unknown type'}, which cannot be declared."
    if column.null and "values" in declaration and declaration["values"] != "discover":
        declaration.add("null", tomlkit.item(True).comment("NULL is one of the values"))
    if column.label:
        declaration.add("label", column.label)
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
            yield "step", tomlkit.item(1).comment("whole numbers only: sums are exact")
    if column.kind == "text" and column.values is None and not _IDENTIFIER.search(column.name):
        found = tomlkit.item("discover")
        yield "values", found.comment("list them if they are public; else: dpxplain discover")


def _privacy(described: Description, rho: float) -> Table:
    privacy = tomlkit.table()
    privacy.add("rho", tomlkit.item(number_item(rho)).comment("the whole data set's budget, in zCDP"))
    delta = tomlkit.value("1e-6").comment("for showing (epsilon, delta), and for all discoveries together")
    privacy.add("delta", delta)
    if described.unit is None:
        whom = 'one row is one person; else: unit = "<column of the person id>", max_rows = 3'
        privacy.add("unit", tomlkit.item("row").comment(whom))
        if (described.max_rows or 1) > 1:
            said = f"up to {described.max_rows} rows per person, but no column tells persons apart: name it"
            privacy.add(tomlkit.comment(said))
        return privacy
    privacy.add("unit", described.unit)
    rows = tomlkit.item(described.max_rows or 1)
    privacy.add(
        "max_rows", rows if described.max_rows else rows.comment("not said there: how many are usual?")
    )
    return privacy


def _loaded(text: str) -> Schema | None:
    """The draft as a schema; None while no column has a domain, as after a catalog that tells types only."""
    declared = tomllib.loads(text)
    if all(column.get("values") == DISCOVER for column in declared.get("columns", {}).values()):
        return None
    try:
        return Schema.load(declared)
    except SchemaError as error:
        raise SourceError(
            f"The metadata contradict themselves: {error.problem}", remedy="Mend them."
        ) from None
