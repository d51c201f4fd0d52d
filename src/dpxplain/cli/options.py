"""The options of the commands with their help, and completions for the Tab key."""

from __future__ import annotations

import getpass
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.table import Table
from rich.text import Text

from dpxplain.cli.screen import OUT, Format, help_as_json, note
from dpxplain.errors import BadRequest
from dpxplain.ledger import ANCHOR_VARIABLE, WORKSPACE

if TYPE_CHECKING:
    from dpxplain.ledger.ledger import SQLLedger
    from dpxplain.model.schema import Schema
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers

# -- Completion --------------------------------------------------------------------------------------------
#
# Public words only, read from the schema and the ledger.
#
# On an error there are no completions, because a message would appear in the middle of the command line.

DEFAULT_SCHEMA = "dpxplain.toml"
_NEEDS_NO_QUOTES = re.compile(r"[\w.+-]+")


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """The groups of the answer that the command would be about, also by the labels of their values."""
    with suppress(Exception), _opened_answer(ctx) as answer:
        return _words_beginning(incomplete, [*(row.label for row in answer), *answer.groups.value_labels])
    return []


def complete_aggregate(ctx: typer.Context, incomplete: str) -> list[str]:
    from dpxplain.results.answers import Answers

    with suppress(Exception), _opened_answer(ctx) as answer:
        return _words_beginning(
            incomplete, answer.names if isinstance(answer, Answers) else [answer.value_name]
        )
    return []


def complete_columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Columns to explain with; after a comma, one more."""
    before, comma, word = incomplete.rpartition(",")
    with suppress(Exception):
        names = [
            name for name in _loaded_schema(_schema_file(ctx)).discrete() if name not in before.split(",")
        ]
        return [f"{before}{comma}{name}" for name in _words_beginning(word, names)]
    return []


def complete_example(incomplete: str) -> list[str]:
    return _words_beginning(incomplete, ["adult"])


def _words_beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    """The words with this beginning, except those that the shell would split."""
    return [word for word in words if word.startswith(incomplete) and _NEEDS_NO_QUOTES.fullmatch(word)]


def _schema_file(ctx: typer.Context) -> Path:
    from dpxplain.datasets import path as bundled

    example = ctx.params.get("example")
    return Path(ctx.params.get("schema") or (bundled(f"{example}.toml") if example else DEFAULT_SCHEMA))


def _loaded_schema(file: Path) -> Schema:
    from dpxplain.engines.opening import with_public_tables
    from dpxplain.model.schema import Schema

    return with_public_tables(Schema.load(file), file.parent)


@contextmanager
def _opened_answer(ctx: typer.Context) -> Iterator[Answer | Answers]:
    from dpxplain.cli.read_only_workspace import read_only_session

    file = _schema_file(ctx)
    with read_only_session(_loaded_schema(file), file.parent, ctx.params.get("workspace")) as session:
        yield session.answer(ctx.params.get("answer"))


# -- Options -----------------------------------------------------------------------------------------------

# Each kind of option has its own panel in the help.
_where = partial(typer.Option, rich_help_panel="Data set")
_spending = partial(typer.Option, rich_help_panel="Spending")
_what = partial(typer.Option, rich_help_panel="What is asked")
_output = partial(typer.Option, rich_help_panel="Output")

Data = Annotated[
    list[str] | None,
    _where(
        "--data", metavar="PATH|URL", envvar="DPXPLAIN_DATA",
        help="File or glob (Parquet, CSV, JSON lines, Feather, DuckDB), or https://host/data-set. Repeat it "
        "for several files. Default: the schema's table.source.",
    ),
]  # fmt: skip
SchemaFile = Annotated[
    str | None,
    _where(
        "--schema", metavar="FILE.toml", help="The schema that the curator wrote; default: ./dpxplain.toml.",
        envvar="DPXPLAIN_SCHEMA",
    ),
]  # fmt: skip
Example = Annotated[
    str | None,
    _where(
        "--example", "-e", metavar="NAME", help="Use bundled data: adult.", autocompletion=complete_example
    ),
]
Workspace = Annotated[
    str | None,
    _where(
        "--workspace", metavar="DIR", show_default=False,
        help=f"Folder for the budget and the answers; default: DPXPLAIN_WORKSPACE, or {WORKSPACE}.",
    ),
]  # fmt: skip
CertificateFile = Annotated[
    str | None,
    _where(
        "--ca", metavar="FILE.pem", envvar="DPXPLAIN_CA",
        help="The certificate of the authority that issued the server's certificate. Not needed for a public "
        "authority.",
    ),
]  # fmt: skip

Rho = Annotated[float | None, _spending("--rho", help="Privacy budget to spend, such as 0.1.")]
RhoOfQuery = Annotated[
    float | None,
    _spending(
        "--rho", help="Privacy budget to spend, such as 0.1; default: the schema's privacy.default_rho."
    ),
]
RhoUnlessPrepared = Annotated[
    float | None,
    _spending("--rho", help="Privacy budget to spend; default: free if the answer is prepared, else 0.5."),
]
RhoToTry = Annotated[
    float | None,
    _spending(
        "--rho",
        help="Privacy budget to try; default: 0.1 or privacy.default_rho for a query, 0.5 for an "
        "explanation.",
    ),
]
Epsilon = Annotated[
    float | None, _spending("--epsilon", help="The price as ε instead of ρ, at the schema's δ.")
]
DryRun = Annotated[bool, _spending("--dry-run", help="Show the price and precision; spend nothing.")]
Yes = Annotated[bool, _spending("--yes", "-y", help="Spend without asking.")]

AnswerNumber = Annotated[
    str | None, _what("--answer", metavar="N", help="Number of the answer; default: the last one asked.")
]
Of = Annotated[
    str | None,
    _what(
        "--of", metavar="AGGREGATE", help="Which aggregate to use if the answer has several: 'AVG(pay)'.",
        autocompletion=complete_aggregate,
    ),
]  # fmt: skip
Weights = Annotated[
    list[str] | None,
    _what(
        "--weight", metavar="GROUP=NUMBER",
        help="A group and its weight, in place of A B. Repeat the option for each group.",
    ),
]  # fmt: skip
ReadFrom = Annotated[
    list[str] | None,
    _what(
        "--from", metavar="N",
        help="Number of a preparation to read, in place of the sharpest; repeat it for several.",
    ),
]  # fmt: skip
AtLeast = Annotated[
    float | None,
    _what(
        "--at-least",
        help="Ask why the value is at least this much. Default: 0; for a ratio, 1; for a share, an even "
        "share.",
    ),
]
Confidence = Annotated[float, _what("--confidence", help="Confidence of the intervals.")]
Population = Annotated[
    bool,
    _what(
        "--population",
        help="Also show intervals for the population from which the rows were drawn at random. Do not use it "
        "for a complete census, or for rows drawn in clusters or by choice.",
    ),
]
AsRatio = Annotated[bool, _what("--ratio", help="Ask about A divided by B instead of A minus B.")]
AsShare = Annotated[bool, _what("--share", help="Ask about A's share of the total of all groups.")]
Method = Annotated[
    str | None,
    _what(
        "--method",
        help="How the interval of averages is computed: mover (default), image, fieller or bootstrap.",
    ),
]
FormulaMethod = Annotated[
    str,
    _what(
        "--method",
        help="How the interval of a formula is computed: image (provable), bootstrap (often narrower, "
        "approximate), or auto.",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="A B", show_default=False, autocompletion=complete_group,
        help='Two groups, written as in the answer: Male, or "Male, White" for two columns.',
    ),
]  # fmt: skip
K = Annotated[int, _what("--k", "-k", help="How many conditions to show.")]
Attributes = Annotated[
    list[str] | None,
    _what(
        "--attributes", metavar="A,B,...", help="Columns to explain with; default: all suitable ones.",
        autocompletion=complete_columns,
    ),
]  # fmt: skip
Exclude = Annotated[
    list[str] | None,
    _what(
        "--exclude", metavar="A,B,...", help="Columns to leave out of explanations.",
        autocompletion=complete_columns,
    ),
]  # fmt: skip
Conjuncts = Annotated[int | None, _what("--conjuncts", help="Columns per condition: 1, 2 or 3.")]
Predicates = Annotated[
    list[str] | None,
    _what(
        "--predicates", metavar="CONDITION|KIND",
        help="A SQL condition, or ranges[:A,B], thresholds[:A,B], differs[:A,B], either:A,B; repeat it.",
    ),
]  # fmt: skip
Mechanism = Annotated[
    str, _what("--mechanism", help="How the conditions are chosen: auto, marginals, vector or one-shot.")
]
Sensitivity = Annotated[
    str, _what("--sensitivity", help="Noise scale: tight, or paper for the published one.")
]
SplitOfRho = Annotated[
    str | None,
    _spending(
        "--split", metavar="SELECT,INFLUENCE,RANK|best",
        help="How one-shot (the paper's mechanism) splits ρ: 1,1,2 (default), or best, the split predicted "
        "to work best.",
    ),
]  # fmt: skip
LowerShare = Annotated[
    float | None,
    _spending(
        "--lower-share",
        help="For one-shot: the part of the rank budget that goes to lower bounds (η in the paper). "
        "Default: 0.1.",
    ),
]
Distinct = Annotated[
    bool | None,
    _what(
        "--distinct/--all-conditions", show_default=False,
        help="Merge nearly identical conditions into one row. Default: only if conditions use several "
        "columns.",
    ),
]  # fmt: skip

Curator = Annotated[bool, _output("--curator", help="Also show true values; NOT private.")]
Json = Annotated[
    bool, _output("--json", help="Print JSON: the result on stdout, everything else as lines on stderr.")
]
Notes = Annotated[bool, _output("--notes", help="Also show how the numbers were counted, and other notes.")]
ByInfluence = Annotated[
    bool, _output("--influence", help="Show and sort by influence and rank, as in the paper.")
]
As = Annotated[Format, _output("--format", help="Format of the result.")]
Report = Annotated[
    str | None, _output("--report", metavar="FILE.html", help="Also write a report as one HTML file.")
]


@dataclass(frozen=True)
class OutputFormat:
    """The format of a result; `--json` is short for `--format json`."""

    format: As = Format.TABLE
    as_json: Json = False
    notes: Notes = False

    @property
    def form(self) -> Format:
        return Format.JSON if self.as_json else self.format


@dataclass(frozen=True)
class Approval:
    """The options that only show a price, or approve it beforehand."""

    dry_run: DryRun = False
    yes: Yes = False


@dataclass(frozen=True)
class FamilyOptions:
    """The options that choose the conditions to explain with."""

    attributes: Attributes = None
    exclude: Exclude = None
    conjuncts: Conjuncts = None
    predicates: Predicates = None

    def arguments(self, schema: Schema) -> dict[str, Any]:
        """Arguments for `explain`, `prepare` and their previews, which check them."""
        return {
            "attributes": _column_list(self.attributes, schema),
            "exclude": _column_list(self.exclude, schema) or (),
            "conjuncts": self.conjuncts,
            "predicates": _predicate_list(self.predicates, schema),
        }


@dataclass(frozen=True)
class MechanismOptions:
    """The options that choose the mechanism of an explanation."""

    mechanism: Mechanism = "auto"
    sensitivity: Sensitivity = "tight"
    split: SplitOfRho = None
    lower_share: LowerShare = None

    def arguments(self) -> dict[str, Any]:
        """Arguments for `explain` and its preview, which check them."""
        shares = {
            "split": None if self.split is None else _split_shares(self.split),
            "lower_share": self.lower_share,
        }
        given_shares = {name: value for name, value in shares.items() if value is not None}
        return {"mechanism": self.mechanism, "sensitivity": self.sensitivity, **given_shares}


def check_priced(rho: float | None, epsilon: float | None) -> None:
    """Raises if a command that spends has no price."""
    if rho is None and epsilon is None:
        raise BadRequest(
            "This command needs a price: --rho or --epsilon.",
            remedy="For example, write --rho 0.1. Add --dry-run to see the precision without paying.",
        )


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclass parameters as parameters of their own, for Typer."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if is_dataclass(group):
            groups[parameter.name] = group
            types = get_type_hints(group, include_extras=True)
            options = [
                parameter.replace(name=f.name, annotation=types[f.name], default=f.default)
                for f in fields(group)
            ]
        else:
            options = [parameter]
        parameters += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]

    @wraps(command)
    def flattened(**values: Any) -> None:
        grouped = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**grouped, **values)

    flattened.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flattened


def _column_list(texts: Sequence[str] | None, schema: Schema) -> list[str] | None:
    """The columns in `--attributes a,b`. A column whose own name has a comma is not split."""
    if not texts:
        return None
    names = [name for text in texts for name in ([text] if text in schema.columns else text.split(","))]
    return [name if name in schema.columns else name.strip() for name in names]


def _split_shares(text: str) -> Any:
    """`--split`: three numbers, or the word best."""
    if text == "best":
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise BadRequest(
            f"--split takes three numbers (select, influence, rank) or the word best, not {text!r}.",
            remedy="Write --split 1,1,2.",
        ) from None


def _predicate_list(texts: Sequence[str] | None, schema: Schema) -> list[Any] | None:
    """`--predicates`: a kind with its columns, such as ranges:age, or a SQL condition."""
    if not texts:
        return None
    from dpxplain.explanation.family_choice import parse_recipe

    return [parse_recipe(text, schema) for text in texts]


# -- Options and output of the curator ---------------------------------------------------------------------
#
# Shared by `token`, `allow`, `audit`, `ledger` and `data`: options, opening the ledger, tables of its rows.

LedgerPlace = Annotated[
    str | None,
    typer.Option(
        "--ledger", metavar="PLACE", show_default=False,
        help="A file, postgresql://user:password@host/database, or the server's configuration; default: "
        "DPXPLAIN_LEDGER, the ledger of ./server.toml, or .dpxplain.",
    ),
]  # fmt: skip
Create = Annotated[
    bool, typer.Option("--create", help="Create an empty ledger if there is none.", show_default=False)
]
AnchorPlace = Annotated[
    str | None,
    typer.Option(
        "--anchor", metavar="FILE", show_default=False, envvar=ANCHOR_VARIABLE,
        help='The anchor file, which records the state of the log outside the ledger, or "off". '
        "Default: the configured file, or a file beside a SQLite ledger.",
    ),
]  # fmt: skip
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", help="Your name for the audit log; default: your login."),
]
Reason = Annotated[
    str, typer.Option("--reason", help="The reason, shown in the audit log and to the people concerned.")
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires", metavar="WHEN", help="90d, 12h, 4w, or a date such as 2030-12-31; default: never."
    ),
]
Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="The data set's name.")]
Analyst = Annotated[str, typer.Argument(metavar="ANALYST", help="The analyst's name, as in their token.")]

_TIME_SPAN = re.compile(r"(\d{1,6})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


@contextmanager
def ledger_at(
    place: str | None,
    *,
    workspace: str | None = None,
    create: bool = False,
    anchor: str | None = None,
    is_recovery: bool = False,
) -> Iterator[SQLLedger]:
    """The ledger that `--ledger` names or the common rule finds. Creates a missing ledger only if `create`.

    If a ledger is empty but its anchor is not, it is opened only if `is_recovery`.
    """
    from dpxplain.ledger.address import find_ledger
    from dpxplain.ledger.ledger import open_ledger

    address = find_ledger(place, workspace=workspace)
    ledger = open_ledger(
        address.place, create=create, anchor=anchor or address.anchor, is_recovery=is_recovery
    )
    if ledger.store.is_new:
        note(f"{ledger.name} is new. Nothing has been spent in it.")
    try:
        yield ledger
    finally:
        ledger.close()


def acting_curator(by: str | None) -> str:
    """The acting curator: `--by`, or else the operating-system user."""
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container may have no such user
        return "command line"


def future_time(text: str) -> datetime:
    """The time that `--expires` names: a span from now, or a date or time in UTC.

    >>> future_time("2030-12-31").isoformat()
    '2030-12-31T00:00:00+00:00'
    >>> future_time("90d") > datetime.now(UTC) + timedelta(days=89)
    True
    """
    try:
        if span := _TIME_SPAN.fullmatch(text.strip()):
            return datetime.now(UTC) + timedelta(hours=int(span[1]) * _HOURS[span[2]])
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"{text!r} is not a time.", remedy="Try 90d, 12h, 4w, or a date such as 2030-12-31."
        ) from None


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Prints rows as a table, or the sentence `empty` if there are none."""
    if not rows:
        OUT.print(empty)
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*map(Text, row))
    OUT.print(table)


def minute(time: datetime | None, otherwise: str = "") -> str:
    """A time to the minute, or `otherwise` if there is none."""
    return otherwise if time is None else f"{time:%Y-%m-%d %H:%M}"


def excerpt(details: object) -> str:
    """A record's details as JSON, cut to fit into a table."""
    text = json.dumps(details, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."


HelpAsJson = Annotated[bool, typer.Option("--json", help="Print this help as JSON.")]


def command_group(help: str) -> typer.Typer:
    """An app for a group of commands. Without a command it prints its help."""
    app = typer.Typer(rich_markup_mode="rich")

    @app.callback(invoke_without_command=True, help=help)
    def root(context: typer.Context, as_json: HelpAsJson = False) -> None:
        print_group_help(context, as_json)

    return app


def print_group_help(context: typer.Context, as_json: bool) -> None:
    """Prints the help of a group of commands, unless one of its commands follows."""
    if context.invoked_subcommand is None:
        with help_as_json(as_json):
            typer.echo(context.get_help())
    elif as_json:
        raise BadRequest("--json stands before the command.", remedy="Write it after the command.")
