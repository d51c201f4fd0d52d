"""Finds the view of any result by its type. The views of a budget, a history, a schema and its check are
defined here, because they do not need the results of queries and so print quickly.
"""

from __future__ import annotations

from typing import Any

from dpxplain.model.charge import Budget, Entry
from dpxplain.model.column import Column as DeclaredColumn
from dpxplain.model.column import edge_text
from dpxplain.model.schema import Schema
from dpxplain.privacy.accounting import epsilon, epsilons
from dpxplain.render.layout import TextColumn, TextGrid, View, view
from dpxplain.results.schema_check import SCHEMA_FIT_NOT_PRIVATE, SchemaCheck, SchemaWarning
from dpxplain.words import numbers, prices

_MOST_VALUES = 12
_MOST_LINES = 1_000  # of a schema or a history


def view_of(result: object) -> View:
    """The view of a result.

    The modules imported here register their views. They are imported only when needed, as that takes time.
    """
    if not isinstance(result, Budget | list | Schema | SchemaCheck):
        from dpxplain.render import views_prices, views_results  # noqa: F401
    return view(result)


@view.register
def of_budget(budget: Budget) -> View:
    in_epsilon = epsilons(budget)
    amounts = (
        ("spent", budget.spent, in_epsilon.spent),
        ("left", budget.remaining, in_epsilon.remaining),
        ("limit", budget.limit, in_epsilon.limit),
    )
    rows = tuple((name, f"{rho:.6g}", numbers.at_most(of_rho)) for name, rho, of_rho in amounts)
    share = budget.spent / budget.limit if budget.limit else 1.0
    return View(
        title="Privacy budget",
        lead=(f"{numbers.rho(budget.spent)} of {budget.limit:.6g} is spent ({_spent_share(share)}).",),
        grid=TextGrid(
            (
                TextColumn(""),
                TextColumn("ρ", "right"),
                TextColumn(f"ε at {prices.delta_text(budget.delta)}", "right"),
            ),
            rows,
        ),
        lines=prices.budget_notes(budget.discovered_delta, budget.total_delta),
    )


def _spent_share(share: float) -> str:
    """The share in percent; 100% only if nothing is left.

    >>> _spent_share(0.25), _spent_share(0.996), _spent_share(1 - 1e-16)
    ('25%', 'more than 99%', '100%')
    """
    return "more than 99%" if 0.995 <= share < 1 - 1e-9 else f"{share:.0%}"


@view.register(list)
def of_history(entries: list[Entry], most: int = _MOST_LINES) -> View:
    latest = entries[-most:]
    has_versions = len({e.version for e in entries}) > 1  # answers of different data are not comparable
    rows = tuple(
        (
            str(e.id),
            *((_version(e),) if has_versions else ()),
            f"{e.time:%Y-%m-%d %H:%M}",
            e.kind,
            numbers.clean(e.description),
            f"{e.rho:.6g}",
            f"{e.total_rho:.6g}",
            "interrupted or running" if e.state == "reserved" else e.state,
        )
        for e in latest
    )
    columns = (
        TextColumn("no.", "right"),
        *((TextColumn("data", wrap=True),) if has_versions else ()),
        TextColumn("time (UTC)", wrap=has_versions),  # or there is no room for the versions
        TextColumn("kind"),
        TextColumn("asked", wrap=True),
        TextColumn("ρ", "right"),
        TextColumn("total", "right"),
        TextColumn("state"),
    )
    more = numbers.more(len(entries) - len(latest), "earlier entry")
    return View(
        title="History",
        lead=() if rows else ("Nothing was asked yet.",),
        grid=TextGrid(columns, rows, more=more) if rows else None,
    )


def _version(entry: Entry) -> str:
    return "not recorded" if entry.version is None else numbers.clean(entry.version) or "unnamed"


@view.register
def of_schema(schema: Schema) -> View:
    declared = list(schema.columns.items())
    has_meanings = any(column.meaning for _, column in declared)
    rows = tuple(
        (
            numbers.clean(name),
            *((numbers.clean(column.meaning),) if has_meanings else ()),
            _domain(column),
            _range(column),
        )
        for name, column in declared[:_MOST_LINES]
    ) + tuple(
        (numbers.clean(name), *(("",) if has_meanings else ()), "not known: dpxplain discover", "")
        for name in schema.unknown
        if name not in schema.columns
    )
    meaning = (TextColumn("meaning", wrap=True),) if has_meanings else ()
    columns = (TextColumn("column"), *meaning, TextColumn("values or bins", wrap=True), TextColumn("numbers"))
    privacy = schema.privacy
    person = f"all rows of one {numbers.clean(privacy.unit)}, of which {privacy.max_rows} are used"
    protected = "one row" if privacy.unit == "row" else person
    return View(
        title=f"Schema of {numbers.clean(schema.table.name)}",
        lead=("What the curator declared; all of it is public.",),
        grid=TextGrid(columns, rows, more=numbers.more(len(declared) - _MOST_LINES, "column")),
        lines=(
            f"Budget: {numbers.rho(privacy.rho)}, which is ε = "
            f"{numbers.at_most(epsilon(privacy.rho, privacy.delta))} at {prices.delta_text(privacy.delta)}. "
            f"Protected: {protected} ({privacy.neighbours} neighbours).",
            *((prices.DISCOVERY_DELTA.format(privacy.delta),) if schema.unknown else ()),
        ),
    )


def _domain(column: DeclaredColumn) -> str:
    """The declared values, as many as fit into two lines or so."""
    domain = column.domain
    if domain is None:
        return ""
    text = ", ".join(numbers.clean(column.text(value)) for value in domain[:_MOST_VALUES])
    hidden = len(domain) - _MOST_VALUES
    return f"{text} and {hidden:,} more" if hidden > 0 else text


def _range(column: DeclaredColumn) -> str:
    if column.bounds is None:
        return ""
    return " to ".join(map(edge_text, column.bounds)) + (
        "" if column.step is None else f" by {column.step:.15g}"
    )


# -- Schema checks -----------------------------------------------------------------------------------------

_SHARES = {
    "NULL": "null",
    "in no group": "outside",
    "not a number": "not_numbers",
    "capped low": "clamped_low",
    "capped high": "clamped_high",
}


@view.register
def of_schema_check(check: SchemaCheck) -> View:
    notes = [part for i, w in enumerate(check.warnings, 1) for part in warning_lines(i, w)]
    return View(
        title=f"Schema check of {numbers.clean(check.schema.table.name)}",
        warning=SCHEMA_FIT_NOT_PRIVATE,
        lead=(check_in_words(check),),
        grid=shares_grid(check),
        lines=tuple(notes),
    )


def check_in_words(check: SchemaCheck) -> str:
    """The number of rows and warnings in one or two sentences."""
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
