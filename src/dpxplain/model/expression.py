"""Expressions over one row's declared values, as a frozen tree that prints as canonical SQL.

A derived column is such an expression, declared by the curator or written in a query. `sql/` parses
expressions, `derivation` infers their domains, and an engine evaluates them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

Value = str | int | float | bool | date | datetime
ArithmeticOperator = Literal["+", "-", "*", "/", "%"]
ComparisonOperator = Literal["=", "<>", "<", "<=", ">", ">="]
Target = Literal["DOUBLE", "BIGINT", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP"]
Part = Literal["year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "hour", "minute", "second"]
Unit = Literal["year", "quarter", "month", "week", "day", "hour", "minute"]
SpanUnit = Literal["day", "hour", "minute", "second"]
IntervalUnit = Literal["year", "month", "week", "day", "hour", "minute", "second"]
Function = Literal[
    "abs",
    "ceil",
    "coalesce",
    "floor",
    "greatest",
    "least",
    "length",
    "lower",
    "nullif",
    "round",
    "sign",
    "trim",
    "upper",
]

# How tightly each kind of expression binds, for parentheses.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _ATOM = range(7)


@dataclass(frozen=True)
class Reference:
    """The value of a declared column: clamped to its bounds, NULL if it is undeclared."""

    column: str


@dataclass(frozen=True)
class Constant:
    value: Value | None


@dataclass(frozen=True)
class Arithmetic:
    """Division by zero gives NULL, and so does its remainder."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Compared:
    operator: ComparisonOperator
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Among:
    """part IN (values)."""

    part: Expression
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Like:
    part: Expression
    pattern: str
    ignores_case: bool = False


@dataclass(frozen=True)
class Missing:
    """part IS NULL; an undeclared value is NULL."""

    part: Expression


@dataclass(frozen=True)
class Opposite:
    """NOT part."""

    part: Expression


@dataclass(frozen=True)
class Every:
    """All parts, joined by AND."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Some:
    """At least one part: joined by OR."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Case:
    """The result of the first branch (condition, result) that holds."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None


@dataclass(frozen=True)
class Call:
    function: Function
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Cast:
    part: Expression
    target: Target


@dataclass(frozen=True)
class DatePart:
    """EXTRACT(name FROM part)."""

    name: Part
    part: Expression


@dataclass(frozen=True)
class DateTrunc:
    unit: Unit
    part: Expression


@dataclass(frozen=True)
class DateDiff:
    """DATE_DIFF('unit', start, end): how many units begin after the start, up to the end."""

    unit: SpanUnit
    start: Expression
    end: Expression


@dataclass(frozen=True)
class Shifted:
    """part + INTERVAL 'amount' unit; the amount may be negative."""

    part: Expression
    amount: int
    unit: IntervalUnit


Expression = (
    Reference
    | Constant
    | Arithmetic
    | Compared
    | Among
    | Like
    | Missing
    | Opposite
    | Every
    | Some
    | Case
    | Call
    | Cast
    | DatePart
    | DateTrunc
    | DateDiff
    | Shifted
)


def sql_of(node: Expression) -> str:
    """The expression as canonical SQL, which is also the name of a derived column in a query.

    >>> sql_of(Case(((Compared(">", Reference("delay"), Constant(15)), Constant(1)),), Constant(0)))
    'CASE WHEN delay > 15 THEN 1 ELSE 0 END'
    >>> sql_of(Arithmetic("*", Arithmetic("+", Reference("a"), Reference("b")), Constant(2)))
    '(a + b) * 2'
    """
    return _print(node)[0]


def columns_of(node: Expression) -> set[str]:
    """The columns that an expression reads."""
    return {part.column for part in walk(node) if isinstance(part, Reference)}


def walk(node: Expression) -> Iterator[Expression]:
    """The expression and everything inside it."""
    yield node
    for part in children(node):
        yield from walk(part)


def children(node: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one."""
    match node:
        case Reference() | Constant():
            return ()
        case Arithmetic(_, left, right) | Compared(_, left, right):
            return left, right
        case Among(part, values):
            return part, *values
        case Like(part) | Missing(part) | Opposite(part) | Cast(part) | Shifted(part):
            return (part,)
        case DatePart(_, part) | DateTrunc(_, part):
            return (part,)
        case DateDiff(_, start, end):
            return start, end
        case Every(parts) | Some(parts):
            return parts
        case Call(_, arguments):
            return arguments
        case Case(branches, otherwise):
            inner = tuple(part for branch in branches for part in branch)
            return inner if otherwise is None else (*inner, otherwise)


def _print(node: Expression) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    match node:
        case Reference(column):
            return sql_name(column), _ATOM
        case Constant(value):
            if value is None:
                return "NULL", _ATOM
            text = repr(value) if isinstance(value, float) else sql_literal(value)  # to the last digit
            return text, _PRODUCT if text.startswith("-") else _ATOM
        case Arithmetic(operator, left, right):
            level = _SUM if operator in "+-" else _PRODUCT
            return f"{_inside(left, level)} {operator} {_inside(right, level + 1)}", level
        case Shifted(part, amount, unit):
            operator = "-" if amount < 0 else "+"
            return f"{_inside(part, _SUM)} {operator} INTERVAL '{abs(amount)}' {unit.upper()}", _SUM
        case Compared(operator, left, right):
            return f"{_inside(left, _SUM)} {operator} {_inside(right, _SUM)}", _COMPARISON
        case Among(part, values):
            return f"{_inside(part, _SUM)} IN ({_listed(values)})", _COMPARISON
        case Like(part, pattern, ignores_case):
            word = "ILIKE" if ignores_case else "LIKE"
            return f"{_inside(part, _SUM)} {word} {sql_literal(pattern)}", _COMPARISON
        case Missing(part):
            return f"{_inside(part, _SUM)} IS NULL", _COMPARISON
        case Opposite(part):
            return f"NOT ({_print(part)[0]})", _NOT
        case Every(parts):
            return " AND ".join(_inside(part, _NOT) for part in parts), _AND
        case Some(parts):
            return " OR ".join(_inside(part, _AND) for part in parts), _OR
    return _print_call(node), _ATOM


def _print_call(node: Expression) -> str:
    match node:
        case Case(branches, otherwise):
            steps = " ".join(f"WHEN {_print(test)[0]} THEN {_print(result)[0]}" for test, result in branches)
            end = "" if otherwise is None else f" ELSE {_print(otherwise)[0]}"
            return f"CASE {steps}{end} END"
        case Call(function, arguments):
            return f"{function.upper()}({_listed(arguments)})"
        case Cast(part, target):
            return f"CAST({_print(part)[0]} AS {target})"
        case DatePart(name, part):
            return f"EXTRACT({name} FROM {_print(part)[0]})"
        case DateTrunc(unit, part):
            return f"DATE_TRUNC('{unit}', {_print(part)[0]})"
        case DateDiff(unit, start, end):
            return f"DATE_DIFF('{unit}', {_print(start)[0]}, {_print(end)[0]})"
    raise TypeError(f"{type(node).__name__} is no expression.")


def _inside(node: Expression, level: int) -> str:
    """The text of an operand, in parentheses where it binds less tightly than its surroundings."""
    text, own = _print(node)
    return text if own >= level else f"({text})"


def _listed(nodes: tuple[Expression, ...]) -> str:
    return ", ".join(_print(node)[0] for node in nodes)


_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_RESERVED = re.compile(
    "(?:and|as|between|by|case|cast|distinct|end|else|extract|false|from|group|having|ilike|in|interval|is|join"
    r"|like|limit|not|null|on|or|order|select|then|true|union|when|where|with)\Z"
)


def sql_name(name: str) -> str:
    """An identifier as SQL, quoted only where it must be.

    >>> sql_name("native_country"), sql_name("hours per week")
    ('native_country', '"hours per week"')
    >>> sql_name("order")
    '"order"'
    """
    is_plain = _PLAIN_NAME.match(name) and not _RESERVED.match(name)
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def sql_literal(value: str | int | float | bool | date) -> str:
    """A value as SQL.

    >>> sql_literal("it's"), sql_literal(0.5), sql_literal(date(2025, 7, 1))
    ("'it''s'", '0.5', "DATE '2025-07-01'")
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, date):
        return f"DATE '{value}'"
    return str(value) if isinstance(value, int) else f"{value:.15g}"


# Takes the text and the columns that it may read, by name; raises QueryRefused.
ExpressionParser = Callable[[str, Mapping[str, Any]], "Expression"]

_parser: list[ExpressionParser] = []


def plug_in_parser(parser: ExpressionParser) -> None:
    """Sets the parser for `read_expression`. The package does this, because `model` may not import `sql`."""
    _parser[:] = [parser]


def read_expression(text: str, columns: Mapping[str, Any]) -> Expression:
    """Parses a SQL text into an expression."""
    return _parser[0](text, columns)
