"""Draws growth charts of the default explanation and its competitors, as SVG files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import altair as alt
import pandas as pd

from benchmarks.explaining import Case

_SERIES = ("default explanation", "GROUPING SETS", "NumPy bincount")


def save_growth(cases: list[Case], path: Path) -> None:
    """Saves a chart of the seconds over the number of rows."""
    _chart(_frame(cases, lambda case: case.rows), "rows, hardly repeating", "Pairs of 7 attributes").save(
        str(path)
    )


def save_predicates(cases: list[Case], path: Path) -> None:
    """Saves charts of seconds over the number of predicates, for rows that hardly repeat and rows that do."""
    charts = []
    for repeats in (False, True):
        part = [case for case in cases if case.repeats == repeats]
        title = "rows repeating" if repeats else "rows hardly repeating"
        charts.append(_chart(_frame(part, lambda case: case.predicates), "predicates", title))
    alt.hconcat(*charts).save(str(path))


def _frame(cases: list[Case], place: Callable[[Case], int]) -> pd.DataFrame:
    timings = [
        (case, dict(zip(_SERIES, (case.timings["auto"], case.bare, case.fastest_bincount), strict=True)))
        for case in cases
    ]
    return pd.DataFrame(
        [
            {"x": place(case), "seconds": timing.seconds, "what": name, "table": case.shape}
            for case, series in timings
            for name, timing in series.items()
        ]
    )


def _chart(frame: pd.DataFrame, x: str, title: str) -> alt.Chart:
    base = alt.Chart(frame, title=title, width=320, height=240)
    return base.mark_line(point=True).encode(
        x=alt.X("x:Q", scale=alt.Scale(type="log"), title=x, axis=alt.Axis(format="~s")),
        y=alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="seconds"),
        color=alt.Color("what:N", sort=list(_SERIES), title=None, scale=alt.Scale(scheme="tableau10")),
        strokeDash=alt.StrokeDash("table:N", title=None),
    )
