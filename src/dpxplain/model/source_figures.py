"""Figures of how a source's rows fit the declarations. True values for the curator: NOT private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ColumnFigures:
    """How one declared column's rows fit; all of it is computed from rows."""

    rows: int
    nulls: int  # NULL, or NaN in a numeric column
    codes: Mapping[int, int]  # rows by position in the declared domain, from 1; 0: undeclared
    odd: int  # filled rows that are no declared value, or no number where one is declared
    odd_texts: tuple[tuple[str, int], ...]  # the most frequent of them, with their rows
    numbers: NumberFigures | None = None

    @property
    def filled(self) -> int:
        return self.rows - self.nulls


@dataclass(frozen=True)
class NumberFigures:
    """The numbers of one numeric column against its bounds and edges."""

    low: float | None
    high: float | None
    mean: float | None
    below: int  # rows below the bounds, clamped to the lower one
    above: int
    clamped_mean: float | None
    under_edges: int  # rows at or below the lowest edge, outside every bin
    at_lowest_edge: int  # of these, exactly on it
    over_edges: int


@dataclass(frozen=True)
class SourceFigures:
    """How a source fits a schema."""

    rows: int
    without_unit: int  # rows that name no privacy unit
    rows_per_unit: Mapping[int, int]  # number of units by their number of rows; empty where a row is the unit
    columns: Mapping[str, ColumnFigures]
