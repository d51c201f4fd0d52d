"""How a source fits its schema, as warnings with remedies. For the curator: NOT private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpxplain.model.display import Displayed, Record, Tabular
from dpxplain.model.public import public, public_fields
from dpxplain.model.schema import Column, Schema
from dpxplain.model.schema_fit import ColumnFigures, SourceFigures
from dpxplain.results.check_warnings import SchemaWarning, column_warnings, unit_warnings

NOT_PRIVATE = (
    "NOT PRIVATE: these figures and examples are exact, without noise. They are for the curator only. Do not "
    "share them."
)


@public(
    "ColumnShares",
    "column rows null outside not_numbers clamped_low clamped_high values values_seen",
    description="Shares of all rows, computed from the rows; null where the column declares nothing of that "
    "kind.",
)
@dataclass(frozen=True)
class ColumnShares:
    """Exact shares of all rows; None where the column declares nothing of that kind. NOT private."""

    column: str
    rows: int
    null: float
    outside: float | None
    not_numbers: float | None
    clamped_low: float | None
    clamped_high: float | None
    values: int | None
    values_seen: int | None


@dataclass(frozen=True)
class SchemaCheck(Displayed, Tabular):
    """The result of a schema check: `warnings` is empty if all is well; `records` has one line per column."""

    schema: Schema
    source: str
    figures: SourceFigures
    warnings: tuple[SchemaWarning, ...]

    @classmethod
    def of(cls, schema: Schema, source: object, figures: SourceFigures) -> SchemaCheck:
        """Makes the check from the figures of a source."""
        return cls(schema, _named(source), figures, tuple(_warnings(schema, figures)))

    @property
    def rows(self) -> int:
        """The number of rows read."""
        return self.figures.rows

    @property
    def fits(self) -> bool:
        return not self.warnings

    @property
    def private(self) -> bool:
        return False

    def records(self) -> list[Record]:
        return [
            public_fields(_shares(name, self.schema.columns[name], figures))
            for name, figures in self.figures.columns.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """The whole check as a dict for JSON."""
        units = self.figures.rows_per_unit
        return {
            "private": self.private,
            "warning": NOT_PRIVATE,
            "rows": self.rows,
            "rows_without_unit": self.figures.without_unit,
            "units": sum(units.values()) or None,
            "fits": self.fits,
            "figures": self.records(),
            "warnings": [public_fields(warning) for warning in self.warnings],
        }


def _named(source: object) -> str:
    if isinstance(source, list | tuple):
        return ", ".join(map(_named, source))
    return str(source) if isinstance(source, str | Path) else f"the {type(source).__name__}"


def _warnings(schema: Schema, figures: SourceFigures) -> Iterator[SchemaWarning]:
    if not figures.rows:
        yield SchemaWarning(
            "table.source",
            "empty",
            "The source has no rows.",
            "Check that it is the right file.",
            "",
            0,
            None,
        )
        return
    yield from unit_warnings(schema.privacy, figures)
    for name, column in figures.columns.items():
        yield from column_warnings(name, schema.columns[name], column)


def _shares(name: str, column: Column, figures: ColumnFigures) -> ColumnShares:
    numbers = figures.numbers
    undeclared = figures.codes.get(0, 0) if column.domain is not None else None
    seen_codes = [code for code, rows in figures.codes.items() if code and rows]
    below, above = (numbers.below, numbers.above) if numbers and column.bounds else (None, None)
    return ColumnShares(
        column=name,
        rows=figures.rows,
        null=figures.nulls / figures.rows if figures.rows else 0.0,
        outside=_share(undeclared, figures.rows),
        not_numbers=None if numbers is None else _share(figures.odd, figures.rows),
        clamped_low=_share(below, figures.rows),
        clamped_high=_share(above, figures.rows),
        values=None if column.domain is None else len(column.domain),
        values_seen=None if column.domain is None else len(seen_codes),
    )


def _share(rows: int | None, of: int) -> float | None:
    return None if rows is None else rows / of if of else 0.0
