"""Commands beside the three phases: arithmetic on an answer, and why a ratio of counts is high."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.asking import Ask, answer_meant
from dpxplain.cli.opening import DEFAULT_WORKSPACE, Place, columns_named, predicates_named
from dpxplain.cli.screen import Format, Progress, approve, present
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
    answer: o.AnswerNumber = None,
    of: o.Of = None,
    confidence: o.Confidence = 0.95,
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    as_json: o.Json = False,
) -> None:
    """Arithmetic on released values, with an interval. Free.

    \b
    Example:
      [cyan]dpxplain compute "'Male' / 'Female' - 1"[/cyan]
    """
    from dpxplain.arithmetic import Combination

    place = Place(data, schema, example, workspace)
    with place.recalling() as session:
        released = answer_meant(session, place, answer, of, confidence)
        combination = 1 * _value(_parsed(formula).body, released)  # a single group becomes a formula too
        if not isinstance(combination, Combination):
            raise _unreadable()
        low, high = combination.interval
        payload = {"kind": "combination", "estimate": combination.estimate, "interval": [low, high]}
        present(combination, lambda: payload, Format.JSON if as_json else Format.TABLE)


def ratio(
    groups: Annotated[list[str], typer.Argument(metavar="A B", help="Why is A's count over B's so high?")],
    rho: o.Rho = 0.5,
    k: o.K = 5,
    attributes: o.Attributes = None,
    exclude: o.Exclude = None,
    conjuncts: o.Conjuncts = None,
    predicates: o.Predicates = None,
    answer: o.AnswerNumber = None,
    confidence: o.Confidence = 0.95,
    yes: o.Yes = False,
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    as_json: o.Json = False,
) -> None:
    """Explain why the ratio of two groups' counts is high (an influence of its own).

    \b
    Example:
      [cyan]dpxplain ratio Male Female --rho 0.5[/cyan]
    """
    from dpxplain.explanation.custom import RatioInfluence
    from dpxplain.preview import Price

    place, progress = Place(data, schema, example, workspace), Progress()
    form = Format.JSON if as_json else Format.TABLE
    with place.recalling() as session:
        approve(Price(rho, (), session.budget.remaining, False), yes=yes, format=form)
    ask = Ask(groups, (), None, answer, confidence, None, None)
    with place.reading(progress) as session, progress.running("Explaining"):
        table = ask.of(session, place).explain(
            k=k,
            rho=rho,
            attributes=columns_named(attributes, place.declared),
            exclude=columns_named(exclude, place.declared) or (),
            conjuncts=conjuncts,
            predicates=predicates_named(predicates, place.declared),
            influence=RatioInfluence(),
        )
        present(table, lambda: {"kind": "explanation", "id": table.id, "rows": table.records()}, form)


def _parsed(formula: str) -> ast.Expression:
    try:
        return ast.parse(formula.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable() from None


def _value(node: ast.expr, answer: Any) -> Any:
    """The formula's tree, walked; only groups, numbers, + - * /, log and exp are understood."""
    from dpxplain.arithmetic import exp, log

    match node:
        case ast.Constant(value=str(group)):
            return answer[group]
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, answer)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, answer), _value(right, answer))
        case ast.Call(func=ast.Name(id="log" | "exp" as name), args=[argument], keywords=[]):
            return (log if name == "log" else exp)(_value(argument, answer))
    raise _unreadable()


def _unreadable() -> BadRequest:
    return BadRequest(
        "The formula cannot be read.",
        remedy="Use groups in quotes, numbers, + - * /, log() and exp(): \"'Male' / 'Female' - 1\".",
    )
