"""`dpxplain serve`: the page and the REST API, for many analysts or for one person at this machine."""

from __future__ import annotations

import gc
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.screen import ERR, emit, note, warn
from dpxplain.errors import BadRequest
from dpxplain.ledger import WORKSPACE
from dpxplain.ledger.address import find_ledger

if TYPE_CHECKING:
    from dpxplain.server.run import Opening


def serve(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", show_default=False, help="The server's TOML file.")
    ] = None,
    example: Annotated[
        str | None,
        typer.Option(
            "--example", "-e", show_default=False, help="Bundled data, such as adult, for one user."
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", show_default=False, help="Your own data set, for one user."),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            "--workspace",
            show_default=False,
            help="Where one user's budget and history are kept. Default: in memory for --example, "
            f"else {WORKSPACE}.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host", show_default=False, help="For one user: an address of this machine. Default: 127.0.0.1."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            show_default=False,
            help="For one user: the port. Default: 8765; 0 takes a free one.",
        ),
    ] = None,
    create: Annotated[
        bool,
        typer.Option(
            "--create",
            show_default=False,
            help="Create an empty ledger if there is none. Needed if the configuration or DPXPLAIN_LEDGER "
            "names the ledger.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log requests.")] = False,
    as_json: o.Json = False,
) -> None:
    """Serve the page and the API: with a CONFIG for many analysts, otherwise for you alone.

    \b
    Examples:
      [cyan]dpxplain serve --example adult[/cyan]      # try it: open the address it prints
      [cyan]dpxplain serve --schema people.toml[/cyan]  # your own data, the same way
      [cyan]dpxplain serve server.toml[/cyan]          # analysts and curators with tokens
    """
    if sum(choice is not None for choice in (config, example, schema)) != 1:
        raise BadRequest(
            "You did not say what to serve: a CONFIG, --example or --schema.",
            remedy="Try: dpxplain serve --example adult",
        )
    if config is not None and any(option is not None for option in (workspace, host, port)):
        raise BadRequest(
            "With a CONFIG, the address and the ledger come from its [server] part.",
            remedy="Leave out --workspace, --host and --port, or change host, port and ledger in the CONFIG.",
        )
    host, port = host or "127.0.0.1", 8765 if port is None else port
    try:
        from dpxplain.server.config import Config
        from dpxplain.server.run import example_config, log_to_stderr, run, single_user_config
    except ModuleNotFoundError as missing:
        raise BadRequest(
            f"The server needs packages that are not installed ({missing.name}).",
            remedy="Install them with: pip install 'dpxplain[server]'",
        ) from None
    if not quiet:
        log_to_stderr(as_json=as_json)
    if config is not None:
        settings, ledger = Config.load(config), None
    elif example is not None:
        settings = example_config(example, host=host, port=port)
        ledger = None if workspace is None else find_ledger(workspace=workspace)
    else:
        assert schema is not None
        settings = single_user_config(schema, host=host, port=port)
        ledger = find_ledger(workspace=workspace)
    gc.set_threshold(700, 10, 10)  # Python's default: unlike other commands, a server runs long
    run(
        settings,
        ledger=ledger,
        create=create,
        report=_report_as_json if as_json else _report,
        announce=_announce_as_json if as_json else _announce,
    )
    note("The server has stopped.")


def _report(opening: Opening) -> None:
    note(str(opening))
    for name, problem in opening.unavailable.items():
        warn(f"{name} is not available: {problem}")


def _report_as_json(opening: Opening) -> None:
    emit("opened", **asdict(opening))


def _announce(address: str) -> None:
    # Not wrapped, because people copy the address, and a single user's address ends in a key.
    ERR.print(f"DPXPlain is at {address}", soft_wrap=True, markup=False)


def _announce_as_json(address: str) -> None:
    emit("serving", address=address)
