"""The curator's view of true values beside released ones: tables of texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpxplain.curator import TruthColumns
from dpxplain.model.display import Record
from dpxplain.render.layout import MOST_ROWS, Column, Grid, View, view
from dpxplain.results.answers import unused
from dpxplain.results.base import Truth
from dpxplain.words import numbers
from dpxplain.words.questions import CURATOR_ONLY

# Left out of an explanation's truth, because another column already says the same.
_LEFT_OUT = (
    *("relative_influence_low", "relative_influence_high", "rank_covered"),
    *("share_removed_low", "share_removed_high", "effect"),
)
_NAMES = {"true_influence": "true influence", "true_rank": "true rank", "influence_covered": "covered"}
_GAPS = ("gap_without_low", "gap_without_high", "true_gap_without", "gap_without_covered")


@view.register
def of_truth(truth: Truth, most: int = MOST_ROWS) -> View:
    grids = truth_grids(truth.rows[:most], numbers.more(len(truth.rows) - most, "row"))
    return View(
        title=truth.title,
        warning=CURATOR_ONLY,
        lead=() if truth.rows else ("There are no rows.",),
        grid=grids[0] if grids else None,
        further=tuple(grids[1:]),
        notes=truth.shaped_by,
        lines=("All rows: to_pandas(), to_csv().",) if len(truth.rows) > most else (),
    )


@dataclass(frozen=True)
class Cell:
    text: str
    align: Literal["left", "right"]


def truth_grids(records: list[Record], more: str = "") -> list[Grid]:
    """One table, and a second one about the gap, so that both have room. No table without rows."""
    if not records:
        return []
    grids = [_grid([truth_cells(record) for record in records], more)]
    if any(_tells_gap(record) for record in records):
        grids.append(_grid([_gap_cells(record) for record in records], more))
    return grids


def _grid(rows: list[dict[str, Cell]], more: str) -> Grid:
    return Grid(
        tuple(Column(numbers.clean(n), cell.align, wrap=cell.align == "left") for n, cell in rows[0].items()),
        tuple(tuple(cell.text for cell in row.values()) for row in rows),
        more=more,
    )


def _tells_gap(record: Record) -> bool:
    return TruthColumns.of(record) is None and record.get(_GAPS[0]) is not None


def _gap_cells(record: Record) -> dict[str, Cell]:
    low, high, true, covered = (record[name] for name in _GAPS)
    known = low is not None
    return {
        "predicate": _cell(record["predicate"]),
        "without them": Cell(numbers.interval(low, high) if known else "unknown", "right"),
        "true value without them": Cell(
            "no rows left" if true is None else numbers.number(true, high - low if known else None), "right"
        ),
        "covered": _covered(covered),
    }


def truth_cells(record: Record) -> dict[str, Cell]:
    """The cells of one row by column heading, without those about the gap."""
    columns = TruthColumns.of(record)
    return _influence_cells(record) if columns is None else _answer_cells(record, columns)


def _answer_cells(record: Record, columns: TruthColumns) -> dict[str, Cell]:
    """
    >>> released = {"sex": "F", "n": 10.04, "low": 9.0, "high": 11.2, "noise_scale": 0.5}
    >>> cells = truth_cells(released | {"true": 10.0, "covered": True})
    >>> {name: cell.text for name, cell in cells.items()}
    {'sex': 'F', 'n': '10.0', 'interval': '9.0 to 11.2', 'true': '10.0', 'covered': 'yes'}
    """
    low, high, true = record[columns.low], record[columns.high], record[columns.true]
    width = None if low is None else high - low  # nothing is known about the average of an empty group
    cells = {name: _cell(record[name], width) for name in columns.selected}
    cells[unused("interval", cells)] = Cell("–" if low is None else numbers.interval(low, high), "right")
    if columns.general is not None:
        ends = (record[name] for name in columns.general)
        cells[unused("in_general", cells)] = Cell(numbers.interval(*ends), "right")
    cells[columns.true] = Cell("-", "left") if true is None else _cell(true, width)
    cells[columns.covered] = _covered(record[columns.covered])
    return cells


def _influence_cells(record: Record) -> dict[str, Cell]:
    """A predicate's true influence and rank, beside the released ones if there are any."""
    cells: dict[str, Cell] = {}
    spread = record["influence_high"] - record["influence_low"] if "influence_low" in record else None
    for name, value in record.items():
        stem = name.removesuffix("_low")
        if name in (*_LEFT_OUT, *_GAPS) or name.endswith("_high"):
            continue
        if name.endswith("_low"):
            ends = value, record[f"{stem}_high"]
            cells[stem] = Cell(numbers.ranks(*ends) if stem == "rank" else numbers.interval(*ends), "right")
        elif name in ("rank", "true_rank"):
            cells[_NAMES.get(name, name)] = Cell(f"{value:,}", "right")
        else:
            cells[_NAMES.get(name, name)] = _cell(value, spread)
    if "influence_covered" in record:
        misses = [n for n in ("influence", "rank") if not record[f"{n}_covered"]]
        cells["covered"] = Cell(f"NO: {' and '.join(misses)}" if misses else "yes", "left")
    return cells


def true_texts(record: Record) -> tuple[str, str]:
    """The true value or influence of a row as text, and the true gap without its rows if there is one."""
    columns = TruthColumns.of(record)
    if columns is not None:
        return truth_cells(record)[columns.true].text, ""
    cells = _influence_cells(record)
    influence = cells["true influence" if "true_influence" in record else "influence"].text
    return influence, _gap_cells(record)["true value without them"].text if _tells_gap(record) else ""


def _covered(covered: bool | None) -> Cell:
    return Cell("-" if covered is None else "yes" if covered else "NO", "left")


def _cell(value: object, spread: float | None = None) -> Cell:
    if value is None:
        return Cell("NULL", "left")
    if isinstance(value, float):
        return Cell(numbers.number(value, spread), "right")
    return Cell(numbers.clean(str(value)), "left")
