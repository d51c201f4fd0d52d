"""Declarations of tables that may be joined with a data set's own, and the checks of these declarations.

In a many-to-one join with a public table, every column of that table is a function of the key. So a public
column is a derived column with a lookup from declared values, and no engine ever joins a public table (ADR
31). Engines join private tables by the person's id.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from dpxplain.errors import SchemaError
from dpxplain.model.column import Column, Scalar
from dpxplain.model.derived_column import derive
from dpxplain.model.expression import sql_name
from dpxplain.model.hardening import Declared

MOST_LOOKED_UP = 1_000  # values of one public column: each is a branch of an expression

PublicRows = Mapping[str, Sequence[Any]]
"""The columns of a public table, by name."""


class PublicTable(Declared):
    """The declaration `[tables.NAME]`; `matched` is filled in when the table is read."""

    source: str | None = None
    key: str = Field(min_length=1)
    public: Literal[True]
    joins: tuple[str, ...] = ()  # columns of the data that hold the key; by default the one of the same name
    columns: tuple[str, ...] | None = None  # which of its columns can be joined; all if none is given
    matched: dict[str, tuple[Scalar, ...]] = Field(
        default_factory=dict
    )  # declared values that it has, by join

    @model_validator(mode="before")
    @classmethod
    def _only_public(cls, declared: Any) -> Any:
        if isinstance(declared, Mapping) and declared.get("public") is not True:
            raise ValueError(
                "must have public = true; or, if it contains rows of the same persons, "
                'unit = "<column of the person id>", max_rows and its columns'
            )
        return declared


def joined_columns(
    columns: Mapping[str, Column],
    discovered: Iterable[str],
    table: str,
    declared: PublicTable,
    rows: PublicRows,
) -> tuple[PublicTable, list[tuple[str, Column]]]:
    """The declaration with the matched values, and the public columns as (join, derived column).

    Discovered values never cause a refusal, because nobody could then open the data set again. A public
    column that cannot be joined by them is left out.
    """
    first = check_public(table, declared, rows)
    attributes = [name for name in declared.columns or rows if name != declared.key]
    matched, added = {}, []
    for join in declared.joins or (declared.key,):
        key_of = _declared_keys(columns, table, declared, join)
        places = {value: first[text] for text, value in key_of.items() if text in first}
        is_discovered = join in discovered
        if not places and not is_discovered:
            raise SchemaError(
                f"tables.{table}: none of its keys is in the list of {join}, so nothing can be joined.",
                remedy=f"Compare {declared.key} of the public table with the values of {join}.",
            )
        matched[join] = tuple(places)
        for attribute in attributes:
            values = rows[attribute]
            lookup = tuple((key, values[at]) for key, at in places.items() if values[at] is not None)
            try:
                _check_lookup(table, attribute, lookup)
                column = _looked_up(table, attribute, join, lookup)
                if is_discovered and lookup:
                    derive(column, columns)
            except (SchemaError, ValidationError):
                if not is_discovered:
                    raise
                continue
            if lookup:
                added.append((join, column))
    return declared.model_copy(update={"matched": matched}), added


def check_public(table: str, declared: PublicTable, rows: PublicRows) -> dict[str, int]:
    """The row of each key. Refuses a table without the named columns or with a key twice."""
    _check_names(table, declared, rows)
    first: dict[str, int] = {}
    for at, key in enumerate(rows[declared.key]):
        if key is None:
            continue
        if (text := _text(key)) in first:
            raise SchemaError(
                f"tables.{table}: the key {declared.key} contains {text!r} twice.",
                remedy="Keep one row for each key in the public table.",
            )
        first[text] = at
    return first


def named_columns(
    columns: Mapping[str, Column], unknown: Iterable[str], added: Iterable[tuple[str, Column]]
) -> Iterator[tuple[str, Column]]:
    """Names for public columns: their own if that is unambiguous, else `join.column`."""
    public = list(added)
    taken_names = [name.casefold() for name in (*columns, *unknown)]
    own = [column.joined[1].casefold() for _, column in public if column.joined is not None]
    names: set[str] = set()
    for join, column in public:
        assert column.joined is not None
        table, attribute = column.joined
        is_free = own.count(attribute.casefold()) == 1 and attribute.casefold() not in taken_names
        name = attribute if is_free else f"{join}.{attribute}"
        if name.casefold() in {*taken_names, *names}:
            raise SchemaError(
                f"tables.{table}: its column {attribute} has the same name as another column, {name}.",
                remedy=f"Leave it out of the columns to join: tables.{table}.columns = [...].",
            )
        names.add(name.casefold())
        yield name, column


def _looked_up(table: str, attribute: str, join: str, lookup: tuple[tuple[Scalar, Any], ...]) -> Column:
    return Column(expression=sql_name(join), lookup=lookup, joined=(table, attribute))


def _check_names(table: str, declared: PublicTable, rows: PublicRows) -> None:
    column_names = (declared.key, *(declared.columns or ()))
    missing = [name for name in column_names if name not in rows]
    if missing:
        raise SchemaError(
            f"tables.{table}: the public table has no column {missing[0]}.",
            remedy=f"It has: {', '.join(rows)}.",
        )


def _declared_keys(
    columns: Mapping[str, Column], table: str, declared: PublicTable, join: str
) -> dict[str, Scalar]:
    """The declared values of the column that is joined on, by their text."""
    column = columns.get(join)
    if column is None and not declared.joins:
        raise SchemaError(
            f"tables.{table}.key: the schema has no column {join}.",
            remedy=f'Declare it, or name the columns that contain the key: tables.{table}.joins = ["..."].',
        )
    if column is None:
        raise SchemaError(
            f"tables.{table}.joins: the schema has no column {join}.",
            remedy=f"Choose from: {', '.join(columns)}.",
        )
    values = [value for value in column.values or () if value is not None]
    if not values or column.is_temporal or column.joined is not None:
        raise SchemaError(
            f"tables.{table}: {join} has no list of text or whole numbers, so it cannot be joined on.",
            remedy=f"List the keys in columns.{join}.values.",
        )
    return {_text(value): value for value in values}


def _check_lookup(table: str, attribute: str, lookup: tuple[tuple[Scalar, Any], ...]) -> None:
    distinct = len({value for _, value in lookup})
    if distinct > MOST_LOOKED_UP:
        raise SchemaError(
            f"tables.{table}: {attribute} has {distinct:,} values. The limit is {MOST_LOOKED_UP:,}.",
            remedy=f"Leave it out of the columns to join: tables.{table}.columns = [...].",
        )


def _text(value: Any) -> str:
    """A key as text, so that 7, 7.0 and "7" are one."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


MOST_ROWS = 1_000_000
"""The most rows of one unit, in a table or joined."""


class PrivateTable(Declared):
    """The declaration `[tables.NAME]` of a table that has rows of the same persons as the data."""

    source: str | None = None
    unit: str = Field(min_length=1)  # its column that holds the person's id
    max_rows: int = Field(ge=1, le=MOST_ROWS)
    columns: dict[str, Column] = Field(min_length=1)

    @field_validator("columns", mode="before")
    @classmethod
    def _own_columns(cls, columns: Any) -> Any:
        for name, column in columns.items() if isinstance(columns, Mapping) else ():
            if isinstance(column, Mapping) and column.get("values") == "discover":
                raise ValueError(f"{name} cannot be discovered: only the data set's own columns can")
            if isinstance(column, Mapping) and column.get("expression") is not None:
                raise ValueError(f"{name} cannot be an expression here; write the expression in the query")
        return columns


def private_apart(declared: Any) -> Any:
    """A schema as it was written, with the private tables kept apart from the public ones."""
    tables = declared.get("tables") if isinstance(declared, Mapping) else None
    if not isinstance(tables, Mapping):
        return declared
    private = {
        name: {key: value for key, value in table.items() if key != "public"}
        for name, table in tables.items()
        if isinstance(table, Mapping) and "unit" in table and table.get("public", False) is False
    }
    if not private:
        return declared
    public = {name: table for name, table in tables.items() if name not in private}
    return {**declared, "tables": public, "private": {**declared.get("private", {}), **private}}


def check_private(
    private: Mapping[str, PrivateTable],
    unit: str,
    max_rows: int,
    names: Sequence[str],
    columns: Iterable[str],
) -> None:
    """Refuses tables that cannot be joined to data with this unit.

    `names` are the names of all tables; `columns` are the columns of the data set's own table.
    """
    folded = [name.casefold() for name in names]
    _check_private_names(private, columns)
    for name, table in private.items():
        if table.unit == "row":
            raise ValueError(f"tables.{name}.unit must name the column of the person id")
        if unit == "row":
            raise ValueError(
                f"tables.{name} is private, so privacy.unit must name the column of the person id"
            )
        if folded.count(name.casefold()) > 1:
            raise ValueError(f"tables.{name} has the same name as another table; rename it")
        if max_rows * table.max_rows > MOST_ROWS:
            raise ValueError(f"tables.{name}.max_rows times privacy.max_rows must be at most {MOST_ROWS:,}")


def _check_private_names(private: Mapping[str, PrivateTable], columns: Iterable[str]) -> None:
    """Refuses two columns that could have one name when joined: b.c of a table a, and c of a table a.b."""
    every = [f"{name}.{column}" for name, table in private.items() for column in table.columns]
    every += {column for table in private.values() for column in table.columns} | {*columns}
    folded = Counter(name.casefold() for name in every)
    for name in every:
        if "." in name and folded[name.casefold()] > 1:
            raise ValueError(f"the joined tables would have two columns called {name}; rename one of them")


def check_joined(
    private: Mapping[str, PrivateTable],
    joined: Mapping[str, Mapping[str, str]],
    columns: Mapping[str, Column],
    max_rows: int,
) -> None:
    """Refuses joined columns and a max_rows that do not follow from the private tables."""
    made_here = ValueError("joined is for internal use; delete it")
    for name, names in joined.items():
        own = {attribute: columns.get(column) for attribute, column in names.items()}
        if name not in private or own != private[name].columns:
            raise made_here
    if max_rows % math.prod(private[name].max_rows for name in joined):
        raise made_here
