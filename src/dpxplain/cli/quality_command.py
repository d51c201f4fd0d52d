"""`dpxplain quality`: what the declarations clamp and leave out, privately."""

from __future__ import annotations

from dpxplain.cli import options as o
from dpxplain.cli.screen import Progress, approve, present
from dpxplain.cli.workspace import Place


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
    from dpxplain.wire.payloads import preview_payload
    from dpxplain.wire.quality_payload import quality_payload

    progress = Progress()
    with place.read_only_session() as session:
        preview = session.preview_quality(rho, confidence=confidence)
        if dry_run:
            present(preview, lambda: preview_payload(preview), output.form)
            return
    approve(preview.price, yes=yes, format=output.form)
    with place.read_only_session() if preview.price.free else place.measuring_session(progress) as session:
        with progress.running("Counting"):
            measured = session.quality(rho, confidence=confidence)
        present(measured, lambda: quality_payload(measured, session.budget), output.form)
