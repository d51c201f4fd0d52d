"""Private tables that are joined by the person's id: their declaration, and what it may not say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field, field_validator

from dpxplain.model.column import Column
from dpxplain.model.hardening import Declared

MOST_ROWS = 1_000_000
"""Rows of one unit, in a table or joined."""


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
                raise ValueError(f"{name} cannot be discovered; only columns of the data set's own table are")
            if isinstance(column, Mapping) and column.get("expression") is not None:
                raise ValueError(f"{name} must be a column of the table; write expressions in the query")
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

    `names` are those of all tables, `columns` those of the data set's own.
    """
    folded = [name.casefold() for name in names]
    _check_names(private, columns)
    for name, table in private.items():
        if table.unit == "row":
            raise ValueError(f"tables.{name}.unit must name the column of the person's id")
        if unit == "row":
            raise ValueError(
                f"tables.{name} is private, so privacy.unit must name the column of the person's id"
            )
        if folded.count(name.casefold()) > 1:
            raise ValueError(f"tables.{name} has the name of another table")
        if max_rows * table.max_rows > MOST_ROWS:
            raise ValueError(f"tables.{name}.max_rows times privacy.max_rows must be at most {MOST_ROWS:,}")


def _check_names(private: Mapping[str, PrivateTable], columns: Iterable[str]) -> None:
    """Refuses two columns that could have one name when joined: b.c of a table a, and c of a table a.b."""
    every = [f"{name}.{column}" for name, table in private.items() for column in table.columns]
    every += {column for table in private.values() for column in table.columns} | {*columns}
    folded = Counter(name.casefold() for name in every)
    for name in every:
        if "." in name and folded[name.casefold()] > 1:
            raise ValueError(f"two columns would be called {name} where tables are joined; rename one")


def check_joined(
    private: Mapping[str, PrivateTable],
    joined: Mapping[str, Mapping[str, str]],
    columns: Mapping[str, Column],
    max_rows: int,
) -> None:
    """Refuses joined columns and rows that are not those of the tables."""
    made_here = ValueError("joined: is made by the program; leave it out")
    for name, names in joined.items():
        own = {attribute: columns.get(column) for attribute, column in names.items()}
        if name not in private or own != private[name].columns:
            raise made_here
    if max_rows % math.prod(private[name].max_rows for name in joined):
        raise made_here
