"""What `token`, `allow` and `audit` share: their options, opening the ledger, and tables of its rows."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dpxplain.cli.screen import OUT, note
from dpxplain.errors import BadRequest
from dpxplain.ledger import ANCHOR_VARIABLE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from dpxplain.ledger.ledger import SQLLedger

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

_SPAN = re.compile(r"(\d{1,6})([hdw])")
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
    if ledger.is_new:
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
        if span := _SPAN.fullmatch(text.strip()):
            return datetime.now(UTC) + timedelta(hours=int(span[1]) * _HOURS[span[2]])
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"{text!r} is not a time.", remedy="Try 90d, 12h, 4w, or a date such as 2030-12-31."
        ) from None


def json_fields(values: DataclassInstance) -> dict[str, Any]:
    """A ledger row's fields as JSON values."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(values).items()
    }


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


def show_help(context: typer.Context) -> None:
    """Prints the group's help if no command was named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
