"""Completion as a shell asks for it: bash loads the script and presses Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpxplain.cli import run
from dpxplain.cli.command_line import COMPLETING

PRESS_TAB = """
eval "$(_DPXPLAIN_COMPLETE=source_bash dpxplain)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_dpxplain_completion dpxplain
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(words: list[str], folder: Path) -> list[str]:
    """What bash offers for the last word."""
    launcher = folder / "bin" / "dpxplain"
    launcher.parent.mkdir(exist_ok=True)
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from dpxplain.cli import main; main()" "$@"\n')
    launcher.chmod(0o755)
    outcome = subprocess.run(
        ["bash", "--norc", "-c", PRESS_TAB, "bash", "dpxplain", *words],
        cwd=folder,
        env=os.environ | {"PATH": f"{launcher.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stderr == ""
    return outcome.stdout.split()


@pytest.mark.process
def test_bash_completes_commands_and_the_groups_of_the_latest_answer(asked: Any, folder: Path) -> None:
    assert offered(["pre"], folder) == ["prepare", "preview"]
    assert offered(["why", "Male", "F"], folder) == ["Female"]


@pytest.mark.parametrize(
    ("words", "incomplete", "names"),
    [
        (["schema"], "c", ["check"]),
        (["explain", "Male", "Female"], "--attr", ["--attributes"]),
        (["why"], "", ["Female", "Male"]),
        (["why", "--answer", "99"], "", []),
        (["why", "--schema", "none.toml"], "", []),
        (["explain", "--attributes"], "", ["sex", "race", "age"]),
        (["explain", "--attributes"], "sex,", ["sex,race", "sex,age"]),
        (["explain", "--example", "adult", "--attributes"], "ed", ["education"]),
        (["budget", "--example"], "", ["adult"]),
    ],
)
def test_what_is_offered_is_public_and_fits(
    asked: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    incomplete: str,
    names: list[str],
) -> None:
    monkeypatch.setenv(COMPLETING, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(["dpxplain", *words, incomplete]))
    monkeypatch.setenv("COMP_CWORD", str(len(words) + 1))
    capfd.readouterr()
    assert run([]) == 0
    out, err = capfd.readouterr()
    assert (out.split(), err) == (names, "")


def test_labels_complete_and_name_the_groups_that_the_where_leaves(
    dpxplain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    schema = (folder / "dpxplain.toml").read_text()
    labels = 'value_labels = { White = "Weiss", "A / B" = "Gemischt", "Black or Brown" = "Schwarz" }\n'
    (folder / "dpxplain.toml").write_text(schema.replace("null = true\n", f"null = true\n{labels}"))
    sql = "SELECT race, COUNT(*) FROM people WHERE race <> 'A / B' GROUP BY race"
    asked = dpxplain("query", sql, "--rho", "1", "--yes", "--json")
    assert [row["race"] for row in asked.json["rows"]] == ["White", "Black or Brown"]
    assert dpxplain("why", "Weiss", "Schwarz").code == 0
    refused = dpxplain("why", "Weiss", "Gemischt")
    assert refused.code == 2
    assert "The WHERE condition excludes A / B" in refused.err
    monkeypatch.setenv(COMPLETING, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "dpxplain why ")
    monkeypatch.setenv("COMP_CWORD", "2")
    capfd.readouterr()
    assert run([]) == 0
    assert capfd.readouterr().out.split() == ["White", "Weiss", "Schwarz"]


@pytest.mark.process  # Typer asks bash for its version
def test_every_shell_gets_its_script(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv(COMPLETING, f"source_{shell}")
        assert run([]) == 0
        assert COMPLETING in capfd.readouterr().out
