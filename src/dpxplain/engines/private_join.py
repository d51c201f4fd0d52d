"""Joins the encoded rows of private tables by the person's id, as SQL of any dialect.

Each table is first encoded and cut to its own max_rows, as if it was a data set of its own: the choice of a
person's rows depends only on that person's rows in that table. Only then are the tables joined
(docs/proofs/private-joins.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpxplain.engines.dialect import Kind
from dpxplain.engines.encoding import Encoding, Rows
from dpxplain.errors import SchemaError
from dpxplain.model.joined_schema import parts
from dpxplain.model.schema import Schema
from dpxplain.sql.encoded_names import PERSON, UNIT, code_column, units_column, value_column


def all_rows(schema: Schema, encodings: Sequence[Encoding]) -> Rows:
    """The encoded rows of a data set, or of its joined tables; `encodings` are in the order of `parts`."""
    if not schema.joined:
        return encodings[0].all_rows()
    tables = [replace(encoding, keeps_unit=True).rows() for encoding in encodings]
    return joined_rows(schema, tables, encodings[0])


def joined_rows(schema: Schema, tables: Sequence[Rows], encoding: Encoding) -> Rows:
    """The rows of all tables joined by the text of the unit, with the columns of declared expressions.

    A person who is missing in a table has no joined row. `encoding` has the dialect and the parameters.
    """
    listed, joins = [f"part_0.{PERSON} AS {PERSON}"], []
    columns = [PERSON]
    for number, ((table, part), rows) in enumerate(zip(parts(schema).items(), tables, strict=True)):
        names = _encoded_names(schema, part, table)
        own = {name: names[name] for name in rows.columns if name in names}
        listed += [f"part_{number}.{name} AS {joined}" for name, joined in own.items()]
        columns += own.values()
        on = f" ON part_{number}.{UNIT} = part_0.{UNIT}" if number else ""
        joins.append(f"({rows.sql}) AS part_{number}{on}")
    joined = Rows(f"SELECT {', '.join(listed)} FROM {' JOIN '.join(joins)}", tuple(columns))
    derived = [name for name, column in schema.columns.items() if column.expression is not None]
    return replace(encoding, schema=schema).with_derived(derived, joined)


def check_units(tables: Mapping[str, Schema], kinds: Mapping[str, Mapping[str, Kind]]) -> None:
    """Raises if the units of two tables may write the same person differently, such as 7 and 7.00."""
    if len(tables) == 1:
        return
    units = {name: kinds[name][part.privacy.unit] for name, part in tables.items()}
    if len(set(units.values())) > 1 and not set(units.values()) <= {"whole", "text"}:
        words = ", ".join(f"{kind} in {name}" for name, kind in units.items())
        raise SchemaError(
            f"The privacy unit has different types in different tables ({words}), so its values would not "
            "match.",
            remedy="Convert it to whole numbers, or to text, in all tables.",
        )


def _encoded_names(schema: Schema, part: Schema, table: str) -> dict[str, str]:
    """Maps each encoded column that a table may have to its name in the joined rows."""
    names = schema.joined.get(table, {})
    return {
        encoded(part, name): encoded(schema, names.get(name, name))
        for name in part.columns
        for encoded in (code_column, units_column, value_column)
    }
