"""`dpxplain budget`, `history`, `quality` and `discover`: spending, and how well the data fit."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.priced_command import PricedCommand
from dpxplain.cli.screen import OUT, note, show, show_json
from dpxplain.cli.workspace import Place
from dpxplain.model.charge import Entry, HistoryPage

if TYPE_CHECKING:
    from dpxplain.cli.read_only_workspace import WorkspaceLedger
    from dpxplain.session import Session

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
        from dpxplain.wire.account_payloads import budget_payload

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
        pages = list(ledger.history_pages(_LARGEST_PAGE)) if whole else [_newest(ledger, limit)]
        current = ledger.budget
    page = HistoryPage([entry for page in reversed(pages) for entry in page.entries], pages[-1].older)
    if as_json:
        from dpxplain.wire.account_payloads import history_payload

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


def _newest(ledger: Session | WorkspaceLedger, limit: int) -> HistoryPage:
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
    output: o.Output,
) -> None:
    """Measure how much of the data is capped or left out; afterwards every answer says so.

    \b
    Example:
      [cyan]dpxplain quality --rho 0.05[/cyan]
    """
    from dpxplain.wire.fit_payloads import quality_payload

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
    output: o.Output,
) -> None:
    """Find the values of a column that has no public list.

    Finds only values that enough privacy units have. Afterwards queries can use the column like any
    other.

    \b
    Example:
      [cyan]dpxplain discover city --rho 0.1[/cyan]
    """
    from dpxplain.wire.account_payloads import discovery_payload

    o.check_priced(rho, epsilon)
    PricedCommand("Discovering", place, approval, output, always_opens_data=True).run(
        preview=lambda session: session.preview_discover(column, rho, epsilon=epsilon, delta=delta),
        ask=lambda session, price: session.discover(column, price.rho, delta=delta),
        payload=discovery_payload,
    )
