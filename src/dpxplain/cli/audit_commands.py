"""`dpxplain audit`: the audit log shown, verified, and anchored outside of the ledger."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.admin_options import (
    LedgerPlace,
    excerpt,
    json_fields,
    ledger_at,
    minute,
    print_table,
    show_help,
)
from dpxplain.cli.screen import OUT, note, show_json, warn
from dpxplain.errors import BadRequest
from dpxplain.ledger.protocol import AuditReport

if TYPE_CHECKING:
    from dpxplain.ledger.anchor import Anchor
    from dpxplain.ledger.ledger import SQLLedger

audit_app = typer.Typer(rich_markup_mode="rich")

BROKEN = 2
_DEFAULT_KEY = Path("~/.dpxplain-anchor.key")

Key = Annotated[
    Path,
    typer.Option(
        "--key", metavar="FILE", help="Signs anchors; keep it off the ledger's machine.",
        envvar="DPXPLAIN_ANCHOR_KEY",
    ),
]  # fmt: skip


@audit_app.callback(invoke_without_command=True)
def audit_root(context: typer.Context) -> None:
    """The audit log, hash-chained: show, verify or anchor it. And audits of what is promised."""
    show_help(context)


@audit_app.command("show")
def show_audit(
    after: Annotated[int, typer.Option("--after", metavar="ID", help="Only what follows this record.")] = 0,
    limit: Annotated[int, typer.Option("--limit", help="At most so many records.")] = 500,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Every change of the ledger, oldest first.

    \b
    Example:
      [cyan]dpxplain audit show --after 120[/cyan]
    """
    with ledger_at(place) as ledger:
        records = ledger.audit(after, limit)
    if as_json:
        show_json({"kind": "audit", "records": [json_fields(record) for record in records]})
        return
    print_table(
        ("id", "time (UTC)", "who", "what", "data set", "details"),
        [
            (str(r.id), minute(r.time), r.actor, r.action, r.dataset or "", excerpt(r.details))
            for r in records
        ],
        empty="There are no records.",
    )


@audit_app.command("verify")
def verify_audit(
    head: Annotated[
        str | None, typer.Option("--head", metavar="HASH", help="A head noted down earlier; must be there.")
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(
            "--anchor", metavar="FILE", help="Of audit anchor, or of a server; the log must go on from it."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="From the beginning, however long it is."),
    ] = False,
    key: Key = _DEFAULT_KEY,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Recompute the log's chain of hashes and hold the ledger against it. Exit code 2 if broken or empty.

    Where a long log was found intact is remembered beside the key, signed: the next time it begins there.

    \b
    Example:
      [cyan]dpxplain audit verify --anchor people.anchor[/cyan]
    """
    from dpxplain.ledger.anchor import read_anchor, read_key
    from dpxplain.ledger.anchor_file import is_anchor_file
    from dpxplain.ledger.later_audit import last_verified

    own = str(anchor) if anchor is not None and is_anchor_file(anchor) else None
    signed = anchor if own is None else None
    place_of_key = key.expanduser()
    anchored = None if signed is None else read_anchor(signed, read_key(place_of_key))
    with ledger_at(place, anchor=own, is_recovery=True) as ledger:
        since = None if full else last_verified(place_of_key, ledger.anchor())
        report = ledger.verify_audit(head, anchored, since=since, full=full or None)
        _remember_verified(ledger, place_of_key)
    intact = report.intact and report.records > 0
    if as_json:
        fields = json_fields(report) | {"intact": intact}
        if anchored is not None:
            age = round(anchored.age.total_seconds())
            fields["anchor"] = {"records": anchored.records, "time": anchored.time, "age_seconds": age}
        show_json({"kind": "audit-report"} | fields)
    else:
        _print_report(report)
        if since is not None and head is None and intact:
            note(
                f"Records up to {since.records:,} were verified {_age_text(since.age)}: --full does it again."
            )
        if anchored is not None:
            _print_anchor(anchored, intact)
        elif intact:
            note("Only an anchor or a head kept elsewhere proves that no record was cut off: audit anchor.")
    if not intact:
        raise typer.Exit(BROKEN)


def _remember_verified(ledger: SQLLedger, key: Path) -> None:
    from dpxplain.ledger.later_audit import remember_verified

    try:
        remember_verified(key, ledger.verified)
    except BadRequest as problem:
        note(f"Not remembered, so the next verification begins at the start again. {problem}")


@audit_app.command("anchor")
def anchor_audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where the anchor is written; keep it elsewhere.")
    ],
    key: Key = _DEFAULT_KEY,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Write a signed note of where the log stands, to hold it against later. Exit code 2 if it is broken.

    The key is made if it is missing. An earlier anchor in FILE is replaced only if the log goes on from it.

    \b
    Example:
      [cyan]dpxplain audit anchor people.anchor[/cyan]
    """
    from dpxplain.ledger.anchor import make_key, read_anchor, read_key, write_anchor

    place_of_key = key.expanduser()
    with ledger_at(place) as ledger:  # before the key: a wrong address must leave none behind
        if not file.exists():
            make_key(place_of_key)
        secret = read_key(place_of_key)
        earlier = read_anchor(file, secret) if file.exists() else None
        anchor = ledger.anchor()
        report = ledger.verify_audit(anchor.head, earlier)
    if not report.intact:
        _print_report(report)
        warn("No anchor was written.")
        raise typer.Exit(BROKEN)
    write_anchor(file, anchor, secret)
    if as_json:
        show_json({"kind": "anchor", "file": str(file)} | json_fields(anchor))
    else:
        note(f"Anchored at record {anchor.records:,}, head {anchor.head}.")
        note("Keep the file and the key where nobody who can write the ledger can write them.")


def _print_anchor(anchor: Anchor, intact: bool) -> None:
    """With its age: an older anchor, put back together with an older copy of the ledger, agrees with that."""
    made = f"made {anchor.time[:16].replace('T', ' ')} UTC, {_age_text(anchor.age)}"
    if intact:
        note(f"It goes on from the anchor at record {anchor.records:,}, {made}.")
        note("If you made a later one, verify with that: an old anchor agrees with an old ledger.")
    else:
        note(f"The anchor at record {anchor.records:,} was {made}.")


def _age_text(age: timedelta) -> str:
    """An age in its largest unit.

    >>> _age_text(timedelta(days=3, hours=5)), _age_text(timedelta(minutes=61)), _age_text(timedelta(days=-1))
    ('3 days ago', '1 hour ago', 'which is in the future: a clock is wrong')
    """
    if age < -timedelta(minutes=1):
        return "which is in the future: a clock is wrong"
    for unit in ("day", "hour", "minute"):
        number = age // timedelta(**{f"{unit}s": 1})
        if number > 0:
            return f"{number:,} {unit}{'s' if number > 1 else ''} ago"
    return "just now"


def _print_report(report: AuditReport) -> None:
    for problem in report.problems:
        OUT.print(problem, style="red")
    if report.intact and not report.records:
        OUT.print("0 records: the log is empty, so nothing was verified.", style="bold")
        note(
            "A ledger's file that was copied while it was in use looks like this: use dpxplain ledger backup."
        )
        return
    OUT.print(f"{report.records:,} records, {'intact' if report.intact else 'BROKEN'}.", style="bold")
    OUT.print(f"head {report.head}", soft_wrap=True)
    if not report.intact:
        warn("The ledger was changed behind its own back. Compare it with a backup.")
