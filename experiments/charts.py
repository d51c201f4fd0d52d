"""The report's two kinds of charts: lines over a sweep, and the intervals of a table."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd


def lines(
    frame: pd.DataFrame,
    x: str,
    y: str,
    colour: str,
    *,
    x_title: str,
    y_title: str,
    facet: str | None = None,
    x_scale: str = "log",
    y_scale: str = "linear",
    goal: float | None = None,
) -> Any:
    """A line per colour, a panel per value of `facet`, and a dashed line at the goal."""
    axis = alt.Axis(format=".3~g", labelOverlap=True, tickCount=4)
    colours = list(dict.fromkeys(frame[colour]))
    chart = (
        alt.Chart()
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{x}:Q", scale=alt.Scale(type=x_scale), title=x_title, axis=axis),
            y=alt.Y(f"{y}:Q", scale=alt.Scale(type=y_scale), title=y_title, axis=axis),
            color=alt.Color(f"{colour}:N", sort=colours, scale=alt.Scale(scheme="tableau10"), title=None),
            shape=alt.Shape(f"{colour}:N", sort=colours, legend=None),
        )
    )
    rules = [] if goal is None else [alt.Chart().mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(goal))]
    needed = [x, y, colour, *([facet] if facet else [])]
    layered = alt.layer(*rules, chart, data=frame[needed])
    if facet is None:
        return layered.properties(width=420, height=240)
    panels = alt.Facet(f"{facet}:N", sort=list(dict.fromkeys(frame[facet])), title=None)
    return layered.properties(width=150, height=130).facet(panels, columns=5)


def intervals(frame: pd.DataFrame, panel: str) -> Any:
    """Relative influence intervals of drawn tables, a panel per table; a tick marks the truth."""
    base = alt.Chart(frame).encode(y=alt.Y("predicate:N", sort="-x", title=None))
    bars = base.mark_bar(height=8, opacity=0.6).encode(
        x=alt.X("low:Q", title="relative influence", axis=alt.Axis(format="%")), x2="high:Q"
    )
    truth = base.mark_tick(color="black", thickness=2, height=14).encode(x="true:Q")
    layered = alt.layer(bars, truth).properties(width=260, height=alt.Step(16))
    panels = alt.Facet(f"{panel}:N", sort=list(dict.fromkeys(frame[panel])), title=None)
    return layered.facet(panels, columns=2).resolve_scale(y="independent")
