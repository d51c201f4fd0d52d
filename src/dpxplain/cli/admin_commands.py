"""`dpxplain token`, `allow` and `audit`: who may come in, what they may spend and see, and what was done."""

from __future__ import annotations

from typing import Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.admin_options import (
    DEFAULT_LEDGER,
    Analyst,
    By,
    Dataset,
    Expires,
    LedgerPlace,
    Reason,
    decider,
    details,
    in_table,
    moment,
    opened,
    plain,
    short,
)
from dpxplain.cli.screen import OUT, amount, note, show_json, warn
from dpxplain.errors import BadRequest

token_app = typer.Typer(rich_markup_mode="rich")
allow_app = typer.Typer(rich_markup_mode="rich")
audit_app = typer.Typer(rich_markup_mode="rich")

BROKEN = 2


@token_app.callback(invoke_without_command=True)
def token_root(context: typer.Context) -> None:
    """Tokens: who may come in to a server, as what, until when."""
    _help_alone(context)


@allow_app.callback(invoke_without_command=True)
def allow_root(context: typer.Context) -> None:
    """Allowances: what analysts may spend, and whose history they see."""
    _help_alone(context)


@audit_app.callback(invoke_without_command=True)
def audit_root(context: typer.Context) -> None:
    """The audit log: every change, hash-chained; show or verify it."""
    _help_alone(context)


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom the token speaks for.")],
    role: Annotated[str, typer.Option("--role", help="analyst or curator.")] = "analyst",
    expires: Annotated[
        str, typer.Option("--expires", metavar="WHEN", help="90d, 12h, 4w, or a date such as 2030-12-31.")
    ] = "90d",
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME", help="Also allow spending on this data set.")
    ] = None,
    rho: Annotated[float | None, typer.Option("--rho", help="How much, with --dataset.")] = None,
    by: By = None,
    ledger: LedgerPlace = DEFAULT_LEDGER,
    as_json: o.Json = False,
) -> None:
    """Make a token. Its text is shown once: pass it on in private.

    \b
    Example:
      [cyan]dpxplain token create ann --expires 90d --dataset adult --rho 0.5[/cyan]
    """
    if (dataset is None) != (rho is None):
        raise BadRequest("--dataset and --rho go together.", remedy="Give both, or neither.")
    until, who = moment(expires), decider(by)
    with opened(ledger, new=True) as book:
        if dataset is not None and rho is not None:
            # First, for this is what can be refused: nobody then holds a token that allows nothing.
            book.grant(dataset, name, rho, reason="with the first token", by=who)
        id, text = book.tokens.create(name, role, expires=until, by=who)
    if as_json:
        made = {"id": id, "name": name, "role": role, "token": text, "expires": until.isoformat()}
        show_json({"kind": "token"} | made)
        return
    typer.echo(text)
    note(f"Token {id} of {name} ({role}), valid until {short(until)} UTC. It cannot be shown again.")


@token_app.command("list")
def list_tokens(ledger: LedgerPlace = DEFAULT_LEDGER, as_json: o.Json = False) -> None:
    """Every token ever made, without its text.

    \b
    Example:
      [cyan]dpxplain token list --ledger postgresql://host/database[/cyan]
    """
    with opened(ledger) as book:
        tokens = book.tokens.list()
    if as_json:
        show_json({"kind": "tokens", "tokens": [plain(token) for token in tokens]})
        return
    in_table(
        ("id", "name", "role", "expires (UTC)", "revoked (UTC)", "by"),
        [(one.id, one.name, one.role, short(one.expires), short(one.revoked), one.by) for one in tokens],
        empty="There are no tokens.",
    )


@token_app.command("revoke")
def revoke_token(
    id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as in the list.")],
    by: By = None,
    ledger: LedgerPlace = DEFAULT_LEDGER,
    as_json: o.Json = False,
) -> None:
    """End a token and the browser sessions made from it, at once and for good.

    \b
    Example:
      [cyan]dpxplain token revoke 0123456789ab[/cyan]
    """
    with opened(ledger) as book:
        book.tokens.revoke(id, decider(by))
    if as_json:
        show_json({"kind": "revoked", "id": id})
    else:
        note(f"Token {id} lets nobody in any more.")


@allow_app.command("set")
def set_allowance(
    dataset: Dataset,
    analyst: Analyst,
    reason: Reason,
    rho: Annotated[float, typer.Option("--rho", help="What they may spend in all; 0 for nothing.")],
    expires: Expires = None,
    by: By = None,
    ledger: LedgerPlace = DEFAULT_LEDGER,
    as_json: o.Json = False,
) -> None:
    """Set what an analyst may spend on a data set, and until when.

    \b
    Example:
      [cyan]dpxplain allow set adult ann --rho 0.5 --expires 90d --reason "study 7"[/cyan]
    """
    until = None if expires is None else moment(expires)
    with opened(ledger) as book:
        book.grant(dataset, analyst, rho, expires=until, reason=reason, by=decider(by))
    _show_allowances(ledger, dataset, as_json)


@allow_app.command("top-up")
def top_up(
    dataset: Dataset,
    reason: Reason,
    rho: Annotated[float, typer.Option("--rho", help="How much more.")],
    analyst: Annotated[
        str | None, typer.Option("--analyst", metavar="NAME", help="Theirs; default: the data set's limit.")
    ] = None,
    by: By = None,
    ledger: LedgerPlace = DEFAULT_LEDGER,
    as_json: o.Json = False,
) -> None:
    """Add to a data set's limit, or to an analyst's allowance.

    \b
    Example:
      [cyan]dpxplain allow top-up adult --rho 1 --reason "second wave"[/cyan]
    """
    with opened(ledger) as book:
        book.top_up(dataset, rho, analyst=analyst, reason=reason, by=decider(by))
    _show_allowances(ledger, dataset, as_json)


@allow_app.command("forgive")
def forgive(
    dataset: Dataset,
    analyst: Analyst,
    reason: Reason,
    by: By = None,
    ledger: LedgerPlace = DEFAULT_LEDGER,
    as_json: o.Json = False,
) -> None:
    """Let an analyst measure again whose charged requests failed too often. The charges stay.

    \b
    Example:
      [cyan]dpxplain allow forgive adult ann --reason "the machine was full"[/cyan]
    """
    with opened(ledger) as book:
        book.failures.forgive(dataset, analyst, reason=reason, by=decider(by))
    _show_allowances(ledger, dataset, as_json)


@allow_app.command("list")
def list_allowances(dataset: Dataset, ledger: LedgerPlace = DEFAULT_LEDGER, as_json: o.Json = False) -> None:
    """What a data set has left, who may spend how much of it, and what is shared.

    \b
    Example:
      [cyan]dpxplain allow list adult[/cyan]
    """
    _show_allowances(ledger, dataset, as_json)


@allow_app.command("share")
def share(
    dataset: Dataset,
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="Whose history.")],
    reader: Annotated[str, typer.Argument(metavar="READER", help="Who may read it; '*' for everyone.")],
    reason: Reason,
    stop: Annotated[bool, typer.Option("--stop", help="Take the share back.")] = False,
    by: By = None,
    ledger: LedgerPlace = DEFAULT_LEDGER,
    as_json: o.Json = False,
) -> None:
    """Let an analyst read what another asked, now and later, for free.

    \b
    Example:
      [cyan]dpxplain allow share adult ann ben --reason "same team"[/cyan]
    """
    with opened(ledger) as book:
        decide = book.unshare if stop else book.share
        decide(dataset, owner, reader, reason=reason, by=decider(by))
    _show_allowances(ledger, dataset, as_json)


@audit_app.command("show")
def show_audit(
    after: Annotated[int, typer.Option("--after", metavar="ID", help="Only what follows this record.")] = 0,
    limit: Annotated[int, typer.Option("--limit", help="At most so many records.")] = 500,
    ledger: LedgerPlace = DEFAULT_LEDGER,
    as_json: o.Json = False,
) -> None:
    """Every change of the ledger, oldest first.

    \b
    Example:
      [cyan]dpxplain audit show --after 120[/cyan]
    """
    with opened(ledger) as book:
        records = book.audit(after, limit)
    if as_json:
        show_json({"kind": "audit", "records": [plain(record) for record in records]})
        return
    in_table(
        ("id", "time (UTC)", "who", "what", "data set", "details"),
        [
            (str(one.id), short(one.time), one.actor, one.action, one.dataset or "", details(one.details))
            for one in records
        ],
        empty="There are no records.",
    )


@audit_app.command("verify")
def verify_audit(
    head: Annotated[
        str | None, typer.Option("--head", metavar="HASH", help="A head noted down earlier; must be there.")
    ] = None,
    ledger: LedgerPlace = DEFAULT_LEDGER,
    as_json: o.Json = False,
) -> None:
    """Recompute the log's chain of hashes and hold the whole ledger against it. Exit code 2 if it is broken.

    \b
    Example:
      [cyan]dpxplain audit verify --head 3b1f...[/cyan]
    """
    with opened(ledger) as book:
        report = book.verify_audit(head)
    if as_json:
        show_json({"kind": "audit-report"} | plain(report) | {"intact": report.intact})
    else:
        for problem in report.problems:
            OUT.print(problem, style="red")
        OUT.print(f"{report.records:,} records, {'intact' if report.intact else 'BROKEN'}.", style="bold")
        OUT.print(f"head {report.head}", soft_wrap=True)
        if report.intact:
            note("Note the head down elsewhere: given as --head, it proves later that no record was cut off.")
        else:
            warn("The ledger was changed behind its own back. Compare it with a backup.")
    if not report.intact:
        raise typer.Exit(BROKEN)


def _show_allowances(ledger: str, dataset: str, as_json: bool) -> None:
    with opened(ledger) as book:
        budget = book.budget(dataset)
        allowances, shares = book.allowances(dataset), book.shares(dataset)
    if as_json:
        total = {"limit": budget.limit, "spent": budget.spent, "remaining": budget.remaining}
        lists = {"analysts": [plain(one) for one in allowances], "shares": [plain(one) for one in shares]}
        show_json({"kind": "allowances", "dataset": dataset, "rho": total} | lists)
        return
    OUT.print(f"{dataset}: ρ {amount(budget.remaining)} of {amount(budget.limit)} left.", style="bold")
    in_table(
        ("analyst", "may spend", "spent", "left", "expires (UTC)", "reason", "by"),
        [
            (
                *(one.analyst, amount(one.limit), amount(one.spent), amount(one.remaining)),
                *(short(one.expires, "never"), one.reason, one.by),
            )
            for one in allowances
        ],
        empty="Nobody was granted anything.",
    )
    for one in shares:
        OUT.print(f"{one.owner or 'the local owner'} shares with {one.reader}: {one.reason} ({one.by})")


def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
