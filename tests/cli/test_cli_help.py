"""Help is short, quick, and shows an example for every command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import dpxplain as dpx
from dpxplain.ledger import FORMAT

COMMANDS = [
    "demo",
    "query",
    "why",
    "prepare",
    "explain",
    "preview",
    "budget",
    "history",
    "compute",
    "ratio",
    "story",
    "sample",
    "schema init",
    "schema check",
    "token create",
    "token list",
    "token revoke",
    "allow set",
    "allow top-up",
    "allow forgive",
    "allow list",
    "allow share",
    "audit show",
    "audit verify",
]


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_no_command_shows_help_with_a_quick_start(dpxplain: Any, words: tuple[str, ...]) -> None:
    outcome = dpxplain(*words)
    assert outcome.code == 0
    assert "Quick start" in outcome.out
    assert "dpxplain demo" in outcome.out


def test_schema_alone_shows_its_commands(dpxplain: Any) -> None:
    outcome = dpxplain("schema")
    assert outcome.code == 0
    assert "init" in outcome.out


GROUPS = [(), ("schema",), ("data",), ("token",), ("allow",), ("audit",), ("ledger",)]


@pytest.mark.parametrize("options", [("--json",), ("--help", "--json"), ("--json", "-h")])
@pytest.mark.parametrize("group", GROUPS)
def test_every_group_prints_its_help_as_json(
    dpxplain: Any, group: tuple[str, ...], options: tuple[str, ...]
) -> None:
    outcome = dpxplain(*group, *options)
    assert (outcome.code, outcome.err) == (0, "")
    printed = json.loads(outcome.out)
    assert printed["kind"] == "help"
    assert " ".join(["Usage: dpxplain", *group]) in printed["text"]
    assert not printed["text"].startswith("{")


@pytest.mark.parametrize("words", [("--json", "budget"), ("token", "--json", "list")])
def test_json_before_a_command_is_refused_rather_than_ignored(dpxplain: Any, words: tuple[str, ...]) -> None:
    outcome = dpxplain(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert json.loads(outcome.err)["remedy"] == "Write it after the command."


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(dpxplain: Any, command: str) -> None:
    outcome = dpxplain(*command.split(), "--help")
    assert outcome.code == 0
    assert "Example" in outcome.out
    assert f"dpxplain {command}" in outcome.out
    assert "--json" in outcome.out


def test_version(dpxplain: Any) -> None:
    assert dpxplain("--version").out == f"dpxplain {dpx.__version__} (ledger format {FORMAT})\n"
    versions = {"version": dpx.__version__, "ledger_format": FORMAT}
    assert json.loads(dpxplain("--version", "--json").out) == versions


def test_programs_with_different_ledger_formats_have_different_versions() -> None:
    assert (FORMAT, dpx.__version__) == (9, "0.2.0"), "a new format needs a new version of the program"


@pytest.mark.process
def test_help_brings_in_nothing_heavy() -> None:
    code = (
        "import sys; from dpxplain.cli import run; run(['--help']);"
        "print(sorted({'duckdb','opendp','numpy','sqlglot','sqlalchemy','pydantic'} & sys.modules.keys()))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip().endswith("[]")
