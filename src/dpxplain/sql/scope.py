"""Resolves names and literals of a statement to declared columns and values.

Unquoted names match in any case when that is unambiguous, quoted ones exactly. A refusal names the nearest
declared names or values, which are public.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from dpxplain.errors import QueryRefused
from dpxplain.model.column import Column, DomainValue, label
from dpxplain.model.dates import midnight, read_dates
from dpxplain.model.expression import sql_literal
from dpxplain.model.query import Literal_, Operator
from dpxplain.model.schema import Schema
from dpxplain.model.spelling import similar
from dpxplain.sql.source import Place, Source

_LISTED = 5  # declared values listed in a refusal


@dataclass(frozen=True)
class Joined:
    """A joined table, and the declared column for each of its columns."""

    table: str
    alias: str
    on: str  # the column of the data that holds the key
    is_inner: bool
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Scope:
    """The table and columns that a statement's names can refer to."""

    source: Source
    schema: Schema
    qualifiers: tuple[str, ...] = ()  # names that may stand before a column: the table's, its alias
    joins: tuple[Joined, ...] = ()
    copied: Counter[str] = field(default_factory=Counter)
    """How many nodes were copied into the statement so far; one count for all its subqueries."""

    def refuse(self, problem: str, remedy: str, at: Place = None) -> QueryRefused:
        return self.source.refuse(problem, remedy, at)

    def refuse_unit(self, at: Place) -> QueryRefused:
        """The refusal of the privacy unit where a column is read."""
        unit = self.schema.privacy.unit
        return self.refuse(
            f"{unit} identifies the people being protected, so a query cannot group by it or read it.",
            f"To count them, write COUNT(DISTINCT {unit}).",
            at,
        )

    def column(self, node: exp.Expr, *, otherwise: str = "") -> str:
        """The declared name of a column, or a refusal that ends with `otherwise`."""
        return self.resolve(node, self.schema.columns, otherwise=otherwise)

    def resolve(
        self, node: exp.Expr, columns: Iterable[str], *, otherwise: str = "", place: str = "in the schema"
    ) -> str:
        """The column, among `columns`, that a node names, or a refusal that ends with `otherwise`."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise self.refuse("Expected a column here.", otherwise or "Name a column of the schema.", node)
        qualifier, listed = node.args.get("table"), list(columns)
        if (public := self._public_column(node, qualifier, listed)) is not None:
            return public
        if qualifier is not None and not matching(qualifier, self.qualifiers):
            qualified = f"{self.qualifiers[0]}.{node.name}, or " if self.qualifiers else ""
            remedy = f"Write {qualified}{node.name} alone."
            raise self.refuse(f"No table here is called {qualifier.name}.", remedy, qualifier)
        names = matching(node.this, listed)
        if len(names) == 1:
            return names[0]
        if names:
            quoted = " or ".join(f'"{name}"' for name in names)
            raise self.refuse(f"{node.name} could be several columns.", f"Write {quoted}.", node.this)
        if matching(node.this, [self.schema.privacy.unit]) and self.schema.privacy.unit != "row":
            raise self.refuse_unit(node.this)
        if matching(node.this, self.schema.unknown):
            remedy = f'Discover them: session.discover("{node.name}", rho=...), or dpxplain discover.'
            raise self.refuse(f"The values of {node.name} are not known yet.", remedy, node.this)
        problem = f"There is no column {node.name} {place}."
        raise self.refuse(problem, f"{suggest(node.name, listed)} {otherwise}".strip(), node.this)

    def _public_column(self, node: exp.Column, qualifier: exp.Expr | None, listed: list[str]) -> str | None:
        """The column that a name means in a joined public table. The data's own columns take precedence."""
        if qualifier is None and matching(node.this, listed):
            return None
        candidates = []
        for join in self.joins:
            if qualifier is None or matching(qualifier, [join.alias]):  # type: ignore[arg-type]
                names = matching(node.this, join.columns)
                candidates += [(join, join.columns[name]) for name in names if join.columns[name] in listed]
        if len({name for _, name in candidates}) > 1:
            remedy = f"Write {' or '.join(f'{join.alias}.{node.name}' for join, _ in candidates)}."
            raise self.refuse(f"{node.name} could be several columns.", remedy, node.this)
        if not candidates:
            return None
        join, name = candidates[0]
        if name == join.on and not join.is_inner and qualifier is not None:
            remedy = f"Write {join.on}, the column of the data."
            problem = (
                f"{node.name} is NULL in rows for which LEFT JOIN finds no match, so it cannot be used here."
            )
            raise self.refuse(problem, remedy, node)
        return name

    def literal(self, column: str, operator: Operator, node: exp.Expr) -> Literal_:
        """The literal in the form of the column's values, or a refusal if it cannot equal any."""
        declaration = self.schema.column(column)
        if declaration.is_temporal:
            return self._moment_literal(column, declaration, operator, node)
        value = self._plain(node)
        declared = declaration.values
        if declared is None:
            if not _is_number(value):
                raise self.refuse(
                    f"{column} can only be compared with numbers.", "Write a plain number.", node
                )
            return value
        plain_values = [v for v in declared if v is not None and not isinstance(v, date)]
        kind = type(plain_values[0]) if plain_values else None
        if operator not in ("=", "<>") and kind is not int:
            remedy = f"List the values that you mean: {column} IN (...). {listing(plain_values)}"
            raise self.refuse(
                f"The values of {column} have no order, so {operator} cannot compare them.", remedy, node
            )
        fits = _is_number(value) if kind is int else type(value) is kind
        if fits and (value in plain_values or operator not in ("=", "<>")):
            return value
        labelled = [v for v in declaration.domain or () if value and declaration.value_label(v) == value]
        if labelled and operator in ("=", "<>"):
            return self._labelled(column, operator, labelled, node)
        text = self.source.sql[slice(*self.source.span(node))]
        problem = f"{text} is not one of the values of {column}, so nothing could match it."
        texts = [v for v in plain_values if isinstance(v, str)]  # similar digits are not near numbers
        raise self.refuse(problem, suggest(str(value), texts, otherwise=listing(plain_values)), node)

    def _labelled(
        self, column: str, operator: Operator, values: Sequence[DomainValue], node: exp.Expr
    ) -> Literal_:
        """The value that a label stands for, or a refusal if it stands for NULL or for several values."""
        value = values[0]
        if len(values) > 1:
            problem = f"This is the label of several values of {column}."
            raise self.refuse(problem, f"Write {column} IN ({', '.join(map(_sql, values))}).", node)
        if value is None:
            test = "IS NULL" if operator == "=" else "IS NOT NULL"
            raise self.refuse(f"This is the label of NULL in {column}.", f"Write {column} {test}.", node)
        assert isinstance(value, str | int | bool)  # bins and dates were handled before
        return value

    def _moment_literal(self, column: str, declared: Column, operator: Operator, node: exp.Expr) -> date:
        """A date or timestamp in the form of the column's values."""
        inner = node.this if isinstance(node, exp.Cast) else node
        text = str(inner.this) if isinstance(inner, exp.Literal) and inner.args.get("is_string") else ""
        listed = [
            end for end in declared.values or declared.edges or declared.bounds or () if end is not None
        ]
        if not (read := read_dates([text])):
            remedy = f"Write {sql_literal(listed[0])}."
            raise self.refuse(f"{column} can only be compared with dates and timestamps.", remedy, node)
        moment = midnight(read[0])
        is_day = moment == midnight(moment.date()) and not isinstance(listed[0], datetime)
        value = moment.date() if is_day else moment
        if declared.values is not None and operator in ("=", "<>") and value not in listed:
            problem = f"{text} is not one of the values of {column}, so nothing could match it."
            raise self.refuse(problem, f"Its values are {_some([str(v) for v in listed])}.", node)
        return value

    def _plain(self, node: exp.Expr) -> Literal_:
        sign, inner = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
        match inner:
            case exp.Boolean() if not sign:
                return bool(inner.this)
            case exp.Literal(is_string=True) if not sign:
                return str(inner.this)
            case exp.Literal(is_string=False):
                value = number(sign + str(inner.this))
                if value is not None:
                    return value
                raise self.refuse("This number is too large.", "Write one below 1e300.", node)
            case exp.Null() if not sign:
                remedy = "Write column IS NULL or column IS NOT NULL."
                raise self.refuse("A comparison with NULL is never true.", remedy, node)
            case _:
                remedy = "Compare one column with a number, text in single quotes, TRUE or FALSE."
                raise self.refuse("Expected a value here.", remedy, node)


def is_literal(node: exp.Expr) -> bool:
    """Whether a node is a number, text, TRUE, FALSE or NULL, or a date written as DATE '2025-01-31'."""
    is_date = type(node) is exp.Cast and node.to.this.name in ("DATE", "TIMESTAMP", "TIMESTAMPNTZ")
    is_text = is_date and isinstance(node.this, exp.Literal) and bool(node.this.args.get("is_string"))
    return is_text or isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Neg)


def number(text: str) -> int | float | None:
    """The number; as an int if it is whole, so that 30, 30.0 and 3e1 are the same; None if it is not finite.

    >>> number("30.0"), number("-2.5"), number("1e999")
    (30, -2.5, None)
    """
    value = float(text)
    if not math.isfinite(value):
        return None
    if abs(value) < 2**62 and (whole := Decimal(text)) == whole.to_integral_value():
        return int(whole)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def matching(name: exp.Identifier, candidates: Iterable[str]) -> list[str]:
    """The candidates that a name matches: the exact one, or else, unless it is quoted, those in any case."""
    listed = list(candidates)
    if name.name in listed:
        return [name.name]
    if name.args.get("quoted"):
        return []
    return [c for c in listed if c.casefold() == name.name.casefold()]


def suggest(word: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """`Did you mean ...?` if a candidate is similar, else `otherwise` or a list of columns.

    >>> suggest("educaton", ["sex", "education"])
    'Did you mean education?'
    """
    listed = list(candidates)
    if near := similar(word, listed, n=3):
        return f"Did you mean {' or '.join(near)}?"
    return otherwise or f"The columns are {_some(listed)}."


def listing(values: Iterable[str | int | bool]) -> str:
    """A column's values as SQL literals, the first few.

    >>> listing(["F", "it's"])
    "Its values are 'F', 'it''s'."
    """
    return f"Its values are {_some([_sql(v) for v in values])}."


def _sql(value: DomainValue) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else label(value)


def _some(texts: list[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more if texts else "only NULL"


def _is_number(value: Literal_) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
