"""The rules by which every engine encodes declared columns as small integers, as SQL of its dialect.

The rules never fail on a value. A value that is NaN, infinite, outside the domain or of the wrong type is
encoded as undeclared, or clamped (docs/specification.md, declared domains). All engines produce the same
rows, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import Any

from dpxplain.engines.dialect import KIND_WORDS, LARGEST_WHOLE, MOMENTS, Dialect, ExpressionSQL, Kind, nearest
from dpxplain.errors import SchemaError
from dpxplain.model.column import LARGEST_BOUND, Column, DomainValue, as_number, micros
from dpxplain.model.derivation import expression_of
from dpxplain.model.expression import Reference, read_expression
from dpxplain.model.query import (
    PERSON,
    UNIT,
    Parameters,
    code_column,
    column_number,
    units_column,
    value_column,
)
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import ColumnFigures, NumberFigures, SourceFigures

_DATES = "dates or timestamps"
_SPREAD = 2**20  # steps per 1 in the hash of a number without a grid; the number itself then breaks ties


@dataclass(frozen=True)
class Rows:
    """SQL that selects rows, and the names of their columns."""

    sql: str
    columns: tuple[str, ...]


@dataclass
class Encoding:
    """Encodes the columns of `source`, a table or subselect. `kinds` has the kind of each column."""

    schema: Schema
    kinds: Mapping[str, Kind]
    dialect: Dialect
    source: str = "source"
    parameters: Parameters = field(default_factory=Parameters)
    undeclared_is_null: bool = False
    """Whether codes of undeclared values may be NULL instead of 0, which is faster in some databases."""
    keeps_unit: bool = False
    """Whether rows keep the text of their privacy unit, so that they can be joined by it."""
    uncoded: frozenset[str] = frozenset()
    """Columns whose code is the text itself, because cells are counted by texts and encoded afterwards."""
    counted: str | None = None
    """The column whose known values an extra column `known_i` counts, so that it needs no clamping."""
    only_texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Texts by column: rows with any other text in the column are left out."""
    wanted: frozenset[str] | None = None
    """The columns to encode. None means all, which is required where rows are chosen per person."""

    def all_rows(self) -> Rows:
        """The encoded table: the rows, including the columns of declared expressions."""
        return self.with_derived(filter(self._is_wanted, derived_names(self.schema)), self.rows())

    def rows(self, fit: Mapping[str, str] = MappingProxyType({})) -> Rows:
        """All rows, or at most max_rows per person, chosen by that person's rows alone.

        The choice hashes the encoded columns. A hash of the unit or of the source's own columns would depend
        on their physical type, which one person's odd value can change for everybody. The hash is MD5 because
        every engine computes it alike. It spreads the choice, and the encoded values break its ties; rows
        that still tie are identical. `fit` adds columns that are not hashed but break ties, so that their
        values in the chosen rows also depend on that person's rows alone.
        """
        encoded, privacy = self.columns(), self.schema.privacy
        if self.counted is not None:
            encoded[f"known_{column_number(self.schema, self.counted)}"] = self._known(self.counted)
        listed = _listed({**encoded, **fit})
        names = (*encoded, *fit)
        if privacy.unit == "row":
            return Rows(f"SELECT {listed or '1 AS uncounted'} FROM {self.source}{self._where()}", names)
        unit = self.unit()
        is_unit = self.dialect.is_unit(unit)
        rows = f"SELECT {listed}, {unit} AS person FROM {self.source} WHERE {is_unit}"
        # A discovered column is not hashed either: otherwise discovering it would change which rows are kept.
        discovered = [code_column(self.schema, name) for name in self.schema.discovered]
        settled = [name for name in names if name not in discovered]
        parts = [self._spread_text(name) for name in settled if name in encoded]
        ties = ", ".join(f"{name} NULLS FIRST" for name in (*settled, *discovered))
        order = f"{self.dialect.md5(' || '.join(parts))}, {ties}"
        place = f"row_number() OVER (PARTITION BY person ORDER BY {order}) AS place"
        placed = f"SELECT {', '.join(names)}, person, {place} FROM ({rows}) AS known"
        persons = {PERSON: self.dialect.person("person")} | ({UNIT: "person"} if self.keeps_unit else {})
        selected = ", ".join([*names, _listed(persons)])
        sql = f"SELECT {selected} FROM ({placed}) AS placed WHERE place <= {privacy.max_rows}"
        return Rows(sql, (*names, *persons))

    def _is_wanted(self, name: str) -> bool:
        return self.wanted is None or name in self.wanted

    def _where(self) -> str:
        d = self.dialect
        conditions = [
            d.is_among(d.text_of(d.quote(name), "text"), texts, self.parameters)
            for name, texts in self.only_texts.items()
        ]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _known(self, name: str) -> str:
        """The SQL of a value that is NULL where the column has no number."""
        if self.kinds[name] in ("whole", "boolean"):
            return self.dialect.quote(name)
        return f"NULLIF({self.number(name)}, {self.dialect.number_literal(math.nan)})"

    def code_of_text(self, name: str, text: str) -> str:
        """The code of one of the column's texts, which the column itself lacks if it is `uncoded`."""
        return self._code(text, text, _codes(self.schema.columns[name]), self.schema.domain(name))

    def _spread_text(self, name: str) -> str:
        """An encoded column as a text that is the same on every engine; NULL is the empty text."""
        whole = name
        if name.startswith("value_"):  # a double, which each engine writes as text in its own way
            d = self.dialect
            inside = f"least(greatest({name}, {d.number_literal(-1e12)}), {d.number_literal(1e12)})"
            whole = f"CAST(CASE WHEN {name} IS NOT NULL THEN floor({inside} * {_SPREAD}) END AS BIGINT)"
        return f"',' || COALESCE(CAST({whole} AS {self.dialect.text}), '')"

    def unit(self) -> str:
        """The SQL text that identifies a row's person: the bytes of the unit's text.

        Equality in the column's own type could differ from equality in the count of persons: texts may have a
        collation, and 0.0 equals -0.0.
        """
        name = self.schema.privacy.unit
        return self.dialect.exact_text(self.dialect.quote(name), self.kinds[name])

    def columns(self) -> dict[str, str]:
        """The SQL expression of each encoded column, for the source's own columns."""
        columns = {}
        for name, column in self.schema.columns.items():
            if column.expression is not None or not self._is_wanted(name):
                continue
            if column.values is not None:
                columns[code_column(self.schema, name)] = self._category_code(name, column)
                if column.is_summable:
                    columns[units_column(self.schema, name)] = self._units(column, self.number(name))
            else:
                columns |= self._number_columns(name, column, self.number(name))
        return columns

    def number(self, name: str) -> str:
        """A source's number, or its date's place on the number line, as a double; NULL if it is neither."""
        column, kind, source = self.schema.columns[name], self.kinds[name], self.dialect.quote(name)
        if column.is_temporal:
            zone = column.time_zone or "UTC"
            return f"CAST({self.dialect.micros(source, kind, zone)} AS {self.dialect.double})"
        return self.dialect.number(source, kind)

    def with_derived(self, names: Iterable[str], rows: Rows) -> Rows:
        """The rows with the encoded columns of expressions added.

        Expressions are evaluated over encoded columns, so they see declared values only. Their own values are
        clamped, or compared with the declared list, like those of any column, whatever was inferred about
        them.
        """
        query_expressions = []
        for name in names:
            if name in self.schema.columns:  # later expressions may use it
                rows = self.with_one_derived(name, rows)
            else:
                query_expressions.append(name)
        return self._with_query_expressions(query_expressions, rows) if query_expressions else rows

    def _with_query_expressions(self, names: Sequence[str], rows: Rows) -> Rows:
        """The rows with a query's own expressions, which use declared columns only: all in one SELECT.

        With nested SELECTs, a database would need memory that grows with the square of their number.
        """
        values: dict[str, str] = {}
        added: dict[str, str] = {}
        for number, name in enumerate(names):
            column, value = self.schema.column(name), f"derived_{number}"
            values[value] = self._derived_value(column)
            added |= self._derived_columns(name, column, value)
        before = ", ".join(rows.columns)
        sql = f"SELECT {before}, {_listed(values)} FROM ({rows.sql}) AS rows_before"
        sql = f"SELECT {before}, {_listed(added)} FROM ({sql}) AS with_value"
        return Rows(sql, (*rows.columns, *added))

    def with_one_derived(
        self, name: str, rows: Rows, figures: Mapping[str, str] = MappingProxyType({})
    ) -> Rows:
        """The rows with one expression's encoded columns, and with `figures`: SQL that may use `derived`."""
        column, before = self.schema.column(name), ", ".join(rows.columns)
        value, added = self._derived_value(column), self._derived_columns(name, column, "derived")
        sql = f"SELECT {before}, {value} AS derived FROM ({rows.sql}) AS rows_before"
        sql = f"SELECT {before}, {_listed(added)}{', derived' if figures else ''} FROM ({sql}) AS with_value"
        if figures:  # they may use the columns just added
            sql = f"SELECT {before}, {', '.join(added)}, {_listed(figures)} FROM ({sql}) AS with_derived"
        return Rows(sql, (*rows.columns, *added, *figures))

    def _derived_value(self, column: Column) -> str:
        """The SQL of an expression's value."""
        expression = ExpressionSQL(self.schema, self.dialect, self.parameters)
        node = read_expression(column.expression or "", self.schema.columns)
        if column.lookup and isinstance(node, Reference) and self.schema.columns[node.column].values:
            return expression.looked_up(node.column, column.lookup)
        return expression.render(expression_of(column, self.schema.columns))

    def derived_number(self, column: Column, value: str) -> str:
        """An expression's value as a number; `value` is the name that it has in SQL."""
        if column.is_temporal:
            micros = self.dialect.micros(f"CAST({value} AS {self.dialect.moment})", "timestamp", "UTC")
            return f"CAST({micros} AS {self.dialect.double})"
        if isinstance(next(iter(column.values or ()), None), bool):
            return self.dialect.number(value, "boolean")
        return f"CAST({value} AS {self.dialect.double})"

    def _derived_columns(self, name: str, column: Column, value: str) -> dict[str, str]:
        """The encoded columns of an expression; `value` is the name that its value has in SQL."""
        if column.values is None:
            return self._number_columns(name, column, self.derived_number(column, value))
        listed = [member for member in self.schema.domain(name) if member is not None]
        typed = f"CAST({value} AS {self.dialect.type_of(listed[0] if listed else '')})"
        key = self._key(typed, _expression_kind(listed), column)
        codes = {_key_of(member): code for code, member in enumerate(listed, 1)}
        columns = {code_column(self.schema, name): self._code(value, key, codes, self.schema.domain(name))}
        if column.is_summable:
            columns[units_column(self.schema, name)] = self._units(column, self.derived_number(column, value))
        return columns

    def _number_columns(self, name: str, column: Column, number: str) -> dict[str, str]:
        """The encoded columns of a number, or of a date's place on the number line."""
        columns = {}
        if column.edges is not None:
            columns[code_column(self.schema, name)] = self._bin_code(name, column, number)
        if column.is_summable:
            columns[units_column(self.schema, name)] = self._units(column, number)
        else:
            literal = self.dialect.number_literal
            if column.bounds is not None:
                low, high = (literal(as_number(bound)) for bound in column.bounds)
                value = f"least(greatest({number}, {low}), {high})"
            elif column.is_temporal:
                value = number
            else:  # 0.0 and -0.0 are equal, but their texts differ
                value = f"CASE WHEN {number} = 0 THEN {literal(0)} ELSE {number} END"
            known_value = f"CASE WHEN {self.missing(number)} THEN NULL ELSE {value} END"
            columns[value_column(self.schema, name)] = known_value
        return columns

    def missing(self, number: str) -> str:
        """Whether a number is NULL or NaN."""
        return f"({number} IS NULL OR {self.dialect.is_nan(number)})"

    def _category_code(self, name: str, column: Column) -> str:
        """The position of the value among the declared values, from 1; 0 for anything else."""
        source = self.dialect.quote(name)
        key = self._key(source, self.kinds[name], column)
        if name in self.uncoded:
            return key
        return self._code(source, key, _codes(column), self.schema.domain(name))

    def _key(self, source: str, kind: Kind, column: Column) -> str:
        """A text or whole number that identifies the value of a category."""
        sample = next(iter(members_of(column)), "")
        if isinstance(sample, bool):
            truth = self.dialect.truth(source, kind)
            return f"CASE WHEN {truth} THEN 1 WHEN NOT {truth} THEN 0 END"
        if isinstance(sample, int):
            return self.dialect.whole(source, kind)  # 3.7 is not the category 4: only whole numbers count
        if isinstance(sample, date):
            return self.dialect.micros(source, kind, column.time_zone or "UTC")
        return self.dialect.text_of(source, kind)

    def _code(self, source: str, key: str, codes: Mapping[Any, int], domain: tuple[DomainValue, ...]) -> str:
        if self.undeclared_is_null and codes and None not in domain:
            return self.dialect.code(key, codes, self.parameters)
        code = f"COALESCE({self.dialect.code(key, codes, self.parameters)}, 0)" if codes else "0"
        if None in domain:
            code = f"CASE WHEN {source} IS NULL THEN {len(domain)} ELSE {code} END"
        return f"CAST({code} AS {self.dialect.code_type(len(domain))})"

    def _bin_code(self, name: str, column: Column, number: str) -> str:
        """The number of the bin from 1; 0 outside the edges.

        Bins exclude their lower edge and include their upper edge. On every engine NaN is not below any edge.
        """
        assert column.edges is not None
        assert column.domain is not None
        places = [as_number(edge) for edge in column.edges]
        ends = [self.dialect.number_literal(place) for place in places]
        null_code, missing = len(column.domain) if column.null else 0, self.missing(number)
        is_whole = column.expression is None and self.kinds.get(name) == "whole"
        if is_whole and self.dialect.compares_whole and max(map(abs, places)) < LARGEST_WHOLE:
            # A whole number and its double are on the same side of every such edge.
            number = self.dialect.quote(name)
            ends, missing = [str(math.floor(place)) for place in places], f"{number} IS NULL"
        steps = " ".join(f"WHEN {number} <= {end} THEN {code}" for code, end in enumerate(ends))
        if null_code:
            steps += f" WHEN {missing} THEN {null_code}"
        return f"CAST(CASE {steps} ELSE 0 END AS {self.dialect.code_type(len(column.domain))})"

    def _units(self, column: Column, number: str) -> str:
        """The number clamped and rounded to the grid. NaN gives NULL, wherever an engine sorts it."""
        assert column.bounds is not None
        grid, literal = column.grid, self.dialect.number_literal
        low, high = column.bounds
        dividend = self.dialect.factor(number) if grid.unit > 1 else number  # `/ 1` or less never underflows
        scaled = (low / grid.unit, high / grid.unit)
        rounded = self.dialect.nearest(f"({dividend} / {literal(grid.unit)})", *scaled)
        # The bounds are rounded by the same function. It is monotonic, so numbers between them stay between.
        lowest, highest = (nearest(bound, *scaled) for bound in scaled)
        if lowest < grid.low or highest > grid.high:
            rounded = f"least(greatest({rounded}, {literal(grid.low)}), {literal(grid.high)})"
        inside = self.dialect.integer(rounded)
        ends = (max(min(end, grid.high), grid.low) for end in (lowest, highest))
        below, above = (f"CAST({end} AS INTEGER)" for end in ends)
        return (
            f"CASE WHEN {number} >= {literal(low)} AND {number} <= {literal(high)} THEN {inside} "
            f"WHEN {number} < {literal(low)} THEN {below} "
            f"WHEN {number} > {literal(high)} AND NOT {self.dialect.is_nan(number)} THEN {above} END"
        )


def derived_names(schema: Schema) -> list[str]:
    """The declared columns that are expressions over others."""
    return [name for name, column in schema.columns.items() if column.expression is not None]


def read_columns(schema: Schema) -> list[str]:
    """The columns of the source that some pass may read."""
    names = [name for name, column in schema.columns.items() if column.expression is None]
    unit = [] if schema.privacy.unit == "row" else [schema.privacy.unit]
    return list(dict.fromkeys([*names, *schema.unknown, *unit]))


def check_columns(schema: Schema, kinds: Mapping[str, Kind], untyped: frozenset[str] = frozenset()) -> None:
    """Raises if the schema contradicts the source's column names and types. Reads no values.

    Columns without a type of their own (`untyped`) and all-NULL columns are not checked: otherwise one row
    could decide whether the data set opens.
    """
    unit = schema.privacy.unit
    if unit != "row" and unit not in kinds:
        raise SchemaError(
            f"privacy.unit names the column {unit!r}, but the source has no such column.",
            remedy=_columns_of(kinds, untyped),
        )
    for name in schema.unknown:
        if name in kinds and name not in untyped and kinds[name] not in ("text", "nothing"):
            raise SchemaError(
                f'columns.{name} has values = "discover", but in the source this column contains '
                f"{KIND_WORDS[kinds[name]]}.",
                remedy="Only text values can be discovered. For numbers and dates, declare edges or bounds.",
            )
    own = [name for name, column in schema.columns.items() if column.expression is None]
    for name in dict.fromkeys([*own, *schema.unknown]):
        if name not in kinds:
            raise SchemaError(
                f"columns.{name} is declared, but the source has no such column.",
                remedy=_columns_of(kinds, untyped),
            )
        if name in untyped or kinds[name] == "nothing" or name not in schema.columns:
            continue
        declared, actual = _declared_kind(schema.columns[name]), KIND_WORDS[kinds[name]]
        may_hold_dates = declared == _DATES and kinds[name] in (*MOMENTS, "text")
        is_same = declared == actual or {declared, actual} <= {"numbers", "true or false"}
        if not may_hold_dates and not is_same:
            texts = 'Declare its texts, such as values = ["true", "false"]'
            mend = texts if actual == "text" else "Correct the schema"
            raise SchemaError(
                f"columns.{name} is declared with {declared}, but it contains {actual} in the source.",
                remedy=f"{mend}, or convert the column in the source.",
            )


_SAME_TEXTS = ("whole", "decimal", "long decimal", "text", "boolean", "date")


def check_unit(schema: Schema, kinds: Mapping[str, Kind], remedy: str) -> None:
    """Raises if engines may write the privacy unit's values differently, and so choose other rows."""
    unit = schema.privacy.unit
    if unit != "row" and kinds.get(unit) not in _SAME_TEXTS:
        raise SchemaError(
            f"privacy.unit names the column {unit!r}, but different databases write values of its type in "
            "different ways.",
            remedy=remedy,
        )


def _columns_of(kinds: Mapping[str, Kind], untyped: frozenset[str]) -> str:
    if kinds.keys() == untyped:
        # The first line of a CSV file without a header line holds values, so it is not repeated here.
        return "Correct the schema. A CSV file must name its columns in its first line."
    return f"The source has: {', '.join(kinds)}."


def _declared_kind(column: Column) -> str:
    if column.is_temporal:
        return _DATES
    if column.is_numeric:
        return "numbers"
    sample = next(iter(members_of(column)), "")
    if isinstance(sample, bool):
        return "true or false"
    return "numbers" if isinstance(sample, int) else "text"


def _listed(columns: Mapping[str, str]) -> str:
    """The columns of a SELECT, from their names and expressions."""
    return ", ".join(f"{sql} AS {name}" for name, sql in columns.items())


def members_of(column: Column) -> list[Any]:
    """The declared values of the source; if there are groups, the members of all groups."""
    if column.groups is not None and column.expression is None:
        return [member for members in column.groups.values() for member in members]
    return [value for value in column.values or () if value is not None]


def _codes(column: Column) -> dict[Any, int]:
    """The code of each declared value of the source."""
    if column.groups is not None:
        groups = enumerate(column.groups.values(), 1)
        return {_key_of(member): code for code, members in groups for member in members}
    return {_key_of(value): code for code, value in enumerate(members_of(column), 1)}


def _key_of(value: DomainValue) -> str | int:
    """The key that a row's value is compared with."""
    if isinstance(value, date):
        return micros(value)
    return int(value) if isinstance(value, int) else str(value)


def _expression_kind(values: list[Any]) -> Kind:
    """The kind of an expression that has these values."""
    kinds: dict[type, Kind] = {bool: "boolean", int: "float", date: "date", datetime: "timestamp"}
    return kinds.get(type(values[0]), "text") if values else "text"


# -- Fit of a source's rows --------------------------------------------------------------------------------
#
# SQL that counts how a source's rows fit the declarations. The counts are for the curator, NOT private.

_MOST_TEXTS = 500  # undeclared values listed per column, the most frequent first

FetchAll = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs a SELECT over `checked`, the table of `checked_rows`."""


def checked_rows(encoding: Encoding) -> Rows:
    """The rows to count: codes, numbers, and the texts that do not fit.

    Each name ends in the column's number in the schema, as the names of encoded columns do.
    """
    schema, encoded = encoding.schema, encoding.columns()
    derived = derived_names(schema)
    parts = encoded if derived else {name: sql for name, sql in encoded.items() if name.startswith("code_")}
    for number, (name, column) in enumerate(schema.columns.items()):
        if column.expression is None:
            # The code's SQL is repeated, because the source may have a column with the code's name.
            code, source = encoded.get(code_column(schema, name), ""), encoding.dialect.quote(name)
            value = encoding.number(name) if column.is_numeric else ""
            parts = parts | _fit_of(encoding.dialect, number, column, source, value, code)
    if schema.privacy.unit != "row":
        unit = encoding.unit()
        parts["person"] = f"CASE WHEN {encoding.dialect.is_unit(unit)} THEN {unit} END"
    rows = Rows(f"SELECT {_listed(parts)} FROM {encoding.source}", tuple(parts))
    for name in derived:
        column, number = schema.columns[name], list(schema.columns).index(name)
        value, code = encoding.derived_number(column, "derived"), f"code_{number}"
        figures = _fit_of(encoding.dialect, number, column, "derived", value, code)
        rows = encoding.with_one_derived(name, rows, figures)
    return rows


def _fit_of(
    dialect: Dialect, number: int, column: Column, source: str, value: str, code: str
) -> dict[str, str]:
    """SQL by name: whether a value is NULL, its number if it has one, and its text if it does not fit."""
    if column.is_numeric:
        is_nan = dialect.is_nan(value)
        odd = f"{source} IS NOT NULL AND {value} IS NULL"
        parts = {
            f"number_{number}": f"CASE WHEN NOT {is_nan} THEN {value} END",
            f"null_{number}": f"{source} IS NULL OR COALESCE({is_nan}, FALSE)",
        }
    else:
        odd = f"{source} IS NOT NULL AND {code} = 0"
        parts = {f"null_{number}": f"{source} IS NULL"}
    return parts | {f"odd_{number}": f"CASE WHEN {odd} THEN CAST({source} AS {dialect.text}) END"}


def fit_figures(encoding: Encoding, fetch: FetchAll) -> SourceFigures:
    """Exact figures of how the rows of `checked` fit the declarations."""
    schema = encoding.schema
    counts = {"rows": "count(*)"}
    for number, column in enumerate(schema.columns.values()):
        counts |= {f"{key}_{number}": sql for key, sql in _counts(encoding.dialect, number, column).items()}
    has_unit = schema.privacy.unit != "row"
    if has_unit:
        counts["units"] = "count(person)"
    figures = dict(zip(counts, fetch(f"SELECT {_listed(counts)} FROM checked")[0], strict=True))
    units = (
        "SELECT n, count(*) FROM (SELECT count(*) AS n FROM checked WHERE person IS NOT NULL "
        "GROUP BY person) AS sizes GROUP BY n ORDER BY n"
    )
    return SourceFigures(
        rows=figures["rows"],
        without_unit=figures["rows"] - figures["units"] if has_unit else 0,
        rows_per_unit=dict(fetch(units)) if has_unit else {},
        columns={
            name: _column(fetch, number, column, figures)
            for number, (name, column) in enumerate(schema.columns.items())
        },
    )


def _counts(dialect: Dialect, number: int, column: Column) -> dict[str, str]:
    """Aggregates over one column."""
    counts = {"nulls": _count_if(f"null_{number}"), "odd": f"count(odd_{number})"}
    if not column.is_numeric:
        return counts
    literal, value = dialect.number_literal, f"number_{number}"
    finite = f"CASE WHEN abs({value}) < {literal(math.inf)} THEN {value} END"
    usual = f"CASE WHEN abs({value}) <= {literal(LARGEST_BOUND)} THEN {value} END"  # others could overflow
    counts |= {"low": f"min({finite})", "high": f"max({finite})", "mean": f"avg({usual})"}
    if column.bounds is not None:
        low, high = (literal(as_number(bound)) for bound in column.bounds)
        clamped = f"CASE WHEN {value} IS NOT NULL THEN least(greatest({value}, {low}), {high}) END"
        counts |= {
            "below": _count_if(f"{value} < {low}"),
            "above": _count_if(f"{value} > {high}"),
            "clamped_mean": f"avg({clamped})",
        }
    if column.edges is not None:
        first, last = (literal(as_number(edge)) for edge in (column.edges[0], column.edges[-1]))
        counts |= {
            "under_edges": _count_if(f"{value} <= {first}"),
            "at_lowest_edge": _count_if(f"{value} = {first}"),
            "over_edges": _count_if(f"{value} > {last}"),
        }
    return counts


def _count_if(condition: str) -> str:
    return f"count(CASE WHEN {condition} THEN 1 END)"


def _column(fetch: FetchAll, number: int, column: Column, figures: Mapping[str, Any]) -> ColumnFigures:
    def of(name: str) -> Any:
        return figures.get(f"{name}_{number}")

    odd_texts = (
        f"SELECT odd_{number}, count(*) FROM checked WHERE odd_{number} IS NOT NULL "
        f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {_MOST_TEXTS}"
    )
    codes = f"SELECT code_{number}, count(*) FROM checked GROUP BY 1"
    numbers = None
    if column.is_numeric:
        numbers = NumberFigures(
            low=of("low"),
            high=of("high"),
            mean=of("mean"),
            below=of("below") or 0,
            above=of("above") or 0,
            clamped_mean=of("clamped_mean"),
            under_edges=of("under_edges") or 0,
            at_lowest_edge=of("at_lowest_edge") or 0,
            over_edges=of("over_edges") or 0,
        )
    return ColumnFigures(
        rows=figures["rows"],
        nulls=of("nulls"),
        codes=dict(fetch(codes)) if column.domain is not None else {},
        odd=of("odd"),
        odd_texts=tuple((text, rows) for text, rows in fetch(odd_texts)) if of("odd") else (),
        numbers=numbers,
    )
