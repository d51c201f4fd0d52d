"""What true values show beside released ones, for the curator: tables of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpxplain.model.display import Record
from dpxplain.render import words
from dpxplain.render.layout import MOST_ROWS, Column, Grid, View, view
from dpxplain.results import formats
from dpxplain.results.base import Truth

# Said already by another column: the interval, or the influence that it divides.
_LEFT_OUT = ("noise_scale", "relative_influence_low", "relative_influence_high", "rank_covered")
_NAMES = {"true_influence": "true influence", "true_rank": "true rank", "influence_covered": "covered"}
_GAPS = ("gap_without_low", "gap_without_high", "true_gap_without", "gap_without_covered")


@view.register
def of_truth(truth: Truth, most: int = MOST_ROWS) -> View:
    first, *further = truth_grids(truth.rows[:most], words.more(len(truth.rows) - most, "row"))
    return View(
        title=truth.title,
        warning=words.CURATOR_ONLY,
        grid=first,
        further=tuple(further),
        shaped_by=truth.shaped_by,
        notes=("All rows: to_pandas(), to_csv().",) if len(truth.rows) > most else (),
    )


@dataclass(frozen=True)
class Cell:
    text: str
    align: Literal["left", "right"]


def truth_grids(records: list[Record], more: str = "") -> list[Grid]:
    """One table; what a table says about the gap has its own, so that both have room."""
    has_gaps = any(record.get(_GAPS[0]) is not None for record in records)
    first = [{name: part for name, part in record.items() if name not in _GAPS} for record in records]
    if not has_gaps:
        return [_grid([truth_cells(record) for record in first], more)]
    gaps = [_gap_cells(record) for record in records]
    return [_grid([truth_cells(record) for record in first], more), _grid(gaps, more)]


def _grid(rows: list[dict[str, Cell]], more: str) -> Grid:
    first = rows[0] if rows else {}
    return Grid(
        tuple(Column(formats.clean(n), cell.align, wrap=cell.align == "left") for n, cell in first.items()),
        tuple(tuple(cell.text for cell in row.values()) for row in rows),
        more=more,
    )


def _gap_cells(record: Record) -> dict[str, Cell]:
    low, high, true, covered = (record[name] for name in _GAPS)
    known = low is not None
    return {
        "predicate": _cell("predicate", record["predicate"], None),
        "without them": Cell(formats.interval(low, high) if known else "unknown", "right"),
        "truly without them": Cell(
            "no rows left" if true is None else formats.number(true, high - low if known else None), "right"
        ),
        "covered": _cell("covered", covered, None),
    }


def truth_cells(record: Record) -> dict[str, Cell]:
    """
    >>> cells = truth_cells({"sex": "F", "n": 10.04, "low": 9.0, "high": 11.2, "true": 10.0, "covered": True})
    >>> {name: cell.text for name, cell in cells.items()}
    {'sex': 'F', 'n': '10.0', 'interval': '9.0 to 11.2', 'true': '10.0', 'covered': 'yes'}
    """
    cells: dict[str, Cell] = {}
    spread = _spread(record)
    for name, value in record.items():
        stem = name.removesuffix("low")
        if name in _LEFT_OUT or (name.endswith("high") and f"{name.removesuffix('high')}low" in record):
            continue
        if name.endswith("low") and f"{stem}high" in record:
            high = record[f"{stem}high"]
            text = formats.ranks(value, high) if stem == "rank_" else formats.interval(value, high)
            cells[stem.rstrip("_") or "interval"] = Cell(text, "right")
        else:
            cells[_NAMES.get(name, name)] = _cell(name, value, spread)
    if "influence_covered" in record:
        misses = [n for n in ("influence", "rank") if not record[f"{n}_covered"]]
        cells["covered"] = Cell(f"NO: {' and '.join(misses)}" if misses else "yes", "left")
    return cells


def true_texts(record: Record) -> tuple[str, str]:
    """The true value or influence of a row as text, and the true gap without its rows where that is told."""
    cells = truth_cells({name: value for name, value in record.items() if name not in _GAPS})
    true = next(
        name for name in reversed(cells) if name.rstrip("_") in ("true", "true influence", "influence")
    )
    gap = _gap_cells(record)["truly without them"].text if record.get(_GAPS[0]) is not None else ""
    return cells[true].text, gap


def _spread(record: Record) -> float | None:
    """The width of the released interval, which says how many digits are worth showing."""
    for stem in ("", "influence_"):
        if f"{stem}low" in record and f"{stem}high" in record:
            return float(record[f"{stem}high"] - record[f"{stem}low"])
    return None


def _cell(name: str, value: object, spread: float | None) -> Cell:
    if name.endswith("covered"):
        return Cell("-" if value is None else "yes" if value else "NO", "left")
    if value is None:
        return Cell("-" if name == "true" else "NULL", "left")
    if name in ("rank", "true_rank"):
        return Cell(f"{value:,}", "right")
    if isinstance(value, float):
        return Cell(formats.number(value, spread), "right")
    return Cell(formats.clean(str(value)), "left")
