"""Prepare once, ask freely."""

from __future__ import annotations

from dpxplain.cli import options as o
from dpxplain.cli.ask_commands import suggest_pair
from dpxplain.cli.group_names import answer_meant
from dpxplain.cli.screen import Format, Progress, approve, present
from dpxplain.cli.workspace import DEFAULT_WORKSPACE, Place, family_named


def prepare(
    rho: o.Rho,
    answer: o.AnswerNumber = None,
    of: o.Of = None,
    attributes: o.Attributes = None,
    exclude: o.Exclude = None,
    conjuncts: o.Conjuncts = None,
    predicates: o.Predicates = None,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
    data: o.Data = None,
    schema: o.SchemaFile = None,
    example: o.Example = None,
    workspace: o.Workspace = DEFAULT_WORKSPACE,
    format: o.As = Format.TABLE,
    as_json: o.Json = False,
) -> None:
    """Pay once, and every explanation of an answer is free: any groups, weights, k, confidence.

    \b
    Examples:
      [cyan]dpxplain prepare --rho 0.02[/cyan]
      [cyan]dpxplain prepare --rho 0.1 --answer 3 --exclude relationship --dry-run[/cyan]
    """
    from dpxplain.wire.payloads import prepared_payload, preview_payload

    place, form, progress = Place(data, schema, example, workspace), o.chosen(format, as_json), Progress()
    family = family_named(place.declared, attributes, exclude, conjuncts, predicates)
    with place.recalling() as session:
        preview = answer_meant(session, place, answer, of).preview_prepare(rho, **family)
        if dry_run:
            present(preview, lambda: preview_payload(preview), form)
            return
    approve(preview.price, yes=yes, format=form)
    with place.recalling() if preview.price.free else place.reading(progress) as session:
        with progress.running("Preparing"):
            meant = answer_meant(session, place, answer, of)
            prepared = meant.prepare(rho, **family)
        present(prepared, lambda: prepared_payload(prepared, meant, session.budget), form)
        about = () if of is None else ("--of", of)
        suggest_pair("Ask freely:", "explain", meant, *place.words, *about)
