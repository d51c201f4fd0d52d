"""The names of all commands, each with the module that is imported only when the command is run or listed."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from dpxplain.cli.options import flat

# In the order of the help: module and name of a function, or of a Typer app that is a group of commands.
HOMES = {
    "demo": ("demo", "demo"),
    "query": ("ask_commands", "query"),
    "why": ("ask_commands", "why"),
    "prepare": ("ask_commands", "prepare"),
    "explain": ("explain_commands", "explain"),
    "story": ("explain_commands", "story"),
    "preview": ("ask_commands", "preview"),
    "compute": ("ask_commands", "compute"),
    "ratio": ("explain_commands", "ratio"),
    "quality": ("account_commands", "quality"),
    "discover": ("account_commands", "discover"),
    "budget": ("account_commands", "budget"),
    "history": ("account_commands", "history"),
    "sample": ("demo", "sample"),
    "serve": ("serve_command", "serve"),
    "schema": ("schema_commands", "schema_app"),
    "data": ("data_commands", "data_app"),
    "token": ("admin_commands", "token_app"),
    "allow": ("admin_commands", "allow_app"),
    "audit": ("privacy_audit_command", "audit_app"),
    "ledger": ("ledger_commands", "ledger_app"),
    "experiment": ("experiment_command", "experiment"),
}


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are looked up."""

    def __init__(self, *, commands: object = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands()


class _LazyCommands(MutableMapping[str, Any]):
    """Commands by name."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)

    def __contains__(self, name: object) -> bool:
        return name in HOMES

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("The commands are those of this module's table.")

    def __delitem__(self, name: str) -> None:
        raise TypeError("The commands are those of this module's table.")


@cache
def _command(name: str) -> Any:
    module, attribute = HOMES[name]
    found = getattr(import_module(f"dpxplain.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
        command.name = name
        return command
    app = typer.Typer(rich_markup_mode="rich", add_completion=False)
    app.command(name)(flat(found))
    return get_command(app)
