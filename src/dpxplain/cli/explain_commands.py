"""`dpxplain explain` and `ratio`: the predicates behind a difference, or behind a ratio of counts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.screen import Format, Progress, approve, approved, note, present
from dpxplain.cli.workspace import AnswerChoice, Place, TypedQuestion
from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    from dpxplain.results.preview import ExplanationPreview
    from dpxplain.results.question import Question

UNPREPARED_RHO = 0.5


def explain(
    groups: o.Groups = None,
    rho: o.RhoUnlessPrepared = None,
    k: o.K = 5,
    *,
    family: o.FamilyOptions,
    mechanism: o.Mechanism = "auto",
    sensitivity: o.Sensitivity = "tight",
    distinct: o.Distinct = None,
    choice: AnswerChoice,
    weight: o.Weights = None,
    at_least: o.AtLeast = None,
    confidence: o.Confidence = 0.95,
    method: o.Method = None,
    population: o.Population = False,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
    place: Place,
    curator: o.Curator = False,
    report: o.Report = None,
    output: o.Output,
) -> None:
    """Explain a difference: the k most influential predicates (phase 3). Free after prepare.

    \b
    Examples:
      [cyan]dpxplain explain Married-civ-spouse Never-married --k 5[/cyan]
      [cyan]dpxplain explain Male Female --conjuncts 2 --rho 0.5 --report why.html[/cyan]
      [cyan]dpxplain explain Male Female --predicates ranges:age --predicates "race <> 'White'"[/cyan]
    """
    from dpxplain.wire.payloads import explanation_payload

    progress = Progress()
    typed = TypedQuestion(groups or (), choice, confidence, weight or (), at_least, method, population)
    chosen = {"k": k, "mechanism": mechanism, "sensitivity": sensitivity, "distinct": distinct}
    arguments = family.arguments(place.declared) | chosen
    if report is not None:
        check_writable(Path(report))  # before spending, not after
    with place.read_only_session() as session:
        preview = preview_explanation(typed.ask(session, place), rho, **arguments)
    if not approved(preview, dry_run=dry_run, yes=yes, format=output.form):
        return
    is_stored = preview.price.free and not curator
    with (
        place.read_only_session() if is_stored else place.measuring_session(progress, curator=curator)
    ) as session:
        with progress.running("Explaining"):
            # At the price shown, which is nothing if the answer is prepared.
            approved_rho = rho if rho is not None else preview.price.rho or None
            table = typed.ask(session, place).explain(**arguments, rho=approved_rho)
            truth = table.truth() if curator else None
        present(table, lambda: explanation_payload(table, session.budget, truth), output.form, truth)
        if report is not None:
            with progress.running("Writing the report"):
                note(f"Report: {table.save(report)}")


def ratio(
    groups: Annotated[list[str], typer.Argument(metavar="A B", help="Why is A's count over B's so high?")],
    rho: o.Rho = 0.5,
    k: o.K = 5,
    *,
    family: o.FamilyOptions,
    choice: AnswerChoice,
    confidence: o.Confidence = 0.95,
    yes: o.Yes = False,
    place: Place,
    as_json: o.Json = False,
) -> None:
    """Explain why the ratio of two groups' counts is high (an influence of its own).

    \b
    Example:
      [cyan]dpxplain ratio Male Female --rho 0.5[/cyan]
    """
    from dpxplain.explanation.custom import RatioInfluence

    progress, form = Progress(), Format.JSON if as_json else Format.TABLE
    typed = TypedQuestion(groups, choice, confidence)
    arguments = family.arguments(place.declared)
    with place.read_only_session() as session:
        options = {**arguments, "k": k, "rho": rho, "influence": RatioInfluence()}
        price = typed.ask(session, place).preview(**options).price
    approve(price, yes=yes, format=form)
    with place.read_only_session() if price.free else place.measuring_session(progress) as session:
        with progress.running("Explaining"):
            table = typed.ask(session, place).explain(**options)
        present(table, lambda: {"kind": "explanation", "id": table.id, "rows": table.records()}, form)


def preview_explanation(question: Question, rho: float | None, **arguments: Any) -> ExplanationPreview:
    """The price of an explanation; without a ρ it is free if the answer is prepared, and else 0.5."""
    from dpxplain.errors import ExplanationError

    if rho is None:
        with suppress(ExplanationError):  # not prepared; any other error is raised again below
            prepared: ExplanationPreview = question.preview(**arguments)
            return prepared
    priced: ExplanationPreview = question.preview(**arguments, rho=UNPREPARED_RHO if rho is None else rho)
    return priced


def check_writable(path: Path) -> None:
    """Refuses a report that could not be written, before anything is spent."""
    from dpxplain.model.display import check_report_name

    check_report_name(path)
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise BadRequest(
            f"A report cannot be written to {path}.", remedy="Name a file in a folder that exists."
        )
