"""The differences between the engines' SQL: how a database casts, compares, hashes, dates and computes.

The rules that all engines share are in `encoding` and `statements`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Literal

from dpxplain.model.column import Column, as_number
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
    quoted_name,
)
from dpxplain.model.query import Parameters, code_column, units_column, value_column
from dpxplain.model.schema import Schema
from dpxplain.model.value_domain import (
    SPANS,
    SUBDAY_UNITS,
    WHOLE_LIMIT,
    ValueDomain,
    cast_domain,
    like_matcher,
    shifted_kind,
)

Kind = Literal[
    "whole",
    "decimal",
    "long decimal",  # more digits than a double holds
    "float",
    "boolean",
    "text",
    "date",
    "timestamp",
    "zoned",  # a timestamp with a time zone
    "nothing",  # a column without a type, all NULL
    "other",
]

NUMBERS: tuple[Kind, ...] = ("whole", "decimal", "long decimal", "float")
MOMENTS: tuple[Kind, ...] = ("date", "timestamp", "zoned")
KIND_WORDS: dict[Kind, str] = dict.fromkeys(NUMBERS, "numbers") | {
    "boolean": "true or false", "text": "text", "date": "text", "timestamp": "timestamps",
    "zoned": "timestamps", "nothing": "nothing", "other": "values of another type",
}  # fmt: skip
"""What a column of each kind holds, in words; a date counts as text."""

# Adding this before floor() rounds halves up. Adding 0.5 would also round up the largest double below 0.5.
_ALMOST_HALF = 0.49999999999999994


def nearest(number: float, low: float, high: float) -> int:
    """The same as `Dialect.nearest`, computed in Python."""
    is_up = number >= 0 if low < 0 < high else low >= 0
    return math.floor(number + _ALMOST_HALF) if is_up else math.ceil(number - _ALMOST_HALF)


class Dialect(ABC):
    """One database's SQL."""

    name: str
    """The dialect's name in sqlglot."""
    double = "DOUBLE"
    text = "VARCHAR"
    moment = "TIMESTAMP"
    """The type of timestamps, which have no time zone."""
    inlined = "AS"
    """The keyword that stops the engine from materialising a CTE (NOT MATERIALIZED), or plain AS."""
    compares_whole = False
    """Whether a whole number of any width can be compared with a literal directly, without an error."""
    counts_clamped = False
    """Whether the engine computes a clamped number only once if both the count and the sum read it."""
    numbers_cells = False
    """Whether a pass over many subsets counts numbered cells, not GROUPING SETS."""

    # -- Names, values, types ------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        return quoted_name(name)

    @abstractmethod
    def placeholder(self, number: int) -> str:
        """How a statement refers to a parameter."""

    def number_literal(self, value: float) -> str:
        """A float to its last digit. A bare 0.1 may be a decimal, whose conversion can be off by one."""
        return f"CAST('{float(value)!r}' AS {self.double})"

    @abstractmethod
    def code_type(self, size: int) -> str:
        """The smallest type for codes from 0 to `size`."""

    @abstractmethod
    def array(self, values: Sequence[Any], parameters: Parameters) -> str:
        """Values of one type, as an array; numbers are doubles."""

    @abstractmethod
    def element(self, array: str, place: str) -> str:
        """The element at a place from 1; NULL for 0 and outside."""

    def type_of(self, value: Any) -> str:
        """The SQL type of such a value in expressions."""
        types = {bool: "BOOLEAN", int: self.double, float: self.double, date: "DATE", datetime: self.moment}
        return types.get(type(value), self.text)

    # -- The source's values -------------------------------------------------------------------------------

    @abstractmethod
    def number(self, source: str, kind: Kind) -> str:
        """The value as a correctly rounded double. TRUE is 1; a number beyond the range is infinite."""

    @abstractmethod
    def whole(self, source: str, kind: Kind) -> str:
        """The value as a 64-bit integer; NULL if it is not one."""

    @abstractmethod
    def truth(self, source: str, kind: Kind) -> str:
        """TRUE or FALSE. 1 counts as TRUE and 0 as FALSE; other numbers are neither."""

    @abstractmethod
    def text_of(self, source: str, kind: Kind) -> str:
        """The value as a text that is compared by its bytes, without the padding of CHAR."""

    def exact_text(self, source: str, kind: Kind) -> str:
        """The value as a text that GROUP BY and PARTITION BY compare by its bytes, whatever the collation."""
        return self.text_of(source, kind)

    def valid_text(self, text: str) -> str:
        """The text; NULL if its bytes are not UTF-8, in an engine whose tables can hold such text."""
        return text

    @abstractmethod
    def micros(self, source: str, kind: Kind, zone: str) -> str:
        """Microseconds since 1970 as a 64-bit integer, local to the zone if the value has one."""

    def is_nan(self, number: str) -> str:
        return f"isnan({number})"

    def for_texts(self, texts: int, columns: int) -> Dialect:
        """The dialect for a statement that encodes so many columns, with so many declared texts in all."""
        return self

    @abstractmethod
    def code(self, key: str, codes: Mapping[Any, int], parameters: Parameters) -> str:
        """The code of a text (compared by its bytes) or whole number; NULL if it has none."""

    def is_among(self, text: str, values: Sequence[str], parameters: Parameters) -> str:
        """Whether a text, compared by its bytes, is one of the values."""
        return f"{text} IN ({', '.join(self.placeholder(parameters.bind(value)) for value in values)})"

    def is_unit(self, text: str) -> str:
        """Whether a text names a privacy unit: '' and 'nan' do not."""
        return f"({text} IS NOT NULL AND lower({text}) NOT IN ('', 'nan'))"

    # -- Choosing and counting persons ---------------------------------------------------------------------

    def md5(self, text: str) -> str:
        """32 hexadecimal digits that are ordered by their bytes."""
        return f"md5({text})"

    def person(self, text: str) -> str:
        """The hash by which COUNT(DISTINCT unit) tells persons apart: 128 bits, from the unit's text."""
        return f"md5({text})"

    # -- Expressions over declared values ------------------------------------------------------------------

    def nearest(self, number: str, low: float, high: float) -> str:
        """The nearest whole number, halves away from zero; the number lies between `low` and `high`."""
        half = self.number_literal(_ALMOST_HALF)
        up, down = f"floor({number} + {half})", f"ceil({number} - {half})"
        if low >= 0 or high <= 0:
            return up if low >= 0 else down
        return f"CASE WHEN {number} >= 0 THEN {up} ELSE {down} END"

    def integer(self, number: str) -> str:
        """A whole number as a 32-bit integer."""
        return f"CAST({number} AS INTEGER)"

    def factor(self, number: str) -> str:
        """A number as an operand of * or /. Where underflow is an error, the dialect prevents it here."""
        return number

    def remainder(self, left: str, right: str, is_whole: bool) -> str:
        """The remainder of a division, with the sign of the dividend."""
        return f"({left} % {right})"

    def function(self, name: str, arguments: Sequence[str]) -> str:
        """A call of a function. A numeric function returns a double for every double."""
        return f"{name}({', '.join(arguments)})"

    @abstractmethod
    def like(self, text: str, pattern: str, ignores_case: bool) -> str:
        """LIKE without an escape character."""

    @abstractmethod
    def half_even(self, number: str) -> str:
        """The nearest whole number as a 64-bit integer, halves to even; NULL beyond 64 bits."""

    @abstractmethod
    def cast(self, value: str, target: str, kind: str) -> str:
        """A cast of a declared value of some kind ("number", "boolean", ...); NULL where it does not fit."""

    @abstractmethod
    def timestamp(self, micros: str) -> str:
        """The timestamp at a place on the number line (a double)."""

    def date_part(self, name: str, moment: str) -> str:
        """A part of a date or timestamp, such as the year: a whole number as a double."""
        return f"CAST(date_part('{name}', {moment}) AS {self.double})"

    def date_trunc(self, unit: str, moment: str) -> str:
        return f"date_trunc('{unit}', {moment})"

    @abstractmethod
    def span_number(self, moment: str, micros: int) -> str:
        """The number of spans of `micros` microseconds from 1970 to `moment`, the beginning of a span."""


# -- Derived columns ---------------------------------------------------------------------------------------
#
# Renders derived columns as SQL over the encoded table. No value can raise an error.
#
# An expression sees the declared values of its columns, with numbers as doubles; an undeclared value is NULL.
# Values are sent as parameters.

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
        low, high = map(as_number, (column.edges[0], column.edges[-1]))
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
