"""Derived columns as SQL over the encoded table; no value can raise an error.

An expression sees the declared values of its columns, numbers as DOUBLE and everything else undeclared as
NULL. Values travel as parameters; each part of an expression occurs once in the text, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from dpxplain.model.column import Column
from dpxplain.model.dates import position
from dpxplain.model.derivation import infer
from dpxplain.model.expression import (
    Among,
    Arithmetic,
    Call,
    Case,
    Cast,
    Compared,
    Constant,
    DateDiff,
    DatePart,
    DateTrunc,
    Every,
    Expression,
    Like,
    Missing,
    Opposite,
    Reference,
    Shifted,
    Some,
    SpanUnit,
)
from dpxplain.model.schema import Schema
from dpxplain.model.temporal_domain import SPANS, SUBDAY_UNITS, shifted_kind
from dpxplain.sql.encoded_names import code_column, units_column, value_column


@dataclass
class ExpressionSQL:
    """Renders expressions; `parameters` fill the question marks of all texts, in the order rendered."""

    schema: Schema
    parameters: list[Any] = field(default_factory=list)

    def render(self, node: Expression) -> str:
        match node:
            case Reference(column):
                return self._declared(column, self.schema.columns[column])
            case Constant(value):
                return self._constant(value)
            case Arithmetic(operator, left, right):
                divides = operator in "/%"
                first, second = self.render(left), self.render(right)
                return f"({first} {operator} {f'NULLIF({second}, 0)' if divides else second})"
            case Compared(operator, left, right):
                return f"({self.render(left)} {operator} {self.render(right)})"
            case Among(part, values):
                return f"({self.render(part)} IN ({', '.join(map(self.render, values))}))"
            case Like(part, pattern, ignores_case):
                word = "ILIKE" if ignores_case else "LIKE"
                return f"({self.render(part)} {word} {self._bind(pattern)})"
            case Missing(part):
                return f"({self.render(part)} IS NULL)"
            case Opposite(part):
                return f"(NOT {self.render(part)})"
            case Every(parts):
                return f"({' AND '.join(map(self.render, parts))})"
            case Some(parts):
                return f"({' OR '.join(map(self.render, parts))})"
            case Case(branches, otherwise):
                steps = " ".join(f"WHEN {self.render(a)} THEN {self.render(b)}" for a, b in branches)
                end = "" if otherwise is None else f" ELSE {self.render(otherwise)}"
                return f"CASE {steps}{end} END"
            case Call():
                return self._call(node)
            case Cast():
                return self._cast(node)
            case DatePart(name, part):
                return f"CAST(date_part('{name}', {self.render(part)}) AS DOUBLE)"
            case DateTrunc(unit, part):
                kind = "TIMESTAMP" if unit in SUBDAY_UNITS else "DATE"
                return f"CAST(date_trunc('{unit}', {self.render(part)}) AS {kind})"
            case Shifted(part, amount, unit):
                kind = shifted_kind(infer(part, self.schema.columns), unit).upper()
                return f"CAST({self.render(part)} + INTERVAL '{amount}' {unit} AS {kind})"
            case DateDiff(unit, start, end):
                last, first = self._beginning(unit, end), self._beginning(unit, start)
                return f"CAST({last} - {first} AS DOUBLE)"

    def _beginning(self, unit: SpanUnit, node: Expression) -> str:
        """The number of the unit that a moment lies in, from 1970. Of whole units, so that it is exact."""
        moment = f"CAST(date_trunc('{unit}', {self.render(node)}) AS TIMESTAMP)"
        return f"(epoch_us({moment}) // {SPANS[unit] // timedelta(microseconds=1)})"

    def _bind(self, value: Any) -> str:
        self.parameters.append(value)
        return "?"

    def _constant(self, value: Any) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int | float):
            return f"CAST('{float(value)!r}' AS DOUBLE)"
        if isinstance(value, str):
            return f"CAST({self._bind(value)} AS VARCHAR)"
        kind = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
        return f"CAST('{value.isoformat()}' AS {kind})"

    def _declared(self, name: str, column: Column) -> str:
        """The declared value of a column, from its encoded form."""
        if column.values is not None:
            values = [value for value in column.values if value is not None]
            listed = self._bind(values) + f"::{sql_type(values)}[]"
            return f"list_extract({listed}, {code_column(self.schema, name)})"
        if column.is_summable:
            step = column.grid.step
            units = f"CAST({units_column(self.schema, name)} AS DOUBLE)"
            return f"({units} * {_double(step.numerator)} / {_double(step.denominator)})"
        value = value_column(self.schema, name)
        typed = f"make_timestamp(CAST({value} AS BIGINT))" if column.is_temporal else value
        if column.edges is None or column.bounds is not None:
            return typed  # clamped to its bounds
        low, high = (position(e) if column.is_temporal else e for e in (column.edges[0], column.edges[-1]))
        return f"CASE WHEN {value} > {_double(low)} AND {value} <= {_double(high)} THEN {typed} END"

    def _call(self, node: Call) -> str:
        if node.function == "round":
            digits = node.arguments[1] if len(node.arguments) > 1 else Constant(0)
            assert isinstance(digits, Constant)
            return f"round({self.render(node.arguments[0])}, {int(str(digits.value))})"
        call = f"{node.function}({', '.join(map(self.render, node.arguments))})"
        return f"CAST({call} AS DOUBLE)" if node.function in ("length", "sign") else call

    def _cast(self, node: Cast) -> str:
        domain = infer(node.part, self.schema.columns)
        inner = self.render(node.part)
        match node.target:
            case "VARCHAR":
                whole = f"TRY_CAST({inner} AS BIGINT)" if domain.kind == "number" else inner
                return f"CAST({whole} AS VARCHAR)"
            case "BIGINT":
                return f"CAST(TRY_CAST(TRY_CAST({inner} AS DOUBLE) AS BIGINT) AS DOUBLE)"
        return f"TRY_CAST({inner} AS {node.target})"


def sql_type(values: Sequence[Any]) -> str:
    """The type in which expressions have values like these."""
    types = {bool: "BOOLEAN", int: "DOUBLE", float: "DOUBLE", date: "DATE", datetime: "TIMESTAMP"}
    return types.get(type(values[0]), "VARCHAR") if values else "VARCHAR"


def _double(value: float) -> str:
    return f"CAST('{float(value)!r}' AS DOUBLE)"
