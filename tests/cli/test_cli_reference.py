"""docs/cli.md names every command and option, with type, default and help, as they are."""

from __future__ import annotations

import runpy
from collections import Counter
from importlib import import_module
from pathlib import Path

from typer import Typer

from dpxplain.cli.command_line import HOMES

ROOT = Path(__file__).parents[2]


def test_the_reference_is_what_the_commands_say() -> None:
    reference = runpy.run_path(str(ROOT / "tools" / "cli-reference"))["reference"]
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == reference(), "Update it with: tools/cli-reference > docs/cli.md"


def test_every_option_has_help() -> None:
    commands = runpy.run_path(str(ROOT / "tools" / "cli-reference"))["commands"]
    without = [
        (name, option.name) for name, command in commands() for option in command.params if not option.help
    ]
    assert without == []


def test_no_command_is_registered_twice() -> None:
    functions = Counter(HOMES.values())
    apps = [getattr(import_module(f"dpxplain.cli.{module}"), name) for module, name in HOMES.values()]
    parts = Counter(
        part.callback for app in apps if isinstance(app, Typer) for part in app.registered_commands
    )
    assert {*functions.values(), *parts.values()} == {1}
