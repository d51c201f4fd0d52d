"""The schema of private tables joined by the person's id, and the schemas of the single tables.

Before the join, each table keeps at most its own `max_rows` rows of a person. So the number of a person's
joined rows is at most the product of these limits (docs/proofs/private-joins.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpxplain.errors import SchemaError
from dpxplain.model.joined_tables import MOST_ROWS
from dpxplain.model.schema import Schema


def joined_schema(schema: Schema, tables: Iterable[str]) -> Schema:
    """The schema of the rows after joining these private tables by the unit, in declared order."""
    chosen = set(tables)
    joined = {name: _names(schema, name) for name in schema.private if name in chosen}
    columns = {
        column: schema.private[name].columns[attribute]
        for name, names in joined.items()
        for attribute, column in names.items()
    }
    if twice := [name for name in columns if name in schema.columns]:
        raise SchemaError(
            f"The joined table would have two columns called {twice[0]}.",
            remedy="Rename one of them in the data set's own table.",
        )
    most = schema.privacy.max_rows * math.prod(schema.private[name].max_rows for name in joined)
    if most > MOST_ROWS:
        raise SchemaError(
            f"One {schema.privacy.unit} could have {most:,} joined rows. The limit is {MOST_ROWS:,}.",
            remedy="Lower max_rows of the joined tables.",
        )
    privacy = schema.privacy.model_copy(update={"max_rows": most})
    return Schema.load(
        schema.model_copy(
            update={"joined": joined, "privacy": privacy, "columns": {**schema.columns, **columns}}
        )
    )


def parts(schema: Schema) -> dict[str, Schema]:
    """The schema of each table behind the rows, as if the table were a data set of its own."""
    if not schema.joined:
        return {schema.table.name: schema}
    added = {column for names in schema.joined.values() for column in names.values()}
    own = schema.model_copy(
        update={
            "joined": {},
            "privacy": schema.privacy.model_copy(
                update={"max_rows": schema.privacy.max_rows // _product(schema)}
            ),
            "columns": {name: column for name, column in schema.columns.items() if name not in added},
        }
    )
    others = {name: _part(schema, name) for name in schema.joined}
    return {schema.table.name: Schema.load(own), **others}


def all_parts(schema: Schema) -> dict[str, Schema]:
    """The schemas of all tables that may be joined; for a joined schema, of the tables that it joins."""
    others = (
        {} if schema.joined else {name: parts(joined_schema(schema, [name]))[name] for name in schema.private}
    )
    return {**parts(schema), **others}


def _part(schema: Schema, name: str) -> Schema:
    table = schema.private[name]
    privacy = schema.privacy.model_copy(update={"unit": table.unit, "max_rows": table.max_rows})
    return Schema.load(
        schema.model_copy(
            update={
                "table": schema.table.model_copy(update={"name": name, "source": table.source}),
                "privacy": privacy,
                # Not the table's own columns, because sensitivities follow from the joined ones.
                "columns": {own: schema.columns[column] for own, column in schema.joined[name].items()},
                "joined": {},
                "private": {},
                "tables": {},
                "unknown": {},
            }
        )
    )


def _product(schema: Schema) -> int:
    return math.prod(schema.private[name].max_rows for name in schema.joined)


def _names(schema: Schema, table: str) -> dict[str, str]:
    """The names of a table's columns after the join: their own if no other column has it."""
    others = [*schema.columns, *schema.unknown, schema.privacy.unit]
    others += [column for name in schema.private if name != table for column in schema.private[name].columns]
    taken_names = {name.casefold() for name in others}
    return {
        column: f"{table}.{column}" if column.casefold() in taken_names else column
        for column in schema.private[table].columns
    }
