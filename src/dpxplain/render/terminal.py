"""Results in a terminal: aligned tables with a small forest plot in text."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Sequence
from itertools import pairwise

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpxplain.model.charge import Entry
from dpxplain.model.contrast import Verdict
from dpxplain.render.layout import Axis, IntervalMark, TextGrid, View
from dpxplain.render.views import of_history, view_of

NARROWEST, WIDEST, USUAL = 60, 120, 100
_PLOT = (12, 40)  # the narrowest and the widest
_WRAPPED = (14, 26)  # a column that wraps: as narrow as its longest word, within these
_GAP = 3  # between two columns

# Verdicts differ in shape too, and the headline says them in words.
_BADGES = {
    Verdict.REAL: ("●", "bold cyan"),
    Verdict.UNCLEAR: ("○", "bold yellow"),
    Verdict.REVERSED: ("◆", "bold magenta"),
}


def renderable(result: object, *, notes: bool = False, hint: str = "") -> RenderableType:
    """Any result, for Rich to print; `hint` tells how to see notes that are not shown."""
    return _Renderable(view_of(result), notes=notes, hint=hint)


def history_table(entries: Sequence[Entry]) -> RenderableType:
    """A history with all of its lines."""
    return _Renderable(of_history(list(entries), most=len(entries)))


def as_text(result: object) -> str:
    """Any result as plain text without colour codes, as wide as the terminal."""
    width = max(NARROWEST, min(WIDEST, shutil.get_terminal_size((USUAL, 40)).columns))
    file = io.StringIO()
    # Explicit about everything Rich would guess from the environment (FORCE_COLOR, Jupyter, CI).
    console = Console(
        file=file,
        width=width,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        force_interactive=False,
        highlight=False,
        legacy_windows=False,
    )
    console.print(renderable(result, hint="More: .finding.notes"))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip("\n")


class _Renderable:
    """A view, laid out when the width is known."""

    def __init__(self, content: View, *, notes: bool = False, hint: str = "") -> None:
        self.content = content
        self.notes = notes
        self.hint = hint

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDEST)
        parts = _parts(self.content, width, notes=self.notes, hint=self.hint)
        yield Padding(Group(*parts), (0, 0, 0, 0), expand=False)


def _parts(content: View, width: int, *, notes: bool, hint: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if content.warning:
        parts += [Text(f" {content.warning} ", "bold white on red"), Text("")]
    parts += _opening(content)
    # A quiet line about the table stands right below it: findings are to fit in few lines.
    is_close = bool(content.lines) and content.finding is not None
    for position, grid in enumerate(content.grids, 1):
        if grid.folded and not notes:
            if content.finding is not None:  # elsewhere the heading alone would tell nothing
                blank = [] if isinstance(parts[-1], Padding) else [Text("")]
                parts += [*blank, Text(f"  ▸ {grid.folded}", "italic"), Text("")]
            continue
        below = 0 if is_close and position == len(content.grids) and not grid.more else 1
        parts.append(Padding(_table(grid, width), (1, 0, below, 1), expand=False))
        if grid.more:
            parts += [Text(f"  {grid.more}", "italic"), Text("")]
    parts += [Text(line, "dim") for line in content.lines]
    if content.finding is not None and content.finding.caveat:
        more = f"  {hint}" if hint and content.notes and not notes else ""
        parts.append(Text(f"{content.finding.caveat}{more}", "dim"))
    if notes and content.notes:
        parts += [Text(""), Text("Notes", "bold"), *(Text(f"- {note}", "dim") for note in content.notes)]
    # Titles and sentences are wrapped at a width that the eye can follow.
    return [
        part if isinstance(part, Padding) else Padding(part, (0, max(0, width - USUAL), 0, 0))
        for part in parts
    ]


def _opening(content: View) -> list[RenderableType]:
    """Title, finding and lead: of a finding the headline is in bold, with the verdict's sign before it."""
    finding = content.finding
    parts: list[RenderableType] = [Text(content.title, "bold" if finding is None else "dim")]
    if content.sql:
        parts.append(Text(content.sql, "dim"))
    if finding is not None:
        sign, style = _BADGES[content.verdict] if content.verdict is not None else ("", "")
        headline = Text.assemble((f"{sign} ", style) if sign else "", (finding.headline, "bold"))
        parts += [headline, *([Text(finding.support)] if finding.support else [])]
    parts += [Text(text) for text in content.lead]
    return parts


def _table(grid: TextGrid, width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1), header_style="bold", border_style="dim")
    widths, plot = fit(grid, width)
    # Ranks read best to the right of the plot, everything else to its left.
    has_ranks = bool(grid.columns) and grid.columns[-1].name.startswith("rank of ")
    position = len(widths) - 1 if has_ranks else len(widths)
    for column, room in zip(grid.columns, widths, strict=True):
        table.add_column(Text(column.name), justify=column.align, width=room, overflow="fold")
    if plot and grid.axis is not None:
        table.add_column(Text(axis_header(grid.axis, plot), "dim"), width=plot, no_wrap=True)
        table.columns.insert(position, table.columns.pop())
    for index, row in enumerate(grid.rows):
        cells: list[RenderableType] = [Text(text) for text in row]
        if plot and grid.axis is not None:
            cells.insert(position, _styled_mark(grid.marks[index], grid.axis, plot))
        table.add_row(*cells)
    return table


def fit(grid: TextGrid, width: int) -> tuple[list[int], int]:
    """The width of each column and of the plot.

    When space is short, headers wrap first, then the cells that may; the plot goes last of all, unless
    the grid prefers its cells in one line.
    """
    columns = list(zip(*grid.rows, strict=True)) or [() for _ in grid.columns]
    cells = [max(map(cell_len, column), default=0) for column in columns]
    names = [(cell_len(c.name), max(map(cell_len, c.name.split()), default=0)) for c in grid.columns]
    natural = [max(cell, name) for cell, (name, _) in zip(cells, names, strict=True)]
    headers_wrapped = [max(cell, word) for cell, (_, word) in zip(cells, names, strict=True)]
    words = [max((cell_len(w) for text in column for w in text.split()), default=0) for column in columns]
    smallest = [
        min(room, max(_WRAPPED[0], min(word, _WRAPPED[1]))) if column.wrap else room
        for room, word, column in zip(headers_wrapped, words, grid.columns, strict=True)
    ]
    space = width - 1 - _GAP * len(natural)
    needed = sum(headers_wrapped if grid.one_line else smallest) + _GAP + _PLOT[0]
    plot = _GAP + _PLOT[0] if grid.marks and needed <= space else 0
    widths = _shrunk(_shrunk(natural, headers_wrapped, space - plot), smallest, space - plot)
    return widths, min(_PLOT[1], space - sum(widths) - _GAP) if plot else 0


def _shrunk(widths: list[int], smallest: list[int], space: int) -> list[int]:
    """The widths, the widest narrowed first, until they fit or are the smallest."""
    widths = list(widths)
    while sum(widths) > space:
        widest = max(range(len(widths)), key=lambda i: (widths[i] > smallest[i], widths[i]), default=None)
        if widest is None or widths[widest] <= smallest[widest]:
            break
        widths[widest] -= 1
    return widths


def axis_header(axis: Axis, width: int) -> str:
    """The axis labels above the plot: both ends, and the reference if it has room.

    >>> axis_header(Axis(-1.0, 1.0, 0.0, ("-1", "0", "1")), 15)
    '-1     0      1'
    """
    low, middle, high = axis.labels
    line = low.ljust(width - len(high)) + high
    if middle and axis.reference is not None:
        start = axis.place(axis.reference, width) - (len(middle) - 1) // 2
        end = start + len(middle)
        if start > len(low) and end < width - len(high):
            line = line[:start] + middle + line[end:]
    return line[:width]


def mark_line(mark: IntervalMark, axis: Axis, width: int) -> str:
    """One interval in text, on the common axis.

    >>> mark_line(IntervalMark(0.4, 0.6, 0.8), Axis(0.0, 1.0, 0.0, ("0", "", "1")), 21)
    '┃       ├───●───┤    '
    >>> mark_line(IntervalMark(-0.5, 0.1, 0.5, hollow=True), Axis(-1.0, 1.0, 0.0, ("-1", "0", "1")), 21)
    '     ├────┃○───┤     '
    """
    line = [" "] * width
    low, dot, high = (axis.place(value, width) for value in (mark.low, mark.estimate, mark.high))
    if high - low > 1:  # a shorter one disappears behind its dot
        line[low : high + 1] = "─" * (high + 1 - low)
        line[low] = "├" if math.isfinite(mark.low) else "◄"
        line[high] = "┤" if math.isfinite(mark.high) else "►"
    if axis.reference is not None:
        line[axis.place(axis.reference, width)] = "┃"
    line[dot] = "○" if mark.hollow else "●"
    return "".join(line)


def _styled_mark(mark: IntervalMark, axis: Axis, width: int) -> Text:
    line = mark_line(mark, axis, width)
    reference = axis.reference or 0.0
    style = "yellow" if mark.hollow else "magenta" if mark.high < reference else "cyan"
    text = Text(line, style, no_wrap=True)
    # The reference line keeps its own weight where an interval crosses it.
    for start, end in pairwise([*(i for i, c in enumerate(line) if c == "┃"), width]):
        text.stylize("bold default", start, min(end, start + 1))
    return text
