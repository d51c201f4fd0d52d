"""The commands of the three phases, and their prices."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.group_names import Ask, as_typed
from dpxplain.cli.screen import Format, Progress, approve, note, present, suggest
from dpxplain.cli.workspace import DEFAULT_WORKSPACE, Place, family_named
from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers
    from dpxplain.results.preview import ExplanationPreview
    from dpxplain.results.question import Question

UNPREPARED_RHO = 0.5
Groups = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="A B", show_default=False,
        help='Two groups, as shown in the answer; for several columns "Female / White" or a JSON array.',
    ),
]  # fmt: skip


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT; - reads it from stdin.")],
    rho: o.Rho,
    confidence: o.Confidence = 0.95,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    curator: o.Curator = False,
    format: o.As = Format.TABLE,
    as_json: o.Json = False,
) -> None:
    """Ask: a noisy answer for every declared group (phase 1).

    \b
    Example:
      [cyan]dpxplain query "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --rho 0.1[/cyan]
    """
    from dpxplain.wire.payloads import answer_payload, preview_payload

    place, form, progress = Place(data, schema, example, workspace), o.chosen(format, as_json), Progress()
    sql = sys.stdin.read() if sql == "-" else sql
    with place.recalling() as session:
        preview = session.preview(sql, rho, confidence=confidence)
        if dry_run:
            present(preview, lambda: preview_payload(preview), form)
            return
    approve(preview.price, yes=yes, format=form)
    stored = preview.price.free and not curator
    with place.recalling() if stored else place.reading(progress, curator=curator) as session:
        with progress.running("Answering"):
            answer = session.query(sql, rho, confidence=confidence)
            truth = answer.truth() if curator else None
        place.remember(answer.id)
        present(answer, lambda: answer_payload(answer, session.budget, truth), form, truth)
        _suggest_why(answer, place)


def why(
    groups: Groups = None,
    answer: o.AnswerNumber = None,
    of: o.Of = None,
    weight: o.Weights = None,
    at_least: o.AtLeast = None,
    confidence: o.Confidence = 0.95,
    method: o.Method = None,
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    curator: o.Curator = False,
    as_json: o.Json = False,
) -> None:
    """Is a difference real, or privacy noise? Free (phase 2).

    \b
    Examples:
      [cyan]dpxplain why Married-civ-spouse Never-married[/cyan]
      [cyan]dpxplain why Male Female --of "AVG(high_income)"[/cyan]
      [cyan]dpxplain why --weight "Widowed=1" --weight "Divorced=-2" --at-least 0[/cyan]
    """
    from dpxplain.wire.payloads import question_payload

    place, progress = Place(data, schema, example, workspace), Progress()
    ask = Ask(groups or (), weight or (), at_least, answer, confidence, method, of)
    with place.reading(progress, curator=True) if curator else place.recalling() as session:
        question = ask.of(session, place)
        truth = question.truth() if curator else None
        form = Format.JSON if as_json else Format.TABLE
        present(question, lambda: question_payload(question, truth), form, truth)
        typed = groups if groups and not weight else None
        if typed and len(typed) == 2:
            about = () if of is None else ("--of", of)
            if not question.prepared:
                suggest("Once, then every why is free:", "prepare", *place.words, "--rho", "0.1", *about)
            suggest("Explain it:", "explain", *place.words, *about, *typed)


def explain(
    groups: Groups = None,
    rho: o.RhoUnlessPrepared = None,
    k: o.K = 5,
    attributes: o.Attributes = None,
    exclude: o.Exclude = None,
    conjuncts: o.Conjuncts = None,
    predicates: o.Predicates = None,
    mechanism: o.Mechanism = "auto",
    sensitivity: o.Sensitivity = "tight",
    answer: o.AnswerNumber = None,
    of: o.Of = None,
    weight: o.Weights = None,
    at_least: o.AtLeast = None,
    confidence: o.Confidence = 0.95,
    method: o.Method = None,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    curator: o.Curator = False,
    report: o.Report = None,
    format: o.As = Format.TABLE,
    as_json: o.Json = False,
) -> None:
    """Explain a difference: the k most influential predicates (phase 3). Free after prepare.

    \b
    Examples:
      [cyan]dpxplain explain Married-civ-spouse Never-married --k 5[/cyan]
      [cyan]dpxplain explain Male Female --conjuncts 2 --rho 0.5 --report why.html[/cyan]
      [cyan]dpxplain explain Male Female --predicates ranges:age --predicates "race <> 'White'"[/cyan]
    """
    from dpxplain.wire.payloads import explanation_payload, preview_payload

    place, form, progress = Place(data, schema, example, workspace), o.chosen(format, as_json), Progress()
    ask = Ask(groups or (), weight or (), at_least, answer, confidence, method, of)
    family = family_named(place.declared, attributes, exclude, conjuncts, predicates)
    request = family | {"k": k, "mechanism": mechanism, "sensitivity": sensitivity}
    if report is not None:
        check_writable(Path(report))  # before spending, not after
    with place.recalling() as session:
        preview = _price_of(ask.of(session, place), request, rho)
        if dry_run:
            present(preview, lambda: preview_payload(preview), form)
            return
    approve(preview.price, yes=yes, format=form)
    stored = preview.price.free and not curator
    with place.recalling() if stored else place.reading(progress, curator=curator) as session:
        with progress.running("Explaining"):
            # At the price shown, which is nothing if the answer is prepared.
            agreed = rho if rho is not None else preview.price.rho or None
            table = ask.of(session, place).explain(**request, rho=agreed)
            truth = table.truth() if curator else None
        present(table, lambda: explanation_payload(table, session.budget, truth), form, truth)
        if report is not None:
            with progress.running("Writing the report"):
                note(f"Report: {table.save(report)}")


def preview(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="SQL | A B", help="One SQL query, or the two groups of a question."),
    ] = None,
    rho: o.RhoToTry = None,
    confidence: o.Confidence = 0.95,
    k: o.K = 5,
    attributes: o.Attributes = None,
    exclude: o.Exclude = None,
    conjuncts: o.Conjuncts = None,
    predicates: o.Predicates = None,
    mechanism: o.Mechanism = "auto",
    sensitivity: o.Sensitivity = "tight",
    answer: o.AnswerNumber = None,
    of: o.Of = None,
    weight: o.Weights = None,
    at_least: o.AtLeast = None,
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    format: o.As = Format.TABLE,
    as_json: o.Json = False,
) -> None:
    """Price and expected precision of a query or an explanation. Free, reads no data.

    \b
    Examples:
      [cyan]dpxplain preview "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --rho 0.1[/cyan]
      [cyan]dpxplain preview Male Female --k 5 --rho 0.5[/cyan]
    """
    from dpxplain.wire.payloads import preview_payload

    place, words = Place(data, schema, example, workspace), words or []
    with place.recalling() as session:
        if len(words) == 1 and not weight and at_least is None:
            shown: Any = session.preview(words[0], 0.1 if rho is None else rho, confidence=confidence)
        else:
            ask = Ask(words, weight or (), at_least, answer, confidence, None, of)
            family = family_named(place.declared, attributes, exclude, conjuncts, predicates)
            request = family | {"k": k, "mechanism": mechanism, "sensitivity": sensitivity}
            shown = _price_of(ask.of(session, place), request, rho)
        present(shown, lambda: preview_payload(shown), o.chosen(format, as_json))


def check_writable(path: Path) -> None:
    """Refuse a report that could not be written, while refusing is still free."""
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise BadRequest(
            f"A report cannot be written to {path}.", remedy="Name a file in a folder that exists."
        )


def _price_of(question: Question, request: dict[str, Any], rho: float | None) -> ExplanationPreview:
    """The price of an explanation. Without a ρ it is free if the answer is prepared, and 0.5 otherwise."""
    from dpxplain.errors import ExplanationError

    if rho is None:
        with suppress(ExplanationError):  # whatever is wrong besides is told below
            return question.preview(**request)
    return question.preview(**request, rho=UNPREPARED_RHO if rho is None else rho)


def _suggest_why(asked: Answer | Answers, place: Place) -> None:
    from dpxplain.results.answer import Answer

    answer = asked if isinstance(asked, Answer) else asked.answers[-1]
    about = () if answer is asked else ("--of", answer.value_name)
    suggest_pair("Ask why:", "why", answer, *place.words, *about)


def suggest_pair(introduction: str, command: str, answer: Answer, *words: str) -> None:
    """A question to ask next: the highest of the values shown against the lowest."""
    if len(answer) > 1:
        ranked = sorted(answer, key=lambda row: row.estimate)
        suggest(introduction, command, *words, *(as_typed(row.group) for row in (ranked[-1], ranked[0])))
