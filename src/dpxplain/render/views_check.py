"""The view of a schema check: one line of shares per column, then every warning with its remedy."""

from __future__ import annotations

from typing import Any

from dpxplain.render.layout import MOST_ROWS, TextColumn, TextGrid, View, view
from dpxplain.results.schema_check import SCHEMA_FIT_NOT_PRIVATE, SchemaCheck, SchemaWarning
from dpxplain.words import numbers

_SHARES = {
    "NULL": "null",
    "in no group": "outside",
    "not a number": "not_numbers",
    "capped low": "clamped_low",
    "capped high": "clamped_high",
}


@view.register
def of_schema_check(check: SchemaCheck, most: int = MOST_ROWS) -> View:
    notes = [part for i, w in enumerate(check.warnings, 1) for part in warning_lines(i, w)]
    return View(
        title=f"Schema check of {numbers.clean(check.schema.table.name)}",
        warning=SCHEMA_FIT_NOT_PRIVATE,
        lead=(check_in_words(check),),
        grid=shares_grid(check),
        lines=tuple(notes),
    )


def check_in_words(check: SchemaCheck) -> str:
    """The verdict in one sentence."""
    rows = f"{check.rows:,} rows read."
    if check.fits:
        return f"{rows} All of them fit the schema."
    count = len(check.warnings)
    return f"{rows} {count} warning{'' if count == 1 else 's'}."


def shares_grid(check: SchemaCheck) -> TextGrid:
    """The shares of rows, per column. A kind of share that no column has is left out."""
    records = check.records()
    shares = {name: key for name, key in _SHARES.items() if any(r[key] is not None for r in records)}
    columns = (
        TextColumn("column"),
        *(TextColumn(name, "right") for name in shares),
        TextColumn("values seen", "right"),
    )
    rows = (
        (numbers.clean(record["column"]), *(_share(record[key]) for key in shares.values()), _seen(record))
        for record in records
    )
    return TextGrid(columns, tuple(rows))


def warning_lines(place: int, warning: SchemaWarning) -> list[str]:
    """A warning as lines of text: the message, the remedy and the TOML."""
    lines = [
        f"{place}. {numbers.clean(f'{warning.where}: {warning.message}')}",
        f"   {numbers.clean(warning.remedy)}",
    ]
    return lines + [f"       {line}" for line in escaped(warning.toml).splitlines()]


def escaped(toml: str) -> str:
    """TOML that means the same, without characters that move the cursor or hide text.

    >>> escaped('[columns.g]\\nvalues = ["a\\u202eb"]')
    '[columns.g]\\nvalues = ["a\\\\u202eb"]'
    """
    return "".join(
        c if c == "\n" or c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
        for c in toml
    )


def _share(share: float | None) -> str:
    """
    >>> _share(None), _share(0.0), _share(0.00004), _share(0.0312), _share(1.0)
    ('-', '0', '0.004%', '3.1%', '100%')
    """
    if share is None:
        return "-"
    return f"{float(f'{share * 100:.2g}') if share < 0.995 else 100:.12g}%" if share else "0"


def _seen(record: dict[str, Any]) -> str:
    return "-" if record["values"] is None else f"{record['values_seen']:,} of {record['values']:,}"
