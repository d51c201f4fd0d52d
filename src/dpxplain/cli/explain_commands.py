"""`dpxplain explain`, `ratio` and `story`: the conditions behind a difference, a ratio or a share."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.priced_command import PricedCommand
from dpxplain.cli.screen import Progress, note
from dpxplain.cli.workspace import AnswerChoice, Place, QuestionOptions, TypedQuestion
from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    from dpxplain.results.explanation import Explanation
    from dpxplain.results.preview import ExplanationPreview, Price
    from dpxplain.results.question import Question
    from dpxplain.session import Session

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
    output: o.Output,
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

    def ask(session: Session, shown: Price) -> Explanation:
        rho, epsilon = price
        if price == (None, None):  # use the price shown, which is free if the answer is prepared
            rho = shown.rho or None
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
    output: o.Output,
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
    approval: o.Approval,
    place: Place,
    report: o.Report = None,
    output: o.Output,
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
    options = QuestionOptions(weight, at_least, confidence, population=population)
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
