"""All commands under one roof."""

from __future__ import annotations

from typing import Annotated

import typer

from dpxplain.cli import account_commands as account
from dpxplain.cli import admin_commands as administer
from dpxplain.cli import ask_commands as phases
from dpxplain.cli import compute_commands as further
from dpxplain.cli import demo
from dpxplain.cli import prepare_commands as prepare
from dpxplain.cli import serve_command as serve
from dpxplain.cli.admin_commands import allow_app, audit_app, token_app
from dpxplain.cli.schema_commands import schema_app

app = typer.Typer(
    add_completion=False, rich_markup_mode="rich", context_settings={"help_option_names": ["-h", "--help"]}
)
for command in (
    demo.demo,
    phases.query,
    phases.why,
    prepare.prepare,
    phases.explain,
    phases.preview,
    further.compute,
    further.ratio,
    account.budget,
    account.history,
    serve.serve,
):
    app.command()(command)
app.add_typer(schema_app, name="schema")
app.add_typer(administer.token_app, name="token")
app.add_typer(administer.allow_app, name="allow")
app.add_typer(administer.audit_app, name="audit")
app.add_typer(token_app, name="token")
app.add_typer(allow_app, name="allow")
app.add_typer(audit_app, name="audit")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="On an unforeseen error, show its kind and place.")
    ] = False,
) -> None:
    """Differentially private answers that explain themselves.

    \b
    [bold]Quick start[/bold], on bundled data:
      [cyan]dpxplain demo[/cyan]
      [cyan]dpxplain query -e adult --rho 0.1[/cyan] \\
        [cyan]"SELECT sex, COUNT(*) FROM adult GROUP BY sex"[/cyan]
      [cyan]dpxplain prepare -e adult --rho 0.1[/cyan]  # from now on every why is free
      [cyan]dpxplain explain -e adult Male Female[/cyan]
    """
    if version:
        from dpxplain import __version__

        typer.echo(f"dpxplain {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
