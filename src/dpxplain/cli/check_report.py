"""Prints a schema check: a table of shares, then each warning with its remedy and the TOML to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpxplain.cli.screen import OUT, warn

if TYPE_CHECKING:
    from dpxplain.results.check_warnings import SchemaWarning
    from dpxplain.results.schema_check import SchemaCheck

_LONGEST = 400  # characters of TOML shown; --json has all of it


def print_review(review: SchemaCheck) -> None:
    from dpxplain.render.views_check import check_in_words, shares_grid
    from dpxplain.results.schema_check import NOT_PRIVATE

    warn(NOT_PRIVATE)
    OUT.print()
    grid = shares_grid(review)
    troubled = {warning.where.removeprefix("columns.") for warning in review.warnings}
    table = Table(title="How the rows fit", title_justify="left")
    for column in grid.columns:
        table.add_column(Text(column.name), justify=column.align)
    for row in grid.rows:
        style = "yellow" if row[0] in troubled else ""
        table.add_row(*(Text(cell, "dim" if cell in ("-", "0") else style) for cell in row))
    OUT.print(table)
    OUT.print(check_in_words(review), style="bold green" if review.fits else "bold yellow")
    for place, warning in enumerate(review.warnings, 1):
        _print_warning(place, warning)


def _print_warning(place: int, warning: SchemaWarning) -> None:
    OUT.print()
    OUT.print(Text(f"{place}. {warning.where}", "bold yellow"))
    OUT.print(Padding(Text(warning.message), (0, 0, 0, 3), expand=False))
    OUT.print(Padding(Text(warning.remedy, "italic"), (0, 0, 0, 3), expand=False))
    if warning.toml:
        toml = warning.toml if len(warning.toml) <= _LONGEST else f"{warning.toml[:_LONGEST]} ..."
        OUT.print(Padding(Text(toml, "cyan"), (0, 0, 0, 7), expand=False))
