"""`dpxplain ledger`: begin one, back it up and restore it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.admin_options import By, LedgerPlace, acting_curator, json_fields, ledger_at, show_help
from dpxplain.cli.screen import OUT, note, show_json, warn
from dpxplain.errors import BadRequest

ledger_app = typer.Typer(rich_markup_mode="rich")

BROKEN = 2


@ledger_app.callback(invoke_without_command=True)
def ledger_root(context: typer.Context) -> None:
    """The ledger itself: begin one, back it up and restore it."""
    show_help(context)


@ledger_app.command("create")
def create_ledger(place: LedgerPlace = None, as_json: o.Json = False) -> None:
    """Begin a new, empty ledger; refused where there is one.

    \b
    Example:
      [cyan]dpxplain ledger create --ledger postgresql://user@host/database[/cyan]
    """
    with ledger_at(place, create=True) as ledger:
        if not ledger.is_new:
            raise BadRequest(
                f"{ledger.name} exists, with {ledger.head()[0]:,} records.",
                remedy="Use it as it is, or name another place with --ledger.",
            )
        name = ledger.name
    if as_json:
        show_json({"kind": "ledger", "created": name})


@ledger_app.command("backup")
def back_up(
    file: Annotated[Path, typer.Argument(metavar="DEST", help="A new file, or a folder for a dated one.")],
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Copy the ledger to a new file, of a running server too, and verify the copy.

    The copy is a SQLite ledger also if the original is in PostgreSQL: every command can read it. Exit code 2
    if it is broken.

    \b
    Example:
      [cyan]dpxplain ledger backup /var/backups/dpxplain[/cyan]
    """
    target = file / f"ledger-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.sqlite" if file.is_dir() else file
    with ledger_at(place) as ledger:
        report = ledger.backup(target)
    if as_json:
        show_json({"kind": "backup", "file": str(target), "intact": report.intact} | json_fields(report))
    else:
        for problem in report.problems:
            OUT.print(problem, style="red")
        note(f"{report.records:,} records, {'intact' if report.intact else 'BROKEN'}, are in {target}.")
        note(f"head {report.head}")
    if not report.intact:
        warn("The ledger itself is broken; see: dpxplain audit verify")
        raise typer.Exit(BROKEN)


@ledger_app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(metavar="SRC", help="A file of ledger backup.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Also if the ledger holds records: they are lost.")
    ] = False,
    place: LedgerPlace = None,
    by: By = None,
    as_json: o.Json = False,
) -> None:
    """Put a backup in place of the ledger, verified, in SQLite or PostgreSQL.

    Running servers go on with the restored ledger. Browsers have to sign in again, and tokens that were
    revoked after the backup are valid again.

    \b
    Example:
      [cyan]dpxplain ledger restore /var/backups/dpxplain/ledger-20301231T020000Z.sqlite --replace[/cyan]
    """
    with ledger_at(place, create=True) as ledger:
        records = ledger.anchor().records
        if records and not replace:
            raise BadRequest(
                f"The ledger holds {records:,} records, which would be lost.",
                remedy="Back it up first (dpxplain ledger backup), then restore with --replace.",
            )
        report = ledger.restore(file, by=acting_curator(by))
    if as_json:
        show_json({"kind": "restore", "file": str(file)} | json_fields(report))
        return
    note(f"Restored {report.records:,} records, head {report.head}.")
    note("Tokens revoked since that backup are valid again: dpxplain token list")
