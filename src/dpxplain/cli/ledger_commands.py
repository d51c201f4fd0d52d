"""`dpxplain ledger` and `audit`: creates, checks, backs up and restores a ledger, declares losses, verifies
the audit log, and tests the privacy promise.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.options import (
    AnchorPlace,
    By,
    LedgerPlace,
    Reason,
    acting_curator,
    command_group,
    excerpt,
    ledger_at,
    minute,
    print_table,
)
from dpxplain.cli.screen import (
    BROKEN,
    ERR,
    OK,
    OUT,
    VIOLATED,
    amount,
    emit,
    fields_of,
    note,
    show_json,
    warn,
)
from dpxplain.errors import BadRequest
from dpxplain.ledger.protocol import AuditReport
from dpxplain.model.charge import rho_of_units
from dpxplain.model.display import public_fields

if TYPE_CHECKING:
    from dpxplain.audit.privacy_audit import DesignFinding
    from dpxplain.ledger.anchor import Anchor
    from dpxplain.ledger.backup import Loss
    from dpxplain.ledger.ledger import SQLLedger

# -- Ledger ------------------------------------------------------------------------------------------------

ledger_app = command_group("Create, check, back up or restore a ledger, or declare a loss.")


@ledger_app.command("create")
def create_ledger(place: LedgerPlace = None, as_json: o.Json = False) -> None:
    """Create an empty ledger. Fails if there is one already.

    \b
    Example:
      [cyan]dpxplain ledger create --ledger postgresql://user@host/database[/cyan]
    """
    with ledger_at(place, create=True) as ledger:
        if not ledger.store.is_new:
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
        file, lost = ledger.recovery.anchor_file, _known_losses(ledger)
    if as_json:
        fields = {"records": standing.records, "head": standing.head, "problem": problem}
        own = {"anchor": None if file is None else str(file), "lost": _losses_as_json(lost)}
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
        problem, lost = ledger.recovery.anchor_problem(), _known_losses(ledger)
    if as_json:
        fields = public_fields(report) | {"behind": problem}
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
        report = ledger.recovery.restore(backup, by=acting_curator(by))
        problem, lost = ledger.recovery.anchor_problem(), _known_losses(ledger)
    if as_json:
        fields = fields_of(report, "records head problems") | {
            "behind": problem,
            "lost": _losses_as_json(lost),
        }
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
        show_json({"kind": "loss", "charged": not dry_run, "lost": _losses_as_json(lost)})
        return
    _print_losses(lost)
    note("Nothing has been charged yet." if dry_run else "Charged. New queries are possible again.")


def _known_losses(ledger: SQLLedger) -> list[Loss]:
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


def _losses_as_json(lost: Sequence[Loss]) -> list[dict[str, object]]:
    return [
        {"dataset": loss.dataset, "analyst": loss.analyst, "rho": rho_of_units(loss.units)} for loss in lost
    ]


# -- Audit log ---------------------------------------------------------------------------------------------

audit_app = command_group("Show, verify or anchor the audit log, or test the privacy promise.")

_DEFAULT_KEY = Path("~/.dpxplain-anchor.key")

Key = Annotated[
    Path,
    typer.Option(
        "--key", metavar="FILE", help="The key that signs anchors; keep it off the ledger's machine.",
        envvar="DPXPLAIN_ANCHOR_KEY",
    ),
]  # fmt: skip


@audit_app.command("show")
def show_audit(
    after: Annotated[int, typer.Option("--after", metavar="ID", help="Only records after this one.")] = 0,
    limit: Annotated[int, typer.Option("--limit", help="Show at most this many records.")] = 500,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Show every change to the ledger, oldest first.

    \b
    Example:
      [cyan]dpxplain audit show --after 120[/cyan]
    """
    with ledger_at(place) as ledger:
        records = ledger.audit(after, limit)
    if as_json:
        show_json({"kind": "audit", "records": records})
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
        str | None,
        typer.Option(
            "--head",
            metavar="HASH",
            help="A head (the hash of the log's last record) that you noted earlier; the log must contain "
            "it.",
        ),
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(
            "--anchor",
            metavar="FILE",
            help="An anchor file, written by audit anchor or by a server; the log must continue from it.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Verify from the beginning, however long the log is."),
    ] = False,
    key: Key = _DEFAULT_KEY,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Recompute the log's chain of hashes and compare the ledger with it. Exit code 2 if broken or empty.

    The verified position of a long log is stored, signed, beside the key. The next verification starts there.
    Like every command, it first upgrades a ledger of an older format, and says so.

    \b
    Example:
      [cyan]dpxplain audit verify --anchor people.anchor[/cyan]
    """
    from dpxplain.ledger.anchor import read_anchor, read_key
    from dpxplain.ledger.anchor_guard import is_anchor_file

    ledger_anchor = str(anchor) if anchor is not None and is_anchor_file(anchor) else None
    signed = anchor if ledger_anchor is None else None
    place_of_key = key.expanduser()
    anchored = None if signed is None else read_anchor(signed, read_key(place_of_key))
    with ledger_at(place, anchor=ledger_anchor, is_recovery=True) as ledger:
        since = None if full else _last_verified(ledger, place_of_key)
        report = ledger.verify_audit(head, anchored, since=since, full=full or None)
        _remember_verified(ledger, place_of_key)
        upgraded = ledger.store.is_upgraded
    intact = report.intact and report.records > 0
    if as_json:
        fields = public_fields(report) | {"intact": intact, "upgraded": upgraded}
        if anchored is not None:
            age = round(anchored.age.total_seconds())
            fields["anchor"] = {"records": anchored.records, "time": anchored.time, "age_seconds": age}
        show_json({"kind": "audit-report"} | fields)
    else:
        _print_report(report)
        if since is not None and head is None and intact:
            note(
                f"Records up to {since.records:,} were verified {_age_text(since.age)}. Use --full to verify "
                "them again."
            )
        if anchored is not None:
            _print_anchor(anchored, intact)
        elif intact:
            note(
                "To be sure that no records were cut off at the end, compare the log with an anchor or a "
                "head that you keep elsewhere. To make an anchor: audit anchor"
            )
    if not intact:
        raise typer.Exit(BROKEN)


def _last_verified(ledger: SQLLedger, key: Path) -> Anchor | None:
    """The position where a long log was last found intact. Warns and returns None if it does not continue."""
    from dpxplain.ledger.anchor import last_verified

    since = last_verified(key, ledger.anchor())
    if since is None or ledger.continues(since):
        return since
    warn(
        f"The log was verified up to record {since.records:,} {_age_text(since.age)}, but no longer "
        "continues from there. A backup was restored, or an older copy was put back. Verifying the whole "
        "log now."
    )
    return None


def _remember_verified(ledger: SQLLedger, key: Path) -> None:
    from dpxplain.ledger.anchor import remember_verified

    try:
        remember_verified(key, ledger.verified)
    except BadRequest as problem:
        note(
            "The verified position could not be stored, so the next verification starts from the beginning. "
            f"{problem}"
        )


@audit_app.command("anchor")
def anchor_audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; keep it away from the ledger.")
    ],
    key: Key = _DEFAULT_KEY,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Write a signed note of the log's last record, for later comparison. Exit code 2 if the log is broken.

    Creates the key if it is missing. Replaces an earlier anchor in FILE only if the log continues from it.

    \b
    Example:
      [cyan]dpxplain audit anchor people.anchor[/cyan]
    """
    from dpxplain.ledger.anchor import make_key, read_anchor, read_key, write_anchor

    place_of_key = key.expanduser()
    with ledger_at(place) as ledger:  # before the key, so that a wrong address creates no key
        if not file.exists():
            make_key(place_of_key)
        secret = read_key(place_of_key)
        earlier = read_anchor(file, secret) if file.exists() else None
        anchor = ledger.anchor()
        report = ledger.verify_audit(anchor.head, earlier)
    if not report.intact:
        if as_json:
            show_json({"kind": "audit-report"} | public_fields(report))
        else:
            _print_report(report)
            warn("The anchor was not written.")
        raise typer.Exit(BROKEN)
    write_anchor(file, anchor, secret)
    if as_json:
        show_json({"kind": "anchor", "file": str(file)} | public_fields(anchor))
    else:
        note(f"Anchored at record {anchor.records:,}, head {anchor.head}.")
        note("Keep the file and the key where people who can write the ledger cannot change them.")


def _print_anchor(anchor: Anchor, intact: bool) -> None:
    """Prints the anchor with its age, because an old anchor agrees with an old copy of the ledger."""
    age = f"made {anchor.time[:16].replace('T', ' ')} UTC, {_age_text(anchor.age)}"
    if intact:
        note(f"The log continues from the anchor at record {anchor.records:,}, {age}.")
        note(
            "If you made a later anchor, verify with that one. An old anchor cannot show that newer records "
            "are missing."
        )
    else:
        note(f"The anchor at record {anchor.records:,} was {age}.")


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
            "This happens if a ledger's file was copied while it was in use. To copy a ledger, use dpxplain "
            "ledger backup."
        )
        return
    OUT.print(f"{report.records:,} records, {'intact' if report.intact else 'BROKEN'}.", style="bold")
    OUT.print(f"head {report.head}", soft_wrap=True)
    if not report.intact:
        warn("Somebody changed the ledger from outside DPXPlain. Compare it with a backup.")


# -- Privacy audit -----------------------------------------------------------------------------------------

_COLUMNS = ("design", "neighbours", "releases", "ρ promised", "ρ at least", "promise")


@audit_app.command("privacy")
def audit_privacy(
    design: Annotated[
        list[str] | None,
        typer.Option(
            "--design",
            metavar="NAME",
            help="Run only the tests (designs) whose name contains this text. Repeat the option for more.",
        ),
    ] = None,
    minutes: Annotated[float, typer.Option("--minutes", min=0.05, max=600.0, help="The time limit.")] = 25.0,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Uses the same tables again. The noise is still random."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, max=64, help="The number of processes; default: two, if there are two cores."
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only list the designs.")] = False,
    as_json: o.Json = False,
) -> int:
    """Test the privacy promise from outside, on neighbouring tables. Exit code 5 if it is broken.

    Asks the same question again and again about made-up tables that differ by one row or person, through the
    public interface. The better the answers tell the tables apart, the larger the real ρ must be. Reads none
    of your data and spends no budget. A false alarm has a probability below one in a million.
    docs/audit.md has the method.

    \b
    Example:
      [cyan]dpxplain audit privacy --minutes 5 --design count --design average[/cyan]
    """
    from dpxplain.audit import privacy_audit

    names = [name for name in privacy_audit.designs() if not design or any(word in name for word in design)]
    if not names:
        raise BadRequest("No design has this name.", remedy="See: dpxplain audit privacy --list")
    if listing:
        _print_designs(names, as_json=as_json)
        return OK
    seed = secrets.randbelow(2**32) if seed is None else seed
    workers = min(2, os.cpu_count() or 1) if workers is None else workers
    findings = []
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} designs"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=ERR,
        disable=as_json or not ERR.is_terminal,
        transient=True,
    ) as progress:
        task = progress.add_task("", total=len(names))

        def begin(name: str) -> None:
            progress.update(task, description=name)
            if as_json:
                emit("progress", stage=name)

        for finding in privacy_audit.audit_privacy(
            names, minutes=minutes, seed=seed, workers=workers, begin=begin
        ):
            findings.append(finding)
            progress.advance(task)
            if not as_json and finding.violation:
                warn(f"{finding.design}: {finding.violation}.")
    findings.sort(key=lambda finding: names.index(finding.design))
    violated = [finding for finding in findings if finding.violation]
    if as_json:
        show_json(_findings_payload(findings, seed, minutes))
    else:
        _print_findings(findings, violated, seed)
    return VIOLATED if violated else OK


def _print_designs(names: list[str], *, as_json: bool) -> None:
    from dpxplain.audit.privacy_audit import designs

    chosen = [designs()[name] for name in names]
    if as_json:
        rows = [fields_of(design, "name mechanism aggregate unit neighbours") for design in chosen]
        show_json({"kind": "privacy-designs", "designs": rows})
        return
    print_table(
        ("design", "released by", "aggregate", "neighbours"),
        [(d.name, d.mechanism, d.aggregate, f"{d.unit}, {d.neighbours}") for d in chosen],
        empty="",
    )


def _findings_payload(findings: list[DesignFinding], seed: int, minutes: float) -> dict[str, object]:
    return {
        "kind": "privacy-audit",
        "violated": any(finding.violation for finding in findings),
        "seed": seed,
        "minutes": minutes,
        "findings": list(map(_finding_payload, findings)),
    }


def _finding_payload(finding: DesignFinding) -> dict[str, object]:
    evidence = finding.evidence
    curve = [fields_of(point, "epsilon delta allowed") for point in evidence.curve]
    return {
        **fields_of(finding, "design mechanism aggregate unit neighbours lattice seconds violation"),
        "evidence": fields_of(evidence, "promised rho sure_rho draws") | {"curve": curve},
        "reached": evidence.reached,
    }


def _print_findings(findings: list[DesignFinding], violated: list[DesignFinding], seed: int) -> None:
    print_table(
        _COLUMNS,
        [
            (
                *(finding.design, f"{finding.unit}, {finding.neighbours}", f"{finding.evidence.draws:,}"),
                f"{finding.evidence.promised:.3g}",
                f"{finding.evidence.rho:.3g} ({finding.evidence.reached:.0%})",
                "BROKEN" if finding.violation else "holds",
            )
            for finding in findings
        ],
        empty="",
    )
    for finding in violated:
        OUT.print(f"{finding.design}: {finding.violation}.", style="red")
    OUT.print(f"{_counted(len(findings), 'design')}, {_counted(len(violated), 'violation')}.", style="bold")
    note(f"The lower bounds have 95% confidence. To use the same tables again: --seed {seed}")


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count < 2 else 's'}"
