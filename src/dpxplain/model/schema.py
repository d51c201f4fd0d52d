"""The curator's public declaration: the table, its columns' domains, and the privacy budget.

Domains come from here and never from the data (docs/specification.md, declared domains).
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn
from urllib.parse import unquote

from pydantic import Field, ValidationError, field_validator, model_validator

from dpxplain.errors import SchemaError
from dpxplain.model.charge import LARGEST_RHO, UNITS_PER_RHO
from dpxplain.model.column import Bin, Column, DomainValue, Grid, Scalar, UnknownColumn, with_unknown_apart
from dpxplain.model.derivation import derive, with_derived
from dpxplain.model.display import Displayed
from dpxplain.model.expression import columns_of, read_expression, sql_name
from dpxplain.model.hardening import UNCHANGEABLE, Declared, unknown_key

# -- Joined tables -----------------------------------------------------------------------------------------
#
# In a many-to-one join with a public table, every column of that table is a function of the key. So a public
# column is a derived column with a lookup from declared values, and no engine ever joins a public table (ADR
# 31). Engines join private tables by the person's id.

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
    matched: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    """The declared values that it has, by join."""

    @model_validator(mode="before")
    @classmethod
    def _only_public(cls, declared: Any) -> Any:
        if isinstance(declared, Mapping) and declared.get("public") is not True:
            raise ValueError(
                "must have public = true; or, if it contains rows of the same persons, "
                'unit = "<column of the person id>", max_rows and its columns'
            )
        return declared


def _public_columns(
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
    first = _rows_by_key(table, declared, rows)
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
                column = Column(expression=sql_name(join), lookup=lookup, joined=(table, attribute))
                if is_discovered and lookup:
                    derive(column, columns)
            except (SchemaError, ValidationError):
                if not is_discovered:
                    raise
                continue
            if lookup:
                added.append((join, column))
    return declared.model_copy(update={"matched": matched}), added


def _rows_by_key(table: str, declared: PublicTable, rows: PublicRows) -> dict[str, int]:
    """The row of each key. Refuses a table without the named columns or with a key twice."""
    missing = [name for name in (declared.key, *(declared.columns or ())) if name not in rows]
    if missing:
        raise SchemaError(
            f"tables.{table}: the public table has no column {missing[0]}.",
            remedy=f"It has: {', '.join(rows)}.",
        )
    first: dict[str, int] = {}
    for at, key in enumerate(rows[declared.key]):
        if key is None:
            continue
        if (text := _key_text(key)) in first:
            raise SchemaError(
                f"tables.{table}: the key {declared.key} contains {text!r} twice.",
                remedy="Keep one row for each key in the public table.",
            )
        first[text] = at
    return first


def _named_columns(
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
    return {_key_text(value): value for value in values}


def _check_lookup(table: str, attribute: str, lookup: tuple[tuple[Scalar, Any], ...]) -> None:
    distinct = len({value for _, value in lookup})
    if distinct > MOST_LOOKED_UP:
        raise SchemaError(
            f"tables.{table}: {attribute} has {distinct:,} values. The limit is {MOST_LOOKED_UP:,}.",
            remedy=f"Leave it out of the columns to join: tables.{table}.columns = [...].",
        )


def _key_text(value: Any) -> str:
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


def with_private_apart(declared: Any) -> Any:
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


def _check_private(
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
    _check_private_columns(private, columns)
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


def _check_private_columns(private: Mapping[str, PrivateTable], columns: Iterable[str]) -> None:
    """Refuses two columns that could have one name when joined: b.c of a table a, and c of a table a.b."""
    every = [f"{name}.{column}" for name, table in private.items() for column in table.columns]
    every += {column for table in private.values() for column in table.columns} | {*columns}
    folded = Counter(name.casefold() for name in every)
    for name in every:
        if "." in name and folded[name.casefold()] > 1:
            raise ValueError(f"the joined tables would have two columns called {name}; rename one of them")


def _check_joined(
    private: Mapping[str, PrivateTable],
    joined: Mapping[str, Mapping[str, str]],
    columns: Mapping[str, Column],
    max_rows: int,
) -> None:
    """Refuses joined columns and a max_rows that do not follow from the private tables."""
    internal = ValueError("joined is for internal use; delete it")
    for name, names in joined.items():
        own = {attribute: columns.get(column) for attribute, column in names.items()}
        if name not in private or own != private[name].columns:
            raise internal
    if max_rows % math.prod(private[name].max_rows for name in joined):
        raise internal


# -- Schema ------------------------------------------------------------------------------------------------


class Columns(dict[str, Column]):
    """The declared columns, immutable because sensitivities follow from them."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        if self:
            self._refuse()
        super().__init__(columns)

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError(UNCHANGEABLE)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> Columns:
        return Columns({name: copy.deepcopy(column, memo) for name, column in self.items()})

    def __reduce__(self) -> tuple[type[Columns], tuple[dict[str, Column]]]:
        return Columns, (dict(self),)


_SECRET = re.compile(r"://[^/?#]*:[^/?#]*@|(password|passwd|pwd|token)\s*=", re.IGNORECASE)
_DATABASE = re.compile(r"(postgres(ql)?|spark|sc)://", re.IGNORECASE)


def is_database(source: object) -> bool:
    """Whether a source is the address of a database.

    >>> is_database("postgresql://host/db"), is_database("sc://host:15002"), is_database("adult.parquet")
    (True, True, False)
    """
    return isinstance(source, str) and _DATABASE.match(source) is not None


def holds_password(address: str) -> bool:
    """Whether an address of a database may hold a password.

    >>> holds_password("postgresql://ann:x@host/db"), holds_password("postgresql://ann@host/db")
    (True, False)
    """
    return "://" in address and _SECRET.search(unquote(address)) is not None


Storage = Literal["auto", "memory", "stream", "file"]


class Table(Declared):
    name: str = Field(min_length=1)
    source: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    version: str = ""  # change it when the data change: stored releases belong to one version
    cache: bool = False  # whether a file's encoded rows may be kept in the workspace, to open faster
    storage: Storage = "auto"  # where the encoded rows are while a session is open; changes no answer

    @field_validator("source")
    @classmethod
    def _no_secret(cls, source: Any) -> Any:
        if any(holds_password(part) for part in ([source] if isinstance(source, str) else source or ())):
            raise ValueError(
                "must not contain a password or token; set PGPASSWORD or PGPASSFILE, use a service file, or "
                "pass Spark's address with --data or DPXPLAIN_DATA"
            )
        return source

    def paths(self, folder: Path) -> str | Path | list[Path] | None:
        """The source's path or paths, relative to the folder of the schema; or a database's address."""
        if isinstance(self.source, str) and is_database(self.source):
            return self.source
        if self.source is None or isinstance(self.source, str):
            return None if self.source is None else folder / self.source
        return [folder / path for path in self.source]


NoiseKind = Literal["vectorised", "opendp"]


class Privacy(Declared):
    rho: float = Field(gt=0, allow_inf_nan=False)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    unit: str = "row"
    max_rows: int = Field(default=1, ge=1, le=MOST_ROWS)
    neighbours: Literal["unbounded", "bounded"] = "unbounded"  # a unit is added or removed, or replaced
    noise: NoiseKind = "vectorised"  # which sampler draws Gaussian noise; the distribution is the same
    default_rho: float | None = Field(default=None, ge=1 / UNITS_PER_RHO, le=LARGEST_RHO)
    """The price of a query that names none. If it is not declared, such a query is refused."""

    @model_validator(mode="after")
    def _consistent(self) -> Privacy:
        if self.unit == "row" and self.max_rows != 1:
            raise ValueError('max_rows needs unit = "<column of the person id>"; add it or delete max_rows')
        if self.default_rho is not None and self.default_rho > self.rho:
            raise ValueError("default_rho is one query's price and must be at most rho, the whole budget")
        return self


class Schema(Displayed, Declared):
    """The whole declaration. Everything in it is public.

    >>> schema = Schema.load({
    ...     "table": {"name": "people"}, "privacy": {"rho": 1.0},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "pay": {"bounds": [0, 100]}}})
    >>> schema.columns["sex"].domain
    ('F', 'M')
    """

    table: Table
    privacy: Privacy
    columns: dict[str, Column] = Field(min_length=1)
    tables: dict[str, PublicTable] = Field(default_factory=dict)  # to join with; read by with_public
    unknown: dict[str, UnknownColumn] = Field(default_factory=dict)  # columns with values = "discover"
    private: dict[str, PrivateTable] = Field(default_factory=dict)  # tables with a unit, to join with
    joined: dict[str, dict[str, str]] = Field(default_factory=dict)
    """The private tables whose rows are joined, and the name of each of their columns in this schema."""

    @model_validator(mode="before")
    @classmethod
    def _kinds_apart(cls, declared: Any) -> Any:
        return with_private_apart(with_unknown_apart(declared))

    @model_validator(mode="after")
    def _private_tables(self) -> Schema:
        privacy, names = self.privacy, (self.table.name, *self.tables, *self.private)
        if self.joined:
            _check_joined(self.private, self.joined, self.columns, privacy.max_rows)
        else:
            columns = (*self.columns, *self.unknown)
            _check_private(self.private, privacy.unit, privacy.max_rows, names, columns)
        for name, table in self.private.items():
            if table.source is not None and holds_password(table.source):
                raise ValueError(f"tables.{name}.source must not contain a password or token")
        return self

    @field_validator("columns")
    @classmethod
    def _immutable(cls, columns: dict[str, Column]) -> Columns:
        return Columns(with_derived(columns))

    @classmethod
    def load(cls, source: Schema | Mapping[str, Any] | str | Path) -> Schema:
        """Loads a TOML file or a dict of the same shape; errors name the key."""
        if isinstance(source, Schema):
            # A new, validated copy: code that holds the original cannot change it or its cached properties.
            return cls.load(source.model_dump())
        is_dict = isinstance(source, Mapping)
        try:
            return cls.model_validate(source if is_dict else _read_toml(source))
        except ValidationError as error:
            mistakes = [_mistake(e) for e in error.errors()]
            listed = "; ".join(f"{key}: {message}" for key, message in mistakes)
            raise SchemaError(
                f"In {'the schema' if is_dict else source}: {listed}.",
                remedy="Correct the schema at this place."
                if len(mistakes) == 1
                else "Correct the schema at these places.",
                mistakes=mistakes,
            ) from None

    @property
    def unread_tables(self) -> list[str]:
        """The public tables whose columns are not known yet."""
        return [name for name, table in self.tables.items() if not table.matched]

    def awaited_by(self, table: str) -> list[str]:
        """The columns that hold a public table's key and whose values are yet to be discovered."""
        declared = self.tables[table]
        joins = declared.joins or (declared.key,)
        return [name for name in joins if name in self.unknown and name not in self.columns]

    def with_public(self, contents: Mapping[str, PublicRows]) -> Schema:
        """The schema with the columns of public tables, whose whole content is given."""
        tables, added = dict(self.tables), []
        for name, rows in contents.items():
            tables[name], columns = _public_columns(self.columns, self.discovered, name, tables[name], rows)
            added += columns
        public = dict(_named_columns(self.columns, self.unknown, added))
        return Schema.load(
            self.model_copy(update={"tables": tables, "columns": Columns({**self.columns, **public})})
        )

    def with_private_in(self, folder: Path) -> Schema:
        """The schema with private tables' file paths made absolute; they were relative to `folder`."""
        private = {
            name: table.model_copy(update={"source": str(folder.absolute() / table.source)})
            for name, table in self.private.items()
            if table.source is not None and not is_database(table.source)
        }
        return self.model_copy(update={"private": {**self.private, **private}}) if private else self

    @property
    def discovered(self) -> list[str]:
        """The columns whose values were not declared but discovered."""
        return [name for name in self.unknown if name in self.columns]

    def with_discovered(self, discovered: Mapping[str, tuple[str, ...]]) -> Schema:
        """The schema with the discovered values. A column without discovered values stays unknown."""
        columns = {
            name: Column(
                verbatim=True,
                values=values,
                label=self.unknown[name].label,
                description=self.unknown[name].description,
            )
            for name, values in discovered.items()
            if values
        }
        return Schema.load(self.model_copy(update={"columns": Columns({**self.columns, **columns})}))

    def column(self, name: str) -> Column:
        """A declared column, or the column of an expression that a query uses in place of one."""
        declared = self.columns.get(name)
        return _adhoc_column(name, SchemaKey(self)) if declared is None else declared

    def domain(self, name: str) -> tuple[DomainValue, ...]:
        """The declared values of a discrete column."""
        domain = self.column(name).domain
        if domain is None:
            raise SchemaError(
                f"Column {name} has no list of values and no edges.", remedy=f"Declare them for {name}."
            )
        return domain

    def sources(self, names: Iterable[str]) -> set[str]:
        """The data's columns behind the named columns, which may be derived from them."""
        sources: set[str] = set()
        for name in names:
            expression = self.column(name).expression
            if expression is None:
                sources.add(name)
            else:
                sources |= self.sources(columns_of(read_expression(expression, self.columns)))
        return sources

    def fingerprint(self) -> str:
        """A hash of everything that sensitivities follow from. Any change to that changes the hash."""
        privacy = self.privacy
        declared: list[Any] = [
            [self.table.name, self.table.version],
            [privacy.rho, privacy.delta, privacy.unit, privacy.max_rows, privacy.neighbours],
            [
                [
                    c.values,
                    c.edges,
                    c.bounds,
                    c.step,
                    c.center,
                    c.null,
                    c.expression,
                    None if c.groups is None else list(c.groups.items()),
                    c.domain,
                    c.grid if c.is_summable else c.time_zone,
                    *(() if c.lookup is None else (c.lookup,)),
                ]
                for c in self.columns.values()
            ],
            list(self.columns),
        ]
        if self.joined:
            tables = [(name, self.private[name]) for name in self.joined]
            declared.append([[name, table.unit, table.max_rows] for name, table in tables])
            declared.append([[name, *names.values()] for name, names in self.joined.items()])
        return hashlib.sha256(json.dumps(_canonical(declared)).encode()).hexdigest()

    def discrete(self) -> Iterator[str]:
        """Names of the columns that can be grouped or explained by, in the declared order."""
        return (name for name, column in self.columns.items() if column.domain is not None)


def _read_toml(file: object) -> dict[str, Any]:
    """The content of a schema file. Raises SchemaError if it cannot be read."""
    if not isinstance(file, str | Path):
        raise SchemaError(
            f"A schema cannot be a {type(file).__name__}.",
            remedy="Pass the path of a TOML file, or a dict with the same keys.",
        )
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SchemaError(
            f"There is no schema file {file}.", remedy="Draft one with: dpxplain schema init DATA_FILE"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(
            f"Cannot read {file}: {type(error).__name__}.",
            remedy="Pass the path of a readable TOML file in UTF-8.",
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(
            f"{file} is not valid TOML: {error}.", remedy="Correct the file at that place."
        ) from None


@dataclass(frozen=True, eq=False)
class SchemaKey:
    """A schema compared by identity, because it is frozen and comparing whole domains is slow."""

    schema: Schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaKey) and other.schema is self.schema


@lru_cache(maxsize=1024)
def _adhoc_column(expression: str, key: SchemaKey) -> Column:
    """The column of an expression in a query; it follows from the text and the schema alone."""
    return derive(Column(expression=expression), key.schema.columns)


def _canonical(value: Any) -> Any:
    """A declared value as JSON with its type; a value of an unexpected type by its identity in memory."""
    kind = type(value)
    if kind in (list, tuple):
        return [_canonical(part) for part in value]
    if kind is Bin:
        return ["bin", _canonical(value.low), _canonical(value.high)]
    if kind is Grid:
        return ["grid", _canonical(value.step), _canonical(value.low), _canonical(value.high)]
    if kind is Fraction:
        return ["fraction", value.numerator, value.denominator]
    if kind in (date, datetime):
        return [kind.__name__, value.isoformat()]
    return value if kind in (str, int, float, bool, type(None)) else ["object", id(value)]


def _mistake(error: Any) -> tuple[str, str]:
    """The refused key of a validation error, and what is wrong with it."""
    place = [str(part) for part in error["loc"]]
    if place[:1] == ["private"]:
        place[0] = "tables"  # as it was written
    key = ".".join(place) or "schema"
    if error["type"] == "extra_forbidden":
        return key, unknown_key(Schema, error["loc"])
    message = "is missing" if error["type"] == "missing" else error["msg"].removeprefix("Value error, ")
    return key, message[0].lower() + message[1:]


# -- Joined schemas ----------------------------------------------------------------------------------------
#
# Private tables are joined by the person's id. Before the join, each table keeps at most its own `max_rows`
# rows of a person. So the number of a person's joined rows is at most the product of these limits
# (docs/proofs/private-joins.md).


def joined_schema(schema: Schema, tables: Iterable[str]) -> Schema:
    """The schema of the rows after joining these private tables by the unit, in declared order."""
    chosen = set(tables)
    joined = {name: _joined_names(schema, name) for name in schema.private if name in chosen}
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
    further_rows = math.prod(schema.private[name].max_rows for name in schema.joined)
    own_rows = schema.privacy.max_rows // further_rows
    own = schema.model_copy(
        update={
            "joined": {},
            "privacy": schema.privacy.model_copy(update={"max_rows": own_rows}),
            "columns": {name: column for name, column in schema.columns.items() if name not in added},
        }
    )
    others = {name: _part(schema, name) for name in schema.joined}
    return {schema.table.name: Schema.load(own), **others}


def all_parts(schema: Schema) -> dict[str, Schema]:
    """The schemas of all tables that may be joined; for a joined schema, of the tables that it joins."""
    further = () if schema.joined else schema.private
    return parts(schema) | {name: parts(joined_schema(schema, [name]))[name] for name in further}


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


def _joined_names(schema: Schema, table: str) -> dict[str, str]:
    """The names of a table's columns after the join: their own if no other column has it."""
    others = [*schema.columns, *schema.unknown, schema.privacy.unit]
    others += [column for name in schema.private if name != table for column in schema.private[name].columns]
    taken_names = {name.casefold() for name in others}
    return {
        column: f"{table}.{column}" if column.casefold() in taken_names else column
        for column in schema.private[table].columns
    }
