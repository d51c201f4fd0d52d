"""The curator's public declaration: the table, its columns' domains, and the privacy budget.

Domains come from here and never from the data (docs/specification.md, declared domains).
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn
from urllib.parse import unquote

from pydantic import Field, ValidationError, field_validator, model_validator

from dpxplain.errors import SchemaError
from dpxplain.model.budget import LARGEST_RHO, UNITS_PER_RHO
from dpxplain.model.column import Bin, Column, DomainValue, Grid, label
from dpxplain.model.derived_column import derive, with_derived
from dpxplain.model.display import Displayed
from dpxplain.model.expression import columns_of, read_expression
from dpxplain.model.hardening import UNCHANGEABLE, Declared
from dpxplain.model.joined_tables import (
    MOST_ROWS,
    PrivateTable,
    PublicRows,
    PublicTable,
    check_joined,
    check_private,
    joined_columns,
    named_columns,
    private_apart,
)
from dpxplain.model.spelling import unknown_key
from dpxplain.model.unknown_column import UnknownColumn, apart

__all__ = [
    "AggregateKind",
    "Bin",
    "Column",
    "Columns",
    "DomainValue",
    "Grid",
    "NoiseKind",
    "Privacy",
    "Schema",
    "Table",
    "label",
]


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
        return private_apart(apart(declared))

    @model_validator(mode="after")
    def _private_tables(self) -> Schema:
        privacy, names = self.privacy, (self.table.name, *self.tables, *self.private)
        if self.joined:
            check_joined(self.private, self.joined, self.columns, privacy.max_rows)
        else:
            columns = (*self.columns, *self.unknown)
            check_private(self.private, privacy.unit, privacy.max_rows, names, columns)
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
        where = "the schema"
        raw: Mapping[str, Any]
        if isinstance(source, Mapping):
            raw = source
        else:
            where = str(source)
            if not isinstance(source, str | Path):
                raise SchemaError(
                    f"A schema cannot be a {type(source).__name__}.",
                    remedy="Pass the path of a TOML file, or a dict with the same keys.",
                )
            try:
                raw = tomllib.loads(Path(source).read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise SchemaError(
                    f"There is no schema file {where}.",
                    remedy="Draft one with: dpxplain schema init DATA_FILE",
                ) from None
            except (OSError, UnicodeDecodeError) as error:
                raise SchemaError(
                    f"Cannot read {where}: {type(error).__name__}.",
                    remedy="Pass the path of a readable TOML file in UTF-8.",
                ) from None
            except tomllib.TOMLDecodeError as error:
                raise SchemaError(
                    f"{where} is not valid TOML: {error}.", remedy="Correct the file at that place."
                ) from None
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            mistakes = [_mistake(e) for e in error.errors()]
            raise SchemaError(
                f"In {where}: {'; '.join(f'{key}: {message}' for key, message in mistakes)}.",
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
            tables[name], columns = joined_columns(self.columns, self.discovered, name, tables[name], rows)
            added += columns
        public = dict(named_columns(self.columns, self.unknown, added))
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


AggregateKind = Literal["count", "sum", "avg"]
