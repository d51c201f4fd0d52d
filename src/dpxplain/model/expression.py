"""Expressions and formulas: one frozen tree, whose leaves say what is computed with.

An `Expression` computes with one row's columns (`Reference`) and prints as canonical SQL. A derived column is
such an expression, declared by the curator or written in a query. `sql/` parses expressions, `derivation`
infers their domains, and an engine evaluates them.

A formula has arithmetic only. The leaves of an `OutputFormula` are the values of a statement's aggregates
(`Measured`), those of `privacy.formulas` are noisy values. Formulas and HAVING are post-processing: they cost
nothing and are not part of a query's identity.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Generic, Literal, TypeVar

Value = str | int | float | bool | date | datetime
ArithmeticOperator = Literal["+", "-", "*", "/", "%", "neg", "exp", "log"]
ComparisonOperator = Literal["=", "<>", "<", "<=", ">", ">="]
Target = Literal["DOUBLE", "BIGINT", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP"]
Part = Literal["year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "hour", "minute", "second"]
Unit = Literal["year", "quarter", "month", "week", "day", "hour", "minute"]
SpanUnit = Literal["day", "hour", "minute", "second"]
IntervalUnit = Literal["year", "month", "week", "day", "hour", "minute", "second"]

OPPOSITES: dict[ComparisonOperator, ComparisonOperator] = {
    "=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"
}  # fmt: skip
FLIPPED: dict[ComparisonOperator, ComparisonOperator] = {
    "=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="
}  # fmt: skip
"""The comparison with its sides exchanged."""
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip

# Text, and how tightly its outermost operator binds, for parentheses.
Text = tuple[str, int]
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, ATOM = range(8)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Constant(Generic[T_co]):
    value: T_co


@dataclass(frozen=True)
class Operation(Generic[T_co]):
    """Expressions have + - * / and %; formulas have + - * / neg exp and log, of which the last three take one
    operand. In a row, division by zero gives NULL, and so does its remainder.
    """

    operator: ArithmeticOperator
    operands: tuple[T_co, ...]


@dataclass(frozen=True)
class Compared(Generic[T_co]):
    operator: ComparisonOperator
    left: T_co
    right: T_co


@dataclass(frozen=True)
class Every(Generic[T_co]):
    """All parts, joined by AND."""

    parts: tuple[T_co, ...]


@dataclass(frozen=True)
class Some(Generic[T_co]):
    """At least one part: joined by OR."""

    parts: tuple[T_co, ...]


# -- Expressions over one row's columns --------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """The value of a declared column: clamped to its bounds, NULL if it is undeclared."""

    column: str


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
class Case:
    """The result of the first branch (condition, result) that holds."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None


@dataclass(frozen=True)
class Call:
    """`function` is the name of one in `derivation.FUNCTIONS`."""

    function: str
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
    | Constant[Value | None]
    | Operation["Expression"]
    | Compared["Expression"]
    | Every["Expression"]
    | Some["Expression"]
    | Among
    | Like
    | Missing
    | Opposite
    | Case
    | Call
    | Cast
    | DatePart
    | DateTrunc
    | DateDiff
    | Shifted
)


# -- Formulas over values of other kinds -------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The value of one of the statement's aggregates, by its number."""

    aggregate: int


OutputFormula = Measured | Constant[float] | Operation["OutputFormula"]
OutputCondition = Compared[OutputFormula] | Every["OutputCondition"] | Some["OutputCondition"]


def fold(
    formula: Any,
    leaf: Callable[[Any], T],
    number: Callable[[float], T],
    operate: Callable[[ArithmeticOperator, Sequence[T]], T],
) -> T:
    """The formula computed in any algebra: floats, spans, linear forms, text.

    Without recursion and once per shared node: `sum` over a thousand groups is a thousand nodes deep.

    >>> half = Operation("/", (Measured(0), Constant(2.0)))
    >>> fold(half, leaf=str, number=str, operate=lambda operator, texts: f" {operator} ".join(texts))
    'Measured(aggregate=0) / 2.0'
    """
    results: dict[int, T] = {}
    for node in walk(formula):
        match node:
            case Constant(value):
                results[id(node)] = number(value)
            case Operation(operator, operands):
                results[id(node)] = operate(operator, [results[id(operand)] for operand in operands])
            case _:
                results[id(node)] = leaf(node)
    return results[id(formula)]


def applied(
    operator: ArithmeticOperator, operands: Sequence[T], exp: Callable[[T], Any], log: Callable[[T], Any]
) -> Any:
    """The result for operands of any type that has + - * / and a sign."""
    first, last = operands[0], operands[-1]
    number: Any = first
    match operator:
        case "+":
            return number + last
        case "-":
            return number - last
        case "*":
            return number * last
        case "/":
            return number / last
        case "neg":
            return -number
        case "exp":
            return exp(first)
        case "log":
            return log(first)
    raise AssertionError(operator)


def evaluate(formula: OutputFormula, values: Sequence[float | None]) -> float | None:
    """The formula at plain numbers; None where it is not defined.

    >>> half = Operation("/", (Measured(0), Measured(1)))
    >>> evaluate(half, [1.0, 2.0]), evaluate(half, [1.0, 0.0]), evaluate(half, [None, 2.0])
    (0.5, None, None)
    """

    def operate(operator: ArithmeticOperator, operands: Sequence[float | None]) -> float | None:
        if None in operands:
            return None
        try:
            result: float = applied(operator, operands, math.exp, math.log)  # type: ignore[arg-type]
        except (ZeroDivisionError, ValueError, OverflowError):
            return None
        return result if math.isfinite(result) else None

    def measured(leaf: Measured) -> float | None:
        return values[leaf.aggregate]

    return fold(formula, measured, lambda value: value, operate)


def aggregates_of(part: OutputFormula | OutputCondition) -> set[int]:
    """The numbers of the aggregates that a formula or condition uses."""
    return {node.aggregate for node in walk(part) if isinstance(node, Measured)}


def renumbered(formula: OutputFormula, numbers: Sequence[int]) -> OutputFormula:
    """The formula over other aggregates: the i-th becomes numbers[i]."""

    def operate(operator: ArithmeticOperator, operands: Sequence[OutputFormula]) -> OutputFormula:
        return Operation(operator, tuple(operands))

    return fold(formula, lambda leaf: Measured(numbers[leaf.aggregate]), Constant, operate)


# -- Looking into a tree -----------------------------------------------------------------------------------


def columns_of(node: Expression) -> set[str]:
    """The columns that an expression reads."""
    return {part.column for part in walk(node) if isinstance(part, Reference)}


def walk(root: Any) -> list[Any]:
    """Every node once, operands first; without recursion."""
    ordered: list[Any] = []
    visited: set[int] = set()
    stack = [(root, False)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            ordered.append(node)
        elif id(node) not in visited:
            visited.add(id(node))
            stack.append((node, True))
            stack.extend((part, False) for part in reversed(children(node)))
    return ordered


def children(node: Any) -> tuple[Any, ...]:
    """The nodes directly inside one; () for a leaf."""
    match node:
        case Operation(_, operands):
            return operands
        case Compared(_, left, right):
            return left, right
        case Every(parts) | Some(parts):
            return parts
        case Among(part, values):
            return part, *values
        case Like(part) | Missing(part) | Opposite(part) | Cast(part) | Shifted(part):
            return (part,)
        case DatePart(_, part) | DateTrunc(_, part):
            return (part,)
        case DateDiff(_, start, end):
            return start, end
        case Call(_, arguments):
            return arguments
        case Case(branches, otherwise):
            inner = tuple(part for branch in branches for part in branch)
            return inner if otherwise is None else (*inner, otherwise)
    return ()


# -- Trees as text -----------------------------------------------------------------------------------------

FORMULA_FUNCTIONS: dict[ArithmeticOperator, str] = {"exp": "EXP", "log": "LN"}


def formula_text(formula: OutputFormula, names: Sequence[str]) -> str:
    """The formula as SQL; `names` are those of the aggregates.

    >>> gap = Operation("-", (Measured(0), Measured(1)))
    >>> formula_text(Operation("/", (gap, Constant(2.0))), ["AVG(x)", "AVG(y)"])
    '(AVG(x) - AVG(y)) / 2'
    """

    def name(leaf: Measured) -> Text:
        return names[leaf.aggregate], ATOM

    return fold(formula, name, number_text, operation_text)[0]


def condition_text(condition: OutputCondition, names: Sequence[str]) -> str:
    """The condition as SQL."""
    match condition:
        case Compared(operator, left, right):
            return f"{formula_text(left, names)} {operator} {formula_text(right, names)}"
        case Every(parts):
            return " AND ".join(
                f"({condition_text(p, names)})" if isinstance(p, Some) else condition_text(p, names)
                for p in parts
            )
        case Some(parts):
            return " OR ".join(condition_text(part, names) for part in parts)


def number_text(value: float) -> Text:
    """A constant in a formula."""
    return f"{value:.12g}", _SIGN if value < 0 else ATOM


def operation_text(
    operator: ArithmeticOperator,
    operands: Sequence[Text],
    functions: Mapping[ArithmeticOperator, str] = FORMULA_FUNCTIONS,
) -> Text:
    """An operation in a formula, from the texts of its operands."""
    if operator in functions:
        return f"{functions[operator]}({operands[0][0]})", ATOM
    if operator == "neg":
        return f"-{_operand_text(operands[0], ATOM)}", _SIGN
    # The right side of - needs parentheses if it is a sum, and that of / if it is a sum or a product.
    return _two_sided(operator, operands, right_is_open=operator in "+*")


def _two_sided(operator: ArithmeticOperator, operands: Sequence[Text], *, right_is_open: bool) -> Text:
    """The operator between its operands; an open right side may have an operator that binds as tightly."""
    level = _SUM if operator in "+-" else _PRODUCT
    right = _operand_text(operands[1], level if right_is_open else level + 1)
    return f"{_operand_text(operands[0], level)} {operator} {right}", level


def _operand_text(text: Text, level: int) -> str:
    """The text of an operand, in parentheses where it binds less tightly than its surroundings."""
    return text[0] if text[1] >= level else f"({text[0]})"


def sql_of(node: Expression) -> str:
    """The expression as canonical SQL, which is also the name of a derived column in a query.

    >>> sql_of(Case(((Compared(">", Reference("delay"), Constant(15)), Constant(1)),), Constant(0)))
    'CASE WHEN delay > 15 THEN 1 ELSE 0 END'
    >>> sql_of(Operation("*", (Operation("+", (Reference("a"), Reference("b"))), Constant(2))))
    '(a + b) * 2'
    """
    return _print(node)[0]


def _print(node: Expression) -> Text:
    match node:
        case Reference(column):
            return sql_name(column), ATOM
        case Constant(value):
            if value is None:
                return "NULL", ATOM
            text = repr(value) if isinstance(value, float) else sql_literal(value)  # to the last digit
            return text, _PRODUCT if text.startswith("-") else ATOM
        case Operation(operator, operands):
            return _two_sided(operator, [_print(operand) for operand in operands], right_is_open=False)
        case Shifted(part, amount, unit):
            sign = "-" if amount < 0 else "+"
            return f"{_print_operand(part, _SUM)} {sign} INTERVAL '{abs(amount)}' {unit.upper()}", _SUM
        case Compared(operator, left, right):
            return f"{_print_operand(left, _SUM)} {operator} {_print_operand(right, _SUM)}", _COMPARISON
        case Among(part, values):
            return f"{_print_operand(part, _SUM)} IN ({_listed(values)})", _COMPARISON
        case Like(part, pattern, ignores_case):
            word = "ILIKE" if ignores_case else "LIKE"
            return f"{_print_operand(part, _SUM)} {word} {sql_literal(pattern)}", _COMPARISON
        case Missing(part):
            return f"{_print_operand(part, _SUM)} IS NULL", _COMPARISON
        case Opposite(part):
            return f"NOT ({_print(part)[0]})", _NOT
        case Every(parts):
            return " AND ".join(_print_operand(part, _NOT) for part in parts), _AND
        case Some(parts):
            return " OR ".join(_print_operand(part, _AND) for part in parts), _OR
    return _print_call(node), ATOM


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


def _print_operand(node: Expression, level: int) -> str:
    return _operand_text(_print(node), level)


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
    return name if is_plain else quoted_name(name)


def quoted_name(name: str) -> str:
    """An identifier as SQL, in double quotes."""
    return '"' + name.replace('"', '""') + '"'


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
