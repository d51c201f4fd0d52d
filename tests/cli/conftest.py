"""A small data set in an empty folder, and the command line run inside this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dpxplain as dpx
from dpxplain.cli import command_line, run

# Typer builds the same tree of commands anew at every run, which takes longer than most commands.
command_line.get_command = cache(command_line.get_command)

BY_SEX = "SELECT sex, AVG(pay) FROM people GROUP BY sex"

SCHEMA = """
[table]
name = "people"
source = "people.csv"

[privacy]
rho = 5.0

[columns.sex]
values = ["Female", "Male"]

[columns.race]
values = ["White", "Black or Brown", "A / B"]
null = true

[columns.age]
edges = [0, 30, 60]

[columns.pay]
bounds = [0, 100]
"""


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error as JSON: the last line, since a price may stand before it."""
        return json.loads(self.err.splitlines()[-1])


Dpxplain = Callable[..., Outcome]


def _fill(folder: Path) -> None:
    """A table of 900 made-up rows with its schema under the default name."""
    races = ["White", "Black or Brown", "A / B", ""]
    rows = [f"{'Male' if i % 3 else 'Female'},{races[i % 4]},{i % 60 + 1},{i % 100}" for i in range(900)]
    (folder / "people.csv").write_text("\n".join(["sex,race,age,pay", *rows]) + "\n")
    (folder / "dpxplain.toml").write_text(SCHEMA)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with data and schema."""
    for name in ("DPXPLAIN_DATA", "DPXPLAIN_SCHEMA", "DPXPLAIN_WORKSPACE", "DPXPLAIN_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    _fill(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def after_one_query(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which one query was answered, made once because answering takes a while."""
    folder = tmp_path_factory.mktemp("asked")
    _fill(folder)
    with dpx.connect(
        folder / "people.csv", folder / "dpxplain.toml", workspace=folder / ".dpxplain"
    ) as session:
        session.query(BY_SEX, rho=0.5)
    return folder / ".dpxplain"


@pytest.fixture
def asked(dpxplain: Dpxplain, folder: Path, after_one_query: Path) -> Dpxplain:
    """The command line after one query for ρ 0.5."""
    shutil.copytree(after_one_query, folder / ".dpxplain")
    return dpxplain


@pytest.fixture
def dpxplain(folder: Path, capfd: pytest.CaptureFixture[str]) -> Dpxplain:
    """`dpxplain("query", "SELECT ...", "--rho", "1")` in the folder."""

    def call(*words: str) -> Outcome:
        capfd.readouterr()
        code = run(words)
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return call
