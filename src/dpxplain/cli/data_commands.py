"""`dpxplain data`, for curators: shows whether the data have changed, and accepts new data."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dpxplain.cli import options as o
from dpxplain.cli.admin_options import By, acting_curator, ledger_at, minute, print_table
from dpxplain.cli.exits import BAD_REQUEST
from dpxplain.cli.screen import OUT, Progress, amount, note, show_json, suggest, warn
from dpxplain.cli.workspace import Place
from dpxplain.errors import BadRequest, SourceError

if TYPE_CHECKING:
    from dpxplain.ledger.ledger import SQLLedger
    from dpxplain.ledger.protocol import DataVersion
    from dpxplain.model.confidential import ContentDigest


data_app = typer.Typer(rich_markup_mode="rich")

_TABLE = re.compile(r"\s*\[\s*table\s*\]\s*(#.*)?")
_VERSION = re.compile(r"\s*version\s*=")
_LONGEST_NAME = 100

LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger", metavar="PLACE",
        help="A file, postgresql://user:password@host/database, or the server's configuration; default: "
        "DPXPLAIN_LEDGER, or the workspace's.",
    ),
]  # fmt: skip
VersionName = Annotated[
    str | None,
    typer.Argument(
        metavar="VERSION",
        help="The version's name; default: the name these data had before, or today's date.",
    ),
]


@data_app.callback(invoke_without_command=True)
def data_root(context: typer.Context) -> None:
    """Show whether the data have changed, and accept new data."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@dataclass(frozen=True)
class DataReport:
    """How the present data compare with the versions that the ledger knows."""

    dataset: str
    declared: str
    versions: list[DataVersion]
    digest: ContentDigest | None
    """The digest of the present data; None if there is no file to read."""

    @property
    def fitting(self) -> list[str]:
        """The versions that name the present data."""
        return [v.version for v in self.versions if self.digest is not None and v.fits(self.digest)]

    @property
    def state(self) -> str:
        if self.digest is None:
            return "missing"
        if self.declared not in [version.version for version in self.versions]:
            return "new"
        return "same" if self.declared in self.fitting else "changed"

    @property
    def sentence(self) -> str:
        version = _named(self.declared)
        elsewhere = f" They are the data of {_named(self.fitting[-1])}." if self.fitting else ""
        return {
            "missing": f"There is no data file to compare with {version}.",
            "new": f"Nobody has queried {version} yet. The first query will record which data belong to it.",
            "same": f"The data have not changed since {version}.",
            "changed": f"The data have changed since {version}, so queries are refused.{elsewhere}",
        }[self.state]


def status(place: Place, ledger: LedgerOption = None, as_json: o.Json = False) -> None:
    """Show whether the data have changed since they were last queried. Exit code 2 if they have.

    \b
    Example:
      [cyan]dpxplain data status --schema people.toml[/cyan]
    """
    with _opened(place, ledger, read_only=True) as opened:
        report = _report(place, opened)
        charges = opened.versions.charges(report.dataset)
    if as_json:
        show_json(_payload(report, charges))
    else:
        _print(report, charges)
    if report.state == "changed":
        if not as_json:
            suggest("To query the present data:", "data", "accept", *place.words)
        raise typer.Exit(BAD_REQUEST)


def accept(
    place: Place,
    version: VersionName = None,
    by: By = None,
    ledger: LedgerOption = None,
    as_json: o.Json = False,
) -> None:
    """Accept the present data as a new version, or as an old one, and write its name into the schema file.

    A new version starts without answers and shares the budget. Earlier answers stay in the history.

    \b
    Example:
      [cyan]dpxplain data accept 2026-11 --schema people.toml[/cyan]
    """
    if place.example is not None:
        raise BadRequest(
            "The example data sets have a single version.",
            remedy="Copy the data and the schema, and pass --schema.",
        )
    with _opened(place, ledger) as opened:
        report = _report(place, opened)
        if report.digest is None:
            raise SourceError(
                "There is no data file to accept.", remedy="Pass --data PATH, or set table.source."
            )
        name = version if version is not None else _default_name(report)
        _check_name(name, report)
        file = place.schema_file
        privacy = place.declared.privacy
        opened.open_dataset(report.dataset, privacy.rho, privacy.delta)  # the ledger may not know it yet
        if name != report.declared:
            _declare(file, name)
        opened.versions.open(report.dataset, name, report.digest, acting_curator(by))
        budget = opened.budget(report.dataset)
    if as_json:
        show_json({"kind": "data-version", "dataset": report.dataset, "version": name, "schema": str(file)})
        return
    OUT.print(f"{_capitalised(_named(name))} of {report.dataset} is now the version in {file}.", style="bold")
    note(
        f"Answers from other versions stay in the history and are not used. "
        f"{amount(budget.remaining)} of {amount(budget.limit)} ρ is left."
    )


data_app.command("status")(o.flat(status))
data_app.command("accept")(o.flat(accept))


@contextmanager
def _opened(place: Place, ledger: str | None, *, read_only: bool = False) -> Iterator[SQLLedger]:
    """The ledger; for `read_only`, an empty one if the workspace was never used."""
    from dpxplain.cli.read_only_workspace import open_workspace_ledger
    from dpxplain.ledger.address import find_ledger

    if place.server is not None:
        raise BadRequest(
            "This command needs the data, which are on the server.",
            remedy="Run it on the server, with --schema FILE.toml and --ledger PLACE.",
        )
    if read_only and find_ledger(ledger, workspace=place.workspace).is_unused:
        with closing(open_workspace_ledger(place.declared, place.workspace).ledger) as unused:
            yield unused
        return
    with ledger_at(ledger, workspace=place.workspace) as opened:
        yield opened


def _report(place: Place, ledger: SQLLedger) -> DataReport:
    from dpxplain.engines.opening import source_state

    table, source = place.declared.table, place.source
    state = None if source is None else source_state(source, place.declared)
    with Progress().running("Reading the data"):
        digest = None if state is None else state.digest()
    return DataReport(table.name, table.version, ledger.versions.list(table.name), digest)


def _print(report: DataReport, charges: dict[str | None, float]) -> None:
    rows = [
        (
            version.version or '""',
            minute(version.time),
            version.by,
            amount(charges.get(version.version, 0.0)),
            "these" if version.version in report.fitting else "other",
        )
        for version in report.versions
    ]
    print_table(
        ("version", "since (UTC)", "by", "ρ spent", "data"), rows, empty="No version has been queried yet."
    )
    if None in charges:
        note(f"{amount(charges[None])} ρ was charged for lost records.")
    if report.state == "changed":
        warn(report.sentence)
    else:
        OUT.print(Text(report.sentence, "bold green" if report.state == "same" else "bold"))


def _payload(report: DataReport, charges: dict[str | None, float]) -> dict[str, Any]:
    return {
        "kind": "data-status",
        "dataset": report.dataset,
        "declared": report.declared,
        "state": report.state,
        "versions": [
            {
                "version": version.version,
                "time": version.time.isoformat(),
                "by": version.by,
                "rho": charges.get(version.version, 0.0),
                "fits": version.version in report.fitting,
            }
            for version in report.versions
        ],
    }


def _named(version: str) -> str:
    return f"version {version!r}" if version else "the version without a name"


def _capitalised(text: str) -> str:
    """The text with its first letter in upper case; the rest, such as a version's name, unchanged."""
    return text[:1].upper() + text[1:]


def _default_name(report: DataReport) -> str:
    """The version that the data had before, or today's date."""
    if report.fitting:
        return report.declared if report.declared in report.fitting else report.fitting[-1]
    taken_names = {version.version for version in report.versions} | {report.declared}
    today = date.today().isoformat()
    return next(name for name in _numbered(today) if name not in taken_names)


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1


def _check_name(name: str, report: DataReport) -> None:
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        raise BadRequest("This cannot be a version's name.", remedy="Use a short text such as 2026-11.")
    if name in [version.version for version in report.versions] and name not in report.fitting:
        raise BadRequest(
            f"{_capitalised(_named(name))} is already used for other data.", remedy="Choose another name."
        )


def _declare(file: Path, version: str) -> None:
    """Writes `version` into the schema file and leaves everything else as it is."""
    from dpxplain.model.schema import Schema

    by_hand = BadRequest(
        f"Cannot edit {file}.",
        remedy=f"Add this line below [table] yourself: version = {json.dumps(version)}",
    )
    file = file.resolve()  # so that a link is not replaced
    try:
        text = file.read_bytes().decode()  # keeps the line ends
        edited = with_version(text, version)
        before, after = (Schema.load(tomllib.loads(part)).model_dump() for part in (text, edited))
        before["table"]["version"] = version
        if before != after:
            raise by_hand
        draft = file.with_name(f".{file.name}.draft")
        draft.write_bytes(edited.encode())
        draft.chmod(file.stat().st_mode)
        draft.replace(file)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise by_hand from None


def with_version(text: str, version: str) -> str:
    """The schema's text with another table.version.

    >>> print(with_version('[table]\\nname = "t"\\n\\n[privacy]\\nrho = 1', "2026-11"))
    [table]
    version = "2026-11"
    name = "t"
    <BLANKLINE>
    [privacy]
    rho = 1
    """
    line_end = "\r\n" if "\r\n" in text else "\n"
    declaration = f"version = {json.dumps(version, ensure_ascii=False)}"
    lines = text.split(line_end)
    header = next((i for i, line in enumerate(lines) if _TABLE.fullmatch(line)), None)
    if header is None:
        return text
    for i, line in enumerate(lines[header + 1 :], header + 1):
        if line.lstrip().startswith("["):
            break
        if _VERSION.match(line):
            lines[i] = declaration
            return line_end.join(lines)
    return line_end.join([*lines[: header + 1], declaration, *lines[header + 1 :]])
