"""`dpxplain budget` and `history`: what is left, and what was spent on what."""

from __future__ import annotations

from dpxplain.cli import options as o
from dpxplain.cli.screen import OUT, Format, note, present, show, show_json
from dpxplain.cli.workspace import Place


def budget(place: Place, as_json: o.Json = False) -> None:
    """How much privacy budget the data set has, in ρ and in (ε, δ).

    \b
    Example:
      [cyan]dpxplain budget --example adult[/cyan]
    """
    from dpxplain.wire.payloads import budget_payload

    with place.read_only_session() as session:
        current = session.budget
        present(current, lambda: budget_payload(current), Format.JSON if as_json else Format.TABLE)


def history(place: Place, as_json: o.Json = False) -> None:
    """Everything asked so far, its price and the running total.

    \b
    Example:
      [cyan]dpxplain history --json[/cyan]
    """
    from dpxplain.wire.payloads import history_payload

    with place.read_only_session() as session:
        entries = session.history
        if as_json:
            show_json(history_payload(entries))
            return
        if not entries:
            note("Nothing was asked yet.")
            return
        from dpxplain.render.terminal import history_table

        OUT.print(history_table(entries))
        show(session.budget)
