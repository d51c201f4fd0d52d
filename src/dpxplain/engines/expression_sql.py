"""Renders derived columns as SQL over the encoded table. No value can raise an error.

An expression sees the declared values of its columns, with numbers as doubles; an undeclared value is NULL.
Values are sent as parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dpxplain.engines.dialect import Dialect
from dpxplain.model.column import Column
from dpxplain.model.dates import position
from dpxplain.model.derivation import FUNCTIONS, Inference
from dpxplain.model.expression import (
    Among,
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
    Operation,
    Opposite,
    Reference,
    Shifted,
    Some,
    SpanUnit,
    Value,
)
from dpxplain.model.schema import Schema
from dpxplain.model.temporal_domain import SPANS, SUBDAY_UNITS, shifted_kind
from dpxplain.model.value_domain import WHOLE_LIMIT, ValueDomain, cast_domain, like_matcher
from dpxplain.sql.encoded_names import Parameters, code_column, units_column, value_column

LARGEST_WHOLE = 2.0**53  # every whole number up to here is a double


@dataclass
class ExpressionSQL:
    """Renders expressions in a dialect."""

    schema: Schema
    dialect: Dialect
    parameters: Parameters = field(default_factory=Parameters)
    inference: Inference = field(init=False)
    """The values that the columns can have; inside a CASE, the values where its condition holds."""

    def __post_init__(self) -> None:
        self.inference = Inference.of(self.schema.columns)

    def render(self, node: Expression) -> str:
        if (table := tabulated(node, self.inference)) is not None:
            return self._image(node, *table)
        match node:
            case Reference(column):
                return self._declared(column, self.schema.columns[column])
            case Constant(value):
                return self._constant(value)
            case Operation():
                return self._arithmetic(node)
            case Compared(operator, left, right):
                return f"({self.render(left)} {operator} {self.render(right)})"
            case Among(part, values):
                return f"({self.render(part)} IN ({', '.join(map(self.render, values))}))"
            case Like(part, pattern, ignores_case):
                return self.dialect.like(self.render(part), self._bind(pattern), ignores_case)
            case Missing(part):
                return f"({self.render(part)} IS NULL)"
            case Opposite(part):
                return f"(NOT {self.render(part)})"
            case Every(parts):
                return f"({' AND '.join(map(self.render, parts))})"
            case Some(parts):
                return f"({' OR '.join(map(self.render, parts))})"
            case Case(branches, otherwise):
                return self._case(branches, otherwise)
            case Call():
                return self._call(node)
            case Cast():
                return self._cast(node)
            case DatePart(name, part):
                return self.dialect.date_part(name, self.render(part))
            case DateTrunc(unit, part):
                kind = self.dialect.moment if unit in SUBDAY_UNITS else "DATE"
                return f"CAST({self.dialect.date_trunc(unit, self.render(part))} AS {kind})"
            case Shifted():
                return self._shifted(node)
            case DateDiff(unit, start, end):
                last, first = self._beginning(unit, end), self._beginning(unit, start)
                return f"CAST({last} - {first} AS {self.dialect.double})"

    def _case(self, branches: Sequence[tuple[Expression, Expression]], otherwise: Expression | None) -> str:
        before, steps = self.inference, []
        for condition, result in branches:
            unmet, test = self.inference.unless(condition), self.render(condition)
            self.inference = self.inference.where(condition)
            steps.append(f"WHEN {test} THEN {self.render(result)}")
            self.inference = unmet
        end = "" if otherwise is None else f" ELSE {self.render(otherwise)}"
        self.inference = before
        return f"CASE {' '.join(steps)}{end} END"

    def _arithmetic(self, node: Operation[Expression]) -> str:
        left, right = map(self.render, node.operands)
        match node.operator:
            case "+" | "-":
                return f"({left} {node.operator} {right})"
            case "*":
                return f"({self.dialect.factor(left)} * {self.dialect.factor(right)})"
            case "/":
                return f"({self.dialect.factor(left)} / NULLIF({self.dialect.factor(right)}, 0))"
            case "%":
                return self.dialect.remainder(left, f"NULLIF({right}, 0)", self._is_whole(node))
        raise AssertionError(node.operator)

    def _is_whole(self, node: Operation[Expression]) -> bool:
        """Whether both sides are whole numbers that 64 bits hold."""
        sides = [self.inference.domain(side) for side in node.operands]
        return all(side.is_whole and max(map(abs, side.ends)) < LARGEST_WHOLE for side in sides)

    def _shifted(self, node: Shifted) -> str:
        is_date = shifted_kind(self.inference.domain(node.part), node.unit) == "date"
        moment = self.dialect.moment
        shifted = f"CAST({self.render(node.part)} AS {moment}) + INTERVAL '{node.amount} {node.unit}'"
        return f"CAST({shifted} AS {'DATE' if is_date else moment})"

    def _beginning(self, unit: SpanUnit, node: Expression) -> str:
        """The number of the unit that a moment lies in, counted from 1970 in whole units, so exact."""
        moment = self.dialect.date_trunc(unit, self.render(node))
        return self.dialect.span_number(moment, SPANS[unit] // timedelta(microseconds=1))

    def _bind(self, value: Any) -> str:
        return self.dialect.placeholder(self.parameters.bind(value))

    def _constant(self, value: Any) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int | float):
            return self.dialect.number_literal(value)
        if isinstance(value, str):
            return f"CAST({self._bind(value)} AS {self.dialect.text})"
        return f"CAST('{value.isoformat()}' AS {self.dialect.type_of(value)})"

    def _declared(self, name: str, column: Column) -> str:
        """The declared value of a column, from its encoded form."""
        literal = self.dialect.number_literal
        if column.values is not None:
            values = [value for value in column.values if value is not None]
            code = code_column(self.schema, name)
            return self.dialect.element(self.dialect.array(values, self.parameters), code)
        if column.is_summable:
            step = column.grid.step
            units = f"CAST({units_column(self.schema, name)} AS {self.dialect.double})"
            return f"({units} * {literal(step.numerator)} / {literal(step.denominator)})"
        value = value_column(self.schema, name)
        typed = self.dialect.timestamp(value) if column.is_temporal else value
        if column.edges is None or column.bounds is not None:
            return typed  # clamped to its bounds
        low, high = (position(e) if column.is_temporal else e for e in (column.edges[0], column.edges[-1]))
        return f"CASE WHEN {value} > {literal(low)} AND {value} <= {literal(high)} THEN {typed} END"

    def looked_up(self, key: str, lookup: Sequence[tuple[Any, Any]]) -> str:
        """The lookup's result for a column with declared values: an element of an array, not a long CASE."""
        results_by_value = dict(lookup)
        values = [value for value in self.schema.columns[key].values or () if value is not None]
        results = [results_by_value.get(value, lookup[0][1]) for value in values]
        code = code_column(self.schema, key)
        result = self.dialect.element(self.dialect.array(results, self.parameters), code)
        missing = [str(place) for place, value in enumerate(values, 1) if value not in results_by_value]
        return f"CASE WHEN {code} NOT IN ({', '.join(missing)}) THEN {result} END" if missing else result

    def _call(self, node: Call) -> str:
        if node.function == "round":
            return self._round(node)
        call = self.dialect.function(node.function, [*map(self.render, node.arguments)])
        return f"CAST({call} AS {self.dialect.double})" if FUNCTIONS[node.function].is_whole else call

    def _round(self, node: Call) -> str:
        """ROUND with halves away from zero, which not every database's own ROUND does."""
        digits = node.arguments[1] if len(node.arguments) > 1 else Constant(0)
        assert isinstance(digits, Constant)
        places = int(str(digits.value))
        inner = self.render(node.arguments[0])
        scale = self.dialect.number_literal(10.0 ** abs(places))
        scaled, back = ("*", "/") if places >= 0 else ("/", "*")
        nearest = self.dialect.nearest(
            f"({self.dialect.factor(inner)} {scaled} {scale})", -math.inf, math.inf
        )
        return f"(CAST({nearest} AS {self.dialect.double}) {back} {scale})"

    def _cast(self, node: Cast) -> str:
        domain = self.inference.domain(node.part)
        inner = self.render(node.part)
        match node.target:
            case "VARCHAR":
                whole = self.dialect.half_even(inner) if domain.kind == "number" else inner
                return f"CAST({whole} AS {self.dialect.text})"
            case "BIGINT":
                number = inner if domain.kind == "number" else self.dialect.cast(inner, "DOUBLE", domain.kind)
                whole = f"CAST({self.dialect.half_even(number)} AS {self.dialect.double})"
                if domain.kind != "number" or max(map(abs, domain.ends)) < WHOLE_LIMIT:
                    return whole
                limit = self.dialect.number_literal(WHOLE_LIMIT)
                return f"CASE WHEN abs({number}) < {limit} THEN {whole} END"
        return self.dialect.cast(inner, node.target, domain.kind)

    def _image(self, node: Expression, part: Expression, images: Mapping[str, Value | None]) -> str:
        """The value of a function of a text, looked up in a table of all possible texts."""
        defined = {text: image for text, image in images.items() if image is not None}
        values = list(dict.fromkeys(defined.values()))
        if not values:
            return f"CAST(NULL AS {self._type(node)})"
        if isinstance(part, Reference) and self.schema.columns[part.column].values is not None:
            return self.looked_up(part.column, [*defined.items()])
        places = {text: values.index(image) + 1 for text, image in defined.items()}
        code = self.dialect.code(self.render(part), places, self.parameters)
        return self.dialect.element(self.dialect.array(values, self.parameters), code)

    def _type(self, node: Expression) -> str:
        """The SQL type of the values of a function of a text."""
        match node:
            case Call(function):
                return self.dialect.double if FUNCTIONS[function].is_whole else self.dialect.text
            case Cast(_, "DOUBLE" | "BIGINT"):
                return self.dialect.double
            case Like() | Cast(_, "BOOLEAN"):
                return "BOOLEAN"
            case Cast(_, "TIMESTAMP"):
                return self.dialect.moment
            case Cast(_, "DATE"):
                return "DATE"
        return self.dialect.text


def tabulated(node: Expression, inference: Inference) -> tuple[Expression, dict[str, Value | None]] | None:
    """A function's text argument, and its value for each possible text; None if it has no text argument.

    Functions of texts are looked up, because databases compute them differently from each other and from the
    inference of domains: UPPER of a German ß, TRIM of a tab, which texts can be read as a number.
    """
    match node:
        case Call(name, (part,)) if (of_text := FUNCTIONS[name].of_text) is not None:
            function: Callable[[str], Value | None] = of_text
        case Like(part, pattern, ignores_case):
            function = like_matcher(pattern, ignores_case)
        case Cast(part, target) if target != "VARCHAR":

            def function(text: str) -> Value | None:
                images = cast_domain(ValueDomain("text", (text,)), target)
                return None if images is None or not images.values else images.values[0]
        case _:
            return None
    domain = inference.domain(part)
    if domain.kind != "text" or domain.values is None:
        return None
    if (inner := tabulated(part, inference)) is not None:
        argument, texts = inner
        return argument, {
            text: None if image is None else function(str(image)) for text, image in texts.items()
        }
    return part, {str(text): function(str(text)) for text in domain.values}
