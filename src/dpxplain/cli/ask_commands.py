"""`dpxplain query`, `why`, `preview` and `prepare`: answers, questions about them, and prices."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.explain_commands import preview_explanation
from dpxplain.cli.group_names import AnswerChoice, TypedQuestion
from dpxplain.cli.screen import Format, Progress, approve, present, suggest
from dpxplain.cli.workspace import Place

if TYPE_CHECKING:
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT; - reads it from stdin.")],
    rho: o.Rho,
    confidence: o.Confidence = 0.95,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
    *,
    place: Place,
    curator: o.Curator = False,
    output: o.Output,
) -> None:
    """Ask: a noisy answer for every declared group (phase 1).

    \b
    Example:
      [cyan]dpxplain query "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --rho 0.1[/cyan]
    """
    from dpxplain.wire.payloads import answer_payload, preview_payload

    progress = Progress()
    sql = sys.stdin.read() if sql == "-" else sql
    with place.read_only_session() as session:
        preview = session.preview(sql, rho, confidence=confidence)
        if dry_run:
            present(preview, lambda: preview_payload(preview), output.form)
            return
    approve(preview.price, yes=yes, format=output.form)
    is_stored = preview.price.free and not curator
    with (
        place.read_only_session() if is_stored else place.measuring_session(progress, curator=curator)
    ) as session:
        with progress.running("Answering"):
            answer = session.query(sql, rho, confidence=confidence)
            truth = answer.truth() if curator else None
        place.remember(answer.id)
        present(answer, lambda: answer_payload(answer, session.budget, truth), output.form, truth)
        _suggest_why(answer, place)


def why(
    groups: o.Groups = None,
    *,
    choice: AnswerChoice,
    weight: o.Weights = None,
    at_least: o.AtLeast = None,
    confidence: o.Confidence = 0.95,
    method: o.Method = None,
    place: Place,
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

    groups = groups or []
    typed = TypedQuestion(groups, choice, confidence, weight or (), at_least, method)
    with (
        place.measuring_session(Progress(), curator=True) if curator else place.read_only_session()
    ) as session:
        question = typed.ask(session, place)
        truth = question.truth() if curator else None
        form = Format.JSON if as_json else Format.TABLE
        present(question, lambda: question_payload(question, truth), form, truth)
        if len(groups) == 2:
            if not question.prepared:
                words = (*place.words, "--rho", "0.1", *choice.words)
                suggest("Once, then every why is free:", "prepare", *words)
            suggest("Explain it:", "explain", *place.words, *choice.words, *groups)


def preview(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="SQL | A B", help="One SQL query, or the two groups of a question."),
    ] = None,
    rho: o.RhoToTry = None,
    confidence: o.Confidence = 0.95,
    k: o.K = 5,
    *,
    family: o.FamilyOptions,
    mechanism: o.Mechanism = "auto",
    sensitivity: o.Sensitivity = "tight",
    choice: AnswerChoice,
    weight: o.Weights = None,
    at_least: o.AtLeast = None,
    place: Place,
    output: o.Output,
) -> None:
    """Price and expected precision of a query or an explanation. Free, reads no data.

    \b
    Examples:
      [cyan]dpxplain preview "SELECT sex, COUNT(*) FROM adult GROUP BY sex" --rho 0.1[/cyan]
      [cyan]dpxplain preview Male Female --k 5 --rho 0.5[/cyan]
    """
    from dpxplain.wire.payloads import preview_payload

    words = words or []
    with place.read_only_session() as session:
        result: Any
        if len(words) == 1 and not weight and at_least is None:
            result = session.preview(words[0], 0.1 if rho is None else rho, confidence=confidence)
        else:
            question = TypedQuestion(words, choice, confidence, weight or (), at_least).ask(session, place)
            result = preview_explanation(
                question,
                rho,
                **family.arguments(place.declared),
                k=k,
                mechanism=mechanism,
                sensitivity=sensitivity,
            )
        present(result, lambda: preview_payload(result), output.form)


def prepare(
    rho: o.Rho,
    *,
    choice: AnswerChoice,
    family: o.FamilyOptions,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
    place: Place,
    output: o.Output,
) -> None:
    """Pay once, and every explanation of an answer is free: any groups, weights, k, confidence.

    \b
    Examples:
      [cyan]dpxplain prepare --rho 0.02[/cyan]
      [cyan]dpxplain prepare --rho 0.1 --answer 3 --exclude relationship --dry-run[/cyan]
    """
    from dpxplain.wire.payloads import prepared_payload, preview_payload

    progress, arguments = Progress(), family.arguments(place.declared)
    with place.read_only_session() as session:
        preview = choice.find(session, place).preview_prepare(rho, **arguments)
        if dry_run:
            present(preview, lambda: preview_payload(preview), output.form)
            return
    approve(preview.price, yes=yes, format=output.form)
    with place.read_only_session() if preview.price.free else place.measuring_session(progress) as session:
        with progress.running("Preparing"):
            answer = choice.find(session, place)
            prepared = answer.prepare(rho, **arguments)
        present(prepared, lambda: prepared_payload(prepared, answer, session.budget), output.form)
        _suggest_pair("Ask freely:", "explain", answer, *place.words, *choice.words)


def _suggest_why(result: Answer | Answers, place: Place) -> None:
    from dpxplain.results.answer import Answer

    answer = result if isinstance(result, Answer) else result.answers[-1]
    aggregate = () if answer is result else ("--of", answer.value_name)
    _suggest_pair("Ask why:", "why", answer, *place.words, *aggregate)


def _suggest_pair(introduction: str, command: str, answer: Answer, *words: str) -> None:
    """Suggests comparing the group with the highest value to the one with the lowest."""
    if len(answer) > 1:
        ranked = sorted(answer, key=lambda row: row.estimate)
        names = (answer.groups.written(answer.groups.find(row.group)) for row in (ranked[-1], ranked[0]))
        suggest(introduction, command, *words, *names)
