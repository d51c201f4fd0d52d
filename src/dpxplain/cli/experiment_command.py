"""`dpxplain experiment`: reproduces the paper's tables and figures; needs a clone of the repository."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.errors import BadRequest


def experiment(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Experiments by name, 'all', or 'list'.")
    ],
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Repetitions; default: 10, as in the paper.")
    ] = None,
    minutes: Annotated[
        float,
        typer.Option("--minutes", min=0.1, max=600.0, help="Start no new part after this many minutes."),
    ] = 55.0,
    short: Annotated[
        bool, typer.Option("--short", help="Small tables and few repetitions, for a quick look.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="The folder for CSVs, charts and report.html."),
    ] = None,
    cps: Annotated[
        Path | None, typer.Option("--cps", metavar="FILE", help="A real IPUMS-CPS extract (CSV).")
    ] = None,
    trips: Annotated[
        list[Path] | None,
        typer.Option("--trips", metavar="FILE", help="Real TLC trip records (parquet); repeatable."),
    ] = None,
    zones: Annotated[
        Path | None, typer.Option("--zones", metavar="FILE", help="The TLC zone lookup, with --trips.")
    ] = None,
    as_json: o.Json = False,
) -> int:
    """Reproduce the paper's tables and figures, with our results beside them. Works only in a Git clone.

    Noise comes from seeds, and tables are generated or public, so it spends no budget. It keeps finished
    parts: an interrupted run resumes. docs/experiments.md has the results.

    \b
    Example:
      [cyan]dpxplain experiment list[/cyan]
      [cyan]dpxplain experiment precision --runs 20[/cyan]
    """
    root = _clone()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    words = [] if names == ["all"] else list(names)
    for option, value in (
        ("--runs", runs),
        ("--minutes", minutes),
        ("--out", out),
        ("--cps", cps),
        ("--zones", zones),
    ):
        words += [] if value is None else [option, str(value)]
    words += ["--trips", *map(str, trips)] if trips else []
    words += ["--short"] if short else []
    words += ["--json"] if as_json else []
    try:
        outcome: int = import_module("experiments.__main__").main(words)
    except ModuleNotFoundError as missing:
        raise BadRequest(
            f"The experiments need the package {missing.name!r}.",
            remedy="In the clone: pip install --constraint constraints.txt '.[experiments]'",
        ) from None
    return outcome


def _clone() -> Path:
    """The repository that this package runs from, or the one that contains the current folder."""
    here = Path.cwd()
    for root in (Path(__file__).resolve().parents[3], here, *here.parents):
        if (root / "experiments" / "__main__.py").is_file() and _is_ours(root / "pyproject.toml"):
            return root
    raise BadRequest(
        "The installed package does not include the experiments. They need a clone of the repository.",
        remedy="Run the command inside a clone, or run make experiments there.",
    )


def _is_ours(project: Path) -> bool:
    return project.is_file() and 'name = "dpxplain"' in project.read_text(encoding="utf-8", errors="replace")
