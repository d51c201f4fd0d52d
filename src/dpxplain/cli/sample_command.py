"""`dpxplain sample`: writes made-up flights to try everything on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpxplain.cli import options as o
from dpxplain.cli.screen import note, show_json, suggest


def sample(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write: a name that ends in .csv or .parquet.")
    ] = Path("flights.csv"),
    rows: Annotated[int, typer.Option("--rows", min=1, max=10_000_000, help="How many flights.")] = 50_000,
    as_json: o.Json = False,
) -> None:
    """Write a file of made-up flights, the same each time, to try DPXPlain on.

    \b
    Example:
      [cyan]dpxplain sample flights.csv[/cyan]
    """
    from dpxplain.datasets.flights import write

    write(file, rows)
    if as_json:
        show_json({"kind": "sample", "written": str(file), "rows": rows})
        return
    note(f"Wrote {rows:,} made-up flights to {file}.")
    suggest("Next, declare what is public about them:", "schema", "init", str(file))
