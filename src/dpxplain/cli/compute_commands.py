"""Commands beside the three phases: arithmetic on an answer, and why a ratio of counts is high."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.group_names import Ask, answer_meant
from dpxplain.cli.screen import Format, Progress, approve, present
from dpxplain.cli.workspace import DEFAULT_WORKSPACE, Place, family_named
from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    from dpxplain.results.preview import Price
    from dpxplain.results.question import Question

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
    from dpxplain.results.combination import Combination

    place = Place(data, schema, example, workspace)
    with place.recalling() as session:
        released = answer_meant(session, place, answer, of, confidence)
        # A single group becomes a formula too.
        combination = _value(_parsed(formula), lambda group: +released[group])
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
    of: o.Of = None,
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

    place, progress = Place(data, schema, example, workspace), Progress()
    form = Format.JSON if as_json else Format.TABLE
    ask = Ask(groups, (), None, answer, confidence, None, of)
    family = family_named(place.declared, attributes, exclude, conjuncts, predicates)
    with place.recalling() as session:
        price = _price(ask.of(session, place), family, k, rho, session.budget.remaining)
    approve(price, yes=yes, format=form)
    with place.recalling() if price.free else place.reading(progress) as session:
        with progress.running("Explaining"):
            asked = family | {"k": k, "rho": rho, "influence": RatioInfluence()}
            table = ask.of(session, place).explain(**asked)
        present(table, lambda: {"kind": "explanation", "id": table.id, "rows": table.records()}, form)


def _price(question: Question, family: dict[str, Any], k: int, rho: float, remaining: float) -> Price:
    """What a ratio costs, which is nothing if it was asked before; whatever is wrong with it is told here."""
    from dpxplain.explanation.custom import RatioInfluence
    from dpxplain.phases.explain_custom import plan_custom
    from dpxplain.results.preview import Price

    dataset, query = question._dataset, question.answer.statement.query
    chosen = dataset.family(query, **family)
    asked = (query, question.contrast, chosen, RatioInfluence(), k, rho, question.confidence)
    plan = plan_custom(dataset, *asked)
    return Price(plan.rho, plan.spends, remaining, plan.is_stored(dataset))


def _parsed(formula: str) -> ast.expr:
    try:
        return ast.parse(formula.strip(), mode="eval").body
    except (RecursionError, MemoryError):
        raise BadRequest("The formula is too long.", remedy="Compute it in parts, or in Python.") from None
    except (SyntaxError, ValueError):
        raise _unreadable() from None


def _value(root: ast.expr, released: Callable[[str], Any]) -> Any:
    """The formula's tree, walked without recursion, as a sum over all groups is as deep as it is long.

    Only groups, numbers, + - * /, log and exp are understood.
    """
    from dpxplain.results.combination import exp, log

    values: list[Any] = []
    waiting: list[ast.expr | tuple[Callable[..., Any], int]] = [root]
    while waiting:
        match waiting.pop():
            case (function, many):
                operands = [values.pop() for _ in range(many)]
                values.append(_applied(function, operands[::-1]))
            case ast.Constant(value=str(group)):
                values.append(released(group))
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                values.append(number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                waiting += [(operator.neg, 1), operand]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                waiting += [(_OPERATORS[type(op)], 2), right, left]
            case ast.Call(func=ast.Name(id="log" | "exp" as name), args=[argument], keywords=[]):
                waiting += [(log if name == "log" else exp, 1), argument]
            case _:
                raise _unreadable()
    return values.pop()


def _applied(function: Callable[..., Any], operands: list[Any]) -> Any:
    try:
        return function(*operands)
    except ArithmeticError:  # of plain numbers; formulas of released values have words of their own
        raise BadRequest(
            "The formula divides by 0 or has numbers that are too large.", remedy="Use other numbers."
        ) from None


def _unreadable() -> BadRequest:
    return BadRequest(
        "The formula cannot be read.",
        remedy="Use groups in quotes, numbers, + - * /, log() and exp(): \"'Male' / 'Female' - 1\".",
    )
