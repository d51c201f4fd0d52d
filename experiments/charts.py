"""The two kinds of charts of the report: lines over a sweep, and intervals of a table."""

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
    log_x: bool = True,
    log_y: bool = False,
    goal: float | None = None,
) -> Any:
    """One line per colour, one panel per value of `facet`."""
    axis = alt.Axis(format="~g", labelOverlap=True)
    chart = (
        alt.Chart(frame)
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{x}:Q", scale=alt.Scale(type="log" if log_x else "linear"), title=x_title, axis=axis),
            y=alt.Y(
                f"{y}:Q", scale=alt.Scale(type="symlog" if log_y else "linear"), title=y_title, axis=axis
            ),
            color=alt.Color(f"{colour}:N", sort=None, scale=alt.Scale(scheme="tableau10"), title=None),
            shape=alt.Shape(f"{colour}:N", sort=None, title=None),
        )
        .properties(width=150 if facet else 420, height=130 if facet else 240)
    )
    if goal is not None:
        rule = alt.Chart(frame).mark_rule(strokeDash=[4, 3], color="grey").encode(y=alt.datum(goal))
        chart = alt.layer(rule, chart)
    return chart.facet(alt.Facet(f"{facet}:N", sort=None, title=None), columns=5) if facet else chart


def intervals(frame: pd.DataFrame, panel: str) -> Any:
    """Relative influence intervals of drawn tables, the truth as a tick, one panel per table."""
    base = alt.Chart(frame).encode(y=alt.Y("predicate:N", sort="-x", title=None))
    bars = base.mark_bar(height=8, opacity=0.6).encode(
        x=alt.X("low:Q", title="relative influence", axis=alt.Axis(format="%")), x2="high:Q"
    )
    truth = base.mark_tick(color="black", thickness=2, height=14).encode(x="true:Q")
    layered = alt.layer(bars, truth).properties(width=260, height=alt.Step(16))
    return layered.facet(alt.Facet(f"{panel}:N", sort=None, title=None), columns=2).resolve_scale(
        y="independent"
    )
