"""What a statement computes from its aggregates once they are released: formulas and the condition of HAVING.

Post-processing: neither is part of a query's identity, and neither costs anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Interval = tuple[float, float]
Ordering = Literal["=", "<>", "<", "<=", ">", ">="]
T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """The value of one of the statement's aggregates, by its number."""

    aggregate: int


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Calculation:
    """`operator` is one of + - * / neg exp log."""

    operator: str
    operands: tuple[Formula, ...]


Formula = Measured | Number | Calculation


@dataclass(frozen=True)
class Compared:
    left: Formula
    operator: Ordering
    right: Formula


@dataclass(frozen=True)
class AllOf:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class AnyOf:
    parts: tuple[Condition, ...]


Condition = Compared | AllOf | AnyOf


def compute(
    formula: Formula,
    measured: Callable[[int], T],
    number: Callable[[float], T],
    operate: Callable[[str, Sequence[T]], T],
) -> T:
    """The formula in any algebra: floats, released values, text. The parser keeps formulas short."""
    match formula:
        case Measured(aggregate):
            return measured(aggregate)
        case Number(value):
            return number(value)
        case Calculation(operator, operands):
            return operate(operator, [compute(part, measured, number, operate) for part in operands])


def evaluate(formula: Formula, values: Sequence[float | None]) -> float | None:
    """The formula at plain numbers; None where it is not defined.

    >>> half = Calculation("/", (Measured(0), Measured(1)))
    >>> evaluate(half, [1.0, 2.0]), evaluate(half, [1.0, 0.0]), evaluate(half, [None, 2.0])
    (0.5, None, None)
    """

    def operate(operator: str, operands: Sequence[float | None]) -> float | None:
        if None in operands:
            return None
        try:
            result = _OPERATIONS[operator](*operands)
        except (ZeroDivisionError, ValueError, OverflowError):
            return None
        return result if math.isfinite(result) else None

    return compute(formula, values.__getitem__, lambda value: value, operate)


_OPERATIONS: dict[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "neg": lambda a: -a,
    "exp": math.exp,
    "log": math.log,
}


def aggregates_of(part: Formula | Condition) -> set[int]:
    """The numbers of the aggregates that a formula or condition uses."""
    match part:
        case Measured(aggregate):
            return {aggregate}
        case Number():
            return set()
        case Calculation(_, operands):
            return set().union(*map(aggregates_of, operands))
        case Compared(left, _, right):
            return aggregates_of(left) | aggregates_of(right)
        case AllOf(parts) | AnyOf(parts):
            return set().union(*map(aggregates_of, parts))


def renumbered(formula: Formula, numbers: Sequence[int]) -> Formula:
    """The formula over other aggregates: the i-th becomes numbers[i]."""

    def operate(operator: str, operands: Sequence[Formula]) -> Formula:
        return Calculation(operator, tuple(operands))

    return compute(formula, lambda i: Measured(numbers[i]), Number, operate)


def rounded(value: float, ends: Interval, digits: int) -> tuple[float, Interval]:
    """Rounds a value, and its interval outwards, so that the interval holds with or without the rounding.

    >>> rounded(2.678, (2.123, 3.4), 1)
    (2.7, (2.1, 3.4))
    """
    unit = 10.0**digits
    low, high = (
        round(f(end * unit) / unit, digits) if math.isfinite(end) else end
        for f, end in zip((math.floor, math.ceil), ends, strict=True)
    )
    return round(value, digits), (min(low, ends[0]), max(high, ends[1]))


_Text = tuple[str, int]  # a text, and how tightly it binds
_SUM, _PRODUCT, _SIGN, _ATOMIC = range(4)
_FUNCTIONS = {"exp": "EXP", "log": "LN"}


def formula_text(formula: Formula, names: Sequence[str]) -> str:
    """The formula as SQL; `names` are those of the aggregates.

    >>> gap = Calculation("-", (Measured(0), Measured(1)))
    >>> formula_text(Calculation("/", (gap, Number(2.0))), ["AVG(x)", "AVG(y)"])
    '(AVG(x) - AVG(y)) / 2'
    """
    return compute(formula, lambda i: (names[i], _ATOMIC), _number_text, _operation_text)[0]


def condition_text(condition: Condition, names: Sequence[str]) -> str:
    """The condition as SQL."""
    match condition:
        case Compared(left, operator, right):
            return f"{formula_text(left, names)} {operator} {formula_text(right, names)}"
        case AllOf(parts):
            return " AND ".join(
                f"({condition_text(p, names)})" if isinstance(p, AnyOf) else condition_text(p, names)
                for p in parts
            )
        case AnyOf(parts):
            return " OR ".join(condition_text(part, names) for part in parts)


def _number_text(value: float) -> _Text:
    return f"{value:.12g}", _SIGN if value < 0 else _ATOMIC


def _operation_text(name: str, operands: Sequence[_Text]) -> _Text:
    if name in _FUNCTIONS:
        return f"{_FUNCTIONS[name]}({operands[0][0]})", _ATOMIC
    if name == "neg":
        return f"-{_bound(operands[0], _ATOMIC)}", _SIGN
    level = _SUM if name in "+-" else _PRODUCT
    # The right side of - needs parentheses if it is a sum, and that of / if it is a sum or a product.
    return f"{_bound(operands[0], level)} {name} {_bound(operands[1], level + (name in '-/'))}", level


def _bound(text: _Text, level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"
