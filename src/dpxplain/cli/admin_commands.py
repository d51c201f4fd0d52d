"""`dpxplain token`, `allow` and `serve`: who may sign in, what they may spend and see, and the server."""

from __future__ import annotations

import gc
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.options import (
    Analyst,
    By,
    Create,
    Dataset,
    Expires,
    LedgerPlace,
    Reason,
    acting_curator,
    command_group,
    future_time,
    ledger_at,
    minute,
    print_table,
)
from dpxplain.cli.screen import ERR, OUT, amount, emit, note, show_json, warn
from dpxplain.errors import BadRequest
from dpxplain.ledger import WORKSPACE
from dpxplain.ledger.address import find_ledger
from dpxplain.model.charge import Ending, failure_number, failure_words
from dpxplain.model.display import public_fields

if TYPE_CHECKING:
    from dpxplain.server.app import Opening

# -- Tokens and allowances ---------------------------------------------------------------------------------

token_app = command_group("Tokens: who may use a server, in which role, until when.")
allow_app = command_group("Allowances: what analysts may spend, and whose history they see.")


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The person that the token is for.")],
    role: Annotated[str, typer.Option("--role", help="analyst or curator.")] = "analyst",
    expires: Annotated[
        str, typer.Option("--expires", metavar="WHEN", help="90d, 12h, 4w, or a date such as 2030-12-31.")
    ] = "90d",
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME", help="Also allow spending on this data set.")
    ] = None,
    rho: Annotated[
        float | None,
        typer.Option("--rho", help="How much this person may spend on the data set named with --dataset."),
    ] = None,
    by: By = None,
    place: LedgerPlace = None,
    create: Create = False,
    as_json: o.Json = False,
) -> None:
    """Make a token. It is shown only once: pass it on in private.

    \b
    Example:
      [cyan]dpxplain token create ann --expires 90d --dataset adult --rho 0.5[/cyan]
    """
    if (dataset is None) != (rho is None):
        raise BadRequest("--dataset and --rho go together.", remedy="Give both, or neither.")
    until, curator = future_time(expires), acting_curator(by)
    with ledger_at(place, create=create) as ledger:
        if dataset is not None and rho is not None:
            from dpxplain.ledger.credentials import check_new_token

            # Both are checked first: if one is refused, neither is written.
            check_new_token(name, role, until)
            ledger.grant(dataset, name, rho, reason="with the first token", by=curator)
        id, text = ledger.tokens.create(name, role, expires=until, by=curator)
    if as_json:
        fields = {"id": id, "name": name, "role": role, "token": text, "expires": until.isoformat()}
        show_json({"kind": "token"} | fields)
        return
    typer.echo(text)
    note(f"Token {id} for {name} ({role}), valid until {minute(until)} UTC. It will not be shown again.")


@token_app.command("list")
def list_tokens(place: LedgerPlace = None, as_json: o.Json = False) -> None:
    """Every token ever made, without its text.

    \b
    Example:
      [cyan]dpxplain token list --ledger postgresql://host/database[/cyan]
    """
    with ledger_at(place) as ledger:
        tokens = ledger.tokens.list()
    if as_json:
        show_json({"kind": "tokens", "tokens": tokens})
        return
    print_table(
        ("id", "name", "role", "expires (UTC)", "revoked (UTC)", "by"),
        [(t.id, t.name, t.role, minute(t.expires), minute(t.revoked), t.by) for t in tokens],
        empty="There are no tokens.",
    )


@token_app.command("revoke")
def revoke_token(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The token's id, as in the list.", show_default=False)
    ] = None,
    only: Annotated[
        bool,
        typer.Option("--only", help="Revoke only this token. Keep the tokens that were made with it."),
    ] = False,
    made_by: Annotated[
        str | None,
        typer.Option(
            "--made-by",
            metavar="NAME",
            help="Instead of ID: revoke all tokens that this person made, and end this person's own OIDC "
            "sessions.",
        ),
    ] = None,
    by: By = None,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Revoke a token, its browser sessions and the tokens made with it. Cannot be undone.

    \b
    Example:
      [cyan]dpxplain token revoke 0123456789ab[/cyan]
      [cyan]dpxplain token revoke --made-by oidc:olga[/cyan]
    """
    if (id is None) == (made_by is None) or (only and made_by is not None):
        raise BadRequest(
            "You did not say which tokens to revoke.", remedy="Give an ID, or --made-by NAME alone."
        )
    with ledger_at(place) as ledger:
        tokens, curator, sessions = ledger.tokens, acting_curator(by), 0
        if id is not None:
            ended = tokens.revoke(id, curator, only=only)
        else:
            ended, sessions = tokens.revoke_made_by(made_by or "", curator)
    if as_json:
        show_json({"kind": "revoked", "id": id, "ended": ended, "oidc_sessions": sessions})
        return
    if len(ended) == 1:
        note(f"Token {ended[0]} is revoked.")
    elif ended:
        note(f"{len(ended)} tokens are revoked: {', '.join(ended)}.")
    else:
        note("No token was revoked: there is none, or all of them had already ended.")
    if sessions:
        note(
            f"OIDC browser sessions ended: {sessions}. Only the issuer can stop this person from signing in "
            "again."
        )


@allow_app.command("set")
def set_allowance(
    dataset: Dataset,
    analyst: Analyst,
    reason: Reason,
    rho: Annotated[float, typer.Option("--rho", help="The total that they may spend; 0 for nothing.")],
    expires: Expires = None,
    by: By = None,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Set what an analyst may spend on a data set, and until when.

    \b
    Example:
      [cyan]dpxplain allow set adult ann --rho 0.5 --expires 90d --reason "study 7"[/cyan]
    """
    until = None if expires is None else future_time(expires)
    with ledger_at(place) as ledger:
        ledger.grant(dataset, analyst, rho, expires=until, reason=reason, by=acting_curator(by))
    _show_allowances(place, dataset, as_json)


@allow_app.command("top-up")
def top_up(
    dataset: Dataset,
    reason: Reason,
    rho: Annotated[float, typer.Option("--rho", help="How much more.")],
    analyst: Annotated[
        str | None,
        typer.Option(
            "--analyst",
            metavar="NAME",
            help="Add to this analyst's allowance; default: to the data set's limit.",
        ),
    ] = None,
    by: By = None,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Add to a data set's limit, or to an analyst's allowance.

    \b
    Example:
      [cyan]dpxplain allow top-up adult --rho 1 --reason "second wave"[/cyan]
    """
    with ledger_at(place) as ledger:
        ledger.top_up(dataset, rho, analyst=analyst, reason=reason, by=acting_curator(by), default_limit=None)
    _show_allowances(place, dataset, as_json)


@allow_app.command("forgive")
def forgive(
    dataset: Dataset,
    analyst: Analyst,
    reason: Reason,
    by: By = None,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Unblock an analyst whose charged requests failed too often. The charges stay.

    \b
    Example:
      [cyan]dpxplain allow forgive adult ann --reason "the machine was full"[/cyan]
    """
    with ledger_at(place) as ledger:
        ledger.failures.forgive(dataset, analyst, reason=reason, by=acting_curator(by))
    _show_allowances(place, dataset, as_json)


@allow_app.command("list")
def list_allowances(dataset: Dataset, place: LedgerPlace = None, as_json: o.Json = False) -> None:
    """Show a data set's remaining budget, allowances and shared histories.

    \b
    Example:
      [cyan]dpxplain allow list adult[/cyan]
    """
    _show_allowances(place, dataset, as_json)


@allow_app.command("share")
def share_history(
    dataset: Dataset,
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="The person whose history is shared.")],
    reader: Annotated[
        str, typer.Argument(metavar="READER", help="The person who may read it; '*' for everyone.")
    ],
    reason: Reason,
    stop: Annotated[bool, typer.Option("--stop", help="Stop sharing.")] = False,
    by: By = None,
    place: LedgerPlace = None,
    as_json: o.Json = False,
) -> None:
    """Let an analyst read another's history, now and later, for free.

    \b
    Example:
      [cyan]dpxplain allow share adult ann ben --reason "same team"[/cyan]
    """
    with ledger_at(place) as ledger:
        share_or_stop = ledger.unshare if stop else ledger.share
        share_or_stop(dataset, owner, reader, reason=reason, by=acting_curator(by))
    _show_allowances(place, dataset, as_json)


def _show_allowances(place: str | None, dataset: str, as_json: bool) -> None:
    """Prints a data set's budget, its analysts' allowances and its shares."""
    with ledger_at(place) as ledger:
        budget = ledger.budget(dataset)
        allowances, shares = ledger.allowances(dataset), ledger.shares(dataset)
        failures = {each.analyst: ledger.failures.counted(dataset, each.analyst) for each in allowances}
    if as_json:
        total = {"limit": budget.limit, "spent": budget.spent, "remaining": budget.remaining}
        lists = {
            "analysts": [
                public_fields(allowance)
                # Without a grant, only the server's configuration has the amounts.
                | ({} if allowance.time is not None else {"limit": None, "remaining": None})
                | {
                    "failures": failure_number(failures[allowance.analyst]),
                    "crashes": failures[allowance.analyst][Ending.DIED],
                    "why": failure_words(failures[allowance.analyst]),
                }
                for allowance in allowances
            ],
            "shares": [{"dataset": dataset} | public_fields(share) for share in shares],
        }
        show_json({"kind": "allowances", "dataset": dataset, "rho": total} | lists)
        return
    OUT.print(f"{dataset}: ρ {amount(budget.remaining)} of {amount(budget.limit)} left.", style="bold")
    print_table(
        ("analyst", "may spend", "spent", "left", "expires (UTC)", "reason", "by"),
        [
            (
                *(allowance.analyst, amount(allowance.limit), amount(allowance.spent)),
                *(amount(allowance.remaining), minute(allowance.expires, "never")),
                *(allowance.reason, allowance.by),
            )
            if allowance.time is not None
            else (allowance.analyst, "as configured", amount(allowance.spent), "", "", "", "")
            for allowance in allowances
        ],
        empty="Nobody has an allowance.",
    )
    for analyst, counted in failures.items():
        if counted:
            _print_failures(dataset, analyst, counted)
    for share in shares:
        owner = share.owner or "the local owner"
        OUT.print(f"{owner} shares with {share.reader}: {share.reason} ({share.by})")


def _print_failures(dataset: str, analyst: str, failures: Counter[Ending]) -> None:
    """Prints why an analyst is or will be blocked, and how to unblock them."""
    from dpxplain.server.config import Limits

    most, number = Limits().failures, failure_number(failures)
    is_blocked = max(number, failures[Ending.DIED]) >= most
    standing = "blocked" if is_blocked else f"{number} of {most} failures"
    OUT.print(
        f"{analyst}: {standing}, if the server has the usual limit of {most}. Failures: "
        f"{failure_words(failures)}."
    )
    note(f"To forgive: dpxplain allow forgive {shlex.quote(dataset)} {shlex.quote(analyst)} --reason WHY")


# -- Server ------------------------------------------------------------------------------------------------
#
# The page and the REST API, for many analysts or for one person at this machine.


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
        from dpxplain.server.app import example_config, log_to_stderr, run, single_user_config
        from dpxplain.server.config import Config
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
        report=(lambda opening: emit("opened", **public_fields(opening))) if as_json else _print_opening,
        announce=(lambda address: emit("serving", address=address)) if as_json else _print_address,
    )
    note("The server has stopped.")


def _print_opening(opening: Opening) -> None:
    note(str(opening))
    for name, problem in opening.unavailable.items():
        warn(f"{name} is not available: {problem}")


def _print_address(address: str) -> None:
    # Not wrapped, because people copy the address, and a single user's address ends in a key.
    ERR.print(f"DPXPlain is at {address}", soft_wrap=True, markup=False)
