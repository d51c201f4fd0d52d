"""SQL that counts how a source's rows fit the declarations. The counts are for the curator, NOT private."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from dpxplain.engines.dialect import Dialect
from dpxplain.engines.encoding import Encoding, Rows
from dpxplain.model.column import LARGEST_BOUND, Column, position
from dpxplain.model.schema_fit import (
    ColumnFigures,
    NumberFigures,
    SourceFigures,
)
from dpxplain.sql.encoded_names import code_column

_MOST_TEXTS = 500  # undeclared values listed per column, the most frequent first

FetchAll = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs a SELECT over `checked`, the table of `checked_rows`."""


def checked_rows(encoding: Encoding) -> Rows:
    """The rows to count: codes, numbers, and the texts that do not fit.

    Each name ends in the column's number in the schema, as the names of encoded columns do.
    """
    schema, encoded = encoding.schema, encoding.columns()
    derived = [name for name, column in schema.columns.items() if column.expression is not None]
    parts = encoded if derived else {name: sql for name, sql in encoded.items() if name.startswith("code_")}
    for number, (name, column) in enumerate(schema.columns.items()):
        if column.expression is None:
            # The code's SQL is repeated, because the source may have a column with the code's name.
            code, source = encoded.get(code_column(schema, name), ""), encoding.dialect.quote(name)
            value = encoding.number(name) if column.is_numeric else ""
            parts = parts | _fit_of(encoding.dialect, number, column, source, value, code)
    if schema.privacy.unit != "row":
        unit = encoding.unit()
        parts["person"] = f"CASE WHEN {encoding.dialect.known_text(unit)} THEN {unit} END"
    listed = ", ".join(f"{sql} AS {name}" for name, sql in parts.items())
    rows = Rows(f"SELECT {listed} FROM {encoding.source}", tuple(parts))
    for name in derived:
        column, number = schema.columns[name], list(schema.columns).index(name)
        value, code = encoding.derived_number(column), f"code_{number}"
        figures = _fit_of(encoding.dialect, number, column, "derived", value, code)
        rows = encoding.with_one_derived(name, rows, figures)
    return rows


def _fit_of(
    dialect: Dialect, number: int, column: Column, source: str, value: str, code: str
) -> dict[str, str]:
    """SQL by name: whether a value is NULL, its number if it has one, and its text if it does not fit."""
    if column.is_numeric:
        is_nan = dialect.is_nan(value)
        odd = f"{source} IS NOT NULL AND {value} IS NULL"
        parts = {
            f"number_{number}": f"CASE WHEN NOT {is_nan} THEN {value} END",
            f"null_{number}": f"{source} IS NULL OR COALESCE({is_nan}, FALSE)",
        }
    else:
        odd = f"{source} IS NOT NULL AND {code} = 0"
        parts = {f"null_{number}": f"{source} IS NULL"}
    return parts | {f"odd_{number}": f"CASE WHEN {odd} THEN CAST({source} AS {dialect.text}) END"}


def fit_figures(encoding: Encoding, fetch: FetchAll) -> SourceFigures:
    schema = encoding.schema
    counts = {"rows": "count(*)"}
    for number, column in enumerate(schema.columns.values()):
        counts |= {f"{key}_{number}": sql for key, sql in _counts(encoding.dialect, number, column).items()}
    has_unit = schema.privacy.unit != "row"
    if has_unit:
        counts["units"] = "count(person)"
    listed = ", ".join(f"{sql} AS {name}" for name, sql in counts.items())
    figures = dict(zip(counts, fetch(f"SELECT {listed} FROM checked")[0], strict=True))
    units = (
        "SELECT n, count(*) FROM (SELECT count(*) AS n FROM checked WHERE person IS NOT NULL "
        "GROUP BY person) AS sizes GROUP BY n ORDER BY n"
    )
    return SourceFigures(
        rows=figures["rows"],
        without_unit=figures["rows"] - figures["units"] if has_unit else 0,
        rows_per_unit=dict(fetch(units)) if has_unit else {},
        columns={
            name: _column(fetch, number, column, figures)
            for number, (name, column) in enumerate(schema.columns.items())
        },
    )


def _counts(dialect: Dialect, number: int, column: Column) -> dict[str, str]:
    """Aggregates over one column."""
    counts = {"nulls": _count_if(f"null_{number}"), "odd": f"count(odd_{number})"}
    if not column.is_numeric:
        return counts
    literal, value = dialect.number_literal, f"number_{number}"
    finite = f"CASE WHEN abs({value}) < {literal(math.inf)} THEN {value} END"
    usual = f"CASE WHEN abs({value}) <= {literal(LARGEST_BOUND)} THEN {value} END"  # others could overflow
    counts |= {"low": f"min({finite})", "high": f"max({finite})", "mean": f"avg({usual})"}
    if column.bounds is not None:
        low, high = (literal(_place(bound)) for bound in column.bounds)
        clamped = f"CASE WHEN {value} IS NOT NULL THEN least(greatest({value}, {low}), {high}) END"
        counts |= {
            "below": _count_if(f"{value} < {low}"),
            "above": _count_if(f"{value} > {high}"),
            "clamped_mean": f"avg({clamped})",
        }
    if column.edges is not None:
        first, last = (literal(_place(edge)) for edge in (column.edges[0], column.edges[-1]))
        counts |= {
            "under_edges": _count_if(f"{value} <= {first}"),
            "at_lowest_edge": _count_if(f"{value} = {first}"),
            "over_edges": _count_if(f"{value} > {last}"),
        }
    return counts


def _count_if(condition: str) -> str:
    return f"count(CASE WHEN {condition} THEN 1 END)"


def _column(fetch: FetchAll, number: int, column: Column, figures: Mapping[str, Any]) -> ColumnFigures:
    def of(name: str) -> Any:
        return figures.get(f"{name}_{number}")

    texts: Sequence[tuple[Any, ...]] = []
    if of("odd"):
        texts = fetch(
            f"SELECT odd_{number}, count(*) FROM checked WHERE odd_{number} IS NOT NULL "
            f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {_MOST_TEXTS}"
        )
    codes: Sequence[tuple[Any, ...]] = []
    if column.domain is not None:
        codes = fetch(f"SELECT code_{number}, count(*) FROM checked GROUP BY 1")
    numbers = None
    if column.is_numeric:
        numbers = NumberFigures(
            low=of("low"),
            high=of("high"),
            mean=of("mean"),
            below=of("below") or 0,
            above=of("above") or 0,
            clamped_mean=of("clamped_mean"),
            under_edges=of("under_edges") or 0,
            at_lowest_edge=of("at_lowest_edge") or 0,
            over_edges=of("over_edges") or 0,
        )
    return ColumnFigures(
        rows=figures["rows"],
        nulls=of("nulls"),
        codes=dict(codes),
        odd=of("odd"),
        odd_texts=tuple((text, rows) for text, rows in texts),
        numbers=numbers,
    )


def _place(end: Any) -> float:
    """A declared edge or bound as a number; a date as its place on the number line."""
    return position(end) if isinstance(end, date) else end
