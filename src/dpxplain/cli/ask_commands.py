"""`dpxplain query`, `why`, `preview`, `prepare` and `compute`: ask, compare groups, see prices, and compute
with the values of an answer.
"""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.explain_commands import preview_explanation
from dpxplain.cli.priced_command import PricedCommand
from dpxplain.cli.screen import Format, Progress, present, suggest
from dpxplain.cli.workspace import AnswerChoice, Place, QuestionOptions, TypedQuestion
from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers
    from dpxplain.results.preview import Price
    from dpxplain.session import Session


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT statement; - reads it from stdin.")],
    rho: o.RhoOfQuery = None,
    epsilon: o.Epsilon = None,
    confidence: o.Confidence = 0.95,
    population: o.Population = False,
    *,
    approval: o.Approval,
    place: Place,
    curator: o.Curator = False,
    output: o.Output,
) -> None:
    """Ask a query and get a noisy answer for every declared group (phase 1).

    \b
    Example:
      [cyan]dpxplain query "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --rho 0.1[/cyan]
    """
    from dpxplain.wire.answer_payloads import answer_payload

    sql = sys.stdin.read() if sql == "-" else sql

    def ask(session: Session, price: Price) -> Answer | Answers:
        answer = session.query(sql, price.rho, confidence=confidence, population=population)
        place.remember(answer.id)
        return answer

    PricedCommand("Answering", place, approval, output, curator).run(
        preview=lambda session: session.preview(sql, rho, epsilon=epsilon, confidence=confidence),
        ask=ask,
        payload=answer_payload,
        finish=lambda answer, _: _suggest_why(answer, place),
    )


def why(
    groups: o.Groups = None,
    *,
    choice: AnswerChoice,
    options: QuestionOptions,
    place: Place,
    curator: o.Curator = False,
    as_json: o.Json = False,
    notes: o.Notes = False,
) -> None:
    """Tell whether a difference is real or privacy noise. Free (phase 2).

    \b
    Examples:
      [cyan]dpxplain why Married-civ-spouse Never-married[/cyan]
      [cyan]dpxplain why Male Female --of "AVG(high_income)"[/cyan]
      [cyan]dpxplain why Male Female --ratio[/cyan]
      [cyan]dpxplain why --weight "Widowed=1" --weight "Divorced=-2" --at-least 0[/cyan]
    """
    from dpxplain.wire.payloads import question_payload

    groups = groups or []
    typed = TypedQuestion(groups, choice, options)
    with (
        place.measuring_session(Progress(), curator=True) if curator else place.read_only_session()
    ) as session:
        question = typed.ask(session, place)
        truth = question.truth() if curator else None
        form = Format.JSON if as_json else Format.TABLE
        present(question, lambda: question_payload(question, truth), form, truth, notes=notes)
        if len(groups) == 2 and not options.ratio:
            if not question.prepared:
                words = (*place.words, "--rho", "0.1", *choice.words)
                suggest("Prepare the answer once. Then every explanation of it is free:", "prepare", *words)
            suggest("Explain it:", "explain", *place.words, *choice.words, *groups)


def preview(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="SQL | A B", help="One SQL query, or two groups of an answer."),
    ] = None,
    rho: o.RhoToTry = None,
    epsilon: o.Epsilon = None,
    confidence: o.Confidence = 0.95,
    k: o.K = 5,
    *,
    family: o.FamilyOptions,
    mechanism_options: o.MechanismOptions,
    choice: AnswerChoice,
    weight: o.Weights = None,
    at_least: o.AtLeast = None,
    ratio: o.AsRatio = False,
    share: o.AsShare = False,
    relative: Annotated[
        float | None,
        typer.Option(
            "--relative", help="Find the ρ that gives effects accurate to this share of the gap; 0.02 is 2%."
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks",
            help="Find the ρ that gives ranks accurate to this many places. Needs a prepared answer.",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            "--precision",
            help="Find the ρ at which this share of the k conditions shown belongs to the true top k. Needs "
            "a prepared answer.",
        ),
    ] = None,
    place: Place,
    output: o.Output,
) -> None:
    """Show the price and precision of a query or an explanation, or the ρ for a wanted precision. Free.

    \b
    Examples:
      [cyan]dpxplain preview "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --rho 0.1[/cyan]
      [cyan]dpxplain preview Male Female --k 5 --rho 0.5[/cyan]
      [cyan]dpxplain preview Male Female --precision 0.8[/cyan]
    """
    from dpxplain.explanation.family_choice import FamilyChoice
    from dpxplain.phases.explain_answer import PrecisionGoal
    from dpxplain.phases.plan import ExplanationOptions
    from dpxplain.wire.payloads import preview_payload

    words = words or []
    goal = PrecisionGoal(relative, ranks, precision)
    with place.read_only_session() as session:
        result: Any
        if len(words) == 1 and not weight and at_least is None and not (ratio or share):
            is_plain = (k, goal, choice) == (5, PrecisionGoal(), AnswerChoice())
            if not is_plain or (family, mechanism_options) != (o.FamilyOptions(), o.MechanismOptions()):
                raise BadRequest(
                    "A query takes only --rho, --epsilon and --confidence; the other options are for "
                    "explanations.",
                    remedy="Leave out the other options, or name two groups of an answer instead of a query.",
                )
            if rho is None and epsilon is None and session.schema.privacy.default_rho is None:
                rho = 0.1
            result = session.preview(words[0], rho, epsilon=epsilon, confidence=confidence)
        else:
            options = QuestionOptions(weight, at_least, confidence, ratio=ratio, share=share)
            question = TypedQuestion(words, choice, options).ask(session, place)
            if goal == PrecisionGoal():
                arguments = family.arguments(place.declared) | mechanism_options.arguments()
                result = preview_explanation(question, rho, epsilon, **arguments, k=k)
            else:
                _refuse_prices(rho, epsilon, mechanism_options)
                chosen = FamilyChoice(**family.arguments(place.declared))
                asked = ExplanationOptions(chosen, k, mechanism=mechanism_options.mechanism)
                result = question.plan_for(goal, asked).preview()
        present(result, lambda: preview_payload(result), output.form, notes=output.notes)


def _refuse_prices(rho: float | None, epsilon: float | None, mechanism_options: o.MechanismOptions) -> None:
    """Raises if a price is given together with a precision, which determines the price."""
    is_priced = rho is not None or epsilon is not None
    if is_priced or replace(mechanism_options, mechanism="auto") != o.MechanismOptions():
        raise BadRequest(
            "You asked for a precision. It decides the price and how the price is used, so you cannot also "
            "set these.",
            remedy="Leave out --rho, --epsilon, --split, --lower-share and --sensitivity, or leave out "
            "--relative, --ranks and --precision.",
        )


def prepare(
    rho: o.Rho = None,
    epsilon: o.Epsilon = None,
    *,
    choice: AnswerChoice,
    family: o.FamilyOptions,
    approval: o.Approval,
    place: Place,
    output: o.Output,
) -> None:
    """Pay once, and every explanation of an answer is free: any groups, weights, k and confidence.

    \b
    Examples:
      [cyan]dpxplain prepare --rho 0.02[/cyan]
      [cyan]dpxplain prepare --rho 0.1 --answer 3 --exclude relationship --dry-run[/cyan]
    """
    from dpxplain.wire.payloads import prepared_payload

    o.check_priced(rho, epsilon)
    arguments = family.arguments(place.declared)
    PricedCommand("Preparing", place, approval, output).run(
        preview=lambda session: choice.find(session, place).preview_prepare(
            rho, epsilon=epsilon, **arguments
        ),
        ask=lambda session, price: choice.find(session, place).prepare(price.rho, **arguments),
        payload=lambda prepared, budget: prepared_payload(prepared, prepared.answer, budget),
        finish=lambda prepared, _: _suggest_pair(
            "Ask for free:", "explain", prepared.answer, *place.words, *choice.words
        ),
    )


def _suggest_why(result: Answer | Answers, place: Place) -> None:
    from dpxplain.results.answer import Answer

    answer = result if isinstance(result, Answer) else result.answers[-1]
    aggregate = () if answer is result else ("--of", answer.value_name)
    _suggest_pair("Ask why:", "why", answer, *place.words, *aggregate)


def _suggest_pair(introduction: str, command: str, answer: Answer, *words: str) -> None:
    """Suggests comparing the group with the highest value to the one with the lowest."""
    known = [row for row in answer if not row.is_unknown]
    if len(known) > 1:
        ranked = sorted(known, key=lambda row: row.estimate)
        names = (answer.groups.written(answer.groups.find(row.group)) for row in (ranked[-1], ranked[0]))
        suggest(introduction, command, *words, *names)


_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def compute(
    formula: Annotated[
        str,
        typer.Argument(
            help="Groups in quotes, numbers, + - * /, log() and exp(): \"'Male' / 'Female' - 1\"."
        ),
    ],
    *,
    choice: AnswerChoice,
    confidence: o.Confidence = 0.95,
    method: o.FormulaMethod = "auto",
    place: Place,
    as_json: o.Json = False,
    notes: o.Notes = False,
) -> None:
    """Compute with the values of an answer. The result has an interval. Free.

    \b
    Examples:
      [cyan]dpxplain compute "'Male' / 'Female' - 1"[/cyan]
      [cyan]dpxplain compute "log('Male' / ('Male' + 'Female'))" --method bootstrap[/cyan]
    """
    from dpxplain.results.combination import Combination

    with place.read_only_session() as session:
        answer = choice.find(session, place, confidence)
        # The plus turns a single group into a formula as well.
        combination = _value(_parsed(formula), lambda group: +answer[group])
        if not isinstance(combination, Combination):
            raise _unreadable()
        combination = combination.by(method)
        low, high = combination.interval
        payload = {
            "kind": "combination",
            "estimate": combination.estimate,
            "interval": [low, high],
            "confidence": combination.confidence,
            "method": method,
            "shaped_by": combination.shaped_by,
        }
        form = Format.JSON if as_json else Format.TABLE
        present(combination, lambda: payload, form, notes=notes)


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
    except ArithmeticError:  # from plain numbers; formulas of released values raise their own errors
        raise BadRequest(
            "The formula divides by 0 or its numbers are too large.", remedy="Use other numbers."
        ) from None


def _unreadable() -> BadRequest:
    return BadRequest(
        "The formula cannot be read.",
        remedy="Use groups in quotes, numbers, + - * /, log() and exp(): \"'Male' / 'Female' - 1\".",
    )
