"""`dpxplain schema` and `data`: drafts a schema, compares it with the data, narrows bounds, and accepts
changed data.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from itertools import chain, count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpxplain.cli import options as o
from dpxplain.cli.options import DEFAULT_SCHEMA, By, acting_curator, ledger_at, minute, print_table
from dpxplain.cli.screen import BAD_REQUEST, OK, OUT, WARNED, Progress, amount, note, show_json, suggest, warn
from dpxplain.cli.workspace import Place, PricedCommand
from dpxplain.errors import BadRequest, SourceError
from dpxplain.words.numbers import at_most, capitalised, clean

if TYPE_CHECKING:
    from dpxplain.cli.metadata import Description
    from dpxplain.cli.schema_draft import Draft
    from dpxplain.ledger.ledger import SQLLedger
    from dpxplain.ledger.protocol import DataVersion
    from dpxplain.model.column import Column
    from dpxplain.model.confidential import ContentDigest
    from dpxplain.model.schema import Privacy, Schema
    from dpxplain.results.schema_check import SchemaCheck, SchemaWarning

# -- Schema ------------------------------------------------------------------------------------------------


class MetadataKind(StrEnum):
    CSVW = "csvw"
    SMARTNOISE = "smartnoise"


schema_app = o.command_group(
    "Describe a data set: draft a schema from the data, check it, or choose its bounds privately."
)
_MOST_SHOWN = 400  # characters of TOML shown; --json has all of it


@schema_app.command("init")
def init(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...|ADDRESS",
            help="Files or globs; file.duckdb::table; metadata of other tools (CSVW-EO as .json, SmartNoise "
            "as .yaml); or postgresql://user@host/database::schema.table.",
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE.toml", help="The file to write; - for stdout.")
    ] = DEFAULT_SCHEMA,
    rho: Annotated[float, typer.Option("--rho", help="The budget of the data set.")] = 1.0,
    codebook: Annotated[
        Path | None,
        typer.Option(
            "--codebook", metavar="FILE", help="A CSV or YAML file that lists columns, values and labels."
        ),
    ] = None,
    kind: Annotated[
        MetadataKind | None,
        typer.Option("--from", help="The format of a metadata file; default: recognised by its content."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: o.Json = False,
) -> None:
    """Draft a schema from the data. It reads the data, so the draft is NOT private: review it.

    From metadata or a database's catalog, it takes the names, types and values given there, and reads no row.

    \b
    Example:
      [cyan]dpxplain schema init people.parquet --rho 1.0[/cyan]
      [cyan]dpxplain schema init 2024.csv 2025.csv --output people.toml[/cyan]
    """
    from dpxplain.cli.schema_draft import WARNING, draft_schema, read_codebook, source_for
    from dpxplain.engines.duckdb_profile import profile
    from dpxplain.model.charge import check_rho

    target = None if output == "-" else Path(output)
    check_rho(rho)
    if target is not None and target.exists() and not force:
        raise BadRequest(f"{target} already exists.", remedy="Choose another --output, or add --force.")
    book = None if codebook is None else read_codebook(codebook)
    source = data[0] if len(data) == 1 else data
    if isinstance(source, list) and kind is not None:
        raise BadRequest("--from takes one metadata file.", remedy="Name one file, or leave out --from.")
    described = None if isinstance(source, list) else _described_table(source, kind)
    if described is not None:
        from dpxplain.cli.metadata import draft_described

        draft = draft_described(described, rho, book)
        warning = f"Drafted from {described.origin}. No row was read."
    else:
        named = [source_for(path, target) for path in data]
        with Progress().running("Reading the data for a draft"):
            columns = profile(source)
        draft, warning = draft_schema(columns, named[0] if len(data) == 1 else named, rho, book), WARNING
    if target is not None:
        _write_draft(target, draft.text, force)
    warn(warning)
    if as_json:
        show_json(_draft_payload(draft, target, warning))
    elif target is None:
        typer.echo(draft.text, nl=False)
    else:
        _print_draft(draft, target)


def _described_table(data: str, kind: MetadataKind | None) -> Description | None:
    """The description of a table in metadata or a catalog; None for data."""
    from dpxplain.cli.metadata import described_catalog, is_metadata, read_metadata
    from dpxplain.engines.opening import read_catalog
    from dpxplain.model.schema import is_database

    if is_database(data):
        return described_catalog(*read_catalog(data))
    if kind is not None or is_metadata(data):
        return read_metadata(data, kind)
    return None


@schema_app.command("check")
def check(
    schema: Annotated[
        str | None, typer.Argument(metavar="SCHEMA", help="The TOML file; default: ./dpxplain.toml.")
    ] = None,
    data: o.Data = None,
    as_json: o.Json = False,
) -> int:
    """Check a schema and compare it with the data. It reads the data, so the output is NOT private.

    Warns of rows that are left out or capped, misspelt values, values that no row has, bins that say little,
    people with more rows than max_rows, and columns that look like the key of a person while the schema
    protects single rows. Exit code 4 if there are warnings.

    \b
    Example:
      [cyan]dpxplain schema check people.toml --data people.parquet[/cyan]
    """
    place = Place(data, schema)
    declared, source = place.declared, place.source
    review = None
    if source is not None:
        with Progress().running("Checking the source"):
            review = _schema_check(source, declared)
    if as_json:
        show_json(_check_payload(declared, source, review))
    else:
        _print_check(declared, source, review)
    return OK if review is None or review.fits else WARNED


@schema_app.command("tune")
@o.flat
def tune(
    rho: o.Rho = None,
    epsilon: o.Epsilon = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", help="A column to tune; may be repeated. Default: all columns with bounds."),
    ] = None,
    keep: Annotated[float, typer.Option("--keep", help="The share of values to keep as they are.")] = 0.99,
    confidence: o.Confidence = 0.95,
    *,
    approval: o.Approval,
    place: Place,
    output: o.OutputFormat,
) -> None:
    """Propose narrower bounds and a lower max_rows from private counts, with the effect of each.

    Proposals never exceed the declared bounds, so declare generous ones first. Prints TOML, writes nothing.

    \b
    Example:
      [cyan]dpxplain schema tune --rho 0.02[/cyan]
      [cyan]dpxplain schema tune --rho 0.02 --column pay --keep 0.95[/cyan]
    """
    from dpxplain.wire.payloads import tuning_payload

    o.check_priced(rho, epsilon)
    columns = tuple(column or ())
    PricedCommand("Counting", place, approval, output).run(
        preview=lambda session: session.preview_tune(
            rho, epsilon=epsilon, columns=columns, confidence=confidence
        ),
        ask=lambda session, price: session.tune(price.rho, columns=columns, keep=keep, confidence=confidence),
        payload=tuning_payload,
    )


def _schema_check(source: object, declared: Schema) -> SchemaCheck:
    from dpxplain.engines.opening import source_figures
    from dpxplain.results.schema_check import SchemaCheck

    return SchemaCheck.of(declared, source, source_figures(source, declared))


def _write_draft(target: Path, text: str, force: bool) -> None:
    try:
        # "x" refuses a file created since the check.
        with target.open("w" if force else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError:
        raise BadRequest(
            f"Cannot write {target}.", remedy="Name a file in an existing folder that you can write to."
        ) from None


def _print_draft(draft: Draft, target: Path) -> None:
    table = Table("column", "drafted as", title=f"Draft: {target}", title_justify="left", expand=False)
    known = {} if draft.schema is None else draft.schema.columns
    for name in tomllib.loads(draft.text)["columns"]:
        table.add_row(Text(name), _declared_as(known[name]) if name in known else "values to be discovered")
    for omitted in draft.left_out:
        table.add_row(Text(omitted.name, "dim"), Text(f"left out: {omitted.reason}", "dim"))
    OUT.print(table)
    note(f"Written to {target}. Review it before you use it.")
    if draft.units:
        names = " or ".join(unit.column for unit in draft.units)
        note(f"If {names} tells people apart, make it the privacy unit: see [privacy] in the draft.")
    if draft.schema is None:
        note("It is incomplete: declare values, edges or bounds for at least one column.")
    suggest("Then check it:", "schema", "check", str(target))


def _print_check(declared: Schema, source: object, review: SchemaCheck | None) -> None:
    table = Table("column", "declared as", "values", title=Text(declared.table.name), title_justify="left")
    table.columns[2].justify = "right"
    for name, column in declared.columns.items():
        table.add_row(Text(name), _declared_as(column), f"{len(column.domain):,}" if column.domain else "-")
    OUT.print(table)
    attributes = list(declared.discrete())
    columns = "1 column" if len(attributes) == 1 else f"{len(attributes)} columns"
    OUT.print(f"{columns} to group by and to explain differences with.", style="bold")
    for conjuncts, size in family_sizes(declared).items():
        columns = "one column" if conjuncts == 1 else f"{conjuncts} columns"
        OUT.print(f"  {size:>12,} conditions on {columns}")
    OUT.print(privacy_in_words(declared.privacy))
    if review is None:
        note("Checked without data, because neither --data nor table.source names any.")
        return
    _print_warnings(review)
    if review.fits:
        OUT.print(Text.assemble(("OK", "bold green"), f": {review.source} fits the schema."))


def privacy_in_words(privacy: Privacy) -> str:
    """Describes the guarantee of the schema's privacy section in sentences."""
    from dpxplain.privacy.accounting import epsilon

    unit = (
        "Each row is protected. A person with several rows is protected less."
        if privacy.unit == "row"
        else f"Each {privacy.unit} is protected, with at most {privacy.max_rows:,} of its rows."
    )
    hidden = (
        f"For each {privacy.unit}, the answers hide its values, but not whether it is in the data (bounded "
        "neighbours)."
        if privacy.neighbours == "bounded"
        else f"For each {privacy.unit}, the answers hide even whether it is in the data (unbounded "
        "neighbours)."
    )
    default = (
        f" A query without a price costs ρ = {amount(privacy.default_rho)}."
        if privacy.default_rho is not None
        else ""
    )
    return (
        f"Privacy: all answers together may cost ρ = {amount(privacy.rho)} (zero-concentrated differential "
        f"privacy). That is ε = {at_most(epsilon(privacy.rho, privacy.delta))} at δ = {privacy.delta:g}. "
        f"{unit} {hidden}{default}"
    )


def family_sizes(declared: Schema) -> dict[int, int]:
    """The number of conditions over all discrete columns, by their conjuncts."""
    sizes = [len(column.domain) for column in declared.columns.values() if column.domain is not None]
    counts = [1, 0, 0, 0]  # by n: the number of ways to choose n columns and a value of each
    for size in sizes:
        counts = [1, *(count + fewer * size for fewer, count in pairwise(counts))]
    return {n: counts[n] for n in (1, 2, 3) if n <= len(sizes)}


def _declared_as(column: Column) -> str:
    from dpxplain.model.column import edge_text

    parts = [] if column.expression is None else [column.expression]
    if column.values is not None:
        parts.append("categories")
    if column.edges is not None:
        parts.append(f"bins from {edge_text(column.edges[0])} to {edge_text(column.edges[-1])}")
    if column.bounds is not None:
        kind = "date" if column.is_temporal else "number"
        parts.append(f"{kind} from {' to '.join(map(edge_text, column.bounds))}")
    return ", ".join(parts) + (", with NULL" if column.domain and None in column.domain else "")


def _draft_payload(draft: Draft, target: Path | None, warning: str) -> dict[str, Any]:
    written = tomllib.loads(draft.text)
    return {
        "kind": "draft",
        "private": False,
        "warning": warning,
        "written": None if target is None else str(target),
        "toml": draft.text if target is None else None,
        "table": written["table"]["name"],
        "columns": list(written["columns"]),
        "left_out": [{"column": omitted.name, "reason": omitted.reason} for omitted in draft.left_out],
        "units": [{"column": unit.column, "max_rows": unit.usual_rows} for unit in draft.units],
    }


def _check_payload(declared: Schema, source: object, review: SchemaCheck | None) -> dict[str, Any]:
    return {
        "kind": "check",
        "ok": True,
        "table": declared.table.name,
        "source": None if review is None else review.source,
        "columns": [
            {"column": name, "declared": _declared_as(column), "values": len(column.domain or ()) or None}
            for name, column in declared.columns.items()
        ],
        "predicates": {str(n): size for n, size in family_sizes(declared).items()},
        "privacy": declared.privacy.model_dump() | {"in_words": privacy_in_words(declared.privacy)},
        "check": None if review is None else review.to_dict(),
    }


def _print_warnings(review: SchemaCheck) -> None:
    """Prints a table of shares, then each warning with its remedy and the TOML to change."""
    from dpxplain.render.views import check_in_words, shares_grid
    from dpxplain.results.schema_check import SCHEMA_FIT_NOT_PRIVATE

    warn(SCHEMA_FIT_NOT_PRIVATE)
    OUT.print()
    grid = shares_grid(review)
    troubled = {warning.where.removeprefix("columns.") for warning in review.warnings}
    table = Table(title="How the rows fit", title_justify="left")
    for column in grid.columns:
        table.add_column(Text(column.name), justify=column.align)
    for row in grid.rows:
        style = "yellow" if row[0] in troubled else ""
        table.add_row(*(Text(cell, "dim" if cell in ("-", "0") else style) for cell in row))
    OUT.print(table)
    OUT.print(check_in_words(review), style="bold green" if review.fits else "bold yellow")
    for place, warning in enumerate(review.warnings, 1):
        _print_warning(place, warning)


def _print_warning(place: int, warning: SchemaWarning) -> None:
    from dpxplain.render.views import escaped

    OUT.print()
    OUT.print(Text(f"{place}. {clean(warning.where)}", "bold yellow"))
    OUT.print(Padding(Text(clean(warning.message)), (0, 0, 0, 3), expand=False))
    OUT.print(Padding(Text(clean(warning.remedy), "italic"), (0, 0, 0, 3), expand=False))
    if warning.toml:
        toml = escaped(
            warning.toml if len(warning.toml) <= _MOST_SHOWN else f"{warning.toml[:_MOST_SHOWN]} ..."
        )
        OUT.print(Padding(Text(toml, "cyan"), (0, 0, 0, 7), expand=False))


# -- Data versions -----------------------------------------------------------------------------------------
#
# For curators.

data_app = o.command_group("Show whether the data have changed, and accept new data.")

_TABLE_HEADER = re.compile(r"\s*\[\s*table\s*\]\s*(#.*)?")
_VERSION_KEY = re.compile(r"\s*version\s*=")
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


@dataclass(frozen=True)
class DataReport:
    """The present data, compared with the versions that the ledger knows."""

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
        version = _version_in_words(self.declared)
        elsewhere = f" They are the data of {_version_in_words(self.fitting[-1])}." if self.fitting else ""
        return {
            "missing": f"There is no data file to compare with {version}.",
            "new": f"Nobody has queried {version} yet. The first query will record which data belong to it.",
            "same": f"The data have not changed since {version}.",
            "changed": f"The data have changed since {version}, so queries are refused.{elsewhere}",
        }[self.state]


@data_app.command("status")
@o.flat
def status(place: Place, ledger: LedgerOption = None, as_json: o.Json = False) -> None:
    """Show whether the data have changed since they were last queried. Exit code 2 if they have.

    \b
    Example:
      [cyan]dpxplain data status --schema people.toml[/cyan]
    """
    with _opened_ledger(place, ledger, read_only=True) as opened:
        report = _data_report(place, opened)
        charges = opened.versions.charges(report.dataset)
    if as_json:
        show_json(_report_payload(report, charges))
    else:
        _print_report(report, charges)
    if report.state == "changed":
        if not as_json:
            suggest("To query the present data:", "data", "accept", *place.words)
        raise typer.Exit(BAD_REQUEST)


@data_app.command("accept")
@o.flat
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
    with _opened_ledger(place, ledger) as opened:
        report = _data_report(place, opened)
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
            _write_version(file, name)
        opened.versions.open(report.dataset, name, report.digest, acting_curator(by))
        budget = opened.budget(report.dataset)
    if as_json:
        show_json({"kind": "data-version", "dataset": report.dataset, "version": name, "schema": str(file)})
        return
    OUT.print(
        f"{capitalised(_version_in_words(name))} of {report.dataset} is now the version in {file}.",
        style="bold",
    )
    note(
        f"Answers from other versions stay in the history and are not used. "
        f"{amount(budget.remaining)} of {amount(budget.limit)} ρ is left."
    )


@contextmanager
def _opened_ledger(place: Place, ledger: str | None, *, read_only: bool = False) -> Iterator[SQLLedger]:
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


def _data_report(place: Place, ledger: SQLLedger) -> DataReport:
    from dpxplain.engines.opening import source_state

    table, source = place.declared.table, place.source
    state = None if source is None else source_state(source, place.declared)
    with Progress().running("Reading the data"):
        digest = None if state is None else state.digest()
    return DataReport(table.name, table.version, ledger.versions.list(table.name), digest)


def _print_report(report: DataReport, charges: dict[str | None, float]) -> None:
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


def _report_payload(report: DataReport, charges: dict[str | None, float]) -> dict[str, Any]:
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


def _version_in_words(version: str) -> str:
    return f"version {version!r}" if version else "the version without a name"


def _default_name(report: DataReport) -> str:
    """The version that the data had before, or today's date."""
    if report.fitting:
        return report.declared if report.declared in report.fitting else report.fitting[-1]
    taken_names = {version.version for version in report.versions} | {report.declared}
    today = date.today().isoformat()
    names = chain([today], (f"{today}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken_names)


def _check_name(name: str, report: DataReport) -> None:
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        raise BadRequest("This cannot be a version's name.", remedy="Use a short text such as 2026-11.")
    if name in [version.version for version in report.versions] and name not in report.fitting:
        raise BadRequest(
            f"{capitalised(_version_in_words(name))} is already used for other data.",
            remedy="Choose another name.",
        )


def _write_version(file: Path, version: str) -> None:
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
    header = next((i for i, line in enumerate(lines) if _TABLE_HEADER.fullmatch(line)), None)
    if header is None:
        return text
    for i, line in enumerate(lines[header + 1 :], header + 1):
        if line.lstrip().startswith("["):
            break
        if _VERSION_KEY.match(line):
            lines[i] = declaration
            return line_end.join(lines)
    return line_end.join([*lines[: header + 1], declaration, *lines[header + 1 :]])
