"""`dpxplain ledger`: creates, checks, backs up and restores a ledger, and declares losses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.admin_options import (
    AnchorPlace,
    By,
    LedgerPlace,
    Reason,
    acting_curator,
    json_fields,
    ledger_at,
    print_table,
    show_help,
)
from dpxplain.cli.exits import BROKEN
from dpxplain.cli.screen import OUT, amount, note, show_json, warn
from dpxplain.errors import BadRequest
from dpxplain.model.budget import rho_of_units

if TYPE_CHECKING:
    from dpxplain.ledger.ledger import SQLLedger
    from dpxplain.ledger.recovery import Loss

ledger_app = typer.Typer(rich_markup_mode="rich")


@ledger_app.callback(invoke_without_command=True)
def ledger_root(context: typer.Context) -> None:
    """Create, check, back up or restore a ledger, or declare a loss."""
    show_help(context)


@ledger_app.command("create")
def create_ledger(place: LedgerPlace = None, as_json: o.Json = False) -> None:
    """Create an empty ledger. Fails if there is one already.

    \b
    Example:
      [cyan]dpxplain ledger create --ledger postgresql://user@host/database[/cyan]
    """
    with ledger_at(place, create=True) as ledger:
        if not ledger.is_new:
            raise BadRequest(
                f"{ledger.name} already exists, with {ledger.head()[0]:,} records.",
                remedy="Use this ledger, or name another place with --ledger.",
            )
        name = ledger.name
    if as_json:
        show_json({"kind": "ledger", "created": name})


@ledger_app.command("status")
def status(place: LedgerPlace = None, anchor: AnchorPlace = None, as_json: o.Json = False) -> None:
    """Show the log's last record, and whether the log continues from its anchor. Exit code 2 if it does not.

    \b
    Example:
      [cyan]dpxplain ledger status[/cyan]
    """
    with ledger_at(place, anchor=anchor, is_recovery=True) as ledger:
        standing, problem = ledger.anchor(), ledger.recovery.anchor_problem()
        file, lost = ledger.recovery.anchor_file, _losses(ledger)
    if as_json:
        fields = {"records": standing.records, "head": standing.head, "problem": problem}
        own = {"anchor": None if file is None else str(file), "lost": _as_json(lost)}
        show_json({"kind": "ledger-status"} | fields | own)
    else:
        OUT.print(f"{standing.records:,} records, head {standing.head}", soft_wrap=True)
        OUT.print(f"anchor {'none' if file is None else file}", soft_wrap=True)
        _print_problem(problem, lost)
    if problem is not None:
        raise typer.Exit(BROKEN)


@ledger_app.command("backup")
def back_up(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="DEST", help="A new file, or a folder, which gets a file with the date in its name."
        ),
    ],
    place: LedgerPlace = None,
    anchor: AnchorPlace = None,
    as_json: o.Json = False,
) -> None:
    """Copy the ledger to a new file and verify the copy. Works while a server runs.

    The copy is always a SQLite ledger, which every command can read. Exit code 2 if the ledger is broken or
    behind its anchor.

    \b
    Example:
      [cyan]dpxplain ledger backup /var/backups/dpxplain[/cyan]
    """
    target = file / f"ledger-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.sqlite" if file.is_dir() else file
    with ledger_at(place, anchor=anchor) as ledger:
        report = ledger.recovery.backup(target)
        problem, lost = ledger.recovery.anchor_problem(), _losses(ledger)
    if as_json:
        fields = json_fields(report) | {"intact": report.intact, "behind": problem}
        show_json({"kind": "backup", "file": str(target)} | fields)
    else:
        for broken in report.problems:
            OUT.print(broken, style="red")
        note(f"Copied {report.records:,} records, {'intact' if report.intact else 'BROKEN'}, to {target}.")
        note(f"head {report.head}")
        _print_problem(problem, lost)
    if not report.intact:
        warn("The ledger itself is broken. See: dpxplain audit verify")
    if problem is not None or not report.intact:
        raise typer.Exit(BROKEN)


@ledger_app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(metavar="SRC", help="A file that ledger backup has written.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a ledger that has records. They will be lost.")
    ] = False,
    place: LedgerPlace = None,
    anchor: AnchorPlace = None,
    by: By = None,
    as_json: o.Json = False,
) -> None:
    """Verify a backup and put it in place of the ledger, in SQLite or PostgreSQL.

    Shows how much spent budget the backup lacks. Running servers continue with the restored ledger. People
    must sign in again in their browsers. Tokens revoked after the backup are valid again.

    \b
    Example:
      [cyan]dpxplain ledger restore /var/backups/dpxplain/ledger-20301231T020000Z.sqlite --replace[/cyan]
    """
    from dpxplain.ledger.address import find_ledger
    from dpxplain.ledger.backup import verified_backup

    find_ledger(place)  # so that a wrong address fails at once
    with (
        verified_backup(file) as backup,  # before a ledger is created for it
        ledger_at(place, create=True, anchor=anchor, is_recovery=True) as ledger,
    ):
        records = ledger.anchor().records
        if records and not replace:
            raise BadRequest(
                f"The ledger has {records:,} records, which would be lost.",
                remedy="Back it up first (dpxplain ledger backup), then restore with --replace.",
            )
        report = ledger.recovery.restore_verified(backup, by=acting_curator(by))
        problem, lost = ledger.recovery.anchor_problem(), _losses(ledger)
    if as_json:
        fields = json_fields(report) | {"behind": problem, "lost": _as_json(lost)}
        show_json({"kind": "restore", "file": str(file)} | fields)
        return
    note(f"Restored {report.records:,} records, head {report.head}.")
    note("Tokens revoked after this backup are valid again. See: dpxplain token list")
    _print_problem(problem, lost)


@ledger_app.command("declare-loss")
def declare_loss(
    reason: Reason,
    everything: Annotated[
        bool,
        typer.Option(
            "--everything", help="Charge all remaining budget, if there is no anchor with the amounts."
        ),
    ] = False,
    place: LedgerPlace = None,
    anchor: AnchorPlace = None,
    by: By = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be charged.")] = False,
    as_json: o.Json = False,
) -> None:
    """Charge everything that was spent but is missing from the ledger. Then new queries are possible again.

    Lost answers stay lost. The same query gets new noise, and is charged to the remaining budget.

    \b
    Example:
      [cyan]dpxplain ledger declare-loss --reason "disk failed, backup of 2 o'clock"[/cyan]
    """
    from dpxplain.ledger.address import database_address, find_ledger
    from dpxplain.ledger.anchor_guard import anchor_path
    from dpxplain.ledger.ledger import open_ledger

    address = find_ledger(place)
    path = Path(address.place) if database_address(address.place) is None else None
    anchor_file = anchor_path(path, anchor or address.anchor)
    is_anchored = anchor_file is not None and anchor_file.exists()  # then the ledger itself may be gone
    if dry_run and is_anchored and path is not None and not path.exists():
        with closing(open_ledger(None, create=True, anchor=anchor_file, is_recovery=True)) as ledger:
            lost = ledger.recovery.losses(everything=everything)  # no ledger file is created
    elif dry_run:
        with ledger_at(place, anchor=anchor, is_recovery=True) as ledger:
            lost = ledger.recovery.losses(everything=everything)
    else:
        with ledger_at(place, create=is_anchored, anchor=anchor, is_recovery=True) as ledger:
            lost = ledger.recovery.declare_loss(reason=reason, by=acting_curator(by), everything=everything)
    if as_json:
        show_json({"kind": "loss", "charged": not dry_run, "lost": _as_json(lost)})
        return
    _print_losses(lost)
    note("Nothing has been charged yet." if dry_run else "Charged. New queries are possible again.")


def _losses(ledger: SQLLedger) -> list[Loss]:
    """The losses, if the anchor knows them."""
    try:
        return ledger.recovery.losses()
    except BadRequest:
        return []


def _print_problem(problem: str | None, lost: Sequence[Loss]) -> None:
    if problem is None:
        return
    from dpxplain.ledger.anchor_guard import REMEDY

    OUT.print(problem, style="red", soft_wrap=True)
    _print_losses(lost)
    warn(f"The server will not charge anything until you confirm. {REMEDY}")


def _print_losses(lost: Sequence[Loss]) -> None:
    rows = [(loss.dataset, loss.analyst or "local owner", amount(rho_of_units(loss.units))) for loss in lost]
    print_table(("data set", "analyst", "lost rho"), rows, empty="No charge is missing.")


def _as_json(lost: Sequence[Loss]) -> list[dict[str, object]]:
    return [
        {"dataset": loss.dataset, "analyst": loss.analyst, "rho": rho_of_units(loss.units)} for loss in lost
    ]
