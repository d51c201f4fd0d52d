"""All commands by name, each imported only when it is run or listed; and `run`, which runs one.

Exit codes: 0 ok, 1 internal error, 2 bad request, 3 budget exhausted, 4 a schema that fits with warnings, 5
an audit that found a promise broken; 130 interrupted, 141 reader gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from dpxplain.cli.options import flat, print_group_help
from dpxplain.cli.screen import (
    INTERNAL,
    INTERRUPTED,
    PIPE_CLOSED,
    PipeClosed,
    help_as_json,
    json_streams,
    log_as_notes,
    report,
    show_json,
)
from dpxplain.errors import BadRequest

# In the order of the help: module and name of a function, or of a Typer app that is a group of commands.
HOMES = {
    "demo": ("demo", "demo"),
    "query": ("ask_commands", "query"),
    "why": ("ask_commands", "why"),
    "prepare": ("ask_commands", "prepare"),
    "explain": ("ask_commands", "explain"),
    "story": ("ask_commands", "story"),
    "preview": ("ask_commands", "preview"),
    "compute": ("ask_commands", "compute"),
    "ratio": ("ask_commands", "ratio"),
    "quality": ("ask_commands", "quality"),
    "discover": ("ask_commands", "discover"),
    "budget": ("ask_commands", "budget"),
    "history": ("ask_commands", "history"),
    "sample": ("demo", "sample"),
    "serve": ("admin_commands", "serve"),
    "schema": ("schema_commands", "schema_app"),
    "data": ("schema_commands", "data_app"),
    "token": ("admin_commands", "token_app"),
    "allow": ("admin_commands", "allow_app"),
    "audit": ("ledger_commands", "audit_app"),
    "ledger": ("ledger_commands", "ledger_app"),
    "experiment": ("demo", "experiment"),
}


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are looked up."""

    def __init__(self, *, commands: object = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands()  # type: ignore[assignment]  # Typer only reads it


class _LazyCommands(Mapping[str, Any]):
    """Commands by name."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


@cache
def _command(name: str) -> Any:
    module, attribute = HOMES[name]
    declared = getattr(import_module(f"dpxplain.cli.{module}"), attribute)
    if isinstance(declared, typer.Typer):
        command: Any = get_group(declared)
        command.name = name
        return command
    app = typer.Typer(rich_markup_mode="rich", add_completion=False)
    app.command(name)(flat(declared))
    return get_command(app)


COMPLETING = "_DPXPLAIN_COMPLETE"  # set by the shell while it asks for completions

app = typer.Typer(
    cls=LazyGroup, rich_markup_mode="rich", context_settings={"help_option_names": ["-h", "--help"]}
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the version, or this help, as JSON.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the type and place of an unexpected error.")
    ] = False,
) -> None:
    """Differentially private answers that explain themselves.

    \b
    [bold]Quick start[/bold], on bundled data:
      [cyan]dpxplain demo[/cyan]
      [cyan]dpxplain query -e adult --rho 0.1[/cyan] \\
        [cyan]"SELECT sex, COUNT(*) FROM adult GROUP BY sex"[/cyan]
      [cyan]dpxplain prepare -e adult --rho 0.1[/cyan]  # then every explanation is free
      [cyan]dpxplain explain -e adult Male Female[/cyan]
    """
    if version:
        from dpxplain import __version__
        from dpxplain.ledger import FORMAT

        if as_json:
            show_json({"version": __version__, "ledger_format": FORMAT})
        else:
            typer.echo(f"dpxplain {__version__} (ledger format {FORMAT})")
    else:
        print_group_help(context, as_json)


def main(arguments: Sequence[str]) -> int:
    """Runs the command line of this process and returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal whose encoding lacks ρ shows a question mark instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    code = run(arguments)
    if code == PIPE_CLOSED:
        # Otherwise Python reports the closed pipe again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; never raises."""
    # Accepted anywhere, because people add it at the end of a command that just failed.
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    as_json = _wants_json(words)
    has_log = words[:1] == ["serve"]
    with json_streams(as_json), nullcontext() if has_log else log_as_notes():
        return _run(words, as_json, debug)


def _run(words: Sequence[str], as_json: bool, debug: bool) -> int:
    try:
        _check_text(words)
        wants_help = not {"--help", "-h"}.isdisjoint(words)
        with help_as_json(as_json and wants_help):
            outcome = get_command(app).main(words, prog_name="dpxplain", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as ended:  # Typer exits after completing a word, and on a closed pipe
        if not ended.code or COMPLETING in os.environ:
            return ended.code if isinstance(ended.code, int) else 0
        return PIPE_CLOSED
    except (PipeClosed, BrokenPipeError):
        return PIPE_CLOSED
    except (Exception, KeyboardInterrupt) as error:
        return _report_safely(error, as_json, debug)
    if outcome == INTERRUPTED:  # Typer returns this code after Ctrl-C
        return _report_safely(KeyboardInterrupt(), as_json, debug)
    return outcome if isinstance(outcome, int) else 0


def _check_text(words: Sequence[str]) -> None:
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        raise BadRequest(
            "The command line is not valid UTF-8.", remedy="Check the encoding of the terminal."
        ) from None


def _report_safely(error: BaseException, as_json: bool, debug: bool) -> int:
    try:
        return report(error, as_json=as_json, debug=debug)
    except Exception:  # stderr may be closed; a traceback would quote the first error
        return INTERNAL


def _wants_json(words: Sequence[str]) -> bool:
    """Whether errors are printed as JSON; decided before parsing, which may fail."""
    return "--json" in words or "--format=json" in words or ("--format", "json") in pairwise(words)
