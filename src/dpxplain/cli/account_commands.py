"""`dpxplain budget`, `history` and `quality`: what is left, what was spent on what, and how the data fit."""

from __future__ import annotations

from dpxplain.cli import options as o
from dpxplain.cli.screen import OUT, Progress, approved, note, present, show, show_json
from dpxplain.cli.workspace import Place


def budget(place: Place, as_json: o.Json = False) -> None:
    """How much privacy budget the data set has, in ρ and in (ε, δ).

    \b
    Example:
      [cyan]dpxplain budget --example adult[/cyan]
    """
    with place.ledger() as ledger:
        current = ledger.budget
    if as_json:
        from dpxplain.wire.account_payloads import budget_payload

        show_json(budget_payload(current))
    else:
        show(current)


def history(place: Place, as_json: o.Json = False) -> None:
    """Everything asked so far, its price and the running total.

    \b
    Example:
      [cyan]dpxplain history --json[/cyan]
    """
    with place.ledger() as ledger:
        entries = ledger.history
        current = ledger.budget
    if as_json:
        from dpxplain.wire.account_payloads import history_payload

        show_json(history_payload(entries))
        return
    if not entries:
        note("Nothing was asked yet.")
        return
    from dpxplain.render.terminal import history_table

    OUT.print(history_table(entries))
    show(current)


def quality(
    rho: o.Rho,
    confidence: o.Confidence = 0.95,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
    *,
    place: Place,
    output: o.Output,
) -> None:
    """How much of the data is clamped or left out; afterwards every answer says so.

    \b
    Example:
      [cyan]dpxplain quality --rho 0.05[/cyan]
    """
    from dpxplain.wire.payloads import quality_payload

    progress = Progress()
    with place.read_only_session() as session:
        preview = session.preview_quality(rho, confidence=confidence)
    if not approved(preview, dry_run=dry_run, yes=yes, format=output.form):
        return
    with place.read_only_session() if preview.price.free else place.measuring_session(progress) as session:
        with progress.running("Counting"):
            measured = session.quality(rho, confidence=confidence)
        present(measured, lambda: quality_payload(measured, session.budget), output.form)
