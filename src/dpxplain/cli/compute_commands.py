"""`dpxplain compute`: arithmetic on the values of an answer."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.group_names import AnswerChoice
from dpxplain.cli.screen import Format, present
from dpxplain.cli.workspace import Place
from dpxplain.errors import BadRequest

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def compute(
    formula: Annotated[
        str, typer.Argument(help="Groups in quotes: \"'Male' / 'Female' - 1\"; log(), exp().")
    ],
    *,
    choice: AnswerChoice,
    confidence: o.Confidence = 0.95,
    place: Place,
    as_json: o.Json = False,
) -> None:
    """Arithmetic on released values, with an interval. Free.

    \b
    Example:
      [cyan]dpxplain compute "'Male' / 'Female' - 1"[/cyan]
    """
    from dpxplain.results.combination import Combination

    with place.read_only_session() as session:
        answer = choice.find(session, place, confidence)
        # The plus makes a formula of a single group too.
        combination = _value(_parsed(formula), lambda group: +answer[group])
        if not isinstance(combination, Combination):
            raise _unreadable()
        low, high = combination.interval
        payload = {
            "kind": "combination",
            "estimate": combination.estimate,
            "interval": [low, high],
            "shaped_by": combination.shaped_by,
        }
        present(combination, lambda: payload, Format.JSON if as_json else Format.TABLE)


def _parsed(formula: str) -> ast.expr:
    try:
        return ast.parse(formula.strip(), mode="eval").body
    except (RecursionError, MemoryError):
        raise BadRequest("The formula is too long.", remedy="Compute it in parts, or in Python.") from None
    except (SyntaxError, ValueError):
        raise _unreadable() from None


def _value(root: ast.expr, group_value: Callable[[str], Any]) -> Any:
    """The value of a formula of groups, numbers, + - * /, log and exp.

    Evaluated with a stack instead of recursion, because the tree of a long sum is as deep as the sum is long.
    """
    from dpxplain.results.combination import exp, log

    values: list[Any] = []
    stack: list[ast.expr | tuple[Callable[..., Any], int]] = [root]
    while stack:
        match stack.pop():
            case (function, arity):
                operands = [values.pop() for _ in range(arity)]
                values.append(_apply(function, operands[::-1]))
            case ast.Constant(value=str(group)):
                values.append(group_value(group))
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                values.append(number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                stack += [(operator.neg, 1), operand]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                stack += [(_OPERATORS[type(op)], 2), right, left]
            case ast.Call(func=ast.Name(id="log" | "exp" as name), args=[argument], keywords=[]):
                stack += [(log if name == "log" else exp, 1), argument]
            case _:
                raise _unreadable()
    return values.pop()


def _apply(function: Callable[..., Any], operands: list[Any]) -> Any:
    try:
        return function(*operands)
    except ArithmeticError:  # of plain numbers; formulas of released values raise errors of their own
        raise BadRequest(
            "The formula divides by 0 or has numbers that are too large.", remedy="Use other numbers."
        ) from None


def _unreadable() -> BadRequest:
    return BadRequest(
        "The formula cannot be read.",
        remedy="Use groups in quotes, numbers, + - * /, log() and exp(): \"'Male' / 'Female' - 1\".",
    )
