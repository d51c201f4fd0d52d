"""What analysts type: ask a query, compare groups, compute with answers, explain them, see prices and
spending.
"""

from __future__ import annotations

import ast
import operator
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.screen import OUT, Format, Progress, note, present, show, show_json, suggest
from dpxplain.cli.workspace import AnswerChoice, Place, PricedCommand, QuestionOptions, TypedQuestion
from dpxplain.errors import BadRequest
from dpxplain.model.charge import Entry, HistoryPage

if TYPE_CHECKING:
    from dpxplain.cli.read_only_workspace import WorkspaceLedger
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers
    from dpxplain.results.explanation import Explanation
    from dpxplain.results.preview import ExplanationPreview
    from dpxplain.results.question import Question
    from dpxplain.session import Session
    from dpxplain.words.prices import Price

# -- Queries and comparisons -------------------------------------------------------------------------------


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
    output: o.OutputFormat,
) -> None:
    """Ask a query and get a noisy answer for every declared group (phase 1).

    \b
    Example:
      [cyan]dpxplain query "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --rho 0.1[/cyan]
    """
    from dpxplain.wire.payloads import answer_payload

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
    output: o.OutputFormat,
) -> None:
    """Show the price and precision of a query or an explanation, or the ρ for a wanted precision. Free.

    \b
    Examples:
      [cyan]dpxplain preview "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --rho 0.1[/cyan]
      [cyan]dpxplain preview Male Female --k 5 --rho 0.5[/cyan]
      [cyan]dpxplain preview Male Female --precision 0.8[/cyan]
    """
    from dpxplain.explanation.family_choice import FamilyChoice
    from dpxplain.phases.explain import PrecisionGoal
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
    output: o.OutputFormat,
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
        combination = _formula_value(_parsed_formula(formula), lambda group: +answer[group])
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


def _parsed_formula(formula: str) -> ast.expr:
    try:
        return ast.parse(formula.strip(), mode="eval").body
    except (RecursionError, MemoryError):
        raise BadRequest("The formula is too long.", remedy="Compute it in parts, or in Python.") from None
    except (SyntaxError, ValueError):
        raise _unreadable() from None


def _formula_value(root: ast.expr, group_value: Callable[[str], Any]) -> Any:
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


# -- Explanations ------------------------------------------------------------------------------------------
#
# The conditions behind a difference, a ratio or a share.

UNPREPARED_RHO = 0.5


def explain(
    groups: o.Groups = None,
    rho: o.RhoUnlessPrepared = None,
    epsilon: o.Epsilon = None,
    k: o.K = 5,
    *,
    family: o.FamilyOptions,
    mechanism_options: o.MechanismOptions,
    distinct: o.Distinct = None,
    choice: AnswerChoice,
    options: QuestionOptions,
    approval: o.Approval,
    place: Place,
    curator: o.Curator = False,
    report: o.Report = None,
    by_influence: o.ByInfluence = False,
    output: o.OutputFormat,
) -> None:
    """Explain a difference: which conditions shrink it, and by how much (phase 3). Free after prepare.

    \b
    Examples:
      [cyan]dpxplain explain Married-civ-spouse Never-married --k 5[/cyan]
      [cyan]dpxplain explain Male Female --conjuncts 2 --rho 0.5 --report why.html[/cyan]
      [cyan]dpxplain explain Male Female --ratio --rho 0.5[/cyan]
      [cyan]dpxplain explain Male Female --rho 2 --mechanism one-shot --split 1,1,2 --lower-share 0.1[/cyan]
      [cyan]dpxplain explain Male Female --predicates ranges:age --predicates "race <> 'White'"[/cyan]
    """
    arguments = (
        family.arguments(place.declared) | mechanism_options.arguments() | {"k": k, "distinct": distinct}
    )
    typed = TypedQuestion(groups or (), choice, options)
    if report is not None:
        check_writable(Path(report))  # before spending, not after
    command = PricedCommand("Explaining", place, approval, output, curator)
    _explain(command, typed, arguments, (rho, epsilon), by_influence=by_influence, report=report)


def _explain(
    command: PricedCommand,
    typed: TypedQuestion,
    arguments: dict[str, Any],
    price: tuple[float | None, float | None],
    *,
    by_influence: bool,
    report: str | None = None,
) -> None:
    """Runs `explain` or `ratio`. `price` is --rho and --epsilon."""
    from dpxplain.wire.payloads import explanation_payload

    place = command.place

    def ask(session: Session, previewed: Price) -> Explanation:
        rho, epsilon = price
        if price == (None, None):  # use the price shown, which is free if the answer is prepared
            rho = previewed.rho or None
        table: Explanation = typed.ask(session, place).explain(**arguments, rho=rho, epsilon=epsilon)
        return table.sorted_by_influence() if by_influence else table

    def write_report(table: Explanation, progress: Progress) -> None:
        if report is not None:
            with progress.running("Writing the report"):
                note(f"Report: {table.save(report)}")

    command.run(
        preview=lambda session: preview_explanation(typed.ask(session, place), *price, **arguments),
        ask=ask,
        payload=explanation_payload,
        finish=write_report,
    )


def ratio(
    groups: Annotated[
        list[str],
        typer.Argument(
            metavar="A B",
            help="Two groups, to explain A divided by B; or one group, for its share of the total.",
        ),
    ],
    rho: o.RhoUnlessPrepared = None,
    epsilon: o.Epsilon = None,
    k: o.K = 5,
    *,
    family: o.FamilyOptions,
    choice: AnswerChoice,
    at_least: o.AtLeast = None,
    confidence: o.Confidence = 0.95,
    population: o.Population = False,
    yes: o.Yes = False,
    place: Place,
    by_influence: o.ByInfluence = False,
    output: o.OutputFormat,
) -> None:
    """Explain the ratio of two groups, or the share of one, by COUNT, SUM or AVG. Free after prepare.

    \b
    Examples:
      [cyan]dpxplain ratio Male Female --rho 0.5[/cyan]
      [cyan]dpxplain ratio Male[/cyan]
    """
    share = len(groups) == 1
    options = QuestionOptions(None, at_least, confidence, population=population, ratio=not share, share=share)
    typed = TypedQuestion(groups, choice, options)
    arguments = family.arguments(place.declared) | {"k": k}
    command = PricedCommand("Explaining", place, o.Approval(yes=yes), output)
    _explain(command, typed, arguments, (rho, epsilon), by_influence=by_influence)


def story(
    groups: o.Groups = None,
    rho: Annotated[
        float | None,
        typer.Option(
            "--rho",
            help="Privacy budget to spend, once for all stories; default: free if the answer is prepared.",
        ),
    ] = None,
    epsilon: o.Epsilon = None,
    levels: Annotated[
        int | None, typer.Option("--levels", help="The largest number of steps: 1, 2 or 3.")
    ] = None,
    *,
    attributes: o.Attributes = None,
    exclude: o.Exclude = None,
    choice: AnswerChoice,
    weight: o.Weights = None,
    at_least: o.AtLeast = None,
    confidence: o.Confidence = 0.95,
    population: o.Population = False,
    read_from: o.ReadFrom = None,
    approval: o.Approval,
    place: Place,
    report: o.Report = None,
    output: o.OutputFormat,
) -> None:
    """Break a difference down step by step: the condition that explains most, then the next, then the rest.

    \b
    Examples:
      [cyan]dpxplain story Married-civ-spouse Never-married --rho 0.5[/cyan]
      [cyan]dpxplain story Divorced Never-married --report why.html[/cyan]
    """
    from dpxplain.wire.payloads import story_payload

    family = o.FamilyOptions(attributes, exclude).arguments(place.declared)
    chosen = {name: family[name] for name in ("attributes", "exclude")}
    options = QuestionOptions(weight, at_least, confidence, population=population, read_from=read_from)
    typed = TypedQuestion(groups or (), choice, options)
    if report is not None:
        check_writable(Path(report))
    PricedCommand("Telling", place, approval, output).run(
        preview=lambda session: typed.ask(session, place).preview_story(
            rho, epsilon=epsilon, levels=levels, **chosen
        ),
        ask=lambda session, _: typed.ask(session, place).story(rho, epsilon=epsilon, levels=levels, **chosen),
        payload=story_payload,
        finish=lambda story, _: None if report is None else note(f"Report: {story.save(report)}"),
    )


def preview_explanation(
    question: Question, rho: float | None, epsilon: float | None, **arguments: Any
) -> ExplanationPreview:
    """The preview of an explanation. Without a price it is free for a prepared answer, otherwise ρ 0.5."""
    from dpxplain.errors import ExplanationError

    if rho is None and epsilon is None:
        with suppress(ExplanationError):  # not prepared; any other error is raised again below
            prepared: ExplanationPreview = question.preview(**arguments)
            return prepared
        rho = UNPREPARED_RHO
    priced: ExplanationPreview = question.preview(**arguments, rho=rho, epsilon=epsilon)
    return priced


def check_writable(path: Path) -> None:
    """Raises if the report cannot be written. Called before anything is spent."""
    from dpxplain.model.display import check_report_name

    check_report_name(path)
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise BadRequest(
            f"The report cannot be written to {path}.", remedy="Name a file in a folder that exists."
        )


# -- Spending, history and data quality --------------------------------------------------------------------

_LARGEST_PAGE = 500

Limit = Annotated[int, typer.Option("--limit", min=1, metavar="LINES", help="Show only the newest lines.")]
Whole = Annotated[bool, typer.Option("--all", help="Show every line, in pages at a terminal.")]


def budget(place: Place, as_json: o.Json = False) -> None:
    """Show the privacy budget of the data set, in ρ and in (ε, δ).

    \b
    Example:
      [cyan]dpxplain budget --example adult[/cyan]
    """
    with place.ledger() as ledger:
        current = ledger.budget
    if as_json:
        from dpxplain.wire.shapes import budget_payload

        show_json(budget_payload(current))
    else:
        show(current)


def history(place: Place, limit: Limit = 100, whole: Whole = False, as_json: o.Json = False) -> None:
    """Show what was asked, the price and the running total: the newest lines, or all of them.

    \b
    Example:
      [cyan]dpxplain history --limit 20[/cyan]
      [cyan]dpxplain history --all --json[/cyan]
    """
    with place.ledger() as ledger:
        pages = list(ledger.history_pages(_LARGEST_PAGE)) if whole else [_newest_lines(ledger, limit)]
        current = ledger.budget
    page = HistoryPage([entry for page in reversed(pages) for entry in page.entries], pages[-1].older)
    if as_json:
        from dpxplain.wire.shapes import history_payload

        show_json(history_payload(page))
        return
    if not page.entries:
        note("Nothing has been asked yet.")
        return
    from dpxplain.render.terminal import history_table

    # Use a pager only at a terminal, for a history that is longer than one page.
    paged = whole and len(pages) > 1 and OUT.is_terminal
    with OUT.pager(styles=True) if paged else nullcontext():
        OUT.print(history_table(page.entries))
    if page.older is not None:
        note("There are earlier lines. See them all with: dpxplain history --all")
    show(current)


def _newest_lines(ledger: Session | WorkspaceLedger, limit: int) -> HistoryPage:
    """The newest lines, read from as many pages as needed."""
    entries: list[Entry] = []
    for page in ledger.history_pages(min(limit, _LARGEST_PAGE)):
        entries = page.entries + entries
        if len(entries) >= limit or page.older is None:
            break
    older = page.older if len(entries) <= limit else entries[-limit].id
    return HistoryPage(entries[-limit:], older)


def quality(
    rho: o.Rho = None,
    epsilon: o.Epsilon = None,
    confidence: o.Confidence = 0.95,
    *,
    approval: o.Approval,
    place: Place,
    output: o.OutputFormat,
) -> None:
    """Measure how much of the data is capped or left out; afterwards every answer says so.

    \b
    Example:
      [cyan]dpxplain quality --rho 0.05[/cyan]
    """
    from dpxplain.wire.payloads import quality_payload

    o.check_priced(rho, epsilon)
    PricedCommand("Counting", place, approval, output).run(
        preview=lambda session: session.preview_quality(rho, epsilon=epsilon, confidence=confidence),
        ask=lambda session, price: session.quality(price.rho, confidence=confidence),
        payload=quality_payload,
    )


def discover(
    column: Annotated[str, typer.Argument(help='A column declared with values = "discover".')],
    rho: o.Rho = None,
    epsilon: o.Epsilon = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Part of the declared δ to spend; default: an even share for each such column."),
    ] = None,
    *,
    approval: o.Approval,
    place: Place,
    output: o.OutputFormat,
) -> None:
    """Find the values of a column that has no public list.

    Finds only values that enough privacy units have. Afterwards queries can use the column like any
    other.

    \b
    Example:
      [cyan]dpxplain discover city --rho 0.1[/cyan]
    """
    from dpxplain.wire.shapes import discovery_payload

    o.check_priced(rho, epsilon)
    PricedCommand("Discovering", place, approval, output, always_opens_data=True).run(
        preview=lambda session: session.preview_discover(column, rho, epsilon=epsilon, delta=delta),
        ask=lambda session, price: session.discover(column, price.rho, delta=delta),
        payload=discovery_payload,
    )
