"""Drafts a schema from what a catalog or other tools' metadata (CSVW-EO of lomas, SmartNoise SQL) say about a
table. Reads no row.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import Table

from dpxplain.cli.schema_draft import (
    EXACT_SUMS,
    UNIT_COMMENT,
    Codebook,
    CodedColumn,
    Draft,
    LeftOut,
    add_left_out,
    add_null,
    budget_section,
    check_names,
    number_item,
    table_name,
    toml_array,
)
from dpxplain.engines.duckdb_profile import ID_NAME
from dpxplain.engines.opening import CatalogTable
from dpxplain.errors import BadRequest, SchemaError, SourceError
from dpxplain.model.column import DISCOVER
from dpxplain.model.schema import Schema

# -- Descriptions of tables --------------------------------------------------------------------------------

_TYPES = {
    **dict.fromkeys(("string", "str", "text", "anyuri", "token"), "text"),
    **dict.fromkeys(("int", "integer", "long", "short", "float", "double", "decimal", "number"), "numbers"),
    **dict.fromkeys(("nonnegativeinteger", "positiveinteger", "byte"), "numbers"),
    **dict.fromkeys(("bool", "boolean"), "true or false"),
    **dict.fromkeys(("date", "datetime", "datetimestamp", "timestamp"), "dates"),
}
_WHOLE_NUMBER_TYPES = {"int", "integer", "long", "short", "byte", "nonnegativeinteger", "positiveinteger"}
_VALUE_KEYS = ("keyValues", "key_values", "keys", "publicKeys", "categories", "enum")


@dataclass
class DescribedColumn:
    """A column as its metadata describe it."""

    name: str
    kind: str = ""
    values: Sequence[Any] | None = None
    edges: Sequence[Any] | None = None
    bounds: tuple[Any, Any] | None = None
    is_whole: bool = False
    has_null: bool = False
    label: str = ""
    value_labels: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # settings that a schema does not have


@dataclass
class Description:
    """A table as its metadata describe it."""

    name: str
    origin: str  # the source of the metadata, in words
    source: str | None = None
    unit: str | None = None
    max_rows: int | None = None
    columns: list[DescribedColumn] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_live: bool = False  # in a database, where rows can change at any time


def is_metadata(path: str) -> bool:
    """Whether a file is metadata rather than data: JSON documents and YAML hold no rows."""
    return path.partition("::")[0].lower().endswith((".json", ".jsonld", ".yaml", ".yml"))


def read_metadata(address: str, kind: str | None = None) -> Description:
    """The description of a table in a file; if it has several, of the one named after ::."""
    file, _, table = address.partition("::")
    path = Path(file)
    raw = _parsed_file(path)
    if not isinstance(raw, Mapping):
        raise _unknown_metadata(path)
    if kind is None:
        kind = "csvw" if "tableSchema" in raw or "tables" in raw else "smartnoise"
    if kind == "csvw":
        return _from_csvw(raw, path, table)
    return _from_smartnoise(raw, path, table)


def described_catalog(catalog: CatalogTable, origin: str) -> Description:
    """The description of a table from its database's catalog: names and types only."""
    columns = [
        DescribedColumn(column.name, column.kind, is_whole=column.is_whole, has_null=column.nullable)
        for column in catalog.columns
    ]
    return Description(catalog.name, origin, catalog.source or None, is_live=True, columns=columns)


def _parsed_file(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise BadRequest(f"Cannot read {path}.", remedy="Name an existing metadata file in UTF-8.") from None
    if path.suffix.lower() in (".yaml", ".yml"):
        import yaml  # type: ignore[import-untyped]

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            raise BadRequest(f"{path} is not valid YAML.", remedy="Correct the file.") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest(f"{path} is not valid JSON.", remedy="Correct the file.") from None


def _unknown_metadata(path: Path) -> BadRequest:
    return BadRequest(
        f"{path} is neither CSVW-EO nor SmartNoise metadata.",
        remedy="CSVW needs a tableSchema with columns. SmartNoise needs a collection, a schema, tables and "
        "columns.",
    )


# -- CSVW-EO -----------------------------------------------------------------------------------------------


def _without_prefixes(node: Any) -> dict[str, Any]:
    """The node with keys without their prefix: csvw-eo:bounds.maxLength and maxLength are the same."""
    items = node.items() if isinstance(node, Mapping) else ()
    return {str(key).rpartition(":")[2].rpartition(".")[2]: value for key, value in items}


def _from_csvw(raw: Mapping[str, Any], path: Path, table: str) -> Description:
    tables = [_without_prefixes(part) for part in raw.get("tables", [raw])]
    chosen = _chosen_table(path, [(_csvw_name(part, path), part) for part in tables], table)
    columns = _without_prefixes(chosen.get("tableSchema")).get("columns")
    if not isinstance(columns, list) or not columns:
        raise _unknown_metadata(path)
    plain = [_without_prefixes(column) for column in columns]
    unit = chosen.get("privacyUnit") or next((c.get("name") for c in plain if c.get("privacyId")), None)
    url = chosen.get("url")
    described = Description(
        _csvw_name(chosen, path),
        f"the CSVW metadata {path.name}",
        str(url) if url and "://" not in str(url) else None,
        None if unit is None else str(unit),
        _positive_count(chosen.get("maxContributions")),
        [_csvw_column(column) for column in plain if column.get("name") not in (None, unit)],
        _notes(chosen, ("maxLength", "publicLength", "maxGroupsPerUnit", "maxNumPartitions")),
    )
    if chosen.get("additionalInformation"):
        described.notes.append("Groups of columns are left out: a schema does not need them.")
    return described


def _csvw_name(table: Mapping[str, Any], path: Path) -> str:
    name = table.get("name") or Path(str(table.get("url") or path)).stem
    return str(name).removesuffix("_metadata").removesuffix("_csvw")


def _csvw_column(column: Mapping[str, Any]) -> DescribedColumn:
    datatype = column.get("datatype", "string")
    details = _without_prefixes(datatype) if isinstance(datatype, Mapping) else {}
    kind = str(details.get("base", "string") if details else datatype).rpartition(":")[2].lower()
    everything = {**details, **column}
    described = _described_column(str(column["name"]), kind, everything, "minimum", "maximum")
    title = column.get("titles") or column.get("description") or ""
    described.label = title if isinstance(title, str) and title != column["name"] else ""
    partitions = [
        _without_prefixes(_without_prefixes(part).get("predicate", part))
        for part in column.get("partitions") or ()
    ]
    if described.values is None and partitions:
        _add_partitions(described, partitions)
    described.has_null = bool(column.get("nullableProportion"))
    unused = ("maxNumPartitions", "maxGroupsPerUnit", "maxContributions", "maxLength", "publicLength")
    described.notes += _notes(column, (*unused, "nullableProportion", "dependsOn", "dependencyType"))
    return described


def _add_partitions(column: DescribedColumn, partitions: Sequence[Mapping[str, Any]]) -> None:
    """Adds public partitions to the column: values, or adjacent intervals."""
    if all("partitionValue" in part for part in partitions):
        column.values = [part["partitionValue"] for part in partitions]
        return
    ends = [
        (part.get("lowerBound", part.get("minimum")), part.get("upperBound", part.get("maximum")))
        for part in partitions
    ]
    if all(_is_number(low) and _is_number(high) and low < high for low, high in ends):
        ends.sort()
        if all(first[1] == second[0] for first, second in pairwise(ends)):
            column.edges = [ends[0][0], *(high for _, high in ends)]
            return
    column.notes.append("Its partitions leave gaps or overlap, so they were not used as edges.")


# -- SmartNoise --------------------------------------------------------------------------------------------

_TABLE_WORDS = {
    *("rows", "row_privacy", "max_ids", "sample_max_ids", "censor_dims", "clamp_counts", "clamp_columns"),
    *("use_dpsu", "rows_exact", "engine"),
}


def _from_smartnoise(raw: Mapping[str, Any], path: Path, table: str) -> Description:
    tables = list(_smartnoise_tables(raw, path))
    if not tables:
        raise _unknown_metadata(path)
    declared = _chosen_table(path, tables, table)
    listed = declared.get("columns")
    columns = (
        listed
        if isinstance(listed, Mapping)
        else {name: value for name, value in declared.items() if name not in _TABLE_WORDS}
    )
    described = {str(key): column for key, column in columns.items() if isinstance(column, Mapping)}
    ids = [key for key, column in described.items() if column.get("private_id") or column.get("is_key")]
    is_row = bool(declared.get("row_privacy")) or not ids
    name = next(key for key, value in tables if value is declared)
    description = Description(
        name.rpartition(".")[2],
        f"the SmartNoise metadata {path.name}",
        None,
        None if is_row else ids[0],
        _positive_count(declared.get("max_ids")),
        [_smartnoise_column(key, column) for key, column in described.items() if is_row or key not in ids],
        _notes(declared, tuple(sorted(_TABLE_WORDS - {"row_privacy", "max_ids", "engine"}))),
    )
    if is_row and not declared.get("row_privacy"):
        description.notes.append("No column is a private_id, so the schema protects single rows.")
    return description


def _smartnoise_tables(raw: Mapping[str, Any], path: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The tables, named schema.table. A lomas file from before CSVW is one table with `columns`."""
    if isinstance(raw.get("columns"), Mapping):
        yield path.stem.removesuffix("_metadata"), raw
        return
    for schemas in raw.values():
        for schema, tables in schemas.items() if isinstance(schemas, Mapping) else ():
            for table, declared in tables.items() if isinstance(tables, Mapping) else ():
                if isinstance(declared, Mapping) and any(
                    isinstance(column, Mapping) and "type" in column for column in declared.values()
                ):
                    yield f"{schema}.{table}", declared


def _smartnoise_column(name: str, column: Mapping[str, Any]) -> DescribedColumn:
    described = _described_column(name, str(column.get("type", "string")).lower(), column, "lower", "upper")
    described.has_null = bool(column.get("nullable")) and described.values is not None
    unused = ("cardinality", "missing_value", "sensitivity", "nullable_proportion", "precision")
    described.notes += _notes(column, unused)
    return described


# -- Parts of both formats ---------------------------------------------------------------------------------


def _described_column(
    name: str, kind: str, column: Mapping[str, Any], lowest: str, highest: str
) -> DescribedColumn:
    values = next(
        (column[key] for key in _VALUE_KEYS if isinstance(column.get(key), list) and column[key]), None
    )
    low, high = column.get(lowest), column.get(highest)
    described = DescribedColumn(name, _TYPES.get(kind, kind), is_whole=kind in _WHOLE_NUMBER_TYPES)
    if values is not None:
        described.values = list(dict.fromkeys(values))
    if _is_number(low) and _is_number(high) and low < high:  # type: ignore[operator]
        described.bounds = low, high
    elif described.kind == "dates" and isinstance(low, str) and isinstance(high, str):
        described.bounds = low[:19], high[:19]
    return described


def _notes(node: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """The settings that a schema does not have."""
    return [f"Not used: {name} = {json.dumps(node[name])}" for name in names if node.get(name)]


def _chosen_table(
    path: Path, tables: Sequence[tuple[str, Mapping[str, Any]]], named: str
) -> Mapping[str, Any]:
    matching = [part for name, part in tables if named in ("", name, name.rpartition(".")[2])]
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(name for name, _ in tables)
    raise BadRequest(
        f"{path} describes {len(tables)} tables.",
        remedy=f"Name one of them as {path.name}::TABLE. The tables are: {names}.",
    )


def _positive_count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# -- Draft -------------------------------------------------------------------------------------------------

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
    parts = {
        "table": _table_section(described),
        "privacy": _privacy_section(described, rho),
        "columns": columns,
    }
    document.update(parts)
    notes = {column.name: column.notes for column in described.columns}
    for omitted in left_out:
        add_left_out(document, omitted, notes[omitted.name])
    text = tomlkit.dumps(document)
    return Draft(text, _loaded_schema(text), tuple(left_out))


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
    is_whole = column.is_whole and all(bound.is_integer() for bound in coded.bounds)
    return replace(labelled, values=None, edges=None, bounds=coded.bounds, is_whole=is_whole)


def _table_section(described: Description) -> Table:
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
    if "values" in declaration and declaration["values"] != DISCOVER:
        add_null(declaration, column.has_null)
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
        if column.is_whole:
            yield "step", tomlkit.item(1).comment(EXACT_SUMS)
    if column.kind == "text" and column.values is None and not ID_NAME.search(column.name):
        discover = tomlkit.item(DISCOVER)
        yield "values", discover.comment("list the values if they are public; if not: dpxplain discover")


def _privacy_section(described: Description, rho: float) -> Table:
    privacy = budget_section(rho)
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


def _loaded_schema(text: str) -> Schema | None:
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
