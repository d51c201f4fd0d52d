"""The content of a displayed result, wherever it is shown: sentences, tables, and marks per table row.

The modules `views_*` build these; `terminal` and `notebook` draw them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from textwrap import wrap
from typing import Literal

from dpxplain.model.contrast import Verdict
from dpxplain.model.display import Finding

MOST_ROWS = 20
MOST_LINES = 6  # per row label in a chart


@dataclass(frozen=True)
class IntervalMark:
    """An interval with its estimate, drawn on the table's common axis."""

    low: float
    estimate: float
    high: float
    hollow: bool = False  # the interval contains the reference: unclear


@dataclass(frozen=True)
class Axis:
    """The common axis of a table's marks, with a line at `reference` if there is one."""

    low: float
    high: float
    reference: float | None
    labels: tuple[str, str, str]  # at the low end, the reference and the high end

    def place(self, value: float, width: int) -> int:
        """The character column of a value; values outside are drawn at the edge."""
        share = (value - self.low) / (self.high - self.low)
        return round(max(0.0, min(1.0, share)) * (width - 1))


@dataclass(frozen=True)
class TextColumn:
    name: str
    align: Literal["left", "right"] = "left"
    wrap: bool = False  # long texts may take several lines


@dataclass(frozen=True)
class TextGrid:
    """A table of texts."""

    columns: tuple[TextColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[IntervalMark, ...] = ()
    axis: Axis | None = None
    one_line: bool = False  # drop the plot rather than break a cell into lines
    more: str = ""  # what was left out: "… and 480 more groups"
    folded: str = ""  # the rows are folded under this heading: "5 candidates, too noisy to tell"


@dataclass(frozen=True)
class View:
    """One result, top to bottom; `notes` only on request."""

    title: str  # what it is about: in bold, or quietly above a finding
    warning: str = ""
    sql: str = ""
    verdict: Verdict | None = None
    finding: Finding | None = None  # headline and support above the table, the caveat below it
    lead: tuple[str, ...] = ()
    grid: TextGrid | None = None
    further: tuple[TextGrid, ...] = ()  # more tables, if the result has several
    lines: tuple[str, ...] = ()  # quiet, below the table
    notes: tuple[str, ...] = ()
    alt: str = ""  # the chart in words, if the result has one

    @property
    def grids(self) -> tuple[TextGrid, ...]:
        """All tables."""
        return self.further if self.grid is None else (self.grid, *self.further)


_FURTHEST = 1e307  # an axis ends here at the latest: differences of larger numbers may overflow
_NEAREST = 1e-290  # an axis is at least this long: ratios to shorter ones may overflow


@singledispatch
def view(result: object) -> View:
    """The view of a result, by its type; most tables are cut to `MOST_ROWS` rows."""
    raise TypeError(f"There is no view of {type(result).__name__}.")


def span(intervals: Iterable[tuple[float, float]], reference: float | None = None) -> tuple[float, float]:
    """The ends of an axis that shows all intervals, and the reference if there is one.

    Zero joins when it is near: an axis from 0 to 0.45 reads better than one from 0.04 to 0.45.

    >>> span([(2.0, 10.0)]), span([(98.0, 99.0)]), span([(98.0, 99.0)], reference=0.0)
    ((0.0, 10.0), (98.0, 99.0), (0.0, 99.0))
    >>> span([(0.0, 5e-324)]), span([(-1e308, 1.7e308)])
    ((-1.0, 1.0), (-1e+307, 1e+307))
    """
    ends = [end for pair in intervals for end in pair if math.isfinite(end)]
    if reference is not None:
        ends.append(reference)
    ends = [min(max(end, -_FURTHEST), _FURTHEST) for end in ends]
    if not ends:
        return -1.0, 1.0
    low, high = min(ends), max(ends)
    if 0 < low < high / 2:
        low = 0.0
    if low / 2 < high < 0:
        high = 0.0
    if high - low <= _NEAREST:
        margin = abs(low) / 10 if abs(low) > _NEAREST else 1.0
        return low - margin, high + margin
    return low, high


def nice(low: float, high: float) -> tuple[float, float]:
    """The ends moved outwards to round numbers.

    >>> nice(0.0, 0.491), nice(-36.4, 45.8)
    ((0.0, 0.5), (-40.0, 50.0))
    """
    size = 10.0 ** math.floor(math.log10(high - low))
    step = size if (high - low) / size >= 5 else size / 2 if (high - low) / size >= 2 else size / 5
    # Formatting to 12 digits keeps ends such as 0.3 free of rounding errors.
    return tuple(float(f"{f(end / step) * step:.12g}") for f, end in ((math.floor, low), (math.ceil, high)))  # type: ignore[return-value]


def aligned(texts: Iterable[str]) -> list[str]:
    """Numbers padded on the right so that their decimal points stand below each other.

    >>> aligned(["1,234", "0.25"])
    ['1,234\\u2008\\u2007\\u2007', '0.25']
    """
    texts = list(texts)
    tails = [len(text) - text.find(".") if "." in text else 0 for text in texts]
    longest = max(tails, default=0)
    # Figure spaces are as wide as a digit, punctuation spaces as wide as a point, also in HTML.
    return [
        text + ("\u2008" if not tail and longest else "") + "\u2007" * (longest - max(tail, longest and 1))
        for text, tail in zip(texts, tails, strict=True)
    ]


def text_lines(text: str, limit: int) -> list[str]:
    """The text, broken into lines if it is too long; otherwise with its alignment spaces."""
    return [text] if len(text) <= limit else wrap(text, limit)


def label_lines(text: str, limit: int) -> list[str]:
    """A long label in lines, with a break after each condition; cut only beyond MOST_LINES.

    >>> label_lines("family_relationship is Not in universe or children and sex is F", 32)
    ['family_relationship is Not in', 'universe or children and', 'sex is F']
    """
    if len(text) <= limit:
        return [text]
    conditions = text.replace(" and ", " and\n").split("\n")
    lines = [line for condition in conditions for line in wrap(condition, limit) or [""]]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1] + " …"]
