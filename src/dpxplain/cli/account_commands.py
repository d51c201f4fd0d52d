"""`dpxplain budget` and `history`: what is left, and what was spent on what."""

from __future__ import annotations

from dpxplain.cli import options as o
from dpxplain.cli.screen import OUT, note, show, show_json
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
