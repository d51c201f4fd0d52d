"""`dpxplain audit privacy`: tests the privacy promise from outside, on made-up neighbouring tables."""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.admin_options import print_table
from dpxplain.cli.audit_commands import audit_app
from dpxplain.cli.exits import OK, VIOLATED
from dpxplain.cli.screen import ERR, OUT, emit, note, show_json, warn
from dpxplain.errors import BadRequest

if TYPE_CHECKING:
    from dpxplain.audit.privacy_audit import Finding

_COLUMNS = ("design", "neighbours", "releases", "ρ promised", "ρ at least", "promise")


@audit_app.command("privacy")
def audit_privacy(
    design: Annotated[
        list[str] | None,
        typer.Option("--design", metavar="NAME", help="Only designs with this in their name; repeatable."),
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.05, max=600.0, help="How long it may take.")
    ] = 25.0,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Repeats the same tables; the noise is the system's own."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=64, help="Processes; default: two, if there are.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only list the designs.")] = False,
    as_json: o.Json = False,
) -> int:
    """Test the privacy promise on neighbouring tables, from outside. Exit code 5 if it is broken.

    Made-up tables that differ by one row or person are asked the same thing again and again through the
    public face; what tells them apart bounds ρ from below. It reads no data of yours and spends no budget.
    All alarms together are false with a probability below one in a million. docs/audit.md has the method.

    \b
    Example:
      [cyan]dpxplain audit privacy --minutes 5 --design count --design average[/cyan]
    """
    from dpxplain.audit.privacy_audit import audit_privacy as run
    from dpxplain.audit.privacy_audit import designs

    names = [name for name in designs() if not design or any(word in name for word in design)]
    if not names:
        raise BadRequest("No design has such a name.", remedy="See: dpxplain audit privacy --list")
    if listing:
        _list(names, as_json=as_json)
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

        for finding in run(names, minutes=minutes, seed=seed, workers=workers, begin=begin):
            findings.append(finding)
            progress.advance(task)
            if not as_json and finding.violation:
                warn(f"{finding.design}: {finding.violation}.")
    findings.sort(key=lambda finding: names.index(finding.design))
    violated = [finding for finding in findings if finding.violation]
    if as_json:
        show_json(_payload(findings, seed, minutes))
    else:
        _print(findings, violated, seed)
    return VIOLATED if violated else OK


def _list(names: list[str], *, as_json: bool) -> None:
    from dpxplain.audit.privacy_audit import designs

    chosen = [designs()[name] for name in names]
    if as_json:
        fields = ("name", "mechanism", "aggregate", "unit", "neighbours")
        rows = [{field: getattr(design, field) for field in fields} for design in chosen]
        show_json({"kind": "privacy-designs", "designs": rows})
        return
    print_table(
        ("design", "released by", "aggregate", "neighbours"),
        [(d.name, d.mechanism, d.aggregate, f"{d.unit}, {d.neighbours}") for d in chosen],
        empty="",
    )


def _payload(findings: list[Finding], seed: int, minutes: float) -> dict[str, object]:
    rows = [
        asdict(finding) | {"reached": finding.evidence.reached, "violation": finding.violation}
        for finding in findings
    ]
    return {
        "kind": "privacy-audit",
        "violated": any(finding.violation for finding in findings),
        "seed": seed,
        "minutes": minutes,
        "findings": rows,
    }


def _print(findings: list[Finding], violated: list[Finding], seed: int) -> None:
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
    OUT.print(f"{_number(len(findings), 'design')}, {_number(len(violated), 'violation')}.", style="bold")
    note(f"Lower bounds have 95% confidence. The same tables again: --seed {seed}")


def _number(count: int, thing: str) -> str:
    return f"{count or 'no'} {thing}{'' if count < 2 else 's'}"
